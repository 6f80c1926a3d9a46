"""Fidelity on item sets and tables: the default generator beside baselines and peers, at the same epsilon.

One row a run in `results/fidelity.csv`, with an empty cell where a metric does not apply:

    pop1-pop4       mean relative error of 300 popular queries of 1 to 4 items ("all of them"; counts below 0.1 % of N
                    are taken as that)
    any2-any4       the same queries read as "any of them" (for one item the readings are the same)
    paper20-100     the paper's random queries, lengths up to 20, 40, ... 100 % of the longest record; nearly all
                    answers are 0
    together        of the records with one of the 20 most frequent items, the share that hold another: mean difference
    lengths         total variation of record lengths
    tv1, tv2        mean total variation of columns and of pairs of columns (tables)
    logistic, forest, bayes   accuracy on real test rows of classifiers trained on synthetic ones (tables)

delta = 1 / (`delta_records` x N). Noise is seeded, with seeds fixed in advance: a measurement of the methods, not a
private release. A row of the same data, method, epsilon, delta and seed is replaced.

    python experiments/fidelity.py [--smoke] [--only msweb,retail] [--epsilons 1,10] [--seeds 0,1,2]
                                   [--methods ours,independent,mwem,mst] [--delta-records 1] [--data ../shared/data]
    python experiments/fidelity_report.py        # tables of docs/fidelity.md and the figure, from the CSV
"""

import argparse
import csv
import fcntl
import os
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path

import numpy as np
from data_folder import DATA
from fidelity_data import SETS, TABLES, Data, load
from fidelity_methods import METHODS
from numpy.typing import NDArray

from dpgm.data.records import Records
from dpgm.errors import PrivacyWarning, UsageError
from dpgm.evaluation.counting_queries import (
    Queries,
    Reading,
    count_queries,
    paper_workload,
    popular_queries,
    query_error,
)
from dpgm.evaluation.marginals import co_occurrence, record_lengths, table_pairs

RESULTS = Path(__file__).parent / "results"
RUN = ("data", "method", "epsilon", "delta_records", "seed")
POPULAR = ("pop1", "pop2", "pop3", "pop4")
ANY = ("any2", "any3", "any4")
PAPER = ("paper20", "paper40", "paper60", "paper80", "paper100")
TABLE = ("tv1", "tv2", "logistic", "forest", "bayes")
FIELDS = (*RUN, *POPULAR, *ANY, *PAPER, "together", "lengths", *TABLE, "seconds")
Row = dict[str, str]


@dataclass(frozen=True)
class Config:
    """What is run."""

    data: tuple[str, ...] = (*SETS, *TABLES)
    epsilons: tuple[float, ...] = (0.3, 1.0, 3.0, 10.0)
    seeds: tuple[int, ...] = (0, 1, 2)
    methods: tuple[str, ...] = ("ours", "independent", "mwem", "mst")
    delta_records: int = 10
    queries: int = 300
    records: int | None = None


SMOKE = Config(data=("nltcs",), epsilons=(1.0,), seeds=(0,), queries=50, records=5_000)


@dataclass(frozen=True)
class Workload:
    """Queries with their true answers."""

    queries: Queries
    reading: Reading
    truth: NDArray[np.int64]


def set_scores(real: Records, queries: int) -> Callable[[Records], dict[str, float]]:
    """What is measured on item sets, with the true answers counted once."""
    popular = [popular_queries(real, length, queries) for length in (1, 2, 3, 4)]
    asked: list[tuple[str, Queries, Reading]] = []
    asked += [(name, made, "all") for name, made in zip(POPULAR, popular, strict=True)]
    asked += [(name, made, "any") for name, made in zip(ANY, popular[1:], strict=True)]
    asked += [(name, made, "all") for name, made in zip(PAPER, paper_workload(real, seed=0), strict=True)]
    workloads = {name: Workload(made, kind, count_queries(real, made, kind)) for name, made, kind in asked}

    def scores(synthetic: Records) -> dict[str, float]:
        found = {
            name: query_error(real, synthetic, w.queries, reading=w.reading, real_counts=w.truth).mean
            for name, w in workloads.items()
        }
        found["together"] = co_occurrence(real, synthetic).mean_difference
        found["lengths"] = record_lengths(real, synthetic).total_variation
        return found

    return scores


