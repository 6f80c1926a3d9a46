"""`Identifier`: a column that identifies people."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from dpgm.data.arrow import Array, DataType, pa
from dpgm.data.kinds.base import Column, Rng
from dpgm.data.person_columns import is_identifier
from dpgm.data.values import is_text

if TYPE_CHECKING:
    from dpgm.data.inspect.seen import Seen


@dataclass(frozen=True)
class Identifier(Column):
    """A column that identifies people: never read; samples get freshly drawn identifiers."""

    kind: ClassVar[str] = "identifier"
    draft_kinds: ClassVar[tuple[str, ...]] = ("identifier",)
    is_read: ClassVar[bool] = False
    in_samples: ClassVar[bool] = True

    @classmethod
    def of_type(cls, name: str, kind: DataType) -> "Column | None":
        """Texts and whole numbers with the name of an identifier."""
        plain = is_text(kind) or pa.types.is_integer(kind)
        return cls(name) if plain and is_identifier(name) else None

    @classmethod
    def recognised(cls, seen: "Seen") -> tuple[str, str] | None:
        """Columns with the name of an identifier, and values of which nearly every row has another."""
        if seen.looks == "named":
            other = seen.option_of("integer" if seen.is_whole else "categorical")
            return (
                "identifier",
                f"an identifier, as its name says, so samples carry fresh ones (to model it: {other})",
            )
        reason = None
        if seen.is_index:
            reason = "numbers or names of the rows, which no header names: an identifier"
        elif seen.looks == "codes" and seen.nearly_unique:
            reason = "numbers with leading zeros that differ in nearly every row: an identifier"
        elif seen.looks == "numbers" and seen.numbers_rows:
            reason = "whole numbers that differ in every row: an identifier"
        elif seen.looks == "texts" and seen.nearly_unique and seen.text_hint is None and seen.are_short:
            reason = "texts that differ in nearly every row: an identifier"
        return None if reason is None else ("identifier", reason)

    def fresh(self, count: int, rng: Rng) -> Array:
        """Sixteen hexadecimal digits each; ten million of them have a duplicate with a chance of three in a million."""
        drawn = rng.integers(0, 2**64, count, dtype=np.uint64)
        return pa.array([f"{number:016x}" for number in drawn.tolist()], type=pa.string())
