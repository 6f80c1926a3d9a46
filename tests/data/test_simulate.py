"""The simulated cities match the paper's Table 1 and have structure."""

import numpy as np
import pytest

from dpgm.cli.app import run
from dpgm.data.read.readers import read_records
from dpgm.data.simulate import PEOPLE_AT_ONCE, simulate_cdr, simulate_transit
from dpgm.errors import UsageError


@pytest.mark.parametrize(
    ("simulate", "places", "mean", "longest"), [(simulate_transit, 342, 5.26, 57), (simulate_cdr, 1303, 11.42, 422)]
)
def test_sizes_match_the_paper(simulate, places, mean, longest):
    records = simulate(2 * PEOPLE_AT_ONCE, seed=7)
    lengths = records.lengths
    assert records.width == places
    assert abs(lengths.mean() / mean - 1) < 0.02
    assert lengths.max() == longest
    assert lengths.min() >= 1
    assert all(np.all(np.diff(row.indices.astype(int)) > 0) for row in records.rows(0, 200).chunks(1))


def test_places_are_popular_unequally_and_not_independent():
    records = simulate_transit(PEOPLE_AT_ONCE, seed=1)
    matrix = records.to_scipy().astype(float)
    share = np.asarray(matrix.mean(axis=0)).ravel()
    assert share.max() > 5 * np.median(share)
    assert share.min() > 0
    together = (matrix.T @ matrix).toarray() / len(records)
    expected = np.outer(share, share)
    lift = (together / expected)[np.triu_indices(342, 1)]
    assert np.quantile(lift, 0.99) > 5
    assert np.quantile(lift, 0.05) < 0.8


def test_a_seed_gives_the_same_people_and_a_longer_run_starts_alike():
    short, long = simulate_transit(1000, seed=3), simulate_transit(PEOPLE_AT_ONCE + 1000, seed=3)
    assert long.rows(0, 1000) == short
    assert simulate_transit(1000, seed=4) != short


def test_bad_arguments_are_refused():
    with pytest.raises(UsageError, match="records"):
        simulate_transit(0)
    with pytest.raises(UsageError, match="seed"):
        simulate_transit(10, seed=-1)


def test_the_command_writes_records_and_their_domain(tmp_path, capsys):
    import dpgm.cli.data  # noqa: F401

    arguments = ["simulate", "cdr", "--records", "500", "--seed", "2", "--out", str(tmp_path / "x.parquet")]
    assert run([*arguments, "--domain-out", str(tmp_path / "d.json")]) == 0
    assert "500 simulated records" in capsys.readouterr().out
    assert read_records(tmp_path / "x.parquet", domain=tmp_path / "d.json") == simulate_cdr(500, seed=2)
