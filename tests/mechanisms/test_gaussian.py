import itertools
import math
import tracemalloc

import pytest
import torch
from scipy import stats

from dpgm.errors import DpgmError, UsageError
from dpgm.mechanisms import gaussian
from dpgm.mechanisms.gaussian import add_noise, noise_std
from dpgm.mechanisms.query import Query
from dpgm.mechanisms.randomness import SeededRandomness, SystemRandomness


def query(shape, sensitivity=1.0, grid=None):
    return Query(lambda view: None, sensitivity, shape, grid)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_floats_are_changed_in_place_and_lie_on_a_grid(dtype):
    exact = torch.full((100, 30), 5.0, dtype=dtype)
    noisy = add_noise(exact, query((100, 30), sensitivity=0.75), 2.0, SeededRandomness(0))
    assert noisy is exact
    assert stats.kstest((noisy.double().numpy().ravel() - 5) / 1.5, "norm").pvalue > 1e-7
    steps = noisy.double() * 2.0**12  # the deviation is 1.5, next to the power of two 2
    assert torch.equal(steps, steps.round())


def smallest_step(sensitivity, noise):
    exact = torch.zeros(200_000, dtype=torch.float64)
    return float(add_noise(exact, query((200_000,), sensitivity), noise, SeededRandomness(0)).unique().diff().min())


def test_the_grid_is_a_share_of_the_deviation_and_not_too_fine_for_the_sensitivity():
    for sensitivity in (0.3, 1.0, 7.0, 1000.0):
        for noise in (0.1, 1.0, 500.0):
            assert 2.0**-13 <= smallest_step(sensitivity, noise) / (noise * sensitivity) <= 2.0**-12
        for noise in (1e-3, 1e-6):
            assert 2.0**-21 <= smallest_step(sensitivity, noise) / sensitivity <= 2.0**-20


def test_a_square_of_the_grid_is_crossed_by_thousands_of_directions():
    # Both normals of a pair are released: what few directions leave out would tell values apart.
    for noise in (0.5, 6.0, 65.0, 3_545.0):
        between = 9.4 * noise * 2 * math.pi / 2**32  # neighbouring directions, as far out as they reach
        assert smallest_step(1.0, noise) / between > 5_000


def test_a_tensor_that_is_not_contiguous_gets_its_noise():
    exact = torch.zeros(50, 40).T
    add_noise(exact, query((40, 50)), 1.0, SeededRandomness(0))
    assert stats.kstest(exact.reshape(-1).numpy(), "norm").pvalue > 1e-7


def test_rows_that_lie_apart_get_their_noise_and_what_is_between_does_not():
    whole = torch.zeros(30, 1008)
    exact = whole[:, :1001]
    assert add_noise(exact, query((30, 1001)), 3.0, SeededRandomness(0)) is exact
    assert stats.kstest(exact.reshape(-1).numpy() / 3, "norm").pvalue > 1e-7
    assert torch.all(whole[:, 1001:] == 0)
    exact[7, 3] = torch.nan
    with pytest.raises(DpgmError, match="not finite"):
        add_noise(exact, query((30, 1001)), 3.0, SeededRandomness(0))


def test_noise_of_a_device_has_the_law_and_the_grid_and_is_fresh_at_every_use():
    exact, source, seen = torch.zeros(2, 50_000), SeededRandomness(1), []
    for noise, sensitivity in ((3.0, 1.0), (3.0, 1.0), (0.5, 1000.0), (0.5, 1.5)):
        exact.fill_(7.0)
        assert gaussian._add_on_device(exact, noise, sensitivity, source)
        assert stats.kstest(((exact - 7.0) / (noise * sensitivity)).reshape(-1).numpy(), "norm").pvalue > 1e-7
        grid = gaussian._grid_of(noise, sensitivity)
        assert torch.equal(exact, torch.round(exact.double() / grid).mul(grid).float())
        seen.append(exact.clone())
    assert all(not torch.equal(first, second) for first, second in itertools.pairwise(seen))