def table_scores(real: Records, test: Records) -> Callable[[Records], dict[str, float]]:
    """What is measured on tables."""

    def scores(synthetic: Records) -> dict[str, float]:
        from dpgm.evaluation.downstream import downstream  # needs scikit-learn

        pairs = table_pairs(real, synthetic)
        accuracies = [entry.synthetic for entry in downstream(real, synthetic, test)]
        return dict(zip(TABLE, (pairs.mean_one_way, pairs.mean_total_variation, *accuracies), strict=True))

    return scores


def scorer(data: Data, queries: int) -> Callable[[Records], dict[str, float]]:
    """The measurements that suit the data."""
    if data.test is not None:
        return table_scores(data.records, data.test)
    return set_scores(data.records, queries)


def run(config: Config, folder: Path) -> Iterator[Row]:
    """All rows of the table, one by one; a method that gives no result is told on stderr."""
    for name in config.data:
        data = load(name, folder)
        if config.records is not None:
            data = replace(data, records=data.records.rows(0, config.records))
        scores = scorer(data, config.queries)
        delta = 1 / (config.delta_records * len(data.records))
        for method, epsilon, seed in product(config.methods, config.epsilons, config.seeds):
            start = time.perf_counter()
            try:
                synthetic = METHODS[method](data.records, epsilon, delta, seed)
            except UsageError as error:
                print(f"{name}: {method} at epsilon {epsilon:g}, seed {seed}: {error}", file=sys.stderr, flush=True)
                continue
            seconds = time.perf_counter() - start
            yield row_of((name, method, epsilon, config.delta_records, seed), scores(synthetic), seconds)


def row_of(run: tuple[str, str, float, int, int], scores: dict[str, float], seconds: float) -> Row:
    """A row of the CSV; what was not measured stays empty."""
    found = {name: f"{value:.4f}" for name, value in scores.items()} | {"seconds": f"{seconds:.1f}"}
    told = dict(zip(RUN, map(str, run), strict=True)) | found
    return {field: told.get(field, "") for field in FIELDS}


def read(path: Path) -> list[Row]:
    """The rows of a CSV; none if there is no file."""
    return list(csv.DictReader(path.read_text().splitlines())) if path.exists() else []


def merge(path: Path, new: list[Row]) -> None:
    """Write rows into the table, each in place of an older one of the same run."""
    folder = os.open(path.parent, os.O_RDONLY)
    fcntl.flock(folder, fcntl.LOCK_EX)  # several processes may measure at once
    try:
        rows = {tuple(row[key] for key in RUN): row for row in [*read(path), *new]}
        order = sorted(rows, key=lambda run: (run[0], run[1], float(run[2]), *map(int, run[3:])))
        with open(path, "w", newline="") as file:
            writer = csv.DictWriter(file, FIELDS, lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows[run] for run in order)
    finally:
        os.close(folder)


def main() -> None:
    """Run and write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--smoke", action="store_true", help="one small run, nothing written")
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--out", type=Path, default=RESULTS / "fidelity.csv")
    parser.add_argument("--only", default=",".join(Config.data))
    parser.add_argument("--epsilons", default=",".join(map(str, Config.epsilons)))
    parser.add_argument("--seeds", default=",".join(map(str, Config.seeds)))
    parser.add_argument("--methods", default=",".join(Config.methods))
    parser.add_argument("--delta-records", type=int, default=Config.delta_records, help="delta = 1 / (this x N)")
    arguments = parser.parse_args()
    warnings.simplefilter(
        "ignore", PrivacyWarning
    )  # delta = 1/N is weak, and seeds are not private: both meant here
    config = replace(
        Config(),
        data=tuple(arguments.only.split(",")),
        epsilons=tuple(map(float, arguments.epsilons.split(","))),
        seeds=tuple(map(int, arguments.seeds.split(","))),
        methods=tuple(arguments.methods.split(",")),
        delta_records=arguments.delta_records,
    )
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    for row in run(SMOKE if arguments.smoke else config, arguments.data):
        print(*(f"{key}={value}" for key, value in row.items() if value), flush=True)
        if not arguments.smoke:
            merge(arguments.out, [row])


if __name__ == "__main__":
    main()
