"""Noise and Poisson samples against torch's own generators, one thread, interleaved; prints medians and ratios."""

import argparse
import json
import os
import statistics
import time
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch

from dpgm.mechanisms.gaussian import add_noise
from dpgm.mechanisms.query import Query
from dpgm.mechanisms.randomness import SystemRandomness
from dpgm.mechanisms.sampling import poisson_sample


def interleaved(contenders: dict, repeats: int, wait: object) -> dict[str, float]:
    """Median milliseconds of each, one call of each in turn, after a warm-up call."""
    times: dict[str, list[float]] = {name: [] for name in contenders}
    for turn in range(repeats + 1):
        for name, call in contenders.items():
            start = time.perf_counter()
            call()
            wait()
            if turn:
                times[name].append(1000 * (time.perf_counter() - start))
    return {name: statistics.median(values) for name, values in times.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer repetitions")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    parser.add_argument("--device", default="cpu")
    options = parser.parse_args()
    torch.set_num_threads(1)
    device, repeats = torch.device(options.device), 15 if options.quick else 60
    wait = torch.cuda.synchronize if device.type == "cuda" else lambda: None
    source = SystemRandomness()

    count = 1_000_000
    plain, sums = torch.empty(count, device=device), torch.zeros(count, device=device)
    floats = Query(lambda view: sums, 1.0, (count,))
    counts, integers = torch.zeros(count, dtype=torch.int64), Query(lambda view: counts, 1.0, (count,), grid=1e-4)
    rows, rate, step = 4_400_000, 1e-3, iter(range(10**9))
    milliseconds = interleaved(
        {
            "torch normal_, a million float32": plain.normal_,
            "float noise added and rounded to the grid, a million": lambda: add_noise(sums, floats, 1.0, source),
            "exact integer noise, a million": lambda: add_noise(counts, integers, 50.0, source),
            "Poisson sample of 4.4 million rows by a torch mask": lambda: torch.nonzero(torch.rand(rows) < rate),
            "Poisson sample of 4.4 million rows by gaps": lambda: poisson_sample(
                rows, rate, step=next(step), randomness=source
            ),
        },
        repeats,
        wait,
    )
    names = list(milliseconds)
    for name, value in milliseconds.items():
        print(f"{value:9.3f} ms  {name}")
    ratios = {
        "float noise / torch normal_": milliseconds[names[1]] / milliseconds[names[0]],
        "Poisson by gaps / by mask": milliseconds[names[4]] / milliseconds[names[3]],
    }
    for name, value in ratios.items():
        print(f"{value:9.3f}     {name}")
    print(f"randomness: {', '.join(sorted(source.names_used))}")
    if options.json:
        figures = {"milliseconds": milliseconds, "ratios": ratios, "randomness": sorted(source.names_used)}
        options.json.write_text(json.dumps(figures, indent=2) + "\n")


if __name__ == "__main__":
    main()
