"""Publishing values that nobody listed: the threshold's law, its bound, and that only the list leaves."""

import json
import math

import numpy as np
import pytest
import torch
from scipy.stats import norm

from dpgm.data.domain import Domain
from dpgm.data.records import Records
from dpgm.errors import ArtefactError, BudgetError, DpgmError, UsageError
from dpgm.kernels import parallel
from dpgm.mechanisms.gateway import Gateway, PlaybackGateway, TraceGateway
from dpgm.mechanisms.query import View
from dpgm.mechanisms.randomness import SeededRandomness
from dpgm.mechanisms.rounded_gaussian import rounded_gaussian
from dpgm.mechanisms.threshold import (
    STEP,
    Holdings,
    capped,
    contributions,
    read_discovered,
    threshold_for,
    threshold_query,
)
from dpgm.privacy.events import Mechanism
from dpgm.testing import assert_playback_invariant, sensitivity_ratios

DOMAIN = Domain.of_items(40)


def holdings(view):
    """The items of set-valued records as a private vocabulary: only those that occur are in it."""
    codes = view.records.indices.astype(np.int64)
    occurring, inverse = np.unique(codes, return_inverse=True)
    return Holdings(view.records.indptr, inverse, [("items", int(code)) for code in occurring])


def ask(gateway, noise=2.0, delta=1e-6, cap=8):
    query = threshold_query(holdings, noise=noise, delta=delta, cap=cap)
    return gateway.discover("discovered values", query, noise)


def some_records(count=400, seed=0):
    rng = np.random.default_rng(seed)
    return Records.from_lists(
        [sorted({int(x) for x in rng.geometric(0.2, 4) - 1 if x < 40}) for _ in range(count)], DOMAIN
    )


def chance_to_pass(noise, delta, cap, n):
    """Exact probability that at least one of n values that one record alone holds is published."""
    held = contributions(cap)[n]
    least = round(threshold_for(noise, delta, cap) / STEP)
    # round(N(0, std²)) + held >= least  <=>  N >= least - held - 1/2
    each = norm.sf((least - int(held) - 0.5) * STEP / noise)
    return -math.expm1(n * math.log1p(-each))


@pytest.mark.parametrize("noise", [0.05, 0.5, 2.0, 12.0, 300.0])
@pytest.mark.parametrize("delta", [1e-2, 1e-7, 1e-12])
@pytest.mark.parametrize("cap", [1, 7, 128])
def test_values_of_one_record_alone_pass_with_probability_delta_at_most(noise, delta, cap):
    chances = [chance_to_pass(noise, delta, cap, n) for n in range(1, cap + 1)]
    assert max(chances) <= delta
    if noise >= 2:  # and the threshold is not needlessly high: the steps are small beside the noise
        assert max(chances) >= 0.98 * delta


