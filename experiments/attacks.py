"""Membership inference with shadow models, as an illustration: what an attack gains from synthetic records.

python experiments/attacks.py --data FILE [--fits 150] [--models products vae] [--out experiments/results/attacks]

The adversary knows every record but whether one of them, the odd one, is in the data. It fits the same code many times
with and without that record (shadow models), draws synthetic records from each, and learns by logistic regression to
tell the two apart from how often the synthetic records hold the odd record's items, pairs and the whole record. The
table and the figure show the area under the ROC curve on fresh fits: 0.5 is guessing, 1 is certainty, and no attack on
an epsilon-private release can expect more than e^epsilon / (1 + e^epsilon) (and a delta, which is 1/1000 here). Without
noise the attack must succeed; otherwise its failure under noise would mean nothing. FILE is a public set of items:
UCI's msweb log, or one record per line, items separated by blanks. `--figures tools/figures/attacks.json` keeps what
was found for `tools/security.py`.
"""

import argparse
import csv
import json
import math
import os
import sys
import warnings
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from itertools import combinations
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import torch

from dpgm.data.domain import Domain
from dpgm.data.records import Records, concatenate
from dpgm.mechanisms.gateway import Gateway
from dpgm.mechanisms.randomness import SystemRandomness
from dpgm.strategy.protocol import RunContext
from dpgm.strategy.settings import Config
from dpgm.synthesis.plan import Plan, make_plan
from dpgm.synthesis.strategies import fit_generator

ITEMS, RECORDS, DRAWN = 10, 80, 4000
CLAIMS: dict[str, float | None] = {"1": 1.0, "10": 10.0, "no noise": None}
NOTHING = 1e-3  # a noise multiplier that hides nothing
SUCCESS = 0.8  # lower end of the interval from which an attack without noise counts as successful
MODELS = ("products", "vae")


def public_records(path: Path) -> Records:
    """Records over the most popular items: of the msweb log, or of a file of one record per line, blanks between."""
    if "msweb" in path.name:
        from web_logs import read_web_log

        read = read_web_log(path)
        rows = [
            {str(read.domain.fields[0].items[at]) for at in row.indices} for row in read.rows(0, 5000).chunks(1)
        ]  # type: ignore[union-attr]
    else:
        rows = [set(line.split()) for line in path.read_text("utf-8").splitlines() if line.strip()]
    names, counts = np.unique([item for row in rows for item in row], return_counts=True)
    popular = {name: at for at, name in enumerate(names[np.argsort(-counts, kind="stable")][:ITEMS])}
    kept = [sorted(popular[item] for item in row if item in popular) for row in rows]
    return Records.from_lists([row for row in kept if row][:RECORDS], Domain.of_items(ITEMS))


def odd_one(records: Records) -> int:
    """The record least like the others: of those that occur once, the one whose items are rarest together."""
    dense = records.to_dense().astype(np.int64)
    same = (dense[:, None] == dense[None]).all(2).sum(1)
    pairs = dense.T @ dense
    rarity = [np.mean([1 / pairs[i, j] for i, j in combinations(np.flatnonzero(row), 2)] or [0]) for row in dense]
    return int(np.argmax(np.where(same == 1, rarity, -1)))


def plan_for(model: str, epsilon: float | None, domain: Domain) -> Plan:
    plan = make_plan(Config(10.0 if epsilon is None else epsilon, model=model), RECORDS, domain)
    if epsilon is not None:
        return plan
    return replace(plan, mechanisms=tuple(replace(each, noise=NOTHING) for each in plan.mechanisms))


def features(drawn: Records, target: np.ndarray) -> np.ndarray:
    """How often synthetic records hold the target's items, its pairs, and are the target."""
    dense = drawn.to_dense().astype(bool)
    held = np.flatnonzero(target)
    sets = [(i,) for i in held] + list(combinations(held, 2)) + [tuple(held)]
    shares = [dense[:, list(each)].all(1).mean() for each in sets]
    return np.array([*shares, (dense == target.astype(bool)).all(1).mean(), dense.sum(1).mean()])


def shadow_fits(
    model: str, epsilon: float | None, records: Records, target: Records, member: bool, fits: int
) -> np.ndarray:
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    plan = plan_for(model, epsilon, records.domain)
    data = concatenate([records, target]) if member else records
    found = []
    for _ in range(fits):
        randomness = SystemRandomness()
        gateway = Gateway(data, randomness=randomness)
        generator = fit_generator(gateway, plan, records.domain, draws=randomness.draws(), context=RunContext())
        found.append(features(generator.sample(DRAWN, generator=randomness.draws()), target.to_dense()[0]))
    return np.stack(found)


def area_under_curve(scores: np.ndarray, labels: np.ndarray) -> float:
    ranks = np.argsort(np.argsort(scores)) + 1
    ones, zeros = int(labels.sum()), int((1 - labels).sum())
    return float((ranks[labels == 1].sum() - ones * (ones + 1) / 2) / (ones * zeros))


