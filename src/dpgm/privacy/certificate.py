"""Check a release folder from the outside: every file, every mechanism, the epsilon recomputed.

Nothing is believed: epsilon is computed anew from the mechanisms listed, the files are hashed anew, and the folder
must hold exactly the files the certificate names. Hostile folders are expected: no link is followed, no name leaves
the folder, nothing is parsed above a size cap.
"""

import hashlib
import os
import re
import stat
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from dpgm.errors import ArtefactError, DpgmError
from dpgm.privacy.accountant import cost
from dpgm.privacy.certificate_format import CERTIFICATE_NAME, LARGEST_CERTIFICATE, Certificate, LedgerMark

__all__ = [
    "CERTIFICATE_NAME",
    "Certificate",
    "Check",
    "LedgerMark",
    "Verification",
    "read_certificate",
    "sha256_of",
    "verify_release",
]

# Accountants of other versions discretise a little differently; a promise may differ by no more than that.
EPSILON_SLACK = 1e-4
# A certificate states what its mechanisms cost. One that states much more has lost a mechanism.
EPSILON_EXCESS = 1e-2

_PLAIN_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_ALLOWED_ENDINGS = (".safetensors", ".json", ".md")


@dataclass(frozen=True)
class Check:
    """One named check, whether it held, and why not."""

    name: str
    ok: bool
    why: str = ""


@dataclass(frozen=True)
class Verification:
    """All checks of one release."""

    certificate: Certificate
    checks: tuple[Check, ...]
    epsilon: float

    @property
    def ok(self) -> bool:
        """Whether every check held."""
        return all(check.ok for check in self.checks)

    @property
    def failed(self) -> tuple[Check, ...]:
        """The checks that did not hold."""
        return tuple(check for check in self.checks if not check.ok)


def sha256_of(path: Path | str) -> str:
    """SHA-256 of a regular file, read in blocks; a link or a device is refused."""
    digest = hashlib.sha256()
    with os.fdopen(_open_regular(Path(path)), "rb") as stream:
        while block := stream.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def read_certificate(folder: Path | str) -> Certificate:
    """The certificate of a release folder; raises ArtefactError if there is none that can be read."""
    folder = Path(folder)
    if not folder.is_dir():
        raise ArtefactError(f"{folder} is not a release folder.")
    path = folder / CERTIFICATE_NAME
    with os.fdopen(_open_regular(path), "rb") as stream:
        raw = stream.read(LARGEST_CERTIFICATE + 1)
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError:
        raise ArtefactError(f"{path} is not UTF-8 text.") from None
    return Certificate.from_json(text)


def verify_release(folder: Path | str) -> Verification:
    """Check a release folder against its certificate.

    Returns:
        every check with its outcome; a check that does not hold is reported, not raised.

    Raises:
        ArtefactError: the certificate cannot be read at all.
    """
    folder = Path(folder)
    certificate = read_certificate(folder)
    recomputed, accounting = _epsilon_checks(certificate)
    checks = (
        *accounting,
        _same_mechanisms(certificate),
        _private_randomness(certificate),
        _plain_names(certificate),
        _folder_listing(folder, certificate),
        *(_hash_check(folder, name, digest) for name, digest in sorted(certificate.files.items())),
    )
    return Verification(certificate, checks, recomputed)


def _epsilon_checks(certificate: Certificate) -> tuple[float, tuple[Check, ...]]:
    try:
        recomputed = cost(certificate.mechanisms, certificate.delta, certificate.adjacency, cache=False).epsilon
    except DpgmError as error:
        return float("inf"), (Check("epsilon", False, f"the mechanisms cannot be costed: {error}"),)
    stated = certificate.epsilon
    floor = recomputed * (1 - EPSILON_SLACK) - 1e-6
    ceiling = recomputed * (1 + EPSILON_EXCESS) + 1e-3
    return recomputed, (
        Check(
            "epsilon",
            stated >= floor,
            "" if stated >= floor else f"it states {stated:.6g}, its mechanisms cost {recomputed:.6g}",
        ),
        Check(
            "mechanisms complete",
            stated <= ceiling,
            ""
            if stated <= ceiling
            else f"it states {stated:.6g}, but the mechanisms listed cost only {recomputed:.6g}: one is missing",
        ),
    )


def _same_mechanisms(certificate: Certificate) -> Check:
    planned, ran = Counter(certificate.planned), Counter(certificate.mechanisms)
    missing = [mechanism.name for mechanism in (planned - ran)]
    extra = [mechanism.name for mechanism in (ran - planned)]
    if missing:
        return Check("plan equals run", False, f"the mechanism {missing[0]!r} of the plan is missing or differs")
    if extra:
        return Check("plan equals run", False, f"the mechanism {extra[0]!r} is not in the plan")
    if not ran:
        return Check("plan equals run", False, "no mechanism is listed")
    return Check("plan equals run", True)


def _private_randomness(certificate: Certificate) -> Check:
    why = "" if certificate.private else "the run was seeded or otherwise marked NOT PRIVATE"
    return Check("private randomness", certificate.private, why)


def _plain_names(certificate: Certificate) -> Check:
    for name in certificate.files:
        plain = _PLAIN_NAME.fullmatch(name) and name.endswith(_ALLOWED_ENDINGS) and name != CERTIFICATE_NAME
        if not plain or ".." in name:
            return Check("file names", False, f"{name[:60]!r} is not a plain file name of a release")
    return Check("file names", True)


def _folder_listing(folder: Path, certificate: Certificate) -> Check:
    expected = {CERTIFICATE_NAME, *certificate.files}
    found = {entry.name for entry in os.scandir(folder)}
    extra, missing = sorted(found - expected), sorted(expected - found)
    if extra:
        return Check("folder listing", False, f"{extra[0][:60]!r} is not named in the certificate")
    if missing:
        return Check("folder listing", False, f"{missing[0][:60]!r} is missing")
    return Check("folder listing", True)


def _hash_check(folder: Path, name: str, digest: str) -> Check:
    label = f"sha256 of {name[:60]}"
    if not _PLAIN_NAME.fullmatch(name) or ".." in name:
        return Check(label, False, "the name leaves the folder; the file was not opened")
    try:
        same = sha256_of(folder / name) == digest
    except ArtefactError as error:
        return Check(label, False, str(error))
    return Check(label, same, "" if same else "the file was changed after the certificate was written")


def _open_regular(path: Path) -> int:
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError as error:
        raise ArtefactError(f"{path} cannot be read: {error.strerror}.") from None
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise ArtefactError(f"{path} is not a regular file.")
    return handle
