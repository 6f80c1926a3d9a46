"""Fidelity on item sets and tables: the default generator beside independent noisy marginals, at the same epsilon.

Relative error of popular queries of 1 to 4 items (300 each, "all of them", counts below 0.1 % of N taken as that) and
total variation of record lengths, delta = 1/N. Noise is seeded, with seeds fixed in advance: what this writes is a
measurement of the method, not a private release. Rows are merged into `results/fidelity.csv` as they come; a row of
the same data, method, epsilon and seed is replaced.

    python experiments/fidelity.py [--smoke] [--only msweb,retail] [--epsilons 1,10] [--seeds 0,1,2]
                                   [--methods ours,independent,vae,paper] [--data ../shared/data]
"""

import argparse
import csv
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Literal

import numpy as np
import torch

from dpgm import Synthesizer, read_records
from dpgm.data.domain import Domain
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
    methods: tuple[str, ...] = ("ours", "independent")
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
    binary = {
        name: [folder / f"debd/{name}/{name}.{part}.data.gz" for part in ("train", "valid", "test")]
        for name in ("nltcs", "plants", "accidents")
    }
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
        "transit 300k": lambda: simulate_transit(300_000, seed=0),
    }
    if name in binary:
        table: Records = read_records(binary[name], assume_public_items=True, shape="wide", header=False)
        return table
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


def vae(records: Records, epsilon: float, seed: int) -> Records:
    """As many synthetic records, by private SGD: the mixture of networks with its default settings."""
    return _networks(records, epsilon, seed, "default")


def paper(records: Records, epsilon: float, seed: int) -> Records:
    """As many synthetic records, by private SGD with the settings of the paper."""
    return _networks(records, epsilon, seed, "paper")


def _networks(records: Records, epsilon: float, seed: int, preset: Literal["default", "paper"]) -> Records:
    model = Synthesizer(
        epsilon, 1 / len(records), model="vae", preset=preset, randomness=SeededRandomness(seed)
    ).fit(records)
    drawn = model.sample(len(records), seed=seed)
    assert isinstance(drawn, Records)
    return drawn


METHODS = {"ours": ours, "independent": independent, "vae": vae, "paper": paper}


def run(config: Config, folder: Path) -> Iterator[dict[str, str]]:
    """All rows of the table, one by one."""
    for name in config.data:
        records = load(name, folder)
        records = records if config.records is None else records.rows(0, config.records)
        workloads = [popular_queries(records, length, config.queries) for length in (1, 2, 3, 4)]
        answers = [count_queries(records, queries) for queries in workloads]
        for method, epsilon, seed in product(config.methods, config.epsilons, config.seeds):
            start = time.perf_counter()
            synthetic = METHODS[method](records, epsilon, seed)
            seconds = time.perf_counter() - start
            errors = [
                query_error(records, synthetic, queries, real_counts=truth).mean
                for queries, truth in zip(workloads, answers, strict=True)
            ]
            errors.append(record_lengths(records, synthetic).total_variation)
            row = (name, method, str(epsilon), str(seed), *(f"{error:.4f}" for error in errors), f"{seconds:.1f}")
            yield dict(zip(FIELDS, row, strict=True))


def merged(path: Path, row: dict[str, str]) -> list[dict[str, str]]:
    """Write the row into the table, in place of an older one of the same run; returns the table."""
    rows = list(csv.DictReader(path.read_text().splitlines())) if path.exists() else []
    rows = [old for old in rows if any(old[key] != row[key] for key in FIELDS[:4])]
    rows = sorted([*rows, row], key=lambda r: (r["data"], r["method"], float(r["epsilon"]), int(r["seed"])))
    with open(path, "w", newline="") as file:
        writer = csv.DictWriter(file, FIELDS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    return rows


def plot(rows: list[dict[str, str]], path: Path) -> None:
    """Error of popular pairs against epsilon, one panel a data set."""
    from matplotlib import pyplot as plt

    names = list(dict.fromkeys(row["data"] for row in rows))
    columns = min(4, len(names))
    shape = (-(-len(names) // columns), columns)
    figure, panels = plt.subplots(*shape, figsize=(2.8 * shape[1], 2.5 * shape[0]), squeeze=False)
    for panel in panels.flat[len(names) :]:
        panel.axis("off")
    for panel, name in zip(panels.flat, names, strict=False):
        for method in dict.fromkeys(row["method"] for row in rows):
            chosen = [row for row in rows if row["data"] == name and row["method"] == method]
            epsilons = sorted({float(row["epsilon"]) for row in chosen})
            means = [np.mean([float(r["pop2"]) for r in chosen if float(r["epsilon"]) == e]) for e in epsilons]
            panel.loglog(epsilons, means, "o-", label=method)
        panel.set(title=name, xlabel="epsilon")
    panels[0][0].set_ylabel("error of popular pairs")
    panels[0][0].legend(fontsize=7)
    figure.tight_layout()
    figure.savefig(path, dpi=120)
    plt.close(figure)


def main() -> None:
    """Run, write the table, draw the figure."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--smoke", action="store_true", help="one small run, nothing written")
    parser.add_argument("--data", type=Path, default=Path(__file__).parents[2] / "shared/data")
    parser.add_argument("--only", default=",".join(Config.data))
    parser.add_argument("--epsilons", default=",".join(map(str, Config.epsilons)))
    parser.add_argument("--seeds", default=",".join(map(str, Config.seeds)))
    parser.add_argument("--methods", default=",".join(Config.methods))
    arguments = parser.parse_args()
    config = replace(
        Config(),
        data=tuple(arguments.only.split(",")),
        epsilons=tuple(map(float, arguments.epsilons.split(","))),
        seeds=tuple(map(int, arguments.seeds.split(","))),
        methods=tuple(arguments.methods.split(",")),
    )
    RESULTS.mkdir(exist_ok=True)
    for row in run(SMOKE if arguments.smoke else config, arguments.data):
        print(*row.values(), flush=True)
        if not arguments.smoke:
            plot(merged(RESULTS / "fidelity.csv", row), RESULTS / "fidelity.png")


if __name__ == "__main__":
    main()
