"""Plant bugs in copies of the code, one by one; the tests named for each must fail.

python tools/mutants/run.py [--only 1 2 3] [--workers N] [--out FILE]

Exit 1 if a bug survives, if a patch does not find its place any more, or if the tests fail without any bug.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import Queue

sys.path.insert(0, str(Path(__file__).parent))

import books
import noise
import sampling
import sensitivity
from mutant import Mutant, NotFoundError, apply

ROOT = Path(__file__).parents[2]
ALL = sorted(
    (*noise.MUTANTS, *sampling.MUTANTS, *sensitivity.MUTANTS, *books.MUTANTS), key=lambda each: each.number
)
LIMIT = 900  # seconds per mutant


def run_tests(copy: Path, killers: tuple[str, ...]) -> int:
    """Pytest's exit status: 0 all passed, 1 some failed, others mean that nothing was tested."""
    environment = os.environ | {
        "PYTHONPATH": str(copy / "src"),
        "OMP_NUM_THREADS": "1",
        "NUMBA_CACHE_DIR": str(copy / "numba"),
    }
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *killers]
    done = subprocess.run(command, cwd=copy, env=environment, capture_output=True, text=True, timeout=LIMIT)
    if done.returncode not in (0, 1):
        print(done.stdout[-3000:], done.stderr[-2000:], flush=True)
    return done.returncode


def new_copy(folder: Path) -> Path:
    """A copy of what tests need."""
    copy = Path(tempfile.mkdtemp(dir=folder))
    for name in ("src", "tests", "tools", "docs", "examples", "experiments", "benchmarks"):
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__", "*.png"))
    for path in ROOT.glob("*.*"):
        if path.is_file():
            shutil.copy(path, copy)
    return copy


def try_mutant(mutant: Mutant, copies: "Queue[Path]") -> dict[str, object]:
    """Plant one bug, run its tests, take it out again."""
    copy, start = copies.get(), time.perf_counter()
    try:
        try:
            before = apply(mutant, copy / "src")
        except NotFoundError as error:
            return _row(mutant, "NOT FOUND", start) | {"why": str(error)}
        try:
            compiled = [compile(path.read_text("utf-8"), str(path), "exec") for path in before]
            status = run_tests(copy, mutant.killers) if compiled else 2
        finally:
            for path, text in before.items():
                path.write_text(text, "utf-8")
        return _row(mutant, {0: "SURVIVED", 1: "killed"}.get(status, f"NOT TESTED ({status})"), start)
    finally:
        copies.put(copy)


def _row(mutant: Mutant, verdict: str, start: float) -> dict[str, object]:
    seconds = round(time.perf_counter() - start, 1)
    return {
        "number": mutant.number,
        "fault": mutant.fault,
        "verdict": verdict,
        "killers": list(mutant.killers),
        "seconds": seconds,
    }


def main() -> int:
    """Print the table; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", type=int, nargs="+", help="numbers of mutants")
    parser.add_argument("--workers", type=int, default=max(1, (os.cpu_count() or 2) // 2))
    parser.add_argument("--out", type=Path)
    chosen = parser.parse_args()
    mutants = [each for each in ALL if chosen.only is None or each.number in chosen.only]
    with tempfile.TemporaryDirectory() as folder:
        copies: Queue[Path] = Queue()
        for _ in range(chosen.workers):
            copies.put(new_copy(Path(folder)))
        # Without any bug the same tests pass: a test that fails anyway kills nothing.
        selections = sorted({each.killers for each in mutants})

        def sound(killers: tuple[str, ...]) -> bool:
            copy = copies.get()
            try:
                return run_tests(copy, killers) == 0
            finally:
                copies.put(copy)

        with ThreadPoolExecutor(chosen.workers) as pool:
            passing = dict(zip(selections, pool.map(sound, selections), strict=True))
            rows = []
            for row in pool.map(lambda each: try_mutant(each, copies), mutants):
                if not passing[tuple(row["killers"])]:  # type: ignore[arg-type]
                    row["verdict"] = "NOT TESTED (the tests fail without the bug)"
                rows.append(row)
                print(
                    f"{row['number']:>3}  {row['verdict']:<10}  {row['fault']}  ({row['seconds']} s) {row.get('why', '')}",
                    flush=True,
                )
    killed = sum(row["verdict"] == "killed" for row in rows)
    print(f"{killed} of {len(rows)} planted bugs killed")
    if chosen.out is not None:
        if chosen.only is not None and chosen.out.exists():  # the others stand as they are on file
            fresh = {row["number"] for row in rows}
            rows += [
                row for row in json.loads(chosen.out.read_text("utf-8"))["mutants"] if row["number"] not in fresh
            ]
            rows.sort(key=lambda row: int(str(row["number"])))
        found = sum(row["verdict"] == "killed" for row in rows)
        result = {"planted": len(rows), "killed": found, "passed": found == len(rows), "mutants": rows}
        chosen.out.write_text(json.dumps(result, indent=1) + "\n", "utf-8")
    return 0 if killed == len(rows) else 1


if __name__ == "__main__":
    sys.exit(main())
