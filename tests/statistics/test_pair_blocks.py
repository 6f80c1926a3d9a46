"""Sums of products of features of pairs of columns: equal to their definition, within their bound, the same on a pool."""

from dataclasses import replace
from itertools import combinations, product

import numpy as np
import pytest
import torch

from dpgm.data.domain import Categorical, Domain
from dpgm.data.records import Records
from dpgm.mechanisms.gateway import Gateway
from dpgm.mechanisms.randomness import SeededRandomness
from dpgm.statistics.coded_rows import Coding
from dpgm.statistics.pair_blocks import (
    FEATURE_STEPS,
    FOURTHS,
    PairBlocks,
    PairFeatures,
    group_features,
    limit_at,
    mid_ranks,
    rank_features,
)
from dpgm.statistics.statistic import GRID, release
from dpgm.testing import assert_bounded, assert_playback_invariant

SIZES = (4, 3, 2, 3)
TABLE = Domain(tuple(Categorical(f"c{at}", tuple(range(size))) for at, size in enumerate(SIZES)))
CODING = Coding.of(TABLE)
SHARES = (
    np.array([0.7, 0.1, 0.1, 0.1]),
    np.array([0.2, 0.3, 0.5]),
    np.array([0.9, 0.1]),
    np.array([0.4, 0.4, 0.2]),
)
FEATURES = (
    group_features(np.array([0, 1, 1, 2]), SHARES[0]),
    group_features(np.arange(3), SHARES[1]),
    rank_features(mid_ranks(np.arange(2.0), SHARES[2]), SHARES[2], 1),
    rank_features(mid_ranks(np.array([0.0, 1.0, np.nan]), SHARES[3]), SHARES[3], 2),
)
PAIRS = np.array(list(combinations(range(4), 2)))
BLOCKS = PairBlocks(CODING, FEATURES, PAIRS, np.array([4, 8, 4, 2, 0, 5]), limit=8000**2)
EVERY = np.array(list(product(*map(range, SIZES))))


def rows_of(codes):
    return Records.from_lists((codes + np.array(TABLE.offsets)).tolist(), TABLE)


def vectors(blocks, codes):
    """What each row adds, by the definition."""
    found = []
    for row in codes:
        phis = [one.phi[one.groups[code]] / FEATURE_STEPS for one, code in zip(blocks.features, row, strict=True)]
        parts = [
            omega / FOURTHS * np.outer(phis[i], phis[j]).ravel()
            for omega, (i, j) in zip(blocks.emphasis, blocks.pairs, strict=True)
        ]
        whole = np.concatenate(parts)
        bound = blocks.query().sensitivity
        weight = np.floor(min(1.0, bound / max(np.linalg.norm(whole), 1e-12)) / GRID + 1e-9) * GRID
        found.append(weight * whole)
    return np.array(found)


def exact(blocks, records):
    return Gateway(records, randomness=SeededRandomness(0)).release(blocks.name, blocks.query(), 0.0)


@pytest.mark.parametrize("limit", [1, 500**2, 8000**2, 10**12])
def test_sums_equal_the_definition(limit):
    blocks = replace(BLOCKS, limit=limit)
    assert np.allclose(exact(blocks, rows_of(EVERY)).numpy(), vectors(blocks, EVERY).sum(axis=0), atol=1e-9)


@pytest.mark.parametrize("limit", [1, 500**2, 8000**2])
def test_no_row_exceeds_the_bound_and_the_bound_is_not_idle(limit):
    blocks = replace(BLOCKS, limit=limit)
    norms = [float(exact(blocks, rows_of(EVERY[at : at + 1])).norm()) for at in range(len(EVERY))]
    assert max(norms) <= blocks.query().sensitivity * (1 + 1e-12)
    if limit > 1:
        assert max(norms) > 0.99 * blocks.query().sensitivity


def test_records_with_any_positions_stay_within_the_bound():
    rng = np.random.default_rng(0)
    for density in (0.05, 0.3, 0.9):
        rows = Records.from_dense(rng.random((100, TABLE.width)) < density, TABLE)
        for at in range(100):
            assert float(exact(BLOCKS, rows.rows(at, at + 1)).norm()) <= BLOCKS.query().sensitivity * (1 + 1e-12)


def test_a_row_without_a_value_adds_nothing_to_the_pairs_of_that_column():
    without = Records.from_lists([[0, 4, 9]], TABLE)
    found, at = exact(BLOCKS, without).numpy(), 0
    for i, j in PAIRS.tolist():
        size = FEATURES[i].phi.shape[1] * FEATURES[j].phi.shape[1]
        assert (2 in (i, j)) <= bool((found[at : at + size] == 0).all())
        at += size


def test_a_release_depends_on_the_noisy_values_alone_and_keeps_its_bound():
    def run(gateway):
        return {"noisy": release(gateway, BLOCKS, 2.0).value}

    assert_playback_invariant(run, [rows_of(EVERY), rows_of(EVERY[:5])])
    assert assert_bounded(run, rows_of(EVERY), rows_of(EVERY[-1:])) <= 1 + 1e-12


def test_a_pool_has_the_same_sums_and_its_energies_are_their_transpose():
    pool = PairFeatures(BLOCKS, EVERY)
    counts = torch.arange(len(EVERY)).double()
    repeated = np.repeat(EVERY, np.arange(len(EVERY)), axis=0)
    assert torch.allclose(pool.sums(counts), exact(BLOCKS, rows_of(repeated)).double(), atol=1e-6)
    theta = torch.randn(BLOCKS.width, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    assert float(pool.energies(theta) @ counts) == pytest.approx(float(theta @ pool.sums(counts)))
    squares = (torch.from_numpy(vectors(BLOCKS, EVERY)) ** 2).T @ counts
    assert torch.allclose(pool.squares(counts), squares, atol=1e-6)


def test_the_limit_is_a_quantile_of_likely_norms():
    norms = np.sqrt(BLOCKS.squared_norms(BLOCKS.groups(EVERY)))
    limit = limit_at(BLOCKS, EVERY, 0.5)
    assert np.mean(norms <= np.sqrt(limit) + 1) == pytest.approx(0.5, abs=0.1)


def test_without_numba_tables_are_the_same(monkeypatch):
    from dpgm.kernels import pair_kernels

    records = rows_of(EVERY)
    compiled = exact(BLOCKS, records)
    theta = torch.arange(BLOCKS.width).double()
    energies = PairFeatures(BLOCKS, EVERY).energies(theta)
    monkeypatch.setattr(pair_kernels, "HAS_NUMBA", False)
    assert torch.equal(exact(BLOCKS, records), compiled)
    assert torch.allclose(PairFeatures(BLOCKS, EVERY).energies(theta), energies)


def test_ranks_say_how_columns_rise_together():
    shares = np.full(5, 0.2)
    column = rank_features(mid_ranks(np.arange(5.0), shares), shares, 1)
    table = Domain(tuple(Categorical(name, tuple(range(5))) for name in ("a", "b")))
    both = PairBlocks(Coding.of(table), (column, column), np.array([[0, 1]]), np.array([FOURTHS]), 10**12)
    up = Records.from_lists([[code, 5 + code] for code in range(5)], table)
    down = Records.from_lists([[code, 9 - code] for code in range(5)], table)
    assert float(exact(both, up)) == pytest.approx(-float(exact(both, down)))
    assert float(exact(both, up)) == pytest.approx(5 * 0.32, rel=0.05)
