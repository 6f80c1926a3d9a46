"""The expected value of a statistic on a model equals its query on records drawn from that model."""

from itertools import combinations

import numpy as np
import pytest
import torch

from dpgm.data.domain import Categorical, Domain, ItemSet
from dpgm.mechanisms.query import View
from dpgm.products.model import Products
from dpgm.statistics.centred_pairs import CentredPairs
from dpgm.statistics.clipping import clipped_scaling, moments
from dpgm.statistics.item_counts import ItemCounts
from dpgm.statistics.item_tuples import ItemTuples
from dpgm.statistics.record_lengths import LengthGroups, RecordLengths
from dpgm.statistics.rules import STATISTIC_RULES
from dpgm.statistics.scaled_items import ScaledItems
from dpgm.statistics.statistic import STEPS, unscaled

DOMAIN = Domain((ItemSet("items", tuple(range(30))), Categorical("colour", ("red", "green", "blue"))))
WEIGHTS = torch.tensor([0.1, 0.2, 0.3, 0.4])


def mixture(domain, likely=1.0, seed=0):
    draws = torch.Generator().manual_seed(seed)
    chances = likely * torch.rand((4, domain.width), generator=draws)
    for column in domain.table_columns:
        chances[:, column] /= chances[:, column].sum(dim=1, keepdim=True)
    return Products(domain, WEIGHTS.double(), chances), draws


def query_mean(statistic, model, draws, count):
    """The query's mean over drawn records."""
    query = statistic.query()
    records = model.sample_part(count, 0.5, generator=draws)
    return query.compute(View(records)).numpy() * query.grid / count


@pytest.mark.parametrize("limit", [3.0, 6.0, 100.0])
def test_centred_pairs_are_those_of_drawn_records(limit):
    model, draws = mixture(DOMAIN)
    offsets = tuple((torch.rand(33, generator=draws) * STEPS).round().int().tolist())
    pairs = CentredPairs(DOMAIN, tuple(range(33)), offsets, round(limit * STEPS**2))
    predicted = pairs.expected(
        model.probabilities, WEIGHTS, pairs.scaling(STATISTIC_RULES.bound)(model.probabilities)
    ).numpy()
    drawn_mean = query_mean(pairs, model, draws, 60_000)
    assert np.abs(predicted[tuple(pairs.tuples.T)] - drawn_mean).max() < 0.008
    assert np.abs(drawn_mean).max() > 0.02 * min(limit, 10)


@pytest.mark.parametrize("limit", [0.3, 1.0, 3.0, 100.0])
@pytest.mark.parametrize("likely", [0.1, 0.9])
def test_scaled_items_are_those_of_drawn_records(limit, likely):
    domain = Domain.of_items(40)
    model, draws = mixture(domain, likely)
    scales = tuple((1 + 15 * torch.rand(40, generator=draws)).round().int().tolist())
    offsets = tuple((WEIGHTS @ model.probabilities * STEPS).round().int().tolist())
    items = ScaledItems(domain, scales, offsets, round(limit * STEPS**4))
    predicted = items.expected(
        model.probabilities, WEIGHTS, items.scaling(STATISTIC_RULES.bound)(model.probabilities)
    ).numpy()
    drawn_mean = query_mean(items, model, draws, 30_000)
    assert np.abs(predicted - drawn_mean).max() < 0.004
    assert np.abs(drawn_mean).max() > 0.008


# Where rows of a table are down-weighted as well, the values of a column are off by some percent: a component's mean
# weight is taken as if the column could be empty. So bounds that cut are tried on items alone.
@pytest.mark.parametrize(("domain", "cap"), [(DOMAIN, 33), (Domain.of_items(33), 33), (Domain.of_items(33), 5)])
def test_item_counts_are_those_of_drawn_records(domain, cap):
    model, draws = mixture(domain, 0.4)
    items = ItemCounts(domain, cap)
    scale = clipped_scaling(1, np.arange(domain.width), cap, 33, domain)(model.probabilities)
    drawn_mean = query_mean(items, model, draws, 30_000)
    assert np.abs(items.expected(model.probabilities, WEIGHTS, scale).numpy() - drawn_mean).max() < 0.008


@pytest.mark.parametrize(("domain", "cap"), [(DOMAIN, 12), (Domain.of_items(33), 12), (Domain.of_items(33), 4)])
@pytest.mark.parametrize("order", [2, 3, 4])
def test_counts_of_sets_are_those_of_drawn_records(order, domain, cap):
    model, draws = mixture(domain, 0.4)
    sets = ItemTuples(domain, (0, 1, 2, 3, 4, 5, 6, 7, 8, 30, 31, 32), order, cap)
    scale = clipped_scaling(order, sets.positions, cap, 12, domain)(model.probabilities)
    predicted = sets.expected(model.probabilities, WEIGHTS, scale).numpy()[sets.places]
    assert np.abs(predicted - query_mean(sets, model, draws, 30_000)).max() < 0.008


def test_lengths_are_those_of_drawn_records():
    model, draws = mixture(DOMAIN, 0.4)
    groups = LengthGroups(tuple(range(30)), tuple(range(31)))
    predicted = groups.expected(model.probabilities, WEIGHTS, unscaled(model.probabilities)).numpy()
    assert np.abs(predicted - query_mean(RecordLengths(DOMAIN), model, draws, 30_000)).max() < 0.008


@pytest.mark.parametrize("order", [1, 2, 3, 4])
def test_moments_equal_enumeration(order):
    draws = torch.Generator().manual_seed(0)
    chances, weights = torch.rand(3, 5, generator=draws), torch.softmax(torch.randn(3, generator=draws), 0)
    level, slope = torch.rand(3, generator=draws), 0.1 * torch.rand(3, generator=draws)
    predicted = moments(order, chances, weights, level, slope)
    pair = {p: at for at, p in enumerate(combinations(range(5), 2))}
    for members in combinations(range(5), order):
        own = chances[:, list(members)]
        exact = (weights * (level - slope * own.sum(1)) * own.prod(1)).sum()
        where = members if order < 3 else (pair[members[:2]], members[2] if order == 3 else pair[members[2:]])
        assert torch.isclose(predicted[where], exact)
