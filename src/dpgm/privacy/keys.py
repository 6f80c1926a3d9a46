"""Pairs of keys, as PEM files that OpenSSL reads as well: Ed25519 to sign releases, X25519 to seal sums of parts.

A certificate alone can be checked for consistency by anyone, and could have been written by anyone. A signature
(`attestation.py`) says who vouches for it: whoever holds the private key. What is sealed (`sealing.py`) can be read by
nobody else than the holder of the private key.
"""

import hashlib
import os
import stat
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from dpgm.errors import ArtefactError, DiskError, UsageError
from dpgm.privacy.untrusted_files import read_bytes

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey

PRIVATE_ENDING, PUBLIC_ENDING = ".key", ".pub"
Purpose: TypeAlias = Literal["sign", "seal"]
_LARGEST_KEY = 4096  # bytes of a PEM file
_COMMANDS: dict[Purpose, str] = {"sign": "`dpgm keys create`", "seal": "`dpgm keys create --seal`"}


def create_keys(name: str | Path, purpose: Purpose = "sign") -> tuple[Path, Path]:
    """Make a pair of keys: NAME.key, which only its owner may read, and NAME.pub, which anyone may have.

    Raises:
        UsageError: one of the files exists already; a key is never replaced.
        DiskError: they cannot be written.
    """
    from cryptography.hazmat.primitives import serialization

    stem = str(name).removesuffix(PRIVATE_ENDING)  # `office.key` is the private one of the pair `office`
    private, public = (Path(f"{stem}{ending}") for ending in (PRIVATE_ENDING, PUBLIC_ENDING))
    for path in (private, public):
        if os.path.lexists(path):
            raise UsageError(f"{path} exists already, and keys are never replaced; choose another name.")
    key = _kinds(purpose)[0].generate()
    secret = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    shown = key.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    _write_new(private, secret, 0o600)
    try:
        _write_new(public, shown, 0o644)
    except DiskError:
        private.unlink()
        raise
    return private, public


def read_private_key(path: Path | str) -> "Ed25519PrivateKey":
    """The key of NAME.key with which releases are signed; refused if others may read it."""
    key: Ed25519PrivateKey = _read_private(Path(path), "sign")
    return key


def read_public_key(path: Path | str) -> "Ed25519PublicKey":
    """The key of NAME.pub with which signatures are checked."""
    key: Ed25519PublicKey = _read_public(Path(path), "sign")
    return key


def read_unsealing_key(path: Path | str) -> "X25519PrivateKey":
    """The key of NAME.key with which sums of parts are read; refused if others may read it."""
    key: X25519PrivateKey = _read_private(Path(path), "seal")
    return key


def read_sealing_key(path: Path | str) -> "X25519PublicKey":
    """The key of NAME.pub to which sums of parts are sealed."""
    key: X25519PublicKey = _read_public(Path(path), "seal")
    return key


def _kinds(purpose: Purpose) -> tuple[Any, Any]:
    """The classes of private and public keys for a purpose."""
    from cryptography.hazmat.primitives.asymmetric import ed25519, x25519

    if purpose == "sign":
        return ed25519.Ed25519PrivateKey, ed25519.Ed25519PublicKey
    return x25519.X25519PrivateKey, x25519.X25519PublicKey


def _read_private(path: Path, purpose: Purpose) -> Any:
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    content = _key_bytes(path)
    try:
        key = load_pem_private_key(content, None)
    except (ValueError, TypeError):  # TypeError: it has a passphrase
        verb = "sign with" if purpose == "sign" else "name"
        advice = f"{verb} the .key file of the pair" if b"PUBLIC KEY" in content else "name the .key file"
        raise UsageError(f"{path} is not a private key made by {_COMMANDS[purpose]}; {advice}.") from None
    if not isinstance(key, _kinds(purpose)[0]):
        raise UsageError(f"{path} is a key of another kind; make one with {_COMMANDS[purpose]}.")
    if stat.S_IMODE(path.stat().st_mode) & 0o077:
        raise UsageError(f"{path}: others on this machine may read this key; run `chmod 600 {path}` first.")
    return key


def _read_public(path: Path, purpose: Purpose) -> Any:
    from cryptography.hazmat.primitives.serialization import load_pem_public_key

    try:
        key = load_pem_public_key(_key_bytes(path))
    except ValueError:
        raise UsageError(f"{path} is not a public key made by {_COMMANDS[purpose]}; name the .pub file.") from None
    if not isinstance(key, _kinds(purpose)[1]):
        raise UsageError(f"{path} is a key of another kind; make one with {_COMMANDS[purpose]}.")
    return key


def key_fingerprint(key: "Ed25519PublicKey") -> str:
    """A short name of a public key, to compare over the telephone."""
    return hashlib.sha256(key.public_bytes_raw()).hexdigest()[:16]


def _key_bytes(path: Path) -> bytes:
    try:
        return read_bytes(path.resolve(), _LARGEST_KEY)
    except ArtefactError as error:
        raise UsageError(str(error)) from None


def _write_new(path: Path, content: bytes, mode: int) -> None:
    made = False
    try:
        handle = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_NOFOLLOW, mode)
        made = True
        with os.fdopen(handle, "wb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
    except OSError as error:
        if made:
            with suppress(OSError):
                path.unlink()
        raise DiskError(f"{path}: cannot be written: {(error.strerror or 'a fault').lower()}.") from error
