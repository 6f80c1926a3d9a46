import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from dpgm.data.domain import Domain
from dpgm.data.records import Records
from dpgm.errors import ArtefactError, UsageError
from dpgm.mechanisms.gateway import TraceGateway
from dpgm.mechanisms.norm_bound import (
    AdaptiveNormBound,
    norm_bound,
    norm_edges,
    norm_histogram,
    norm_query,
)
from dpgm.mechanisms.randomness import SeededRandomness

EDGES = norm_edges()


def test_edges_are_log_spaced_between_public_ends():
    assert len(EDGES) == 23
    assert float(EDGES[0]) == pytest.approx(2.0**-6)
    assert float(EDGES[-1]) == pytest.approx(2.0**12)
    ratios = EDGES[1:] / EDGES[:-1]
    assert torch.allclose(ratios, ratios[0])


@pytest.mark.parametrize("wrong", [{"bins": 2}, {"low": 0.0}, {"high": math.inf}, {"low": 4.0, "high": 4.0}])
def test_bad_bins_are_refused(wrong):
    with pytest.raises(UsageError):
        norm_edges(**wrong)


def test_zero_goes_first_large_goes_last_and_not_finite_nowhere():
    edges = torch.tensor([1.0, 2.0, 4.0])
    norms = [0.0, 0.5, 1.0, 1.5, 2.0, 4.0, 4.0001, 1e30, math.nan, math.inf, -math.inf]
    assert norm_histogram(norms, edges).tolist() == [3, 2, 1, 2]
    assert norm_histogram(np.array(norms, dtype=np.float32), edges).tolist() == [3, 2, 1, 2]
    assert norm_histogram([], edges).tolist() == [0, 0, 0, 0]
    assert norm_histogram([], edges).dtype == torch.int64


@given(st.lists(st.floats(width=32)), st.floats(width=32))
def test_one_record_moves_one_bin_by_one(norms, extra):
    moved = norm_histogram([*norms, extra], EDGES) - norm_histogram(norms, EDGES)
    assert moved.min() >= 0
    assert moved.sum() == (1 if math.isfinite(extra) else 0)


def test_the_query_declares_a_sensitivity_of_one():
    records = Records.from_lists([[0], [0, 1], []], Domain.of_items(2))
    gateway = TraceGateway(records, randomness=SeededRandomness(0))
    noisy = gateway.release("norms", norm_query(lambda view: np.sqrt(view.rows.lengths), EDGES), 2.0)
    assert gateway.calls[0].sensitivity == 1.0
    assert noisy.shape == (24,)
    assert gateway.exact[0].sum() == 3


def test_quantile_and_mode_of_an_exact_histogram():
    edges = [1.0, 2.0, 4.0, 8.0]
    counts = [0, 60, 35, 5, 0]
    assert norm_bound(counts, edges, "mode") == 2.0
    assert norm_bound(counts, edges, 0.5) == 2.0
    assert norm_bound(counts, edges, 0.9) == 4.0
    assert norm_bound(counts, edges, 0.99) == 8.0
    assert norm_bound([0, 0, 0, 0, 9], edges) == 8.0
    assert norm_bound([0, 0, 0, 0, 9], edges, "mode") == 8.0
    assert norm_bound([9, 0, 0, 0, 0], edges) == 1.0
    assert norm_bound([-3.0] * 5, edges) in edges
    with pytest.raises(UsageError, match="quantile"):
        norm_bound(counts, edges, 1.0)


def noisy_histograms(batch, noise, steps, seed=0, centre=2.0):
    generator = torch.Generator().manual_seed(seed)
    for _ in range(steps):
        norms = torch.exp(torch.randn(batch, generator=generator) * 0.5 + centre)
        yield norm_histogram(norms, EDGES) + noise * torch.randn(24, generator=generator)


@pytest.mark.parametrize(("batch", "within"), [(20, 2), (100, 1), (600, 1)])
def test_the_average_finds_the_quantile_under_noise(batch, within):
    bound = AdaptiveNormBound(EDGES, noise=5.0)
    found = [bound.update(counts) for counts in noisy_histograms(batch, 5.0, 300)][60:]
    true = int(torch.bucketize(torch.tensor(math.exp(2 + 0.5 * 1.2816), dtype=torch.float64), EDGES))
    bins = torch.bucketize(torch.tensor(found, dtype=torch.float64), EDGES)
    assert (bins - true).abs().float().quantile(0.95) <= within


def test_the_bound_follows_norms_that_change():
    bound = AdaptiveNormBound(EDGES, noise=5.0)
    for counts in noisy_histograms(600, 5.0, 100):
        high = bound.update(counts)
    for counts in noisy_histograms(600, 5.0, 100, centre=-1.0):
        low = bound.update(counts)
    assert high > 8
    assert low < 1.5


def test_noise_alone_leaves_the_bound_where_it_started():
    bound = AdaptiveNormBound(EDGES, noise=5.0, start=3.0)
    kept = [bound.update(counts) for counts in noisy_histograms(0, 5.0, 500)]
    assert np.mean(np.array(kept) == 3.0) > 0.9


def test_the_bound_stays_within_the_edges():
    edges = norm_edges(low=0.5, high=2.0)
    bound = AdaptiveNormBound(edges, noise=0.0, decay=0.0, start=100.0)
    assert bound.bound == 2.0
    assert bound.update(norm_histogram([1000.0], edges)) == 2.0
    assert bound.update(norm_histogram([0.0], edges)) == 0.5


def test_a_restored_state_continues_bit_for_bit():
    histograms = list(noisy_histograms(50, 5.0, 60))
    one = AdaptiveNormBound(EDGES, noise=5.0)
    for counts in histograms[:30]:
        one.update(counts)
    other = AdaptiveNormBound(EDGES, noise=5.0)
    other.restore(one.state())
    assert [one.update(c) for c in histograms[30:]] == [other.update(c) for c in histograms[30:]]


@pytest.mark.parametrize(
    "state",
    [
        {},
        {"average": torch.zeros(3), "scalars": torch.zeros(2)},
        {"average": torch.full((24,), math.nan), "scalars": torch.zeros(2)},
    ],
)
def test_damaged_states_are_refused(state):
    with pytest.raises(ArtefactError, match="norm bound's state"):
        AdaptiveNormBound(EDGES, noise=5.0).restore(state)


@pytest.mark.parametrize("wrong", [{"decay": 1.0}, {"decay": -0.1}, {"noise": -1.0}, {"start": 0.0}])
def test_bad_arguments_are_refused(wrong):
    with pytest.raises(UsageError):
        AdaptiveNormBound(EDGES, **({"noise": 1.0} | wrong))
