"""What it costs not to list the items: the same fit with a public list and with private discovery.

    python experiments/discovery.py --data msweb retail --seeds 2 3 4 --out experiments/results/discovery.csv

For every set: the share of the items held by 1 % of the records that were found, how many were found in all, and the
mean relative error of 300 popular queries of 1 to 4 items, listed and discovered (epsilon 1, delta 1 / (10 N)): of
items held by 1 % of the records (pop1 .. pop4), and of all items (all1 .. all4), where what is too rare to be found
counts as answered with 0.
Seeded, so NOT PRIVATE; `--smoke` takes 3,000 records and one seed.
"""

import argparse
import csv
from pathlib import Path

import fidelity_data
import numpy as np
from data_folder import DATA

import dpgm
from dpgm.data.domain import Domain, ItemSet
from dpgm.data.read.frames import read_frame
from dpgm.data.records import Records
from dpgm.evaluation.counting_queries import item_frequencies, popular_queries, query_error
from dpgm.evaluation.inputs import with_domain
from dpgm.mechanisms.randomness import SeededRandomness

LENGTHS = (1, 2, 3, 4)
COLUMNS = (
    "data",
    "seed",
    "method",
    "found",
    "found_of_popular",
    "pop1",
    "pop2",
    "pop3",
    "pop4",
    "all1",
    "all2",
    "all3",
    "all4",
)


def texts(records: Records) -> Records:
    """The same records with texts for labels, as discovery publishes them."""
    items = tuple(str(item) for item in records.domain.fields[0].items)
    return Records(Domain((ItemSet("items", items),)), records.indptr, records.indices)


def only(records: Records, wanted: list[int]) -> Records:
    """The records with no other items."""
    place = np.full(records.width, -1)
    place[wanted] = np.arange(len(wanted))
    kept = place[records.indices] >= 0
    rows = np.repeat(np.arange(len(records)), records.lengths)[kept]
    items = tuple(records.domain.fields[0].items[at] for at in wanted)
    lengths = np.bincount(rows, minlength=len(records))
    return Records.from_flat(place[records.indices[kept]], lengths, Domain((ItemSet("items", items),)))


def score(real: Records, fitted: dpgm.Synthesizer, popular: list[int], seed: int) -> list[float]:
    same = with_domain(texts(fitted.sample(len(real), seed=seed)), real.domain)
    errors = []
    for ours, theirs in ((only(real, popular), only(same, popular)), (real, same)):
        errors += [round(query_error(ours, theirs, popular_queries(ours, n, 300)).mean, 4) for n in LENGTHS]
    return errors


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", nargs="+", default=["msweb", "retail"])
    parser.add_argument("--seeds", nargs="+", type=int, default=[2, 3, 4])
    parser.add_argument(
        "--folder",
        type=Path,
        default=DATA,
        help="the shared data sets",
    )
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
            private = read_frame(real.to_arrow(), Domain((ItemSet("items", discover=True),))).records
            for method, records in (("listed", real), ("discovered", private)):
                fitted = dpgm.Synthesizer(1.0, randomness=SeededRandomness(seed)).fit(records)
                found = {str(item) for item in fitted.domain_.fields[0].items}
                row = [name, seed, method, len(found), round(len(found & wanted) / max(len(wanted), 1), 4)]
                rows.append([*row, *score(real, fitted, popular.tolist(), seed)])
                print(*rows[-1], flush=True)
    if chosen.out is not None:
        with chosen.out.open("w", newline="") as file:
            csv.writer(file).writerows([COLUMNS, *rows])


if __name__ == "__main__":
    main()
