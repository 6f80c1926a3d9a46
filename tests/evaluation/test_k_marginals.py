"""The k-marginal score: its definition computed naively, its range, and many sets of columns."""

from itertools import combinations

import numpy as np
import pandas as pd
import pytest

import dpgm
from dpgm.errors import UsageError
from dpgm.evaluation.k_marginals import k_marginal_score

NAMES = ("a", "b", "c", "d")


def _frame(rows: int, seed: int) -> pd.DataFrame:
    draws = np.random.default_rng(seed)
    return pd.DataFrame({name: draws.choice(["x", "y", "z"], rows, p=[0.5, 0.3, 0.2]) for name in NAMES})


def _records(frame: pd.DataFrame) -> dpgm.Records:
    fields = tuple(dpgm.Categorical(name, ("x", "y", "z")) for name in frame.columns)
    return dpgm.as_records(frame, domain=dpgm.Domain(fields))


@pytest.mark.parametrize("k", [1, 2, 3])
def test_the_score_is_1000_minus_500_times_the_mean_absolute_difference_of_densities(k):
    first, second = _frame(500, 0), _frame(300, 1)
    second["b"] = second["a"]
    naive = []
    for columns in combinations(NAMES, k):
        densities = [frame.groupby(list(columns)).size() / len(frame) for frame in (first, second)]
        naive.append(densities[0].subtract(densities[1], fill_value=0).abs().sum())
    score = k_marginal_score(_records(first), _records(second), k)
    assert score == pytest.approx(1000 - 500 * np.mean(naive))
    assert k_marginal_score(_records(first), _records(first), k) == 1000


def test_more_sets_than_wanted_are_drawn_and_their_mean_is_close():
    first, second = _records(_frame(500, 0)), _records(_frame(300, 1))
    drawn = k_marginal_score(first, second, 2, most=5, seed=1)
    assert drawn == k_marginal_score(first, second, 2, most=5, seed=1)
    assert drawn == pytest.approx(k_marginal_score(first, second, 2), abs=20)


def test_too_few_columns_are_refused():
    rows = _records(_frame(50, 0))
    with pytest.raises(UsageError, match="fewer than 5 columns"):
        k_marginal_score(rows, rows, 5)
