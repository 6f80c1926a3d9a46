"""Answers to counting questions from a release, each with an interval: post-processing, which costs no budget.

A question about one column is answered from the released counts where they cover it: the error is that of the noise,
which is known. Any other question is answered from the model, by a large synthetic sample. Its error has two parts: the
noise of what was released, and what the model does not hold. The second part is not known from a release. Its size was
found on public tables (`experiments/query_intervals.py`) for questions about one, two and three columns; of questions
that are further from what was checked, no interval is promised.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import sqrt
from typing import TYPE_CHECKING

import numpy as np

from dpgm.arrays import Ints, Mask
from dpgm.data.conditions import Condition, Not, OneOf, Values, comparisons, fields_of, numbers_of, truth
from dpgm.data.domain import Domain
from dpgm.data.records import Records
from dpgm.errors import UsageError
from dpgm.strategy.protocol import Box
from dpgm.synthesis.conditioning import TooManyBoxesError, Where, parse_where, region_of
from dpgm.synthesis.sampling import Sample

if TYPE_CHECKING:
    from dpgm.synthesis.release import Release

DRAWN = 200_000  # synthetic records by which the model answers; their own error is in the interval
Z = 1.959964  # two-sided 95 % of a normal error
FROM_COUNTS, FROM_MODEL = "released counts", "the model"


@dataclass(frozen=True)
class ModelError:
    """The error of the model's answers, by the number of columns and items of a question.

    The variance of a share p is taken to be

        sqrt(p (1 - p)) ((noises x unit)^2 + missed^2) + (undecided x in_bins)^2

    with `unit` the noise of a released count as a share of the records, and `undecided` the share of synthetic records
    with a value in a bin that the question cuts: the model knows how many there are, and not where in the bin.
    """

    noises: tuple[float, ...]
    missed: tuple[float, ...]
    in_bins: tuple[float, ...]


MODEL_ERRORS = {
    "trees": ModelError((1.2, 2.4, 3.0), (0.0012, 0.003, 0.003), (0.4, 0.45, 0.45)),
    "products": ModelError((6.5, 13.0, 14.0), (0.0005, 0.001, 0.001), (0.3, 0.33, 0.45)),
}


@dataclass(frozen=True)
class CountAnswer:
    """How many records meet a condition: an estimate and the ends of a 95 % interval.

    `source` says where the estimate comes from. `low` and `high` are None where no interval is promised, and `why`
    says so.
    """

    question: str
    estimate: float
    low: float | None
    high: float | None
    source: str
    why: str = ""
    undecided: float = 0.0  # share of synthetic records in bins that the question cuts


class CountAnswers:
    """Answers questions about one release; the synthetic sample is drawn once, when the first question needs it."""

    def __init__(self, release: "Release", *, drawn: int = DRAWN) -> None:
        self._release, self._drawn = release, drawn
        self._counts = release.measurements.counts()
        self._records = release.certificate.records

    @cached_property
    def _sample(self) -> Records:
        sample = Sample(self._release.generator, self._release.domain, self._drawn, seed=0)
        return sample.records()

    def ask(self, where: Where) -> CountAnswer:
        """How many of the records meet a condition such as `age >= 65 and sex = f`."""
        condition = parse_where(where, self._release.domain)
        if condition is None:
            raise UsageError("the question is empty; ask with a condition such as 'age >= 65 and sex = f'.")
        question = where if isinstance(where, str) else str(where)
        return self._from_counts(question, condition) or self._from_model(question, condition)

    def _from_counts(self, question: str, condition: Condition) -> CountAnswer | None:
        """The sum of the released counts of the values of one column; None if they do not cover the question."""
        positions = self._positions(condition)
        if positions is None:
            return None
        inside, outside = positions
        if not all(int(at) in self._counts for at in (*inside, *outside)):
            return None
        chosen, sign, start = (inside, 1.0, 0.0) if len(inside) <= len(outside) else (outside, -1.0, 1.0)
        found = [self._counts[int(at)] for at in chosen]
        total = sum(value + share * self._records for value, _, share in found)
        error = sqrt(sum(error**2 for _, error, _ in found))
        return self._answer(question, start * self._records + sign * total, error, FROM_COUNTS)

    def _positions(self, condition: Condition) -> tuple[Ints, Ints] | None:
        """The positions of a column that meet the condition, and the others; None if it is not about one column."""
        domain = self._release.domain
        try:
            region = region_of(condition, domain, unknown=False)
        except TooManyBoxesError:
            return None
        if not region.exact or len(region.boxes) != 1 or len(region.boxes[0]) != 1:
            return None
        ((name, item), mask), *_ = region.boxes[0].items()
        if item >= 0:
            return None
        start = domain.offsets[[field.name for field in domain.fields].index(name)]
        return start + np.flatnonzero(mask), start + np.flatnonzero(~mask)

    def _from_model(self, question: str, condition: Condition) -> CountAnswer:
        met = self._met(condition)
        share = float(met.mean())
        estimate = share * self._records
        columns = columns_asked(condition, self._release.domain)
        known = MODEL_ERRORS.get(self._release.generator.kind)
        if known is None:
            why = (
                f"no interval is promised: answers of the model {self._release.generator.kind!r} were not checked."
            )
            return CountAnswer(question, estimate, None, None, FROM_MODEL, why)
        if columns > len(known.missed):
            why = (
                f"no interval is promised for questions about {columns} columns or items; ask about at most"
                f" {len(known.missed)}."
            )
            return CountAnswer(question, estimate, None, None, FROM_MODEL, why)
        try:
            undecided = float(self._undecided(condition).mean())
        except TooManyBoxesError:
            why = "no interval is promised: the question is too long; ask about fewer values at a time."
            return CountAnswer(question, estimate, None, None, FROM_MODEL, why)
        error = self._model_error(share, columns, undecided, known)
        answer = self._answer(question, estimate, error * self._records, FROM_MODEL)
        return replace(answer, undecided=undecided)

    def _met(self, condition: Condition) -> Mask:
        """Which synthetic records meet a condition."""
        sample, domain = self._sample, self._release.domain
        numbers = [field for field in map(domain.field, fields_of(condition)) if not field.has_labels]
        values = Values(sample, numbers_of(sample.decoded, numbers) if numbers else {})
        return truth(condition, values)[0]

    def _undecided(self, condition: Condition) -> Mask:
        """Which synthetic records may meet a condition or not, as far as their positions say."""
        domain = self._release.domain
        both = [region_of(one, domain, unknown=False) for one in (condition, Not(condition))]
        if all(region.exact for region in both):
            return np.zeros(1, dtype=np.bool_)
        may, may_not = (self._within(region.boxes) for region in both)
        return may & may_not

    def _within(self, boxes: Sequence[Box]) -> Mask:
        """Which synthetic records lie in a union of boxes."""
        domain = self._release.domain
        starts = dict(zip([field.name for field in domain.fields], domain.offsets, strict=True))
        found = np.zeros(len(self._sample), dtype=np.bool_)
        for box in boxes:
            inside = np.ones(len(found), dtype=np.bool_)
            for (name, item), mask in box.items():
                start = starts[name]
                # Of an item: absent, present. Of a column: its value.
                where = (start + item, start + item + 1, 1) if item >= 0 else (start, start + len(mask), 0)
                inside &= mask[self._codes(*where)]
            found |= inside
        return found

    def _codes(self, start: int, stop: int, first: int) -> Ints:
        """Of every synthetic record, which of some positions it holds, numbered from `first`; 0 if it holds none."""
        sample = self._sample
        inside = (sample.indices >= start) & (sample.indices < stop)
        codes = np.zeros(len(sample), dtype=np.int64)
        codes[np.repeat(np.arange(len(sample)), sample.lengths)[inside]] = sample.indices[inside] - start + first
        return codes

    def _model_error(self, share: float, columns: int, undecided: float, known: ModelError) -> float:
        """The standard error of a share, the error of the sample included."""
        spread = max(share * (1 - share), 1 / self._drawn)
        at = columns - 1
        of_model = sqrt(spread) * ((known.noises[at] * self.unit) ** 2 + known.missed[at] ** 2)
        return sqrt(of_model + (undecided * known.in_bins[at]) ** 2 + spread / self._drawn)

    @cached_property
    def unit(self) -> float:
        """The noise of a released count, or of the statistic with the least noise, as a share of the records."""
        errors = [error for _, error, _ in self._counts.values()]
        return (min(errors) if errors else self._release.measurements.smallest_error()) / self._records

    def _answer(self, question: str, estimate: float, error: float, source: str) -> CountAnswer:
        low, high = (min(max(estimate + sign * Z * error, 0.0), self._records) for sign in (-1, 1))
        return CountAnswer(question, min(max(estimate, 0.0), self._records), low, high, source)


def columns_asked(condition: Condition, domain: Domain) -> int:
    """How many columns, and items of lists, a condition refers to."""
    items = {
        (one.field, value)
        for one in comparisons(condition)
        if isinstance(one, OneOf) and domain.field(one.field).is_set
        for value in one.values
    }
    columns = [name for name in fields_of(condition) if not domain.field(name).is_set]
    return len(items) + len(columns)
