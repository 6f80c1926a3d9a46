"""Figures 8 and 9: VAEs with two hidden layers in encoder and decoder beside those with one.

Samples of MNIST after 20 epochs (figure 8) with the accuracy of a network trained on them, and errors of counting
queries at epsilon = 1 on simulated call and transit data (figure 9). The paper does not say how large the second layer
is; here both have 200 units.

    python experiments/two_layer_vae.py [--smoke] [--jobs FILE | --rows FILE]
"""

from dataclasses import dataclass, replace
from pathlib import Path

from data_folder import DATA
from network_runs import PAPER, POPULAR, Job
from paper_figures import (
    CDR,
    TRANSIT,
    Network,
    grid_key,
    main,
    mean,
    network_job,
    pyplot,
    read_grids,
    rows_of,
    run_here,
)


@dataclass(frozen=True)
class Config:
    """What is run."""

    digits_epsilons: tuple[float, ...] = (1.74, 2.0)
    transit_clusters: tuple[int, ...] = (1, 10, 50)
    transit: str = TRANSIT
    cdr: str = CDR
    hidden: tuple[int, ...] = (200, 200)
    digits: bool = True
    seed: int = 0
    steps: int | None = None


CONFIG = Config()
SMOKE = replace(CONFIG, transit_clusters=(1,), transit="transit 800", cdr="cdr 300", digits=False, steps=5)


def jobs(config: Config) -> list[Job]:
    """All fits: two layers, and one (the same fits as in figures 6 and 7)."""
    found = []
    for layers, hidden in ((", two layers", config.hidden), ("", config.hidden[:1])):
        for k in config.transit_clusters:
            network = Network(f"VAE k = {k}{layers}", clusters=k, hidden=hidden)
            found.append(network_job(network, config.transit, 1.0, config.seed, steps=config.steps))
        network = Network(f"VAE k = 1{layers}", clusters=1, hidden=hidden)
        found.append(network_job(network, config.cdr, 1.0, config.seed, steps=config.steps))
    for epsilon in config.digits_epsilons if config.digits else ():
        network = Network("VAE k = 10, two layers", hidden=config.hidden)
        found.append(network_job(network, "mnist", epsilon, config.seed, grid=True, steps=config.steps))
    return found


def run(config: Config, measured: Path | None = None):
    """One row per fit."""
    return run_here(jobs(config), DATA) if measured is None else rows_of(jobs(config), measured)


def plot(rows):
    plt = pyplot()
    figure, axes = plt.subplots(1, 3, figsize=(15, 4.5))
    for axis, kind in zip(axes, ("cdr", "transit"), strict=False):
        for row in (row for row in rows if row["data"].startswith(kind)):
            style = "-" if "two layers" in row["name"] else "--"
            values = [max(mean([row], name), 1e-5) for name in (*POPULAR, *PAPER)]
            axis.plot(range(9), values, style, marker="o", ms=3, label=row["name"].rsplit(", epsilon", 1)[0])
        axis.set_xticks(range(9), ("1", "2", "3", "4", "20 %", "40 %", "60 %", "80 %", "100 %"))
        axis.set(
            title=f"simulated {kind.upper()}, epsilon = 1", xlabel="popular queries | random queries", yscale="log"
        )
        axis.legend(fontsize=7)
    digits = [row for row in rows if row["data"] == "mnist" and "two layers" in row["name"]]
    grid = read_grids().get(grid_key(digits[0])) if digits else None
    if grid is not None:
        picture = grid[:, :, :784].reshape(-1, 8, 28, 28).transpose(0, 2, 1, 3).reshape(-1, 8 * 28)
        axes[2].imshow(picture, cmap="gray_r")
        axes[2].set(title=f"{digits[0]['name']}: accuracy {float(digits[0]['accuracy']):.3f}", xticks=[], yticks=[])
    figure.tight_layout()
    return figure


if __name__ == "__main__":
    main("two_layer_vae", CONFIG, SMOKE, run, plot, jobs)
