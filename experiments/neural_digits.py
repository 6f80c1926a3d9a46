"""Where a neural mixture pays: MNIST, `--model vae` (default preset) beside `--model products` at the same epsilon.

Accuracy on the 10,000 real test digits of a network trained on 60,000 synthetic ones, delta = 1e-5, three seeds. The
networks, one per label, learn from samples of released statistics, then by private SGD. The paper's mixture of VAEs and
the default generator of images (`--model auto`) stand beside them (results/fidelity_images.csv).

    python experiments/neural_digits.py [--smoke] [--jobs FILE | --rows FILE]
"""

from dataclasses import dataclass, replace
from pathlib import Path

from data_folder import DATA
from network_runs import Job
from paper_figures import RESULTS, Network, main, mean, network_job, pyplot, read_rows, rows_of, run_here

NEURAL, PRODUCTS = "networks (vae)", "products"


@dataclass(frozen=True)
class Config:
    """What is run."""

    epsilons: tuple[float, ...] = (1.0, 10.0)
    seeds: tuple[int, ...] = (0, 1, 2)
    steps: int | None = None


CONFIG = Config()
SMOKE = replace(CONFIG, epsilons=(1.0,), seeds=(0,), steps=3)


def jobs(config: Config) -> list[Job]:
    """All fits."""
    found = []
    for epsilon in config.epsilons:
        for seed in config.seeds:
            network = Network(NEURAL, clusters=None, preset="default")
            job = network_job(network, "mnist", epsilon, seed, grid=seed == config.seeds[0], steps=config.steps)
            found.append(replace(job, settings={}))
            network = Network(PRODUCTS, "products", clusters=None, preset="default")
            found.append(replace(network_job(network, "mnist", epsilon, seed), settings={}))
    return found


def run(config: Config, measured: Path | None = None):
    """One row per fit, those of fidelity_images.csv among them."""
    if config.steps is not None:
        return smoke_rows(config)
    wanted = jobs(config)
    fits = run_here(wanted, DATA) if measured is None else rows_of(wanted, measured)
    labels = {"paper": "the paper's VAEs", "default": "image generator"}
    return fits + [
        {"name": f"{labels[row['preset']]}, epsilon {float(row['epsilon']):g}"} | row
        for row in read_rows(RESULTS / "fidelity_images.csv")
        if row["data"] == "mnist" and float(row["epsilon"]) in config.epsilons
        and row["split"] == "test" and row["device"] == "cuda"
    ]  # fmt: skip


def smoke_rows(config: Config):
    """A fit of 300 random pictures in place of MNIST, with a few steps of everything: nothing is scored."""
    import numpy as np
    from network_runs import DIGITS, run_job

    from dpgm.data.records import Records

    job = jobs(config)[0]
    images = job.plan["settings"]["family"]["images"]
    fit = images["rules"]["fit"] | {"steps": 3}
    rules = job.plan["settings"]["family"]["rules"] | {"pretraining_samples": [100, 100], "pretraining_passes": 1}
    short = {"images": images | {"rules": images["rules"] | {"fit": fit}}, "rules": rules}
    rng = np.random.default_rng(0)
    labels = np.eye(10, dtype=bool)[rng.integers(10, size=300)]
    rows = np.concatenate([rng.random((300, 784)) < 0.1, labels], axis=1)
    row, grid = run_job(replace(job, settings=short), Records.from_dense(rows, DIGITS), None, None, "cpu")
    assert grid is not None
    assert grid.shape == (10, 8, 794)
    return [row]


def plot(rows):
    plt = pyplot()
    figure, axis = plt.subplots(figsize=(7, 3.6))
    labels = list(dict.fromkeys(row["name"].rsplit(", epsilon", 1)[0] for row in rows))
    epsilons = sorted({float(row["epsilon"]) for row in rows})
    for number, epsilon in enumerate(epsilons):
        chosen = [[row for row in rows if row["name"] == f"{label}, epsilon {epsilon:g}"] for label in labels]
        places = [at + 0.38 * number for at in range(len(labels))]
        bars = axis.bar(places, [mean(group, "accuracy") for group in chosen], 0.36, label=f"epsilon = {epsilon:g}")
        axis.bar_label(bars, fmt="%.3f", fontsize=8)
    axis.set_xticks([at + 0.19 for at in range(len(labels))], labels)
    axis.set(ylabel="accuracy on real digits", ylim=(0, 1.08))
    axis.legend(loc="lower right")
    figure.tight_layout()
    return figure


if __name__ == "__main__":
    main("neural_digits", CONFIG, SMOKE, run, plot, jobs)
