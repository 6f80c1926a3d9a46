"""What the reader says about the records it gave, and how a file of item sets was laid out.

What is kept was stated by the user or stands in a schema: the shape and the names of columns, nothing of any row.
Samples can be written in the same layout.
"""

from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

from dpgm.errors import UsageError

Shape: TypeAlias = Literal["basket", "long", "wide"]
SHAPES: tuple[Shape, ...] = get_args(Shape)
_MOST_CHARACTERS = 1000


@dataclass(frozen=True)
class Layout:
    """The shape of item sets, and the columns they stood in.

    Attributes:
        shape: `basket` (one row per record), `long` (one row per person and item) or `wide` (a 0/1 column per item).
        person: long: the column of persons.
        item: the column of items (long) or of lists (basket); a basket without one is a line of items, no columns.
    """

    shape: Shape
    person: str | None = None
    item: str | None = None

    def __post_init__(self) -> None:
        if self.shape not in SHAPES:
            raise UsageError(f"the shape of a layout must be one of {', '.join(SHAPES)}.")
        for name in (self.person, self.item):
            fine = name is None or (
                isinstance(name, str) and 0 < len(name) <= _MOST_CHARACTERS and "\0" not in name
            )
            if not fine:
                raise UsageError("the columns of a layout must be texts.")
        if self.person is not None and self.person == self.item:
            raise UsageError("the columns of a layout must differ.")


@dataclass(frozen=True)
class Source:
    """Facts about how records were read that a certificate must state.

    `unit` is the unit of privacy: `person` where rows were grouped by, or checked to be distinct in, a person
    column; `row` where the user's rows are taken as people. `items_assumed_public` tells that the list of items
    came from the file, declared public by the custodian. `layout` is how item sets stood in the file, for samples to be
    written alike. `rows_per_person` is how many rows a person keeps at most, where rows are not people.
    """

    unit: Literal["person", "row"]
    items_assumed_public: bool
    shape: Shape
    layout: Layout | None = None
    rows_per_person: int = 1
