"""What of a release can be checked by its certificate and its bytes alone, without opening the generator.

Nothing is believed: epsilon is computed anew from the mechanisms listed, the files are hashed anew, and the folder
must hold exactly the files a release has. Hostile folders are expected: no link is followed, no name leaves the
folder, nothing is parsed above a size cap. `dpgm.synthesis.verification` puts these checks and those of the domain,
the README and the generator together.
"""

import hashlib
import os
import stat
import warnings
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from dpgm import validation
from dpgm.errors import ArtefactError, DpgmError, PrivacyWarning
from dpgm.privacy.accountant import cost
from dpgm.privacy.certificate import CERTIFICATE_NAME, LARGEST_CERTIFICATE, Certificate
from dpgm.privacy.events import Adjacency

# Accountants of other versions discretise a little differently; a promise may differ by no more than that.
EPSILON_SLACK = 1e-4
# A certificate states what its mechanisms cost. One that states much more has lost a mechanism.
EPSILON_EXCESS = 1e-3
# Bytes of any file of a release; a larger one is not even hashed, since that could take hours.
LARGEST_FILE = 2**31
_MOST_NAMES = 100  # of a folder are listed; a release has five

SIGNATURE_NAME = "certificate.sig"


@dataclass(frozen=True)
class Check:
    """One named check, whether it held, and why not."""

    name: str
    ok: bool
    why: str = ""


