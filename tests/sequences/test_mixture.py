"""The parts of a proposal: EM finds components, chains are drawn by their laws, equal sequences are joined."""

from collections import Counter
from dataclasses import replace

import numpy as np
import torch

from dpgm.data.domain import Domain, ItemSequence
from dpgm.data.events import Events
from dpgm.sequences.chains import chain_sizes, draw_events, first_laws
from dpgm.sequences.layout import PersonLayout
from dpgm.sequences.mixture import ChainMixture, fit_mixture
from dpgm.sequences.pool import resampled
from dpgm.sequences.rules import SEQUENCE_RULES
from dpgm.statistics.clipped_vectors import Vectors
from dpgm.statistics.event_vectors import steps_of

RULES = replace(SEQUENCE_RULES.mixture, components=2, iterations=60, shrink=0.1)
LAYOUT = PersonLayout(Domain((ItemSequence("s", tuple("abc"), max_length=40),)), SEQUENCE_RULES)


def chain(*rows):
    return torch.tensor([rows], dtype=torch.float32).reshape(1, -1)


LOOPS = chain([0.9, 0, 0, 0.1], [0, 0.9, 0, 0.1], [0, 0, 0.9, 0.1], [1, 0, 0, 0])
MOVES = chain([0, 0.45, 0.45, 0.1], [0.45, 0, 0.45, 0.1], [0.45, 0.45, 0, 0.1], [0, 0, 1, 0])
TWO = ChainMixture(torch.tensor([0.3, 0.7]).double(), torch.cat([LOOPS, MOVES]), chain_sizes(3))


def drawn(mixture, count, seed=0):
    rng = np.random.default_rng(seed)
    return draw_events(mixture.chances, mixture.draw_components(count, rng), 3, 40, rng)


def test_em_finds_the_components_of_weighted_sequences():
    events = drawn(TWO, 20_000)
    pool = LAYOUT.pool(events, np.empty((len(events), 0), dtype=np.int64))
    counts = Vectors.counted(*steps_of(pool.records.events, 3), len(pool), 16)
    found = fit_mixture(counts, pool.times / pool.drawn, 20_000, chain_sizes(3), RULES, np.random.default_rng(1))
    order = torch.argsort(found.weights)
    assert torch.allclose(found.weights[order], TWO.weights, atol=0.03)
    loops, moves = found.chances[order]  # all that goes on from item 0; loops never leave it
    assert torch.allclose(loops[:4], LOOPS[0, :4], atol=0.03)
    assert torch.allclose(moves, MOVES[0], atol=0.03)
    sums = torch.stack([part.sum(dim=1) for part in torch.split(found.chances, 4, dim=1)])
    assert torch.allclose(sums, torch.ones(4, 2), atol=1e-5)


def test_events_follow_their_chain_and_end_at_the_longest_length():
    steady = ChainMixture(
        torch.ones(1).double(), chain([0, 1, 0, 0], [0, 0, 1, 0], [1, 0, 0, 0], [1, 0, 0, 0]), (4,) * 4
    )
    events = drawn(steady, 10)
    assert events.lengths.tolist() == [40] * 10
    assert events.codes[:40].tolist() == [at % 3 for at in range(40)]
    shares = np.bincount(drawn(TWO, 50_000).lengths, minlength=5)[1:4] / 50_000
    assert np.allclose(shares, [0.1, 0.09, 0.081], atol=0.01)


def test_the_first_chain_has_the_shares_of_noisy_counts():
    noisy = np.array([[-5, 30, 10, 0], [0, 0, 0, 40], [1, 1, 1, 1], [-1, -1, -1, -1]], dtype=float)
    rows = first_laws(noisy.ravel(), 4, 0.001).reshape(4, 4)
    # -5, 30, 10, 0 of 35: the projection takes as much from all that stay positive
    assert torch.allclose(rows[0], torch.tensor([0.0, 0.786, 0.214, 0.0]), atol=0.001)
    assert torch.allclose(rows[2:], torch.full((2, 4), 0.25), atol=0.01)
    assert float(rows.min()) > 0


def test_equal_sequences_are_joined_and_counted():
    rows = [[0, 1], [2], [0, 1], [], [1, 0], [2], [0, 1], []]
    pool = LAYOUT.pool(Events.from_lists(rows, 3), np.empty((len(rows), 0), dtype=np.int64))
    events = pool.records.events
    found = [tuple(events.rows(at, at + 1).codes.tolist()) for at in range(len(events))]
    assert found == [(0, 1), (2,), (), (1, 0)]
    assert pool.times.tolist() == [3, 2, 2, 1]


def test_sequences_that_differ_are_told_apart():
    events = drawn(TWO, 30_000)
    rows = Counter(tuple(events.rows(at, at + 1).codes.tolist()) for at in range(len(events)))
    pool = LAYOUT.pool(events, np.empty((len(events), 0), dtype=np.int64))
    assert len(pool) == len(rows)
    assert sorted(pool.times.tolist()) == sorted(rows.values())


def test_resampling_takes_rounded_shares():
    weights = np.array([0.5, 0.25, 0.125, 0.125])
    chosen = resampled(weights, 80, np.random.default_rng(0))
    assert np.bincount(chosen).tolist() == [40, 20, 10, 10]
