"""Encoding: Arrow tables with one column per field as records of a domain (`decoding` goes back).

Every row is read by itself, each field by its kind (`data/kinds`). A number outside its range is clamped, an item
outside an item set is dropped silently, and an unknown category counts as `(other)` or missing if the field has that,
and is an error otherwise. For an open domain the result is `OpenRecords` with open columns.
"""

from collections.abc import Sequence

import pyarrow as pa

from dpgm.data.domain import Domain
from dpgm.data.kinds.base import CellStyle
from dpgm.data.open_columns import OpenColumn
from dpgm.data.open_records import records_of
from dpgm.data.records import Records
from dpgm.data.values import PLAIN_NUMBERS, NumberStyle, Place, numbered_row, with_plain_numbers
from dpgm.errors import InputError


class TableEncoder:
    """Encodes tables, one after the other, as records of one domain.

    `missing` are texts that stand for a missing value, besides those of the domain, `strip_suffix` is cut off
    categories, `item_separator` separates the items in cells of text, and `time` is the column with the times of a
    sequence (by default as the layout of the domain says). Pixels above `threshold` are on, and `numbers` is how texts
    write numbers.
    """

    def __init__(
        self,
        domain: Domain,
        missing: Sequence[str] = (),
        strip_suffix: str = "",
        item_separator: str | None = None,
        time: str | None = None,
        *,
        threshold: float | None = None,
        numbers: NumberStyle = PLAIN_NUMBERS,
    ) -> None:
        self.domain = domain
        self._missing, self._numbers = missing, numbers
        self._numeric = [field.name for field in domain.fields if field.reads_numbers]
        texts = ("", *missing, *domain.missing_texts)
        style = CellStyle(texts, strip_suffix, item_separator, time or domain.time_column, threshold)
        self._names = [*(field.name for field in domain.fields), *([] if style.time is None else [style.time])]
        others = {field.name: field for field in domain.fields}
        self._readers = [field.reader(style, others) for field in domain.fields]

    def encode(self, table: pa.Table, place: Place = numbered_row) -> Records:
        """The records of a table; columns that the domain does not name are ignored."""
        return records_of(self.columns(table, place), table.num_rows, self.domain)

    def columns(self, table: pa.Table, place: Place = numbered_row) -> list[OpenColumn]:
        """The columns of the fields, from those of a table."""
        names = set(table.column_names)
        for name in self._names:
            if name not in names:
                raise InputError(
                    f"{place(0)}: there is no column {name!r}, which the domain names; correct the domain"
                    " or the file."
                )
        table = with_plain_numbers(table, self._numeric, self._numbers, self._missing, place)
        return [read(table, place) for read in self._readers]
