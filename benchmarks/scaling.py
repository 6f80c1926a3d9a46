"""Cost of fits against the number of records, for each family, and the throughput of several processes against one.

    python benchmarks/scaling.py --csv benchmarks/results/scaling.csv --plot docs/pictures/scaling.png
    python benchmarks/scaling.py --processes 2 --csv benchmarks/results/processes.csv

Against N: simulated transit data (342 stations, about 5 per passenger); for `image`, random pictures of 28 x 28.
Processor seconds of one thread, without reading: they depend far less than wall time on what else the machine does.
Every fit runs in its own process, after a small one that loads and compiles everything. 100,000 to 4.4 million records,
with `--quick` 10,000 to 40,000; `--families products,vae` and `--sizes` choose. With `--steps` networks are trained for
fewer steps than the 2,000 of their plan, and the seconds of training are scaled up to those. Rows are added to the
table as they are measured; slope of log cost over log records and plot are made from the whole table.

Processes: simulated call records (1303 towers), single-threaded processes joined as by torchrun, each with its share of
the rows: the statistics of a default fit, and training steps of a VAE at batch 4096; then the same steps by processes
that do not talk to each other, which is what the machine itself allows. One process and the group take turns, and
medians over the rounds are compared: of wall time, which means something on free cores alone, and of the processor
seconds of the busiest process.
"""

import argparse
import contextlib
import csv
import json
import multiprocessing
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

FAMILIES = ("independent", "mwem", "products", "rbm", "vae", "image")
SIZES, QUICK = (100_000, 400_000, 1_600_000, 4_400_000), (10_000, 20_000, 40_000)
LARGEST_SLOPE, LEAST_RATIO = 1.05, 1.7
COLUMNS = ("family", "records", "steps", "measured_seconds", "training_seconds", "processor_seconds")
BATCH, TRAINED, PORT = 4096, 60, 29_517
STATISTICS, TRAINING, APART = "statistics", "training", "training, apart"


# -- cost against the number of records ---------------------------------------------------------------------------


def measured(family: str, records: int, steps: int | None) -> dict[str, Any]:
    """One fit, in a process of its own."""
    started = [sys.executable, __file__, "--one", family, str(records), str(steps or 0)]
    said = subprocess.run(started, check=True, stdout=subprocess.PIPE, text=True).stdout
    found: dict[str, Any] = json.loads(said)
    return found


def fit_once(family: str, records: int, steps: int) -> None:
    """In the process of one fit: a small fit, then the one that counts."""
    import torch

    import dpgm
    from dpgm.strategy.settings import Config
    from dpgm.synthesis.plan import make_plan

    torch.set_num_threads(1)
    network = family in ("vae", "rbm")
    found: dict[str, Any] = {}
    for count in (2000, records):
        rows = pictures(count) if family == "image" else dpgm.simulate_transit(count, seed=0)
        config = Config(1.0, None, 1 if network else None, family)
        plan = make_plan(config, count, rows.domain)
        full = getattr(plan.settings.family, "steps", 0)
        if network and steps:
            plan = shortened(config, count, rows.domain, steps)
        times: dict[str, float] = {}
        start = time.process_time()

        def progress(stage: str, done: int, total: int, times: dict[str, float] = times) -> None:
            times.setdefault(f"{stage} begins", time.process_time())
            times[f"{stage} ends"] = time.process_time()

        clusters = 1 if network else None
        made = dpgm.Synthesizer(epsilon=1.0, model=family, clusters=clusters, device="cpu")
        made.fit(rows, plan=plan, progress=progress)
        taken = time.process_time() - start
        # The first step has been made when training reports for the first time.
        training = times.get("train ends", 0.0) - times.get("train begins", 0.0)
        run = min(steps, full) if network and steps else full
        whole = taken if not network else taken - training + training * (full - 1) / max(run - 1, 1)
        found = {"steps": run if network else "", "measured_seconds": taken, "training_seconds": training}
        found["processor_seconds"] = whole
    print(json.dumps(found))


def shortened(config: Any, records: int, domain: Any, steps: int) -> Any:
    """A plan of fewer steps, calibrated as such."""
    from dpgm.privacy.accountant import cost
    from dpgm.privacy.calibration import calibrate
    from dpgm.strategy.protocol import PublicFacts
    from dpgm.strategy.settings import default_delta
    from dpgm.synthesis.plan import Plan, budget_of, choose_settings

    facts = PublicFacts(domain, records, config.epsilon, default_delta(records))
    settings = choose_settings(config, facts)
    settings = replace(settings, family=replace(settings.family, steps=steps))
    budget = budget_of(settings, facts)
    mechanisms = calibrate(config.epsilon, facts.delta, budget.spends, budget.training)
    spent = cost(mechanisms, facts.delta).epsilon
    return Plan(config.epsilon, spent, facts.delta, records, domain.width, settings, mechanisms)


