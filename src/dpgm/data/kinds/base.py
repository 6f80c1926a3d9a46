"""What every kind of column answers: `Column`, for all of them, and `Field`, for those that are modelled.

A kind is a frozen dataclass in a module of this package and a line in `KINDS`. Nobody outside asks which kind a field
has; what differs between kinds is a method here, with the answer of a column of one listed value per row as default.

A field is *open* if its values are not listed but found privately when a generator is fitted (`discover`). Until then
its width is a nominal, public number that plans are made with.

Every field has a fixed block of one-hot positions in a record (or, with `is_set`, of positions that a record has any
number of). What positions cannot say has a place of its own beside `Records.indices`: the order of the items of a
sequence is in `Records.events`, which `Records.take` and `rows` carry along.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dpgm.arrays import Codes, Floats, Mask
from dpgm.data.arrow import Array, DataType, Table, pa
from dpgm.data.events import Events
from dpgm.data.labels import MAX_LABEL_BYTES, OTHER, Label
from dpgm.data.number_format import plain_number
from dpgm.data.open_columns import CodeColumn, OpenColumn
from dpgm.data.rows import row_pointers
from dpgm.data.vocabulary import Vocabulary
from dpgm.errors import UsageError

if TYPE_CHECKING:
    from dpgm.data.inspect.seen import Seen
    from dpgm.data.kinds.image import Image
    from dpgm.data.kinds.items import SetField
    from dpgm.data.kinds.open_number import OpenNumber
    from dpgm.data.kinds.sequence import ItemSequence
    from dpgm.data.values import Place

# The width that a plan assumes for a column whose values are not known yet: budget shares depend on widths only weakly,
# and about twenty values are typical of census data.
NOMINAL_VALUES = 20
Rng: TypeAlias = np.random.Generator
FieldReader: TypeAlias = "Callable[[Table, Place], OpenColumn]"  # reads a field's column, or several, of a table
ColumnKind: TypeAlias = Literal["number", "date", "category"]  # how raw values are compared
Recoder: TypeAlias = Callable[[Any], OpenColumn]  # part of an open column in positions of a closed field


@dataclass(frozen=True)
class CellStyle:
    """How cells are written: texts that stand for a missing value, a suffix to cut off, a text between items.

    `time` is the column with the times of the items of a sequence, and `threshold` the value above which a pixel is on.
    """

    missing: tuple[str, ...] = ("",)
    strip_suffix: str = ""
    item_separator: str | None = None
    time: str | None = None
    threshold: float | None = None


@dataclass(frozen=True)
class Cells:
    """The positions that `count` records have within one field: codes, and the row of each, in order.

    `events` are those of the records, if there are any.
    """

    codes: Codes
    rows: NDArray[np.int64]
    count: int
    events: Events | None = None

    @property
    def offsets(self) -> NDArray[np.int64]:
        """Where the codes of every record start."""
        return row_pointers(np.bincount(self.rows, minlength=self.count))

    def single(self, values: int) -> tuple[Codes, Mask]:
        """The code of every record, which has one at most, and a mask of those without one of the first `values`."""
        codes = np.full(self.count, -1, dtype=np.int64)
        codes[self.rows] = self.codes
        missing = (codes < 0) | (codes >= values)
        codes[missing] = 0
        return codes, missing


@dataclass(frozen=True)
class Column:
    """Base class of all columns: a name, and what a domain file and a draft say about a column."""

    name: str

    kind: ClassVar[str]
    is_read: ClassVar[bool] = True  # False: never read; then the column is not modelled, either
    is_stated: ClassVar[bool] = True  # False: only a fit makes such a field, and no user states it
    draft_kinds: ClassVar[tuple[str, ...]] = ()  # what users call it when they correct a draft

    def __post_init__(self) -> None:
        name: object = self.name
        if not isinstance(name, str) or not name.strip():
            raise UsageError("a field of the domain has no name; give every field a name that is not empty.")
        if name != name.strip() or "\0" in name:
            raise UsageError("a field's name must not begin or end with white space nor hold a NUL character.")
        if len(name) > MAX_LABEL_BYTES:
            raise UsageError(f"a field of the domain has a name over {MAX_LABEL_BYTES} characters; shorten it.")

    def _error(self, rule: str) -> UsageError:
        return UsageError(f"field {self.name!r}: {rule}.")

    def _set(self, key: str, value: object) -> None:
        """Set an attribute of the frozen dataclass from within `__post_init__`."""
        object.__setattr__(self, key, value)

    list_key: ClassVar[str | None] = None  # the key of listed values, needed unless the file says `discover: true`

    # -- in a domain file ----------------------------------------------------------------------------------------------

    @classmethod
    def keys(cls) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Required and optional keys of such a column in a domain file: the constructor arguments."""
        own = [one for one in fields(cls) if one.name not in ("name", "kind")]
        required = tuple(one.name for one in own if one.default is MISSING)
        return required, tuple(one.name for one in own if one.default is not MISSING)

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> Self:
        """The column of a mapping in a domain file, whose keys are known, without its kind."""
        values: dict[str, Any] = {
            key: tuple(value) if isinstance(value, list) else value for key, value in plain.items()
        }
        return cls(**values)

    def to_plain(self) -> dict[str, Any]:
        """Name, kind and all arguments that differ from their defaults, as a domain file has them."""
        plain: dict[str, Any] = {"name": self.name, "kind": self.kind}
        for one in fields(self):
            value, default = getattr(self, one.name), one.default
            if one.name == "missing":
                default = self._unstated_missing
            if one.default is MISSING or value != default:
                plain[one.name] = list(value) if isinstance(value, tuple) else value
        return plain

    @property
    def _unstated_missing(self) -> bool | None:
        """The value that `missing` takes if it is not stated."""
        return False

    def with_separator(self, separator: str) -> "Column":
        """The column with the text between items that the reading options state, where cells hold items."""
        return self

    # -- in samples ------------------------------------------------------------------------------------------------

    in_samples: ClassVar[bool] = False  # whether samples have the column although it is not read

    def fresh(self, count: int, rng: Rng) -> Array:
        """The column of a sample, for a kind that is not read; asked only if `in_samples`."""
        raise NotImplementedError

    # -- in drafts -------------------------------------------------------------------------------------------------

    @classmethod
    def of_type(cls, name: str, kind: DataType) -> "Column | None":
        """The column that a name and an Arrow type say it is, its values left open; None if they say another kind."""
        return None

    @classmethod
    def recognised(cls, seen: "Seen") -> tuple[str, str] | None:
        """For the curator: one of `draft_kinds` and the reason, if the values of a column look like this kind."""
        return None

    @classmethod
    def drafted(cls, seen: "Seen", word: str) -> "Column":
        """The column that a draft states, everything but its kind left open; `word` is one of `draft_kinds`."""
        return cls(seen.name)

    def described(self) -> str:
        """The column in a few words, for its curator."""
        return self.kind


