"""What the columns of a person add, alone, in pairs, and with the events: maps from records to sparse vectors.

In all but the first one, columns have few codes: neighbouring or rare values share one (`AttributeCodes.coarse`).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dpgm.arrays import Floats, Ints
from dpgm.data.domain import Domain
from dpgm.data.records import Records
from dpgm.data.rows import row_pointers
from dpgm.mechanisms.query import Measures
from dpgm.statistics.clipped_vectors import Vectors
from dpgm.statistics.coded_rows import Coding
from dpgm.statistics.event_vectors import SequenceLengths, item_events, person_events, steps_of
from dpgm.statistics.statistic import Descriptions

ATTRIBUTES, ATTRIBUTE_PAIRS, ATTRIBUTES_BY_LENGTH, ATTRIBUTES_BY_STEP, ATTRIBUTES_BY_ITEM = (
    "attributes",
    "pairs of attributes",
    "attributes by length",
    "attributes by step",
    "attributes by item",
)


@dataclass(frozen=True, eq=False)
class AttributeCodes:
    """The code of every value of every column.

    Attributes:
        domain: the public domain.
        codes: for each column, the code of each of its values; codes rise from 0.
    """

    domain: Domain
    codes: tuple[Ints, ...]

    @classmethod
    def fine(cls, domain: Domain) -> "AttributeCodes":
        """Every value has a code of its own."""
        return cls(domain, tuple(np.arange(block.stop - block.start) for block in domain.table_columns))

    @classmethod
    def coarse(cls, domain: Domain, shares: Sequence[Floats], most: int) -> "AttributeCodes":
        """At most `most` codes per column, given the released share of every value.

        Values of an ordered column are cut into ranges of about equally many people; of other columns the most popular
        have a code each, and the rest share one.
        """
        fields = [field for field, block in zip(domain.fields, domain.blocks, strict=True) if block.softmax]
        pairs = zip(fields, shares, strict=True)
        return cls(domain, tuple(_merged(own, most, field.position_ranges() is not None) for field, own in pairs))

    @property
    def sizes(self) -> tuple[int, ...]:
        """The number of codes of every column."""
        return tuple(int(own.max()) + 1 for own in self.codes)

    def of(self, records: Records) -> Ints:
        """(n, columns): the code of every column of every record; -1 where a record has no value."""
        found = Coding.of(self.domain).codes(records)[:, : len(self.codes)]
        known = [np.append(own, -1) for own in self.codes]
        for at, own in enumerate(known):
            found[:, at] = own[found[:, at]]
        return found

    def cells(self, records: Records) -> tuple[Ints, Ints]:
        """The record and the cell of every value; the cells of columns follow one another."""
        codes = self.of(records)
        rows, columns = np.nonzero(codes >= 0)
        return rows, row_pointers(np.array(self.sizes))[columns] + codes[rows, columns]


def _merged(shares: Floats, most: int, ordered: bool) -> Ints:
    if len(shares) <= most:
        return np.arange(len(shares))
    if ordered:
        above = np.maximum(shares, 0) + 1e-9 / len(shares)
        middle = (np.cumsum(above) - above / 2) / above.sum()
        return np.unique(np.minimum((middle * most).astype(np.int64), most - 1), return_inverse=True)[1]
    codes = np.full(len(shares), most - 1)
    codes[np.sort(np.argsort(-shares, kind="stable")[: most - 1])] = np.arange(most - 1)
    return codes


@dataclass(frozen=True, eq=False)
class AttributeVectors:
    """1 for the value of every column, for every pair of values of two columns, or for every value and length."""

    words: ClassVar[Descriptions] = {
        ATTRIBUTES: Measures("measure", "people with each value of each column", "the bound on a norm"),
        ATTRIBUTE_PAIRS: Measures(
            "measure", "people with each pair of values of two columns", "the bound on a norm"
        ),
        ATTRIBUTES_BY_LENGTH: Measures(
            "measure", "people with each value of each column, by number of events", "the bound on a norm"
        ),
    }

    name: str
    codes: AttributeCodes

    @property
    def width(self) -> int:
        """One cell for each."""
        sizes = self.codes.sizes
        if self.name == ATTRIBUTE_PAIRS:
            return sum(one * two for at, one in enumerate(sizes) for two in sizes[:at])
        return sum(sizes) * (1 if self.name == ATTRIBUTES else _lengths(self.codes.domain).width)

    @property
    def ones(self) -> int:
        """How many ones a record without missing values has."""
        columns = len(self.codes.sizes)
        return columns * (columns - 1) // 2 if self.name == ATTRIBUTE_PAIRS else columns

    def vectors(self, records: Records) -> Vectors:
        """The values, pairs, or values and lengths of every record."""
        if self.name == ATTRIBUTE_PAIRS:
            rows, cells = self._pairs(records)
        else:
            rows, cells = self.codes.cells(records)
        if self.name == ATTRIBUTES_BY_LENGTH:
            lengths = _lengths(self.codes.domain)
            cells = cells * lengths.width + lengths.cells(records)[rows]
        return Vectors.counted(rows, cells, len(records), self.width)

    def _pairs(self, records: Records) -> tuple[Ints, Ints]:
        codes, sizes = self.codes.of(records), self.codes.sizes
        rows, cells, start = [np.empty(0, dtype=np.int64)], [np.empty(0, dtype=np.int64)], 0
        for one in range(len(sizes)):
            for two in range(one):
                known = np.flatnonzero((codes[:, one] >= 0) & (codes[:, two] >= 0))
                rows.append(known)
                cells.append(start + codes[known, one] * sizes[two] + codes[known, two])
                start += sizes[one] * sizes[two]
        return np.concatenate(rows), np.concatenate(cells)


def _lengths(domain: Domain) -> SequenceLengths:
    assert domain.sequence is not None
    return SequenceLengths(domain.sequence.max_length)


@dataclass(frozen=True, eq=False)
class AttributesByEvents:
    """log2(1 + how often) for every step and value of a column; or 1 for every item and value that go together."""

    words: ClassVar[Descriptions] = {
        ATTRIBUTES_BY_STEP: Measures(
            "measure",
            "log2(1 + how often) each item comes after each, by value of each column",
            "the bound on a norm",
        ),
        ATTRIBUTES_BY_ITEM: Measures(
            "measure", "people with each item, by value of each column", "the bound on a norm"
        ),
    }

    name: str
    codes: AttributeCodes
    items: int

    @property
    def width(self) -> int:
        """One cell for each step, or item, and value."""
        return sum(self.codes.sizes) * self._single

    @property
    def _single(self) -> int:
        return (self.items + 1) ** 2 if self.name == ATTRIBUTES_BY_STEP else self.items

    def vectors(self, records: Records) -> Vectors:
        """For every value of a person, all steps or items of the person."""
        events = person_events(records)
        by_step = self.name == ATTRIBUTES_BY_STEP
        owners, cells = steps_of(events, self.items) if by_step else item_events(events)
        single = Vectors.counted(owners, cells, len(records), self._single)
        single = single.logarithms() if by_step else single.present()
        rows, values = self.codes.cells(records)
        order = np.argsort(rows, kind="stable")
        rows, values = rows[order], values[order]
        lengths = np.diff(single.indptr)[rows]
        entry = np.repeat(single.indptr[rows] - row_pointers(lengths)[:-1], lengths) + np.arange(int(lengths.sum()))
        counts = np.bincount(rows, np.diff(single.indptr)[rows], minlength=len(records)).astype(np.int64)
        return Vectors(
            row_pointers(counts),
            np.repeat(values, lengths) * self._single + single.cells[entry],
            single.steps[entry],
        )
