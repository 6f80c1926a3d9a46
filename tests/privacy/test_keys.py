"""Keys: made once, and kept private."""

import os

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from dpgm.cli.app import load_commands, run
from dpgm.errors import DiskError, UsageError
from dpgm.privacy import keys as module
from dpgm.privacy.keys import create_keys, key_fingerprint, read_private_key, read_public_key

load_commands()


@pytest.fixture
def keys(tmp_path):
    return create_keys(tmp_path / "office")


def test_keys_are_made_once_and_the_private_one_is_private(tmp_path, keys):
    private, public = keys
    assert (private.name, public.name) == ("office.key", "office.pub")
    assert private.stat().st_mode & 0o777 == 0o600
    assert read_private_key(private).public_key() == read_public_key(public)
    assert len(key_fingerprint(read_public_key(public))) == 16
    with pytest.raises(UsageError, match="never replaced"):
        create_keys(tmp_path / "office")
    private.unlink()
    with pytest.raises(UsageError, match="never replaced"):
        create_keys(tmp_path / "office")
    assert not private.exists()


def test_the_command_makes_them(tmp_path, capsys):
    assert run(["keys", "create", str(tmp_path / "a")]) == 0
    assert "fingerprint" in capsys.readouterr().out
    assert run(["keys", "create", str(tmp_path / "a")]) == 2
    assert run(["keys", "create", str(tmp_path / "nowhere" / "a")]) == 2
    assert "E-DISK" in capsys.readouterr().err


def test_half_a_pair_is_never_left(tmp_path, monkeypatch):
    fsync = os.fsync
    calls = []

    def full(handle):
        calls.append(handle)
        if len(calls) == 2:
            raise OSError(28, "No space left on device")
        fsync(handle)

    monkeypatch.setattr(module.os, "fsync", full)
    with pytest.raises(DiskError, match="no space"):
        create_keys(tmp_path / "a")
    assert list(tmp_path.iterdir()) == []


def test_a_key_that_others_may_read_is_refused(keys):
    keys[0].chmod(0o640)
    with pytest.raises(UsageError, match="chmod 600"):
        read_private_key(keys[0])


def test_files_that_are_no_keys_are_refused(tmp_path, keys):
    odd = tmp_path / "odd"
    odd.write_bytes(b"no key")
    odd.chmod(0o600)
    other = X25519PrivateKey.generate()
    private, public = tmp_path / "x.key", tmp_path / "x.pub"
    pem = serialization.Encoding.PEM
    private.write_bytes(other.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()))
    private.chmod(0o600)
    public.write_bytes(other.public_key().public_bytes(pem, serialization.PublicFormat.SubjectPublicKeyInfo))
    locked = tmp_path / "locked.key"
    secret = serialization.BestAvailableEncryption(b"secret")
    locked.write_bytes(read_private_key(keys[0]).private_bytes(pem, serialization.PrivateFormat.PKCS8, secret))
    locked.chmod(0o600)
    for path in (odd, private, locked, keys[1], tmp_path / "absent", tmp_path):
        if path.is_file():
            path.chmod(0o600)
        with pytest.raises(UsageError):
            read_private_key(path)
    for path in (odd, public, keys[0], tmp_path / "absent"):
        with pytest.raises(UsageError):
            read_public_key(path)


def test_a_wrong_file_is_told_before_anything_about_its_rights(tmp_path, keys):
    other = tmp_path / "table.csv"
    other.write_text("a,b\n")
    for path, advice in ((keys[1], r"sign with the \.key file of the pair"), (other, r"name the \.key file")):
        path.chmod(0o644)
        with pytest.raises(UsageError, match=advice):
            read_private_key(path)
    keys[0].chmod(0o644)
    with pytest.raises(UsageError, match="chmod 600"):
        read_private_key(keys[0])


def test_a_pair_may_be_named_by_its_private_key(tmp_path):
    assert [path.name for path in create_keys(tmp_path / "shop.key")] == ["shop.key", "shop.pub"]
