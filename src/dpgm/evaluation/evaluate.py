"""Compare real and synthetic records by every metric that applies; nothing is dropped silently.

`Evaluation` holds everything measured, as one value that a report or a machine can read.
"""

import dataclasses
import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypeVar

import numpy as np

from dpgm import validation
from dpgm.baselines.estimators import AnswerZero, IndependentMarginals
from dpgm.data.domain import Image
from dpgm.data.domain_file import DomainLike, as_domain
from dpgm.data.read.frames import as_records
from dpgm.data.read.options import ReadOptions
from dpgm.data.records import Records
from dpgm.errors import UsageError
from dpgm.evaluation import marginals
from dpgm.evaluation.column_metrics import (
    BrokenOrder,
    ColumnComparison,
    Correlations,
    broken_orders,
    compare_column,
    correlations,
)
from dpgm.evaluation.copies import Copies, copies_of_records, copies_of_rows
from dpgm.evaluation.counting_queries import (
    Queries,
    Reading,
    count_queries,
    paper_workload,
    popular_queries,
    query_error,
)
from dpgm.evaluation.downstream import Accuracy, downstream
from dpgm.evaluation.inputs import (
    Inputs,
    Outside,
    check_comparable,
    file_inputs,
    inputs_of,
    long_inputs,
    position_names,
)
from dpgm.evaluation.raw_columns import RawColumns, Rows, compared_records, sample_rows
from dpgm.notebook import html_table

if TYPE_CHECKING:
    from dpgm.evaluation.verdict import Verdict

Kind: TypeAlias = Literal["sets", "table", "images", "mixed"]
Workload: TypeAlias = Literal["popular", "paper", "yours"]
SYNTHETIC = "synthetic"  # the method under evaluation, beside the names of the baselines
ANSWER_ZERO, INDEPENDENT = "answer 0", "independent"
LENGTHS = (1, 2, 3, 4)
_SAMPLED_RECORDS = 12
_MOST_HALVED = 50_000  # records of each half of the real data when chance is measured
_MOST_DRAWN = 500_000  # enough for counts of 0.1 % of the records; drawing millions would take longer than the rest

T = TypeVar("T")


