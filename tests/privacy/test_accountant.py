"""Every vector of the oracle, and the properties any accountant must have."""

import json
import math
from pathlib import Path

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import exact_privacy
from dpgm.errors import DpgmError, UsageError
from dpgm.privacy import accountant
from dpgm.privacy.accountant import cost, delta_at, gaussian_delta, gaussian_epsilon, profile, replace_one_epsilon
from dpgm.privacy.events import (
    CountsAndSums,
    GaussianRelease,
    Mechanism,
    Parallel,
    SampledSteps,
    events_of,
)

VECTORS = json.loads((Path(__file__).parent / "vectors.json").read_text(encoding="utf-8"))


def marked(vectors, is_slow):
    return [pytest.param(vector, marks=pytest.mark.slow) if is_slow(vector) else vector for vector in vectors]


def assert_tight(found, exact):
    """Never below the exact value; above it by no more than the grid may cost."""
    assert found.epsilon_pld >= exact - 1e-6
    assert found.epsilon_rdp >= exact
    assert found.epsilon <= exact * (1 + 3e-4) + 1e-6


@pytest.mark.parametrize(
    "vector", marked(VECTORS["subsampled_gaussian"], lambda v: v["q"] < 1e-3 or v["sigma"] < 0.4)
)
def test_sampled_steps_cost_what_the_oracle_says(vector):
    steps = SampledSteps(float(vector["sigma"]), float(vector["q"]), vector["T"])
    found = cost([steps], vector["delta"])
    assert_tight(found, vector["eps_exact"])
    # dp-accounting's fractional orders are up to 1 % high; ours are exact, and the smaller is reported.
    assert found.epsilon_rdp <= vector["eps_rdp_dp_accounting"] + 1e-9
    assert found.epsilon_rdp >= vector["eps_rdp_dp_accounting"] * 0.99


@pytest.mark.parametrize("vector", VECTORS["pipeline"])
def test_whole_pipelines_cost_what_the_oracle_says(vector):
    mechanisms = [
        Mechanism("counts", vector["z_n"], vector["T_K"]),
        Mechanism("sums", vector["z_s"], vector["T_K"]),
        Mechanism("norms", vector["z_C"], vector["T"], vector["q"], "step"),
        Mechanism("gradients", vector["z_G"], vector["T"], vector["q"], "step"),
    ]
    mechanisms += [Mechanism(key, vector[key]) for key in ("z_N", "z_H0") if key in vector]
    assert_tight(cost(mechanisms, vector["delta"]), vector["eps_exact"])


@pytest.mark.slow
@pytest.mark.parametrize("vector", VECTORS["cdr_transit_corrected"])
def test_the_papers_large_data_sets_cost_what_the_oracle_says(vector):
    z_k = 40.0 if "sqrt2" in vector["noise"] else 40.0 / math.sqrt(2)
    events = [GaussianRelease(z_k, 20), SampledSteps(vector["z_eff"], vector["q"], vector["T"])]
    found = cost(events, vector["delta"])
    assert found.epsilon_pld >= vector["eps_exact"] - 1e-6
    assert found.epsilon <= vector["eps_exact"] * 1.002 + 1e-4
    assert found.epsilon_rdp >= vector["eps_exact"]


@pytest.mark.parametrize("setting", ["literal_noise_sqrt2", "multipliers_as_named"])
@pytest.mark.parametrize("epochs", [1, 20])
def test_mnist_costs_what_the_oracle_says(setting, epochs):
    vector = VECTORS["mnist"]["corrected"][setting]
    events = [GaussianRelease(vector["zK"], 20), SampledSteps(vector["zeff"], 0.0017, 589 * epochs)]
    assert_tight(cost(events, 1e-5), vector["rows"][str(epochs)]["exact"])


