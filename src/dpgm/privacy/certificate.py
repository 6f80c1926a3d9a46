"""What a release promises, as a small strict JSON document.

A certificate lists every mechanism that touched the data, so that anyone can recompute epsilon from it; it names
the other files of the release by their SHA-256. Reading is strict: a key too many, a key missing, a wrong type or
an unknown format version is refused, because a certificate that is half understood promises nothing.
"""

import json
import math
import re
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, TypeVar

from dpgm.errors import ArtefactError
from dpgm.notebook import html_table
from dpgm.privacy.events import LARGEST_NOISE, SMALLEST_NOISE, Adjacency, Mechanism
from dpgm.privacy.untrusted_files import ReleaseFolder

CERTIFICATE_FORMAT = 2  # 2: the plan's public settings are part of it
LARGEST_CERTIFICATE = 4 * 2**20  # bytes; a real one has a few thousand
CERTIFICATE_NAME = "certificate.json"
MOST_MECHANISMS = 100  # a fit runs about ten; costing thousands would take hours
LONGEST_TEXT = 1000  # characters of a name or a sentence
LARGEST_WHOLE = 2**63 - 1  # of records, runs or entries of a ledger; a larger one fits no array or database
DEEPEST = 10  # lists and objects inside each other; ours have four

_POPULATION, _HEAD = re.compile("[0-9a-f]{32}"), re.compile("[0-9a-f]{64}")  # as `dpgm ledger create` makes them

T = TypeVar("T")


@dataclass(frozen=True)
class LedgerMark:
    """Where the release stands in its population's ledger: evidence against a ledger that was rolled back."""

    population: str
    sequence: int
    head: str


@dataclass(frozen=True)
class Certificate:
    """The guarantee of one release.

    Attributes:
        epsilon: what `mechanisms` cost at `delta` under `adjacency`, as the accountant computes it.
        delta: the probability the guarantee leaves open.
        unit: whom a record stands for: "person", or "row" if a person may own several rows.
        records: the number of records, treated as public.
        planned: what the plan promised to run.
        mechanisms: what was charged; equal to `planned` in a complete release.
        accountant: name and version of what computed epsilon.
        randomness: where noise and coins came from; `private` is False for a seeded run, which is NOT PRIVATE.
        model: the architecture of the generator, plain JSON values.
        files: SHA-256 of every other file of the release, by name.
        warnings: whatever weakens the guarantee or the trust in it.
        statements: what was assumed, such as that the items are public knowledge.
        epsilon_replace_one: the proved bound for replacing a record by another, a second figure.
        ledger: where the release stands in its ledger, if it has one.
        plan: the public numbers the plan was made from, so that a reader can tell which mechanisms such a fit runs.
    """

    epsilon: float
    delta: float
    unit: str
    records: int
    planned: tuple[Mechanism, ...]
    mechanisms: tuple[Mechanism, ...]
    accountant: str
    randomness: str
    private: bool
    software: str
    model: Mapping[str, Any]
    files: Mapping[str, str]
    warnings: tuple[str, ...] = ()
    statements: tuple[str, ...] = ()
    epsilon_replace_one: float | None = None
    ledger: LedgerMark | None = None
    adjacency: Adjacency = Adjacency.ADD_REMOVE
    plan: Mapping[str, Any] = field(default_factory=dict)
    format: int = field(default=CERTIFICATE_FORMAT)

    def __repr__(self) -> str:
        kind = "" if self.private else ", NOT PRIVATE"
        return f"Certificate(epsilon={self.epsilon:.4g}, delta={self.delta:.3g}, per {self.unit}{kind})"

    @property
    def _protects(self) -> str:
        rows = self.plan.get("rows_per_person", 1)
        if rows == 1:
            return f"one {self.unit} of {self.records:,}"
        return f"one {self.unit} with up to {rows} of {self.records:,} rows"

    def facts(self) -> list[tuple[str, object]]:
        """What matters most, by name."""
        return [
            ("epsilon", f"{self.epsilon:.4g}"),
            ("delta", f"{self.delta:.3g}"),
            ("protects", self._protects),
            ("model", self.model.get("kind")),
            ("private", "yes" if self.private else "NOT PRIVATE"),
            *(("warning", text) for text in self.warnings),
            *(("stated", text) for text in self.statements),
        ]

    def _repr_html_(self) -> str:
        return html_table("Certificate", self.facts())

    def to_json(self) -> str:
        """The certificate as text, keys in a fixed order."""
        document = {"format": self.format} | {entry.name: getattr(self, entry.name) for entry in fields(self)}
        document |= {
            "planned": [mechanism.to_json() for mechanism in self.planned],
            "mechanisms": [mechanism.to_json() for mechanism in self.mechanisms],
            "model": dict(self.model),
            "files": dict(sorted(self.files.items())),
            "plan": dict(self.plan),
            "ledger": None if self.ledger is None else asdict(self.ledger),
        }
        return json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False) + "\n"

    @classmethod
    def from_json(cls, text: str) -> "Certificate":
        """Read a certificate; raises ArtefactError for anything that is not exactly one."""
        document = strict_json(text, "the certificate")
        if not isinstance(document, dict):
            raise ArtefactError("the certificate is not a JSON object.")
        version = document.get("format")
        if version != CERTIFICATE_FORMAT or isinstance(version, bool):
            raise ArtefactError(
                f"the certificate has format version {version!r}; this dpgm reads version {CERTIFICATE_FORMAT}. "
                "Verify it with the dpgm that made it, or a newer one."
            )
        _exact_keys(document, {entry.name for entry in fields(cls)}, "the certificate")
        ledger = document["ledger"]
        certificate = cls(
            format=CERTIFICATE_FORMAT,
            epsilon=_number(document, "epsilon"),
            delta=_number(document, "delta"),
            adjacency=_adjacency(document),
            unit=_typed(document, "unit", str),
            records=_typed(document, "records", int),
            planned=read_mechanisms(document, "planned"),
            mechanisms=read_mechanisms(document, "mechanisms"),
            accountant=_typed(document, "accountant", str),
            randomness=_typed(document, "randomness", str),
            private=_typed(document, "private", bool),
            software=_typed(document, "software", str),
            model=_typed(document, "model", dict),
            plan=_typed(document, "plan", dict),
            files=_strings_by_name(document, "files"),
            warnings=_strings(document, "warnings"),
            statements=_strings(document, "statements"),
            epsilon_replace_one=(
                None if document["epsilon_replace_one"] is None else _number(document, "epsilon_replace_one")
            ),
            ledger=None if ledger is None else _ledger_mark(ledger),
        )
        if certificate.unit not in ("person", "row"):
            raise ArtefactError("the certificate's `unit` must be 'person' or 'row'.")
        if not certificate.epsilon >= 0 or not 0 < certificate.delta < 1 or certificate.records < 1:
            raise ArtefactError("the certificate's epsilon, delta or number of records is out of range.")
        return certificate


