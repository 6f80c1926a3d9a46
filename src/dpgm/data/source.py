"""What the user says about a file, and what the reader says about the records it gave."""

from dataclasses import dataclass
from typing import Literal

from dpgm.data.domain import Domain
from dpgm.data.formats import Shape, check_shape
from dpgm.errors import UsageError

NEEDS_DOMAIN = (
    "the set of items must be public, and reading it from the file would tell about the people in it; either give"
    " --domain FILE (domain=) with the public list, or pass --assume-public-items (assume_public_items=True) to"
    " declare that the items occurring in the file are public knowledge"
)


@dataclass(frozen=True)
class Source:
    """Facts about how records were read that a certificate must state.

    `unit` is the unit of privacy: `person` where rows were grouped by, or checked to be distinct in, a person
    column; `row` where the user's rows are taken as people. `items_assumed_public` tells that the list of items
    came from the file, declared public by the custodian.
    """

    unit: Literal["person", "row"]
    items_assumed_public: bool
    shape: Shape


@dataclass(frozen=True)
class Reading:
    """How a file is to be read. Everything not said is detected where it is unambiguous, else asked for."""

    domain: Domain | None = None
    assume_public_items: bool = False
    format: str | None = None
    shape: Shape | None = None
    person: str | None = None
    item: str | None = None
    count: str | None = None
    threshold: float | None = None
    labels: str | None = None
    member: str | None = None
    separator: str | None = None
    header: bool | None = None
    missing: tuple[str, ...] = ()
    comment: str | None = None
    strip_suffix: str = ""

    def __post_init__(self) -> None:
        check_shape(self.shape)
        if self.separator is not None and (len(self.separator) != 1 or self.separator in '"\n\r'):
            raise UsageError("`separator` must be one character that is neither a quote nor a line end.")
        if self.comment == "":
            raise UsageError("`comment` must be the text that comment lines start with.")
        if self.count is not None and (self.person is None or self.item is None):
            raise UsageError("`count` belongs to the long shape; give `person` and `item` as well.")
