"""`Format`: what every file format answers. A format is a module of this package and a line in `FORMATS`."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeAlias

from dpgm.data.domain import Domain
from dpgm.data.formats.written import Written
from dpgm.data.layouts import Shape
from dpgm.data.records import Records
from dpgm.data.stream import RowStream
from dpgm.errors import UsageError

if TYPE_CHECKING:
    from dpgm.data.formats.opening import Input
    from dpgm.data.read.options import ReadOptions

Append: TypeAlias = Callable[[Records, int], object]  # takes records, and the number of the first one
NO_EVENTS = "the format {} cannot hold the events of a sequence; write .csv, .jsonl or .parquet."
# What options need of a file to mean something, and what is said of a file without it.
NEEDS = {
    "columns": "{format} files have no columns; leave out `person` and `item`.",
    "lines": "`skip_lines` is for text files and Excel sheets; leave it out.",
    "labels": "`labels` belongs to idx images; leave it out.",
    "queries": "`table` and `query` are for databases; leave them out.",
    "written numbers": (
        "numbers of {format} files have a point of their own (1.234 would become 1234); leave out `decimal`,"
        " `thousands` and `strip_from_numbers`, or save the data as CSV."
    ),
}


@dataclass(frozen=True)
class Guess:
    """Reading options completed from the first rows, for a curator who releases nothing.

    Attributes:
        options: the options.
        table: whether the file is a table that needs a domain.
        columns: the columns of such a table, as far as only rows tell, and whether they hold lists.
        unread: columns that are not read although they are there.
    """

    options: "ReadOptions"
    table: bool = False
    columns: Mapping[str, bool] = field(default_factory=dict)
    unread: tuple[str, ...] = ()


@dataclass(frozen=True)
class Format:
    """A file format: its name, and the endings by which it is known; `other_endings` are not named in messages.

    `media_type` is what the web calls its files.

    Class attributes:
        has: what its files have that options may need, of the keys of `NEEDS`.
        only_shape: the shape of item sets, if the format has no other.
        keeps_order: whether a record may hold an item several times, in order.
        packed: whether files are compressed by themselves, so that none ends with .gz.
        writes: where records are written: to a stream of bytes, to a file by its path, into a folder, into a table of
            a database, or nowhere.
    """

    name: str
    endings: tuple[str, ...]
    other_endings: tuple[str, ...] = ()
    media_type: str = "application/octet-stream"

    has: ClassVar[frozenset[str]] = frozenset({"columns", "written numbers"})
    only_shape: ClassVar[Shape | None] = None
    keeps_order: ClassVar[bool] = True
    packed: ClassVar[bool] = False
    writes: ClassVar[Literal["stream", "file", "folder", "table"] | None] = None

    # -- reading -------------------------------------------------------------------------------------------------------

    def stream(self, source: "Input", options: "ReadOptions", draft: Guess | None = None) -> RowStream:
        """The rows of a file; for a `draft` those of a table without a domain, as far as it was guessed."""
        raise NotImplementedError

    def guess(self, source: "Input", options: "ReadOptions") -> Guess:
        """The options, with what they do not state guessed from the first rows; columns are those of a table."""
        if "columns" not in self.has or options.stated_shape not in (None, "wide") or options.domain is not None:
            return Guess(options)
        return Guess(replace(options, shape="wide"), table=True)

    def parts(self, source: "Input") -> Sequence[int]:
        """The number of rows of every part that can be read by itself; none if a file is read as a whole."""
        return ()

    def stream_of_parts(self, source: "Input", options: "ReadOptions", parts: Sequence[int]) -> RowStream:
        """The rows of some parts, given by their numbers."""
        raise NotImplementedError

    def begins(self, head: bytes) -> bool:
        """Whether data that come without a name begin like a file of this format."""
        return False

    def holds(self, folder: Path) -> bool:
        """Whether a folder is a file of this format."""
        return False

    # -- writing -------------------------------------------------------------------------------------------------------

    def misfit(self, domain: Domain) -> str | None:
        """Why records of a domain cannot be written; None if they can."""
        if domain.sequence is not None and not self.keeps_order:
            return NO_EVENTS.format(self.name)
        if self.writes is None:
            return f"the format {self.name} can only be read; write .csv, .parquet, .jsonl or .dat."
        return None

    def writer(self, target: Any, written: Written) -> AbstractContextManager[Append]:
        """Appends records to a stream, to the file or folder of a path, or to a table; at the end, completes it."""
        raise UsageError(f"the format {self.name} can only be read.")
