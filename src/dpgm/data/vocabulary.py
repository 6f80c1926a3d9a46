"""`Vocabulary`: the labels of a field that are to be discovered, numbered as they occur."""

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dpgm.arrays import Codes
from dpgm.data.arrow import Array, pc
from dpgm.data.labels import MAX_LABEL_BYTES, MAX_WIDTH
from dpgm.errors import ResourceError

if TYPE_CHECKING:
    from dpgm.data.values import Place

LOOKUP_LIMIT = 5_000_000  # numbers below this are looked up in an array
_LABEL_BYTES = 150  # of a short label in a `Vocabulary`: a text, its number and its entry in the table of a dict


def drop_negative(codes: NDArray[Any], lengths: NDArray[np.int64]) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Concatenated rows of codes and their lengths, without the codes -1, which stand for dropped labels."""
    keep = codes >= 0
    if keep.all():
        return codes, lengths
    rows = np.repeat(np.arange(len(lengths)), lengths)[keep]
    return codes[keep], np.bincount(rows, minlength=len(lengths))


class Vocabulary:
    """The labels of one field, numbered in order of first occurrence.

    Private: only labels that pass a noisy threshold are ever published. Every label is a text, whatever the type of its
    column, so that no label changes the type of the others. Labels that could not be published (empty, over 1 kB) are
    dropped.
    """

    integers = False

    def __init__(self) -> None:
        self.codes: dict[str, int] = {}
        self._characters = 0
        self._table = np.full(0, -1, dtype=np.int64)  # codes of small numbers, -1 if not seen yet

    def __len__(self) -> int:
        return len(self.codes)

    @property
    def nbytes(self) -> int:
        """About how much memory the labels take."""
        return _LABEL_BYTES * len(self.codes) + self._characters + self._table.nbytes

    @property
    def labels(self) -> list[str]:
        """All labels in order of their codes."""
        return list(self.codes)

    def is_listed(self, label: str) -> bool:
        """Whether a public list has this label: no, there is no list."""
        return False

    def code(self, label: str, place: "Place | None" = None) -> int:
        """The code of a label, added if new; -1 if it cannot be published."""
        known = self.codes.get(label)
        if known is not None:
            return known
        if not label or "\0" in label or len(label.encode("utf-8", "replace")) > MAX_LABEL_BYTES:
            return -1
        if len(self.codes) >= MAX_WIDTH:
            raise ResourceError(
                f"a field to discover holds more than {MAX_WIDTH:,} different values, which is the limit; list its"
                " values in the domain, or leave the column out (kind: ignored)."
            )
        self._characters += len(label)
        return self.codes.setdefault(label, len(self.codes))

    def from_integers(self, values: NDArray[Any], place: "Place") -> Codes:
        """Codes of whole numbers; new ones are added."""
        if not len(values) or values.max() >= LOOKUP_LIMIT:
            distinct, inverse = np.unique(values, return_inverse=True)
            return np.array([self.code(str(label), place) for label in distinct.tolist()], dtype=np.int64)[inverse]
        if values.max() >= len(self._table):
            self._table = np.pad(self._table, (0, int(values.max()) + 1 - len(self._table)), constant_values=-1)
        codes = self._table[values]
        if codes.min() < 0:
            for label in np.unique(values[codes < 0]).tolist():
                self._table[label] = self.code(str(label), place)
            codes = self._table[values]
        return np.asarray(codes)

    def from_texts(self, values: Array, place: "Place") -> Codes:
        """Codes of texts after trimming white space; new ones are added."""
        encoded = pc.utf8_trim_whitespace(values).dictionary_encode()
        codes = np.array([self.code(label, place) for label in encoded.dictionary.to_pylist()], dtype=np.int64)
        indices: NDArray[np.int32] = encoded.indices.to_numpy(zero_copy_only=False)
        return codes[indices]


def name_ranks(codes: NDArray[Any], vocabulary: Vocabulary) -> tuple[Codes, Codes]:
    """The rank of every code among those given, by name and not by who had it first; and the code of every rank.

    The code -1, which stands for no label, has the rank -1.

    >>> vocabulary = Vocabulary()
    >>> codes = np.array([*map(vocabulary.code, ["b", "a", "b"]), -1])
    >>> [one.tolist() for one in name_ranks(codes, vocabulary)]
    [[1, 0, 1, -1], [1, 0]]
    """
    found = np.unique(codes[codes >= 0])
    labels = vocabulary.labels
    by_name = sorted(found.tolist(), key=labels.__getitem__)
    rank = np.full(int(found.max(initial=-1)) + 2, -1, dtype=np.int64)
    rank[by_name] = np.arange(len(found))
    return rank[codes], np.array(by_name, dtype=np.int64)
