"""Processor seconds, peak memory and stages of default fits: simulated call records (400,000 x 1303), retail and msweb.

The real data sets are taken from the folder DPGM_DATA (retail/retail.csv.gz, cut to its 1,000 most frequent items, and
msweb/anonymous-msweb.data.gz); the names of those that are not there are printed. One thread; the seconds are those
of the processor. `--quick` takes 40,000 call records.
"""

import argparse
import json
import os
import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch

import dpgm
from dpgm.data.domain import Domain, ItemSet
from dpgm.data.records import Records


def data_sets(quick: bool) -> dict[str, Callable[[], Records]]:
    """What there is to fit."""
    folder = Path(os.environ.get("DPGM_DATA", "/nowhere"))
    real = {
        "msweb": (folder / "msweb/anonymous-msweb.data.gz", web_log),
        "retail": (folder / "retail/retail.csv.gz", most_frequent),
    }
    found: dict[str, Callable[[], Records]] = {}
    for name, (path, read) in real.items():
        if path.is_file():
            found[name] = lambda path=path, read=read: read(path)  # type: ignore[misc]
        else:
            print(f"{name}: {path} is not there")
    found["cdr"] = lambda: dpgm.simulate_cdr(40_000 if quick else 400_000, seed=0)
    return found


def web_log(path: Path) -> Records:
    """A log that a script of the experiments converts."""
    sys.path.insert(0, str(Path(__file__).parents[1] / "experiments"))
    from web_logs import read_web_log

    return read_web_log(path)


def most_frequent(path: Path, items: int = 1000) -> Records:
    """Baskets cut to their most frequent items."""
    whole = dpgm.read_records(path, shape="basket", assume_public_items=True)
    labels = whole.domain.fields[0].items  # type: ignore[union-attr]
    ranked = np.bincount(whole.indices, minlength=whole.width).argsort(kind="stable")[::-1]
    domain = Domain((ItemSet("items", tuple(labels[at] for at in np.sort(ranked[:items]))),))
    return dpgm.read_records(path, shape="basket", domain=domain)


def measure(records: Records) -> dict[str, float]:
    """One fit: processor seconds up to the end of the measurements, and of all."""
    start = time.process_time()
    ends: dict[str, float] = {}

    def progress(stage: str, done: int, total: int) -> None:
        ends[stage] = time.process_time() - start

    dpgm.Synthesizer(epsilon=1.0, device="cpu").fit(records, progress=progress)
    return {
        "records": len(records),
        "positions": records.width,
        "measure_seconds": round(ends.get("measure", 0.0), 1),
        "seconds": round(time.process_time() - start, 1),
        "peak_megabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
    }


def main() -> None:
    """Fit each data set once."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only", help="one data set: msweb, retail or cdr")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    dpgm.Synthesizer(epsilon=1.0, device="cpu").fit(dpgm.simulate_transit(2000, seed=1))  # compile
    rows = {}
    for name, read in data_sets(options.quick).items():
        if options.only in (None, name):
            rows[name] = measure(read())
            print(name, rows[name], flush=True)
    if options.json is not None:
        options.json.write_text(json.dumps(rows))


if __name__ == "__main__":
    main()
