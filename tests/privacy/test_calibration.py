import json
import math
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpgm.errors import DpgmError, UsageError
from dpgm.privacy import calibration
from dpgm.privacy.accountant import cost
from dpgm.privacy.calibration import Spend, Training, calibrate, gaussian_mu, round_up
from dpgm.privacy.events import merged_noise

VECTORS = json.loads((Path(__file__).parent / "vectors.json").read_text(encoding="utf-8"))


def assert_meets(mechanisms, epsilon, delta):
    reached = cost(mechanisms, delta).epsilon
    assert epsilon * 0.995 <= reached <= epsilon


@pytest.mark.parametrize("vector", VECTORS["calibration_sgd_sigma"])
def test_training_alone_gets_the_oracles_noise(vector):
    training = Training(vector["q"], vector["T"], norm_share=0)
    (gradients,) = calibrate(vector["eps"], vector["delta"], [], training, cache=False)
    assert vector["sigma_exact"] - 1e-6 <= gradients.noise <= vector["sigma_exact"] * (1 + 1e-3)
    assert (gradients.name, gradients.sample, gradients.count) == ("gradients", "step", vector["T"])


@pytest.mark.parametrize("vector", VECTORS["calibration_full_default_split"])
def test_a_split_over_clustering_and_training_gets_the_oracles_noise(vector):
    steps, share, counts = vector["T_K"], vector["f_K"], vector["count_share"]
    split = (
        Spend("cluster counts", share * counts, steps),
        Spend("cluster sums", share * (1 - counts), steps),
        Spend("cluster weights", vector["f_N"]),
    )
    mechanisms = calibrate(vector["eps"], vector["delta"], split, Training(vector["q"], vector["T"], vector["f_C"]))
    noise = {mechanism.name: mechanism.noise for mechanism in mechanisms}
    for name, key in (("cluster counts", "z_n"), ("cluster sums", "z_s"), ("cluster weights", "z_N")):
        assert vector[key] <= noise[name] <= vector[key] * (1 + 1e-4)
    for name, key in (("norms", "z_C"), ("gradients", "z_G")):
        assert vector[key] * (1 - 1e-6) <= noise[name] <= vector[key] * (1 + 1e-3)
    assert merged_noise([noise["norms"], noise["gradients"]]) == pytest.approx(vector["z_eff"], rel=1e-3)
    assert gaussian_mu(vector["eps"], vector["delta"]) == pytest.approx(vector["mu_total"], rel=1e-9)
    assert_meets(mechanisms, vector["eps"], vector["delta"])


@pytest.mark.parametrize("vector", VECTORS["calibration_gaussian_sigma"])
def test_the_budget_of_one_release_is_exact(vector):
    assert 1 / gaussian_mu(vector["eps"], vector["delta"]) == pytest.approx(vector["sigma"], rel=1e-9)
    (mechanism,) = calibrate(vector["eps"], vector["delta"], [Spend("all", 1.0)])
    assert vector["sigma"] <= mechanism.noise <= vector["sigma"] * (1 + 1e-4)


def test_shares_are_shares_of_the_squared_signal():
    small, large = calibrate(1.0, 1e-6, [Spend("a", 0.2, 8), Spend("b", 0.8)])
    assert (small.noise**2 / 8) / large.noise**2 == pytest.approx(4.0, rel=1e-3)
    assert_meets((small, large), 1.0, 1e-6)


@settings(max_examples=6, deadline=None)
@given(
    st.floats(0.05, 20),
    st.sampled_from([1e-3, 1e-6, 1e-9]),
    st.floats(1e-3, 0.5),
    st.integers(1, 3000),
    st.floats(0.01, 0.9),
)
def test_calibrating_then_costing_returns_the_target(epsilon, delta, rate, steps, share):
    mechanisms = calibrate(epsilon, delta, [Spend("counts", share, 4)], Training(rate, steps), cache=False)
    reached = cost(mechanisms, delta, check=False, cache=False).epsilon
    floor = mechanisms[-1].noise <= calibration.SMALLEST_PLANNED_NOISE * 1.1
    assert reached <= epsilon
    assert reached >= epsilon * 0.995 or floor


@pytest.mark.parametrize(
    ("epsilon", "delta", "rate", "steps"),
    [(0.01, 1e-12, 0.01, 1000), (0.01, 1e-3, 0.01, 100), (100.0, 1e-12, 0.01, 1000), (100.0, 1e-3, 0.1, 100)],
)
def test_extreme_budgets_are_met(epsilon, delta, rate, steps):
    assert_meets(calibrate(epsilon, delta, [Spend("counts", 0.1)], Training(rate, steps)), epsilon, delta)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("epsilon", "delta", "rate", "steps"),
    [
        (0.01, 1e-12, 1e-7, 10**6),
        (100.0, 1e-3, 1e-4, 10**6),
        (1.0, 1e-9, 2.2e-5, 909100),
        (8.0, 1e-8, 1e-6, 300000),
    ],
)
def test_extreme_schedules_are_met(epsilon, delta, rate, steps):
    assert_meets(calibrate(epsilon, delta, [], Training(rate, steps)), epsilon, delta)


