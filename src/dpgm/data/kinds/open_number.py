"""`OpenNumber`, what numbers, dates and date-times share: fields whose range and bins a fit may have to find.

A closed number is a `Numeric` with bins, or the `ShapedNumber` that a fit makes of an open one.
"""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from dpgm.arrays import Floats, Mask
from dpgm.data.arrow import Array, DataType, Table, pa, pc
from dpgm.data.items import flat_column
from dpgm.data.kinds.base import CellStyle, Field, FieldReader
from dpgm.data.number_format import SECONDS, NumberFormat, Scale
from dpgm.data.open_columns import NumberColumn
from dpgm.data.values import Place, floats, in_column, refuse_first, seconds_of

if TYPE_CHECKING:
    from dpgm.data.kinds.shaped import ShapedNumber


class NumberField(Field):
    """Base class of all numbers and dates: cells are read as ticks of a format."""

    has_labels: ClassVar[bool] = False
    after: str | None = None
    missing_advice: ClassVar[str | None] = None  # what to do about a missing value, if that is not the usual advice
    must_be_whole: ClassVar[bool] = True  # whether a fraction is refused, not rounded, where numbers are whole

    if TYPE_CHECKING:  # a dataclass field of one kind, and a property of the others

        @property
        def format(self) -> NumberFormat:
            """How values are converted to ticks; with `after`, how times are."""

    @property
    def date_bounds(self) -> tuple[float | None, float | None]:
        """The stated bounds of the dates themselves in ticks."""
        return None, None

    @property
    def decimal_places(self) -> int | None:
        """How many decimal places numbers have; None for any number of places."""
        return self.format.decimals if self.format.in_steps else None

    def holds_number(self, numbers: Floats) -> Mask:
        """Mask of the numbers that are values of the field."""
        allowed = super().holds_number(numbers)
        if self.format.kind in ("integer", "date"):
            allowed &= numbers == np.rint(numbers)
        return allowed

    def numbers_in(self, column: Array, missing: Sequence[str], where: Place) -> tuple[Floats, Mask]:
        """Numbers, or days since 1970."""
        if self.compared_as == "date":
            seconds, absent = seconds_of(column, where, missing, self.pattern)
            return seconds / SECONDS["day"], absent
        return floats(column, where, missing)

    def cells_of(self, numbers: Floats, kind: DataType) -> Array:
        """Numbers, or dates."""
        missing = np.isnan(numbers)
        plain = np.where(missing, 0, numbers)
        if self.compared_as == "date":
            seconds = pa.array(np.rint(plain * SECONDS["day"]).astype(np.int64), mask=missing)
            return pc.cast(seconds.cast(pa.timestamp("s")), kind, safe=False)
        return pc.cast(pa.array(np.rint(plain) if pa.types.is_integer(kind) else plain, mask=missing), kind)

    def read_ticks(self, format: NumberFormat, table: Table, style: CellStyle, place: Place) -> Floats:
        """The ticks of the field's column of numbers or dates, NaN if missing."""
        column, where = flat_column(table, self.name), in_column(place, self.name)
        if format.is_temporal:
            seconds, missing = seconds_of(column, where, style.missing, self.pattern)
            ticks = np.floor(seconds / SECONDS[format.unit])
            self.refuse_missing(missing, where, self.missing_advice)
        else:
            values, missing = self.read_numbers(column, style, where)
            ticks = format.ticks(values)
        return np.where(missing, np.nan, ticks)

    def read_numbers(self, column: Array, style: CellStyle, where: Place) -> tuple[Floats, Mask]:
        """The numbers of a column (0 if missing), and a mask of the missing ones."""
        values, missing = self.numbers_in(column, style.missing, where)
        if self.format.kind == "integer" and self.must_be_whole:
            message = "the value is not a whole number; correct the file or the domain."
            refuse_first(values != np.floor(values), where, message)
        self.refuse_missing(missing, where, self.missing_advice)
        return values, missing

    def modelled_ticks(self, others: Mapping[str, Field], table: Table, style: CellStyle, place: Place) -> Floats:
        """The ticks that are modelled, NaN if missing: of the value itself, or of the time since the date `after`."""
        if self.after is None:
            return self.read_ticks(self.format, table, style, place)
        from dpgm.data.kinds.shaped import times_since

        base: Any = others[self.after]
        base_ticks = base.read_ticks(base.format, table, style, place)
        return times_since(self, self.read_ticks(base.format, table, style, place), base_ticks)


class OpenNumber(NumberField):
    """Base class of numbers and dates as users state them, which may be open."""

    missing: bool | None

    @property
    def finds_step(self) -> bool:
        """Whether the step (decimal places, or a unit of time) is to be discovered."""
        return False

    @property
    @abstractmethod
    def bounds(self) -> tuple[float | None, float | None]:
        """Low and high in ticks, None if to be discovered; with `after`, bounds of the time since that date."""

    @property
    @abstractmethod
    def scale(self) -> Scale:
        """Whether the resolution is the same everywhere, or finer for small numbers."""

    @property
    def special_ticks(self) -> tuple[float, ...]:
        """Values with a meaning of their own, in ticks, sorted."""
        return ()

    @property
    def _unstated_missing(self) -> bool | None:
        return None

    @property
    def open_number(self) -> "OpenNumber | None":
        """The field itself while it is open."""
        return self if self.is_open else None

    def reader(self, style: CellStyle, others: Mapping[str, Field]) -> FieldReader:
        """Reads ticks."""
        return lambda table, place: NumberColumn(self.modelled_ticks(others, table, style, place))

    # -- discovery -------------------------------------------------------------------------------------------------

    def in_found_step(self, values: Floats) -> Floats:
        """Ticks in the step that was found, from plain numbers or from seconds."""
        return self.format.ticks(values)

    def possible_steps(self) -> tuple[Self, ...]:
        """The field with each step that discovery could find, in the order in which steps are counted."""
        return (self,)

    def range_in_found_step(self, low: float, high: float) -> tuple[float, float]:
        """A range that was found in plain numbers or in seconds, in ticks of the step that was found."""
        return low, high

    def completed(self, shaped: "ShapedNumber") -> "ShapedNumber":
        """The closed field that was found, with what this one states besides bins."""
        return shaped

    def may_become(self, closed: Field) -> bool:
        """Whether discovery can have made this closed field of it."""
        from dpgm.data.kinds.shaped import ShapedNumber

        if not self.is_open:
            return closed == self
        if not isinstance(closed, ShapedNumber) or (self.after, self.pattern) != (closed.after, closed.pattern):
            return False
        # Older releases do not state the bounds of dates.
        if closed.date_bounds not in ((None, None), self.date_bounds):
            return False
        steps = self.possible_steps()
        return any(closed.format == one.format and closed.lies_within(one) for one in steps)