@pytest.mark.parametrize("setting", ["literal_noise_sqrt2", "multipliers_as_named"])
def test_replacing_a_record_costs_the_proved_bound(setting):
    vector = VECTORS["mnist"]["corrected"][setting]
    noise = vector["zK"] * math.sqrt(2)  # counts and sums alike
    events = [CountsAndSums(noise, noise, 20), SampledSteps(vector["zeff"], 0.0017, 11780)]
    assert replace_one_epsilon(events, 1e-5) == pytest.approx(vector["replace_one_rigorous_split"], rel=3e-4)
    # Without knowing that counts and sums share the movement, the bound is larger, never smaller.
    apart = [GaussianRelease(noise, 20), GaussianRelease(noise, 20), events[1]]
    assert replace_one_epsilon(apart, 1e-5) > replace_one_epsilon(events, 1e-5)


def test_replacing_is_a_doubled_shift_for_one_release():
    doubled = gaussian_epsilon(2 / 5.0, 1e-6)
    assert replace_one_epsilon([GaussianRelease(5.0)], 1e-6) == pytest.approx(doubled, rel=1e-12)
    assert replace_one_epsilon([SampledSteps(5.0, 1.0, 1)], 1e-6) == pytest.approx(doubled, rel=1e-12)


@pytest.mark.parametrize("vector", VECTORS["delta_vectors"])
def test_delta_at_an_epsilon_is_what_the_oracle_says(vector):
    found = delta_at([SampledSteps(vector["sigma"], vector["q"], vector["T"])], vector["eps"])
    assert vector["delta_exact"] * (1 - 1e-9) <= found <= vector["delta_exact"] * 1.005


def test_delta_at_an_epsilon_of_plain_releases_is_exact():
    assert delta_at([GaussianRelease(5.0)], gaussian_epsilon(0.2, 1e-6)) == pytest.approx(1e-6, rel=1e-9)


@pytest.mark.parametrize("vector", VECTORS["calibration_gaussian_sigma"])
def test_a_gaussian_mechanism_is_costed_in_closed_form(vector):
    found = cost([GaussianRelease(vector["sigma"])], vector["delta"])
    assert found.epsilon == pytest.approx(vector["eps"], rel=1e-9)
    assert found.epsilon == found.epsilon_pld


@pytest.mark.parametrize("mu", [1e-9, 1e-4, 1.0, 30.0])
def test_the_closed_form_survives_extremes(mu):
    for delta in (1e-3, 1e-12):
        epsilon = gaussian_epsilon(mu, delta)
        assert epsilon == 0 or gaussian_delta(mu, epsilon) == pytest.approx(delta, rel=1e-6)


def test_whole_numbers_cost_what_floats_cost():
    ints = [Mechanism("norms", 4, 100, 0.01, "step"), Mechanism("gradients", 1, 100, 0.01, "step")]
    floats = [Mechanism("norms", 4.0, 100, 0.01, "step"), Mechanism("gradients", 1.0, 100, 0.01, "step")]
    assert cost(ints, 1e-5) == cost(floats, 1e-5)
    assert cost(ints, 1e-5).epsilon > cost(floats[:1], 1e-5).epsilon * 2


def test_a_rate_of_one_is_a_plain_release():
    steps, releases = cost([SampledSteps(40.0, 1, 20)], 1e-5), cost([GaussianRelease(40.0, 20)], 1e-5)
    assert steps == releases
    assert steps.epsilon == pytest.approx(0.3846923540510611, rel=1e-9)


def test_unequal_branches_take_the_worst_profile_before_composing():
    vector = VECTORS["counterexamples"]["heterogeneous_cluster_envelope"]
    first = (GaussianRelease(vector["sigma_A"], vector["T_A"]),)
    second = (SampledSteps(vector["sigma_B"], vector["q_B"], vector["T_B"]),)
    clustering = GaussianRelease(1 / vector["mu_K"])
    both = cost([clustering, Parallel((first, second))], 1e-5).epsilon
    alone = [cost([clustering, *branch], 1e-5).epsilon for branch in (first, second)]
    assert both > max(alone) + 2e-3  # reporting the larger of the two would be wrong
    assert both == pytest.approx(vector["quadrature"]["remove env"], rel=1e-4)


def test_a_branch_worst_in_every_parameter_stands_for_all():
    worst, other = SampledSteps(1.0, 0.02, 100), SampledSteps(1.5, 0.01, 50)
    assert cost([Parallel(((worst,), (other,)))], 1e-5).epsilon_pld == cost([worst], 1e-5).epsilon_pld


