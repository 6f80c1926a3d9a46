"""Cost of fits against the number of records, for each family, and the slope of log cost over log records.

Simulated transit data (342 stations, about 5 per passenger); for `image`, random pictures of 28 x 28. Processor
seconds of one thread, without reading: they depend far less than wall time on what else the machine does. Every fit
runs in its own process, after a small one that loads and compiles everything. 100,000 to 4.4 million records, with
`--quick` 10,000 to 40,000; `--families products,vae` chooses. Writes a table (`--csv`) and a plot (`--plot`).
"""

import argparse
import csv
import json
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

FAMILIES = ("independent", "mwem", "products", "vae", "rbm", "image")
SIZES, QUICK = (100_000, 400_000, 1_600_000, 4_400_000), (10_000, 20_000, 40_000)
LARGEST_SLOPE = 1.05


def measured(family: str, records: int) -> float:
    """Processor seconds of one fit, in a process of its own."""
    started = [sys.executable, __file__, "--one", family, str(records)]
    said = subprocess.run(started, check=True, capture_output=True, text=True).stdout
    return float(json.loads(said)["seconds"])


def fit_once(family: str, records: int) -> None:
    """In the process of one fit: a small fit, then the one that counts."""
    import torch

    import dpgm
    from dpgm.data.domain import Domain, Image
    from dpgm.data.records import Records

    torch.set_num_threads(1)

    def data(count: int) -> Records:
        if family != "image":
            return dpgm.simulate_transit(count, seed=0)
        on = np.random.default_rng(0).random((count, 784)) < 0.13
        return Records.from_dense(on, Domain((Image("image", 28, 28),)))

    clusters = 1 if family in ("vae", "rbm") else None
    taken = 0.0
    for count in (2000, records):
        rows = data(count)
        start = time.process_time()
        dpgm.Synthesizer(epsilon=1.0, model=family, clusters=clusters, device="cpu").fit(rows)
        taken = time.process_time() - start
    print(json.dumps({"seconds": taken}))


def slope(records: Sequence[int], seconds: Sequence[float]) -> float:
    """Least squares slope of log seconds over log records."""
    return float(np.polyfit(np.log(records), np.log(seconds), 1)[0])


def draw(found: dict[str, list[float]], sizes: Sequence[int], path: Path) -> None:
    """Both axes logarithmic; a straight line of slope 1 is cost linear in N."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(6, 4.5))
    for family, seconds in found.items():
        axes.loglog(sizes, seconds, "o-", label=f"{family}, slope {slope(sizes, seconds):.2f}")
    axes.set_xlabel("records")
    axes.set_ylabel("processor seconds of a fit, one thread")
    axes.grid(alpha=0.3, which="both")
    axes.legend()
    figure.tight_layout()
    figure.savefig(path, dpi=120)


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--families", default=",".join(FAMILIES))
    parser.add_argument("--sizes", help="numbers of records, separated by commas")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--csv", type=Path)
    parser.add_argument("--plot", type=Path)
    parser.add_argument("--one", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one is not None:
        fit_once(options.one[0], int(options.one[1]))
        return
    sizes = QUICK if options.quick else SIZES
    if options.sizes is not None:
        sizes = tuple(int(size) for size in options.sizes.split(","))
    found: dict[str, list[float]] = {}
    for family in options.families.split(","):
        found[family] = [measured(family, size) for size in sizes]
        steep = slope(sizes, found[family])
        told = ", ".join(f"{size:,}: {took:.1f} s" for size, took in zip(sizes, found[family], strict=True))
        print(f"{family}: {told}; slope {steep:.2f}{'' if steep <= LARGEST_SLOPE else ' (ABOVE 1.05)'}", flush=True)
    if options.csv is not None:
        with options.csv.open("w", newline="") as file:
            table = csv.writer(file)
            table.writerow(["family", "records", "processor_seconds"])
            for family, seconds in found.items():
                table.writerows([family, size, round(took, 2)] for size, took in zip(sizes, seconds, strict=True))
    if options.json is not None:
        options.json.write_text(
            json.dumps({name: dict(zip(sizes, took, strict=True)) for name, took in found.items()})
        )
    if options.plot is not None:
        draw(found, sizes, options.plot)


if __name__ == "__main__":
    main()