@dataclass(frozen=True)
class QueryRow:
    """Errors of one set of queries, by method."""

    workload: Workload
    length: str
    reading: Reading
    queries: int
    mean: Mapping[str, float]
    median: Mapping[str, float]


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
    lengths: marginals.LengthDistance | None
    length_variation: Mapping[str, float]  # by method
    one_way: marginals.OneWay | None
    best_items: tuple[marginals.ItemComparison, ...]
    worst_items: tuple[marginals.ItemComparison, ...]
    two_way: marginals.TwoWay | None
    co_occurrence: marginals.CoOccurrence | None
    frequent_sets: marginals.FrequentSets | None
    table: marginals.TablePairs | None
    downstream: tuple[Accuracy, ...]
    held_out: bool  # whether the downstream test records were set apart before any fit
    not_computed: tuple[NotComputed, ...]
    columns: tuple[ColumnComparison, ...]  # raw values of tables
    correlations: Correlations | None
    orders: tuple[BrokenOrder, ...]  # kept by the real rows, not by the synthetic ones
    lost_items: marginals.LostItems | None
    copies: Copies | None
    images: marginals.ImageFigures | None
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

    @cached_property
    def _verdict(self) -> "Verdict":
        from dpgm.evaluation.verdict import verdict  # which imports this module

        return verdict(self)

    def __repr__(self) -> str:
        return f"Evaluation({self._verdict.headline!r})"

    def __str__(self) -> str:
        """The verdict in words, line by line."""
        lines = [f"{mark:>6}  {text}" for mark, text in self._verdict.marked]
        return "\n".join([f"{self._verdict.headline}  (curator only)", *lines])

    def _repr_html_(self) -> str:
        return html_table(f"{self._verdict.headline} (curator only)", self._verdict.marked)

    def to_dict(self) -> dict[str, Any]:
        """The same numbers as plain values."""
        skipped = ("row_samples", "real_sample", "synthetic_sample", "label_images")
        head = {"audience": "curator only: computed on the real data", "verdict": _plain(self._verdict)}
        plain: dict[str, Any] = _plain(self, skipped)
        return head | plain

    def to_json(self) -> str:
        """The same numbers for machines."""
        return json.dumps(self.to_dict(), indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def _plain(value: Any, skipped: tuple[str, ...] = ()) -> Any:
    if dataclasses.is_dataclass(value):
        names = [entry.name for entry in dataclasses.fields(value)]
        return {name: _plain(getattr(value, name)) for name in names if name not in skipped}
    if isinstance(value, np.ndarray):
        return np.round(value, 6).tolist() if value.dtype.kind == "f" else value.tolist()
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, Mapping):
        return {str(key): _plain(entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(entry) for entry in value]
    return value


def evaluate(
    real: object,
    synthetic: object,
    *,
    domain: DomainLike | None = None,
    person: str | None = None,
    item: str | None = None,
    test: object | None = None,
    queries: Queries | None = None,
    baselines: Mapping[str, Records] | None = None,
    epsilon: float = 1.0,
    delta: float | None = None,
    seed: int = 0,
) -> Evaluation:
    """How close synthetic records are to real ones, beside baselines.

    >>> import pandas
    >>> people = pandas.DataFrame({"age": [20, 30, 40, 50] * 50, "town": ["a", "b"] * 100})
    >>> evaluate(people, people.assign(age=people.age + 40)).columns[0].name
    'age'

    Args:
        real: the real data: records, a frame or matrix of pandas, polars, pyarrow, numpy or scipy, or a file.
            Everything returned is for the curator only.
        synthetic: the synthetic data, likewise; any number of records.
        domain: the domain of both (a domain, a mapping or a file). By default that of the records; frames and
            tables without one are compared column by column as they stand.
        person: of long data (one row per person and item), the column of persons.
        item: of long data, the column of items.
        test: real records no fit has seen, for downstream accuracy; by default a quarter of `real`.
        queries: the user's own counting queries (see `read_workload`).
        baselines: synthetic records of other methods by name; by default independent noisy marginals at
            (epsilon, delta). "answer 0" is always added.
        epsilon: budget of the default baseline: give the release's own.
        delta: likewise; by default 1 / (10 x number of records).
        seed: of queries, splits and the baseline's draws (not of its noise).

    Raises:
        UsageError: no records, different domains, or an empty workload.
    """
    if isinstance(real, (str, os.PathLike)) and isinstance(synthetic, (str, os.PathLike)):
        options = ReadOptions(domain=domain, person=person, item=item)
        inputs = file_inputs(os.fspath(real), os.fspath(synthetic), options)
    elif person is not None or item is not None:
        inputs = long_inputs(real, synthetic, person, item, as_domain(domain))
    else:
        inputs = inputs_of(real, synthetic, domain=domain)
    held_out = None if test is None else as_records(test, inputs.real.domain)
    return evaluate_inputs(
        inputs, test=held_out, queries=queries, baselines=baselines, epsilon=epsilon, delta=delta, seed=seed
    )


def evaluate_inputs(
    inputs: Inputs,
    *,
    test: Records | None = None,
    queries: Queries | None = None,
    baselines: Mapping[str, Records] | None = None,
    epsilon: float = 1.0,
    delta: float | None = None,
    seed: int = 0,
) -> Evaluation:
    """`evaluate` for data that were made comparable before (see `inputs_of` and `file_inputs`)."""
    real, synthetic, raw = inputs.real, inputs.synthetic, inputs.raw
    check_comparable(real, synthetic)
    if raw is not None and raw.columns and kind_of(real) == "table" and not (test or queries or baselines):
        # Bins that follow the real values, instead of those of a fit: what its bins hide is measured, too.
        real, synthetic = compared_records(raw.columns, label=real.domain.label)
    validation.positive(epsilon=epsilon)
    delta = 1 / (10 * len(real)) if delta is None else delta
    if queries is not None and len(queries) == 0:
        raise UsageError("the workload holds no queries; give at least one.")
    kind = kind_of(real)
    if baselines is None:
        model = IndependentMarginals(epsilon, delta).fit(real)
        baselines = {INDEPENDENT: model.sample(min(len(real), _MOST_DRAWN), seed=seed)}
    others = dict(baselines)
    if kind != "table":
        others[ANSWER_ZERO] = AnswerZero().fit(real).sample(len(real))
    methods = {SYNTHETIC: synthetic} | others
    rows_of = raw.columns if raw is not None and kind == "table" else None
    metrics = _Metrics()

    rows = _query_rows(real, methods, kind, queries, seed, metrics)
    lengths = metrics("record lengths", partial(marginals.record_lengths, real, synthetic))
    by_method = (
        {} if lengths is None else {name: marginals.record_lengths(real, one) for name, one in methods.items()}
    )
    singles = marginals.one_way(real, synthetic)
    best, worst = marginals.best_and_worst(singles, real.domain)
    table = metrics("pairs of columns", partial(marginals.table_pairs, real, synthetic))
    columns, correlated = _raw_metrics(raw, kind, metrics)
    accuracies = metrics("downstream accuracy", partial(downstream, real, synthetic, test, seed))
    together = frequent = pictures = None
    if kind == "images":
        metrics.skip("co-occurrence heat maps", "pixels are shown as images instead.")
        metrics.skip("frequent item sets", "the most frequent sets of pixels say nothing about images.")
        pictures = marginals.mean_images(real), marginals.mean_images(synthetic)
    else:
        together = metrics("co-occurrence heat maps", partial(marginals.co_occurrence, real, synthetic))
        frequent = metrics("frequent item sets", partial(marginals.frequent_sets, real, synthetic))
    return Evaluation(
        kind=kind,
        records=len(real),
        synthetic_records=len(synthetic),
        width=real.width,
        epsilon=float(epsilon),
        delta=float(delta),
        baselines=tuple(others),
        queries=rows,
        lengths=lengths,
        length_variation={name: distance.total_variation for name, distance in by_method.items()},
        one_way=singles,
        best_items=best,
        worst_items=worst,
        two_way=metrics("pairs of items", partial(marginals.two_way, real, synthetic)),
        co_occurrence=together,
        frequent_sets=frequent,
        table=table,
        downstream=accuracies or (),
        held_out=test is not None,
        not_computed=tuple(metrics.missing),
        columns=columns,
        correlations=correlated,
        orders=() if raw is None else broken_orders(raw.columns),
        lost_items=marginals.lost_items(singles, real.domain, len(synthetic)),
        copies=copies_of_records(real, synthetic) if rows_of is None else copies_of_rows(rows_of),
        outside=inputs.outside,
        chance=chance_level(real, len(synthetic), kind, seed),
        images=None if pictures is None else marginals.image_figures(real, synthetic, pictures),
        row_samples=None if rows_of is None else sample_rows(rows_of, _SAMPLED_RECORDS, seed),
        real_sample=_pick(real, kind, seed),
        synthetic_sample=_pick(synthetic, kind, seed),
        label_images=pictures,
    )


def chance_level(real: Records, synthetic_records: int, kind: Kind, seed: int) -> dict[str, float]:
    """How far a fresh sample of the same people would be off, by chance alone.

    Two halves of the real data are compared; chance falls with the square root of the number of records, so what
    the halves show is scaled to the numbers at hand.
    """
    size = min(len(real) // 2, _MOST_HALVED)
    if size < 2 or kind == "images":
        return {}
    order = np.random.default_rng([seed, 14]).permutation(len(real))
    first, second = real.take(order[:size]), real.take(order[size : 2 * size])
    scale = float(np.sqrt((1 / len(real) + 1 / synthetic_records) / (2 / size)))

    def popular(length: int) -> float:
        return query_error(first, second, popular_queries(real, length, seed=seed)).mean

    figures: dict[str, Callable[[], float]] = {
        "lengths": lambda: marginals.record_lengths(first, second).total_variation,
        "pairs": lambda: marginals.table_pairs(first, second).mean_total_variation,
        "pop1": partial(popular, 1),
        "pop2": partial(popular, 2),
    }
    metrics = _Metrics()
    computed = {name: metrics(name, compute) for name, compute in figures.items()}
    return {name: scale * value for name, value in computed.items() if value is not None}


def summary_table(evaluation: Evaluation) -> tuple[tuple[str, ...], list[tuple[str | float | None, ...]]]:
    """Header and one row per method: errors of popular queries of 1-4 items and the distance of record lengths."""
    header = ("method", *(f"pop{length}" for length in LENGTHS), "lengths")
    rows: list[tuple[str | float | None, ...]] = []
    for method in (SYNTHETIC, *evaluation.baselines):
        errors = [evaluation.query_means(length).get(method) for length in LENGTHS]
        rows.append((method, *errors, evaluation.length_variation.get(method)))
    return header, rows


def kind_of(records: Records) -> Kind:
    """Sets, a table, images, or a mixture of sets and columns."""
    fields = [field for field in records.domain.fields if field.name != records.domain.label]
    if any(isinstance(field, Image) for field in fields):
        return "images"
    softmax = [field.kind != "items" for field in fields]
    return "table" if softmax and all(softmax) else "mixed" if any(softmax) else "sets"


class _Metrics:
    """Runs metrics; keeps the reason of every one that cannot be computed."""

    def __init__(self) -> None:
        self.missing: list[NotComputed] = []

    def __call__(self, metric: str, compute: Callable[[], T]) -> T | None:
        try:
            return compute()
        except UsageError as error:
            self.skip(metric, str(error))
        except MemoryError:
            self.skip(metric, "this machine has too little memory for it.")
        return None

    def skip(self, metric: str, reason: str) -> None:
        self.missing.append(NotComputed(metric, reason))


def _query_rows(
    real: Records,
    methods: Mapping[str, Records],
    kind: Kind,
    queries: Queries | None,
    seed: int,
    metrics: _Metrics,
) -> tuple[QueryRow, ...]:
    asked: list[tuple[Workload, str, Queries, tuple[Reading, ...]]] = []
    for length in LENGTHS:
        popular = metrics(f"popular queries of {length} items", partial(popular_queries, real, length, seed=seed))
        if popular is not None:
            asked.append(("popular", str(length), popular, ("all", "any") if length > 1 else ("all",)))
    if kind == "sets":
        parts = paper_workload(real, seed)
        asked += [("paper", f"{20 * part} %", chosen, ("all",)) for part, chosen in enumerate(parts, 1)]
    else:
        metrics.skip("the paper's random queries", "they are defined for sets of items only.")
    if queries is not None:
        asked.append(("yours", "all", queries, ("all", "any")))
    rows = []
    for workload, name, chosen, readings in asked:
        for reading in readings:
            truth = count_queries(real, chosen, reading)
            errors = {
                method: query_error(real, one, chosen, reading=reading, real_counts=truth)
                for method, one in methods.items()
            }
            means = {method: error.mean for method, error in errors.items()}
            medians = {method: error.median for method, error in errors.items()}
            rows.append(QueryRow(workload, name, reading, len(chosen), means, medians))
    return tuple(rows)


def _raw_metrics(
    raw: RawColumns | None, kind: Kind, metrics: _Metrics
) -> tuple[tuple[ColumnComparison, ...], Correlations | None]:
    if raw is None:
        if kind in ("table", "mixed"):
            reason = "records hold the domain's bins only; evaluate files or frames to compare the values in them."
            metrics.skip("raw values of columns", reason)
        return (), None
    for name, reason in raw.left_out:
        metrics.skip(f"raw values of the column {name!r}", reason)
    columns = tuple(compare_column(column) for column in raw.columns)
    return columns, metrics("correlations of numbers", partial(correlations, raw.columns))


def _pick(records: Records, kind: Kind, seed: int) -> Records:
    count = min(_SAMPLED_RECORDS if kind != "images" else 4 * _SAMPLED_RECORDS, len(records))
    chosen = np.random.default_rng([seed, 12]).choice(len(records), count, replace=False)
    return records.take(np.sort(chosen))
