"""`Numeric`: a number per row, in equal bins or with bins that a fit finds."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self, get_args

import numpy as np
from numpy.typing import NDArray

from dpgm.arrays import Codes, Floats
from dpgm.data.arrow import Array, DataType, Table, pa
from dpgm.data.items import flat_column
from dpgm.data.kinds.base import Cells, CellStyle, Column, ColumnKind, Field, FieldReader, Rng
from dpgm.data.kinds.open_number import OpenNumber
from dpgm.data.number_format import (
    DISCOVER,
    LARGEST_TICK,
    MAX_DECIMALS,
    MOST_PLACES,
    Bound,
    NumberFormat,
    Scale,
    is_whole,
    range_in_places,
)
from dpgm.data.open_columns import CodeColumn
from dpgm.data.values import Place, in_column, object_texts
from dpgm.validation import is_number

if TYPE_CHECKING:
    from dpgm.data.inspect.seen import Seen

MAX_BINS = 100_000


@dataclass(frozen=True)
class Numeric(OpenNumber):
    """A number in [low, high]; values outside are clamped.

    With `bins` the field is closed: a softmax output over equal bins, decoded uniformly within the bin. Without, it is
    open: popular values, bins of about equal weight and the distribution within them are found privately, and `low`
    and `high` may be "discover". With `integer`, values are whole numbers from low to high inclusive; otherwise
    `decimals` is the number of decimal places, which may be "discover" together with low and high. `specials` are
    values with a meaning of their own (-1 for "never"); `scale` is the resolution: the same everywhere (linear) or
    finer for small numbers (log). With `missing` the last position stands for a missing value; an open field may be
    missing unless `missing` is False.
    """

    low: Bound
    high: Bound
    bins: int | None = None
    integer: bool = False
    missing: bool | None = None
    decimals: int | Literal["discover"] | None = None
    specials: tuple[float, ...] = ()
    scale: Scale = "auto"

    kind: ClassVar[str] = "numeric"
    draft_kinds: ClassVar[tuple[str, ...]] = ("number", "integer")
    reads_numbers: ClassVar[bool] = True
    may_identify: ClassVar[bool] = True
    compared_as: ClassVar[ColumnKind | None] = "number"

    def __post_init__(self) -> None:
        super().__post_init__()
        self._set("specials", tuple(self.specials))
        stated = [bound for bound in (self.low, self.high) if bound != DISCOVER]
        if len(stated) < 2 and self.bins is not None:
            raise self._error("bins need bounds; leave bins out, or state low and high")
        if not all(is_number(bound) for bound in stated):
            raise self._error("low and high must be finite numbers (or 'discover')")
        bounds = [bound for bound in stated if not isinstance(bound, str)]
        if self.integer and any(bound != int(bound) or abs(bound) > LARGEST_TICK for bound in bounds):
            raise self._error("low and high must be whole numbers for an integer field")
        if len(bounds) == 2 and not (bounds[0] < bounds[1] and math.isfinite(float(bounds[1]) - float(bounds[0]))):
            raise self._error("low must be below high")
        if self.bins is None:
            self._check_open(bounds)
        else:
            self._check_closed(bounds[0], bounds[1], self.bins)

    def _check_closed(self, low: float, high: float, bins: int) -> None:
        if self.decimals is not None or self.specials or self.scale != "auto":
            raise self._error(
                "decimals, specials and scale are for fields whose bins are discovered; leave bins out"
            )
        if self.missing is None:
            self._set("missing", False)
        if not is_whole(bins, 1, MAX_BINS):
            raise self._error(f"bins must be a whole number from 1 to {MAX_BINS:,}")
        if self.integer and bins > high - low + 1:
            raise self._error("an integer field needs at least one whole number per bin")
        if self.integer and (high - low + 1) * bins > 2**62:
            raise self._error("the range is too wide for so many bins; use fewer")

    def _check_open(self, bounds: Sequence[float]) -> None:
        if self.scale not in get_args(Scale):
            raise self._error("scale must be auto, linear or log")
        if not isinstance(self.missing, bool | None):
            raise self._error("missing must be true or false")
        if self.finds_step and bounds:
            raise self._error(
                "decimals are found together with the range; say 'discover' for low and high as well, or state them"
            )
        if not self.finds_step and self.decimals is not None and not is_whole(self.decimals, 0, MAX_DECIMALS):
            raise self._error(f"decimals must be a whole number from 0 to {MAX_DECIMALS} (or 'discover')")
        if self.integer and self.decimals:
            raise self._error("an integer field has no decimals; state one of the two")
        if any(abs(bound) > LARGEST_TICK or abs(self.format.tick(bound)) > LARGEST_TICK for bound in bounds):
            raise self._error("low and high have more digits than can be represented exactly")
        if not all(is_number(special) and abs(special) <= LARGEST_TICK for special in self.specials):
            raise self._error("specials must be finite numbers")
        if self.integer and any(special != int(special) for special in self.specials):
            raise self._error("specials of an integer field must be whole numbers")
        if len(set(self.specials)) < len(self.specials) or len(self.specials) > 100:
            raise self._error("specials must differ, and be at most 100")

    @property
    def finds_step(self) -> bool:
        """Whether the number of decimal places is to be discovered."""
        return self.decimals == DISCOVER

    @property
    def format(self) -> NumberFormat:
        """Integer, decimal or real; real also while the number of decimal places is to be discovered."""
        if self.integer or self.decimals == 0:
            return NumberFormat("integer")
        if self.decimals is None or isinstance(self.decimals, str):
            return NumberFormat("real")
        return NumberFormat("decimal", self.decimals)

    @property
    def bounds(self) -> tuple[float | None, float | None]:
        """Low and high in ticks; None if to be discovered."""
        low, high = (None if isinstance(bound, str) else self.format.tick(bound) for bound in (self.low, self.high))
        return low, high

    @property
    def special_ticks(self) -> tuple[float, ...]:
        """`specials` in ticks, sorted."""
        return tuple(sorted({self.format.tick(value) for value in self.specials}))

    @property
    def _value_count(self) -> int | None:
        return self.bins

    @property
    def _value_names(self) -> list[str]:
        if self.bins is None or isinstance(self.low, str) or isinstance(self.high, str):
            return []
        step = (self.high - self.low) / self.bins
        edges = [self.low + step * at for at in range(self.bins + 1)]
        return [f"{self.name} {low:g} to {high:g}" for low, high in pairwise(edges)]

    @property
    def equal_bins(self) -> int:
        """How many equal bins the number has."""
        return self.bins or 0

    @property
    def _unstated_missing(self) -> bool | None:
        return None if self.is_open else False

    # -- reading, writing, conditions ------------------------------------------------------------------------------

    def reader(self, style: CellStyle, others: Mapping[str, Field]) -> FieldReader:
        """Reads ticks if the field is open, else bins."""
        if self.is_open:
            return super().reader(style, others)

        def read(table: Table, place: Place) -> CodeColumn:
            values, missing = self.read_numbers(flat_column(table, self.name), style, in_column(place, self.name))
            return CodeColumn(np.where(missing, self.width - 1, bin_of(self, values)).astype(np.int32))

        return read

    def from_objects(self, values: Sequence[Any], place: Place) -> Array:
        """Numbers or texts; booleans are numbers, as in a column of booleans."""
        return object_texts(numbers_of_booleans(values), place)

    def drawn(self, cells: Cells, rng: Rng) -> Array:
        """Numbers drawn within their bins."""
        codes, missing = cells.single(self.bins or 0)
        return pa.array(draw_in_bin(self, codes, rng), mask=missing)

    def position_ranges(self) -> tuple[Floats, Floats] | None:
        """The ends of the bins."""
        if self.bins is None or isinstance(self.low, str) or isinstance(self.high, str):
            return None
        bins = np.arange(self.bins + 1)
        if self.integer:
            span = int(self.high - self.low) + 1
            starts = int(self.low) - (-bins * span // self.bins)
            return starts[:-1].astype(np.float64), (starts[1:] - 1).astype(np.float64)
        edges = self.low + bins * (self.high - self.low) / self.bins
        return edges[:-1], edges[1:]

    # -- discovery and drafts --------------------------------------------------------------------------------------

    def possible_steps(self) -> tuple[Self, ...]:
        """The field with each number of decimal places that discovery could find, and last with any number of them."""
        if not self.finds_step:
            return (self,)
        return tuple(replace(self, decimals=places) for places in (*range(MOST_PLACES + 1), None))

    def range_in_found_step(self, low: float, high: float) -> tuple[float, float]:
        """A range between powers of two in decimal places."""
        places = self.decimals
        return (low, high) if places is None or isinstance(places, str) else range_in_places(low, high, places)

    @classmethod
    def of_type(cls, name: str, kind: DataType) -> Column | None:
        """Whole numbers, decimals and other numbers."""
        types = pa.types
        if types.is_integer(kind):
            return cls(name, DISCOVER, DISCOVER, integer=True)
        if types.is_decimal(kind):
            return cls(name, DISCOVER, DISCOVER, decimals=max(0, min(int(kind.scale), MAX_DECIMALS)))
        return cls(name, DISCOVER, DISCOVER, decimals=DISCOVER) if types.is_floating(kind) else None

    @classmethod
    def recognised(cls, seen: "Seen") -> tuple[str, str] | None:
        """Numbers."""
        if seen.looks != "numbers":
            return None
        if seen.written_as_whole:
            return "integer", f"whole numbers{seen.constant}; their range is found privately"
        places = f" with {seen.decimals} place{'s' if seen.decimals != 1 else ''}" if seen.has_step else ""
        return "number", f"numbers{places}{seen.constant}; their range is found privately"

    @classmethod
    def drafted(cls, seen: "Seen", word: str) -> "Numeric":
        """With its range left open."""
        has_decimals = seen.has_step and seen.decimals > 0 and (word == "number" or not seen.written_as_whole)
        decimals = seen.decimals if has_decimals else None
        return cls(seen.name, DISCOVER, DISCOVER, integer=word == "integer", decimals=decimals)

    def described(self) -> str:
        """Its range and bins."""
        kind = "whole numbers" if self.integer else "numbers"
        bins = "bins to be found" if self.bins is None else f"{self.bins} bins"
        return f"{kind} from {self.low} to {self.high}, {bins}{', may be missing' if self.missing else ''}"


def numbers_of_booleans(values: Sequence[Any]) -> list[Any]:
    """The values with booleans as 0 and 1."""
    return [int(value) if isinstance(value, (bool, np.bool_)) else value for value in values]


def bin_of(field: Numeric, values: NDArray[Any]) -> Codes:
    """The bin of every number of a closed field, after clamping to its range."""
    assert field.bins is not None and not isinstance(field.low, str) and not isinstance(field.high, str)  # noqa: PT018
    above = np.clip(values, field.low, field.high) - field.low
    if field.integer:
        whole: Codes = (above.astype(np.int64) * field.bins) // int(field.high - field.low + 1)
        return whole
    bins: Codes = np.floor(above * (field.bins / (field.high - field.low))).astype(np.int64)
    return np.clip(bins, 0, field.bins - 1)


def draw_in_bin(field: Numeric, bins: Codes, rng: np.random.Generator) -> NDArray[Any]:
    """Numbers drawn uniformly within the given bins; whole numbers for an integer field."""
    assert field.bins is not None and not isinstance(field.low, str) and not isinstance(field.high, str)  # noqa: PT018
    if field.integer:
        span = int(field.high - field.low) + 1
        first = -((-bins * span) // field.bins)
        after = -((-(bins + 1) * span) // field.bins)
        return int(field.low) + rng.integers(first, after)
    step = (field.high - field.low) / field.bins
    values = field.low + (bins + rng.random(len(bins))) * step
    middle = field.low + (bins + 0.5) * step
    # Rounding may push a draw over the edge of its bin; the middle is always inside.
    return np.where(bin_of(field, values) == bins, values, middle)
