"""Compare real and synthetic data by every metric that applies; metrics that cannot be computed are listed.

`evaluate` is the public entry; `Evaluation` holds all results, for the report and as JSON.
"""

import dataclasses
import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, ParamSpec, TypeAlias, TypeVar

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
from dpgm.evaluation.chance import chance_figures
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
from dpgm.evaluation.file_inputs import file_inputs
from dpgm.evaluation.inputs import (
    Inputs,
    Outside,
    check_comparable,
    inputs_of,
    long_inputs,
    position_names,
    without_persons,
)
from dpgm.evaluation.raw_columns import LeftOut, RawColumns, Rows, compared_records, sample_rows
from dpgm.notebook import html_table

if TYPE_CHECKING:
    from dpgm.evaluation.verdict import Verdict

Kind: TypeAlias = Literal["sets", "table", "images", "mixed"]
Workload: TypeAlias = Literal["popular", "paper", "yours"]
SYNTHETIC = "synthetic"  # name of the data under evaluation among the methods; the others are baselines
ANSWER_ZERO, INDEPENDENT = "answer 0", "independent"
LENGTHS = (1, 2, 3, 4)
_SAMPLED_RECORDS = 12
_MOST_DRAWN = 500_000  # records of the baseline: enough for counts of 0.1 % of them; millions would be slow to draw

