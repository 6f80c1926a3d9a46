"""Errors of counting queries on synthetic data: the comparison behind figures 6, 7 and 9.

Networks are fitted here or, with rows from `on_device.py`, elsewhere; the default generator, MWEM, independent
marginals and "answer 0" are fitted here, from the same records and at the same budget.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import fidelity
from data_folder import DATA
from fidelity_methods import METHODS
from network_runs import PAPER, POPULAR, Job, Row, load_data
from paper_figures import Network, mean, network_job, pyplot, read_rows, rows_of, run_here

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


def smallest(config: Comparison, data: str, network: Network) -> Comparison:
    """The same in seconds: one network for a few steps, two other methods, few queries."""
    others = ("independent", "answer 0")
    return replace(config, data=data, networks=(network,), epsilons=(1.0,), others=others, steps=5, queries=20)


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
    if measured is None:
        return run_here(wanted, DATA) + other_rows(config)
    rows = rows_of(wanted, measured)
    others = [row for row in read_rows(measured) if row["data"] == config.data and label_of(row) in config.others]
    left = tuple(method for method in config.others if method not in {label_of(row) for row in others})
    return rows + others + (other_rows(replace(config, others=left)) if left else [])


def label_of(row: Row) -> str:
    """The method of a row."""
    return str(row["name"]).rsplit(", epsilon", 1)[0]


def other_rows(config: Comparison) -> list[Row]:
    """The methods beside the networks, scored by the same queries."""
    records, _ = load_data(config.data, DATA)
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
            row |= {name: f"{found[name]:.4f}" for name in (*POPULAR, *PAPER, "lengths")} | {
                "fit_s": f"{seconds:.1f}"
            }
            rows.append(row)
            print(row, flush=True)
    return rows


def plot(rows: Sequence[Row], title: str) -> Any:
    """One column per epsilon: the paper's queries above, popular ones below."""
    plt = pyplot()
    epsilons = sorted({float(row["epsilon"]) for row in rows})
    figure, axes = plt.subplots(2, len(epsilons), figsize=(5.2 * len(epsilons), 8), squeeze=False)
    labels = list(dict.fromkeys(label_of(row) for row in rows))
    colours = plt.get_cmap("tab20").colors
    for column, epsilon in enumerate(epsilons):
        for number, label in enumerate(labels):
            of_label = [row for row in rows if label_of(row) == label]
            chosen = [row for row in of_label if float(row["epsilon"]) == epsilon or label == "answer 0"]
            if not chosen:
                continue
            look = {"linestyle": "--" if label in OTHERS else "-", "color": colours[number % 20], "label": label}
            for line, names in enumerate((PAPER, POPULAR)):
                values = [max(mean(chosen, name), 1e-5) for name in names]
                axes[line][column].plot(range(len(names)), values, marker="o", ms=3, **look)
        axes[0][column].set(title=f"{title}, epsilon = {epsilon:g}", xlabel="longest random query, % of max |x|")
        axes[0][column].set_xticks(range(5), ("20", "40", "60", "80", "100"))
        axes[1][column].set(xlabel="items of a popular query")
        axes[1][column].set_xticks(range(4), ("1", "2", "3", "4"))
        for line in (0, 1):
            axes[line][column].set(ylabel="mean relative error", yscale="log")
    figure.tight_layout()
    handles, names = axes[0][0].get_legend_handles_labels()
    figure.legend(handles, names, fontsize=8, loc="center left", bbox_to_anchor=(1.0, 0.5))
    return figure