def pictures(count: int) -> Any:
    """Random pictures, made block by block."""
    from dpgm.data.domain import Domain, Image
    from dpgm.data.records import Records, concatenate

    random, domain = np.random.default_rng(0), Domain((Image("image", 28, 28),))
    sizes = [min(10_000, count - start) for start in range(0, count, 10_000)]
    blocks = (random.random((size, 784), dtype=np.float32) < 0.13 for size in sizes)
    return concatenate([Records.from_dense(block, domain) for block in blocks])


def slope(records: Sequence[int], seconds: Sequence[float]) -> float:
    """Least squares slope of log seconds over log records."""
    return float(np.polyfit(np.log(records), np.log(seconds), 1)[0])


def draw(table: Path, picture: Path) -> None:
    """Both axes logarithmic; a straight line of slope 1 is cost linear in N."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(6, 4.5))
    for family, (records, seconds) in read_table(table).items():
        name = f"{family}, slope {slope(records, seconds):.2f}" if len(records) > 1 else family
        axes.loglog(records, seconds, "o-", label=name)
    axes.set_xlabel("records")
    axes.set_ylabel("processor seconds of a fit, one thread")
    axes.grid(alpha=0.3, which="both")
    axes.legend()
    figure.tight_layout()
    picture.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(picture, dpi=120)


def read_table(table: Path) -> dict[str, tuple[list[int], list[float]]]:
    """Records and seconds of every family, as measured last."""
    found: dict[str, dict[int, float]] = {}
    with table.open(newline="") as file:
        for row in csv.DictReader(file):
            found.setdefault(row["family"], {})[int(row["records"])] = float(row["processor_seconds"])
    return {family: (sorted(by), [by[size] for size in sorted(by)]) for family, by in found.items()}


def add_row(table: Path, columns: Sequence[str], row: dict[str, Any]) -> None:
    """Append to a table, with its heading if it is new."""
    fresh = not table.exists()
    table.parent.mkdir(parents=True, exist_ok=True)
    with table.open("a", newline="") as file:
        writer = csv.DictWriter(file, columns)
        if fresh:
            writer.writeheader()
        writer.writerow(
            {name: round(value, 4) if isinstance(value, float) else value for name, value in row.items()}
        )


def against_records(options: argparse.Namespace) -> None:
    """Measure, print, write."""
    sizes = QUICK if options.quick else SIZES
    if options.sizes is not None:
        sizes = tuple(int(size) for size in options.sizes.split(","))
    families = [] if options.families == "none" else options.families.split(",")
    for family in families:
        seconds = []
        for size in sizes:
            row = {"family": family, "records": size} | measured(family, size, options.steps)
            seconds.append(float(row["processor_seconds"]))
            print(row, flush=True)
            if options.csv is not None:
                add_row(options.csv, COLUMNS, row)
        if len(sizes) > 1:
            steep = slope(sizes, seconds)
            print(f"{family}: slope {steep:.2f}{'' if steep <= LARGEST_SLOPE else ' (ABOVE 1.05)'}", flush=True)
    if options.plot is not None:
        draw(options.csv, options.plot)


# -- several processes ------------------------------------------------------------------------------------------------


def start(rank: int, processes: int, *work_on: Any) -> None:
    """One of the processes, on its own cores."""
    from dpgm.kernels import process_group

    with process_group.own_cores(rank, processes):
        work(rank, processes, *work_on)


def work(rank: int, processes: int, file: str, plans: Path | None, orders: Any) -> None:
    """Take orders, and answer each with wall and processor seconds of one's part of the work."""
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(PORT), "RANK": str(rank), "OMP_NUM_THREADS": "1"}
    import on_gpu
    import torch
    import torch.distributed

    from dpgm.data import simulate
    from dpgm.data.records import Records
    from dpgm.kernels import parallel
    from dpgm.mechanisms.gateway import Gateway
    from dpgm.mechanisms.randomness import SystemRandomness
    from dpgm.networks.private_sgd import Trainer, TrainingSettings
    from dpgm.networks.vae import VAE
    from dpgm.products.strategy import measure
    from dpgm.strategy.settings import Config
    from dpgm.synthesis.plan import make_plan

    torch.set_num_threads(1)
    sharing = contextlib.ExitStack()
    if processes > 1:
        torch.distributed.init_process_group("gloo", rank=rank, world_size=processes)
        sharing.enter_context(parallel.sharing())
    with np.load(file) as stored:
        whole = Records(simulate.town_domain(simulate.CDR), stored["indptr"], stored["indices"])
    count = len(whole)
    first, last = count * rank // processes, count * (rank + 1) // processes
    records = whole.rows(first, last)
    if plans is None:
        plan = make_plan(Config(1.0), count, records.domain)
    else:
        plan = on_gpu.read_plan(json.loads(plans.read_text())["default"])
    took = [0.0, 0.0]  # wall and processor seconds within releases

    class Timed(Gateway):
        def release(self, *arguments: Any) -> Any:
            if processes > 1:
                torch.distributed.barrier()
            wall, processor = time.perf_counter(), time.process_time()
            answer = super().release(*arguments)
            took[0] += time.perf_counter() - wall
            took[1] += time.process_time() - processor
            return answer

    def statistics(rows: Records) -> tuple[float, float]:
        took[:] = [0.0, 0.0]
        gateway = Timed(rows, randomness=SystemRandomness(), first_row=first)
        measure(gateway, rows.domain, count, plan.noises, plan.settings.family.rules)  # type: ignore[attr-defined]
        return took[0], took[1]

    gateway = Gateway(records, randomness=SystemRandomness(), first_row=first)
    settings = TrainingSettings(10**6, BATCH / count, 4.8, 1.1, count)
    draws = torch.Generator().manual_seed(0)
    trainer = Trainer(gateway, VAE(records.domain, (200,), 8), settings, generator=draws)

    def training() -> tuple[float, float]:
        trainer.run(3)
        wall, processor = time.perf_counter(), time.process_time()
        trainer.run(TRAINED)
        return time.perf_counter() - wall, time.process_time() - processor

    statistics(records.rows(0, 1000))
    orders.send(None)
    while (order := orders.recv()) is not None:
        orders.send(statistics(records) if order == STATISTICS else training())
        if order == APART and torch.distributed.is_initialized():
            torch.distributed.destroy_process_group()


