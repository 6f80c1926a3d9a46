"""`Boolean`: true or false per row."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from dpgm.data.arrow import Array, DataType, Table, pa, pc
from dpgm.data.items import flat_column
from dpgm.data.kinds.base import Cells, CellStyle, Column, Field, FieldReader, Rng
from dpgm.data.labels import MAX_LABEL_BYTES
from dpgm.data.open_columns import CodeColumn
from dpgm.data.values import Place, as_texts, in_column, refuse_first

if TYPE_CHECKING:
    from dpgm.data.inspect.seen import Seen

# How files write booleans.
_TRUTH = {"true": 1, "false": 0, "t": 1, "f": 0, "yes": 1, "no": 0, "y": 1, "n": 0, "1": 1, "0": 0}
_NEITHER = (
    "the value is not true or false (yes/no, 1/0 do as well); correct the file, say how both are written in the domain"
    " (such as `written: ja/nein`), or make the field categorical."
)
# How files write true and false, in small letters.
_WORDS = (
    *(("true", "false"), ("yes", "no"), ("y", "n"), ("t", "f"), ("ja", "nein"), ("j", "n"), ("wahr", "falsch")),
    *(("oui", "non"), ("o", "n"), ("vrai", "faux"), ("sí", "no"), ("si", "no"), ("sì", "no"), ("sim", "não")),
)
_SPELLINGS = tuple(
    tuple(style(word) for word in words) for words in _WORDS for style in (str.lower, str.upper, str.capitalize)
)


@dataclass(frozen=True)
class Boolean(Field):
    """True or false, or missing; a softmax output of the positions false, true and, with `missing`, missing.

    `written` is how files write true and false, such as `yes/no`: it is read so, besides the usual ways, and samples
    are written so.
    """

    missing: bool = False
    written: str | None = field(default=None, compare=False)

    kind: ClassVar[str] = "boolean"
    draft_kinds: ClassVar[tuple[str, ...]] = ("boolean",)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.written is None:
            return
        words = self.written.split("/") if isinstance(self.written, str) else []
        good = all(word and word == word.strip() and len(word.encode()) <= MAX_LABEL_BYTES for word in words)
        if len({word.lower() for word in words}) != 2 or len(words) != 2 or not good:
            raise self._error("written must be the words for true and false, such as yes/no")

    @property
    def words(self) -> tuple[str, str] | None:
        """The words for true and false, if they are stated."""
        return None if self.written is None else tuple(self.written.split("/"))  # type: ignore[return-value]

    @property
    def _value_count(self) -> int:
        return 2

    @property
    def labels(self) -> list[str]:
        """False and true."""
        return ["false", "true"]

    def reader(self, style: CellStyle, others: Mapping[str, Field]) -> FieldReader:
        """Reads booleans and the words for them."""
        truth = self._truth

        def read(table: Table, place: Place) -> CodeColumn:
            column, where = flat_column(table, self.name), in_column(place, self.name)
            texts = [None if text is None else text.strip() for text in as_texts(column, where).to_pylist()]
            coded = (2 if text is None or text in style.missing else truth.get(text.lower(), -1) for text in texts)
            codes = np.fromiter(coded, dtype=np.int32, count=len(texts))
            refuse_first(codes < 0, where, _NEITHER)
            self.refuse_missing(codes == 2, where)
            return CodeColumn(codes)

        return read

    @property
    def _truth(self) -> dict[str, int]:
        """1 or 0 for every text that is read as true or false, in small letters."""
        words = () if self.words is None else zip(self.words, (1, 0), strict=True)
        return _TRUTH | {word.lower(): value for word, value in words}

    def in_one_spelling(self, texts: Array) -> Array:
        """True and false for the words that stand for them."""
        truth = self._truth
        meanings = pa.array([self.labels[value] for value in truth.values()], type=pa.string())
        lowered = pc.utf8_lower(texts)
        known = pc.index_in(lowered, value_set=pa.array(list(truth), type=pa.string()))
        return pc.coalesce(meanings.take(known), lowered)

    def drawn(self, cells: Cells, rng: Rng) -> Array:
        """Booleans, or the words for them."""
        codes, missing = cells.single(2)
        if self.words is not None:
            return pa.array(self.words).take(pa.array(1 - codes, mask=missing))
        return pa.array(codes == 1, mask=missing)

    @classmethod
    def of_type(cls, name: str, kind: DataType) -> Column | None:
        """Booleans."""
        return cls(name, missing=True) if pa.types.is_boolean(kind) else None

    @classmethod
    def recognised(cls, seen: "Seen") -> tuple[str, str] | None:
        """Booleans, and the words true and false."""
        return ("boolean", "true or false") if seen.looks == "truth" else None

    @classmethod
    def drafted(cls, seen: "Seen", word: str) -> "Boolean":
        """With the words that the column has, for the curator to confirm."""
        found = next((words for words in _SPELLINGS if seen.values and seen.values <= set(words)), None)
        usual = found is None or found == ("true", "false") or seen.is_boolean
        return cls(seen.name, missing=seen.missing > 0, written=None if usual or found is None else "/".join(found))

    def described(self) -> str:
        """True or false."""
        return f"true or false{', may be missing' if self.missing else ''}"
