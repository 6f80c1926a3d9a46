"""How well popular pairs could be known from noisy counts of pairs: an oracle that knows more than a private method.

It is told every item's frequency and, for pairs of similar expected count, the exact law of what is true and of what
down-weighting leaves of it. It spends nearly all of the budget on one release of all pair counts and answers every
query with the value of least expected relative error. Not private: it bounds what shrinking single counts can reach.

    python experiments/pair_limit.py [--data ../shared/data] [--only tw_ny] [--epsilon 1]
"""

import argparse
from pathlib import Path

import numpy as np
from data_folder import DATA
from fidelity_data import load

from dpgm.data.records import Records
from dpgm.evaluation.counting_queries import SANITY, popular_queries
from dpgm.privacy.calibration import gaussian_mu
from dpgm.statistics.clipping import clip_bound, clip_steps
from dpgm.statistics.statistic import GRID

ALIKE = 0.15  # expected counts are similar within this factor
SHARE = 0.97  # of the budget


def oracle_error(records: Records, epsilon: float, cap: int, queries: int = 300) -> float:
    """Mean relative error of the oracle on popular pairs (three draws of them), delta = 1/N."""
    held, smallest = records.to_dense(), SANITY * len(records)
    weights = clip_steps(int(records.lengths.max()), 2, cap)[records.lengths] * GRID
    every = np.triu_indices(records.width, 1)
    true = (held.T @ held)[every].astype(np.float64)
    kept = (held.T @ (held * weights[:, None].astype(np.float32)))[every].astype(np.float64)
    frequencies = held.sum(axis=0, dtype=np.float64)
    expected = np.maximum(np.outer(frequencies, frequencies)[every] / len(records), 1e-9)
    std = clip_bound(2, cap) / (gaussian_mu(epsilon, 1 / len(records)) * SHARE**0.5)
    place = np.zeros((records.width, records.width), dtype=np.int64)
    place[every] = np.arange(len(true))
    noise = np.random.default_rng(0)
    errors = []
    for asked in (place[pair] for seed in range(3) for pair in popular_queries(records, 2, queries, seed=seed)):
        noisy = kept[asked] + std * noise.standard_normal()
        ratio = expected[asked] / expected
        alike = np.exp(-0.5 * (np.log(ratio) / ALIKE) ** 2)
        alike[asked] = 0  # what is asked for is not told
        likelihood = alike * np.exp(-0.5 * ((noisy - kept * ratio) / std) ** 2)
        order = np.argsort(true * ratio)
        cost = np.cumsum((likelihood / np.maximum(true * ratio, smallest))[order])
        answer = (true * ratio)[order][np.searchsorted(cost, cost[-1] / 2)]  # a weighted median
        errors.append(abs(answer - true[asked]) / max(true[asked], smallest))
    return float(np.mean(errors))


def main() -> None:
    """The oracle's error for several bounds on the length of records."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--only", default="tw_ny")
    parser.add_argument("--epsilon", type=float, default=1.0)
    arguments = parser.parse_args()
    records = load(arguments.only, arguments.data).records
    for cap in (3, 5, 8, 12):
        print(f"length bound {cap}: {oracle_error(records, arguments.epsilon, cap):.4f}", flush=True)


if __name__ == "__main__":
    main()
