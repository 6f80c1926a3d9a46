"""The sections of an evaluation, each computed from records or raw columns; what cannot be computed is listed.

`evaluate.py` puts them together.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import ParamSpec, TypeVar

import numpy as np

from dpgm.baselines.estimators import IndependentMarginals
from dpgm.data.records import Records
from dpgm.errors import UsageError
from dpgm.evaluation import marginals
from dpgm.evaluation.column_metrics import ColumnComparison, MomentRules, compare_columns
from dpgm.evaluation.compare_rows import RowRelations, compare_rows
from dpgm.evaluation.counting_queries import (
    Queries,
    Reading,
    count_queries,
    paper_workload,
    popular_queries,
    query_error,
)
from dpgm.evaluation.findings import VerdictRules
from dpgm.evaluation.inputs import Inputs, columns_of_records
from dpgm.evaluation.k_marginals import k_marginal_score
from dpgm.evaluation.raw_columns import RawColumn, RawColumns
from dpgm.evaluation.results import (
    DataKind,
    ItemFigures,
    NotComputed,
    PictureFigures,
    QueryRow,
    Relations,
    Workload,
)
from dpgm.evaluation.share_gaps import ShareGap
from dpgm.evaluation.trait_makers import traits_of

INDEPENDENT = "independent"  # the default baseline
QUERY_LENGTHS = (1, 2, 3, 4)  # of popular queries
MARGINALS = (2, 3)  # columns of the k-marginal scores
_SAMPLED_RECORDS = 12
_MOST_DRAWN = 500_000  # records of the baseline: enough for counts of 0.1 % of them; millions would be slow to draw

P = ParamSpec("P")
T = TypeVar("T")


class Metrics:
    """Computes metrics, and keeps the reasons why some cannot be computed."""

    def __init__(self) -> None:
        self.missing: list[NotComputed] = []

    def __call__(self, metric: str, compute: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T | None:
        """The metric, or None if it cannot be computed."""
        try:
            return compute(*args, **kwargs)
        except UsageError as error:
            self.skip(metric, str(error))
        except MemoryError:
            self.skip(metric, "this machine has too little memory for it.")
        return None

    def skip(self, metric: str, reason: str) -> None:
        """Say why a metric is not computed."""
        self.missing.append(NotComputed(metric, reason))


def query_rows(
    real: Records,
    methods: Mapping[str, Records],
    kind: DataKind,
    queries: Queries | None,
    seed: int,
    metrics: Metrics,
) -> tuple[QueryRow, ...]:
    """Errors of popular, random and the user's own counting queries, by method."""
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


def default_baseline(real: Records, epsilon: float, delta: float, seed: int) -> Mapping[str, Records]:
    """Independent noisy marginals."""
    model = IndependentMarginals(epsilon, delta).fit(real)
    return {INDEPENDENT: model.sample(min(len(real), _MOST_DRAWN), seed=seed)}


def items(
    real: Records, synthetic: Records, methods: Mapping[str, Records], kind: DataKind, metrics: Metrics
) -> ItemFigures:
    """Single items, pairs and sets of them, and lengths of records."""
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


def pictures(real: Records, synthetic: Records) -> PictureFigures:
    """Figures and mean images of every label."""
    label_images = (marginals.mean_images(real), marginals.mean_images(synthetic))
    return PictureFigures(marginals.image_figures(real, synthetic, label_images), label_images)


def compared_columns(
    raw: RawColumns | None, rows: RowRelations | None, kind: DataKind, rules: VerdictRules, metrics: Metrics
) -> tuple[ColumnComparison, ...]:
    """The raw columns, each with what is off in it."""
    if raw is None:
        if kind in ("table", "mixed"):
            reason = "records hold the domain's bins only; evaluate files or frames to compare the values in them."
            metrics.skip("raw values of columns", reason)
        return ()
    for column in raw.left_out:
        metrics.skip(f"raw values of the column {column.name!r}", column.reason)
    gaps: dict[str, list[ShareGap]] = {}
    for gap in () if rows is None else rows.alone.kept:
        if len(gap.columns) == 1 and gap.what.aspect not in ("item", "length"):
            gaps.setdefault(gap.columns[0], []).append(gap)
    moments = MomentRules(rules.mean_shift, float(np.log(rules.deviation_ratio)), rules.false_alarm)
    return compare_columns(raw.columns, gaps, moments)


def relations_of(
    inputs: Inputs,
    real: Records,
    synthetic: Records,
    kind: DataKind,
    rules: VerdictRules,
    seed: int,
    metrics: Metrics,
) -> Relations:
    """How columns and items depend on each other.

    Args:
        inputs: the data as they were read.
        real: the real records in the bins of the comparison.
        synthetic: the synthetic records in these bins.
        kind: the kind of data.
        rules: limits of what is worth mentioning.
        seed: of the columns that are chosen for the k-marginal score.
        metrics: where reasons are kept.
    """
    pairs = metrics("pairs of columns", marginals.table_pairs, real, synthetic)
    if kind == "images":
        return Relations(pairs)
    columns = _columns(inputs, kind)
    rows = compare_rows(traits_of(columns, inputs.real, inputs.synthetic), columns, rules)
    if rows.left_out:
        metrics.skip(
            "some pairs of columns", f"there are too many; {rows.left_out} are compared by themselves only."
        )
    scores = {
        count: score
        for count in MARGINALS
        if kind == "table"
        and (score := metrics(f"{count}-marginal score", k_marginal_score, real, synthetic, count, seed=seed))
        is not None
    }
    return Relations(pairs, scores, rows)


def _columns(inputs: Inputs, kind: DataKind) -> Sequence[RawColumn]:
    if inputs.raw is not None:
        return inputs.raw.columns
    return () if kind == "sets" else columns_of_records(inputs.real, inputs.synthetic)


def random_records(records: Records, kind: DataKind, seed: int) -> Records:
    """A few records to show."""
    count = min(_SAMPLED_RECORDS if kind != "images" else 4 * _SAMPLED_RECORDS, len(records))
    chosen = np.random.default_rng([seed, 12]).choice(len(records), count, replace=False)
    return records.take(np.sort(chosen))
