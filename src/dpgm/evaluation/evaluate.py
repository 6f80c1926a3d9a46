"""Compare real and synthetic records by every metric that applies; nothing is dropped silently."""

import os
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from dpgm import validation
from dpgm.baselines.estimators import AnswerZero, IndependentMarginals
from dpgm.data.conversion import as_records
from dpgm.data.domain import Domain, Image
from dpgm.data.domain_file import as_domain
from dpgm.data.read.options import ReadOptions
from dpgm.data.records import Records
from dpgm.errors import UsageError
from dpgm.evaluation.column_metrics import compare_column, correlations
from dpgm.evaluation.comparable import check_comparable, compared_records, full_names, position_names
from dpgm.evaluation.copies import copies_of_records, copies_of_rows
from dpgm.evaluation.counting_queries import SANITY, Queries, Reading, paper_workload, popular_queries, query_error
from dpgm.evaluation.downstream import downstream
from dpgm.evaluation.evaluation import (
    SYNTHETIC,
    Evaluation,
    ImageFigures,
    ItemComparison,
    Kind,
    LostItems,
    NotComputed,
    QueryRow,
)
from dpgm.evaluation.files import file_inputs
from dpgm.evaluation.inputs import BINS_ONLY, AnyDomain, Inputs, inputs_of, long_inputs
from dpgm.evaluation.marginals import (
    OneWay,
    co_occurrence,
    field_codes,
    frequent_sets,
    one_way,
    record_lengths,
    table_pairs,
    two_way,
)
from dpgm.evaluation.raw_columns import sample_rows

ANSWER_ZERO, INDEPENDENT = "answer 0", "independent"
LENGTHS = (1, 2, 3, 4)
_MOST_ITEMS = 10
_SAMPLED_RECORDS = 12
_MOST_HALVED = 50_000  # records of each half of the real data when chance is measured
_MOST_DRAWN = 500_000  # enough for counts of 0.1 % of the records; drawing millions would take longer than the rest

T = TypeVar("T")


