"""Figure 5: real digits and samples of a VAE without clustering, of VAEs and of RBMs with ten clusters, epsilon = 1.74.

Eight samples per cluster and row, as probabilities of the pixels; above each panel the accuracy on real test digits of
a network trained on 60,000 samples. Pixels and label form one record. The default generator of images stands beside
them (its accuracies are those of docs/fidelity-images.md, at epsilon = 1).

    python experiments/sample_grid.py [--smoke] [--jobs FILE | --rows FILE]
"""

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from data_folder import DATA
from network_runs import Job
from paper_figures import (
    RESULTS,
    Network,
    main,
    mean,
    network_job,
    pyplot,
    read_grids,
    read_rows,
    rows_of,
    run_here,
)

DEFAULT_PICTURE = RESULTS / "fidelity_images_cuda_epsilon1.png"


@dataclass(frozen=True)
class Config:
    """What is run."""

    networks: tuple[Network, ...] = (
        Network("VAE without clustering", clusters=1),
        Network("VAE with clustering"),
        Network("RBM with clustering", "rbm"),
    )
    epsilon: float = 1.74
    seeds: tuple[int, ...] = (0, 1, 2)
    steps: int | None = None
    default_epsilon: float = 1.0


CONFIG = Config()
SMOKE = replace(CONFIG, networks=(Network("VAE with clustering", clusters=2),), seeds=(0,), steps=3)


def jobs(config: Config) -> list[Job]:
    """All fits."""
    return [
        network_job(network, "mnist", config.epsilon, seed, grid=seed == config.seeds[0], steps=config.steps)
        for network in config.networks
        for seed in config.seeds
    ]


def run(config: Config, measured: Path | None = None):
    """One row per fit, the default generator's rows among them."""
    if config.steps is not None:
        return smoke_rows(config)
    wanted = jobs(config)
    fits = run_here(wanted, DATA) if measured is None else rows_of(wanted, measured)
    return fits + default_rows(config)


def smoke_rows(config: Config):
    """A fit of 300 random pictures in place of MNIST: nothing is scored."""
    from network_runs import DIGITS, run_job

    from dpgm.data.records import Records

    job = jobs(config)[0]
    rng = np.random.default_rng(0)
    rows = np.concatenate(
        [rng.random((300, 784)) < 0.1, np.eye(10, dtype=bool)[rng.integers(10, size=300)]], axis=1
    )
    row, grid = run_job(job, Records.from_dense(rows, DIGITS), None, None, "cpu")
    assert grid is not None
    assert grid.shape == (2, 8, 794)
    return [row]


def default_rows(config: Config):
    """What experiments/fidelity_images.py measured of the default generator."""
    return [
        {"name": f"image generator (default), epsilon {config.default_epsilon:g}", "data": "mnist", "preset": "default"}
        | {"epsilon": row["epsilon"], "seed": row["seed"], "accuracy": row["accuracy"], "device": row["device"]}
        for row in read_rows(RESULTS / "fidelity_images.csv")
        if row["data"] == "mnist" and row["preset"] == "default" and row["split"] == "test"
        and float(row["epsilon"]) == config.default_epsilon and row["device"] == "cuda"
    ]  # fmt: skip


def plot(rows):
    plt = pyplot()
    names = list(dict.fromkeys(row["name"] for row in rows))
    figure, axes = plt.subplots(1, len(names) + 1, figsize=(3.2 * (len(names) + 1), 4.4))
    panels = [("real digits", _real())]
    grids = read_grids()
    for name in names:
        accuracy = mean([row for row in rows if row["name"] == name], "accuracy")
        panels.append((f"{name}\naccuracy {accuracy:.3f}", grids.get(f"{name} seed 0".replace(" ", "_"))))
    for axis, (title, grid) in zip(axes, panels, strict=True):
        if title.startswith("image generator") and DEFAULT_PICTURE.exists():
            axis.imshow(plt.imread(DEFAULT_PICTURE), cmap="gray")
        if grid is not None:
            rows_of = grid[:10, :, :784].reshape(-1, 8, 28, 28)
            axis.imshow(rows_of.transpose(0, 2, 1, 3).reshape(len(rows_of) * 28, 224), cmap="gray_r")
        axis.set(xticks=[], yticks=[])
        axis.set_title(title, fontsize=9)
    figure.tight_layout()
    return figure


def _real():
    """Eight digits of each class."""
    from fidelity_images import DIGITS, load

    if not DIGITS.exists():
        return None
    dense = load("t10k").rows(0, 2000).to_dense(np.uint8)
    labels = dense[:, 784:].argmax(1)
    return np.stack([255 * dense[labels == digit][:8] for digit in range(10)])


if __name__ == "__main__":
    main("sample_grid", CONFIG, SMOKE, run, plot, jobs)
