"""What it costs not to list the items: the same fit with a public list and with private discovery.

    python experiments/discovery.py --data msweb retail --seeds 0 1 --out experiments/results/discovery.csv

For every set: the share of the items held by 1 % of the records that were found, how many were found in all, and the
mean relative error of 300 popular queries of 1 to 4 items, listed and discovered (epsilon 1, delta 1 / (10 N)).
Seeded, so NOT PRIVATE; `--smoke` takes 3,000 records and one seed.
"""

import argparse
import csv
from pathlib import Path

import fidelity_data
import numpy as np

import dpgm
from dpgm.data.domain import Domain, ItemSet
from dpgm.data.open_records import OpenRecords
from dpgm.data.records import Records
from dpgm.evaluation.comparable import with_domain
from dpgm.evaluation.counting_queries import item_frequencies, popular_queries, query_error
from dpgm.mechanisms.randomness import SeededRandomness

LENGTHS = (1, 2, 3, 4)
COLUMNS = ("data", "seed", "method", "found", "found_of_popular", "pop1", "pop2", "pop3", "pop4")


def texts(records: Records) -> Records:
    """The same records with texts for labels, as discovery publishes them."""
    items = tuple(str(item) for item in records.domain.fields[0].items)
    return Records(Domain((ItemSet("items", items),)), records.indptr, records.indices)


def score(real: Records, fitted: dpgm.Synthesizer, seed: int) -> list[float]:
    drawn = texts(fitted.sample(len(real), seed=seed))
    same = with_domain(drawn, real.domain)
    return [round(query_error(real, same, popular_queries(real, n, 300)).mean, 4) for n in LENGTHS]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", nargs="+", default=["msweb", "retail"])
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1])
    parser.add_argument("--folder", type=Path, default=Path("/work/shared/data"), help="the shared data sets")
    parser.add_argument("--smoke", action="store_true")
    parser.add_argument("--out", type=Path)
    chosen = parser.parse_args()
    rows = []
    for name in chosen.data:
        real = texts(fidelity_data.load(name, chosen.folder).records)
        if chosen.smoke:
            real = real.rows(0, 3000)
        popular = np.flatnonzero(item_frequencies(real) >= 0.01 * len(real))
        wanted = {real.domain.fields[0].items[at] for at in popular}
        for seed in chosen.seeds[:1] if chosen.smoke else chosen.seeds:
            private = OpenRecords.of_sets(real, Domain((ItemSet("items", discover=True),)))
            for method, records in (("listed", real), ("discovered", private)):
                fitted = dpgm.Synthesizer(1.0, randomness=SeededRandomness(seed)).fit(records)
                found = {str(item) for item in fitted.domain_.fields[0].items}
                row = [name, seed, method, len(found), round(len(found & wanted) / max(len(wanted), 1), 4)]
                rows.append([*row, *score(real, fitted, seed)])
                print(*rows[-1], flush=True)
    if chosen.out is not None:
        with chosen.out.open("w", newline="") as file:
            csv.writer(file).writerows([COLUMNS, *rows])


if __name__ == "__main__":
    main()
