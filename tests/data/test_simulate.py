"""The simulated cities match the paper's Table 1 and have structure."""

import numpy as np
import pytest

from dpgm.cli.app import run
from dpgm.data.read.readers import read_records
from dpgm.data.simulate import PEOPLE_AT_ONCE, simulate_cdr, simulate_transit
from dpgm.data.simulate_trips import CARDS_AT_ONCE, simulate_trips, trip_domain
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


@pytest.fixture(scope="module")
def cards():
    return simulate_trips(CARDS_AT_ONCE + 500, seed=5)


def test_simulated_cards_are_records_of_their_domain(cards):
    cards.check()
    assert cards.domain == trip_domain()
    lengths = cards.events.lengths
    assert 15 < lengths.mean() < 40
    assert lengths.min() >= 1
    assert lengths.std() > 0.5 * lengths.mean()  # some travel daily and some hardly ever
    short = simulate_trips(500, seed=5)
    assert cards.rows(0, 500) == short
    assert simulate_trips(500, seed=6) != short


def test_simulated_cards_have_hours_weekends_habits_and_ways_back(cards):
    events, people = cards.events, cards.events.people()
    hours = np.bincount(events.times // 60 % 24, minlength=24) / len(people)
    assert hours[[7, 8]].sum() > 3 * hours[[11, 12]].sum() / 2  # a peak in the morning
    assert hours[:4].sum() < 0.01
    weekend = (events.times // 1440 % 7 >= 5).mean()
    assert 0.15 < weekend < 2 / 7
    first = np.flatnonzero(np.diff(np.r_[-1, people * 28 + events.times // 1440]) > 0)  # of every day of every card
    days = np.bincount(people[first], minlength=len(cards))
    of_day = (events.times[first] % 1440) / 60
    means = np.bincount(people[first], of_day, minlength=len(cards)) / np.maximum(days, 1)
    within = np.bincount(people[first], (of_day - means[people[first]]) ** 2, minlength=len(cards))
    often = days >= 8
    assert np.sqrt(within[often] / days[often]).mean() < 0.8 * of_day.std()  # a card keeps its hours
    same = people[2:] == people[:-2]
    returns = (events.codes[2:] == events.codes[:-2])[same].mean()
    shares = np.bincount(events.codes) / len(people)
    assert returns > 10 * (shares**2).sum()


def test_the_type_of_a_simulated_card_shows_in_its_trips(cards):
    kinds = np.array([record.indices[0] for record in cards.chunks(1)])
    lengths = cards.events.lengths
    means = [lengths[kinds == kind].mean() for kind in range(4)]
    assert means[3] < means[2] < means[0]
    ages = np.array([record.indices[1] - 4 for record in cards.chunks(1)])
    assert ages[kinds == 1].mean() < ages[kinds == 0].mean() < ages[kinds == 2].mean()


def test_the_command_writes_cards_their_domain_and_where_stations_are(tmp_path, capsys):
    arguments = ["simulate", "trips", "--records", "200", "--seed", "2", "--out", str(tmp_path / "taps.csv")]
    more = ["--domain-out", str(tmp_path / "d.yaml"), "--places-out", str(tmp_path / "stations.csv")]
    assert run([*arguments, *more]) == 0
    assert "200 simulated records (144 stations)" in capsys.readouterr().out
    # The domain says how the file is laid out.
    assert read_records(tmp_path / "taps.csv", domain=tmp_path / "d.yaml") == simulate_trips(200, seed=2)
    stations = (tmp_path / "stations.csv").read_text().splitlines()
    assert stations[0] == "station,east,north"
    assert [line.split(",")[0] for line in stations[1:]] == list(trip_domain().sequence.items)
    assert run(["simulate", "cdr", "--out", str(tmp_path / "x.csv"), "--places-out", str(tmp_path / "y.csv")]) == 2
    assert "--places-out" in capsys.readouterr().err
