"""Claims in the text of the paper, measured: three seeds each, mean and standard deviation, and a verdict.

    python experiments/claims.py [--smoke] [--jobs FILE | --rows FILE]

Fits of the paper's preset at epsilon = 1 on simulated TRANSIT (1.2M) and on msweb, of MNIST at 1.74 (those of figure
5), and for "close to non-private" the same training with hardly any noise. What the figure of clustering accuracy says
is read from its CSV. Scores are errors of popular queries of one and two items (smaller is better) and, for MNIST, the
accuracy on real digits of a network trained on synthetic ones.
"""

from dataclasses import dataclass, replace
from pathlib import Path
from statistics import mean, stdev

import sample_grid
from data_folder import DATA
from network_runs import Job, Row
from paper_figures import RESULTS, TRANSIT, Network, main, network_job, pyplot, read_rows, rows_of, run_here

VAE, ONE, FIFTY, RBM = (
    Network("VAE k = 10"),
    Network("VAE k = 1", clusters=1),
    Network("VAE k = 50", clusters=50),
    Network("RBM k = 10", "rbm"),
)
NOISELESS = Network("VAE k = 10 without noise", noise=False)


@dataclass(frozen=True)
class Config:
    """What is run."""

    transit: str = TRANSIT
    web: bool = True
    digits: sample_grid.Config | None = sample_grid.CONFIG
    seeds: tuple[int, ...] = (0, 1, 2)
    steps: int | None = None
    networks: tuple[Network, ...] = (VAE, ONE, RBM, FIFTY, NOISELESS)


CONFIG = Config()
SMOKE = replace(CONFIG, transit="transit 600", web=False, digits=None, seeds=(0, 1), steps=3, networks=(VAE, ONE))


def jobs(config: Config) -> list[Job]:
    """All fits."""
    found = []
    for network in config.networks:
        for seed in config.seeds:
            found.append(network_job(network, config.transit, 1.0, seed, steps=config.steps))
            if config.web and network is not FIFTY:
                found.append(network_job(network, "msweb", 1.0, seed))
    return found + ([] if config.digits is None else sample_grid.jobs(config.digits))


def run(config: Config, measured: Path | None = None) -> list[Row]:
    """One row per claim and score."""
    fits = run_here(jobs(config), DATA) if measured is None else rows_of(jobs(config), measured)
    return [row for claim in (_against(fits), _features()) for row in claim]


COMPARED = (
    ("a mixture is better than a single model", "VAE k = 10", "VAE k = 1"),
    ("a mixture is better than a single model", "VAE with clustering", "VAE without clustering"),
    ("VAEs are better than RBMs", "VAE k = 10", "RBM k = 10"),
    ("VAEs are better than RBMs", "VAE with clustering", "RBM with clustering"),
    ("the number of clusters does not matter on transit data", "VAE k = 50", "VAE k = 10"),
    ("close to training without privacy", "VAE k = 10", "VAE k = 10 without noise"),
)


def _against(fits: list[Row]) -> list[Row]:
    """Each comparison on every data set and score that both sides have."""
    rows = []
    for claim, first, second in COMPARED:
        for data in dict.fromkeys(row["data"] for row in fits):
            for score in ("pop1", "pop2", "paper20", "accuracy"):
                sides = [_values(fits, name, data, score) for name in (first, second)]
                if not all(sides):
                    continue
                left, right = sides
                ahead = mean(left) - mean(right)
                better = ahead > 0 if score == "accuracy" else ahead < 0
                spread = sum(stdev(side) if len(side) > 1 else 0.0 for side in sides)
                verdict = (
                    "no clear difference" if abs(ahead) <= spread else "first better" if better else "second better"
                )
                if min(map(len, sides)) == 1:
                    verdict += " (one seed)"
                rows.append(
                    {"claim": claim, "data": data, "score": score, "first": first, "second": second}
                    | {"first_mean": f"{mean(left):.4f}", "second_mean": f"{mean(right):.4f}"}
                    | {"first_seeds": len(left), "second_seeds": len(right), "verdict": verdict}
                )
    return rows


def _values(fits: list[Row], name: str, data: str, score: str) -> list[float]:
    return [
        float(row[score])
        for row in fits
        if row["name"].rsplit(", epsilon", 1)[0] == name and row["data"] == data and row[score] != ""
    ]


def _features() -> list[Row]:
    """Figure 4's claim: short features at small epsilon, long ones at large."""
    fits = read_rows(RESULTS / "clustering_accuracy.csv")
    rows = []
    for epsilon in (0.05, 0.5):
        sides = [
            [
                float(row["accuracy"])
                for row in fits
                if row["method"] == f"kernel, d = {features}" and float(row["epsilon"]) == epsilon
            ]
            for features in (50, 400)
        ]
        if all(sides):
            ahead = mean(sides[0]) - mean(sides[1])
            rows.append(
                {"claim": "short features are better at small epsilon, long ones at large", "data": "mnist"}
                | {"score": f"clustering accuracy, epsilon {epsilon:g}", "first": "d = 50", "second": "d = 400"}
                | {"first_mean": f"{mean(sides[0]):.4f}", "second_mean": f"{mean(sides[1]):.4f}"}
                | {"first_seeds": len(sides[0]), "second_seeds": len(sides[1])}
                | {"verdict": "first better" if ahead > 0 else "second better"}
            )
    return rows


def plot(rows):
    plt = pyplot()
    figure, axis = plt.subplots(figsize=(10, 0.42 * len(rows) + 1.2))
    for at, row in enumerate(reversed(rows)):
        axis.barh(at + 0.2, float(row["first_mean"]), 0.36, color="tab:blue")
        axis.barh(at - 0.2, float(row["second_mean"]), 0.36, color="tab:orange")
    labels = [f"{row['data']}, {row['score']}: {row['first']} | {row['second']}" for row in reversed(rows)]
    axis.set_yticks(range(len(rows)), labels, fontsize=7)
    axis.set(
        title="first (blue) and second (orange) of every comparison", xlabel="error, or accuracy where it says so"
    )
    figure.tight_layout()
    return figure


if __name__ == "__main__":
    main("claims", CONFIG, SMOKE, run, plot, jobs)
