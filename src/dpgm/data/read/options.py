"""The options that say how a file is read, as one frozen value that goes from the command line to the readers.

What a row is read as depends on that row, the domain and these options, and on nothing else.
"""

import codecs
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TypedDict, Unpack

from dpgm import validation
from dpgm.data.domain import Domain
from dpgm.data.domain_file import DomainLike, as_domain
from dpgm.data.formats import Shape, check_shape, format_of
from dpgm.data.kinds.items import SetField
from dpgm.data.stores import PROCESS_BYTES, MemoryLimit, bytes_of, rows_share, size_text
from dpgm.data.values import NumberStyle
from dpgm.errors import ResourceError, UsageError

Paths = str | os.PathLike[str]
_MAX_SKIPPED_LINES = 10_000
_MAX_ROWS_PER_PERSON = 1000  # noise grows with them: beyond, nothing can be learned
UTF8 = "utf-8"
# Only encodings in which bytes mean the same at any position: in those that shift between alphabets, one row could
# change how the next is read.
_ENCODINGS = (
    *(UTF8, "utf-16", "utf-16-le", "utf-16-be", "ascii", "latin-1"),
    *(f"iso-8859-{part}" for part in (2, 3, 4, 5, 6, 7, 8, 9, 10, 13, 14, 15, 16)),
    *(f"cp{page}" for page in (437, 850, 852, 866, 1250, 1251, 1252, 1253, 1254, 1255, 1256, 1257, 1258)),
    *("mac-roman", "koi8-r", "koi8-u", "gbk", "gb18030", "big5", "shift-jis", "cp932", "euc-jp", "euc-kr", "cp949"),
)
_ENCODING_OF_CODEC = {codecs.lookup(name).name: name for name in _ENCODINGS}
NEEDS_DOMAIN = (
    "the set of items must be public, and reading it from the file would reveal something about the people in it;"
    " either pass `discover=True` to find privately the items that many people hold, or give the `domain`"
    " with the public list, or pass `assume_public_items=True` to declare that the"
    " items occurring in the file are public knowledge"
)


