"""Shapes of item sets in files, and facts about how records were read.

`Layout` and `Source` hold only what the user stated or a schema says (shape, column names), never contents of a row.
"""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

from dpgm.errors import UsageError
from dpgm.validation import near

Shape: TypeAlias = Literal["basket", "long", "wide"]
SHAPES: tuple[Shape, ...] = get_args(Shape)
# Of a long table: everything, the events alone, or one row per person with the other columns.
TablePart: TypeAlias = Literal["all", "events", "persons"]

_MAX_NAME = 1000  # characters of a column name


def check_shape(shape: str | None) -> Shape | None:
    """A shape given by the user; raises if it is unknown."""
    if shape is None or shape in SHAPES:
        return shape  # type: ignore[return-value]
    raise UsageError(f"`shape` must be one of {', '.join(SHAPES)}; got {shape!r}{near(shape, SHAPES)}.")


def free_name(name: str, taken: Collection[str]) -> str:
    """The name, with as many underscores after it as tell it from those that are taken.

    >>> free_name("time", ["station", "time"])
    'time_'
    """
    while name in taken:
        name += "_"
    return name


@dataclass(frozen=True)
class Layout:
    """The shape of item sets and sequences in a file, and the names of their columns.

    Attributes:
        shape: `basket` (one row per record), `long` (one row per person and item) or `wide` (a 0/1 column per item; for
            a sequence with other columns one row per person, its items a list).
        person: the column of persons (long).
        item: the column of items (long) or of lists (basket); None for a basket file whose lines are lists of items.
        time: the column of the times, or of any numbers that rise with time, of a sequence; one list per row where
            items are.
    """

    shape: Shape
    person: str | None = None
    item: str | None = None
    time: str | None = None

    def __post_init__(self) -> None:
        if self.shape not in SHAPES:
            raise UsageError(f"the shape of a layout must be one of {', '.join(SHAPES)}.")
        names = [name for name in (self.person, self.item, self.time) if name is not None]
        for name in names:
            if not (isinstance(name, str) and 0 < len(name) <= _MAX_NAME and "\0" not in name):
                raise UsageError("the columns of a layout must be texts.")
        if len(set(names)) < len(names):
            raise UsageError("the columns of a layout must differ.")


@dataclass(frozen=True)
class Source:
    """Facts about how records were read that a certificate must state.

    `unit` is the unit of privacy: `person` if rows were grouped by a person column, or checked to be distinct in it;
    `row` if every row is assumed to be a different person. `items_assumed_public`: the list of items was taken from the
    file and declared public by the custodian. `layout` is how item sets were laid out in the file, so that samples can
    be written in the same way. `rows_per_person` is the maximum number of rows kept per person. `like_persons`
    are columns that are named like identifiers of persons where no column of persons was stated. `vouched`: the rows
    are those of a query or a view, and might depend on several people.
    """

    unit: Literal["person", "row"]
    items_assumed_public: bool
    shape: Shape
    layout: Layout | None = None
    rows_per_person: int = 1
    like_persons: tuple[str, ...] = ()
    vouched: bool = False
