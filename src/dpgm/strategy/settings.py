"""The request for a fit (`Config`), the settings chosen for it (`Settings`), and reading settings from plan files.

All of these are public. Options that cannot alter the guarantee (device, progress, memory) are in `RunContext`.
"""

import json
import sys
import types
from dataclasses import asdict, dataclass, field, fields, is_dataclass
from typing import Any, Literal, TypeAlias, TypeVar, Union, get_args, get_origin, get_type_hints

from dpgm import validation
from dpgm.errors import UsageError
from dpgm.strategy.discovery_rules import DiscoveryRules

D = TypeVar("D")
_LARGEST = 2**53  # whole numbers up to here are floats exactly; no setting is larger
Plain: TypeAlias = dict[str, Any]
Preset = Literal["default", "paper"]


@dataclass(frozen=True)
class Config:
    """A request for a fit; None lets the family choose from public numbers.

    Attributes:
        epsilon: the privacy budget.
        delta: the slack in the promise.
        clusters: number of networks in a mixture; other families have none.
        model: the name of a family, or `auto`.
        preset: `default`, or `paper` for the paper's own choices under corrected mechanisms.
        mean_length: public mean number of items per record; networks start from it, other families refuse it.
        rows_per_person: most records of one person; the guarantee covers all of them together.
    """

    epsilon: float
    delta: float | None = None
    clusters: int | None = None
    model: str = "auto"
    preset: Preset = "default"
    mean_length: float | None = None
    rows_per_person: int = 1

    def __post_init__(self) -> None:
        numpy = sys.modules.get("numpy")  # not imported here: the command line shows its help without it
        for entry in fields(self):
            value = getattr(self, entry.name)
            if numpy is not None and isinstance(value, numpy.generic):  # JSON needs Python's own numbers
                object.__setattr__(self, entry.name, value.item())
        validation.positive(epsilon=self.epsilon, advice="A usual choice is 1.")
        if self.delta is not None:
            validation.probability(delta=self.delta, advice="A usual choice is 1 / (10 x number of records).")
        if self.clusters is not None:
            validation.whole(clusters=self.clusters, at_least=1, at_most=10_000)
        validation.one_of(get_args(Preset), preset=self.preset)
        if self.mean_length is not None:
            validation.positive(mean_length=self.mean_length)
        validation.whole(rows_per_person=self.rows_per_person, at_least=1)
        for name in ("epsilon", "delta", "mean_length"):  # plans hold floats: 1 is written as 1.0
            value = getattr(self, name)
            object.__setattr__(self, name, None if value is None else float(value))


def default_delta(records: int) -> float:
    """1 / (10 N): ten times smaller than what publishing one random record would satisfy."""
    return 1.0 / (10 * max(records, 1))


@dataclass(frozen=True)
class FamilySettings:
    """Base class of the settings of a family; a family without settings uses it directly."""

    def check(self) -> None:
        """Raise UsageError for a value out of range; the types were checked before."""


def no_settings(config: Config) -> FamilySettings:
    """The settings of a family that has none; options of networks are refused."""
    if config.mean_length is not None:
        raise UsageError("`mean_length` is for networks; use it with model vae or rbm, or preset paper.")
    return FamilySettings()


def refuses_paper(config: Config, model: str) -> str | None:
    """Why a family other than networks refuses the paper's preset; None for any other preset."""
    return f"`preset` paper trains vae or rbm; got model {model!r}." if config.preset == "paper" else None


@dataclass(frozen=True)
class Settings:
    """Every public number that determines how a fit runs. Part of the plan, fixed before data is opened."""

    model: str
    preset: Preset = "default"
    family: FamilySettings = field(default_factory=FamilySettings)
    discovery: DiscoveryRules | None = None  # None: the domain leaves nothing open

    def to_json(self) -> Plain:
        """Plain values for the plan file."""
        return to_plain(self)


def to_plain(values: Any) -> Plain:
    """A dataclass as plain JSON values; `from_plain` reads them back exactly."""
    plain: Plain = json.loads(json.dumps(asdict(values)))
    return plain


def from_plain(kind: type[D], values: Any, what: str) -> D:
    """The inverse of `to_plain` for untrusted values: every name and every type is checked.

    `kind` is a dataclass of numbers, texts, booleans, tuples and dataclasses of these; messages name `what` is read.
    """
    if not is_dataclass(kind):
        raise TypeError(f"{kind!r} is not a dataclass")
    names = {entry.name for entry in fields(kind)}
    if not isinstance(values, dict) or set(values) != names:
        differing = ", ".join(sorted(set(values) ^ names)) if isinstance(values, dict) else "not an object"
        raise UsageError(
            f"the plan's {what} do not match this version of dpgm (see {differing}); make the plan again."
        )
    hints = get_type_hints(kind)
    made: D = kind(**{name: _read(hints[name], value, f"{what}: {name}") for name, value in values.items()})
    return made


def _read(hint: Any, value: Any, what: str) -> Any:
    origin, inner = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        if value is None and type(None) in inner:
            return None
        return _read(next(entry for entry in inner if entry is not type(None)), value, what)
    if origin is Literal and value in inner:
        return value
    if origin is tuple and isinstance(value, list):
        if len(inner) == 2 and inner[1] is Ellipsis:
            return tuple(_read(inner[0], entry, what) for entry in value)
        if len(inner) == len(value):
            return tuple(_read(each, entry, what) for each, entry in zip(inner, value, strict=True))
    if is_dataclass(hint) and isinstance(hint, type):
        return from_plain(hint, value, what)
    if hint is float and (isinstance(value, float) or (type(value) is int and abs(value) <= _LARGEST)):
        return float(value)
    if hint in (int, bool, str) and type(value) is hint:
        return value
    raise UsageError(f"the plan has a value of the wrong kind ({what}); make it again with `dpgm plan`.")
