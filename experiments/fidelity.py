"""Fidelity on item sets and tables: the default generator beside independent noisy marginals, at the same epsilon.

Relative error of popular queries of 1 to 4 items (300 each, "all of them", counts below 0.1 % of N taken as that) and
total variation of record lengths, delta = 1/N. Noise is seeded, with seeds fixed in advance: what this writes is a
measurement of the method, not a private release.

    python experiments/fidelity.py [--smoke] [--data ../shared/data] [--only msweb,retail]
"""

import argparse
import csv
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from dpgm.data.domain import Domain
from dpgm.data.readers import read_records
from dpgm.data.records import Records
from dpgm.data.simulate import simulate_transit
from dpgm.evaluation.baselines.independent import IndependentMarginals
from dpgm.evaluation.counting_queries import count_queries, item_frequencies, popular_queries, query_error
from dpgm.evaluation.marginals import record_lengths
from dpgm.mechanisms.gateway import Gateway
from dpgm.mechanisms.randomness import SeededRandomness
from dpgm.privacy.calibration import calibrate
from dpgm.synthesis.measurement import fit_products, measure, measurement_spends

RESULTS = Path(__file__).parent / "results"
FIELDS = ("data", "method", "epsilon", "seed", "pop1", "pop2", "pop3", "pop4", "lengths", "seconds")


@dataclass(frozen=True)
class Config:
    """What is run."""

    data: tuple[str, ...] = ("msnbc", "msweb", "retail", "tw_ny", "transit", "nltcs", "msweb16", "retail16")
    epsilons: tuple[float, ...] = (0.3, 1.0, 3.0, 10.0)
    seeds: tuple[int, ...] = (0, 1, 2)
    queries: int = 300
    records: int | None = None


SMOKE = Config(data=("nltcs",), epsilons=(1.0,), seeds=(0,), queries=50, records=5_000)


