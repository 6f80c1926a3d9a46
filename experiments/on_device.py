"""Run a list of jobs where there is a GPU, with torch and numpy alone; one CSV row per job.

    PYTHONPATH=src python3 experiments/on_device.py jobs.json OUT [--data FOLDER] [--workers 6] [--seconds 480]

`jobs.json` holds a list of `network_runs.Job` values with plans made elsewhere (`--jobs` of the figures' scripts writes
them); `FOLDER` holds .npz files of real data (`on_device.py --pack FOLDER` makes them from the shared data). A step
keeps a GPU busy for a fraction of its time, so several jobs run side by side; none is started after the limit of time.
"""

import argparse
import csv
import json
import multiprocessing
import time
import traceback
from pathlib import Path
from typing import Any

import numpy as np
from data_folder import DATA
from network_runs import Job, Workload, load_data, run_job

SHOWN = ("pop1", "pop2", "pop3", "pop4", "paper20", "paper100", "lengths", "accuracy", "fit_s", "score_s")


def pack(folder: Path) -> None:
    """Real data as .npz files that need numpy alone: msweb and binarised MNIST."""
    import fidelity_data
    import fidelity_images

    folder.mkdir(parents=True, exist_ok=True)
    fidelity_data.store("msweb", DATA, folder)
    parts = {}
    for part, name in (("train", "train"), ("test", "t10k")):
        dense = fidelity_images.load(name, DATA / "mnist").to_dense(np.uint8)
        parts |= {f"{part}_images": np.packbits(dense[:, :784], axis=1), f"{part}_labels": dense[:, 784:].argmax(1)}
    np.savez_compressed(folder / "mnist.npz", **{name: value.astype(np.uint8) for name, value in parts.items()})


def work(jobs: Any, results: Any, data: dict[str, Any], device: str, deadline: float) -> None:
    """Take jobs until there are none left or the time is up."""
    workloads: dict[str, Workload | None] = {}
    while time.monotonic() < deadline:
        job = jobs.get()
        if job is None:
            break
        try:
            records, test = data[job.data]
            if job.data not in workloads:
                workloads[job.data] = None if job.data == "mnist" else Workload.of(records, device)
            results.put((job, *run_job(job, records, test, workloads[job.data], device)))
        except Exception:
            results.put((job, None, traceback.format_exc()))
    results.put(None)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("jobs", type=Path, nargs="?")
    parser.add_argument("out", type=Path, nargs="?")
    parser.add_argument("--data", type=Path, default=Path("scratch/device-data"))
    parser.add_argument("--seconds", type=float, default=480.0)
    parser.add_argument("--workers", type=int, default=6)
    parser.add_argument("--processes", type=int, default=16)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--pack", type=Path)
    options = parser.parse_args()
    if options.pack is not None:
        pack(options.pack)
        return
    begun = time.monotonic()
    listed = [Job(**entry) for entry in json.loads(options.jobs.read_text())]
    # Read all data before the workers are forked (which must happen before anything touches the GPU).
    data = {name: load_data(name, options.data, options.processes) for name in sorted({job.data for job in listed})}
    print(f"{len(listed)} jobs; data in {time.monotonic() - begun:.0f} s", flush=True)
    forked = multiprocessing.get_context("fork")
    jobs, results = forked.Queue(), forked.Queue()
    for job in [*listed, *[None] * options.workers]:
        jobs.put(job)
    arguments = (jobs, results, data, options.device, begun + options.seconds)
    workers = [forked.Process(target=work, args=arguments, daemon=True) for _ in range(options.workers)]
    for worker in workers:
        worker.start()
    writer, grids, left = None, {}, options.workers
    with (options.out / "rows.csv").open("w", newline="") as file:
        while left:
            done = results.get()
            if done is None:
                left -= 1
                continue
            job, row, more = done
            if row is None:
                print(job.name, more, flush=True)
                continue
            if writer is None:
                writer = csv.DictWriter(file, list(row))
                writer.writeheader()
            writer.writerow(row)
            file.flush()
            print(f"{time.monotonic() - begun:.0f} s", job.name, *(row[name] for name in SHOWN), flush=True)
            if more is not None:
                grids[f"{job.name} seed {job.seed}".replace(" ", "_")] = more
                np.savez_compressed(options.out / "grids.npz", **grids)


if __name__ == "__main__":
    main()
