"""The options that say how a file is read, as one frozen value that goes from the command line to the readers.

What a row is read as depends on that row, the domain and these options, and on nothing else.
"""

import codecs
import inspect
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Unpack

from dpgm import validation
from dpgm.data.domain import Domain, ItemSequence
from dpgm.data.domain_file import as_domain
from dpgm.data.formats import format_named
from dpgm.data.kinds.items import SetField
from dpgm.data.layouts import Layout, Shape, check_shape
from dpgm.data.read.declared import UTF8, DeclaredOptions, described
from dpgm.data.read.keywords import ReadKeywords
from dpgm.data.stores import PROCESS_BYTES, MemoryLimit, bytes_of, rows_share, size_text
from dpgm.data.values import NumberStyle
from dpgm.errors import ResourceError, UsageError

_MAX_SKIPPED_LINES = 10_000
_MAX_ROWS_PER_PERSON = 1000  # noise grows with them: beyond, nothing can be learned
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
class ReadOptions(DeclaredOptions):
    """How a file is read. What is not stated is taken from the format, the header or the schema, never from rows.

    >>> ReadOptions(person="who", item="what").stated_shape
    'long'
    """

    def __post_init__(self) -> None:
        domain = as_domain(self.domain)
        if domain is not None and self.assume_public_domain:
            domain = domain.declared_public()
        if domain is not None and self.item_separator:  # samples are written with it
            domain = _with_separator(domain, self.item_separator)
        if domain is not None and domain.sequence is not None and domain.layout is not None:
            self._take_layout(domain.layout)
        if self.item_separator is None and domain is not None and domain.item_set is not None:
            object.__setattr__(self, "item_separator", domain.item_set.separator)
        if isinstance(self.missing, str) or not all(isinstance(text, str) for text in self.missing):
            raise UsageError("`missing` must be a list of texts that stand for a missing value.")
        stated = () if domain is None else domain.missing_texts
        object.__setattr__(self, "missing", tuple(dict.fromkeys((*self.missing, *stated))))
        if domain is not None and self.missing != stated:  # a comparison with the release reads the file alike
            domain = replace(domain, missing_texts=tuple(text for text in self.missing if text.strip()))
        object.__setattr__(self, "domain", domain)
        check_shape(self.shape)
        if self.format is not None:
            format_named(self.format)
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
        if self.table is not None and self.query is not None:
            raise UsageError("`table` and `query` both say what to read of a database; leave out one of them.")
        if self.count is not None and (self.person is None or self.item is None):
            raise UsageError("`count` belongs to the long shape; give `person` and `item` as well.")
        self._check_rows_per_person()
        self._check_sequence(domain)

    def _take_layout(self, layout: Layout) -> None:
        """A sequence is laid out as its domain says, unless the options say it."""
        if self.shape is self.person is self.item is self.time is None:
            for name in ("shape", "person", "item", "time"):
                object.__setattr__(self, name, getattr(layout, name))

    def _check_sequence(self, domain: Domain | None) -> None:
        if self.time is not None and domain is not None and domain.sequence is None:
            raise UsageError(
                "`time` belongs to a sequence, and the domain has none; give it a field of kind `sequence`."
            )
        if self.period is not None and (self.time is None or domain is not None):
            raise UsageError(
                "`period` belongs to `time` without a domain; say it as `from` and `to` of the sequence in the domain."
            )
        if self.period is not None:
            ItemSequence.to_find(str(self.item), self.period)  # refuses what is no period

    @property
    def reads_events(self) -> bool:
        """Whether records have events: the domain has a sequence, or a column of times is stated."""
        return self.time is not None or (self.public_domain is not None and self.public_domain.sequence is not None)

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
        named = [name for name in (self.person, self.item, self.time, self.count) if name is not None]
        return tuple(dict.fromkeys([*named, *self.field_columns]))

    @property
    def field_columns(self) -> list[str]:
        """The columns of a file that the fields of the domain name."""
        domain, shape = self.table_domain, self.stated_shape
        if domain is None or shape == "basket" or (shape == "long" and self.persons is not None):
            return []
        read_as_item = domain.sequence if self.item is not None else None
        return [field.name for field in domain.fields if field is not read_as_item]

    @property
    def holds_lines_of_items(self) -> bool:
        """Whether rows of text are lists of items without columns: baskets with neither header nor column stated."""
        return self.shape == "basket" and not self.header and self.item is None and self.person is None


ReadOptions.__doc__ = f"{inspect.cleandoc(ReadOptions.__doc__ or '')}\n\nAttributes:{described()}\n"


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
