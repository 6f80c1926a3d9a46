"""The checks pass on a correct stage and catch the faults planted here."""

import numpy as np
import pytest
import torch

from checks import (
    assert_bounded,
    assert_coin_off,
    assert_noise_law,
    assert_playback_invariant,
    assert_sampler_law,
    differences,
    sensitivity_ratios,
)
from dpgm.data.domain import Domain
from dpgm.data.records import Records
from dpgm.mechanisms.query import Query, View

ITEMS = 6
STEPS = 40
RATE = 0.3


def some_records(seed, rows=60):
    dense = np.random.default_rng(seed).random((rows, ITEMS)) < 0.4
    return Records.from_dense(dense, Domain.of_items(ITEMS))


def one_record(*items):
    return Records.from_lists([items], Domain.of_items(ITEMS))


def item_counts(records, bound):
    """Counts of records scaled to at most `bound` in L2, in units of 1/1024 rounded towards zero."""
    dense = torch.as_tensor(records.to_dense()).double()
    lengths = torch.linalg.vector_norm(dense, dim=1, keepdim=True).clamp(min=1e-9)
    return torch.trunc(dense * (bound / lengths).clamp(max=1.0) * 1024).to(torch.int64).sum(0)


def stage(gateway):
    """A small correct stage: counts of all rows, then steps on Poisson samples steered by what was released."""
    counts = gateway.release(
        "counts", Query(lambda view: item_counts(view.records, 2.0), 2.0, (ITEMS,), grid=1 / 1024), 5.0
    )
    gateway.keep("first item", lambda records: records.to_dense()[:, 0])
    weights = counts.clone()
    generator = gateway.randomness.draws()
    start = torch.randn(ITEMS, generator=generator)
    for _ in range(STEPS):
        bound = float(1 + torch.sigmoid(weights[0]))
        with gateway.poisson("step", RATE):
            sizes = gateway.release(
                "sizes", Query(lambda view: torch.tensor([len(view.rows)]), 1.0, (1,), grid=1.0), 4.0
            )
            sums = gateway.release(
                "sums",
                Query(lambda view, bound=bound: _clipped(view, bound), bound, (2, ITEMS)),
                1.5,
            )
        weights = 0.9 * weights + sums.sum(0) / (abs(float(sizes)) + 1)
    return {"weights": weights, "start": start, "bound": bound, "generator": generator}


def _clipped(view: View, bound: float):
    rows = torch.as_tensor(view.rows.to_dense()).double()
    marks = torch.as_tensor(view.kept["first item"][view.sample])
    lengths = torch.linalg.vector_norm(rows, dim=1, keepdim=True).clamp(min=1e-9)
    rows = rows * (bound / lengths).clamp(max=1.0)
    return torch.stack([rows[marks > 0].sum(0), rows[marks == 0].sum(0)])


def test_a_correct_stage_passes_every_check():
    assert_playback_invariant(stage, [some_records(1), some_records(2, 35)])
    largest = max(
        assert_bounded(stage, some_records(1), one_record(*items), seed=seed)
        for seed, items in enumerate([(), (0,), (0, 1, 2, 3, 4, 5), (1, 3, 5), (2,)])
    )
    assert 0.99 <= largest <= 1 + 1e-6
    assert set(sensitivity_ratios(stage, some_records(1), one_record(0, 1))) == {"counts", "sizes", "sums"}
    assert_coin_off(stage, some_records(1), one_record(0, 1))
    ratios = assert_noise_law(stage, some_records(1), runs=10)
    assert ratios["sums"] == pytest.approx(1, abs=0.1)


def test_the_sampler_check_passes_true_coins():
    coins = np.random.default_rng(0)
    rate, spread = assert_sampler_law(lambda _: np.flatnonzero(coins.random(2000) < 0.02), 2000, 0.02, steps=400)
    assert rate == pytest.approx(1, abs=0.05)
    assert spread == pytest.approx(1, abs=0.5)


def test_every_bit_of_a_state_is_compared():
    state = {"a": torch.tensor([0.0, float("nan")]), "b": [np.arange(3), (b"x", None, 1.5)], "c": one_record(1)}
    other = {"a": torch.tensor([-0.0, float("nan")]), "b": [np.arange(3), (b"x", None, -0.0)], "c": one_record(2)}
    assert differences(state, state) == []
    assert differences(state, other) == ["state['a']", "state['b'][1][2]", "state['c'].indices"]
    assert differences({"a": 1}, {"b": 1}) == ["state (keys)"]
    assert differences([1], [1, 2]) == ["state (length)"]
    assert differences(1, 1.0) == ["state (type)"]
    assert differences(torch.zeros(2), torch.zeros(3)) == ["state (shape or dtype)"]
    with pytest.raises(TypeError, match="cannot compare"):
        differences(object(), object())
