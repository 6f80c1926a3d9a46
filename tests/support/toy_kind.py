"""A kind of column of one's own: durations such as 2h30, modelled as numbers of minutes."""

import re
from dataclasses import dataclass, fields
from typing import ClassVar

import numpy as np

from dpgm.data.arrow import pa
from dpgm.data.kinds.open_number import NumberField, OpenNumber
from dpgm.data.kinds.shaped import ShapedNumber
from dpgm.data.number_format import NumberFormat
from dpgm.data.values import as_texts, refuse_first

WRITTEN = re.compile(r"([0-9]{1,4})h([0-5][0-9])")


class _Minutes(NumberField):
    """How durations are read, written and compared, before and after their distribution is found."""

    compared_as: ClassVar[str] = "number"

    def number_of(self, text):
        found = WRITTEN.fullmatch(text.strip())
        return None if found is None else 60.0 * int(found[1]) + int(found[2])

    def numbers_in(self, column, missing, where):
        texts = as_texts(column, where).to_pylist()
        absent = np.array([text is None or text.strip() in missing for text in texts], dtype=np.bool_)
        minutes = [0.0 if gap else self.number_of(text) for text, gap in zip(texts, absent, strict=True)]
        refuse_first(np.array([one is None for one in minutes], dtype=np.bool_), where, "write it like 2h30.")
        return np.array(minutes, dtype=np.float64), absent

    def cells_of(self, numbers, kind=None):
        return pa.array([None if n != n else f"{int(n) // 60}h{int(n) % 60:02}" for n in numbers], pa.string())


@dataclass(frozen=True)
class Duration(_Minutes, OpenNumber):
    missing: bool | None = None
    kind, draft_kinds = "duration", ("duration",)
    format, bounds, scale = NumberFormat("integer"), (None, None), "auto"

    @classmethod
    def recognised(cls, seen):
        fits = seen.looks == "texts" and all(map(WRITTEN.fullmatch, seen.values))
        return ("duration", "durations; their range is found privately") if fits else None

    def completed(self, shaped):
        return FoundDuration(**{one.name: getattr(shaped, one.name) for one in fields(shaped)})


@dataclass(frozen=True)
class FoundDuration(_Minutes, ShapedNumber):
    kind, reads_numbers = "found duration", False

    def finished(self, drawn, others, rng):
        ticks, missing = drawn[self.name]
        return self.cells_of(np.where(missing, np.nan, ticks))