def test_branches_cannot_be_costed_for_replacement():
    with pytest.raises(UsageError, match="parallel branches"):
        replace_one_epsilon([Parallel(((GaussianRelease(1.0),),))], 1e-5)


@pytest.mark.parametrize(
    ("mechanisms", "words"),
    [
        ([], "no mechanism"),
        (["laplace"], "unknown"),
        ([Mechanism("a", 0.0)], "noise"),
        ([Mechanism("a", math.nan)], "noise"),
        ([Mechanism("a", math.inf)], "noise"),
        ([Mechanism("a", 1.0, 0)], "count"),
        ([Mechanism("a", 1.0, True)], "count"),
        ([Mechanism("a", 1.0, 1, 1.5)], "sampling_rate"),
        ([Mechanism("a", 1.0, 1, 0.0)], "sampling_rate"),
        ([GaussianRelease(-1.0)], "noise"),
        ([GaussianRelease(1.0, 1.5)], "count"),
        ([SampledSteps(1.0, 0.1, 0)], "steps"),
        ([SampledSteps(1.0, 2.0, 1)], "sampling_rate"),
        ([CountsAndSums(1.0, 0.0)], "sum_noise"),
        ([Mechanism("a", 1.0, 5, 0.1, "s"), Mechanism("b", 1.0, 6, 0.1, "s")], "share one rate"),
    ],
)
def test_what_cannot_be_costed_is_refused(mechanisms, words):
    with pytest.raises(UsageError, match=words):
        cost(mechanisms, 1e-5)


@pytest.mark.parametrize("delta", [0, 1, -1e-5, math.nan, math.inf, "1e-5"])
def test_a_delta_outside_zero_and_one_is_refused(delta):
    with pytest.raises(UsageError, match="delta"):
        cost([GaussianRelease(1.0)], delta)


def test_an_unknown_event_is_refused_by_the_renyi_curve_too():
    from dpgm.privacy.renyi import renyi_curve

    with pytest.raises(UsageError, match="unknown"):
        renyi_curve(["laplace"])


def test_accountants_that_contradict_each_other_stop_everything(monkeypatch):
    monkeypatch.setattr(accountant, "_dp_accounting_epsilon", lambda normal, delta: 0.1)
    with pytest.raises(DpgmError, match="contradict") as caught:
        cost([SampledSteps(1.0, 0.01, 100)], 1e-5)
    assert caught.value.kind == "E-INTERNAL"


def test_an_answer_of_zero_from_rounding_is_not_believed(monkeypatch):
    monkeypatch.setattr(accountant, "_dp_accounting_epsilon", lambda normal, delta: 0.0)
    assert cost([SampledSteps(1.0, 0.01, 100)], 1e-5).epsilon > 0.5


def test_figures_are_remembered_and_damaged_ones_recomputed(tmp_path, monkeypatch):
    events = [SampledSteps(1.0, 0.01, 100)]
    fresh = cost(events, 1e-5)
    monkeypatch.setattr(accountant, "_tight_and_renyi", lambda *_: pytest.fail("not remembered"))
    assert cost(events, 1e-5) == fresh
    for entry in (tmp_path / "cache").iterdir():
        entry.write_text("{")
    monkeypatch.undo()
    monkeypatch.setenv("DPGM_CACHE", str(tmp_path / "cache"))
    assert cost(events, 1e-5) == fresh


def test_the_profile_agrees_with_the_cost():
    events = [SampledSteps(1.0, 0.01, 100)]
    epsilon = cost(events, 1e-5).epsilon
    assert max(direction.delta(epsilon) for direction in profile(events, 1e-5)) == pytest.approx(1e-5, rel=1e-3)


def test_events_that_share_a_sample_are_merged():
    mechanisms = [Mechanism("norms", 4.0, 7, 0.1, "step"), Mechanism("gradients", 1.0, 7, 0.1, "step")]
    (event,) = events_of(mechanisms)
    assert event.noise == pytest.approx(1 / math.sqrt(1 + 1 / 16))
    assert (event.sampling_rate, event.steps) == (0.1, 7)
    assert events_of([Mechanism("a", 2.0, 3, 0.5)]) == (SampledSteps(2.0, 0.5, 3),)


