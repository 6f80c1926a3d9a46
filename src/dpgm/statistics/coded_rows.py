"""Records as rows of codes: one code per table column, and for each list of items a code of its length.

A code depends on the record, the domain and released numbers alone. A record without a value in a column has the code
after the last one there, which every statistic of coded rows passes over.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from dpgm.arrays import Ints
from dpgm.data.domain import Domain
from dpgm.data.records import Records
from dpgm.statistics.record_lengths import LONGEST

_SINGLE = 16  # lengths up to here have a code each; longer ones share codes, whose ranges grow by a quarter


def length_codes(items: int) -> Ints:
    """The code of every length 0, 1, ... of a list of so many possible items; longer lists have the last one's.

    >>> length_codes(21).tolist()[14:]
    [14, 15, 16, 17, 17, 17, 17, 18]
    """
    longest = min(items, LONGEST)
    starts = list(range(min(longest, _SINGLE) + 1))
    while starts[-1] < longest:
        starts.append(starts[-1] + max(1, starts[-1] // 4 if starts[-1] > _SINGLE else 1))
    starts = [start for start in starts if start <= longest]
    return np.searchsorted(np.array(starts), np.arange(longest + 1), side="right").astype(np.int64) - 1


@dataclass(frozen=True, eq=False)
class Coding:
    """How records become codes.

    Attributes:
        domain: the closed domain.
        columns: (width,) the column of each position; -1 for items.
        values: (width,) its code there.
        lists: (start, stop) of every item set; their length columns follow the table columns.
        lengths: for each list, the code of every length.
        sizes: the number of codes of every column.
    """

    domain: Domain
    columns: Ints
    values: Ints
    lists: tuple[tuple[int, int], ...]
    lengths: tuple[Ints, ...]
    sizes: tuple[int, ...]

    @classmethod
    def of(cls, domain: Domain) -> "Coding":
        """One code per position of a column."""
        columns, values = np.full((2, domain.width), -1, dtype=np.int64)
        for number, column in enumerate(domain.table_columns):
            columns[column], values[column] = number, np.arange(column.stop - column.start)
        lists = tuple((block.start, block.stop) for block in domain.blocks if not block.softmax)
        lengths = tuple(length_codes(stop - start) for start, stop in lists)
        sizes = [column.stop - column.start for column in domain.table_columns]
        return cls(domain, columns, values, lists, lengths, (*sizes, *(int(codes[-1]) + 1 for codes in lengths)))

    def merged(self, maps: Sequence[Ints]) -> "Coding":
        """The coding whose columns have the codes `maps[column][code]`, numbered from 0."""
        values = self.values.copy()
        for number, new in enumerate(maps[: len(self.domain.table_columns)]):
            inside = self.columns == number
            values[inside] = new[self.values[inside]]
        pairs = zip(self.lengths, maps[len(self.domain.table_columns) :], strict=True)
        sizes = tuple(int(new.max()) + 1 for new in maps)
        return replace(self, values=values, lengths=tuple(new[codes] for codes, new in pairs), sizes=sizes)

    @cached_property
    def table_columns(self) -> int:
        """The number of table columns, which come first."""
        return len(self.sizes) - len(self.lists)

    def codes(self, records: Records) -> Ints:
        """(n, columns): the codes of every record."""
        codes = np.tile(np.array(self.sizes, dtype=np.int64), (len(records), 1))
        rows = np.repeat(np.arange(len(records)), records.lengths)
        columns = self.columns[records.indices]
        # Backward, so that of several positions in one column the first one counts.
        chosen = np.flatnonzero(columns >= 0)[::-1]
        codes[rows[chosen], columns[chosen]] = self.values[records.indices[chosen]]
        for number, ((start, stop), known) in enumerate(zip(self.lists, self.lengths, strict=True)):
            inside = (records.indices >= start) & (records.indices < stop)
            held = np.bincount(rows[inside], minlength=len(records))
            codes[:, self.table_columns + number] = known[np.minimum(held, len(known) - 1)]
        return codes