def test_a_million_trials_of_one_record_alone():
    """16 values of one record, delta 1e-3, a million records: as many exposures as the exact law says, at most delta."""
    noise, delta, cap, n, trials = 3.0, 1e-3, 16, 16, 1_000_000
    least = round(threshold_for(noise, delta, cap) / STEP)
    held, exposed = int(contributions(cap)[n]), 0
    randomness = SeededRandomness(7)
    for _ in range(20):
        drawn = rounded_gaussian(trials // 20 * n, noise / STEP, randomness).reshape(-1, n)
        exposed += int((drawn + held >= least).any(axis=1).sum())
    exact = chance_to_pass(noise, delta, cap, n)
    assert exact <= delta
    assert abs(exposed - trials * exact) < 5 * math.sqrt(trials * exact)


def test_one_record_moves_the_sums_by_at_most_one():
    records = some_records()
    for items in ([], [3], [3, 39], list(range(8)), list(range(40)), [36, 37, 38, 39]):
        extra = Records.from_lists([items], DOMAIN)
        ratio = sensitivity_ratios(ask, records, extra)["discovered values"]
        assert ratio <= 1 + 1e-12
        assert ratio >= 0.998 or not items


def test_only_the_published_list_matters():
    assert_playback_invariant(lambda gateway: ask(gateway), [some_records(), some_records(90, 3)])


def test_popular_values_are_found_with_their_sums_and_rare_ones_are_not():
    found = ask(Gateway(some_records(4000), randomness=SeededRandomness(1)))
    assert [value for _, value in found.values] == sorted(value for _, value in found.values)
    assert set(range(8)) <= set(found.of("items")) < set(range(40))
    assert min(found.sums) >= threshold_for(2.0, 1e-6, 8)


def test_published_values_stand_in_an_order_of_their_own():
    """Not in that of their codes, which are numbered as the rows first show the values."""

    def shown(view):
        return Holdings(view.records.indptr, view.records.indices.astype(np.int64), [("b", 2), ("b", 1), ("a", 3)])

    records = Records.from_lists([[0, 1, 2]] * 200, Domain.of_items(3))
    query = threshold_query(shown, noise=2.0, delta=1e-6, cap=3)
    found = Gateway(records, randomness=SeededRandomness(0)).discover("values", query, 2.0)
    assert found.values == (("a", 3), ("b", 1), ("b", 2))


def test_noise_of_the_sums_has_the_declared_law():
    """All values are popular, so none is cut off: residuals are the noise itself."""
    records = Records.from_lists([[at % 4] for at in range(40_000)], DOMAIN)
    scores = []
    for seed in range(250):
        traced = TraceGateway(records, randomness=SeededRandomness(seed))
        found = ask(traced, noise=5.0)
        assert len(found.sums) == 4
        scores += list((np.array(found.sums) - traced.exact[0].numpy()) / 5.0)
    assert abs(np.std(scores) - 1) < 0.1
    assert abs(np.mean(scores)) < 0.15
    assert len(set(scores)) > 900


def test_of_a_long_record_a_fresh_choice_counts():
    indptr, codes = np.array([0, 2, 32, 33]), np.concatenate([[0, 1], np.arange(30), [5]])
    source = SeededRandomness(0)
    chosen = np.zeros(30)
    for _ in range(300):
        pointers, kept = capped(indptr, codes, 10, source)
        assert np.diff(pointers).tolist() == [2, 10, 1]
        assert len(set(kept[2:12].tolist())) == 10
        chosen[kept[2:12]] += 1
    assert chosen.min() > 60
    assert chosen.max() < 140


def test_a_record_of_far_more_values_than_the_cap_exposes_no_more_than_delta_allows():
    """5,000 values that one record alone holds, of which 8 are counted: noise on the others would publish six a run."""
    records = Records.from_lists([list(range(5000))], Domain.of_items(5000))
    source = SeededRandomness(3)
    exposed = sum(bool(ask(Gateway(records, randomness=source), delta=1e-2, cap=8).values) for _ in range(300))
    assert exposed <= 12  # at most 3 are expected; more than 12 has a probability of 2e-5


def test_it_is_metered_like_any_other_mechanism():
    plan = [Mechanism("discovered values", 2.0, delta=1e-6)]
    gateway = Gateway(some_records(), randomness=SeededRandomness(0), allowance=plan)
    ask(gateway)
    assert gateway.spent == tuple(plan)
    gateway.assert_complete()
    with pytest.raises(BudgetError, match="used up"):
        ask(gateway)
    with pytest.raises(BudgetError, match="differs from the plan"):
        ask(Gateway(some_records(), randomness=SeededRandomness(0), allowance=plan), delta=1e-5)
    with pytest.raises(DpgmError, match="not released"):
        gateway.release("other", threshold_query(holdings, noise=2.0, delta=1e-6, cap=8), 2.0)


def test_a_damaged_list_is_refused():
    for text in ("", "[", "{}", '[["a", null, 1]]', '[["a", true, 1]]', "[[1, 2]]"):
        with pytest.raises(ArtefactError, match="damaged"):
            read_discovered(torch.frombuffer(bytearray(text.encode() or b" "), dtype=torch.uint8))


def test_no_rows_and_no_values():
    empty = some_records().rows(0, 0)
    assert ask(Gateway(empty, randomness=SeededRandomness(0))).values == ()
    assert (
        ask(
            PlaybackGateway([torch.frombuffer(bytearray(b"[]"), dtype=torch.uint8)], randomness=SeededRandomness(0))
        ).values
        == ()
    )


def test_values_are_discovered_in_all_rows():
    gateway = Gateway(some_records(20), randomness=SeededRandomness(0))
    with gateway.poisson("step", 0.5), pytest.raises(DpgmError, match="in all rows"):
        ask(gateway)


def test_a_recoding_keeps_every_record():
    gateway = Gateway(some_records(20), randomness=SeededRandomness(0))
    with pytest.raises(DpgmError, match="keep every record"):
        gateway.recode(lambda records: records.rows(0, 19))


@pytest.mark.parametrize(("noise", "delta", "cap"), [(0.0, 1e-6, 1), (1.0, 0.0, 1), (1.0, 1.0, 1), (1.0, 1e-6, 0)])
def test_a_threshold_needs_noise_a_delta_and_a_cap(noise, delta, cap):
    with pytest.raises(DpgmError, match="a threshold needs"):
        threshold_for(noise, delta, cap)


@pytest.mark.parametrize("text", ['[["items", true, 9.0]]', '[["items", [1], 9.0]]', '{"a": 1}', "["])
def test_a_list_with_values_of_no_kind_is_refused(text):
    with pytest.raises(ArtefactError, match="damaged"):
        read_discovered(torch.frombuffer(bytearray(text.encode()), dtype=torch.uint8))


def test_a_list_that_is_not_bytes_is_refused():
    with pytest.raises(ArtefactError, match="damaged"):
        read_discovered(torch.zeros(3))


def test_a_threshold_query_has_no_sums_to_release():
    query = threshold_query(holdings, noise=1.0, delta=1e-6, cap=1)
    with pytest.raises(DpgmError, match="discovered, not released"):
        query.compute(None)
    empty = type(query).__dataclass_fields__["holdings"].default(None)
    assert len(empty.vocabulary) == 0


def as_one_of_two(monkeypatch, rank, others, answer=b""):
    """This process as one of two: `others` are the values and sums (in steps) that the second one holds."""

    def everyones(data):
        there = json.dumps([["items", value] for value in others]).encode()
        return [data, there]

    def added(mine):
        if mine.numel() == len(seen):
            mine[[seen.index(value) for value in others]] += torch.tensor(list(others.values()))
        return mine

    seen = sorted({*range(3), *others})
    monkeypatch.setattr(parallel, "is_parallel", lambda: True)
    monkeypatch.setattr(parallel, "rank", lambda: rank)
    monkeypatch.setattr(parallel, "bytes_of_all", everyones)
    monkeypatch.setattr(parallel, "all_sum", added)
    monkeypatch.setattr(parallel, "bytes_from_first", lambda data: data if rank == 0 else answer)


def test_processes_add_up_the_sums_of_values_that_some_of_them_hold(monkeypatch):
    records = Records.from_lists([[0], [0, 1], [2]], DOMAIN)
    query = threshold_query(holdings, noise=2.0, delta=1e-6, cap=8)
    _, alone = query.sums(View(records), SeededRandomness(0))
    as_one_of_two(monkeypatch, 0, {1: 700, 5: 9000})
    labels, sums = query.sums_of_all(View(records), SeededRandomness(0))
    assert labels == [("items", value) for value in (0, 1, 2, 5)]
    assert sums.tolist() == [int(alone[0]), int(alone[1]) + 700, int(alone[2]), 9000]


def test_the_first_process_draws_the_noise_and_the_others_take_what_it_says(monkeypatch):
    records = Records.from_lists([[0]] * 500 + [[0, 1], [2]], DOMAIN)
    as_one_of_two(monkeypatch, 0, {5: 500 * 1024})
    first = ask(Gateway(records, randomness=SeededRandomness(0)))
    assert first.of("items") == (0, 5)
    as_one_of_two(monkeypatch, 1, {5: 500 * 1024}, b'[["items", 7, 12.5]]')
    second = ask(Gateway(records, randomness=SeededRandomness(0)))
    assert (second.values, second.sums) == ((("items", 7),), (12.5,))


def test_several_rows_per_person_are_not_discovered_by_several_processes(monkeypatch):
    monkeypatch.setattr(parallel, "is_parallel", lambda: True)
    gateway = Gateway(some_records(), randomness=SeededRandomness(0), rows_per_person=2)
    with pytest.raises(UsageError, match="one process"):
        gateway.discover("v", threshold_query(holdings, noise=2.0, delta=1e-6, cap=8, rows=2), 2.0)
