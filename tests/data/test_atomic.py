"""Outputs appear complete or not at all."""

import errno
import os

import pytest

from dpgm.data.atomic import atomic_file, atomic_folder, check_output, remove_leftovers
from dpgm.errors import DiskError, InputError, UsageError
from dpgm.synthesis.release import check_target


def test_a_file_appears_only_when_the_block_ends(tmp_path):
    target = tmp_path / "out.txt"
    with atomic_file(target) as temporary:
        temporary.write_text("hello")
        assert not target.exists()
        assert temporary.parent == tmp_path
        assert temporary.stat().st_mode & 0o077 == 0
    assert target.read_text() == "hello"
    assert os.listdir(tmp_path) == ["out.txt"]


def test_an_error_leaves_the_old_file_and_nothing_else(tmp_path):
    target = tmp_path / "out.txt"
    target.write_text("old")

    def fail_half_way():
        with atomic_file(target) as temporary:
            temporary.write_text("half")
            raise InputError("bad")

    with pytest.raises(InputError):
        fail_half_way()
    assert target.read_text() == "old"
    assert os.listdir(tmp_path) == ["out.txt"]


def test_an_existing_file_is_refused_without_force(tmp_path):
    target = tmp_path / "out.txt"
    target.write_text("old")
    with pytest.raises(DiskError, match="exists already"), atomic_file(target, force=False):
        pass
    assert target.read_text() == "old"


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EROFS, errno.EDQUOT, errno.EIO])
def test_a_fault_of_the_disk_is_one_sentence_that_names_the_file(tmp_path, code):
    with pytest.raises(DiskError, match=r"out\.txt: cannot be written: .*\.$"), atomic_file(tmp_path / "out.txt"):
        raise OSError(code, os.strerror(code))
    assert os.listdir(tmp_path) == []


def test_a_missing_folder_and_a_folder_in_the_way_are_refused(tmp_path):
    with pytest.raises(DiskError, match="its folder does not exist"), atomic_file(tmp_path / "no" / "out.txt"):
        pass
    with pytest.raises(DiskError, match="a folder of that name"), atomic_file(tmp_path):
        pass


def test_the_rename_failing_leaves_nothing(tmp_path, monkeypatch):
    def no_space(*_):
        raise OSError(errno.ENOSPC, "")

    monkeypatch.setattr(os, "replace", no_space)
    with pytest.raises(DiskError, match="disk is full"), atomic_file(tmp_path / "out.txt") as temporary:
        temporary.write_text("x")
    assert os.listdir(tmp_path) == []


def test_a_folder_appears_whole(tmp_path):
    target = tmp_path / "release"
    with atomic_folder(target) as temporary:
        (temporary / "a").write_text("a")
        (temporary / "sub").mkdir()
        (temporary / "sub" / "b").write_text("b")
        assert not target.exists()
    assert (target / "sub" / "b").read_text() == "b"
    assert os.listdir(tmp_path) == ["release"]


def test_an_existing_folder_is_refused_and_with_force_replaced(tmp_path):
    target = tmp_path / "release"
    target.mkdir()
    (target / "old").write_text("old")
    with pytest.raises(DiskError, match="exists already"), atomic_folder(target):
        pass
    with pytest.raises(KeyError), atomic_folder(target, force=True):
        raise KeyError
    assert (target / "old").exists()
    with atomic_folder(target, force=True) as temporary:
        (temporary / "new").write_text("new")
    assert os.listdir(target) == ["new"]
    assert os.listdir(tmp_path) == ["release"]


def test_a_full_disk_inside_a_folder_names_the_folder_the_user_gave(tmp_path):
    target = tmp_path / "release"
    full = pytest.raises(DiskError, match=r"release: cannot be written: the disk is full")
    with full as caught, atomic_folder(target) as temporary, atomic_file(temporary / "model.bin"):
        raise OSError(errno.ENOSPC, "No space left on device")
    assert ".tmp-" not in str(caught.value)
    assert list(tmp_path.iterdir()) == []


# -- leftovers of killed processes ----------------------------------------------------------------------------------


def test_the_next_writer_removes_what_a_killed_one_left_and_nothing_else(tmp_path):
    (tmp_path / "out.tmp-0123456789ab").write_text("half")
    (tmp_path / "out.tmp-0123456789ac").mkdir()
    (tmp_path / "out.tmp-0123456789ac" / "file").write_text("half")
    kept = {"out.tmp-notes", "other.tmp-0123456789ab", "out.tmp-0123456789ab.txt"}
    for name in kept:
        (tmp_path / name).write_text("mine")
    with atomic_file(tmp_path / "out") as temporary:
        temporary.write_text("whole")
    assert set(os.listdir(tmp_path)) == kept | {"out"}


def test_what_another_process_is_writing_is_left_alone(tmp_path):
    with atomic_file(tmp_path / "out") as first:
        first.write_text("first")
        with atomic_file(tmp_path / "out") as second:
            second.write_text("second")
        assert first.exists()
    assert (tmp_path / "out").read_text() == "first"
    with atomic_folder(tmp_path / "folder") as first, atomic_folder(tmp_path / "folder", force=True):
        assert first.exists()


def test_an_old_output_that_was_moved_aside_comes_back(tmp_path):
    """After a kill between the two renames of a forced replacement, the old output is the latest complete one."""
    (tmp_path / "release.old-0123456789ab").mkdir()
    (tmp_path / "release.old-0123456789ab" / "file").write_text("old")
    remove_leftovers(tmp_path / "release")
    assert os.listdir(tmp_path) == ["release"]
    assert (tmp_path / "release" / "file").read_text() == "old"
    (tmp_path / "release.old-0123456789ab").mkdir()
    remove_leftovers(tmp_path / "release")
    assert os.listdir(tmp_path) == ["release"]


def test_the_message_about_an_existing_output_names_the_options_of_command_line_and_python(tmp_path):
    (tmp_path / "r.dat").write_text("old")
    for check in (check_output, check_target):
        with pytest.raises(UsageError, match=r"exists already.*`force=True`"):
            check(tmp_path / "r.dat", force=False)