def test_noise_of_a_device_that_is_not_finite_is_noticed():
    assert not gaussian._add_on_device(torch.tensor([1.0, torch.inf]), 1.0, 1.0, SeededRandomness(0))


def test_tensors_elsewhere_use_the_generator_of_their_device(monkeypatch):
    seen = []
    monkeypatch.setattr(gaussian, "_add_on_device", lambda exact, *rest: seen.append(exact) or True)
    exact = torch.zeros(3, device="meta")
    add_noise(exact, query((3,)), 1.0, SeededRandomness(0))
    assert seen == [exact]


def test_integers_are_the_same_where_they_are_sent_to_where_the_value_is(monkeypatch):
    exact, asked = torch.arange(24), query((24,), 2.0, grid=0.25)
    wanted = add_noise(exact, asked, 4.0, SeededRandomness(0))
    monkeypatch.setattr(gaussian.parallel, "is_parallel", lambda: True)
    monkeypatch.setattr(gaussian.parallel, "rank", lambda: 0)
    monkeypatch.setattr(gaussian.parallel, "all_sum", lambda value: value)
    assert torch.equal(add_noise(exact, asked, 4.0, SeededRandomness(0)), wanted)


def test_integers_are_exact_multiples_of_the_grid():
    exact = torch.arange(10_000) * 3
    noisy = add_noise(exact.clone(), query((10_000,), 2.0, grid=0.25), 4.0, SeededRandomness(0))
    assert noisy.dtype == torch.float64
    units = noisy / 0.25
    assert torch.equal(units, units.round())
    assert stats.kstest((units - exact).numpy() / 32, "norm").pvalue > 1e-7


def test_no_noise_is_for_tests_only():
    for grid, exact in ((None, torch.tensor([1.25])), (1.0, torch.tensor([7]))):
        assert torch.equal(add_noise(exact.clone(), query((1,), 1.0, grid), 0.0, SeededRandomness(0)), exact)
        with pytest.raises(UsageError, match="above 0; got 0"):
            add_noise(exact, query((1,), 1.0, grid), 0.0, SystemRandomness())


@pytest.mark.parametrize("noise", [-1.0, math.nan, math.inf])
def test_bad_multipliers_are_refused(noise):
    with pytest.raises(UsageError, match="`noise` must be"):
        noise_std(query((1,)), noise, SeededRandomness(0))


@pytest.mark.parametrize("sensitivity", [0.0, -1.0, math.nan, math.inf, 1e-31])
def test_bad_sensitivities_are_refused(sensitivity):
    with pytest.raises(DpgmError, match="sensitivity must be"):
        noise_std(query((1,), sensitivity), 1.0, SeededRandomness(0))


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_a_value_that_is_not_finite_does_not_leave(bad):
    with pytest.raises(DpgmError, match=r"not finite.*budget stays spent"):
        add_noise(torch.tensor([1.0, bad]), query((2,)), 1.0, SeededRandomness(0))


def test_what_a_query_returns_must_be_what_it_declares():
    with pytest.raises(DpgmError, match=r"shape \(3,\) returned shape \(2,\)"):
        add_noise(torch.zeros(2), query((3,)), 1.0, SeededRandomness(0))
    with pytest.raises(DpgmError, match="int64 multiples"):
        add_noise(torch.zeros(2), query((2,), grid=1.0), 1.0, SeededRandomness(0))
    with pytest.raises(DpgmError, match="float32 or float64"):
        add_noise(torch.zeros(2, dtype=torch.bfloat16), query((2,)), 1.0, SeededRandomness(0))


def test_float_noise_allocates_nothing_in_the_steady_state():
    exact, ask, source = torch.zeros(300_000), query((300_000,)), SystemRandomness()
    add_noise(exact, ask, 1.0, source)
    tracemalloc.start()
    add_noise(exact, ask, 1.0, source)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 30_000