P = ParamSpec("P")
T = TypeVar("T")


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
class NotComputed:
    """A metric that could not be computed, and the reason."""

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
    held_out: bool  # whether the user gave separate records for the downstream test
    not_computed: tuple[NotComputed, ...]
    columns: tuple[ColumnComparison, ...]  # raw columns of tables
    left_out: tuple[LeftOut, ...]  # columns of the real data that are not compared
    correlations: Correlations | None
    orders: tuple[BrokenOrder, ...]  # pairs of columns that are in order in the real rows only
    lost_items: marginals.LostItems | None
    copies: Copies | None
    images: marginals.ImageFigures | None
    outside: Outside | None
    values_from_data: bool  # whether the baselines were given items and values that no domain lists
    chance: Mapping[str, float]  # "pop1", "pop2", "pairs", "lengths": expected for a new sample of real records
    chance_most: Mapping[str, float]  # what hardly any such sample exceeds
    row_samples: tuple[Rows, Rows] | None  # some real and synthetic rows of a table, as texts
    real_sample: Records
    synthetic_sample: Records
    label_images: tuple[Any, Any] | None = None  # mean images of the labels, real and synthetic

    @property
    def names(self) -> tuple[str, ...]:
        """A readable name of every position."""
        return position_names(self.real_sample.domain)

    def query_means(self, length: int | str, workload: str = "popular") -> Mapping[str, float]:
        """Mean errors of the queries of one length, by method; empty if they were not computed."""
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
        """The headline and the sentences of the verdict, one per line."""
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
    """Measure how close synthetic data is to real data, with baselines for comparison.

    >>> import pandas
    >>> people = pandas.DataFrame({"age": [20, 30, 40, 50] * 50, "town": ["a", "b"] * 100})
    >>> evaluate(people, people.assign(age=people.age + 40)).columns[0].name
    'age'

    Args:
        real: the real data: records, a frame or matrix of pandas, polars, pyarrow, numpy or scipy, or a file.
            Everything returned is for the curator only.
        synthetic: the synthetic data, in any of these forms and with any number of records.
        domain: the domain of both (a domain, a mapping or a file). By default that of the records; frames and
            files of tables without a domain are compared column by column.
        person: the column of persons: with `item`, their rows are grouped; without, it is left out.
        item: with `person`, the column of items, which holds one item or a list of items per row.
        test: real records that no fit has seen, for downstream accuracy; by default a quarter of `real`.
        queries: the user's own counting queries (see `read_workload`).
        baselines: synthetic records of other methods by name; by default independent noisy marginals at
            (epsilon, delta). "answer 0" is always added, except for tables.
        epsilon: privacy budget of the default baseline; use that of the release.
        delta: delta of the default baseline; by default 1 / (10 x number of records).
        seed: seed of queries, splits and the baseline's samples (not of its noise).

    Raises:
        UsageError: no records, different domains, or an empty workload.
    """
    if isinstance(real, (str, os.PathLike)) and isinstance(synthetic, (str, os.PathLike)):
        options = ReadOptions(domain=domain, person=person, item=item)
        inputs = file_inputs(os.fspath(real), os.fspath(synthetic), options)
    elif item is not None:
        inputs = long_inputs(real, synthetic, person, item, as_domain(domain))
    else:
        if person is not None:
            real, synthetic = without_persons(real, synthetic, person)
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
    """`evaluate` for data that has been made comparable (see `inputs_of` and `file_inputs`)."""
    real, synthetic, raw = inputs.real, inputs.synthetic, inputs.raw
    check_comparable(real, synthetic)
    if raw is not None and raw.columns and kind_of(real) == "table" and not (test or queries or baselines):
        # Bins derived from the real values instead of the domain's, which hide differences within a bin.
        real, synthetic = compared_records(raw.columns, label=real.domain.label)
    validation.positive(epsilon=epsilon)
    delta = 1 / (10 * len(real)) if delta is None else delta
    if queries is not None and len(queries) == 0:
        raise UsageError("the workload holds no queries; give at least one.")
    kind = kind_of(real)
    table_columns = raw.columns if raw is not None and raw.columns and kind == "table" else None
    if baselines is None:
        baselines = _default_baseline(real, epsilon, delta, seed)
    if kind != "table":
        baselines = {**baselines, ANSWER_ZERO: AnswerZero().fit(real).sample(len(real))}
    methods = {SYNTHETIC: synthetic, **baselines}

    metrics = _Metrics()
    rows = _query_rows(real, methods, kind, queries, seed, metrics)
    lengths = metrics("record lengths", marginals.record_lengths, real, synthetic)
    length_variation = {} if lengths is None else _length_variation(real, methods)
    one_way = marginals.one_way(real, synthetic)
    best, worst = marginals.best_and_worst(one_way, real.domain)
    table = metrics("pairs of columns", marginals.table_pairs, real, synthetic)
    columns, correlated = _raw_metrics(raw, kind, metrics)
    accuracies = metrics("downstream accuracy", downstream, real, synthetic, test, seed)
    chance = {} if kind == "images" else chance_figures(real, len(synthetic), seed)
    co_occurrence, frequent_sets = _item_set_metrics(real, synthetic, kind, metrics)
    label_images = (marginals.mean_images(real), marginals.mean_images(synthetic)) if kind == "images" else None
    return Evaluation(
        kind=kind,
        records=len(real),
        synthetic_records=len(synthetic),
        width=real.width,
        epsilon=float(epsilon),
        delta=float(delta),
        baselines=tuple(baselines),
        queries=rows,
        lengths=lengths,
        length_variation=length_variation,
        one_way=one_way,
        best_items=best,
        worst_items=worst,
        two_way=metrics("pairs of items", marginals.two_way, real, synthetic),
        co_occurrence=co_occurrence,
        frequent_sets=frequent_sets,
        table=table,
        downstream=accuracies or (),
        held_out=test is not None,
        not_computed=tuple(metrics.missing),
        columns=columns,
        left_out=() if raw is None else raw.left_out,
        correlations=correlated,
        orders=() if raw is None else broken_orders(raw.columns),
        lost_items=marginals.lost_items(one_way, real.domain, len(synthetic)),
        copies=copies_of_records(real, synthetic) if table_columns is None else copies_of_rows(table_columns),
        outside=inputs.outside,
        values_from_data=inputs.values_from_data,
        chance={name: figure.expected for name, figure in chance.items()},
        chance_most={name: figure.most for name, figure in chance.items()},
        images=None if label_images is None else marginals.image_figures(real, synthetic, label_images),
        row_samples=None if table_columns is None else sample_rows(table_columns, _SAMPLED_RECORDS, seed),
        real_sample=_random_records(real, kind, seed),
        synthetic_sample=_random_records(synthetic, kind, seed),
        label_images=label_images,
    )


