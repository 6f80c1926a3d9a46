"""`Ignored`: a column that is left out."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from dpgm.data.kinds.base import Column

if TYPE_CHECKING:
    from dpgm.data.inspect.seen import Seen


@dataclass(frozen=True)
class Ignored(Column):
    """A column that is never read and does not appear in samples."""

    kind: ClassVar[str] = "ignored"
    draft_kinds: ClassVar[tuple[str, ...]] = ("ignored",)
    is_read: ClassVar[bool] = False

    @classmethod
    def recognised(cls, seen: "Seen") -> tuple[str, str] | None:
        """Columns without values, of types that cannot be modelled, and free text."""
        if seen.looks == "unsupported":
            return "ignored", seen.unsupported
        if seen.looks == "empty":
            return "ignored", "no row has a value in it"
        if seen.looks != "texts" or not seen.nearly_unique:
            return None
        if seen.text_hint is not None:
            return "ignored", "texts that differ in nearly every row, and seem to be no identifiers (see below)"
        return "ignored", "free text: nearly every row has another"
