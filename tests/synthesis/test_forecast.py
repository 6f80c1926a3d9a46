"""Forecasts of errors, from public numbers: beside what fits of other data come to, and as arithmetic."""

from dataclasses import replace

import numpy as np
import pytest

import dpgm
from dpgm.data.records import Records
from dpgm.data.simulate import simulate_transit
from dpgm.errors import UsageError
from dpgm.mechanisms.randomness import SeededRandomness
from dpgm.strategy.settings import Config
from dpgm.synthesis.forecast import Errors, Forecast, accurate_enough, errors_of, forecast

ITEMS = dpgm.Domain.of_items(12)
TABLE = dpgm.Domain(
    (
        dpgm.Numeric("age", 0, 100, bins=10),
        dpgm.Numeric("stay", 0, 50, bins=10),
        dpgm.Categorical("ward", ("a", "b", "c", "d")),
    )
)
MADE = Forecast(1.0, 1e-6, 5000, Errors(10.0, 20.0, 0.1))


def test_a_forecast_is_near_the_errors_of_fits_of_data_made_in_another_way():
    """A simulated town, twelve stations; every figure is seeded. The five public sets are in experiments/results."""
    town = simulate_transit(4_000, seed=3)
    popular = np.argsort(-np.bincount(town.indices, minlength=town.width))[:12]
    rows = [[int(at) for at in np.flatnonzero(row[popular])] for row in town.to_dense()]
    records = Records.from_lists(rows, ITEMS)
    told = forecast(Config(1.0), 4_000, ITEMS, mean_length=float(records.lengths.mean())).errors
    seen = []
    for seed in range(3):
        fitted = dpgm.Synthesizer(1.0, randomness=SeededRandomness(seed)).fit(records)
        seen.append(errors_of(records, fitted.sample(4_000, seed=seed)))
    for name in ("count", "pair"):
        found = np.sqrt(np.mean([getattr(one, name) ** 2 for one in seen]))
        assert 1 / 1.3 < getattr(told, name) / found < 1.3


def test_errors_of_the_same_records_are_none_and_of_others_are_theirs():
    codes = np.random.default_rng(0).integers([0, 10, 20], [10, 20, 24], (500, 3))
    records = Records.from_lists(codes.tolist(), TABLE)
    assert errors_of(records, records) == Errors(0.0, 0.0, 0.0)
    other = Records.from_lists(np.roll(codes, 1, axis=0)[:, [0, 1, 2]].tolist(), TABLE)
    assert errors_of(records, other) == Errors(0.0, 0.0, 0.0)  # the same people in another order
    broken = codes.copy()
    broken[:, 1] = np.roll(codes[:, 1], 7)
    found = errors_of(records, Records.from_lists(broken.tolist(), TABLE))
    assert found.count == 0.0
    assert found.pair > 1.0
    first = np.corrcoef(codes[:, 0], codes[:, 1])[0, 1] - np.corrcoef(broken[:, 0], broken[:, 1])[0, 1]
    assert found.correlation == pytest.approx(abs(first), abs=0.02)


def test_what_is_not_there_has_no_error():
    one = Records.from_lists([[0]] * 50 + [[1]] * 50, dpgm.Domain((dpgm.Categorical("ward", ("a", "b")),)))
    assert errors_of(one, one) == Errors(0.0, None, None)


def test_where_nothing_is_frequent_the_most_frequent_item_is_judged():
    rare = Records.from_lists([[0]] + [[]] * 499, ITEMS)
    none = Records.from_lists([[]] * 500, ITEMS)
    assert errors_of(rare, none).count == 1.0


def test_a_column_with_one_value_has_no_correlation_to_be_wrong_about():
    codes = [[3, 10 + at % 10, 20] for at in range(100)]
    records = Records.from_lists(codes, TABLE)
    assert errors_of(records, records).correlation == 0.0


def test_errors_fall_as_epsilon_rises_and_the_file_form_is_exact():
    assert Forecast.from_json(MADE.to_json()) == MADE
    assert MADE.at(1.0).errors.count == pytest.approx(10.0)
    more, less = MADE.at(4.0).errors, MADE.at(0.25).errors
    assert more.count < 10 < less.count
    assert more.correlation < 0.1 < less.correlation
    assert MADE.usual == pytest.approx(19.6)
    assert MADE.visible == 196
    assert len(MADE.sentences) == 4
    assert len(replace(MADE, errors=Errors(1.0, None, None)).sentences) == 2


@pytest.mark.parametrize("group", [30, 196, 900])
def test_the_epsilon_for_a_group_makes_it_visible_and_a_smaller_one_does_not(group):
    found = MADE.epsilon_for(group)
    assert MADE.at(found).visible <= group
    assert MADE.at(found * 0.9).visible > group


def test_no_epsilon_makes_one_person_visible():
    assert MADE.epsilon_for(1) is None


def test_the_search_ends_at_an_epsilon_that_is_accurate_enough():
    found = accurate_enough(Config(1.0), 3_000, dpgm.Domain.of_items(4), 400)
    assert 300 < found.visible <= 400
    assert found.epsilon < 1
    with pytest.raises(UsageError, match="ask for a larger group"):
        accurate_enough(Config(1.0), 300, dpgm.Domain.of_items(4), 1)


def test_of_very_many_people_fewer_are_made_up(monkeypatch):
    made = []

    def errors_of_a_fit(plan, domain, people, mean_length, seed):
        made.append(people)
        return Errors(2.0, None, None), 100

    monkeypatch.setattr("dpgm.synthesis.forecast._errors_of_a_fit", errors_of_a_fit)
    for records, people in ((1_000, 1_000), (10_000_000, 100_000)):
        assert forecast(Config(1.0), records, ITEMS).errors.count == pytest.approx(2.0 * records / people)
        assert made.pop() == people


def test_a_forecast_needs_a_domain():
    with pytest.raises(UsageError, match="needs a domain"):
        forecast(Config(1.0), 1_000, None)
