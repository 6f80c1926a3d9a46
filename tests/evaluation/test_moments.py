"""Means and standard deviations of long tails."""

import numpy as np

from dpgm.evaluation.column_metrics import _without_farthest


def test_equal_values_far_out_are_left_out_on_both_sides():
    sides = [np.concatenate([np.arange(1000.0) % 7, np.full(8, 99_999.0)]) for _ in range(2)]
    kept = _without_farthest(*sides)
    assert [int((side == 99_999).sum()) for side in kept] == [3, 3]
