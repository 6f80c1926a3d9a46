"""Compare real and synthetic data by every metric that applies; metrics that cannot be computed are listed.

`evaluate` is the public entry; it returns the `Evaluation` of `results.py`.
"""

import os
from collections.abc import Callable, Mapping
from typing import ParamSpec, TypeVar

import numpy as np

from dpgm import validation
from dpgm.baselines.estimators import AnswerZero, IndependentMarginals
from dpgm.data.domain_file import DomainLike, as_domain
from dpgm.data.read.frames import as_records
from dpgm.data.read.options import ReadOptions
from dpgm.data.records import Records
from dpgm.errors import UsageError
from dpgm.evaluation import marginals
from dpgm.evaluation.chance import chance_figures
from dpgm.evaluation.column_metrics import (
    ColumnComparison,
    Correlations,
    broken_orders,
    compare_column,
    correlations,
)
from dpgm.evaluation.copies import copies_of_records, copies_of_rows
from dpgm.evaluation.counting_queries import (
    Queries,
    Reading,
    count_queries,
    paper_workload,
    popular_queries,
    query_error,
)
from dpgm.evaluation.downstream import downstream
from dpgm.evaluation.file_inputs import file_inputs
from dpgm.evaluation.findings import VERDICT_RULES
from dpgm.evaluation.groups import compare_groups
from dpgm.evaluation.inputs import (
    Inputs,
    check_comparable,
    inputs_of,
    long_inputs,
    without_persons,
)
from dpgm.evaluation.raw_columns import RawColumns, compared_records, sample_rows
from dpgm.evaluation.relations import rank_relations
from dpgm.evaluation.results import (
    ByChance,
    Counting,
    DataFacts,
    DataKind,
    Evaluation,
    ItemFigures,
    Learning,
    NotComputed,
    PictureFigures,
    QueryRow,
    Relations,
    Samples,
    Workload,
)
from dpgm.evaluation.traits import traits_of

SYNTHETIC = "synthetic"  # name of the data under evaluation among the methods; the others are baselines
ANSWER_ZERO, INDEPENDENT = "answer 0", "independent"
QUERY_LENGTHS = (1, 2, 3, 4)
_SAMPLED_RECORDS = 12
_MOST_DRAWN = 500_000  # records of the baseline: enough for counts of 0.1 % of them; millions would be slow to draw

P = ParamSpec("P")
T = TypeVar("T")


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
    items = _items(real, synthetic, methods, kind, metrics)
    pairs = metrics("pairs of columns", marginals.table_pairs, real, synthetic)
    columns, correlated = _raw_metrics(raw, kind, metrics)
    accuracies = metrics("downstream accuracy", downstream, real, synthetic, test, seed)
    chance = {} if kind == "images" else chance_figures(real, len(synthetic), seed)
    return Evaluation(
        data=DataFacts(
            kind=kind,
            records=len(real),
            synthetic_records=len(synthetic),
            width=real.width,
            left_out=() if raw is None else raw.left_out,
            outside=inputs.outside,
            values_from_data=inputs.values_from_data,
        ),
        columns=columns,
        relations=_relations(raw, inputs, pairs, correlated, metrics),
        items=items,
        counting=Counting(rows, tuple(baselines), float(epsilon), float(delta)),
        learning=Learning(accuracies or (), test is not None),
        copies=copies_of_records(real, synthetic) if table_columns is None else copies_of_rows(table_columns),
        images=_pictures(real, synthetic) if kind == "images" else None,
        chance=ByChance(
            {name: figure.expected for name, figure in chance.items()},
            {name: figure.most for name, figure in chance.items()},
        ),
        samples=Samples(
            _random_records(real, kind, seed),
            _random_records(synthetic, kind, seed),
            None if table_columns is None else sample_rows(table_columns, _SAMPLED_RECORDS, seed),
        ),
        not_computed=tuple(metrics.missing),
    )


def summary_table(evaluation: Evaluation) -> tuple[tuple[str, ...], list[tuple[str | float | None, ...]]]:
    """Header and one row per method: errors of popular queries of 1-4 items, and distance of record lengths."""
    header = ("method", *(f"pop{length}" for length in QUERY_LENGTHS), "lengths")
    rows: list[tuple[str | float | None, ...]] = []
    counting, variation = evaluation.counting, evaluation.items.length_variation
    for method in (SYNTHETIC, *counting.baselines):
        errors = [counting.means(length).get(method) for length in QUERY_LENGTHS]
        rows.append((method, *errors, variation.get(method)))
    return header, rows