def test_integer_noise_is_the_same_by_way_of_the_ranks(monkeypatch):
    """In a parallel run rank 0 adds noise to its partial sum, the others none; alone, that changes nothing."""
    query = Query(lambda view: torch.zeros(0), 1.0, (2, 3), grid=0.5)
    exact = torch.arange(6).reshape(2, 3)
    alone = add_noise(exact.clone(), query, 4.0, SeededRandomness(1))
    monkeypatch.setattr(gaussian.parallel, "is_parallel", lambda: True)
    monkeypatch.setattr(gaussian.parallel, "rank", lambda: 0)
    monkeypatch.setattr(gaussian.parallel, "all_sum", lambda value: value)
    assert torch.equal(alone, add_noise(exact.clone(), query, 4.0, SeededRandomness(1)))
    monkeypatch.setattr(gaussian.parallel, "rank", lambda: 1)  # draws nothing itself
    assert torch.equal(exact * 0.5, add_noise(exact.clone(), query, 4.0, SeededRandomness(1)))


def test_the_ranks_share_a_vector_in_consecutive_parts_of_about_the_same_size():
    """Every piece has one owner, whatever the number of ranks and the lengths of the pieces."""
    cases = [([65536] * 8 + [1700], 2), ([65536, 65536, 400] * 10, 3), ([7], 4), ([5, 5], 8), ([3] * 1000, 7)]
    for lengths, ranks in cases:
        owned = gaussian._pieces_of_ranks(lengths, ranks)
        assert len(owned) == ranks
        assert [piece for own in owned for piece in range(len(lengths))[own]] == list(range(len(lengths)))
        sizes = [sum(lengths[own]) for own in owned]
        assert max(sizes) <= sum(lengths) / ranks + max(lengths)


@pytest.mark.parametrize("apart", [False, True])
def test_several_ranks_together_add_the_noise_of_one(apart, monkeypatch):
    """Each of three ranks adds noise to its own part alone; put together it is the noise of one process."""
    width = 3 * gaussian.NORMALS_AT_ONCE + 11
    whole = torch.zeros(2, width + (5 if apart else 0))
    question = query((2, width))
    alone = add_noise(whole.clone()[:, :width], question, 2.0, SeededRandomness(4)).clone()
    monkeypatch.setattr(gaussian.parallel, "is_parallel", lambda: True)
    monkeypatch.setattr(gaussian.parallel, "world_size", lambda: 3)
    monkeypatch.setattr(gaussian.parallel, "from_first", lambda value: value)
    monkeypatch.setattr(gaussian.parallel, "sum_on_owners", lambda partial, lengths: None)
    monkeypatch.setattr(gaussian.parallel, "from_owners", lambda value, lengths: None)
    together, drawn = torch.zeros(2, width), torch.zeros(2, width)
    for rank in range(3):
        monkeypatch.setattr(gaussian.parallel, "rank", lambda rank=rank: rank)
        noisy = add_noise(whole.clone()[:, :width], question, 2.0, SeededRandomness(4))
        together += noisy
        drawn += noisy != 0
    assert torch.equal(together, alone)
    assert drawn.max() == 1  # nobody draws for a part of somebody else


def test_ranks_of_the_operating_systems_source_draw_from_their_own_keys():
    source = SystemRandomness()
    assert all(words is source for words in source.words_of_pieces(3))


def test_a_rank_without_a_piece_takes_part_in_sharing_the_key():
    """The first use of addressed words is collective: a rank that skipped it would keep the others waiting."""
    source = SeededRandomness(0)
    source.words_of_pieces(1)
    assert source._coins is not None


def test_one_piece_belongs_to_the_first_of_two_ranks():
    assert gaussian._pieces_of_ranks([500], 2) == [slice(0, 1), slice(1, 1)]