@dataclass(frozen=True)
class ReadOptions:
    r"""How a file is read. What is not stated is taken from the format, the header or the schema, never from rows.

    Attributes:
        domain: The public domain: a `Domain`, a mapping, or the path of a YAML or JSON file.
        assume_public_items: Declare that the set of items occurring in the file is public knowledge.
        assume_public_domain: Declare that a domain that `inspect` drafted from the data is public knowledge.
        discover: Find items privately when a generator is fitted, instead of listing them. For a Parquet table without
            a domain, names and types of columns are taken from the schema, and all else is found privately.
        format: Needed only where the file's ending does not say it: `parquet`, `csv`, `tsv`, `jsonl`, `json`, `xlsx`,
            `fimi`, `npz`, `npy`, `idx`, or `png` (a folder).
        shape: `basket` (one row per record, a list of items), `long` (one row per person and item) or `wide` (one
            column per field, or one 0/1 column per item).
        person: The column of persons. In the long shape, rows are grouped by it; in the others, its values must differ.
        rows_per_person: Where every row is a record and `person` is given: keep at most this many rows per person,
            chosen at random in secret. The fit then protects persons with all their rows.
        item: The column of items (long) or of lists of items (basket).
        count: In the long shape, a column of counts: 0 means that the person does not have the item.
        threshold: Where 0 and 1 are expected: numbers above it mean present (default for idx images: 127).
        labels: For idx images, the idx file of their labels, which become a field named `label`.
        member: The file to read within a .zip, or the sheet of a workbook.
        separator: The character between cells (default: the one that the header line uses; else the comma, in .tsv
            files the tab).
        item_separator: The text between the items of one cell, such as `;` in `bread; milk`. With the empty text
            every cell is one item, whatever it contains.
        header: Whether the first line names the columns. Not needed where that line contains all names that the
            domain or the other options give.
        missing: Texts that stand for a missing value, besides the empty cell and the domain's `missing_texts`.
        comment: Lines that start with this text are ignored.
        skip_lines: How many lines to ignore at the top of a text file or sheet, such as a title above the header.
        encoding: The encoding of a text file, such as `cp1252` or `utf-16` (default: UTF-8).
        decimal: The decimal mark of numbers in text files: the point, or the comma.
        thousands: The thousands separator of numbers in text files, such as `.`, `,` or a space.
        strip_from_numbers: Texts to remove before or after numbers in text files, such as `€` or `%`.
        strip_suffix: Text to remove from the end of category values, such as a dot.
        memory: A limit on the memory of the process, such as `4GB`. The libraries take 300 MB of it; rows beyond a
            quarter of the rest are kept in nameless temporary files. A file that has to be read whole (`npz`, `idx`,
            large workbooks) is refused where it needs more.
        cache: The folder of that file (default: the folder of temporary files).

    >>> ReadOptions(person="who", item="what").stated_shape
    'long'
    """

    domain: DomainLike | None = None
    assume_public_items: bool = False
    assume_public_domain: bool = False
    discover: bool = False
    format: str | None = None
    shape: str | None = None
    person: str | None = None
    rows_per_person: int | None = None
    item: str | None = None
    count: str | None = None
    threshold: float | None = None
    labels: Paths | None = None
    member: str | None = None
    separator: str | None = None
    item_separator: str | None = None
    header: bool | None = None
    missing: Sequence[str] = ()
    comment: str | None = None
    skip_lines: int = 0
    strip_suffix: str = ""
    encoding: str = UTF8
    decimal: str = "."
    thousands: str | None = None
    strip_from_numbers: Sequence[str] = ()
    memory: str | int | None = None
    cache: Paths | None = None

    def __post_init__(self) -> None:
        domain = as_domain(self.domain)
        if domain is not None and self.assume_public_domain:
            domain = domain.declared_public()
        if domain is not None and self.item_separator:  # samples are written with it
            domain = _with_separator(domain, self.item_separator)
        if self.item_separator is None and domain is not None and domain.item_set is not None:
            object.__setattr__(self, "item_separator", domain.item_set.separator)
        object.__setattr__(self, "domain", domain)
        if isinstance(self.missing, str) or not all(isinstance(text, str) for text in self.missing):
            raise UsageError("`missing` must be a list of texts that stand for a missing value.")
        stated = () if domain is None else domain.missing_texts
        object.__setattr__(self, "missing", tuple(dict.fromkeys((*self.missing, *stated))))
        check_shape(self.shape)
        if self.format is not None:
            format_of("", self.format)
        if self.separator is not None and (len(self.separator) != 1 or self.separator in '"\n\r'):
            raise UsageError("`separator` must be one character that is neither a quote nor a line end.")
        object.__setattr__(self, "encoding", _canonical_encoding(self.encoding))
        object.__setattr__(self, "strip_from_numbers", self.number_style.signs)
        validation.whole(skip_lines=self.skip_lines, at_least=0, at_most=_MAX_SKIPPED_LINES)
        if self.threshold is not None:
            validation.finite(threshold=self.threshold)
        if self.comment is not None and (not self.comment or set(self.comment) & set('"\n\r')):
            raise UsageError("`comment` must be the text that comment lines start with, without quotation marks.")
        if self.memory is not None:
            bytes_of(self.memory)  # refuses what is not a size
        if self.count is not None and (self.person is None or self.item is None):
            raise UsageError("`count` belongs to the long shape; give `person` and `item` as well.")
        self._check_rows_per_person()

    def _check_rows_per_person(self) -> None:
        if self.rows_per_person is None:
            return
        validation.whole(rows_per_person=self.rows_per_person, at_least=1, at_most=_MAX_ROWS_PER_PERSON)
        if self.person is None:
            raise UsageError("`rows_per_person` needs `person`: the column that says whose row it is.")
        if self.stated_shape == "long":
            raise UsageError(
                "`rows_per_person` is for tables of one record per row; the long shape makes one record of all rows of"
                " a person, so leave it out."
            )

    @property
    def public_domain(self) -> Domain | None:
        """The domain, loaded."""
        return self.domain if isinstance(self.domain, Domain) else None

    @property
    def number_style(self) -> NumberStyle:
        """How a text file writes numbers."""
        return NumberStyle(self.decimal, self.thousands, self.strip_from_numbers)

    @property
    def memory_limit(self) -> MemoryLimit:
        """How much memory rows may take, and where further rows are stored."""
        if self.memory is None:
            return MemoryLimit(None, self.cache)
        return MemoryLimit(rows_share(bytes_of(self.memory)), self.cache)

    def refuse_beyond_memory(self, file: object, needed: int, advice: str) -> None:
        """Refuse a file that takes more memory than `memory` leaves; `needed` follows from the size of the file.

        Raises:
            ResourceError: the file needs more.
        """
        if self.memory is not None and PROCESS_BYTES + needed > bytes_of(self.memory):
            raise ResourceError(
                f"{file}: to read it takes about {size_text(PROCESS_BYTES + needed)} and `memory` allows"
                f" {size_text(bytes_of(self.memory))}; allow more, or {advice}."
            )

    @property
    def item_set(self) -> SetField | None:
        """The only field of the domain, if that is an item set or an image."""
        return None if self.public_domain is None else self.public_domain.item_set

    @cached_property
    def table_domain(self) -> Domain | None:
        """The domain if it describes a table: several fields, or one that is not an item set."""
        return self.public_domain if self.item_set is None else None

    @property
    def stated_shape(self) -> Shape | None:
        """The shape that the options and the domain imply, if any."""
        if self.shape is not None:
            return self.shape  # type: ignore[return-value]
        if self.person is not None and self.item is not None:
            return "long"
        return "wide" if self.table_domain is not None else None

    @property
    def named_columns(self) -> tuple[str, ...]:
        """The columns that the options and the domain name."""
        named = [name for name in (self.person, self.item, self.count) if name is not None]
        if self.table_domain is not None and self.stated_shape == "wide":
            named += [field.name for field in self.table_domain.fields]
        return tuple(dict.fromkeys(named))

    def columns_to_read(self, names: Sequence[str], lists: Sequence[str] = ()) -> list[str]:
        """The columns of a file that will be used; the others need not be unpacked. `lists` are its list columns."""
        needed = {self.person, self.item, self.count}
        if self.table_domain is not None:
            needed |= {field.name for field in self.table_domain.fields}
        elif self.person is None or self.item is None or self.shape == "wide":
            if self.domain is not None or self.shape in ("wide", "long") or len(lists) != 1:
                return list(names)
            needed |= set(lists)
        chosen = [name for name in names if name in needed]
        return chosen if chosen and len(set(names)) == len(names) else list(names)