def attack(without: np.ndarray, with_it: np.ndarray) -> tuple[float, float, float]:
    """Area under the ROC curve on the second half of the fits, and a 95 % interval by the bootstrap."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    half = len(without) // 2
    inputs = [np.concatenate([without[part], with_it[part]]) for part in (slice(half), slice(half, None))]
    labels = [np.repeat([0, 1], len(each) // 2) for each in inputs]
    model = make_pipeline(StandardScaler(), LogisticRegression(C=0.1, max_iter=500)).fit(inputs[0], labels[0])
    scores = model.decision_function(inputs[1])
    rng = np.random.default_rng(0)
    again = []
    for _ in range(500):
        chosen = rng.integers(len(scores), size=len(scores))
        if 0 < labels[1][chosen].sum() < len(scores):
            again.append(area_under_curve(scores[chosen], labels[1][chosen]))
    low, high = np.quantile(again, [0.025, 0.975])
    return area_under_curve(scores, labels[1]), float(low), float(high)


def figures(rows: list[dict[str, object]], data: str) -> dict[str, object]:
    """What was found, and whether it is as promised: success without noise, and at epsilon 1 no more than it allows."""
    most = math.exp(1) / (1 + math.exp(1))
    bare = [row for row in rows if row["epsilon"] == "no noise"]
    private = [row for row in rows if row["epsilon"] == "1"]
    met = all(float(str(row["low"])) > SUCCESS for row in bare) and all(
        float(str(row["auc"])) <= most for row in private
    )
    told = "; ".join(
        f"{row['model']}, {row['epsilon'] if row['epsilon'] == 'no noise' else 'epsilon ' + str(row['epsilon'])}: area"
        f" under the curve {row['auc']} ({row['low']} to {row['high']})"
        for row in rows
    )
    words = (
        f"membership of the oddest of {RECORDS} records of {data}, {rows[0]['fits']} shadow fits each way: {told}"
    )
    return {
        "attacks": rows,
        "most_at_epsilon_1": round(most, 3),
        "promises": {"P16": {"figure": words, "met": met}},
    }


def draw(rows: list[dict[str, object]], path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(5, 3))
    for at, model in enumerate(MODELS):
        mine = [row for row in rows if row["model"] == model]
        places = np.arange(len(mine)) + 0.2 * at - 0.1
        middle = np.array([float(str(row["auc"])) for row in mine])
        ends = [[float(str(row[end])) for row in mine] for end in ("low", "high")]
        spread = np.abs(np.array(ends) - middle)
        axes.errorbar(places, middle, yerr=spread, fmt="o", label=model, capsize=3)
    axes.axhline(0.5, color="grey", linewidth=1, linestyle=":")
    axes.set_xticks(range(len(CLAIMS)), [f"epsilon {name}" if name != "no noise" else name for name in CLAIMS])
    axes.set_ylabel("area under the ROC curve")
    axes.set_ylim(0.3, 1.02)
    axes.legend()
    axes.set_title("Membership of the oddest record, from synthetic records", fontsize=9)
    figure.tight_layout()
    figure.savefig(path, dpi=110)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--fits", type=int, default=150, help="with the record, and as many without")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--models", nargs="+", default=list(MODELS))
    parser.add_argument("--out", type=Path, default=Path("experiments/results/attacks"))
    parser.add_argument("--figures", type=Path, help="a JSON file for `tools/security.py`")
    chosen = parser.parse_args()
    records = public_records(chosen.data)
    odd = odd_one(records)
    target = records.rows(odd, odd + 1)
    rest = concatenate([records.rows(0, odd), records.rows(odd + 1, len(records))])
    parts, rows = max(1, chosen.workers // 2), []
    with ProcessPoolExecutor(chosen.workers, mp_context=get_context("spawn")) as pool:
        for model in chosen.models:
            for name, epsilon in CLAIMS.items():
                arms = []
                for member in (False, True):
                    jobs = [
                        pool.submit(shadow_fits, model, epsilon, rest, target, member, -(-chosen.fits // parts))
                        for _ in range(parts)
                    ]
                    arms.append(jobs)
                without, with_it = (np.concatenate([job.result() for job in jobs]) for jobs in arms)
                auc, low, high = attack(without, with_it)
                rows.append(
                    {"model": model, "epsilon": name, "fits": len(without), "auc": round(auc, 3)}
                    | {"low": round(low, 3), "high": round(high, 3)}
                )
                print(rows[-1], flush=True)
    with chosen.out.with_suffix(".csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    draw(rows, chosen.out.with_suffix(".png"))
    succeeded = all(float(str(row["low"])) > SUCCESS for row in rows if row["epsilon"] == "no noise")
    if chosen.figures is not None:
        chosen.figures.write_text(json.dumps(figures(rows, chosen.data.name), indent=1) + "\n", "utf-8")
    print("without noise the attack succeeds" if succeeded else "WITHOUT NOISE THE ATTACK FAILS: it shows nothing")
    return 0 if succeeded else 1


if __name__ == "__main__":
    sys.exit(main())
