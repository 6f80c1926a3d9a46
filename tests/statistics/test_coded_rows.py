"""Rows as codes, and centred counts of their columns."""

import numpy as np
import pytest
import torch

from dpgm.data.domain import Categorical, Domain, ItemSet
from dpgm.data.records import Records
from dpgm.mechanisms.gateway import Gateway
from dpgm.mechanisms.randomness import SeededRandomness
from dpgm.statistics.coded_rows import Coding
from dpgm.statistics.column_counts import ColumnCounts, ColumnFeatures, column_shares
from dpgm.statistics.rules import STATISTIC_RULES
from dpgm.statistics.statistic import Measured, release
from dpgm.testing import assert_bounded, assert_playback_invariant

MIXED = Domain(
    (
        Categorical("colour", ("red", "green", "blue")),
        ItemSet("drugs", tuple(range(30))),
        Categorical("sex", ("f", "m")),
    )
)
ROWS = Records.from_lists([[0, 3, 4, 34], [2, 33], list(range(3, 33)), [0, 1, 34]], MIXED)


def test_every_column_has_a_code_and_lists_one_of_their_length():
    assert Coding.of(MIXED).codes(ROWS).tolist() == [[0, 1, 2], [2, 0, 0], [3, 2, 19], [0, 1, 0]]


def test_codes_can_be_joined():
    maps = [np.array([0, 1, 1]), np.array([0, 0]), np.minimum(np.arange(20), 1)]
    joined = Coding.of(MIXED).merged(maps)
    assert joined.sizes == (2, 1, 2)
    assert joined.codes(ROWS).tolist() == [[0, 0, 1], [1, 0, 0], [2, 1, 1], [0, 0, 0]]


def run(gateway):
    return {"noisy": release(gateway, ColumnCounts(Coding.of(MIXED)), 2.0).value}


def test_counts_are_centred_and_bounded():
    exact = Gateway(ROWS, randomness=SeededRandomness(0)).release(
        "column counts", ColumnCounts(Coding.of(MIXED)).query(), 0.0
    )
    colours = np.array([2, 0, 1]) - 3 * 85 / 256
    assert np.allclose(exact[:3].numpy(), colours)
    assert_playback_invariant(run, [ROWS, ROWS.rows(0, 1)])
    assert 0.9 < assert_bounded(run, ROWS, Records.from_lists([[0, 3, 33]], MIXED)) <= 1


def test_no_record_exceeds_the_bound_whatever_positions_it_has():
    query, rng = ColumnCounts(Coding.of(MIXED)).query(), np.random.default_rng(0)
    for density in (0.02, 0.2, 0.9):
        rows = Records.from_dense(rng.random((200, MIXED.width)) < density, MIXED)
        norms = [
            float(
                np.linalg.norm(
                    Gateway(rows.rows(at, at + 1), randomness=SeededRandomness(0)).release("x", query, 0.0)
                )
            )
            for at in range(200)
        ]
        assert max(norms) <= query.sensitivity + 1e-12


def test_shares_are_those_of_the_rows():
    coding = Coding.of(MIXED)
    rows = Records.from_lists([[0, 34]] * 50 + [[1, 33]] * 150, MIXED)
    counts = ColumnCounts(coding)
    exact = Gateway(rows, randomness=SeededRandomness(0)).release("x", counts.query(), 0.0)
    shares = column_shares(Measured(counts, exact, 1e-9), 200, STATISTIC_RULES.read)
    assert shares[0] == pytest.approx([0.25, 0.75, 0], abs=1e-3)
    assert shares[1] == pytest.approx([0.75, 0.25], abs=1e-3)
    assert all(one.sum() == pytest.approx(1) for one in shares)


def test_rows_of_a_pool_have_the_same_counts_and_their_energies_are_the_transpose():
    coding = Coding.of(MIXED)
    features = ColumnFeatures(coding.sizes, coding.codes(ROWS))
    weights, theta = torch.arange(1.0, 5).double(), torch.randn(sum(coding.sizes)).double()
    sums = features.sums(weights)
    assert sums[:5].tolist() == [1 + 4, 0, 2, 2, 1 + 4]
    assert float(features.energies(theta) @ weights) == pytest.approx(float(theta @ sums))
    assert torch.equal(features.squares(weights), sums)
