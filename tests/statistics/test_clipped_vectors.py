"""Sums of vectors of people: equal to their definition, within their bound wherever a person is added, the same on a pool."""

from collections import Counter
from itertools import combinations
from math import log2

import numpy as np
import pytest
import torch

from dpgm.data.domain import Domain
from dpgm.data.events import Events
from dpgm.data.kinds import ItemSequence
from dpgm.data.records import Records
from dpgm.mechanisms.gateway import Gateway
from dpgm.mechanisms.randomness import SeededRandomness
from dpgm.statistics.clipped_vectors import ClippedVectors, VectorFeatures
from dpgm.statistics.event_vectors import ItemPairs, Ngrams, SequenceLengths, StepCounts
from dpgm.statistics.statistic import GRID, STEPS, release
from dpgm.testing import assert_bounded, assert_playback_invariant

ITEMS, LONGEST = 4, 30
DOMAIN = Domain((ItemSequence("clicks", tuple("abcd"), max_length=LONGEST),))
CLASSES = (3, 8)
RUNS = np.array([0b0001, 0b0110, 0b1111, 0b110110, 0b111111])  # of three items: aab, abc, add, dbc, ddd


def people(rows):
    return Records.of_events(Events.from_lists(rows, ITEMS), DOMAIN)


def some(count, seed):
    rng = np.random.default_rng(seed)
    lengths = np.minimum(rng.geometric(0.15, count) - 1, LONGEST)
    return [rng.integers(0, ITEMS, length).tolist() for length in lengths]


ROWS = [[], [0], [3, 3, 3, 3, 3], [0, 1, 2, 3] * 7, [2] * LONGEST, *some(40, 0)]


def steps_of(row):
    return Counter(zip([ITEMS, *row], [*row, ITEMS], strict=True))


def expected(kind, row):
    """{cell: value} by the definition."""
    if kind == "lengths":
        return {len(row) if len(row) <= 16 else 17 if len(row) <= 20 else 18 if len(row) <= 25 else 19: 1.0}
    if kind == "steps":
        return {5 * a + b: round(STEPS * log2(1 + n)) / STEPS for (a, b), n in steps_of(row).items()}
    if kind == "steps by length":
        return {
            25 * sum(len(row) >= first for first in CLASSES) + 5 * a + b: n for (a, b), n in steps_of(row).items()
        }
    if kind == "pairs":
        own = sorted(set(row))
        cells = [(a, a) for a in own] + list(combinations(own, 2))
        return {b * (b + 1) // 2 + a: 1.0 for a, b in cells}
    runs = {16 * a + 4 * b + c for a, b, c in zip(row, row[1:], row[2:], strict=False)}
    return {at: 1.0 for at, run in enumerate(RUNS.tolist()) if run in runs}


MAPS = {
    "lengths": SequenceLengths(LONGEST),
    "steps": StepCounts(ITEMS),
    "steps by length": StepCounts(ITEMS, CLASSES),
    "pairs": ItemPairs(ITEMS),
    "runs": Ngrams(3, ITEMS, RUNS),
}


def vectors(kind, rows, limit):
    """What each person adds, by the definition."""
    found = np.zeros((len(rows), MAPS[kind].width))
    for line, row in zip(found, rows, strict=True):
        own = expected(kind, row)
        norm = np.sqrt(sum((STEPS * value) ** 2 for value in own.values()))
        weight = 1.0 if norm <= limit else np.floor(limit / norm / GRID * (1 - 1e-12)) * GRID
        for cell, value in own.items():
            line[cell] = weight * value
    return found


def exact(kind, rows, limit):
    statistic = ClippedVectors(MAPS[kind], limit)
    return Gateway(people(rows), randomness=SeededRandomness(0)).release(statistic.name, statistic.query(), 0.0)


@pytest.mark.parametrize("limit", [16, 40, 10_000])
@pytest.mark.parametrize("kind", MAPS)
def test_sums_equal_the_definition(kind, limit):
    assert np.allclose(exact(kind, ROWS, limit).numpy(), vectors(kind, ROWS, limit).sum(axis=0), atol=1e-9)


@pytest.mark.parametrize("kind", MAPS)
def test_no_person_exceeds_the_bound_and_the_bound_is_not_idle(kind):
    norms = [float(exact(kind, [row], 24).norm()) for row in ROWS]
    assert max(norms) <= 24 / STEPS
    assert max(norms) > 0.6 * 24 / STEPS  # lengths and single runs add exactly 1


@pytest.mark.parametrize("place", [0, 2, 3, 4, 7])
@pytest.mark.parametrize("kind", MAPS)
def test_a_release_depends_on_noisy_values_alone_and_one_more_person_moves_it_within_its_bound(kind, place):
    def run(gateway):
        return {"noisy": release(gateway, ClippedVectors(MAPS[kind], 24), 2.0).value}

    assert_playback_invariant(run, [people(ROWS), people(ROWS[:5])])
    ratio = assert_bounded(run, people(ROWS), people([ROWS[place]]), tolerance=0.0)
    if len(ROWS[place]) > 4 and kind not in ("lengths", "runs", "pairs"):
        assert ratio > 0.95


@pytest.mark.parametrize("kind", MAPS)
def test_a_pool_has_the_same_sums_and_its_energies_are_their_transpose(kind):
    statistic = ClippedVectors(MAPS[kind], 30)
    pool = VectorFeatures(statistic, people(ROWS))
    counts = torch.arange(len(ROWS)).double()
    repeated = [row for at, row in enumerate(ROWS) for _ in range(at)]
    assert torch.allclose(pool.sums(counts), exact(kind, repeated, 30).double(), atol=1e-9)
    assert torch.allclose(pool.squares(counts), torch.from_numpy((vectors(kind, ROWS, 30) ** 2).T @ counts.numpy()))
    theta = torch.randn(statistic.map.width, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    assert float(pool.energies(theta) @ counts) == pytest.approx(float(theta @ pool.sums(counts)))
