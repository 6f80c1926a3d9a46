"""Default fits of simulated call records (1303 towers, 11.4 per record) from a folder of Parquet parts to a release.

Every fit is `dpgm fit` in a process of its own: processor and wall seconds, and peak memory as the system counts it
(`ru_maxrss`: what is allocated and what is mapped from files, libraries included). `--address-space` sets a hard limit
on what the process may address; `--memory` is handed on to the fit; `--processes` starts it by torchrun, one thread per
process (then memory is that of the largest process, and seconds are those of all). The data stay in `--folder` for the
next run. The memory that is announced before the fit is kept beside what was measured.

    python benchmarks/large_fit.py --records 20000000 --address-space 4GB --folder /tmp/calls --csv FILE
"""

import argparse
import csv
import json
import multiprocessing
import os
import re
import resource
import shutil
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

from dpgm.data import simulate
from dpgm.data.stores import bytes_of

BLOCKS = 10  # of 50,000 records per part
COLUMNS = (
    *("data", "records", "positions", "processes", "threads", "memory", "address_space"),
    *("wall_seconds", "processor_seconds", "peak_megabytes", "announced_megabytes"),
)


def write_part(number: int, records: int, folder: Path) -> None:
    """One Parquet part, a row group per block; the records are those of `simulate_cdr(records, seed=0)`."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    town = simulate.CDR
    city = simulate.City(town)
    schema = pa.schema([(town.field, pa.list_(pa.int16()))])
    temporary = folder / f"part-{number:05d}.unfinished"
    with pq.ParquetWriter(temporary, schema) as file:
        for block in range(number * BLOCKS, (number + 1) * BLOCKS):
            left = records - block * simulate.PEOPLE_AT_ONCE
            if left <= 0:
                break
            people = simulate.simulated_block(town, block, 0, city)
            people = people.rows(0, min(left, simulate.PEOPLE_AT_ONCE))
            lists = pa.ListArray.from_arrays(people.indptr.astype(np.int32), people.indices.astype(np.int16))
            file.write_table(pa.table([lists], schema=schema))
    temporary.rename(folder / f"part-{number:05d}.parquet")


def simulated(records: int, folder: Path, processes: int) -> Path:
    """The folder of parts, written unless it is there."""
    parts = folder / f"calls-{records}"
    wanted = -(-records // (BLOCKS * simulate.PEOPLE_AT_ONCE))
    if len(list(parts.glob("*.parquet"))) != wanted:
        shutil.rmtree(parts, ignore_errors=True)
        parts.mkdir(parents=True)
        with multiprocessing.get_context("spawn").Pool(processes) as pool:
            pool.starmap(write_part, [(number, records, parts) for number in range(wanted)], chunksize=1)
    domain = folder / "calls.json"
    field = {"name": simulate.CDR.field, "kind": "items", "items": list(range(simulate.CDR.places))}
    domain.write_text(json.dumps({"fields": [field]}))
    return parts


def fitted(parts: Path, options: argparse.Namespace) -> dict[str, object]:
    """One fit, measured from outside."""
    release = options.folder / f"release-{os.getpid()}"
    fit = ["-m", "dpgm", "fit", str(parts), "--domain", str(options.folder / "calls.json"), "--epsilon", "1"]
    fit += ["--out", str(release), "--device", "cpu"]
    if options.memory is not None:
        fit += ["--memory", options.memory]
    start = [sys.executable]
    if options.processes > 1:
        start += ["-m", "torch.distributed.run", "--nproc-per-node", str(options.processes)]

    def limited() -> None:
        if options.address_space is not None:
            size = bytes_of(options.address_space)
            resource.setrlimit(resource.RLIMIT_AS, (size, size))

    threads = {"OMP_NUM_THREADS": str(options.threads), "NUMBA_NUM_THREADS": str(options.threads)}
    began = time.monotonic()
    with (options.folder / f"said-{os.getpid()}").open("w+") as said:
        child = subprocess.Popen(start + fit, stderr=said, preexec_fn=limited, env=os.environ | threads)
        status, used = os.wait4(child.pid, 0)[1:]
        took = time.monotonic() - began
        said.seek(0)
        told = said.read()
    Path(said.name).unlink()
    if status:
        raise SystemExit(f"the fit failed:\n{told[-2000:]}")
    shutil.rmtree(release)
    return {
        "wall_seconds": round(took, 1),
        "processor_seconds": round(used.ru_utime + used.ru_stime, 1),
        "peak_megabytes": used.ru_maxrss // 1024,
        "announced_megabytes": announced(told),
    }


def announced(told: str) -> float | None:
    """The memory that the fit said beforehand that it needs."""
    found = re.search(r"about ([0-9.]+) (MB|GB) of memory", told)
    return None if found is None else float(found[1]) * {"MB": 1, "GB": 1000}[found[2]]


def main() -> None:
    """Simulate, fit, add a row to the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=simulate.CDR.records)
    parser.add_argument("--folder", type=Path, default=Path("/tmp/dpgm-large-fit"))
    parser.add_argument("--memory", help="handed on to `dpgm fit`")
    parser.add_argument("--address-space", help="hard limit on the address space of every process, such as 4GB")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--threads", type=int, default=1, help="per process")
    parser.add_argument("--quick", action="store_true", help="100,000 records")
    parser.add_argument("--csv", type=Path, help="a row is added to this table")
    options = parser.parse_args()
    records = 100_000 if options.quick else options.records
    options.folder.mkdir(parents=True, exist_ok=True)
    parts = simulated(records, options.folder, options.processes)
    row = {"data": "cdr", "records": records, "positions": simulate.CDR.places, "processes": options.processes}
    row |= {"threads": options.threads, "memory": options.memory, "address_space": options.address_space}
    row |= fitted(parts, options)
    print(row, flush=True)
    if options.csv is not None:
        fresh = not options.csv.exists()
        options.csv.parent.mkdir(parents=True, exist_ok=True)
        with options.csv.open("a", newline="") as file:
            table = csv.DictWriter(file, COLUMNS)
            if fresh:
                table.writeheader()
            table.writerow(row)


if __name__ == "__main__":
    main()