def several_processes(options: argparse.Namespace) -> None:
    """One process and several, by turns; wall and processor seconds of each round, and the ratios of their medians."""
    from dpgm.data import simulate

    records = options.records or (200_000 if options.quick else 4_400_000)
    spawned = multiprocessing.get_context("spawn")
    groups: dict[int, list[tuple[Any, Any]]] = {}
    with tempfile.TemporaryDirectory() as folder:
        file = f"{folder}/records.npz"
        whole = simulate.simulate_cdr(records, seed=0)
        np.savez(file, indptr=whole.indptr, indices=whole.indices)
        del whole
        for processes in (1, options.processes):
            groups[processes] = []
            for rank in range(processes):
                ours, theirs = spawned.Pipe()
                process = spawned.Process(target=start, args=(rank, processes, file, options.plans, theirs))
                process.start()
                groups[processes].append((process, ours))
            for _, pipe in groups[processes]:
                pipe.recv()
    for name in (STATISTICS, TRAINING, APART):
        if name == APART:  # the last order of the group: it is no group afterwards
            slowest(groups[options.processes], APART)
        rounds = [[slowest(groups[processes], name) for processes in groups] for _ in range(options.rounds)]
        for number, pair in enumerate(rounds):
            for processes, (wall, processor) in zip(groups, pair, strict=True):
                row = {"work": name, "records": records, "round": number, "processes": processes}
                row |= {"wall_seconds": wall, "busiest_processor_seconds": processor}
                if options.csv is not None:
                    add_row(options.csv, tuple(row), row)
        alone, together = (np.median([pair[group] for pair in rounds], axis=0) for group in (0, 1))
        ratios = sorted(pair[0][0] / pair[1][0] for pair in rounds)
        ratio = float(alone[0] / together[0])
        print(
            f"{name}: {ratio:.2f} times the throughput ({ratios[0]:.2f} to {ratios[-1]:.2f} by round), "
            f"{alone[1] / together[1]:.2f} in processor seconds{'' if ratio >= LEAST_RATIO else ' (BELOW 1.7)'}",
            flush=True,
        )
    for group in groups.values():
        for process, pipe in group:
            pipe.send(None)
            process.join()


def slowest(group: Sequence[tuple[Any, Any]], order: str) -> tuple[float, float]:
    """Give the processes of a group one order; the longest wall time and most processor seconds among them."""
    for _, pipe in group:
        pipe.send(order)
    found = [pipe.recv() for _, pipe in group]
    return max(wall for wall, _ in found), max(processor for _, processor in found)


def main() -> None:
    """One of the two measurements."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--families", default=",".join(FAMILIES), help="or none, to draw the table alone")
    parser.add_argument("--sizes", help="numbers of records, separated by commas")
    parser.add_argument("--steps", type=int, help="training steps of networks; the rest of the 2,000 is computed")
    parser.add_argument("--csv", type=Path, help="table to add to")
    parser.add_argument("--plot", type=Path, help="picture of the whole table; needs --csv")
    parser.add_argument("--processes", type=int, help="compare so many processes with one instead")
    parser.add_argument("--records", type=int, help="of the comparison of processes")
    parser.add_argument("--plans", type=Path, help="made by on_gpu.py, for a machine without the accountant")
    parser.add_argument("--rounds", type=int, default=7, help="of the comparison of processes")
    parser.add_argument("--one", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one is not None:
        fit_once(options.one[0], int(options.one[1]), int(options.one[2]))
    elif options.processes is not None:
        several_processes(options)
    else:
        against_records(options)


if __name__ == "__main__":
    main()