def read_certificate(folder: Path | str | ReleaseFolder) -> Certificate:
    """The certificate of a release folder; raises ArtefactError if there is none that can be read."""
    files = folder if isinstance(folder, ReleaseFolder) else ReleaseFolder(folder)
    return Certificate.from_json(files.text(CERTIFICATE_NAME, LARGEST_CERTIFICATE))


# -- strict JSON ---------------------------------------------------------------------------------------------------


def strict_json(text: str, what: str, at_most: int | None = None) -> Any:
    """Parse JSON without duplicate keys, infinities, half characters or deep nesting; raises ArtefactError."""
    at_most = LARGEST_CERTIFICATE if at_most is None else at_most
    if len(text) > at_most:
        raise ArtefactError(f"{what} is larger than {at_most} bytes, so dpgm has not written it.")

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        values = dict(pairs)
        if len(values) < len(pairs):
            raise ArtefactError(f"{what} has a key twice.")
        return values

    def refuse(constant: str) -> Any:
        raise ArtefactError(f"{what} holds {constant}, which is not a number.")

    def finite(digits: str) -> float:
        value = float(digits)
        return value if math.isfinite(value) else refuse("a number too large")

    try:
        document = json.loads(text, object_pairs_hook=once, parse_constant=refuse, parse_float=finite)
        if "\\ud" in text.lower():  # half a pair of surrogates is no text, and cannot be written or shown
            json.dumps(document, ensure_ascii=False).encode()
    except ArtefactError:
        raise
    except (ValueError, RecursionError):
        raise ArtefactError(f"{what} is not valid JSON.") from None
    if _deeper_than(document, DEEPEST):
        raise ArtefactError(f"{what} is nested too deeply, so dpgm has not written it.")
    return document


def _deeper_than(value: Any, depth: int) -> bool:
    if not isinstance(value, (dict, list)):
        return False
    inside = value.values() if isinstance(value, dict) else value
    return depth == 0 or any(_deeper_than(entry, depth - 1) for entry in inside)


def _exact_keys(document: Mapping[str, Any], expected: set[str], what: str) -> None:
    missing, extra = sorted(expected - document.keys()), sorted(document.keys() - expected)
    if missing:
        raise ArtefactError(f"{what} lacks {missing[0]!r}.")
    if extra:
        raise ArtefactError(f"{what} holds the unknown key {extra[0][:60]!r}.")


