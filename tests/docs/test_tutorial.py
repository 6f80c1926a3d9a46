"""The commands of docs/tutorial.md, run as they stand on the public data sets (slow; skipped where these are missing)."""

import re
import resource
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from public_data import DATA

ROOT = Path(__file__).parents[2]
LOGS = {"msweb.dat": "msweb/anonymous-msweb.data.gz", "msnbc.dat": "msnbc/msnbc990928.zip"}  # converted by a script
FOLDERS = {
    "retail.csv.gz": "retail",
    "tw_ny/train.csv.gz": "repeat-consumption",
    "train-images-idx3-ubyte.gz": "mnist",
    "train-labels-idx1-ubyte.gz": "mnist",
    "adult.data.gz": "adult",
}

pytestmark = [pytest.mark.slow, pytest.mark.skipif(not DATA.exists(), reason="the public data sets are not here")]


def fits():
    """The `dpgm fit` lines of the tutorial that name a public file."""
    text = (ROOT / "docs" / "tutorial.md").read_text()
    lines = re.findall(r"^    (dpgm fit .*)$", text, flags=re.MULTILINE)
    return [line for line in lines if shlex.split(line)[2] in {**FOLDERS, **LOGS}]


def test_the_tutorial_fits_every_public_data_set():
    assert len(fits()) == 6


@pytest.mark.parametrize("line", fits(), ids=lambda line: shlex.split(line)[2].split("/")[0])
def test_a_fit_of_the_tutorial_runs_and_verifies(line, tmp_path):
    words = [str(DATA / FOLDERS[word] / word) if word in FOLDERS else word for word in shlex.split(line)]
    words = [str(ROOT / word) if word.startswith("examples/") else word for word in words]
    if words[2] in LOGS:
        script = ROOT / "experiments" / "web_logs.py"
        subprocess.run([sys.executable, script, DATA / LOGS[words[2]], words[2]], check=True, cwd=tmp_path)
    release = tmp_path / words[words.index("--out") + 1]
    words[words.index("--out") + 1] = str(release)
    command = [sys.executable, "-m", "dpgm", *words[1:]]
    subprocess.run(command, check=True, timeout=1800, cwd=tmp_path)
    subprocess.run([sys.executable, "-m", "dpgm", "verify", str(release)], check=True, timeout=300)
    sample = ["sample", str(release), "--records", "1000", "--out", str(tmp_path / "s.parquet")]
    subprocess.run([sys.executable, "-m", "dpgm", *sample], check=True, timeout=300)
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    assert peak < 2 * 2**20  # kilobytes: 2 GB
