"""Samples of mixtures of products: items are exchanged and sizes rounded so that counts have small errors."""

from dataclasses import replace
from itertools import permutations

import numpy as np
import pytest
import torch

from dpgm.data.domain import Categorical, Domain, ItemSet
from dpgm.data.records import Records
from dpgm.kernels.item_swaps import balance
from dpgm.products import sampling
from dpgm.products.model import Products
from dpgm.products.rules import SAMPLING_RULES
from dpgm.products.sampling import improve_rounding


def a_mixture(domain, components=6, seed=0, **rules):
    generator = torch.Generator().manual_seed(seed)
    chances = 0.4 * torch.rand(components, domain.width, generator=generator) ** 2
    for block in domain.blocks:
        if block.softmax:
            column = torch.rand(components, block.width, generator=generator)
            chances[:, block.start : block.stop] = column / column.sum(dim=1, keepdim=True)
    weights = torch.rand(components, generator=generator).double()
    return Products(domain, weights / weights.sum(), chances, replace(SAMPLING_RULES, **rules))


def pair_or_triple_counts(records, order):
    formula = {2: "na,nb->ab", 3: "na,nb,nc->abc"}[order]
    return np.einsum(formula, *[records.to_dense(np.float64)] * order)


def expected(model, count, order):
    chances, weights = model.probabilities.double().numpy(), model.weights.numpy()
    if order == 2:
        return count * np.einsum("k,ka,kb->ab", weights, chances, chances)
    return count * np.einsum("k,ka,kb,kc->abc", weights, chances, chances, chances)


def rms_of_distinct(values):
    places = np.indices(values.shape)
    distinct = np.ones(values.shape, dtype=bool)
    for one in range(values.ndim):
        for two in range(one):
            distinct &= places[one] != places[two]
    return np.sqrt((values[distinct] ** 2).mean())


@pytest.mark.parametrize(("order", "at_most"), [(2, 0.3), (3, 0.7)])
def test_balanced_records_have_smaller_errors_of_pairs_and_triples(order, at_most):
    errors = []
    for sweeps in (0, 50):
        model = a_mixture(Domain.of_items(12), sweeps=sweeps)
        drawn = model.sample(3000, generator=torch.Generator().manual_seed(1))
        errors.append(rms_of_distinct(pair_or_triple_counts(drawn, order) - expected(model, 3000, order)))
    assert errors[1] < at_most * errors[0]


def test_exchanges_do_not_change_lengths_and_item_counts():
    drawn = []
    for sweeps in (0, 20):
        model = a_mixture(Domain.of_items(30), sweeps=sweeps)
        drawn.append(model.sample(2000, generator=torch.Generator().manual_seed(2)))
    before, after = drawn
    assert np.array_equal(before.lengths, after.lengths)
    assert np.array_equal(np.bincount(before.indices), np.bincount(after.indices))
    assert not np.array_equal(before.indices, after.indices)


def test_columns_keep_one_value_each_and_their_pairs_are_balanced():
    domain = Domain((Categorical("a", tuple("xyz")), ItemSet("i", tuple("pqrs")), Categorical("b", tuple("uvw"))))
    errors = []
    for sweeps in (0, 50):
        model = a_mixture(domain, sweeps=sweeps)
        drawn = model.sample(2000, generator=torch.Generator().manual_seed(3))
        drawn.check()
        counts = pair_or_triple_counts(drawn, 2)
        assert all(counts[b.start : b.stop, b.start : b.stop].trace() == 2000 for b in domain.blocks if b.softmax)
        errors.append(np.abs(counts - expected(model, 2000, 2))[:3, 7:].mean())
    assert errors[1] < 0.3 * errors[0]


def test_the_errors_that_the_kernel_updates_are_those_of_the_resulting_records():
    generator = np.random.default_rng(0)
    lists = [sorted(generator.choice(9, size=generator.integers(0, 6), replace=False)) for _ in range(300)]
    records = Records.from_lists(lists, Domain.of_items(9))
    items = records.indices.astype(np.int64)
    pairs, triples = -generator.random((7, 7)), -generator.random((4, 4, 4))
    pairs, triples = pairs + pairs.T, sum(triples.transpose(axes) for axes in permutations(range(3)))
    targets = pairs.copy(), triples.copy()
    sizes = np.array([100, 200])
    exchanges = balance(
        records.indptr, items, np.array([0, 100]), sizes, np.zeros(9, dtype=np.int64),
        pairs, np.ones_like(pairs), triples, np.ones_like(triples), 5, np.array([7], dtype=np.uint64),
    )  # fmt: skip
    assert exchanges > 0
    rows = np.repeat(np.arange(300), records.lengths)
    left = Records.from_lists([sorted(items[rows == row]) for row in range(300)], records.domain)
    off_diagonal = ~np.eye(7, dtype=bool)
    assert np.allclose((pairs - targets[0])[off_diagonal], pair_or_triple_counts(left, 2)[:7, :7][off_diagonal])
    distinct = rms_of_distinct((triples - targets[1]) - pair_or_triple_counts(left, 3)[:4, :4, :4])
    assert distinct == pytest.approx(0.0, abs=1e-9)


def test_the_same_generator_gives_the_same_records():
    model = a_mixture(Domain.of_items(12))
    first, second = (model.sample(500, generator=torch.Generator().manual_seed(4)) for _ in range(2))
    assert np.array_equal(first.indices, second.indices)


def test_certain_records_and_large_samples_are_left_as_drawn(monkeypatch):
    def never(*_):
        raise AssertionError("nothing to exchange")

    monkeypatch.setattr(sampling, "exchange_items", never)
    certain = Products(Domain.of_items(2), torch.tensor([0.5, 0.5]), torch.tensor([[1.0, 0.0], [1.0, 1.0]]))
    assert len(certain.sample(100, generator=torch.Generator().manual_seed(0))) == 100
    large = a_mixture(Domain.of_items(3), balanced_records=50)
    assert len(large.sample(60, generator=torch.Generator().manual_seed(0))) == 60


def possible_records(items, seed):
    draws = np.random.default_rng(seed)
    present = (np.arange(1 << items)[:, None] >> np.arange(items)) & 1 == 1
    shares = draws.gamma(0.3, size=len(present))
    return present, shares / shares.sum()


def counts(present, sizes):
    return (present * sizes[:, None]).T @ present


def test_improved_rounding_reduces_errors_of_items_and_pairs():
    present, shares = possible_records(12, 0)
    expected = 3_000 * shares
    random = np.random.default_rng(1)
    start = np.diff(np.floor(np.cumsum(expected) + 0.5).astype(np.int64), prepend=0)
    sizes = improve_rounding(expected, start, present, random, SAMPLING_RULES)
    assert sizes.sum() == start.sum()
    assert np.abs(sizes - expected).max() < 1
    target = counts(present, expected)
    before, after = (np.abs(counts(present, some) - target).mean() for some in (start, sizes))
    assert after < 0.25 * before


def test_sizes_that_cannot_be_improved_stay():
    present, _ = possible_records(3, 0)
    whole = np.arange(8)
    random = np.random.default_rng(0)
    assert np.array_equal(improve_rounding(whole.astype(float), whole, present, random, SAMPLING_RULES), whole)
    one_side, nobody = np.full(8, 0.25), np.zeros(8, dtype=np.int64)
    assert np.array_equal(improve_rounding(one_side, nobody, present, random, SAMPLING_RULES), nobody)
