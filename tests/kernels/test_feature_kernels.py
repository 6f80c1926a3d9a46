"""Fourier features and assignment in integers."""

import numpy as np
import pytest
import torch

from dpgm.kernels.feature_kernels import TABLE, add_by_cluster, assign, cosine_table


@pytest.mark.parametrize("amplitude", [0.5, 1.0, 7.3, 3276.8, 32768.0])
def test_no_pair_of_the_table_is_longer_than_the_amplitude(amplitude):
    cosines, sines = (table.astype(np.int64) for table in cosine_table(amplitude))
    assert len(cosines) == TABLE
    assert (cosines**2 + sines**2).max() <= amplitude**2
    if amplitude > 100:
        assert (cosines**2 + sines**2).min() > (amplitude - 2) ** 2


def test_ties_go_to_the_first_centre():
    features = torch.tensor([[1, 0], [0, 0]], dtype=torch.int16)
    centers = torch.tensor([[0, 1], [1, 0], [1, 0]], dtype=torch.int16)
    chosen = assign(features, centers, torch.zeros(3, dtype=torch.int64))
    assert chosen.tolist() == [1, 0]


@pytest.mark.parametrize("rows", [1, 3, 4, 7, 50])
@pytest.mark.parametrize("width", [1, 2, 7, 30])
@pytest.mark.parametrize("clusters", [1, 2, 15, 16, 17, 40])
def test_the_nearest_centre_is_found_whatever_the_shape(rows, width, clusters):
    rng = np.random.default_rng(rows + 100 * width + 10_000 * clusters)
    spread = 2 if width < 7 else 5000  # small numbers give ties
    features, centers = (rng.integers(-spread, spread + 1, (n, width)).astype(np.int16) for n in (rows, clusters))
    offsets = rng.integers(0, spread**2, clusters)
    scores = features.astype(np.int64) @ centers.T.astype(np.int64) - offsets
    chosen = assign(*(torch.from_numpy(each) for each in (features, centers, offsets)))
    assert chosen.tolist() == scores.argmax(axis=1).tolist()


def test_only_a_part_of_a_larger_table_is_read():
    table = torch.full((9, 6), 7000, dtype=torch.int16)
    table[2:5] = torch.tensor([[1, 0, 0, 0, 0, 0], [0, 1, 0, 0, 0, 0], [0, 0, 0, 0, 0, 1]], dtype=torch.int16)
    centers = torch.eye(6, dtype=torch.int16)
    assert assign(table[2:5], centers, torch.zeros(6, dtype=torch.int64)).tolist() == [0, 1, 5]
    assert assign(table[2:5, 1:], centers[:, 1:], torch.zeros(6, dtype=torch.int64)).tolist() == [0, 1, 5]


def test_scores_near_the_limit_are_exact():
    features = torch.full((1, 2), 23170, dtype=torch.int16)
    centers = torch.tensor([[23170, 23169], [23170, 23170], [-23170, -23170]], dtype=torch.int16)
    assert assign(features, centers, torch.zeros(3, dtype=torch.int64)).tolist() == [1]
    assert assign(-features, centers, torch.zeros(3, dtype=torch.int64)).tolist() == [2]


def test_sums_do_not_overflow():
    rows = 70_000  # beyond what fits int32 for the largest features
    features = torch.full((rows, 1), 32767, dtype=torch.int16)
    chosen = torch.zeros(rows, dtype=torch.int64)
    counts, sums = torch.zeros(2, dtype=torch.int64), torch.zeros(2, 1, dtype=torch.int64)
    add_by_cluster(features, chosen, counts, sums)
    add_by_cluster(-features[:3], chosen[:3] + 1, counts, sums)
    assert counts.tolist() == [rows, 3]
    assert sums.tolist() == [[rows * 32767], [-3 * 32767]]


def test_no_rows_give_empty_results():
    empty = torch.empty(0, 4, dtype=torch.int16)
    centers = torch.zeros(2, 4, dtype=torch.int16)
    chosen = assign(empty, centers, torch.zeros(2, dtype=torch.int64))
    assert chosen.shape == (0,)
    counts, sums = torch.zeros(2, dtype=torch.int64), torch.zeros(2, 4, dtype=torch.int64)
    add_by_cluster(empty, chosen, counts, sums)
    assert counts.sum() == 0
