"""Strengths of pairs from noisy tables, and the tree of the strongest."""

from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
import torch

from dpgm.data.domain import Categorical, Domain
from dpgm.statistics.coded_rows import Coding
from dpgm.statistics.pair_blocks import FOURTHS, PairBlocks, PairFeatures, group_features
from dpgm.statistics.statistic import Measured
from dpgm.trees.dependence import mean_weights, pair_strengths, pair_values, rooted, spanning_pairs

SIZES = (6, 6, 5, 4)
DOMAIN = Domain(tuple(Categorical(f"c{at}", tuple(range(size))) for at, size in enumerate(SIZES)))
PAIRS = list(combinations(range(4), 2))
ROWS = 40_000


def codes(seed=0):
    """The second column follows the first one, the third one a little; the last is alone."""
    rng = np.random.default_rng(seed)
    first = rng.choice(6, ROWS, p=[0.4, 0.2, 0.15, 0.1, 0.1, 0.05])
    second = np.where(rng.random(ROWS) < 0.7, first, rng.integers(0, 6, ROWS))
    third = np.where(rng.random(ROWS) < 0.3, first % 5, rng.integers(0, 5, ROWS))
    return np.stack([first, second, third, rng.integers(0, 4, ROWS)], axis=1)


def measured(std, limit=10**12, seed=0):
    rows = codes(seed)
    shares = tuple(np.bincount(own, minlength=size) / ROWS for own, size in zip(rows.T, SIZES, strict=True))
    features = tuple(group_features(np.arange(size), own) for size, own in zip(SIZES, shares, strict=True))
    fourths = np.array([FOURTHS, 2 * FOURTHS, FOURTHS, FOURTHS, FOURTHS, FOURTHS])
    blocks = PairBlocks(Coding.of(DOMAIN), features, np.array(PAIRS), fourths, limit)
    exact = PairFeatures(blocks, rows).sums(torch.ones(ROWS, dtype=torch.float64)).numpy()
    noisy = exact + std * np.random.default_rng(seed + 1).normal(size=len(exact))
    return Measured(blocks, torch.from_numpy(noisy), std), shares, rows


def information(rows, i, j):
    joint = np.zeros((SIZES[i], SIZES[j]))
    np.add.at(joint, (rows[:, i], rows[:, j]), 1 / ROWS)
    apart = np.outer(joint.sum(1), joint.sum(0))
    return float((joint * np.log(np.maximum(joint, 1e-12) / apart)).sum())


@pytest.mark.parametrize(("std", "limit"), [(1.0, 10**12), (40.0, 10**12), (10.0, 6000**2)])
def test_strengths_rank_pairs_as_their_mutual_information(std, limit):
    found, shares, rows = measured(std, limit)
    means = mean_weights(found.statistic, rows, 5.0)
    strength = dict(zip(PAIRS, pair_strengths(found, means, shares, ROWS, 30), strict=True))
    truth = {pair: information(rows, *pair) for pair in PAIRS}
    assert max(strength, key=strength.get) == (0, 1)
    # half of chi-square: larger than the information where dependence is strong
    assert truth[0, 1] < strength[0, 1] < 3 * truth[0, 1]
    assert strength[0, 2] == pytest.approx(truth[0, 2], rel=0.6)
    assert max(strength[pair] for pair in [(0, 3), (1, 3), (2, 3)]) < 0.2 * strength[0, 2]
    assert set(spanning_pairs(PAIRS, np.array([strength[pair] for pair in PAIRS]), 4)) >= {(0, 1), (0, 2)}


def test_values_of_pairs_are_cut_in_the_order_of_the_statistic():
    found, _, _ = measured(0.0)
    values = pair_values(found)
    assert [one.shape for one in values] == [(SIZES[i], SIZES[j]) for i, j in PAIRS]
    assert np.array_equal(np.concatenate([one.ravel() for one in values]), found.value.numpy())


def test_mean_weights_are_those_of_the_rows_in_each_cell():
    found, _, rows = measured(0.0, 6000**2)
    weights = found.statistic.row_weights(found.statistic.groups(rows))
    means = mean_weights(found.statistic, rows, 0.001)
    inside = (rows[:, 0] == 1) & (rows[:, 2] == 3)
    assert means[1][1, 3] == pytest.approx(weights[inside].mean(), rel=1e-3)


def test_a_spanning_tree_takes_the_strongest_pairs_and_no_worthless_ones():
    assert spanning_pairs([(0, 1), (0, 2), (1, 2)], np.array([1.0, 3.0, 2.0]), 3) == [(0, 2), (1, 2)]
    assert spanning_pairs([(0, 1), (0, 2), (1, 2)], np.array([0.0, 3.0, 0.0]), 3) == [(0, 2)]


def test_every_column_has_a_parent_or_is_a_root():
    assert rooted([(0, 2), (1, 2)], 4, 1) == (2, -1, 1, -1)


def test_strengths_do_not_depend_on_the_order_of_columns():
    found, shares, rows = measured(20.0)
    means = mean_weights(found.statistic, rows, 5.0)
    blocks = replace(
        found.statistic, pairs=found.statistic.pairs[::-1].copy(), emphasis=found.statistic.emphasis[::-1].copy()
    )
    values = torch.from_numpy(np.concatenate([one.ravel() for one in pair_values(found)[::-1]]))
    turned = pair_strengths(Measured(blocks, values, 20.0), means[::-1], shares, ROWS, 30)
    assert np.allclose(turned[::-1], pair_strengths(found, means, shares, ROWS, 30))
