"""Reports on real data, from the command line, within a minute of processor time."""

import time
from pathlib import Path

import pytest

import dpgm.cli.synthetic  # noqa: F401  (registers the command)
from dpgm.baselines.estimators import IndependentMarginals
from dpgm.cli.app import run
from dpgm.data.read.readers import read_records
from public_data import DATA

ARTEFACTS = Path(__file__).parents[2] / "artefacts"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not DATA.is_dir(), reason="the public data sets are not on this machine (set DPGM_DATA)"),
]


def report(name, *arguments):
    """Write a report; returns seconds of processor time, as wall time depends on what else the machine does."""
    ARTEFACTS.mkdir(exist_ok=True)
    began = time.process_time()
    out = ARTEFACTS / f"{name}.html"
    assert run(["evaluate", *map(str, arguments), "--out", str(out), "--force", "--quiet"]) == 0
    return time.process_time() - began


def test_report_of_web_visits_takes_less_than_a_minute(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "experiments"))
    from web_logs import converted

    source = tmp_path / "msweb.dat"
    areas = converted(DATA / "msweb/anonymous-msweb.data.gz", source)
    real = read_records(source, domain=areas)
    IndependentMarginals(1.0).fit(real).sample(len(real), seed=0).write(tmp_path / "synthetic.parquet")
    assert report("msweb", source, tmp_path / "synthetic.parquet", "--domain", areas) < 60
    assert "Items that go together" in (ARTEFACTS / "msweb.html").read_text()


def test_report_of_digits_takes_less_than_a_minute(tmp_path):
    images, labels = DATA / "mnist/train-images-idx3-ubyte.gz", DATA / "mnist/train-labels-idx1-ubyte.gz"
    test, answers = DATA / "mnist/t10k-images-idx3-ubyte.gz", DATA / "mnist/t10k-labels-idx1-ubyte.gz"
    read_records(test, labels=answers).write(tmp_path / "synthetic.npz")  # stands in for a very good release
    seconds = report("mnist", images, tmp_path / "synthetic.npz", "--labels", labels)
    page = (ARTEFACTS / "mnist.html").read_text()
    print(f"{seconds:.1f} processor seconds")
    assert "Images side by side" in page
    assert "convolutional network" in page
