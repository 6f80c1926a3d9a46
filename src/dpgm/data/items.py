"""From item labels to positions: against a public list, or (declared public by the custodian) as they occur.

Both classes turn the labels of one chunk after another into codes; -1 means "drop silently", since counting or
naming what falls outside a public list would tell about the rows.
"""

import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dpgm.data.domain import MAX_LABEL_BYTES, MAX_WIDTH, Label
from dpgm.errors import InputError

if TYPE_CHECKING:
    import pyarrow

Place: TypeAlias = Callable[[int], str]
Codes: TypeAlias = NDArray[np.int64]

_FORMULA = re.compile(r"'*[=+\-@\t\r]")
_INTEGER = re.compile(r"-?[0-9]+")
_LOOKUP_LIMIT = 5_000_000


def escape_formula(label: str) -> str:
    """A label as it goes into CSV: a spreadsheet must not run it as a formula.

    >>> escape_formula("=1+1"), escape_formula("plain")
    ("'=1+1", 'plain')
    """
    return "'" + label if _FORMULA.match(label) else label


def in_column(place: Place, name: str | int) -> Place:
    """Places that also tell the column."""
    return lambda row: f"{place(row)}, column {name!r}"


class Items(Protocol):
    """Turns labels into codes, chunk after chunk."""

    integers: bool

    def lists(self, label: str) -> bool:
        """Whether a public list names this label."""

    def from_integers(self, values: NDArray[np.int64], place: Place) -> Codes:
        """Codes of whole numbers; -1 for those to drop."""

    def from_texts(self, values: "pyarrow.Array", place: Place) -> Codes:
        """Codes of texts (no nulls); -1 for those to drop."""


def kept_codes(codes: NDArray[Any], lengths: NDArray[np.int64]) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Codes row after row and their number in each row, without those to drop."""
    keep = codes >= 0
    if keep.all():
        return codes, lengths
    rows = np.repeat(np.arange(len(lengths)), lengths)[keep]
    return codes[keep], np.bincount(rows, minlength=len(lengths))


def refuse_negative(negative: NDArray[np.bool_], place: Place) -> None:
    """Item numbers count from zero."""
    if negative.any():
        raise InputError(f"{place(int(np.argmax(negative)))}: item numbers must not be negative; correct the file.")


def parse_integers(values: "pyarrow.Array", place: Place) -> NDArray[np.int64]:
    """Texts (no nulls) that were promised to be whole numbers."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if digits_only(values):
        with suppress(pa.ArrowInvalid):
            plain: NDArray[np.int64] = values.cast(pa.int64()).to_numpy(zero_copy_only=False)
            return plain
    trimmed = pc.utf8_trim_whitespace(values)
    good = pc.match_substring_regex(trimmed, r"^-?0*[0-9]{1,19}$").to_numpy(zero_copy_only=False)
    if not good.all():
        raise InputError(
            f"{place(int(np.argmin(good)))}: an item is not a whole number of at most 64 bits, as the"
            " domain or format promises; correct the file, or list the items as texts in the domain."
        )
    try:
        numbers: NDArray[np.int64] = trimmed.cast(pa.int64()).to_numpy(zero_copy_only=False)
    except pa.ArrowInvalid:
        raise InputError(f"{place(0)} or after: an item number does not fit 64 bits; correct the file.") from None
    return numbers


def refuse_joined(values: "pyarrow.Array", items: Items, place: Place) -> None:
    """Refuse cells that hold a mark people put between items, where no separator is stated.

    Unless a public list names the cell exactly. Otherwise `bread, milk, eggs` would be one item, held by one person.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    if not pa.types.is_string(values.type):
        return
    marked = pc.fill_null(pc.match_substring_regex(values, "[,;|\t]"), False).to_numpy(zero_copy_only=False)
    for at in np.flatnonzero(marked).tolist():
        if not items.lists(values[at].as_py()):
            raise InputError(
                f"{place(at)}: an item holds a comma, semicolon, bar or tab; say --item-separator MARK if it is"
                " several items, --separator MARK if cells are separated by it, or --item-separator '' if it is one"
                " item."
            )


def digits_only(values: "pyarrow.Array") -> bool:
    """Whether no character lies above '9': then Arrow's cast can meet no hexadecimal number."""
    offsets = np.frombuffer(values.buffers()[1], dtype=np.int32)[values.offset : values.offset + len(values) + 1]
    if values.buffers()[2] is None:
        return False
    characters = np.frombuffer(values.buffers()[2], dtype=np.uint8)[offsets[0] : offsets[-1]]
    return len(characters) > 0 and int(characters.max()) <= ord("9")


