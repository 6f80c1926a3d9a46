"""The kinds of columns: one module each, and one line in `KINDS`.

`base` says what a kind answers. `open_number` has what numbers and dates share; `shaped` is what a fit makes of an open
number.
"""

from typing import TYPE_CHECKING

from dpgm.data.arrow import DataType, pa
from dpgm.data.kinds.base import Column, Field
from dpgm.data.kinds.boolean import Boolean
from dpgm.data.kinds.categorical import Categorical
from dpgm.data.kinds.date import Date, DateTime
from dpgm.data.kinds.identifier import Identifier
from dpgm.data.kinds.ignored import Ignored
from dpgm.data.kinds.image import Image
from dpgm.data.kinds.items import ItemSet
from dpgm.data.kinds.numeric import Numeric
from dpgm.data.kinds.open_number import OpenNumber
from dpgm.data.kinds.sequence import ItemSequence
from dpgm.data.kinds.shaped import ShapedNumber

__all__ = [
    "KINDS",
    "Boolean",
    "Categorical",
    "Column",
    "Date",
    "DateTime",
    "Field",
    "Identifier",
    "Ignored",
    "Image",
    "ItemSequence",
    "ItemSet",
    "Numeric",
    "OpenNumber",
    "ShapedNumber",
    "column_of_type",
    "draft_words",
    "drafted",
    "judged",
    "kind_named",
    "kinds_stated",
]

if TYPE_CHECKING:
    from dpgm.data.inspect.seen import Seen

# In the order in which they are asked whether a column looks like them; the last takes what is left.
KINDS: tuple[type[Column], ...] = (
    ItemSet,
    ItemSequence,
    Image,
    Boolean,
    Identifier,
    Ignored,
    Numeric,
    Date,
    DateTime,
    ShapedNumber,
    Categorical,
)


def kind_named(name: object) -> type[Column] | None:
    """The kind of that name in a domain file."""
    return next((kind for kind in KINDS if kind.kind == name), None)


def judged(seen: "Seen") -> tuple[str, str]:
    """What a column looks like, as a word of `draft_words`, and the reason for the curator."""
    found = (kind.recognised(seen) for kind in KINDS)
    return next(one for one in found if one is not None)


def drafted(seen: "Seen", word: str) -> Column:
    """The column of a draft, everything but its kind left open."""
    return next(kind for kind in KINDS if word in kind.draft_kinds).drafted(seen, word)


def draft_words() -> dict[str, str]:
    """What a curator may call kinds in a draft, and what drafts call them; the words of domain files count, too."""
    own = {word: word for kind in KINDS for word in kind.draft_kinds}
    return {kind.kind: kind.draft_kinds[0] for kind in KINDS if kind.draft_kinds} | own


def kinds_stated() -> list[str]:
    """The names of the kinds that a domain file may state."""
    return [kind.kind for kind in KINDS if kind.is_stated]


def column_of_type(name: str, kind: DataType) -> Column:
    """The column that a name and an Arrow type say it is, its values left open; ignored if no kind has this type."""
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    found = (one.of_type(name, kind) for one in KINDS)
    return next((one for one in found if one is not None), Ignored(name))
