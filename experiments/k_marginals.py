"""The k-marginal score of SDNist on Adult and bank marketing, epsilon = 1, delta = 1/N: 1000 if all joints are equal.

    python experiments/k_marginals.py [--only adult,bank] [--methods ours,mst,independent] [--seeds 20,21,22]

All pairs and all triples of columns in the shared bins of `tables.py`. `ours` is the default for tables, `mst` our
form of MST (`spanning_tree_tables.py`), `independent` noisy single columns; `mst dpmm` and `aim dpmm` run the peers'
own code in the Python named by DPGM_PEERS_PYTHON. One row per run in `results/k_marginals.csv`.
Seeded, so NOT PRIVATE.
"""

import argparse
import csv
import time
import warnings
from pathlib import Path

import numpy as np
import tables
from data_folder import DATA
from fidelity_data import from_codes
from fidelity_methods import run_peer
from spanning_tree_tables import synthetic_codes

import dpgm
from dpgm.baselines.estimators import IndependentMarginals
from dpgm.data.records import Records
from dpgm.errors import PrivacyWarning
from dpgm.evaluation.k_marginals import k_marginal_score
from dpgm.mechanisms.randomness import SeededRandomness

OUT = Path(__file__).parent / "results/k_marginals.csv"
FIELDS = ("data", "method", "seed", "k2", "k3", "seconds")
EPSILON = 1.0


def drawn(method: str, records: Records, seed: int) -> Records:
    """As many synthetic records of one method."""
    delta = 1 / len(records)
    if method == "ours":
        fitted = dpgm.Synthesizer(EPSILON, delta=delta, randomness=SeededRandomness(seed)).fit(records)
        return fitted.sample(len(records), seed=seed)
    if method == "independent":
        model = IndependentMarginals(EPSILON, delta, randomness=SeededRandomness(seed)).fit(records)
        return model.sample(len(records), seed=seed)
    if method == "mst":
        codes = np.stack([np.asarray(one, dtype=np.int64) for one in tables.codes(records)], axis=1)
        sizes = np.maximum([field.width for field in records.domain.fields], codes.max(axis=0) + 1)
        made = synthetic_codes(codes, sizes, EPSILON, delta, seed)
        return records_of(made, records)
    return run_peer(method.split()[0], records, EPSILON, delta, seed)


def records_of(codes: np.ndarray, records: Records) -> Records:
    """Records of value numbers, one past the last where there is none."""
    widths = np.array([field.width for field in records.domain.fields])
    if (codes < widths).all():
        return from_codes(codes, records.domain)
    held = codes < widths
    flat = (codes + np.array(records.domain.offsets))[held]
    return Records.from_flat(flat, held.sum(axis=1), records.domain)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="adult,bank")
    parser.add_argument("--methods", default="ours,mst,independent")
    parser.add_argument("--seeds", default="20,21,22")
    chosen = parser.parse_args()
    warnings.simplefilter("ignore", PrivacyWarning)  # seeds are not private: meant here
    rows = list(csv.DictReader(OUT.read_text().splitlines())) if OUT.exists() else []
    for name in chosen.only.split(","):
        real = tables.load(name, DATA).binned
        for method in chosen.methods.split(","):
            for seed in map(int, chosen.seeds.split(",")):
                start = time.process_time()
                made = drawn(method, real, seed)
                seconds = time.process_time() - start
                scores = {f"k{k}": f"{k_marginal_score(real, made, k, most=None):.1f}" for k in (2, 3)}
                row = {"data": name, "method": method, "seed": str(seed)} | scores | {"seconds": f"{seconds:.0f}"}
                print(*row.values(), flush=True)
                rows = [
                    one for one in rows if (one["data"], one["method"], one["seed"]) != (name, method, str(seed))
                ]
                rows.append(row)
    with OUT.open("w", newline="") as file:
        writer = csv.DictWriter(file, FIELDS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(sorted(rows, key=lambda one: (one["data"], one["method"], int(one["seed"]))))


if __name__ == "__main__":
    main()
