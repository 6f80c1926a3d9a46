"""How a file of item sets was laid out, so that synthetic ones can be written like it.

What is kept was stated by the user or stands in a schema: the shape and the names of columns, nothing of any row.
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
