import os

import pytest

from dpgm.privacy import cache


def test_what_is_kept_is_recalled():
    assert cache.recall(["a", 1.5]) is None
    cache.keep(["a", 1.5], [1.0, "x", None])
    assert cache.recall(["a", 1.5]) == [1.0, "x", None]
    assert cache.recall(["a", 1.6]) is None


def test_a_folder_that_cannot_be_written_is_no_error(tmp_path, monkeypatch):
    blocked = tmp_path / "file"
    blocked.write_text("")
    monkeypatch.setenv("DPGM_CACHE", str(blocked / "inside"))
    cache.keep("key", 1)
    assert cache.recall("key") is None


def test_a_full_disk_is_no_error_and_leaves_nothing_behind(tmp_path, monkeypatch):
    def fail(*_):
        raise OSError("disk full")

    monkeypatch.setattr(os, "replace", fail)
    cache.keep("key", 1)
    assert list((tmp_path / "cache").iterdir()) == []
    assert cache.recall("key") is None


def test_a_huge_entry_is_not_read(tmp_path, monkeypatch):
    cache.keep("key", 1)
    monkeypatch.setattr(cache, "_LARGEST", 3)
    assert cache.recall("key") is None


def test_the_users_cache_folder_is_the_default(tmp_path, monkeypatch):
    monkeypatch.delenv("DPGM_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    cache.keep("key", 1)
    assert len(list((tmp_path / "xdg" / "dpgm").iterdir())) == 1


def test_another_version_does_not_see_the_entry(monkeypatch):
    cache.keep("key", 1)
    monkeypatch.setattr(cache, "__version__", "999")
    assert cache.recall("key") is None


def test_a_package_that_is_absent_has_a_version_too():
    assert cache._installed("no-such-package-anywhere") == "absent"


@pytest.mark.parametrize("key", [["a"], {"b": 1}, "c"])
def test_any_json_value_is_a_key(key):
    cache.keep(key, True)
    assert cache.recall(key) is True