def _typed(document: Mapping[str, Any], key: str, kind: type[T], of: str = "the certificate") -> T:
    value = document[key]
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        raise ArtefactError(f"{of}'s {key!r} must be of type {kind.__name__}.")
    if isinstance(value, int) and abs(value) > LARGEST_WHOLE:
        raise ArtefactError(f"{of}'s {key!r} is too large a number.")
    if isinstance(value, str) and not _one_line(value):
        raise ArtefactError(f"{of}'s {key!r} must be one line of at most {LONGEST_TEXT} characters.")
    return value


def _one_line(text: str) -> bool:
    """Plain text on one line: nothing that could start another paragraph of the README or drive a terminal."""
    return len(text) <= LONGEST_TEXT and text.isprintable()


def _number(document: Mapping[str, Any], key: str, of: str = "the certificate") -> float:
    value = document[key]
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not number or not abs(value) <= sys.float_info.max:  # false for NaN, and for whole numbers no float can hold
        raise ArtefactError(f"{of}'s {key!r} must be a finite number.")
    return float(value)


def _adjacency(document: Mapping[str, Any]) -> Adjacency:
    try:
        return Adjacency(_typed(document, "adjacency", str))
    except ValueError:
        raise ArtefactError("the certificate names an unknown adjacency.") from None


def _strings(document: Mapping[str, Any], key: str) -> tuple[str, ...]:
    values = _typed(document, key, list)
    if not all(isinstance(value, str) and _one_line(value) for value in values):
        raise ArtefactError(f"the certificate's {key!r} must be a list of sentences, each on one line.")
    return tuple(values)


def _strings_by_name(document: Mapping[str, Any], key: str) -> dict[str, str]:
    values = _typed(document, key, dict)
    if not all(isinstance(value, str) for value in values.values()):
        raise ArtefactError(f"the certificate's {key!r} must map names to SHA-256 sums.")
    return values


def read_mechanisms(document: Mapping[str, Any], key: str, of: str = "the certificate") -> tuple[Mechanism, ...]:
    """The mechanisms that an untrusted document lists; raises ArtefactError unless each is exactly one."""
    expected = {entry.name for entry in fields(Mechanism)} - {"delta"}
    mechanisms = []
    entries = _typed(document, key, list, of)
    if len(entries) > MOST_MECHANISMS:
        raise ArtefactError(f"{of}'s {key!r} lists more than {MOST_MECHANISMS} mechanisms.")
    for entry in entries:
        if not isinstance(entry, dict):
            raise ArtefactError(f"{of}'s {key!r} must be a list of mechanisms.")
        thresholded = {"delta"} & entry.keys()  # only mechanisms that publish what passed a threshold have it
        _exact_keys(entry, expected | thresholded, f"a mechanism in {key!r}")
        mechanism = Mechanism(
            name=_typed(entry, "name", str, of),
            noise=_number(entry, "noise", of),
            count=_typed(entry, "count", int, of),
            sampling_rate=_number(entry, "sampling_rate", of),
            sample=None if entry["sample"] is None else _typed(entry, "sample", str, of),
            delta=_number(entry, "delta", of) if thresholded else 0.0,
        )
        if thresholded and not 0 < mechanism.delta < 1:
            raise ArtefactError(f"a mechanism in {key!r} has a delta out of range.")
        in_range = SMALLEST_NOISE <= mechanism.noise <= LARGEST_NOISE
        if not in_range or mechanism.count < 1 or not 0 < mechanism.sampling_rate <= 1:
            raise ArtefactError(f"a mechanism in {key!r} has a noise, count or rate out of range.")
        mechanisms.append(mechanism)
    return tuple(mechanisms)


def _ledger_mark(entry: Any) -> LedgerMark:
    if not isinstance(entry, dict):
        raise ArtefactError("the certificate's 'ledger' must be an object or null.")
    _exact_keys(entry, {"population", "sequence", "head"}, "the certificate's 'ledger'")
    mark = LedgerMark(_typed(entry, "population", str), _typed(entry, "sequence", int), _typed(entry, "head", str))
    hexadecimal = _POPULATION.fullmatch(mark.population) and _HEAD.fullmatch(mark.head)
    if not hexadecimal or mark.sequence < 1:
        raise ArtefactError(
            "the certificate's 'ledger' must be a population of 32 hexadecimal digits, a sequence of at least 1 and a "
            "head of 64 hexadecimal digits."
        )
    return mark
