"""What the scripts of the paper's figures share: jobs of networks, results with their configuration, options."""

import argparse
import csv
import dataclasses
import json
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from network_runs import DIGITS, SCORES, Job, Row, Workload, load_data, run_job

import dpgm
from dpgm.data import simulate
from dpgm.data.domain import Domain
from dpgm.strategy.settings import Config
from dpgm.synthesis.plan import make_plan

RESULTS = Path(__file__).parent / "results"
GRIDS = RESULTS / "paper_grids.npz"  # samples of networks of MNIST, by `grid_key`
TRANSIT, CDR = f"transit {simulate.TRANSIT.records}", f"cdr {simulate.CDR.records}"
TW_NY = "tw_ny"
REAL = {"msweb": (32_711, 294), TW_NY: (28_720, 342)}  # records and items, as the fidelity table reads them
DIGITS_DELTA = 1e-5  # the paper's; on other data 1 / (10 N), since the paper's are too weak (erratum E11)


@dataclass(frozen=True)
class Network:
    """A mixture of networks as a method of a figure."""

    label: str
    model: str = "vae"
    clusters: int | None = 10
    hidden: tuple[int, ...] = (200,)
    preset: str = "paper"
    noise: bool = True  # False: the same training with hardly any noise, which is not private


def network_job(
    network: Network, data: str, epsilon: float, seed: int, *, grid: bool = False, steps: int | None = None
) -> Job:
    """The job of one fit, with its plan; `steps` shortens it for a smoke run."""
    plan = _planned(network, data, epsilon, steps)
    name = f"{network.label}, epsilon {epsilon:g}"
    return Job(name, data, plan, seed, {"hidden": list(network.hidden)}, grid)


@cache
def _planned(network: Network, data: str, epsilon: float, steps: int | None) -> dict[str, Any]:
    records, domain = _size(data)
    delta = DIGITS_DELTA if domain is DIGITS else None
    config = Config(epsilon, delta, network.clusters, network.model, network.preset)  # type: ignore[arg-type]
    plan: dict[str, Any] = make_plan(config, records, domain).to_json()
    if steps is not None:
        plan["settings"]["family"]["steps"] = steps
        for mechanism in plan["mechanisms"]:
            mechanism["count"] = steps if mechanism.get("sample") else mechanism["count"]
    if not network.noise:
        plan["mechanisms"] = [mechanism | {"noise": 1e-4} for mechanism in plan["mechanisms"]]
    return plan


def _size(data: str) -> tuple[int, Domain]:
    kind, *size = data.split()
    if kind in ("transit", "cdr"):
        return int(size[0]), simulate.town_domain(simulate.TRANSIT if kind == "transit" else simulate.CDR)
    if kind == "mnist":
        return 60_000, DIGITS
    records, items = REAL[kind]
    return records, Domain.of_items(items)


def run_here(jobs: Sequence[Job], folder: Path, device: str = "auto") -> list[Row]:
    """Rows of all jobs, on this machine; their grids are kept in `GRIDS`."""
    rows, grids = [], {}
    device = device if device != "auto" else "cuda" if torch.cuda.is_available() else "cpu"
    for data in dict.fromkeys(job.data for job in jobs):
        records, test = load_data(data, folder)
        workload = None if data == "mnist" else Workload.of(records, device)
        for job in (job for job in jobs if job.data == data):
            row, grid = run_job(job, records, test, workload, device)
            rows.append(row)
            if grid is not None:
                grids[grid_key(row)] = grid
                np.savez_compressed(GRIDS, **{**read_grids(), **grids})  # type: ignore[arg-type]
            print(*(f"{name}={row[name]}" for name in ("name", "data", "seed", *SCORES) if row[name]), flush=True)
    return rows


def read_grids() -> dict[str, Any]:
    """Samples that were kept, (k, 8, 794) of 0 .. 255."""
    if not GRIDS.exists():
        return {}
    with np.load(GRIDS) as kept:
        return dict(kept)


def grid_key(row: Row) -> str:
    """The name under which a grid of samples is kept."""
    return f"{row['name']} seed {row['seed']}".replace(" ", "_")


def rows_of(jobs: Sequence[Job], measured: Path) -> list[Row]:
    """The rows of these jobs out of a CSV that `on_device.py` has written; what is missing there is told."""
    keys = {(job.name, job.data, str(job.seed)) for job in jobs}
    rows = [row for row in read_rows(measured) if (row["name"], row["data"], row["seed"]) in keys]
    for missing in sorted(keys - {(row["name"], row["data"], row["seed"]) for row in rows}):
        print("not measured:", *missing)
    return rows


def read_rows(path: Path) -> list[Row]:
    """The rows of a CSV."""
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def save(name: str, rows: Sequence[Row], config: Any, figure: Any) -> None:
    """CSV, the PNG, and a JSON of what they were made with."""
    RESULTS.mkdir(exist_ok=True)
    fields = list(dict.fromkeys(field for row in rows for field in row))
    with (RESULTS / f"{name}.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, fields, restval="")
        writer.writeheader()
        writer.writerows(rows)
    commit = subprocess.run(
        ["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=False
    ).stdout.strip()
    made = {"config": dataclasses.asdict(config), "version": dpgm.__version__, "commit": commit}
    seeds = sorted({str(row["seed"]) for row in rows if "seed" in row})
    (RESULTS / f"{name}.json").write_text(json.dumps(made | {"seeds": seeds}, indent=1, default=str) + "\n")
    figure.savefig(RESULTS / f"{name}.png", dpi=110, bbox_inches="tight")


def pyplot() -> Any:
    """matplotlib, without a screen."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    return plt


def mean(rows: Sequence[Row], score: str) -> float:
    """Mean of a score over rows; NaN where none has it."""
    found = [float(row[score]) for row in rows if row.get(score) not in (None, "")]
    return sum(found) / len(found) if found else float("nan")


def main(
    name: str,
    config: Any,
    smoke: Any,
    run: Callable[..., list[Row]],
    plot: Callable[[list[Row]], Any],
    jobs: Callable[[Any], list[Job]] | None = None,
) -> None:
    """`--smoke` writes nothing; `--jobs` writes a list for `on_device.py`, `--rows` reads what that has made."""
    parser = argparse.ArgumentParser(description=f"{name}: see the top of the file")
    parser.add_argument("--smoke", action="store_true", help="seconds, tiny, nothing is written")
    if jobs is not None:
        parser.add_argument(
            "--jobs", type=Path, help="write the fits of networks as a list for on_device.py, and stop"
        )
        parser.add_argument("--rows", type=Path, help="rows of these fits that on_device.py has written")
    options = parser.parse_args()
    chosen = smoke if options.smoke else config
    if jobs is not None and options.jobs is not None:
        listed = [dataclasses.asdict(job) for job in jobs(chosen)]
        options.jobs.write_text(json.dumps(listed) + "\n")
        print(f"{len(listed)} jobs")
        return
    rows = run(chosen) if jobs is None else run(chosen, options.rows)
    figure = plot(rows)
    if not options.smoke:
        save(name, rows, chosen, figure)
    for row in rows:
        print(*(f"{field}={value}" for field, value in row.items() if value != ""), flush=True)
