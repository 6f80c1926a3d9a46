"""What a release promises, as a small strict JSON document.

A certificate lists every mechanism that touched the data, so that anyone can recompute epsilon from it; it names
the other files of the release by their SHA-256. Reading is strict: a key too many, a key missing, a wrong type or
an unknown format version is refused, because a certificate that is half understood promises nothing.
"""

import datetime
import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from dpgm.errors import ArtefactError, UsageError
from dpgm.notebook import html_table
from dpgm.privacy.events import LARGEST_NOISE, SMALLEST_NOISE, Adjacency, Mechanism
from dpgm.privacy.odds import Odds
from dpgm.privacy.strict_json import LARGEST_DOCUMENT, exact_keys, number, strict_json, strings, typed
from dpgm.privacy.untrusted_files import ReleaseFolder

CERTIFICATE_FORMAT = 3  # 3: odds, what the curator says of the release, and the totals of the ledger are part of it
LARGEST_CERTIFICATE = LARGEST_DOCUMENT
CERTIFICATE_NAME = "certificate.json"
MOST_MECHANISMS = 100  # a fit runs about ten; costing thousands would take hours
LONGEST_ABOUT = 160  # characters of each text of the curator, so that the certificate fits two pages

_POPULATION, _HEAD = re.compile("[0-9a-f]{32}"), re.compile("[0-9a-f]{64}")  # as `dpgm ledger create` makes them


@dataclass(frozen=True)
class LedgerMark:
    """Where the release stands in its population's ledger, and what was spent on that population up to then.

    Evidence against a ledger that was rolled back: `head` is the hash of its line number `sequence`.
    """

    population: str
    sequence: int
    head: str
    epsilon_cap: float
    delta: float
    fits: int  # that were charged, this one included
    spent: float  # share of the cap that the Renyi filter has used
    epsilon_if_fixed: float  # what all of them cost if every plan had been fixed in advance


@dataclass(frozen=True)
class About:
    """What the curator says of a release, in words of their own; nothing of it comes from the data or is checked.

    Attributes:
        title: a name for the release.
        owner: who answers for it.
        population: whom the data are about, and from when.
        date: the day of the release, as 2026-01-31.
    """

    title: str = ""
    owner: str = ""
    population: str = ""
    date: str = ""

    def __post_init__(self) -> None:
        for entry in fields(self):
            text = getattr(self, entry.name)
            if not isinstance(text, str) or len(text) > LONGEST_ABOUT or not text.isprintable():
                raise UsageError(f"`{entry.name}` must be one line of at most {LONGEST_ABOUT} characters.")
        try:
            known = not self.date or datetime.date.fromisoformat(self.date).isoformat() == self.date
        except ValueError:
            known = False
        if not known:
            raise UsageError(f"`date` must be a day such as 2026-01-31; got {self.date!r}.")


