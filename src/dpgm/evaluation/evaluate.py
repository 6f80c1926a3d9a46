"""Compare real and synthetic data by every metric that applies; metrics that cannot be computed are listed.

`evaluate` is the public entry; it returns the `Evaluation` of `results.py`.
"""

import os
from collections.abc import Mapping

from dpgm import validation
from dpgm.baselines.estimators import AnswerZero
from dpgm.data.domain_file import DomainLike, as_domain
from dpgm.data.read.frames import as_records
from dpgm.data.read.options import ReadOptions
from dpgm.data.records import Records
from dpgm.errors import UsageError
from dpgm.evaluation import sections
from dpgm.evaluation.chance import chance_figures
from dpgm.evaluation.copies import copies_of_records, copies_of_rows
from dpgm.evaluation.counting_queries import Queries
from dpgm.evaluation.downstream import downstream
from dpgm.evaluation.event_figures import event_figures
from dpgm.evaluation.file_inputs import file_inputs
from dpgm.evaluation.findings import VERDICT_RULES
from dpgm.evaluation.inputs import (
    Inputs,
    check_comparable,
    inputs_of,
    long_inputs,
    without_persons,
)
from dpgm.evaluation.raw_columns import compared_records, sample_rows
from dpgm.evaluation.results import ByChance, Counting, DataFacts, DataKind, Evaluation, Learning, Samples
from dpgm.evaluation.sections import INDEPENDENT as INDEPENDENT
from dpgm.evaluation.sections import QUERY_LENGTHS, Metrics

SYNTHETIC = "synthetic"  # name of the data under evaluation among the methods; the others are baselines
ANSWER_ZERO = "answer 0"
_SAMPLED_ROWS = 12


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
        baselines = sections.default_baseline(real, epsilon, delta, seed)
    if kind != "table":
        baselines = {**baselines, ANSWER_ZERO: AnswerZero().fit(real).sample(len(real))}
    methods = {SYNTHETIC: synthetic, **baselines}

    metrics = Metrics()
    queried = sections.query_rows(real, methods, kind, queries, seed, metrics)
    items = sections.items(real, synthetic, methods, kind, metrics)
    relations = sections.relations_of(inputs, real, synthetic, kind, VERDICT_RULES, seed, metrics)
    columns = sections.compared_columns(raw, relations.rows, kind, VERDICT_RULES, metrics)
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
        relations=relations,
        items=items,
        counting=Counting(queried, tuple(baselines), float(epsilon), float(delta)),
        learning=Learning(accuracies or (), test is not None),
        copies=copies_of_records(real, synthetic) if table_columns is None else copies_of_rows(table_columns),
        images=sections.pictures(real, synthetic) if kind == "images" else None,
        events=None
        if real.events is None or synthetic.events is None
        else event_figures(real, synthetic, SYNTHETIC, seed),
        chance=ByChance(
            {name: figure.expected for name, figure in chance.items()},
            {name: figure.most for name, figure in chance.items()},
        ),
        samples=Samples(
            sections.random_records(real, kind, seed),
            sections.random_records(synthetic, kind, seed),
            None if table_columns is None else sample_rows(table_columns, _SAMPLED_ROWS, seed),
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
