"""Fits of simulated call records (4.43 million x 1303) on a GPU machine that has torch and numpy alone.

    python benchmarks/on_gpu.py --plans scratch/plans.json                        where the accountant is
    PYTHONPATH=src python3 benchmarks/on_gpu.py scratch/plans.json --csv FILE     on the GPU machine

Simulates the records and writes them to a file (CSR arrays, .npz). Then, by the clock: the default fit from that file
to a file of its parameters; the paper's preset with k = 10 and 20 epochs of batches of 4096, k-means included; and the
training loop beside a bare loop of its matrix products (the same shapes and precision, in a CUDA graph: no private
rows, no norms, no noise, no optimiser). Noise comes from a fixed seed, so nothing made here is private.
"""

import argparse
import csv
import json
import multiprocessing
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from dpgm.data import simulate
from dpgm.data.records import Records, concatenate
from dpgm.mechanisms.gateway import Gateway
from dpgm.mechanisms.randomness import SeededRandomness
from dpgm.networks.private_sgd import Trainer, TrainingSettings
from dpgm.networks.rules import NetworkSettings
from dpgm.networks.vae import VAE
from dpgm.privacy.events import Mechanism
from dpgm.strategy.protocol import RunContext
from dpgm.strategy.settings import Settings
from dpgm.synthesis.plan import Plan
from dpgm.synthesis.strategies import fit_generator, strategy_of

EPOCHS, BATCH, CLUSTERS = 20, 4096, 10
BATCHES = (4096, 32768)


def write_plans(path: Path, records: int) -> None:
    """The two plans, calibrated."""
    from dpgm.privacy.calibration import calibrate
    from dpgm.strategy.protocol import PublicFacts
    from dpgm.strategy.settings import Config, default_delta
    from dpgm.synthesis.plan import budget_of, choose_settings, make_plan

    domain = simulate.town_domain(simulate.CDR)
    config = Config(1.0, None, CLUSTERS, "vae", "paper")
    facts = PublicFacts(domain, records, 1.0, default_delta(records))
    settings = choose_settings(config, facts)
    rate = min(1.0, BATCH / records)
    assert isinstance(settings.family, NetworkSettings)
    family = replace(settings.family, sampling_rate=rate, steps=round(EPOCHS / rate))
    settings = replace(settings, family=family)
    budget = budget_of(settings, facts)
    mechanisms = calibrate(1.0, facts.delta, budget.spends, budget.training)
    paper = Plan(1.0, 1.0, facts.delta, records, domain.width, settings, mechanisms)
    default = make_plan(Config(1.0), records, domain)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"default": default.to_json(), "paper": paper.to_json()}))


def read_plan(values: dict[str, Any]) -> Plan:
    """A plan as it stands; it was calibrated where the accountant is."""
    from dpgm.strategy.settings import from_plain

    chosen = values["settings"]
    family = from_plain(strategy_of(chosen["model"]).settings_type, chosen["family"], "settings")
    numbers = [values[name] for name in ("target_epsilon", "epsilon", "delta", "records", "width")]
    mechanisms = tuple(Mechanism(**entry) for entry in values["mechanisms"])
    return Plan(*numbers, Settings(chosen["model"], chosen["preset"], family), mechanisms)


def block(number: int) -> Records:
    """One block of simulated people."""
    town = simulate.CDR
    return simulate.simulated_block(town, number)


