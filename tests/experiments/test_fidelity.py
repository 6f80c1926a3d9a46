"""The fidelity experiment: adapters of other tools, its own baselines, its table of results, and a small run."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from dpgm.data.domain import Categorical, Domain
from dpgm.data.records import Records
from dpgm.errors import UsageError
from public_data import DATA

EXPERIMENTS = Path(__file__).parents[2] / "experiments"


@pytest.fixture(autouse=True)
def _importable(monkeypatch):
    monkeypatch.syspath_prepend(str(EXPERIMENTS))


def chain(count=30_000, seed=0):
    """Four items, each of which mostly equals the one before, so that a tree model is exact."""
    generator = np.random.default_rng(seed)
    columns = [generator.random(count) < 0.3]
    for _ in range(3):
        columns.append(np.where(generator.random(count) < 0.8, columns[-1], generator.random(count) < 0.2))
    return Records.from_dense(np.stack(columns, axis=1), Domain.of_items(4))


def test_tables_survive_coding():
    from fidelity_data import from_codes
    from fidelity_methods import coded, decoded

    domain = Domain((Categorical("a", ("x", "y", "z")), Categorical("b", (0, 1))))
    codes = np.array([[0, 1], [2, 0], [1, 1]])
    records = from_codes(codes, domain)
    table, sizes = coded(records)
    assert np.array_equal(table, codes)
    assert sizes.tolist() == [3, 2]
    assert decoded(codes, records) == records


def test_sets_become_columns_of_zeros_and_ones():
    from fidelity_methods import coded, decoded

    records = Records.from_lists([[0, 2], [1]], Domain.of_items(3))
    table, sizes = coded(records)
    assert table.tolist() == [[1, 0, 1], [0, 1, 0]]
    assert sizes.tolist() == [2, 2, 2]
    assert decoded(table, records) == records


def test_absent_peers_say_what_to_set(monkeypatch):
    from fidelity_methods import METHODS

    monkeypatch.delenv("DPGM_PEERS_PYTHON", raising=False)
    with pytest.raises(UsageError, match="DPGM_PEERS_PYTHON"):
        METHODS["aim dpmm"](chain(10), 1.0, 1e-5, 0)


def test_concentrated_budget_matches_the_published_conversion():
    from spanning_tree import zcdp

    # what dpmm 0.1.9 computes with the public code of Canonne, Kamath and Steinke
    assert zcdp(1.0, 1e-5) == pytest.approx(0.03055659519763956)
    assert zcdp(2.0, 1e-5) == pytest.approx(0.10825636382305726)


def test_tree_estimate_returns_exact_counts():
    from spanning_tree import estimate

    edges = np.array([[0, 1], [1, 2]])
    ones, both, count = np.array([30.0, 50, 20]), np.array([25.0, 5]), 100
    i, j = edges.T
    cells = np.stack([count - ones[i] - ones[j] + both, ones[j] - both, ones[i] - both, both])
    single, pairs = estimate(edges, np.stack([count - ones, ones]), cells, count)
    assert np.allclose(single, ones / count)
    assert np.allclose(pairs, both / count)


def test_tree_estimate_never_leaves_the_simplex():
    from spanning_tree import estimate

    generator = np.random.default_rng(1)
    edges = np.stack([np.arange(9), np.arange(1, 10)], axis=1)
    single, both = estimate(edges, generator.normal(0, 50, (2, 10)), generator.normal(0, 50, (4, 9)), 100)
    i, j = edges.T
    assert np.all((single >= 0) & (single <= 1))
    assert np.all(
        (both <= single[i]) & (both <= single[j]) & (both >= 0) & (1 - single[i] - single[j] + both >= -1e-9)
    )


def test_spanning_tree_finds_the_chain():
    from spanning_tree import SpanningTree

    records = chain()
    tree = SpanningTree.fit(records, 50.0, 1e-6, 0)
    assert {tuple(sorted(edge)) for edge in tree.edges.tolist()} == {(0, 1), (1, 2), (2, 3)}
    drawn, real = tree.sample(30_000, 0).to_dense(np.float64), records.to_dense(np.float64)
    assert np.allclose(drawn.T @ drawn / 30_000, real.T @ real / 30_000, atol=0.01)


def test_mwem_comes_close_at_a_large_budget():
    import multiplicative_weights

    records = chain()
    weights = multiplicative_weights.fit(records, 50.0, 1e-6, 0, rounds=20)
    drawn = multiplicative_weights.sample(weights, records, 30_000, 0).to_dense(np.float64)
    real = records.to_dense(np.float64)
    assert np.allclose(drawn.T @ drawn / 30_000, real.T @ real / 30_000, atol=0.015)


def test_cell_model_returns_the_tables_it_was_given():
    from adaptive_marginals import CellModel

    cells = np.random.default_rng(0).dirichlet(np.ones(32))
    real, model = CellModel(5, 1000), CellModel(5, 1000)
    real.cells = cells
    assert np.allclose(real.table((1, 3)), cells.reshape((2,) * 5).sum(axis=(0, 2, 4)) * 1000)
    cliques = [(0, 1, 2), (1, 2, 3), (2, 4)]
    for clique in cliques:
        model.take(clique, real.table(clique), 0.1)
    model.fit(500)
    assert all(np.allclose(model.table(clique), real.table(clique), atol=0.1) for clique in cliques)


def test_aim_comes_close_at_a_large_budget():
    import adaptive_marginals

    records = chain()
    cells = adaptive_marginals.fit(records, 50.0, 1e-6, 0)
    drawn = adaptive_marginals.sample(cells, records, 30_000, 0).to_dense(np.int64)
    codes, real = (dense @ [8, 4, 2, 1] for dense in (drawn, records.to_dense(np.int64)))
    assert np.abs(np.bincount(codes, minlength=16) - np.bincount(real, minlength=16)).max() < 150


def test_rows_of_the_same_run_are_replaced(tmp_path):
    from fidelity import merge, read, row_of

    path = tmp_path / "table.csv"
    merge(path, [row_of(("a", "ours", 1.0, 1, 0), {"pop1": 0.5}, 1.0), row_of(("a", "ours", 10.0, 1, 0), {}, 1.0)])
    merge(path, [row_of(("a", "ours", 1.0, 1, 0), {"pop1": 0.25}, 2.0)])
    rows = read(path)
    assert [(row["epsilon"], row["pop1"], row["tv1"]) for row in rows] == [("1.0", "0.2500", ""), ("10.0", "", "")]


def test_stored_sets_are_read_back(tmp_path):
    import fidelity_data

    records = chain(50)
    np.savez(tmp_path / "made.npz", indptr=records.indptr, indices=records.indices, width=4)
    assert fidelity_data.load("made", tmp_path).records == records


@pytest.mark.slow
@pytest.mark.skipif(not DATA.is_dir(), reason="the public data sets are not on this machine (set DPGM_DATA)")
def test_smoke_run():
    command = [sys.executable, str(EXPERIMENTS / "fidelity.py"), "--smoke", "--data", str(DATA)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    lines = {line.split()[1]: line for line in done.stdout.splitlines()}
    assert set(lines) == {"method=ours", "method=independent", "method=mwem", "method=mst"}
    assert all("pop4=" in line and "any4=" in line and "paper100=" in line for line in lines.values())


def test_report_replaces_marked_tables_by_means_over_seeds():
    from fidelity import row_of
    from fidelity_report import Runs, rewrite

    rows = [
        row_of(("nltcs", "ours", 1.0, 1, seed), {"pop1": 0.1 * (seed + 1), "lengths": 0.5}, 1.0)
        for seed in range(2)
    ]
    page = rewrite("before\n<!-- table: sets -->\nold\n<!-- end -->\nafter", Runs(rows))
    assert page.startswith("before\n")
    assert page.endswith("\nafter")
    assert "old" not in page
    assert "| nltcs, 21.6k x 16 | .150/-/-/-/.500 (2) |" in page


def test_report_names_the_data_sets_on_which_another_method_is_better():
    from fidelity import row_of
    from fidelity_report import Runs, rewrite

    errors = {"ours": 0.2, "independent": 0.15, "mst": 0.19}
    rows = [row_of(("h_dna", method, 1.0, 1, 0), {"pop2": error}, 1.0) for method, error in errors.items()]
    page = rewrite("<!-- table: other -->\n<!-- end -->", Runs(rows))
    assert "|  | -/.200/-/-/- (1) | -/.150/-/-/- (1) |" in page
    assert "| pop2 0.2000 (independent 0.1500) |" in page  # mst is ahead by less than a tenth


def test_the_oracle_of_pairs_needs_budget():
    from pair_limit import oracle_error

    chances = np.linspace(0.05, 0.5, 12)
    records = Records.from_dense(np.random.default_rng(0).random((2000, 12)) < chances, Domain.of_items(12))
    little, much = (oracle_error(records, epsilon, cap=4, queries=20) for epsilon in (0.01, 30.0))
    assert much < 0.05
    assert little > 2 * much