@dataclass(frozen=True)
class Certificate:
    """The guarantee of one release.

    Attributes:
        epsilon: what `mechanisms` cost at `delta` under `adjacency`, as the accountant computes it.
        delta: the slack in the promise: what any probability may grow by beyond the factor exp(epsilon).
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
        odds: what somebody who studies the release can find out about one person, of 100 (`privacy/odds.py`).
        about: what the curator says of the release.
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
    odds: Odds | None = None
    about: About = field(default_factory=About)
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
            "odds": None if self.odds is None else asdict(self.odds),
            "about": asdict(self.about),
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
        exact_keys(document, {entry.name for entry in fields(cls)}, "the certificate")
        ledger, odds = document["ledger"], document["odds"]
        certificate = cls(
            format=CERTIFICATE_FORMAT,
            epsilon=number(document, "epsilon"),
            delta=number(document, "delta"),
            adjacency=_adjacency(document),
            unit=typed(document, "unit", str),
            records=typed(document, "records", int),
            planned=read_mechanisms(document, "planned"),
            mechanisms=read_mechanisms(document, "mechanisms"),
            accountant=typed(document, "accountant", str),
            randomness=typed(document, "randomness", str),
            private=typed(document, "private", bool),
            software=typed(document, "software", str),
            model=typed(document, "model", dict),
            plan=typed(document, "plan", dict),
            files=_strings_by_name(document, "files"),
            warnings=strings(document, "warnings"),
            statements=strings(document, "statements"),
            epsilon_replace_one=(
                None if document["epsilon_replace_one"] is None else number(document, "epsilon_replace_one")
            ),
            odds=None if odds is None else _odds(odds),
            about=_about(document["about"]),
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


def _adjacency(document: Mapping[str, Any]) -> Adjacency:
    try:
        return Adjacency(typed(document, "adjacency", str))
    except ValueError:
        raise ArtefactError("the certificate names an unknown adjacency.") from None


def _strings_by_name(document: Mapping[str, Any], key: str) -> dict[str, str]:
    values = typed(document, key, dict)
    if not all(isinstance(value, str) for value in values.values()):
        raise ArtefactError(f"the certificate's {key!r} must map names to SHA-256 sums.")
    return values


def read_mechanisms(document: Mapping[str, Any], key: str, of: str = "the certificate") -> tuple[Mechanism, ...]:
    """The mechanisms that an untrusted document lists; raises ArtefactError unless each is exactly one."""
    expected = {entry.name for entry in fields(Mechanism)} - {"delta"}
    mechanisms = []
    entries = typed(document, key, list, of)
    if len(entries) > MOST_MECHANISMS:
        raise ArtefactError(f"{of}'s {key!r} lists more than {MOST_MECHANISMS} mechanisms.")
    for entry in entries:
        if not isinstance(entry, dict):
            raise ArtefactError(f"{of}'s {key!r} must be a list of mechanisms.")
        thresholded = {"delta"} & entry.keys()  # only mechanisms that publish what passed a threshold have it
        exact_keys(entry, expected | thresholded, f"a mechanism in {key!r}")
        mechanism = Mechanism(
            name=typed(entry, "name", str, of),
            noise=number(entry, "noise", of),
            count=typed(entry, "count", int, of),
            sampling_rate=number(entry, "sampling_rate", of),
            sample=None if entry["sample"] is None else typed(entry, "sample", str, of),
            delta=number(entry, "delta", of) if thresholded else 0.0,
        )
        if thresholded and not 0 < mechanism.delta < 1:
            raise ArtefactError(f"a mechanism in {key!r} has a delta out of range.")
        in_range = SMALLEST_NOISE <= mechanism.noise <= LARGEST_NOISE
        if not in_range or mechanism.count < 1 or not 0 < mechanism.sampling_rate <= 1:
            raise ArtefactError(f"a mechanism in {key!r} has a noise, count or rate out of range.")
        mechanisms.append(mechanism)
    return tuple(mechanisms)


def _object(entry: Any, kind: type, what: str) -> Mapping[str, Any]:
    """An object with exactly the fields of a dataclass."""
    if not isinstance(entry, dict):
        raise ArtefactError(f"{what} must be an object.")
    exact_keys(entry, {each.name for each in fields(kind)}, what)
    return entry


def _odds(entry: Any) -> Odds:
    what = "the certificate's 'odds'"
    values = _object(entry, Odds, what)
    found = Odds(number(values, "accused", what), number(values, "guesses", what))
    if not 0 <= found.accused <= 100 or not 0 <= found.guesses <= 100:
        raise ArtefactError(f"{what} must be between 0 and 100.")
    return found


def _about(entry: Any) -> About:
    try:
        return About(**_object(entry, About, "the certificate's 'about'"))
    except UsageError as error:
        raise ArtefactError(f"the certificate's 'about' is not as dpgm writes it: {error}") from None


def _ledger_mark(entry: Any) -> LedgerMark:
    what = "the certificate's 'ledger'"
    values = _object(entry, LedgerMark, what)
    mark = LedgerMark(
        typed(values, "population", str, what),
        typed(values, "sequence", int, what),
        typed(values, "head", str, what),
        number(values, "epsilon_cap", what),
        number(values, "delta", what),
        typed(values, "fits", int, what),
        number(values, "spent", what),
        number(values, "epsilon_if_fixed", what),
    )
    hexadecimal = _POPULATION.fullmatch(mark.population) and _HEAD.fullmatch(mark.head)
    in_range = mark.epsilon_cap > 0 and 0 < mark.delta < 1 and mark.spent >= 0 and mark.epsilon_if_fixed >= 0
    if not hexadecimal or mark.sequence < 1 or mark.fits < 1 or not in_range:
        raise ArtefactError(
            "the certificate's 'ledger' must be a population of 32 hexadecimal digits, a sequence of at least 1, a "
            "head of 64 hexadecimal digits and totals in their range."
        )
    return mark
