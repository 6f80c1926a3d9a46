"""A new sample of the same population is called close, although its figures differ by chance."""

import numpy as np
import pandas
import pytest

from dpgm.evaluation.chance import chance_figures
from dpgm.evaluation.evaluate import evaluate
from dpgm.evaluation.inputs import inputs_of
from dpgm.evaluation.row_checks import column_faults
from dpgm.evaluation.verdict import verdict


def numbers(rng, count):
    normal, skewed = rng.normal(size=count), rng.exponential(size=count).round(3)
    return pandas.DataFrame({"normal": normal, "skewed": skewed, "even": rng.random(count)})


def coins(rng, count):
    return pandas.DataFrame({"coin": rng.integers(5, 7, count), "half": rng.choice(["x", "y"], count)})


def answers(rng, count):
    hidden = rng.normal(size=count)
    scales = {"q1": 5, "q2": 7, "q3": 10, "q4": 5}
    made = {
        name: np.clip((top / 2 + hidden + rng.normal(size=count)).round(), 1, top) for name, top in scales.items()
    }
    return pandas.DataFrame(made)


def skewed_counts(rng, count):
    idle = rng.random(count) < 0.5
    visits, cost = rng.geometric(0.2, count), rng.lognormal(5, 1.2, count).round(2)
    heavy = (rng.pareto(2.5, count) * 100).round()
    return pandas.DataFrame({"visits": np.where(idle, 0, visits), "cost": np.where(idle, 0, cost), "heavy": heavy})


def dates(rng, count):
    first = pandas.Timestamp("2020-01-01") + pandas.to_timedelta(rng.integers(0, 1500, count), unit="D")
    clock = pandas.Timestamp("2021-01-01") + pandas.to_timedelta(rng.integers(0, 365 * 86400, count), unit="s")
    return pandas.DataFrame(
        {"first": first, "last": first + pandas.to_timedelta(rng.geometric(0.1, count), "D"), "clock": clock}
    )


def mixed(rng, count):
    parts = [draw(rng, count) for draw in (numbers, coins, answers, skewed_counts, dates)]
    rare = pandas.DataFrame({"rare": rng.choice(["a", "b", "c", "d"], count, p=[0.9, 0.06, 0.03, 0.01])})
    return pandas.concat([*parts, rare], axis=1)


@pytest.mark.parametrize("count", [300, 1000, 5000])
@pytest.mark.parametrize("draw", [numbers, coins, answers, skewed_counts, dates, mixed])
def test_new_samples_of_one_population_are_close(draw, count):
    judged = []
    for seed in range(4):
        rng = np.random.default_rng([seed, count])
        judged.append(verdict(evaluate(draw(rng, count), draw(rng, count), baselines={})))
    assert [one.grade for one in judged] == ["close"] * 4, [one.bad for one in judged]


def faults(real, synthetic):
    made = evaluate(pandas.DataFrame({"x": real}), pandas.DataFrame({"x": synthetic}), baselines={})
    return [fault.kind for fault in column_faults(made.columns[0])]


def test_a_fair_coin_with_the_other_median_has_no_fault():
    real = np.repeat([5.0, 6.0], (2510, 2490))
    assert faults(real, np.repeat([5.0, 6.0], (2495, 2505))) == []
    assert faults(real, np.repeat([5.0, 6.0], (1900, 3100))) == ["share_of_column", "mean"]


def test_a_shift_that_chance_explains_in_few_rows_is_a_fault_of_many():
    rng = np.random.default_rng(0)
    few, many = rng.normal(size=200), rng.normal(size=20_000)
    assert faults(few, few + 0.15) == []
    assert "mean" in faults(many, many + 0.15)


def test_the_headline_of_a_small_sample_says_that_few_records_can_tell_little():
    rng = np.random.default_rng(0)
    few, many = (verdict(evaluate(mixed(rng, count), mixed(rng, count), baselines={})) for count in (100, 5000))
    assert (few.grade, many.grade) == ("close", "close")
    assert few.headline.endswith("for the real data, as far as so few records can tell.")
    assert many.headline.endswith("for the real data.")


def test_unequal_numbers_of_rows_invent_no_association():
    rng = np.random.default_rng(0)
    made = [
        pandas.DataFrame(rng.integers(0, 30, (count, 2)).astype(str), columns=["a", "b"]) for count in (20_000, 300)
    ]
    judged = verdict(evaluate(*made, baselines={}))
    assert not [text for text in judged.bad if text.startswith("The association")]


def test_what_chance_gives_is_about_what_new_samples_have():
    """Of 16 x 16 cells with four rows each, differences fall more slowly than with the square root of the rows."""
    rng = np.random.default_rng(0)
    real, fresh = numbers(rng, 1000), numbers(rng, 1000)
    inputs = inputs_of(real, fresh)
    expected = chance_figures(inputs.real, len(inputs.synthetic), 0)["pairs"]
    observed = evaluate(real, fresh, baselines={}).relations.pairs.mean_total_variation
    assert 0.9 * observed < expected.expected < 1.15 * observed < 1.3 * expected.most