def write_records(records: int, path: Path, processes: int) -> None:
    """The simulated records as CSR arrays."""
    with multiprocessing.get_context("fork").Pool(processes) as pool:
        parts = pool.map(block, range(-(-records // simulate.PEOPLE_AT_ONCE)), chunksize=1)
    whole = concatenate(parts).rows(0, records)
    np.savez(path, indptr=whole.indptr, indices=whole.indices)


def fit(path: Path, plan: Plan, device: str, out: Path) -> dict[str, float]:
    """Clock seconds from the file of records to the file of parameters, stage by stage."""
    start = time.perf_counter()
    ends: dict[str, float] = {}

    def progress(stage: str, done: int, total: int) -> None:
        if done == total:
            ends[f"{stage}_until"] = time.perf_counter() - start

    with np.load(path) as stored:
        records = Records(simulate.town_domain(simulate.CDR), stored["indptr"], stored["indices"])
    ends["read_until"] = time.perf_counter() - start
    gateway = Gateway(records, randomness=SeededRandomness(0), allowance=plan.mechanisms)
    draws = torch.Generator().manual_seed(0)
    context = RunContext(device, progress)
    generator = fit_generator(gateway, plan, records.domain, draws=draws, context=context)
    np.savez(out, **{name: tensor.cpu().numpy() for name, tensor in generator.state().items()})
    return ends | {"seconds": time.perf_counter() - start}


def rate_of(run: Callable[[int], None], batch: int, device: str, steps: int) -> float:
    """Records per second, of the fastest of five runs."""

    def wait() -> None:
        if device == "cuda":
            torch.cuda.synchronize()

    run(min(20, steps))
    wait()
    best = float("inf")
    for _ in range(5):
        start = time.perf_counter()
        run(steps)
        wait()
        best = min(best, (time.perf_counter() - start) / steps)
    return batch / best


def training(records: Records, batch: int, device: str) -> Callable[[int], None]:
    """Private steps of one network."""
    settings = TrainingSettings(10**9, batch / len(records), 4.8, 1.1, len(records))
    gateway = Gateway(records, randomness=SeededRandomness(0))
    draws = torch.Generator().manual_seed(0)
    return Trainer(gateway, VAE(records.domain, (200,), 2), settings, generator=draws, device=device).run


def bare_products(width: int, batch: int, device: str, hidden: int = 200, latent: int = 2) -> Callable[[int], None]:
    """The matrix products of a training step of that network: forward, and back to weights and inputs."""

    def matrix(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, device=device)

    x, into, heads = matrix(batch, width), matrix(width, hidden), matrix(hidden, 2 * latent)
    points, decoder, out = matrix(batch, latent), matrix(latent, hidden), matrix(hidden, width)

    def step() -> None:
        h = x @ into
        m = h @ heads
        g = points @ decoder
        logits = g @ out
        _ = g.T @ logits  # gradients of the last layer, and so on backwards
        dg = logits @ out.T
        _ = points.T @ dg
        _ = dg @ decoder.T
        _ = h.T @ m
        dh = m @ heads.T
        _ = x.T @ dh

    if device != "cuda":
        return lambda steps: [step() for _ in range(steps)] and None  # type: ignore[return-value]
    step()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()

    def run(steps: int) -> None:
        for _ in range(steps):
            graph.replay()

    return run


def main() -> None:
    """Make the plans, or run everything."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("plans", type=Path, nargs="?")
    parser.add_argument("--plans", dest="write", type=Path)
    parser.add_argument("--records", type=int, default=simulate.CDR.records)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--processes", type=int, default=16)
    parser.add_argument("--steps", type=int, default=300, help="timed steps of the training loop")
    parser.add_argument("--csv", type=Path)
    options = parser.parse_args()
    if options.write is not None:
        write_plans(options.write, options.records)
        return
    plans = {name: read_plan(values) for name, values in json.loads(options.plans.read_text()).items()}
    rows: list[tuple[str, str, float]] = []

    def note(what: str, figure: str, value: float) -> None:
        rows.append((what, figure, round(value, 3)))
        print(*rows[-1], flush=True)

    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "records.npz"
        start = time.perf_counter()
        write_records(plans["default"].records, file, options.processes)
        note("simulation", "seconds", time.perf_counter() - start)
        for name in ("default", "default, again", "paper"):
            plan = plans[name.split(",")[0]]
            for figure, value in fit(file, plan, options.device, Path(folder) / "parameters.npz").items():
                note(f"{name} fit", figure, value)
        with np.load(file) as stored:
            records = Records(simulate.town_domain(simulate.CDR), stored["indptr"], stored["indices"])
    for batch in BATCHES:
        batch = min(batch, len(records))
        private = rate_of(training(records, batch, options.device), batch, options.device, options.steps)
        bare = rate_of(bare_products(records.width, batch, options.device), batch, options.device, options.steps)
        note(f"training, batch {batch}", "records per second", private)
        note(f"bare products, batch {batch}", "records per second", bare)
        note(f"training / bare products, batch {batch}", "ratio", private / bare)
    if options.csv is not None:
        options.csv.parent.mkdir(parents=True, exist_ok=True)
        with options.csv.open("w", newline="") as table:
            writer = csv.writer(table)
            writer.writerow(["what", "figure", "value"])
            writer.writerows(rows)


if __name__ == "__main__":
    main()