@dataclass(frozen=True)
class Verification:
    """All checks of one release.

    `epsilon` is what the mechanisms cost, computed anew (infinite where that could not be done); `warnings` say what
    holds and is weak all the same.
    """

    certificate: Certificate
    checks: tuple[Check, ...]
    epsilon: float
    warnings: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether every check held."""
        return all(check.ok for check in self.checks)

    @property
    def failed(self) -> tuple[Check, ...]:
        """The checks that did not hold."""
        return tuple(check for check in self.checks if not check.ok)


def sha256_of(path: Path | str) -> str:
    """SHA-256 of a regular file, read in blocks; a link, a device or a file too large is refused."""
    digest = hashlib.sha256()
    with os.fdopen(_open_regular(Path(path)), "rb") as stream:
        _check_size(path, stream.fileno(), LARGEST_FILE)
        while block := stream.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def read_certificate(folder: Path | str) -> Certificate:
    """The certificate of a release folder; raises ArtefactError if there is none that can be read."""
    folder = Path(folder)
    if not folder.is_dir():
        raise ArtefactError(f"{folder} is not a release folder.")
    return Certificate.from_json(read_text(folder / CERTIFICATE_NAME, LARGEST_CERTIFICATE))


def read_text(path: Path, at_most: int) -> str:
    """The text of a regular file of at most so many bytes; raises ArtefactError."""
    try:
        return read_bytes(path, at_most).decode("utf-8")
    except UnicodeDecodeError:
        raise ArtefactError(f"{path} is not UTF-8 text.") from None


def read_bytes(path: Path, at_most: int) -> bytes:
    """The bytes of a regular file of at most so many; a larger one is refused before it is read."""
    with os.fdopen(_open_regular(path), "rb") as stream:
        size = _check_size(path, stream.fileno(), at_most)
        return stream.read(size)  # not `at_most`: so much would be allocated


def promise_checks(certificate: Certificate) -> tuple[tuple[Check, ...], tuple[str, ...]]:
    """Whether the budget is one a fit would accept and the run kept to its plan; and what is weak all the same."""
    with warnings.catch_warnings(record=True) as weak:
        warnings.simplefilter("always", PrivacyWarning)
        try:
            validation.budget(epsilon=certificate.epsilon, delta=certificate.delta, records=certificate.records)
            budget = Check("budget", True)
        except DpgmError as error:
            budget = Check("budget", False, str(error))
    add_remove = certificate.adjacency is Adjacency.ADD_REMOVE
    adjacency = _check("adjacency", add_remove, "fits are accounted under add-remove alone")
    texts = tuple(str(entry.message) for entry in weak if issubclass(entry.category, PrivacyWarning))
    return (budget, adjacency, _same_mechanisms(certificate)), texts


def accounting_checks(certificate: Certificate, *, cache: bool = False) -> tuple[float, tuple[Check, ...]]:
    """Epsilon recomputed from the mechanisms, and both figures the certificate states held against it.

    With `cache`, figures that this machine computed before are looked up.
    """
    try:
        recomputed, replaced = (
            cost(certificate.mechanisms, certificate.delta, adjacency, cache=cache).epsilon
            for adjacency in (certificate.adjacency, Adjacency.REPLACE_ONE)
        )
    except DpgmError as error:
        return float("inf"), (Check("epsilon", False, f"the mechanisms cannot be costed: {error}"),)
    stated, second = certificate.epsilon, certificate.epsilon_replace_one
    same = second is not None and _lowest(replaced) <= second <= _highest(replaced)
    text = "none" if second is None else f"{second:.6g}"
    costs, lost = f"its mechanisms cost {recomputed:.6g}", f"but the mechanisms listed cost only {recomputed:.6g}"
    return recomputed, (
        _check("epsilon", stated >= _lowest(recomputed), f"it states {stated:.6g}, {costs}"),
        _check(
            "mechanisms complete", stated <= _highest(recomputed), f"it states {stated:.6g}, {lost}: one is missing"
        ),
        _check("epsilon if a record is replaced", same, f"it states {text}, its mechanisms cost {replaced:.6g}"),
    )


def _check(name: str, ok: bool, why_not: str) -> Check:
    return Check(name, ok, "" if ok else why_not)


def _lowest(recomputed: float) -> float:
    return recomputed * (1 - EPSILON_SLACK) - 1e-6


def _highest(recomputed: float) -> float:
    return recomputed * (1 + EPSILON_EXCESS) + 1e-6


def _same_mechanisms(certificate: Certificate) -> Check:
    planned, ran = Counter(certificate.planned), Counter(certificate.mechanisms)
    missing, extra = [*(planned - ran)], [*(ran - planned)]
    why = "" if ran else "no mechanism is listed"
    if extra:
        why = f"the mechanism {extra[0].name!r} is not in the plan"
    if missing:
        why = f"the mechanism {missing[0].name!r} of the plan is missing or differs"
    return Check("plan equals run", not why, why)


def file_checks(folder: Path, certificate: Certificate, names: Collection[str]) -> tuple[Check, ...]:
    """Whether the folder holds exactly the files `names`, the certificate and at most its signature, unchanged."""
    with os.scandir(folder) as entries:
        present = {entry.name for entry in islice(entries, _MOST_NAMES)} - {SIGNATURE_NAME}
    return (
        _names_check("listed files", set(certificate.files), set(names), "the certificate does not list {!r}"),
        _names_check("folder listing", present, {CERTIFICATE_NAME, *names}, "{!r} is missing"),
        *(_hash_check(folder, name, certificate.files.get(name, "")) for name in sorted(names)),
    )


def _names_check(label: str, names: set[str], expected: set[str], missing: str) -> Check:
    if extra := sorted(names - expected):
        return Check(label, False, f"{extra[0][:60]!r} is not a file of a release")
    absent = sorted(expected - names)
    return Check(label, not absent, missing.format(absent[0]) if absent else "")


def _hash_check(folder: Path, name: str, digest: str) -> Check:
    label = f"sha256 of {name}"
    try:
        same = sha256_of(folder / name) == digest
    except ArtefactError as error:
        return Check(label, False, str(error))
    return _check(label, same, "the file is not the one the certificate describes")


def _check_size(path: Path | str, handle: int, at_most: int) -> int:
    size = os.fstat(handle).st_size
    if size > at_most:
        raise ArtefactError(f"{path} is larger than {at_most} bytes, so it is not one of ours.")
    return size


def _open_regular(path: Path) -> int:
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError as error:
        raise ArtefactError(f"{path} cannot be read: {error.strerror}.") from None
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise ArtefactError(f"{path} is not a regular file.")
    return handle
