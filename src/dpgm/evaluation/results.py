"""What an evaluation found: one section for each kind of figures.

`evaluate.py` computes the sections, `verdict.py` judges them, the report shows them, and `to_json` writes them.
"""

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np

from dpgm.data.records import Records
from dpgm.evaluation import marginals
from dpgm.evaluation.column_metrics import ColumnComparison
from dpgm.evaluation.compare_rows import RowRelations
from dpgm.evaluation.copies import Copies
from dpgm.evaluation.counting_queries import Reading
from dpgm.evaluation.downstream import Accuracy
from dpgm.evaluation.event_figures import EventFigures
from dpgm.evaluation.inputs import Outside, position_names
from dpgm.evaluation.raw_columns import LeftOut, TextRows
from dpgm.notebook import html_table

if TYPE_CHECKING:
    from dpgm.evaluation.verdict import Verdict

DataKind: TypeAlias = Literal["sets", "table", "images", "mixed"]
Workload: TypeAlias = Literal["popular", "paper", "yours"]


@dataclass(frozen=True)
class DataFacts:
    """What was compared.

    Attributes:
        kind: item sets, a table, images, or sets beside columns.
        records: number of real records.
        synthetic_records: number of synthetic records.
        width: number of positions of a record.
        left_out: columns of the real data that are not compared.
        outside: items of the real data that the domain does not list.
        values_from_data: whether the baselines were given items and values that no domain lists.
    """

    kind: DataKind
    records: int
    synthetic_records: int
    width: int
    left_out: tuple[LeftOut, ...]
    outside: Outside | None
    values_from_data: bool


@dataclass(frozen=True)
class QueryRow:
    """Relative errors of one set of queries, by method."""

    workload: Workload
    length: str
    reading: Reading
    queries: int
    mean: Mapping[str, float]
    median: Mapping[str, float]


@dataclass(frozen=True)
class Counting:
    """Counting queries, and the baselines that answer them, too."""

    rows: tuple[QueryRow, ...]
    baselines: tuple[str, ...]
    epsilon: float  # of the baselines that need one
    delta: float

    def means(self, length: int | str, workload: str = "popular") -> Mapping[str, float]:
        """Mean errors of the queries of one length, by method; empty if they were not computed."""
        for row in self.rows:
            if (row.workload, row.length, row.reading) == (workload, str(length), "all"):
                return row.mean
        return {}


@dataclass(frozen=True)
class ItemFigures:
    """Single positions (items, values, pixels), pairs and sets of them, and how many items records hold."""

    single: marginals.OneWay
    best: tuple[marginals.ItemComparison, ...]
    worst: tuple[marginals.ItemComparison, ...]
    lost: marginals.LostItems
    pairs: marginals.TwoWay | None
    co_occurrence: marginals.CoOccurrence | None
    frequent_sets: marginals.FrequentSets | None
    lengths: marginals.LengthDistance | None
    length_variation: Mapping[str, float]  # by method


@dataclass(frozen=True)
class Relations:
    """How columns depend on each other.

    Attributes:
        pairs: distances and associations of pairs of columns.
        k_marginals: by number of columns, the score of SDNist: 1000 if all their joint distributions are equal.
        rows: what is off beyond chance in rows, in groups of rows, and in rules that rows keep.
    """

    pairs: marginals.TablePairs | None = None
    k_marginals: Mapping[int, float] = field(default_factory=dict)
    rows: RowRelations | None = None


@dataclass(frozen=True)
class Learning:
    """Models trained on synthetic and on real records."""

    accuracies: tuple[Accuracy, ...]
    held_out: bool  # whether the user gave separate records to test on


@dataclass(frozen=True)
class PictureFigures:
    """Images compared, and the mean images of the labels: real and synthetic."""

    figures: marginals.ImageFigures
    label_images: tuple[Any, Any]


@dataclass(frozen=True)
class ByChance:
    """The figures "pop1", "pop2", "pairs" and "lengths" of a new sample of real records."""

    expected: Mapping[str, float]
    most: Mapping[str, float]  # what hardly any such sample exceeds


@dataclass(frozen=True)
class Samples:
    """Some real and some synthetic records; of tables also as rows of texts."""

    real: Records
    synthetic: Records
    rows: tuple[TextRows, TextRows] | None


@dataclass(frozen=True)
class NotComputed:
    """A metric that could not be computed, and the reason."""

    metric: str
    reason: str


@dataclass(frozen=True, repr=False)
class Evaluation:
    """How close synthetic records are to real ones. Curator only: computed on the real data.

    A section that does not apply is None or empty, and `not_computed` says why.
    """

    data: DataFacts
    columns: tuple[ColumnComparison, ...]  # raw columns of tables
    relations: Relations
    items: ItemFigures
    counting: Counting
    learning: Learning
    copies: Copies | None
    images: PictureFigures | None
    events: EventFigures | None  # of sequences
    chance: ByChance
    samples: Samples
    not_computed: tuple[NotComputed, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """A readable name of every position."""
        return position_names(self.samples.real.domain)

    @cached_property
    def verdict(self) -> "Verdict":
        """The grade, with the findings that explain it."""
        from dpgm.evaluation.verdict import verdict  # which imports this module

        return verdict(self)

    def __repr__(self) -> str:
        return f"Evaluation({self.verdict.headline!r})"

    def __str__(self) -> str:
        """The headline and the sentences of the verdict, one per line."""
        lines = [f"{mark:>6}  {text}" for mark, text in self.verdict.marked]
        return "\n".join([f"{self.verdict.headline}  (curator only)", *lines])

    def _repr_html_(self) -> str:
        return html_table(f"{self.verdict.headline} (curator only)", self.verdict.marked)

    def to_dict(self) -> dict[str, Any]:
        """The verdict and the sections as plain values, without records and images."""
        head = {"audience": "curator only: computed on the real data", "verdict": self.verdict.to_dict()}
        names = [entry.name for entry in dataclasses.fields(self) if entry.name not in ("samples", "images")]
        images = None if self.images is None else plain_values(self.images.figures)
        return head | {name: plain_values(getattr(self, name)) for name in names} | {"images": images}

    def to_json(self) -> str:
        """The same numbers for machines."""
        return json.dumps(self.to_dict(), indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def plain_values(value: Any) -> Any:
    """Dataclasses, arrays and mappings as what JSON can hold."""
    if dataclasses.is_dataclass(value):
        return {entry.name: plain_values(getattr(value, entry.name)) for entry in dataclasses.fields(value)}
    if isinstance(value, np.ndarray):
        return np.round(value, 6).tolist() if value.dtype.kind == "f" else value.tolist()
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, Mapping):
        return {str(key): plain_values(entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain_values(entry) for entry in value]
    return value