def test_noise_that_no_longer_matters_stops_at_a_floor():
    # A record is in the only sample with probability 1e-9, less than delta: no noise is needed at all.
    mechanisms = calibrate(1.0, 1e-6, [], Training(1e-9, 1))
    assert cost(mechanisms, 1e-6).epsilon <= 1.0
    assert merged_noise(m.noise for m in mechanisms) == pytest.approx(calibration.SMALLEST_PLANNED_NOISE, rel=1e-3)


def test_an_answer_is_remembered(monkeypatch):
    question = (2.0, 1e-6, (Spend("counts", 0.1, 3),), Training(0.01, 500))
    first = calibrate(*question)
    monkeypatch.setattr(calibration, "solve_training", lambda *_: pytest.fail("not remembered"))
    assert calibrate(*question) == first
    monkeypatch.undo()


@pytest.mark.parametrize("damage", ["", "{", "[]", '{"checksum": "x", "value": 1}', '"text"'])
def test_a_damaged_memory_is_ignored(damage, tmp_path, monkeypatch):
    monkeypatch.setenv("DPGM_CACHE", str(tmp_path))
    question = (2.0, 1e-6, (Spend("counts", 1.0, 3),))
    first = calibrate(*question)
    (entry,) = tmp_path.iterdir()
    entry.write_text(damage)
    assert calibrate(*question) == first


def test_a_memory_of_another_shape_is_ignored(monkeypatch):
    for value in (
        [["counts", 1.0]],
        [["other", 1.0, 3, 1.0, None]],
        [[1, 2, 3, 4, 5, 6]],
        [[1, 2, 3, 4, 5, 6, 7]],
        None,
        [],
    ):
        monkeypatch.setattr(calibration.disk, "recall", lambda key, value=value: value)
        (mechanism,) = calibrate(2.0, 1e-6, [Spend("counts", 1.0, 3)])
        assert (mechanism.name, mechanism.count) == ("counts", 3)
        assert mechanism.noise > 1.5


def test_a_target_that_is_missed_is_never_returned(monkeypatch):
    monkeypatch.setattr(calibration, "round_up", lambda noise: noise * 0.9)
    with pytest.raises(DpgmError, match="ended at"):
        calibrate(1.0, 1e-6, [Spend("all", 1.0)], cache=False)


def test_a_search_that_jumps_about_still_ends_at_the_target(monkeypatch):
    """A cost with a cliff in it: secant steps overshoot, the bracket catches them, and rounding ends the search."""

    def cliff(mechanisms, delta, tolerance):
        noise = merged_noise(mechanism.noise for mechanism in mechanisms)
        return 0.4 / noise if noise > 1.2345 else 50.0 / noise

    monkeypatch.setattr(calibration, "search_epsilon", cliff)
    (gradients,) = calibration.solve_training(1.0, 1e-6, (), Training(0.01, 100, 0.0), 0.05)
    assert gradients.noise == pytest.approx(1.2345, rel=1e-4)
    assert gradients.noise > 1.2345


def test_a_budget_too_small_for_any_noise_is_refused():
    with pytest.raises(UsageError, match="larger epsilon"):
        calibrate(1e-9, 1e-12, [], Training(0.9, 10**6), cache=False)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((0.0, 1e-6, [Spend("a", 1.0)]), "epsilon"),
        ((math.nan, 1e-6, [Spend("a", 1.0)]), "epsilon"),
        ((1.0, 0.0, [Spend("a", 1.0)]), "delta"),
        ((1.0, 1e-6, [Spend("a", 0.5)]), "sum to 1"),
        ((1.0, 1e-6, []), "sum to 1"),
        ((1.0, 1e-6, [Spend("a", 1.0)], Training(0.1, 10)), "less than 1"),
        ((1.0, 1e-6, [Spend("a", 0.5), Spend("a", 0.5)]), "name of its own"),
        ((1.0, 1e-6, [Spend("norms", 0.5)], Training(0.1, 10)), "name of its own"),
        ((1.0, 1e-6, [Spend("a", -0.5), Spend("b", 1.5)]), "share"),
        ((1.0, 1e-6, [Spend("a", 1.0, 0)]), "count"),
        ((1.0, 1e-6, [], Training(0.0, 10)), "sampling_rate"),
        ((1.0, 1e-6, [], Training(1.1, 10)), "sampling_rate"),
        ((1.0, 1e-6, [], Training(0.1, 0)), "steps"),
        ((1.0, 1e-6, [], Training(0.1, 10, 1.0)), "norm_share"),
        ((1.0, 1e-6, [], Training(0.1, 10, -0.1)), "norm_share"),
    ],
)
def test_a_bad_question_is_refused_in_one_sentence(arguments, words):
    with pytest.raises(UsageError, match=words):
        calibrate(*arguments)


@given(st.floats(1e-6, 1e9))
def test_rounding_is_upwards_and_small(noise):
    rounded = round_up(noise)
    assert noise <= rounded <= noise * (1 + 2.1e-4)
