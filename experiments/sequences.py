"""Figures of sequences on msnbc (989,818 click streams of 17 kinds of pages): epsilon 1, delta 1 / N, fresh seeds.

python experiments/sequences.py 30000 21 22      people (0 for all) and seeds; each seed draws its own people and noise

bi, tri: total variation of all steps and triples; g2 .. g5: mean relative error of how many people have each of the 300
commonest runs; pair: the same for pairs of kinds of pages; len: total variation of lengths; ac: mean difference of the
shares of events that repeat one 1 to 10 before. A row "another sample" compares two disjoint samples of real people.
"""

import csv
import io
import sys
import time
import warnings
import zipfile

import numpy as np
from data_folder import DATA

import dpgm
from dpgm.arrays import Floats
from dpgm.data.domain import Domain, ItemSequence
from dpgm.data.events import Events
from dpgm.data.records import Records
from dpgm.data.rows import row_pointers
from dpgm.evaluation.event_figures import COMMONEST, LEAST_SHARE, event_figures
from dpgm.mechanisms.randomness import SeededRandomness

PAGES, LONGEST = 17, 200
NAMES = ("bi", "tri", "g2", "g3", "g4", "g5", "pair", "len", "ac")


def click_streams() -> Events:
    """All sequences of msnbc."""
    with zipfile.ZipFile(DATA / "msnbc/msnbc990928.zip") as folder:
        lines = io.TextIOWrapper(folder.open(folder.namelist()[0])).read().splitlines()
    rows = [line.split() for line in lines if line.strip() and line.split()[0].isdigit()]
    codes = np.array([int(page) - 1 for row in rows for page in row], dtype=np.int16)
    return Events(row_pointers(np.array([len(row) for row in rows])), codes).first(LONGEST)


def figures(real: Records, synthetic: Records) -> dict[str, float]:
    """The figures by name."""
    found = event_figures(real, synthetic, "it", 0)
    assert found is not None
    values = [found.distances["steps"]["it"], found.distances["triples"]["it"]]
    values += [found.run_errors[length]["it"] for length in (2, 3, 4, 5)]
    one, two = (_pairs(records) for records in (real, synthetic))
    chosen = np.argsort(-one, kind="stable")[:COMMONEST]
    values.append(float((np.abs(two - one) / np.maximum(one, LEAST_SHARE))[chosen].mean()))
    lengths = [
        np.bincount(records.events.lengths, minlength=LONGEST + 1) / len(records) for records in (real, synthetic)
    ]
    values += [
        float(np.abs(lengths[0] - lengths[1]).sum() / 2),
        float(np.abs(found.repeats[0] - found.repeats[1]).mean()),
    ]
    return dict(zip(NAMES, values, strict=True))


def _pairs(records: Records) -> Floats:
    """The share of people with each pair of different items."""
    dense = records.to_dense().astype(np.float64)
    return np.asarray((dense.T @ dense)[np.triu_indices(PAGES, 1)] / len(records))


def main() -> None:
    """Print one row of CSV per seed, and one for another sample."""
    warnings.simplefilter("ignore", dpgm.PrivacyWarning)
    people, seeds = int(sys.argv[1]), [int(seed) for seed in sys.argv[2:]]
    domain = Domain((ItemSequence("pages", tuple(f"page {at}" for at in range(1, PAGES + 1)), max_length=LONGEST),))
    everybody = click_streams()
    table = csv.writer(sys.stdout)
    table.writerow(["people", "who", "seed", "CPU seconds of the fit", *NAMES])
    for seed in seeds:
        order = np.random.default_rng(seed).permutation(len(everybody))
        count = people or len(everybody)
        real = Records.of_events(everybody.take(order[:count]), domain)
        started = time.process_time()
        fitted = dpgm.Synthesizer(1.0, 1 / count, randomness=SeededRandomness(seed)).fit(real)
        taken = time.process_time() - started
        pairs = {"dpgm": fitted.sample(count, seed=seed)}
        if 2 * count <= len(everybody):
            pairs["another sample"] = Records.of_events(everybody.take(order[count : 2 * count]), domain)
        for who, other in pairs.items():
            found = figures(real, other)
            row = [f"{found[name]:.4f}" for name in NAMES]
            table.writerow([count, who, seed, round(taken) if who == "dpgm" else "", *row])
        sys.stdout.flush()


if __name__ == "__main__":
    main()
