"""Everything measured between real and synthetic records, as one value that a report or a machine can read."""

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np

from dpgm.data.records import Records
from dpgm.evaluation.column_metrics import ColumnComparison, Correlations
from dpgm.evaluation.comparable import position_names
from dpgm.evaluation.copies import Copies
from dpgm.evaluation.counting_queries import Reading
from dpgm.evaluation.downstream import Accuracy
from dpgm.evaluation.inputs import Outside
from dpgm.evaluation.marginals import CoOccurrence, FrequentSets, LengthDistance, OneWay, TablePairs, TwoWay
from dpgm.notebook import html_table

if TYPE_CHECKING:
    from dpgm.evaluation.verdict import Verdict

Kind: TypeAlias = Literal["sets", "table", "images", "mixed"]
Rows: TypeAlias = tuple[tuple[str, ...], ...]
SYNTHETIC = "synthetic"  # the method under evaluation, beside the names of the baselines


@dataclass(frozen=True)
class QueryRow:
    """Errors of one set of queries, by method."""

    workload: Literal["popular", "paper", "yours"]
    length: str
    reading: Reading
    queries: int
    mean: Mapping[str, float]
    median: Mapping[str, float]


@dataclass(frozen=True)
class ItemComparison:
    """One position: the share of records that hold it on both sides."""

    name: str
    real: float
    synthetic: float
    error: float


@dataclass(frozen=True)
class LostItems:
    """Positions held by at least 0.1 % of the real records that occur less than a tenth as often as they should."""

    count: int
    of: int
    largest: float  # the largest real share among them
    names: tuple[str, ...]  # the most frequent of them


@dataclass(frozen=True)
class ImageFigures:
    """Images by label: how much they vary relative to real ones, how far mean images and label shares are off."""

    variety: float
    pixel_difference: float
    label_gap: float | None


@dataclass(frozen=True)
class NotComputed:
    """A metric that is missing, and why."""

    metric: str
    reason: str


@dataclass(frozen=True, repr=False)
class Evaluation:
    """How close synthetic records are to real ones. Curator only: computed on the real data.

    Metrics that could not be computed are None and listed in `not_computed` with the reason.
    """

    kind: Kind
    records: int
    synthetic_records: int
    width: int
    epsilon: float  # of the baselines that need one
    delta: float
    baselines: tuple[str, ...]
    queries: tuple[QueryRow, ...]
    lengths: LengthDistance | None
    length_variation: Mapping[str, float]  # by method
    one_way: OneWay | None
    best_items: tuple[ItemComparison, ...]
    worst_items: tuple[ItemComparison, ...]
    two_way: TwoWay | None
    co_occurrence: CoOccurrence | None
    frequent_sets: FrequentSets | None
    table: TablePairs | None
    downstream: tuple[Accuracy, ...]
    held_out: bool  # whether the downstream test records were set apart before any fit
    not_computed: tuple[NotComputed, ...]
    columns: tuple[ColumnComparison, ...]  # raw values of tables
    correlations: Correlations | None
    lost_items: LostItems | None
    copies: Copies | None
    images: ImageFigures | None
    outside: Outside | None
    # What the same figures are for a fresh sample of the same people: "pop1", "pop2", "pairs", "lengths".
    chance: Mapping[str, float]
    row_samples: tuple[Rows, Rows] | None  # some rows of a table on both sides, as texts
    real_sample: Records
    synthetic_sample: Records
    label_images: tuple[Any, Any] | None = None  # mean image of every label, real and synthetic

    @property
    def names(self) -> tuple[str, ...]:
        """A readable name of every position."""
        return position_names(self.real_sample.domain)

    def query_means(self, length: int | str, workload: str = "popular") -> Mapping[str, float]:
        """Mean errors by method of the queries of one length; empty if they were not computed."""
        for row in self.queries:
            if (row.workload, row.length, row.reading) == (workload, str(length), "all"):
                return row.mean
        return {}

    @property
    def _verdict(self) -> "Verdict":
        from dpgm.evaluation.verdict import verdict  # which imports this module

        return verdict(self)

    def __repr__(self) -> str:
        return f"Evaluation({self._verdict.headline!r})"

    def __str__(self) -> str:
        """The verdict in words, line by line."""
        verdict = self._verdict
        lines = [f"{mark:>6}  {text}" for mark, text in verdict.marked]
        return "\n".join([f"{verdict.headline}  (curator only)", *lines])

    def _repr_html_(self) -> str:
        verdict = self._verdict
        return html_table(f"{verdict.headline} (curator only)", verdict.marked)

    def to_dict(self) -> dict[str, Any]:
        """The same numbers as plain values."""
        skipped = ("row_samples", "real_sample", "synthetic_sample", "label_images")
        plain = {
            entry.name: _plain(getattr(self, entry.name))
            for entry in dataclasses.fields(self)
            if entry.name not in skipped
        }
        verdict = self._verdict
        head = {
            "audience": "curator only: computed on the real data",
            "verdict": {
                "grade": verdict.grade,
                "headline": verdict.headline,
                "bad": list(verdict.bad),
                "good": list(verdict.good),
            },
        }
        return head | plain

    def to_json(self) -> str:
        """The same numbers for machines."""
        return json.dumps(self.to_dict(), indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {entry.name: _plain(getattr(value, entry.name)) for entry in dataclasses.fields(value)}
    if isinstance(value, np.ndarray):
        return np.round(value, 6).tolist() if value.dtype.kind == "f" else value.tolist()
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, Mapping):
        return {str(key): _plain(entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(entry) for entry in value]
    return value