class Field(Column):
    """Base class of fields: one position per value and, if values may be missing, a last one for "missing"."""

    _nominal_count: ClassVar[int] = NOMINAL_VALUES
    has_labels: ClassVar[bool] = True  # whether conditions compare it with labels, not with numbers
    holds_lists: ClassVar[bool] = False  # whether a cell holds a list of values
    may_identify: ClassVar[bool] = False  # whether a column with the name of an identifier may be one of this kind
    lists_values: ClassVar[bool] = False  # whether a domain lists its values, or a fit finds and publishes them
    values: tuple[Label, ...] = ()  # those that are listed, for a record to have one of them
    specials: tuple[float, ...] = ()  # numbers with a meaning of their own
    compared_as: ClassVar[ColumnKind | None] = "category"  # how raw values are compared; None: they are not
    may_leave_gaps: ClassVar[bool] = False  # whether a fit may have found its missing or unlisted values too rare

    # -- positions -------------------------------------------------------------------------------------------------

    @property
    def _value_count(self) -> int | None:
        """Number of values with a position; None for an open field."""
        return None

    @property
    def _value_names(self) -> list[str]:
        """Readable names of the positions of values."""
        return [f"{self.name}={label}" for label in self.labels]

    @property
    def labels(self) -> list[str]:
        """The values as texts, in the order of their positions; empty for an open field and for numbers."""
        return []

    @property
    def is_open(self) -> bool:
        """Whether values, bounds or bins are still to be discovered."""
        return self._value_count is None

    @property
    def may_be_missing(self) -> bool:
        """Whether the last position stands for a missing value; True also if that is still to be found."""
        return getattr(self, "missing", False) is not False

    @property
    def width(self) -> int:
        """Number of positions in the binary vector; nominal for an open field."""
        values = self._nominal_count if self._value_count is None else self._value_count
        return values + self.may_be_missing

    @property
    def position_names(self) -> list[str]:
        """A readable name per position; empty for an open field."""
        missing = self.may_be_missing and not self.is_open
        return [*self._value_names, f"{self.name} missing"] if missing else self._value_names

    @property
    def equal_bins(self) -> int:
        """How many equal bins a number has; 0 for other fields."""
        return 0

    @property
    def decimal_places(self) -> int | None:
        """How many decimal places numbers have; None if they are no numbers, or have any number of places."""
        return None

    @property
    def as_set(self) -> "SetField | None":
        """The field itself if a record has any number of its positions."""
        return None

    @property
    def is_set(self) -> bool:
        """Whether a record has any number of positions (Bernoulli outputs), not exactly one (a softmax)."""
        return self.as_set is not None

    @property
    def is_category(self) -> bool:
        """Whether a record has one of a list of values, which a domain states or a fit finds and publishes."""
        return self.lists_values and not self.is_set

    @property
    def as_sequence(self) -> "ItemSequence | None":
        """The field itself if its items have an order."""
        return None

    @property
    def image(self) -> "Image | None":
        """The field itself if a record holds an image in it."""
        return None

    def check_among(self, others: "Mapping[str, Field]") -> None:
        """Raise UsageError unless the field suits the other fields of its domain, by name."""

    # -- reading ---------------------------------------------------------------------------------------------------

    reads_numbers: ClassVar[bool] = False  # whether cells are numbers, in the number style of the file
    pattern: str | None = None  # how dates are written

    def reader(self, style: CellStyle, others: "Mapping[str, Field]") -> FieldReader:
        """Reads the field's column of one table after the other, each row by itself; `others` are the domain's."""
        raise NotImplementedError

    def from_objects(self, values: Sequence[Any], place: "Place") -> Array:
        """Python objects, such as a frame has them, as an Arrow column; each value by itself."""
        from dpgm.data.values import object_texts

        return object_texts(values, place)

    def in_one_spelling(self, texts: Array) -> Array:
        """Raw texts, with one spelling for each value."""
        return texts

    def refuse_missing(self, missing: Mask, where: "Place", advice: str | None = None) -> None:
        """Raise if values are missing in a field that allows none."""
        from dpgm.data.values import refuse_first

        if not self.may_be_missing:
            advice = advice or "correct the file, or give the field `missing: true`"
            refuse_first(missing, where, f"the value is missing; {advice}.")

    # -- writing ---------------------------------------------------------------------------------------------------

    def drawn(self, cells: Cells, rng: Rng) -> Any:
        """Values drawn for positions, in a form that `finished` understands; by default the Arrow column itself."""
        raise NotImplementedError

    def finished(self, drawn: Mapping[str, Any], others: "Mapping[str, Field]", rng: Rng) -> Array:
        """The Arrow column, once the values of all fields of the domain were drawn."""
        return drawn[self.name]

    def as_written(self, column: Array) -> Array | None:
        """An Arrow column as text files and sheets have it; None if it stays as it is."""
        return None

    def as_cells(self, column: Array) -> Array | None:
        """Lists as cells of text; None if they are written as JSON lists."""
        return None

    # -- conditions ------------------------------------------------------------------------------------------------

    def positions_with(self, labels: Sequence[str | None]) -> Mask:
        """Mask of the positions of some labels; None stands for a missing value."""
        mask, chosen = np.zeros(self.width, dtype=np.bool_), set(labels) - {None}
        if chosen:
            known = self.labels
            mask[: len(known)] = [label in chosen for label in known]
        if None in labels and self.may_be_missing:
            mask[-1] = True
        return mask

    def position_ranges(self) -> tuple[Floats, Floats] | None:
        """Lowest and highest number of every position but missing, in days for dates; None if they are not known."""
        return None

    def numbers_in(self, column: Array, missing: Sequence[str], where: "Place") -> tuple[Floats, Mask]:
        """Cells as numbers, as conditions see them (dates: days since 1970), and a mask of the missing ones."""
        raise NotImplementedError

    def cells_of(self, numbers: Floats, kind: DataType) -> Array:
        """Numbers (NaN if missing) as cells of a column of this Arrow type: the inverse of `numbers_in`."""
        raise NotImplementedError

    def number_of(self, text: str) -> float | None:
        """A value as users write it in conditions as a number; None if it is none."""
        return plain_number(text)

    def holds_number(self, numbers: Floats) -> Mask:
        """Mask of the numbers that are values of the field."""
        allowed: Mask = np.isfinite(numbers)
        ranges = self.position_ranges()
        if ranges is not None:
            with np.errstate(invalid="ignore"):
                allowed &= (numbers >= ranges[0].min() - 1e-9) & (numbers <= ranges[1].max() + 1e-9)
        return allowed

    # -- discovery -------------------------------------------------------------------------------------------------

    @property
    def finds_labels(self) -> bool:
        """Whether its labels are to be found: those that many records hold, by a noisy threshold."""
        return False

    @property
    def open_number(self) -> "OpenNumber | None":
        """The field itself if its range, popular values and bins are to be found."""
        return None

    def with_labels(self, labels: tuple[Label, ...], *, other: bool) -> "Field":
        """The closed field with the labels that were found; `other`: unpublished ones need a position."""
        raise NotImplementedError

    def may_become(self, closed: "Field") -> bool:
        """Whether discovery can have made this closed field of it; a closed field stays as it is."""
        return type(closed) is type(self) if self.is_open else closed == self

    def recoder(self, column: OpenColumn, fallback: int | None) -> Recoder:
        """How an open column becomes positions of this closed field.

        Args:
            column: the whole column, whose vocabulary is looked up once.
            fallback: the position of values that are not published and, if none stands for "missing", of missing ones.
        """
        position_of = self.positions_in(column.vocabulary)
        absent = self.width - 1 if self.may_be_missing else fallback or 0

        def recode(part: Any) -> OpenColumn:
            codes = part.codes.astype(np.int64) if position_of is None else position_of[part.codes]
            if fallback is not None:
                codes = np.where((codes < 0) & (part.codes >= 0), fallback, codes)
            return CodeColumn(np.where(codes < 0, absent, codes).astype(np.int32))

        return recode

    def positions_in(self, vocabulary: Vocabulary | None) -> Codes | None:
        """The position of every label of a vocabulary, -1 if it has none and nothing stands for others; last, -1."""
        if vocabulary is None:
            return None
        known = {label: at for at, label in enumerate(self.labels)}
        unlisted = known.get(OTHER, -1) if self.has_other else -1
        return np.array([*(known.get(label, unlisted) for label in vocabulary.codes), -1], dtype=np.int64)

    @property
    def has_other(self) -> bool:
        """Whether the value `(other)` stands for values that are not listed."""
        return False


def lists_of(codes: Codes, offsets: NDArray[np.int64], labels: Sequence[Label]) -> Array:
    """Lists of labels from the codes of all rows, concatenated, and row offsets."""
    return list_array(offsets, label_array(labels).take(pa.array(codes)))


def list_array(offsets: NDArray[np.int64], values: Array) -> Array:
    """Lists from the values of all rows, concatenated, and row offsets."""
    if offsets[-1] < 2**31:
        return pa.ListArray.from_arrays(pa.array(offsets.astype(np.int32)), values)
    return pa.LargeListArray.from_arrays(pa.array(offsets), values)


def label_array(labels: Sequence[Label]) -> Array:
    """Labels as an Arrow array: texts, 32-bit integers if they fit, otherwise 64-bit integers."""
    if isinstance(labels[0], str):
        return pa.array(labels, type=pa.string())
    values = np.asarray(labels, dtype=np.int64)
    small = values.min() >= -(2**31) and values.max() < 2**31
    return pa.array(values.astype(np.int32) if small else values)
