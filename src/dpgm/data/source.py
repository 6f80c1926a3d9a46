"""What the reader says about the records it gave."""

from dataclasses import dataclass
from typing import Literal

from dpgm.data.layout import Layout, Shape


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