def evaluate(
    real: object,
    synthetic: object,
    *,
    domain: AnyDomain | None = None,
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
    others = dict(baselines) if baselines is not None else _default_baselines(real, epsilon, delta, seed)
    if kind != "table":
        others[ANSWER_ZERO] = AnswerZero().fit(real).sample(len(real))
    methods = {SYNTHETIC: synthetic} | others
    metrics = _Metrics()

    rows = _query_rows(real, methods, kind, queries, seed, metrics)
    lengths = metrics("record lengths", lambda: record_lengths(real, synthetic))
    singles = metrics("single items", lambda: one_way(real, synthetic))
    best, worst = _items(singles, real) if singles is not None else ((), ())
    table = metrics("pairs of columns", lambda: table_pairs(real, synthetic))
    has_columns = kind in ("table", "mixed")
    if has_columns and raw is None:
        metrics.skip("raw values of columns", BINS_ONLY)
    columns = () if raw is None else tuple(compare_column(column) for column in raw.columns)
    for name, reason in () if raw is None else raw.left_out:
        metrics.skip(f"raw values of the column {name!r}", reason)
    correlated = None
    if raw is not None:
        correlated = metrics("correlations of numbers", lambda: correlations(raw.columns))
    accuracies = metrics("downstream accuracy", lambda: downstream(real, synthetic, test, seed))
    together = frequent = None
    if kind == "images":
        metrics.skip("co-occurrence heat maps", "pixels are shown as images instead.")
        metrics.skip("frequent item sets", "the most frequent sets of pixels say nothing about images.")
    else:
        together = metrics("co-occurrence heat maps", lambda: co_occurrence(real, synthetic))
        frequent = metrics("frequent item sets", lambda: frequent_sets(real, synthetic))
    pictures = _label_images(real, synthetic)
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
        length_variation=_length_variation(real, methods) if lengths is not None else {},
        one_way=singles,
        best_items=best,
        worst_items=worst,
        two_way=metrics("pairs of items", lambda: two_way(real, synthetic)),
        co_occurrence=together,
        frequent_sets=frequent,
        table=table,
        downstream=accuracies if accuracies is not None else (),
        held_out=test is not None,
        not_computed=tuple(metrics.missing),
        columns=columns,
        correlations=correlated,
        lost_items=None if singles is None else _lost_items(singles, real.domain, len(synthetic)),
        copies=copies_of_records(real, synthetic)
        if raw is None or kind != "table"
        else copies_of_rows(raw.columns),
        outside=inputs.outside,
        chance=chance_level(real, len(synthetic), kind, seed),
        images=None if pictures is None else _image_figures(real, synthetic, pictures),
        row_samples=None if raw is None or kind != "table" else sample_rows(raw.columns, _SAMPLED_RECORDS, seed),
        real_sample=_pick(real, seed),
        synthetic_sample=_pick(synthetic, seed),
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
    figures: dict[str, Callable[[], float]] = {
        "lengths": lambda: record_lengths(first, second).total_variation,
        "pairs": lambda: table_pairs(first, second).mean_total_variation,
    }
    for length in (1, 2):
        figures[f"pop{length}"] = lambda n=length: (  # type: ignore[misc]
            query_error(first, second, popular_queries(real, n, seed=seed)).mean
        )
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
    softmax = [field.kind not in ("items", "image") for field in fields]
    return "table" if softmax and all(softmax) else "sets" if not any(softmax) else "mixed"


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


def _default_baselines(real: Records, epsilon: float, delta: float, seed: int) -> dict[str, Records]:
    model = IndependentMarginals(epsilon, delta).fit(real)
    return {INDEPENDENT: model.sample(min(len(real), _MOST_DRAWN), seed=seed)}


def _query_rows(
    real: Records,
    methods: Mapping[str, Records],
    kind: Kind,
    queries: Queries | None,
    seed: int,
    metrics: _Metrics,
) -> tuple[QueryRow, ...]:
    rows = []

    def add(workload: Any, length: str, chosen: Queries, reading: Reading) -> None:
        errors = {name: query_error(real, records, chosen, reading=reading) for name, records in methods.items()}
        means = {name: error.mean for name, error in errors.items()}
        medians = {name: error.median for name, error in errors.items()}
        rows.append(QueryRow(workload, length, reading, len(chosen), means, medians))

    for length in LENGTHS:
        popular = metrics(
            f"popular queries of {length} items",
            lambda n=length: popular_queries(real, n, seed=seed),  # type: ignore[misc]
        )
        if popular is not None:
            add("popular", str(length), popular, "all")
            if length > 1:
                add("popular", str(length), popular, "any")
    if kind == "sets":
        for part, chosen in enumerate(paper_workload(real, seed), 1):
            add("paper", f"{20 * part} %", chosen, "all")
    else:
        metrics.skip("the paper's random queries", "they are defined for sets of items only.")
    if queries is not None:
        add("yours", "all", queries, "all")
        add("yours", "all", queries, "any")
    return tuple(rows)


def _items(singles: OneWay, real: Records) -> tuple[tuple[ItemComparison, ...], tuple[ItemComparison, ...]]:
    names = position_names(real.domain)
    errors = np.abs(singles.synthetic - singles.real) / np.maximum(singles.real, SANITY)
    common = np.flatnonzero(singles.real >= SANITY)
    order = common[np.argsort(errors[common], kind="stable")]
    half = min(_MOST_ITEMS, len(order) // 2 if len(order) > 1 else 1)
    # among equally well preserved items the most frequent ones are the interesting ones
    best = sorted(order[: max(half, len(order) // 4)], key=lambda at: -singles.real[at])[:half]
    worst = order[::-1][:half]

    def compared(positions: Any) -> tuple[ItemComparison, ...]:
        return tuple(
            ItemComparison(names[at], float(singles.real[at]), float(singles.synthetic[at]), float(errors[at]))
            for at in positions
        )

    return compared(best), compared(worst)


def _lost_items(singles: OneWay, domain: Domain, synthetic_records: int) -> LostItems:
    """What hardly ever occurs, among positions frequent enough to be missed."""
    common = (singles.real >= SANITY) & (singles.real * synthetic_records >= 10)
    lost = np.flatnonzero(common & (singles.synthetic < singles.real / 10))
    order = lost[np.argsort(-singles.real[lost], kind="stable")][:_MOST_ITEMS]
    names = full_names(domain)
    largest = float(singles.real[lost].max(initial=0.0))
    return LostItems(len(lost), int(common.sum()), largest, tuple(names[at] for at in order))


def _image_figures(real: Records, synthetic: Records, means: tuple[NDArray[Any], NDArray[Any]]) -> ImageFigures:
    """Variety within a label is the chance that two of its images differ in a pixel: 2 p (1 - p), summed."""
    ours, theirs = (float((2 * mean * (1 - mean)).sum()) for mean in means)
    domain, gap = real.domain, None
    if domain.label is not None and domain.field(domain.label).kind == "categorical":
        label = [field.name for field in domain.fields].index(domain.label)
        width = domain.fields[label].width + 1
        shares = [np.bincount(field_codes(r, label), minlength=width) / len(r) for r in (real, synthetic)]
        gap = float(np.abs(shares[0] - shares[1]).max())
    return ImageFigures(theirs / ours if ours > 0 else 1.0, float(np.abs(means[0] - means[1]).mean()), gap)


def _length_variation(real: Records, methods: Mapping[str, Records]) -> dict[str, float]:
    return {name: record_lengths(real, records).total_variation for name, records in methods.items()}


def _pick(records: Records, seed: int) -> Records:
    generator = np.random.default_rng([seed, 12])
    count = _SAMPLED_RECORDS if kind_of(records) != "images" else 4 * _SAMPLED_RECORDS
    chosen = generator.choice(len(records), min(count, len(records)), replace=False)
    return records.take(np.sort(chosen))


def _label_images(real: Records, synthetic: Records) -> tuple[NDArray[Any], NDArray[Any]] | None:
    domain = real.domain
    pictures = [at for at, field in enumerate(domain.fields) if isinstance(field, Image)]
    if not pictures:
        return None
    start, picture = domain.offsets[pictures[0]], domain.fields[pictures[0]]
    assert isinstance(picture, Image)
    means = []
    for records in (real, synthetic):
        groups = np.zeros(len(records), dtype=np.int64)
        count = 1
        if domain.label is not None and domain.field(domain.label).kind == "categorical":
            label = [field.name for field in domain.fields].index(domain.label)
            groups, count = field_codes(records, label), domain.fields[label].width
        inside = (records.indices >= start) & (records.indices < start + picture.width)
        rows = np.repeat(groups, records.lengths)[inside]
        cells = rows * picture.pixels + (records.indices[inside].astype(np.int64) - start) % picture.pixels
        sums = np.bincount(cells, minlength=(count + 1) * picture.pixels)[: count * picture.pixels]
        sizes = np.maximum(np.bincount(groups, minlength=count + 1)[:count], 1) * (picture.levels - 1)
        means.append(
            (sums.reshape(count, picture.pixels) / sizes[:, None]).reshape(-1, picture.height, picture.columns)
        )
    return means[0], means[1]
