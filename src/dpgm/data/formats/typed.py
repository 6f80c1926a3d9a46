"""`Typed`: formats that state the type of every column, such as Parquet files and databases."""

from dataclasses import replace
from typing import TYPE_CHECKING

from dpgm.data.formats.base import Format, Guess
from dpgm.data.formats.opening import Input
from dpgm.data.items import flat_column
from dpgm.data.presence import is_binary
from dpgm.data.values import TEXTS

if TYPE_CHECKING:
    from dpgm.data.read.options import ReadOptions


class Typed(Format):
    """A format whose schema says what a column holds."""

    def guess(self, source: Input, options: "ReadOptions") -> Guess:
        """Whether there are lists of items, 0/1 columns or a table."""
        if options.stated_shape not in (None, "wide") or options.public_domain is not None:
            return Guess(options)
        stream = self.stream(source, options)
        names = [name for name in stream.names if name != options.person]
        if stream.lists and len(names) > 1:  # then the list is one of several columns of a table
            return Guess(replace(options, shape="wide"), table=True)
        if options.shape is None and len(stream.lists) == 1:
            return Guess(options)
        first = next(stream.rows(dict.fromkeys(names, TEXTS)), None)
        if first is None or stream.lists:
            return Guess(options)
        binary = all(is_binary(flat_column(first.table, name), options.threshold) for name in names)
        return Guess(replace(options, shape="wide"), table=not binary)
