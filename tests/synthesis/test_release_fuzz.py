"""The bounded form of `make assure RUNS=fuzz`: a few hundred mutated releases in a child process with capped memory."""

import subprocess
import sys
from pathlib import Path


def test_no_mutated_release_crashes_hangs_or_is_believed():
    script = Path(__file__).parents[1] / "harness" / "release_fuzz.py"
    done = subprocess.run(
        [sys.executable, str(script), "--count", "250", "--seed", "11"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
