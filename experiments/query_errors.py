"""Errors of counting queries on synthetic data: the comparison behind figures 6, 7 and 9.

Networks are fitted here or, with rows from `on_device.py`, elsewhere; the default generator, MWEM, independent marginals
and "answer 0" are fitted here, from the same records and at the same budget.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import fidelity
from fidelity_methods import METHODS
from network_runs import PAPER, POPULAR, Job, Row, load_data
from paper_figures import SHARED, Network, mean, network_job, pyplot, read_rows, run_here

OTHERS = ("ours", "independent", "mwem", "mwem clipped", "answer 0")


@dataclass(frozen=True)
class Comparison:
    """What is run; delta = 1 / (10 N)."""

    data: str
    networks: tuple[Network, ...]
    epsilons: tuple[float, ...] = (1.0, 2.0)
    first_epsilon_seeds: tuple[int, ...] = (0, 1, 2)  # of the networks in `repeated`, at the first epsilon
    repeated: tuple[str, ...] = ()
    others: tuple[str, ...] = OTHERS
    others_seed: int = 0
    steps: int | None = None
    queries: int = 300
    device: str = "auto"


def jobs(config: Comparison) -> list[Job]:
    """All fits of networks."""
    found = []
    for network in config.networks:
        for epsilon in config.epsilons:
            many = network.label in config.repeated and epsilon == config.epsilons[0]
            for seed in config.first_epsilon_seeds if many else config.first_epsilon_seeds[:1]:
                found.append(network_job(network, config.data, epsilon, seed, steps=config.steps))
    return found


def run(config: Comparison, measured: Path | None = None) -> list[Row]:
    """One row per fit."""
    wanted = jobs(config)
    if measured is not None:
        keys = {(job.name, job.data, str(job.seed)) for job in wanted}
        rows = [row for row in read_rows(measured) if (row["name"], row["data"], str(row["seed"])) in keys]
    else:
        import torch

        device = config.device if config.device != "auto" else "cuda" if torch.cuda.is_available() else "cpu"
        rows, _ = run_here(wanted, SHARED, device)
    return rows + (other_rows(config) if config.others else [])


def other_rows(config: Comparison) -> list[Row]:
    """The methods beside the networks, scored by the same queries."""
    records, _ = load_data(config.data, SHARED)
    scores = fidelity.set_scores(records, config.queries)
    rows: list[Row] = []
    for method in config.others:
        for epsilon in config.epsilons[:1] if method == "answer 0" else config.epsilons:
            start = time.perf_counter()
            delta = 1 / (10 * len(records))
            synthetic = METHODS[method](records, epsilon, delta, config.others_seed)
            seconds = time.perf_counter() - start
            found = scores(synthetic)
            row: Row = {"name": f"{method}, epsilon {epsilon:g}", "data": config.data, "records": len(records)}
            row |= {"epsilon": epsilon, "delta": delta, "seed": config.others_seed, "device": "cpu"}
            row |= {name: f"{found[name]:.4f}" for name in (*POPULAR, *PAPER, "lengths")} | {"fit_s": f"{seconds:.1f}"}
            rows.append(row)
            print(row, flush=True)
    return rows


def plot(rows: Sequence[Row], title: str) -> Any:
    """One column per epsilon: the paper's queries above, popular ones below."""
    plt = pyplot()
    epsilons = sorted({float(row["epsilon"]) for row in rows})
    figure, axes = plt.subplots(2, len(epsilons), figsize=(5.2 * len(epsilons), 8), squeeze=False)
    for column, epsilon in enumerate(epsilons):
        labels = dict.fromkeys(row["name"].rsplit(", epsilon", 1)[0] for row in rows)
        for label in labels:
            of_label = [row for row in rows if row["name"].rsplit(", epsilon", 1)[0] == label]
            chosen = [row for row in of_label if float(row["epsilon"]) == epsilon or label == "answer 0"]
            if not chosen:
                continue
            style = "--" if label in OTHERS else "-"
            for line, names in enumerate((PAPER, POPULAR)):
                values = [max(mean(chosen, name), 1e-5) for name in names]
                axes[line][column].plot(range(len(names)), values, style, marker="o", ms=3, label=label)
        axes[0][column].set(title=f"{title}, epsilon = {epsilon:g}", xlabel="longest random query, % of max |x|")
        axes[0][column].set_xticks(range(5), ("20", "40", "60", "80", "100"))
        axes[1][column].set(xlabel="items of a popular query")
        axes[1][column].set_xticks(range(4), ("1", "2", "3", "4"))
        for line in (0, 1):
            axes[line][column].set(ylabel="mean relative error", yscale="log")
    axes[0][-1].legend(fontsize=7, loc="upper left", bbox_to_anchor=(1.0, 1.0))
    figure.tight_layout()
    return figure
