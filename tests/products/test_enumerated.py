"""Distributions over all records of a few items, fitted to centred sums and lengths."""

from itertools import combinations

import numpy as np
import torch

from dpgm.products.enumerated import fit_table
from dpgm.statistics.enumerated_sets import LengthCounts, SetSums


def all_records(width):
    """(2^m, m) zeros and ones."""
    return (np.arange(2**width)[:, None] >> np.arange(width)) & 1


def counts_of(chances, sets, width, records, weights):
    rows = all_records(width)
    sizes = rows.sum(axis=1)
    return records * np.array([(chances * weights[sizes])[(rows[:, list(s)] == 1).all(axis=1)].sum() for s in sets])


def masks(sets):
    return torch.tensor([sum(1 << item for item in s) for s in sets])


def test_the_table_reproduces_the_measured_sums_and_lengths():
    width, records = 5, 100_000
    draws = np.random.default_rng(0)
    truth = draws.dirichlet(np.full(2**width, 0.5))
    weights = np.array([1.0, 1.0, 1.0, 0.8, 0.6, 0.5])
    sizes = all_records(width).sum(axis=1)
    targets = []
    for order in (1, 2):
        sets = list(combinations(range(width), order))
        values = torch.from_numpy(counts_of(truth, sets, width, records, weights))
        targets.append(
            SetSums(
                masks(sets),
                values,
                torch.ones(len(sets)),
                torch.from_numpy(weights[sizes]),
                torch.zeros(width),
                0.03,
            )
        )
    lengths = torch.from_numpy(records * np.bincount(sizes, truth, minlength=width + 1))
    profile = torch.from_numpy(all_records(width).T @ truth)
    length_target = LengthCounts(torch.from_numpy(sizes), lengths, torch.ones(width + 1), 0.03)
    chances = fit_table(profile, records, [*targets, length_target]).numpy()
    assert abs(chances.sum() - 1) < 1e-9
    for part in targets:
        order = int(part.sets[0]).bit_count()
        sets = list(combinations(range(width), order))
        assert np.abs(counts_of(chances, sets, width, records, weights) - part.values.numpy()).max() < 20
    assert np.abs(records * np.bincount(sizes, chances) - lengths.numpy()).max() < 20


def test_without_measured_dependence_items_stay_independent():
    profile = torch.tensor([0.2, 0.5, 0.7])
    sets = [(0,), (1,), (2,)]
    targets = SetSums(masks(sets), 1000 * profile, torch.ones(3), torch.ones(8), torch.zeros(3), 0.03)
    chances = fit_table(profile, 1000, [targets]).numpy()
    rows, shares = all_records(3), profile.numpy()
    assert np.allclose(chances, np.where(rows == 1, shares, 1 - shares).prod(axis=1), atol=1e-4)


def test_records_counted_whole_are_reproduced():
    width, records = 4, 100_000
    truth = np.random.default_rng(1).dirichlet(np.full(2**width, 0.5))
    cells = torch.arange(2**width)
    values = torch.from_numpy(records * truth)
    profile = torch.from_numpy(all_records(width).T @ truth)
    whole = SetSums(cells, values, torch.ones(2**width), None, torch.zeros(width), 0.03)
    chances = fit_table(profile, records, [whole]).numpy()
    assert np.abs(chances - truth).max() * records < 20


def test_centred_sums_are_reproduced():
    width, records = 4, 100_000
    truth = np.random.default_rng(2).dirichlet(np.full(2**width, 0.5))
    weights = np.random.default_rng(3).uniform(0.5, 1.0, 2**width)
    offsets = np.array([0.5, 0.25, 0.0, 0.75])
    targets, expected = [], []
    for order in range(1, width + 1):
        sets = list(combinations(range(width), order))
        centred = np.array([(all_records(width)[:, list(s)] - offsets[list(s)]).prod(axis=1) for s in sets])
        expected.append(records * centred @ (weights * truth))
        values, ones = torch.from_numpy(expected[-1]), torch.ones(len(sets))
        targets.append(
            SetSums(masks(sets), values, ones, torch.from_numpy(weights), torch.from_numpy(offsets), penalty=1e-4)
        )
    profile = torch.from_numpy(all_records(width).T @ truth)
    chances = fit_table(profile, records, targets).numpy()
    for part, target in zip(targets, expected, strict=True):
        sets = [[item for item in range(width) if mask >> item & 1] for mask in part.sets.tolist()]
        centred = np.array([(all_records(width)[:, s] - offsets[s]).prod(axis=1) for s in sets])
        assert np.abs(records * centred @ (weights * chances) - target).max() < 20