class FileKeywords(TypedDict, total=False):
    """The fields of `ReadOptions` that `Synthesizer.fit` takes as keywords for a file, besides those for frames too."""

    assume_public_items: bool
    assume_public_domain: bool
    format: str | None
    shape: str | None
    count: str | None
    threshold: float | None
    labels: Paths | None
    member: str | None
    separator: str | None
    item_separator: str | None
    header: bool | None
    missing: Sequence[str]
    comment: str | None
    skip_lines: int
    strip_suffix: str
    encoding: str
    decimal: str
    thousands: str | None
    strip_from_numbers: Sequence[str]
    cache: Paths | None


class ReadKeywords(FileKeywords, total=False):
    """The fields of `ReadOptions` as keywords of `read_records`, `read_source` and `inspect_file`."""

    domain: DomainLike | None
    discover: bool
    person: str | None
    rows_per_person: int | None
    item: str | None
    memory: str | int | None


def options_from(options: ReadOptions | None, **keywords: Unpack[ReadKeywords]) -> ReadOptions:
    """The options, with the fields replaced that are given as keywords."""
    return ReadOptions(**keywords) if options is None else replace(options, **keywords)


def _with_separator(domain: Domain, separator: str) -> Domain:
    """The domain, whose item sets have the separator that the options state."""
    columns = (column.with_separator(separator) for column in domain.columns)
    return replace(domain, fields=tuple(columns), unread=())  # type: ignore[arg-type]


def _canonical_encoding(name: str) -> str:
    """The name of an encoding as used here, from any spelling.

    >>> _canonical_encoding("Windows-1252"), _canonical_encoding("UTF8")
    ('cp1252', 'utf-8')
    """
    try:
        return _ENCODING_OF_CODEC[codecs.lookup(name).name]
    except (LookupError, ValueError):
        raise UsageError(
            f"`encoding` must be one of {', '.join(_ENCODINGS)}; save the file as UTF-8 if it is another."
        ) from None