def summary_table(evaluation: Evaluation) -> tuple[tuple[str, ...], list[tuple[str | float | None, ...]]]:
    """Header and one row per method: errors of popular queries of 1-4 items, and distance of record lengths."""
    header = ("method", *(f"pop{length}" for length in LENGTHS), "lengths")
    rows: list[tuple[str | float | None, ...]] = []
    for method in (SYNTHETIC, *evaluation.baselines):
        errors = [evaluation.query_means(length).get(method) for length in LENGTHS]
        rows.append((method, *errors, evaluation.length_variation.get(method)))
    return header, rows


def kind_of(records: Records) -> Kind:
    """Sets, a table, images, or a mixture of sets and columns; the label counts only if there is nothing else."""
    domain = records.domain
    fields = [field for field in domain.fields if field.name != domain.label] or domain.fields
    if any(isinstance(field, Image) for field in fields):
        return "images"
    is_column = [field.kind != "items" for field in fields]
    return "table" if is_column and all(is_column) else "mixed" if any(is_column) else "sets"


class _Metrics:
    """Computes metrics, and keeps the reasons why some cannot be computed."""

    def __init__(self) -> None:
        self.missing: list[NotComputed] = []

    def __call__(self, metric: str, compute: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T | None:
        try:
            return compute(*args, **kwargs)
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
    workloads: list[tuple[Workload, str, Queries, tuple[Reading, ...]]] = []
    for length in LENGTHS:
        popular = metrics(f"popular queries of {length} items", popular_queries, real, length, seed=seed)
        if popular is not None:
            workloads.append(("popular", str(length), popular, ("all", "any") if length > 1 else ("all",)))
    if kind == "sets":
        subsets = paper_workload(real, seed)
        workloads += [("paper", f"{20 * part} %", subset, ("all",)) for part, subset in enumerate(subsets, 1)]
    else:
        metrics.skip("the paper's random queries", "they are defined for sets of items only.")
    if queries is not None:
        workloads.append(("yours", "all", queries, ("all", "any")))
    rows = []
    for workload, name, chosen, readings in workloads:
        for reading in readings:
            truth = count_queries(real, chosen, reading)
            errors = {
                method: query_error(real, records, chosen, reading=reading, real_counts=truth)
                for method, records in methods.items()
            }
            means = {method: error.mean for method, error in errors.items()}
            medians = {method: error.median for method, error in errors.items()}
            rows.append(QueryRow(workload, name, reading, len(chosen), means, medians))
    return tuple(rows)


def _default_baseline(real: Records, epsilon: float, delta: float, seed: int) -> Mapping[str, Records]:
    model = IndependentMarginals(epsilon, delta).fit(real)
    return {INDEPENDENT: model.sample(min(len(real), _MOST_DRAWN), seed=seed)}


def _length_variation(real: Records, methods: Mapping[str, Records]) -> dict[str, float]:
    return {name: marginals.record_lengths(real, records).total_variation for name, records in methods.items()}


def _item_set_metrics(
    real: Records, synthetic: Records, kind: Kind, metrics: _Metrics
) -> tuple[marginals.CoOccurrence | None, marginals.FrequentSets | None]:
    if kind == "images":
        metrics.skip("co-occurrence heat maps", "pixels are shown as images instead.")
        metrics.skip("frequent item sets", "the most frequent sets of pixels say nothing about images.")
        return None, None
    return (
        metrics("co-occurrence heat maps", marginals.co_occurrence, real, synthetic),
        metrics("frequent item sets", marginals.frequent_sets, real, synthetic),
    )


def _raw_metrics(
    raw: RawColumns | None, kind: Kind, metrics: _Metrics
) -> tuple[tuple[ColumnComparison, ...], Correlations | None]:
    if raw is None:
        if kind in ("table", "mixed"):
            reason = "records hold the domain's bins only; evaluate files or frames to compare the values in them."
            metrics.skip("raw values of columns", reason)
        return (), None
    for column in raw.left_out:
        metrics.skip(f"raw values of the column {column.name!r}", column.reason)
    return tuple(map(compare_column, raw.columns)), metrics("correlations of numbers", correlations, raw.columns)


def _random_records(records: Records, kind: Kind, seed: int) -> Records:
    count = min(_SAMPLED_RECORDS if kind != "images" else 4 * _SAMPLED_RECORDS, len(records))
    chosen = np.random.default_rng([seed, 12]).choice(len(records), count, replace=False)
    return records.take(np.sort(chosen))
