"""What lists of values that passed a threshold add: in cost, calibration, certificate, plan and ledger."""

import math

import pytest

from dpgm.errors import ArtefactError, BudgetError, UsageError
from dpgm.privacy.accountant import cost, delta_at, gaussian_delta, gaussian_epsilon, replace_one_epsilon
from dpgm.privacy.calibration import Spend, Training, calibrate
from dpgm.privacy.events import GaussianRelease, Mechanism, SampledSteps, Threshold, events_of, threshold_delta
from dpgm.privacy.ledger import Ledger

LISTED = Mechanism("discovered values", 10.0, delta=1e-7)
COUNTS = Mechanism("item counts", 5.0)


def test_a_threshold_takes_delta_and_the_noise_behind_it_is_a_gaussian_release():
    assert events_of([LISTED]) == (GaussianRelease(10.0), Threshold(1e-7))
    mu = math.sqrt(1 / 100 + 1 / 25)
    assert cost([LISTED, COUNTS], 1e-6).epsilon == pytest.approx(
        gaussian_epsilon(mu, 1e-6 - 1e-7 / (1 - 1e-7)), rel=1e-12
    )
    assert delta_at([LISTED, COUNTS], 1.0) == pytest.approx(gaussian_delta(mu, 1.0) + 1e-7, rel=1e-6)


def test_with_training_too():
    step = SampledSteps(1.1, 0.01, 500)
    listed = cost([step, GaussianRelease(10.0), Threshold(1e-7)], 1e-6).epsilon
    assert listed == pytest.approx(cost([step, GaussianRelease(10.0)], 9e-7).epsilon, rel=1e-6)
    assert listed > cost([step, GaussianRelease(10.0)], 1e-6).epsilon
    stages = calibrate(1.0, 1e-6, [Spend("discovered values", 0.2, delta=1e-7)], Training(0.01, 200), cache=False)
    assert 0.99 < cost(stages, 1e-6).epsilon <= 1.0


def test_replacing_a_record_counts_both():
    assert threshold_delta([Threshold(0.1)]) == pytest.approx(0.1 / 0.9)
    assert threshold_delta([Threshold(0.1, 2)]) == pytest.approx(1 / 0.81 - 1)
    expected = gaussian_epsilon(2 / 10, 1e-6 - threshold_delta([Threshold(1e-7)], records=2))
    assert replace_one_epsilon([LISTED], 1e-6) == pytest.approx(expected, rel=1e-9)


def test_more_delta_than_there_is_and_sampled_thresholds_are_refused():
    with pytest.raises(UsageError, match="larger delta"):
        cost([LISTED], 1e-7)
    with pytest.raises(UsageError, match="use up all"):
        calibrate(1.0, 1e-6, [Spend("discovered values", 1.0, delta=1e-6)])
    with pytest.raises(UsageError, match="thresholds a sample"):
        cost([Mechanism("x", 1.0, 1, 0.5, None, 1e-9)], 1e-6)


def test_calibration_meets_the_target_with_the_threshold_paid():
    spends = [Spend("discovered values", 0.1, delta=1e-7), Spend("item counts", 0.9)]
    for cached in (False, True, True):
        stages = calibrate(1.0, 1e-6, spends, cache=cached)
        assert [stage.delta for stage in stages] == [1e-7, 0.0]
        assert 0.995 < cost(stages, 1e-6).epsilon <= 1.0


def test_documents_without_thresholds_are_as_they_were():
    assert "delta" not in COUNTS.to_json()
    assert Mechanism(**LISTED.to_json()) == LISTED


def test_a_certificate_keeps_the_delta_of_a_threshold():
    from dpgm.privacy.certificate import read_mechanisms

    assert read_mechanisms({"m": [LISTED.to_json(), COUNTS.to_json()]}, "m") == (LISTED, COUNTS)
    for wrong in (0, 1, -1e-9, "x"):
        with pytest.raises(ArtefactError):
            read_mechanisms({"m": [LISTED.to_json() | {"delta": wrong}]}, "m")


def test_a_ledger_keeps_room_for_thresholds_only_if_it_began_with_one(tmp_path):
    ledger = Ledger.create(tmp_path / "a.ledger", 5.0, 1e-6)
    for _ in range(4):
        ledger.commit(ledger.start(ledger.reserve([LISTED, COUNTS], 1e-6)))
    with pytest.raises(BudgetError, match=r"takes 1e-07 of .* of the 5e-07 kept for that 1e-07 is left"):
        ledger.reserve([LISTED, COUNTS], 1e-6)
    ledger.reserve([COUNTS], 1e-6)
    totals = ledger.totals()
    assert totals.epsilon_if_fixed == pytest.approx(
        cost([GaussianRelease(10.0, 4), GaussianRelease(5.0, 5), Threshold(1e-7, 4)], 1e-6).epsilon
    )
    plain = Ledger.create(tmp_path / "b.ledger", 5.0, 1e-6)
    plain.reserve([COUNTS], 1e-6)
    with pytest.raises(BudgetError, match="first plan of this ledger kept none"):
        plain.reserve([LISTED], 1e-6)
    assert plain.totals().order is not None


def test_a_first_plan_is_told_what_it_lacks_itself(tmp_path):
    """Not that "the first plan" kept no room: it is the first."""
    ledger = Ledger.create(tmp_path / "a.ledger", 1.0, 1e-6)
    with pytest.raises(BudgetError, match="of the ledger's epsilon"):
        ledger.reserve([Mechanism("discovered values", 1.0, delta=9.9999e-7)], 1e-6)
    with pytest.raises(BudgetError, match=r"takes 1e-06 .* 5e-07 is left: lower the plan's delta"):
        ledger.reserve([Mechanism("discovered values", 5.0, delta=9.9999e-7)], 1e-6)
    ledger.reserve([Mechanism("discovered values", 5.0, delta=1e-7)], 1e-6)