def most_frequent(records: Records, items: int, drop_empty: bool) -> Records:
    """The records cut to their most frequent items (the list of items is taken as public)."""
    order = np.argsort(-item_frequencies(records), kind="stable")[:items]
    place = np.full(records.width, -1)
    place[order] = np.arange(items)
    rows = np.repeat(np.arange(len(records)), records.lengths)
    inside = place[records.indices] >= 0
    keys = np.sort(rows[inside] * items + place[records.indices[inside]])
    lengths = np.bincount(keys // items, minlength=len(records))
    lengths = lengths[lengths > 0] if drop_empty else lengths
    indptr = np.concatenate([[0], np.cumsum(lengths)])
    return Records(Domain.of_items(items), indptr, (keys % items).astype(np.int16))


def load(name: str, folder: Path) -> Records:
    """A public data set by name."""
    web = folder / "msweb/anonymous-msweb.data.gz"
    retail = folder / "retail/retail.csv.gz"
    places = [folder / f"repeat-consumption/tw_ny/{part}.csv.gz" for part in ("train", "validation", "test")]
    sets: dict[str, Callable[[], Records]] = {
        "msnbc": lambda: read_records(folder / "msnbc/msnbc990928.zip", assume_public_items=True),
        "msweb": lambda: read_records(web, assume_public_items=True),
        "msweb16": lambda: most_frequent(read_records(web, assume_public_items=True), 16, drop_empty=False),
        "retail": lambda: most_frequent(read_records(retail, assume_public_items=True), 1000, drop_empty=True),
        "retail16": lambda: most_frequent(read_records(retail, assume_public_items=True), 16, drop_empty=False),
        "tw_ny": lambda: most_frequent(
            read_records(places, assume_public_items=True, shape="long", header=False, person="0", item="1"),
            342,
            drop_empty=True,
        ),
        "transit": lambda: simulate_transit(1_200_000, seed=0),
        "nltcs": lambda: Records.from_dense(
            np.concatenate(
                [
                    np.loadtxt(folder / f"debd/nltcs/nltcs.{part}.data.gz", delimiter=",")
                    for part in ("train", "valid", "test")
                ]
            ),
            Domain.of_items(16),
        ),
    }
    return sets[name]()


def ours(records: Records, epsilon: float, seed: int) -> Records:
    """As many synthetic records, by the default generator for sets and tables."""
    count, domain = len(records), records.domain
    mechanisms = calibrate(epsilon, 1 / count, measurement_spends(domain, count, epsilon, 1 / count))
    noises = {mechanism.name: mechanism.noise for mechanism in mechanisms}
    gateway = Gateway(records, randomness=SeededRandomness(seed), allowance=mechanisms)
    generator = torch.Generator().manual_seed(seed)
    model = fit_products(measure(gateway, domain, count, noises), domain, count, generator=generator)
    return model.sample(count, generator=generator)


def independent(records: Records, epsilon: float, seed: int) -> Records:
    """As many synthetic records, every item on its own."""
    baseline = IndependentMarginals(epsilon, 1 / len(records), randomness=SeededRandomness(seed)).fit(records)
    return baseline.sample(len(records), seed=seed)


def run(config: Config, folder: Path) -> list[dict[str, object]]:
    """All rows of the table."""
    rows: list[dict[str, object]] = []
    for name in config.data:
        records = load(name, folder)
        records = records if config.records is None else records.rows(0, config.records)
        workloads = [popular_queries(records, length, config.queries) for length in (1, 2, 3, 4)]
        answers = [count_queries(records, queries) for queries in workloads]
        for epsilon in config.epsilons:
            for seed in config.seeds:
                for method in (ours, independent):
                    start = time.perf_counter()
                    synthetic = method(records, epsilon, seed)
                    seconds = time.perf_counter() - start
                    errors = [
                        query_error(records, synthetic, queries, real_counts=truth).mean
                        for queries, truth in zip(workloads, answers, strict=True)
                    ]
                    row = (name, method.__name__, epsilon, seed, *errors)
                    distance = record_lengths(records, synthetic).total_variation
                    rows.append(dict(zip(FIELDS, (*row, distance, seconds), strict=True)))
                    print(rows[-1])
    return rows


def plot(rows: list[dict[str, str]], path: Path) -> None:
    """Error of popular pairs against epsilon, one panel a data set."""
    from matplotlib import pyplot as plt

    names = list(dict.fromkeys(row["data"] for row in rows))
    figure, panels = plt.subplots(1, len(names), figsize=(2.6 * len(names), 2.6), squeeze=False)
    for panel, name in zip(panels[0], names, strict=True):
        for method in ("ours", "independent"):
            chosen = [row for row in rows if row["data"] == name and row["method"] == method]
            epsilons = sorted({float(row["epsilon"]) for row in chosen})
            means = [np.mean([float(r["pop2"]) for r in chosen if float(r["epsilon"]) == e]) for e in epsilons]
            panel.loglog(epsilons, means, "o-", label=method)
        panel.set(title=name, xlabel="epsilon")
    panels[0][0].set_ylabel("error of popular pairs")
    panels[0][0].legend()
    figure.tight_layout()
    figure.savefig(path, dpi=120)


def main() -> None:
    """Run, write the table, draw the figure."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--smoke", action="store_true")
    parser.add_argument("--data", type=Path, default=Path(__file__).parents[2] / "shared/data")
    parser.add_argument("--only", default="")
    arguments = parser.parse_args()
    config = SMOKE if arguments.smoke else Config()
    if arguments.only:
        config = Config(data=tuple(arguments.only.split(",")))
    rows = run(config, arguments.data)
    if arguments.smoke:
        return
    RESULTS.mkdir(exist_ok=True)
    with open(RESULTS / "fidelity.csv", "w", newline="") as file:
        writer = csv.DictWriter(file, FIELDS)
        writer.writeheader()
        writer.writerows(rows)
    plot([{key: str(value) for key, value in row.items()} for row in rows], RESULTS / "fidelity.png")


if __name__ == "__main__":
    main()
