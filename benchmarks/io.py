"""Reading and writing: seconds, records a second and peak memory, on one core.

Every task runs in a process of its own, so that its peak memory is its own; tasks are interleaved over the rounds and
medians reported, with processor seconds beside wall seconds (on a busy machine trust the former). "arrow alone" decodes
the same Parquet file with pyarrow and keeps nothing: the floor for reading it.
"""

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

FULL, QUICK = 4_427_486, 150_000


def work(task: str, folder: Path, records: int) -> None:
    """One task, in this process; prints seconds and peak memory."""
    import pyarrow as pa

    from dpgm.data.domain import Domain
    from dpgm.data.read.readers import read_records
    from dpgm.data.simulate import CDR, simulated_blocks, town_domain
    from dpgm.data.writers import RecordWriter

    pa.set_cpu_count(1)
    pa.set_io_thread_count(1)
    start, worked = time.perf_counter(), time.process_time()
    domain = town_domain(CDR)
    basket, long, dat = folder / "basket.parquet", folder / "long.csv", folder / "basket.dat"
    if task == "simulate and write parquet":
        with RecordWriter(basket, domain) as writer:
            for block in simulated_blocks(CDR, records, 0):
                writer.write(block)
    elif task == "write long csv, rows shuffled":
        _write_shuffled(read_records(basket, domain=domain), long)
    elif task == "write FIMI":
        with RecordWriter(dat, domain) as writer:
            writer.write(read_records(basket, domain=domain))
    elif task == "arrow alone":
        import pyarrow.parquet as pq

        with pq.ParquetFile(basket) as file:
            for _ in file.iter_batches(batch_size=65_536, use_threads=False):
                pass
    elif task == "read parquet baskets":
        assert len(read_records(basket, domain=domain)) == records
    elif task == "read parquet, items assumed public":
        assert len(read_records(basket, assume_public_items=True)) == records
    elif task == "read FIMI":
        assert len(read_records(dat, domain=domain)) == records
    elif task == "read long csv, rows shuffled":
        assert len(read_records(long, domain=Domain.of_items(CDR.places), person="person", item="item")) == records
    else:
        raise SystemExit(f"unknown task {task}")
    seconds, cpu = time.perf_counter() - start, time.process_time() - worked
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps({"seconds": seconds, "cpu_seconds": cpu, "peak_mb": peak}))


def _write_shuffled(records: object, path: Path) -> None:
    """Long rows with each person's rows scattered over the whole file."""
    import numpy as np

    persons = np.repeat(np.arange(len(records), dtype=np.int32), records.lengths)
    order = np.random.default_rng(0).permutation(len(persons))
    with open(path, "w") as file:
        file.write("person,item\n")
        for part in np.array_split(order, max(1, len(order) // 1_000_000)):
            pairs = zip(persons[part].tolist(), records.indices[part].tolist(), strict=True)
            file.write("".join(f"{person},{item}\n" for person, item in pairs))


TASKS = [
    "read parquet baskets",
    "arrow alone",
    "read parquet, items assumed public",
    "read FIMI",
    "read long csv, rows shuffled",
]
SETUP = ["simulate and write parquet", "write long csv, rows shuffled", "write FIMI"]


def in_process(task: str, folder: Path, records: int) -> dict[str, float]:
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, __file__, "--task", task, "--folder", str(folder), "--records", str(records)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return dict(json.loads(done.stdout.splitlines()[-1]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="150,000 records, one round")
    parser.add_argument("--json", metavar="FILE", help="also write the figures here")
    parser.add_argument("--device", default="cpu", help="ignored: reading uses the processor")
    parser.add_argument("--rounds", type=int, help="interleaved rounds (default 3, quick 1)")
    parser.add_argument("--records", type=int)
    parser.add_argument("--task", help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    records = options.records or (QUICK if options.quick else FULL)
    if options.task:
        work(options.task, options.folder, records)
        return
    rounds = options.rounds or (1 if options.quick else 3)
    figures: dict[str, list[dict[str, float]]] = {}
    with tempfile.TemporaryDirectory() as folder:
        for task in SETUP:
            figures[task] = [in_process(task, Path(folder), records)]
        for _ in range(rounds):
            for task in TASKS:
                figures.setdefault(task, []).append(in_process(task, Path(folder), records))
        sizes = {path.name: path.stat().st_size for path in Path(folder).iterdir()}
    floor = statistics.median(run["cpu_seconds"] for run in figures["arrow alone"])
    result = {"records": records, "rounds": rounds, "file_bytes": sizes, "tasks": {}}
    print(f"{records:,} simulated cdr records, median of {rounds} round(s), one core")
    print(
        f"{'task':36} {'seconds':>8} {'cpu s':>8} {'records/s':>12} {'a cpu s':>12} {'peak MB':>8} {'x arrow':>8}"
    )
    for task, runs in figures.items():
        seconds = statistics.median(run["seconds"] for run in runs)
        peak = max(run["peak_mb"] for run in runs)
        cpu = statistics.median(run["cpu_seconds"] for run in runs)
        print(
            f"{task:36} {seconds:8.2f} {cpu:8.2f} {records / seconds:12,.0f} {records / cpu:12,.0f} {peak:8.0f}"
            f" {cpu / floor:8.2f}"
        )
        result["tasks"][task] = {
            "seconds": seconds,
            "cpu_seconds": cpu,
            "records_per_second": records / seconds,
            "records_per_cpu_second": records / cpu,
            "peak_mb": peak,
        }
    if options.json:
        Path(options.json).write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