def kind_of(records: Records) -> DataKind:
    """Sets, a table, images, or a mixture of sets and columns; the label counts only if there is nothing else."""
    domain = records.domain
    fields = [field for field in domain.fields if field.name != domain.label] or domain.fields
    if any(field.image is not None for field in fields):
        return "images"
    is_column = [not field.is_set for field in fields]
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
    kind: DataKind,
    queries: Queries | None,
    seed: int,
    metrics: _Metrics,
) -> tuple[QueryRow, ...]:
    workloads: list[tuple[Workload, str, Queries, tuple[Reading, ...]]] = []
    for length in QUERY_LENGTHS:
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


def _items(
    real: Records, synthetic: Records, methods: Mapping[str, Records], kind: DataKind, metrics: _Metrics
) -> ItemFigures:
    lengths = metrics("record lengths", marginals.record_lengths, real, synthetic)
    single = marginals.one_way(real, synthetic)
    best, worst = marginals.best_and_worst(single, real.domain)
    co_occurrence = frequent_sets = None
    if kind == "images":
        metrics.skip("co-occurrence heat maps", "pixels are shown as images instead.")
        metrics.skip("frequent item sets", "the most frequent sets of pixels say nothing about images.")
    else:
        co_occurrence = metrics("co-occurrence heat maps", marginals.co_occurrence, real, synthetic)
        frequent_sets = metrics("frequent item sets", marginals.frequent_sets, real, synthetic)
    return ItemFigures(
        single=single,
        best=best,
        worst=worst,
        lost=marginals.lost_items(single, real.domain, len(synthetic)),
        pairs=metrics("pairs of items", marginals.two_way, real, synthetic),
        co_occurrence=co_occurrence,
        frequent_sets=frequent_sets,
        lengths=lengths,
        length_variation={} if lengths is None else _length_variation(real, methods),
    )


def _length_variation(real: Records, methods: Mapping[str, Records]) -> dict[str, float]:
    return {name: marginals.record_lengths(real, records).total_variation for name, records in methods.items()}


def _pictures(real: Records, synthetic: Records) -> PictureFigures:
    label_images = (marginals.mean_images(real), marginals.mean_images(synthetic))
    return PictureFigures(marginals.image_figures(real, synthetic, label_images), label_images)


def _raw_metrics(
    raw: RawColumns | None, kind: DataKind, metrics: _Metrics
) -> tuple[tuple[ColumnComparison, ...], Correlations | None]:
    if raw is None:
        if kind in ("table", "mixed"):
            reason = "records hold the domain's bins only; evaluate files or frames to compare the values in them."
            metrics.skip("raw values of columns", reason)
        return (), None
    for column in raw.left_out:
        metrics.skip(f"raw values of the column {column.name!r}", column.reason)
    return tuple(map(compare_column, raw.columns)), metrics("correlations of numbers", correlations, raw.columns)


def _relations(
    raw: RawColumns | None,
    inputs: Inputs,
    pairs: marginals.TablePairs | None,
    correlated: Correlations | None,
    metrics: _Metrics,
) -> Relations:
    if raw is None or not raw.columns:
        return Relations(pairs, correlated, ())
    traits = traits_of(raw.columns, inputs.real, inputs.synthetic)
    ranks = metrics("rank correlations", rank_relations, traits)
    comparisons = 0 if ranks is None else ranks.comparisons
    groups = metrics(
        "groups of rows", compare_groups, traits, VERDICT_RULES.shares.close, VERDICT_RULES.false_alarm, comparisons
    )
    return Relations(pairs, correlated, broken_orders(raw.columns), ranks, groups)


def _random_records(records: Records, kind: DataKind, seed: int) -> Records:
    count = min(_SAMPLED_RECORDS if kind != "images" else 4 * _SAMPLED_RECORDS, len(records))
    chosen = np.random.default_rng([seed, 12]).choice(len(records), count, replace=False)
    return records.take(np.sort(chosen))
