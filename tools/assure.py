"""The long runs that attack what `dpgm` promises: `make assure`, or `make assure RUNS="audit proofs"` for some.

Each leaves its figures in tools/figures/; the last, `security`, runs the tests behind every promise and writes the
tables of SECURITY.md and docs/guarantee.md.
"""

import argparse
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
FIGURES = "tools/figures"
PYTHON = sys.executable

# name -> what it does, and its commands
RUNS: dict[str, tuple[str, tuple[tuple[str, ...], ...]]] = {
    "slow": (
        "the long tests: statistics, real data, end to end",
        ((PYTHON, "-m", "pytest", "-q", "-m", "slow"),),
    ),
    "fuzz": (
        "changed files and releases: each is read, or refused in a sentence, within memory and time",
        (
            (PYTHON, "tests/harness/reader_fuzz.py", "--out", f"{FIGURES}/reader_fuzz.json"),
            (
                *(PYTHON, "tests/harness/release_fuzz.py", "--count", "100000", "--workers", "2"),
                *("--out", f"{FIGURES}/release_fuzz.json"),
            ),
        ),
    ),
    "metamorphic": (
        "20,000 pairs of files that differ in one row: no other row is read differently",
        ((PYTHON, "tests/harness/metamorphic.py", "--pairs", "20000", "--out", f"{FIGURES}/metamorphic.json"),),
    ),
    "audit": (
        "attack the pipeline: lower bounds on epsilon beside the claims",
        ((PYTHON, "-m", "dpgm", "audit", "--out", f"{FIGURES}/audit.json"),),
    ),
    "proofs": (
        "the privacy proof executed on whole fits: playback, sensitivity, coins, noise",
        ((PYTHON, "tools/proofs.py", "--out", f"{FIGURES}/proofs.json"),),
    ),
    "mutants": (
        "planted bugs: the tests must find each",
        ((PYTHON, "tools/mutants/run.py", "--out", f"{FIGURES}/mutants.json"),),
    ),
    "faults": (
        "kills, failing writes, full disks, damaged checkpoints (about a quarter of an hour)",
        ((PYTHON, "tests/harness/faults.py", "--out", f"{FIGURES}/faults.json"),),
    ),
    "security": ("promise, test, figure: writes the tables of the documents", ((PYTHON, "tools/security.py"),)),
}


def main() -> int:
    runs = "\n".join(f"  {name:12} {words}" for name, (words, _) in RUNS.items())
    parser = argparse.ArgumentParser(
        description=__doc__, epilog=f"runs:\n{runs}", formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("runs", nargs="*", help="which runs, in this order; all if none is named")
    chosen = parser.parse_args().runs or list(RUNS)
    if unknown := sorted(set(chosen) - set(RUNS)):
        parser.error(f"there is no run {', '.join(unknown)}; choose from {', '.join(RUNS)}")
    environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": f"{ROOT}/src:{ROOT}/tests/support"}
    (ROOT / FIGURES).mkdir(exist_ok=True)
    failed = []
    for name in chosen:
        words, commands = RUNS[name]
        print(f"== dpgm: {name}: {words}", flush=True)
        if any(subprocess.run(command, cwd=ROOT, env=environment).returncode for command in commands):
            failed.append(name)
    print(f"failed: {', '.join(failed)}" if failed else "all passed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