def test_no_release_at_all_has_infinite_noise():
    from dpgm.privacy.events import merged_noise

    assert merged_noise([]) == math.inf


# -- properties --------------------------------------------------------------------------------------------------

noises = st.floats(0.7, 20)
rates = st.floats(1e-3, 0.9)
counts = st.integers(1, 2000)
deltas = st.sampled_from([1e-3, 1e-6, 1e-10])
quick = settings(max_examples=15, deadline=None)


def epsilon_of(*events, delta=1e-6):
    return cost(events, delta, check=False, cache=False).epsilon


@quick
@given(noises, rates, counts, deltas)
def test_epsilon_falls_with_noise(noise, rate, steps, delta):
    more = epsilon_of(SampledSteps(noise, rate, steps), delta=delta)
    less = epsilon_of(SampledSteps(noise * 1.05, rate, steps), delta=delta)
    assert less <= more * (1 + 3e-4) + 1e-6


@quick
@given(noises, st.floats(1e-3, 0.8), counts)
def test_epsilon_rises_with_the_rate_and_the_steps(noise, rate, steps):
    base = epsilon_of(SampledSteps(noise, rate, steps))
    assert epsilon_of(SampledSteps(noise, rate * 1.1, steps)) >= base * (1 - 3e-4) - 1e-6
    assert epsilon_of(SampledSteps(noise, rate, steps + steps // 10 + 1)) >= base * (1 - 3e-4) - 1e-6


@quick
@given(noises, rates, counts, noises)
def test_the_order_of_mechanisms_does_not_matter(noise, rate, steps, other):
    first, second = SampledSteps(noise, rate, steps), GaussianRelease(other * 5, 3)
    assert epsilon_of(first, second) == pytest.approx(epsilon_of(second, first), rel=1e-9)


@quick
@given(noises, rates, counts)
def test_the_tight_figure_never_exceeds_the_renyi_bounds(noise, rate, steps):
    found = cost([SampledSteps(noise, rate, steps)], 1e-6, cache=False)
    assert found.epsilon_pld <= found.epsilon_rdp * (1 + 3e-4) + 1e-6
    assert found.epsilon <= min(found.epsilon_pld, found.epsilon_rdp)


def assert_matches_the_integral(noise, rate, steps, delta):
    found = cost([GaussianRelease(30.0, 10), SampledSteps(noise, rate, steps)], delta, check=False, cache=False)
    assume(0.05 < found.epsilon < 25)
    schedule = {"steps": [(noise, rate, steps)], "mu": math.sqrt(10) / 30}
    for remove in (True, False):
        assert exact_privacy.delta(found.epsilon, remove=remove, **schedule) <= delta * (1 + 1e-8)
    assert exact_privacy.delta(found.epsilon * (1 - 4e-4) - 1e-6, **schedule) > delta


schedules = (
    st.floats(0.8, 4.0),
    st.floats(1e-3, 0.3),
    st.integers(100, 10000),
    st.sampled_from([1e-4, 1e-6, 1e-9]),
)


@settings(max_examples=5, deadline=None)
@given(*schedules)
def test_random_schedules_match_an_independent_integral(noise, rate, steps, delta):
    assert_matches_the_integral(noise, rate, steps, delta)


@pytest.mark.slow
@settings(max_examples=100, deadline=None)
@given(*schedules)
def test_many_random_schedules_match_an_independent_integral(noise, rate, steps, delta):
    assert_matches_the_integral(noise, rate, steps, delta)


@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@given(st.floats(0.6, 10.0), st.floats(1e-3, 0.5), st.integers(1, 20000), st.sampled_from([1e-4, 1e-6]))
def test_random_schedules_match_dp_accountings_own_distribution(noise, rate, steps, delta):
    import dp_accounting
    from dp_accounting.pld import PLDAccountant

    found = cost([SampledSteps(noise, rate, steps)], delta, check=False, cache=False).epsilon_pld
    assume(found < 40)
    reference = PLDAccountant(value_discretization_interval=1e-4)
    step = dp_accounting.PoissonSampledDpEvent(float(rate), dp_accounting.GaussianDpEvent(float(noise)))
    reference.compose(dp_accounting.SelfComposedDpEvent(step, steps))
    theirs = reference.get_epsilon(delta)
    assert found <= theirs * (1 + 3e-4) + 1e-5  # theirs is an upper bound too, with its own grid
    assert theirs <= found * 1.05 + 1e-2 or rate < 5e-3


@pytest.mark.slow
@pytest.mark.parametrize(
    ("noise", "rate", "steps", "delta"),
    [
        (0.3, 1e-7, 10**6, 1e-9),
        (1e4, 1e-7, 10**6, 1e-12),
        (1e4, 0.5, 10**6, 1e-12),
        (0.65, 1e-7, 10**6, 1e-12),
        (0.165, 1e-4, 10**6, 1e-3),
        (0.3, 0.5, 10**5, 1e-12),
        (0.3, 0.999, 1, 1e-3),
        (50.0, 0.5, 10**6, 1e-12),
    ],
)
def test_extreme_schedules_have_a_finite_cost(noise, rate, steps, delta):
    found = cost([SampledSteps(noise, rate, steps)], delta)
    assert 0 <= found.epsilon <= found.epsilon_rdp < math.inf


@pytest.mark.parametrize(
    ("noise", "rate", "steps", "delta"),
    [
        (1e-3, 0.01, 10, 1e-5),  # no noise to speak of
        (0.01, 0.5, 1, 1e-5),  # losses beyond the range of floating point
        (0.05, 1e-6, 10**6, 1e-6),  # a window beyond memory
        (1.0, 0.01, 100, 1e-30),  # a delta beyond the transforms' digits
        (2.0, 0.3, 10**7, 1e-6),
    ],
)
def test_absurd_schedules_fall_back_on_the_renyi_bound(noise, rate, steps, delta):
    events = [SampledSteps(noise, rate, steps)]
    found = cost(events, delta)
    assert found.epsilon_pld == math.inf
    assert 2 < found.epsilon == found.epsilon_rdp < math.inf
    assert accountant.search_epsilon(events, delta, 1e-3) == pytest.approx(found.epsilon, rel=0.01)
    if delta > 1e-20:
        assert delta_at(events, 1.0) == 1.0


def test_a_search_costs_plain_releases_exactly():
    assert accountant.search_epsilon([GaussianRelease(5.0)], 1e-6, 1e-3) == gaussian_epsilon(0.2, 1e-6)


@pytest.mark.parametrize("delta", [0.5, 0.9])
def test_a_large_delta_costs_nothing(delta):
    assert cost([SampledSteps(1.0, 0.01, 100)], delta).epsilon == 0.0


def test_a_tilt_that_is_far_too_strong_is_weakened():
    from dpgm.privacy.loss_composition import refined
    from dpgm.privacy.loss_distribution import Pair

    pair = Pair(1 / 0.165, 1e-4, 10**6, True)
    assert refined([pair], 1e-3, 0.1).epsilon == pytest.approx(refined([pair], 1e-3, 0.01).epsilon, rel=1e-3)


def test_branches_of_several_events_have_no_simple_worst():
    from dpgm.privacy.loss_composition import dominating

    events = (GaussianRelease(10.0), SampledSteps(1.0, 0.01, 100))
    both = cost([Parallel((events, events))], 1e-5)
    assert both.epsilon_pld == pytest.approx(cost(events, 1e-5).epsilon_pld, rel=1e-3)
    assert dominating([()]) is None


def test_the_smallest_delta_that_a_file_can_hold_has_an_epsilon():
    assert 38 < gaussian_epsilon(1.0, 1e-320) < 39


@pytest.mark.parametrize("noise", [1e300, 1e160, 1e-160, 1e-300])
def test_noise_whose_square_is_no_number_is_refused(noise):
    plain, sampled = Mechanism("a", noise), Mechanism("a", noise, 100, 0.01, "step")
    for events in ([plain], [sampled], [CountsAndSums(noise, 1.0)], [CountsAndSums(1.0, noise)]):
        with pytest.raises(UsageError, match="noise` must be between"):
            cost(events, 1e-6)
