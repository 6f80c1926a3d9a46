"""Every script of the paper's tables and figures runs, in its smallest form, and draws its figure."""

import dataclasses
import importlib
import json
from pathlib import Path

import pytest

EXPERIMENTS = Path(__file__).parents[2] / "experiments"
WITH_NETWORKS = (
    "query_error_cdr",
    "query_error_transit",
    "query_error_tw_ny",
    "two_layer_vae",
    "sample_grid",
    "claims",
    "neural_digits",
)
pytestmark = pytest.mark.filterwarnings("ignore::dpgm.errors.PrivacyWarning")


@pytest.fixture(autouse=True)
def _importable(monkeypatch):
    monkeypatch.syspath_prepend(str(EXPERIMENTS))


@pytest.mark.parametrize("name", ["dataset_table", "epsilon_vs_epochs", *WITH_NETWORKS])
def test_the_smoke_run_of_a_figure(name, capsys):
    plt = pytest.importorskip("matplotlib.pyplot")
    script = importlib.import_module(name)
    rows = script.run(script.SMOKE)
    assert rows
    assert all(isinstance(row, dict) for row in rows)
    figure = script.plot(rows)
    assert figure.axes
    plt.close(figure)


def test_jobs_survive_the_way_to_another_machine(tmp_path):
    """What `--jobs` writes is what `on_device.py` reads: the same plan, with the settings of the job."""
    network_runs, script = (importlib.import_module(name) for name in ("network_runs", "two_layer_vae"))
    job = script.jobs(script.SMOKE)[0]
    read = network_runs.Job(**json.loads(json.dumps(dataclasses.asdict(job))))
    assert network_runs.plan_of(read) == network_runs.plan_of(job)
    assert network_runs.plan_of(read).settings.family.hidden == (200, 200)


def test_queries_are_counted_by_products_as_they_are_by_bits():
    """The scores of `on_device.py` are those of the package's own evaluation."""
    from dpgm.data.simulate import simulate_transit
    from dpgm.evaluation.counting_queries import popular_queries, query_error

    network_runs = importlib.import_module("network_runs")
    real, other = simulate_transit(3000, seed=0), simulate_transit(3000, seed=1)
    scores = network_runs.Workload.of(real, "cpu").scores(network_runs._dense(other, "cpu"))
    for length, name in enumerate(network_runs.POPULAR, 1):
        queries = popular_queries(real, length, network_runs.QUERIES)
        assert scores[name] == pytest.approx(query_error(real, other, queries).mean, rel=1e-9)