class KnownItems:
    """The public list of a domain; item numbers below 0 are refused, unless they may be values (`negative`)."""

    def __init__(self, labels: Sequence[Label], *, negative: bool = False) -> None:
        self.labels = labels
        self._negative = negative
        self.integers = isinstance(labels[0], int)
        self._texts: pyarrow.Array | None = None
        self._codes: NDArray[np.int64] | None = None
        self._known: set[str] | None = None
        if self.integers:
            self._prepare_integers()

    def _prepare_integers(self) -> None:
        known = np.asarray(self.labels, dtype=np.int64)
        self._order = np.argsort(known, kind="stable")
        self._sorted = known[self._order]
        self._table: NDArray[np.int64] | None = None
        if self._sorted[0] >= 0 and self._sorted[-1] < _LOOKUP_LIMIT:
            self._table = np.full(int(self._sorted[-1]) + 2, -1, dtype=np.int64)
            self._table[known] = np.arange(len(known))

    def lists(self, label: str) -> bool:
        """Whether the list names this label."""
        if self.integers:
            return False
        if self._known is None:
            self._known = {str(one) for one in self.labels} | {escape_formula(str(one)) for one in self.labels}
        return label in self._known or label.strip() in self._known

    def from_integers(self, values: NDArray[Any], place: Place) -> Codes:
        """Codes of whole numbers; -1 outside the list."""
        if not self.integers:
            import pyarrow as pa

            return self.from_texts(pa.array(values).cast(pa.string()), place)
        if self._table is not None:
            last = len(self._table) - 1  # always -1: for everything above
            return self._table[np.where(values < 0, last, np.minimum(values, last))]
        at = np.minimum(np.searchsorted(self._sorted, values), len(self._sorted) - 1)
        return np.where(self._sorted[at] == values, self._order[at], -1)

    def from_texts(self, values: "pyarrow.Array", place: Place) -> Codes:
        """Codes of texts: exactly, else without the white space around them; -1 outside the list."""
        import pyarrow.compute as pc

        if self.integers:
            numbers = parse_integers(values, place)
            if not self._negative:
                refuse_negative(numbers < 0, place)
            return self.from_integers(numbers, place)
        if self._texts is None:
            self._prepare_texts()
        codes = self._look_up(values)
        unknown = codes < 0
        if unknown.any():
            again = values.filter(unknown)
            codes[unknown] = self._look_up(pc.utf8_trim_whitespace(again))
        return codes

    def _prepare_texts(self) -> None:
        import pyarrow as pa

        # A label escaped by our own CSV writer comes first, so that what we write reads back exactly.
        known = {escape_formula(str(label)): at for at, label in enumerate(self.labels)}
        for at, label in enumerate(self.labels):
            known.setdefault(str(label), at)
        self._texts = pa.array(list(known), type=pa.string())
        self._codes = np.fromiter(known.values(), dtype=np.int64, count=len(known))

    def _look_up(self, values: "pyarrow.Array") -> Codes:
        import pyarrow.compute as pc

        assert self._codes is not None
        index = pc.fill_null(pc.index_in(values, value_set=self._texts), -1).to_numpy(zero_copy_only=False)
        return np.where(index >= 0, self._codes[index], -1)


class OccurringItems:
    """Items as they occur, numbered at first sight and sorted at the end.

    Only for a custodian who has declared the set of items in the file public knowledge.
    """

    integers = False

    def __init__(self) -> None:
        self._integers: dict[int, int] = {}
        self._texts: dict[str, int] = {}
        self._table = np.full(0, -1, dtype=np.int64)
        self._count = 0

    def lists(self, label: str) -> bool:
        """Whether a public list names this label: there is none."""
        return False

    def _number(self, known: dict[Any, int], label: Any, place: Place) -> int:
        code = known.get(label)
        if code is None:
            if isinstance(label, str) and not 0 < len(label.encode()) <= MAX_LABEL_BYTES:
                raise InputError(f"{place(0)} or after: an item label is empty or over 1 kB; correct the file.")
            if self._count >= MAX_WIDTH:
                raise InputError(f"{place(0)}: more than {MAX_WIDTH:,} different items; give --domain FILE.")
            code = known[label] = self._count
            self._count += 1
        return code

    def from_integers(self, values: NDArray[Any], place: Place) -> Codes:
        """Codes of whole numbers, new ones numbered."""
        refuse_negative(values < 0, place)
        if len(values) and values.max() < _LOOKUP_LIMIT:
            return self._from_small(values, place)
        distinct, inverse = np.unique(values, return_inverse=True)
        codes = [self._number(self._integers, label, place) for label in distinct.tolist()]
        return np.asarray(codes, dtype=np.int64)[inverse]

    def _from_small(self, values: NDArray[Any], place: Place) -> Codes:
        """Numbers small enough for a table: one look-up each."""
        if values.max() >= len(self._table):
            grown = np.full(int(values.max()) + 1, -1, dtype=np.int64)
            grown[: len(self._table)] = self._table
            self._table = grown
        codes = self._table[values]
        if codes.min() < 0:
            for label in np.unique(values[codes < 0]).tolist():
                self._table[label] = self._number(self._integers, label, place)
            codes = self._table[values]
        return np.asarray(codes)

    def from_texts(self, values: "pyarrow.Array", place: Place) -> Codes:
        """Codes of texts with the white space around them taken off, new ones numbered."""
        import pyarrow.compute as pc

        encoded = pc.utf8_trim_whitespace(values).dictionary_encode()
        codes = [self._number(self._texts, label, place) for label in encoded.dictionary.to_pylist()]
        which: NDArray[np.int32] = encoded.indices.to_numpy(zero_copy_only=False)
        return np.asarray(codes, dtype=np.int64)[which]

    def finish(self) -> tuple[tuple[Label, ...], NDArray[np.int64]]:
        """The labels in their natural order, and the position of every code."""
        texts, integers = self._texts, self._integers
        position = np.empty(self._count, dtype=np.int64)
        named: list[tuple[Label, int]]
        if all(_INTEGER.fullmatch(text) and str(int(text)) == text and 0 <= int(text) < 2**63 for text in texts):
            named = [*integers.items(), *((int(text), code) for text, code in texts.items())]
        else:
            named = [*((str(label), code) for label, code in integers.items()), *texts.items()]
        labels: list[Label] = []
        for label, code in sorted(named):  # type: ignore[type-var]
            if not labels or labels[-1] != label:
                labels.append(label)
            position[code] = len(labels) - 1
        return tuple(labels), position
