"""The budget checks of dpgm.validation: one plain sentence each."""

import math
import warnings

import pytest

from dpgm import validation
from dpgm.errors import PrivacyWarning, UsageError


@pytest.mark.parametrize("epsilon", [0, -1, math.nan, math.inf, "1", None, True])
def test_an_epsilon_that_is_no_positive_number_is_refused(epsilon):
    with pytest.raises(UsageError, match="epsilon"):
        validation.budget(epsilon, 1e-6, 1000)


@pytest.mark.parametrize("delta", [0, -1e-6, 1, 2, math.nan, math.inf, None])
def test_a_delta_outside_zero_and_one_is_refused(delta):
    with pytest.raises(UsageError, match="delta"):
        validation.budget(1.0, delta, 1000)


@pytest.mark.parametrize("records", [0, -5, 1.5, None, True])
def test_a_number_of_records_below_one_is_refused(records):
    with pytest.raises(UsageError, match="records"):
        validation.budget(1.0, 1e-6, records)


def test_a_careful_budget_passes_in_silence():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        validation.budget(1.0, 1e-6, 100_000)
        validation.budget(10, 1e-6, 100_000)


def test_weak_budgets_are_warned_about():
    with pytest.warns(PrivacyWarning, match="epsilon"):
        validation.budget(10.5, 1e-6, 1000)
    with pytest.warns(PrivacyWarning, match="delta"):
        validation.budget(1.0, 5e-4, 1000)


def test_budgets_that_protect_nobody_are_refused():
    with pytest.raises(UsageError, match="random record"):
        validation.budget(1.0, 1.1e-3, 1000)
    with pytest.raises(UsageError, match="protects nobody"):
        validation.budget(101, 1e-6, 1000)


def test_shares_must_add_up():
    validation.shares({"a": 0.1, "b": 0.2, "c": 0.7})
    validation.shares({"a": 0.5}, leave_some=True)
    validation.shares({}, leave_some=True)
    with pytest.raises(UsageError, match=r"a 0\.5, b 0\.6, which sum to 1\.1"):
        validation.shares({"a": 0.5, "b": 0.6})
    with pytest.raises(UsageError, match="less than 1"):
        validation.shares({"a": 1.0}, leave_some=True)


def test_the_other_checks_name_the_parameter():
    validation.whole(steps=3, at_least=1, at_most=3)
    validation.non_negative(share=0)
    validation.one_of(("cpu", "cuda"), device="cpu")
    for check, arguments in (
        (validation.whole, {"steps": 4, "at_most": 3}),
        (validation.non_negative, {"share": -0.1}),
        (validation.fraction, {"rate": 0.0}),
    ):
        with pytest.raises(UsageError, match=r"steps|share|rate"):
            check(**arguments)
    with pytest.raises(UsageError, match="'cpu', 'cuda'"):
        validation.one_of(("cpu", "cuda"), device="tpu")
