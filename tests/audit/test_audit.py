"""The audit: its statistics on mechanisms with known epsilon, and the real pipeline with and without its noise."""

import json
from dataclasses import replace
from itertools import count

import numpy as np
import pytest
import torch

from dpgm.audit import AuditFinding, audit, audit_one_run, findings, gates, one_run, trials
from dpgm.audit.configurations import configurations
from dpgm.audit.trials import PublicSeed, Score, Trials, gathered, one_fit, run_trials, scores_of
from dpgm.cli.app import load_commands, run
from dpgm.data.domain import Domain
from dpgm.data.records import Records
from dpgm.errors import UsageError
from dpgm.mechanisms.gateway import Call, Gateway
from dpgm.mechanisms.randomness import SeededRandomness
from dpgm.privacy.accountant import Cost, cost
from dpgm.privacy.events import Mechanism
from dpgm.synthesis import certified_fit
from dpgm.synthesis.domain_discovery import MEASURES as DISCOVERY
from dpgm.synthesis.strategies import STRATEGIES
from reading_data import with_open_items

MU = 0.9
MECHANISM = [Mechanism("gaussian", 1 / MU)]
CASES = {configuration.name: configuration for configuration in configurations()}
# A configuration for every mechanism: the first that runs it where all records are in every release.
AUDITED = {}
for _case in CASES.values():
    for _mechanism in _case.plan.mechanisms if _case.copies == 1 else ():
        if _mechanism.sampling_rate == 1:
            AUDITED.setdefault(_mechanism.name, _case)
FITS = 4  # with the canary, and as many without


def gaussian_trials(mu, fits=2000, scalar=0.0, seed=0):
    """Trials of a Gaussian mechanism with parameter mu; one released number shifts by `scalar` standard deviations."""
    rng = np.random.default_rng(seed)
    outputs = [rng.normal(mean, 1.0, fits) for mean in (0.0, mu)]
    scores = tuple(mu * output - mu**2 / 2 for output in outputs)
    numbers = [rng.normal(size=(fits, 6)).astype(np.float32) for _ in range(2)]
    numbers[1][:, 3] += scalar
    return Trials(scores, tuple(numbers), {}, ())


def all_gates(trials):
    limit, curve = gates.most_right(MECHANISM), gates.certified_curve(MECHANISM, 1e-5)
    return [
        gates.gate_of_guesses(trials, limit),
        gates.gate_of_rates(trials, curve),
        gates.gate_of_scalars(trials, limit, curve),
    ]


def test_an_optimal_adversary_of_the_claimed_mechanism_comes_close_and_raises_no_alarm():
    trials = gaussian_trials(MU)
    assert all(gate.passed for gate in all_gates(trials))
    claimed = cost(MECHANISM, 1e-5).epsilon
    lower = gates.lower_bound(trials, MECHANISM, 1e-5)
    assert 0.8 * claimed < lower <= claimed
    assumption_free = gates.assumption_free(trials, 1e-5)
    assert 0.1 * claimed < assumption_free < lower


def test_halved_noise_is_noticed_by_the_guesses():
    trials = gaussian_trials(2 * MU)
    assert not all_gates(trials)[0].passed
    assert gates.lower_bound(trials, MECHANISM, 1e-5) > cost(MECHANISM, 1e-5).epsilon


def test_a_leak_outside_the_score_is_noticed_by_the_gate_of_scalars():
    assert not all_gates(gaussian_trials(MU, scalar=4.0))[2].passed
    assert all_gates(gaussian_trials(MU, scalar=0.5))[2].passed


def test_a_rare_but_certain_leak_is_noticed_by_the_gate_of_rates():
    trials = gaussian_trials(0.1)
    with_it = trials.scores[1].copy()
    with_it[:200] = 50.0  # a tenth of the fits reveal the record with certainty
    found = all_gates(replace(trials, scores=(trials.scores[0], with_it)))
    assert found[0].passed
    assert not found[1].passed


def test_the_lower_bound_is_zero_without_a_signal():
    assert gates.lower_bound(gaussian_trials(0.0), MECHANISM, 1e-5) == 0.0
    assert gates.assumption_free(gaussian_trials(0.0), 1e-5) < 0.3


def test_gates_seldom_fail_a_correct_mechanism():
    failed = sum(not gate.passed for seed in range(40) for gate in all_gates(gaussian_trials(MU, 300, seed=seed)))
    assert failed <= 1  # expected: 0.04 of 120


def test_one_mechanism_is_judged_by_guesses_and_by_the_spread_of_its_scores():
    """Scores of 300 + 300 releases whose noise is a multiple of the declared one."""

    def gate(noise, mechanism=MECHANISM[0], seed=0):
        rng, energy = np.random.default_rng(seed), 1 / mechanism.noise**2
        sign = np.repeat([-1.0, 1.0], 300)
        ratio = sign * energy / 2 + noise * np.sqrt(energy) * rng.normal(size=600)
        unmoved = [[1.0, 0.0, 0.0]] * 50  # releases that the canary did not move say nothing
        rows = np.concatenate([np.stack([sign, ratio, np.full(600, energy)], axis=1), unmoved])
        return gates.gate_of_mechanism(mechanism, rows)

    assert all(gate(1.0, seed=seed).passed for seed in range(40))  # expected: 0.004 alarms
    assert gate(1.5).passed
    assert not gate(0.8).passed  # far too small for guesses: 71 % instead of 67 % right
    weak = Mechanism("a large sum", 50.0, 8, 1.0, "step")
    assert gate(1.0, weak).passed
    assert not gate(1e-9, weak).passed
    assert "of 600 right" in gate(1.0).detail
    assert gates.gate_of_mechanism(weak, np.zeros((3, 3))).passed


def test_a_correct_build_raises_an_alarm_in_less_than_one_of_a_thousand_audits():
    assert findings.false_alarm_rate(configurations()) < 1e-3
    some = next(iter(CASES.values()))
    once = 1 - gates.CONFIDENCE + gates.LEVEL * (3 + len(some.plan.mechanisms))
    assert findings.false_alarm_rate([some, some]) == pytest.approx(2 * once**2)


def test_the_score_is_the_log_likelihood_ratio():
    added = torch.tensor([2.0, 0.0])
    whole = [Call("counts", 2.0, 1.0)]

    def score_of(*arguments):
        return scores_of(*arguments)[0]

    assert score_of(whole, [added], [added], [torch.zeros(2)]) == pytest.approx(0.5)
    assert score_of(whole, [torch.zeros(2)], [added], [torch.zeros(2)]) == pytest.approx(-0.5)
    assert score_of(whole, [added + 3], [added], [torch.full((2,), 3.0)]) == pytest.approx(0.5)
    assert scores_of(whole, [added], [added], [torch.zeros(2)])[1] == (Score("counts", 0.5, 1.0),)
    steps = [Call(name, 2.0, 1.0, 0.25, "step") for name in ("norms", "gradients")] * 2
    expected = 2 * np.log(0.75 + 0.25 * np.exp(1.0))
    total, alone = scores_of(steps, [added] * 4, [added] * 4, [torch.zeros(2)] * 4)
    assert total == pytest.approx(expected)
    assert alone == ()  # who else was sampled is not known, so the law of one score is not either
    # Where others contribute, only the canary's own coordinates count.
    others = torch.tensor([0.0, 7.0])
    assert score_of(steps, [added + others] * 4, [added] * 4, [others] * 4) == pytest.approx(expected)


def test_a_published_value_that_only_the_canary_has_gives_it_away():
    call = [Call("discovered values", 1.0, 2.0, delta=1e-6)]
    added, rest = {("c", "own"): 0.6, ("c", "red"): 0.8}, {("c", "red"): 40.0, ("c", "blue"): 30.0}

    def published(**sums):
        return torch.frombuffer(
            bytearray(json.dumps([["c", *one] for one in sums.items()]).encode()), dtype=torch.uint8
        )

    (score,) = scores_of(call, [published(red=40.8, blue=29.0)], [added], [rest])[1]
    assert (score.ratio, score.energy) == pytest.approx((0.08, 0.16))
    assert scores_of(call, [published(red=40.0)], [added], [rest])[0] == pytest.approx(-0.08)
    assert scores_of(call, [published(blue=29.0)], [added], [rest])[0] == 0
    assert scores_of(call, [published(own=9.0)], [added], [rest])[0] == trials.CERTAIN


# -- fits of the product's own code ---------------------------------------------------------------------------------


@pytest.fixture
def seeded(monkeypatch):
    """Noise from fixed seeds, another one for each fit: no test fails by chance."""

    class Source(PublicSeed, SeededRandomness):
        pass

    seeds = count()
    monkeypatch.setattr(trials, "SystemSource", lambda: Source(next(seeds)))


@pytest.fixture
def without_noise(monkeypatch):
    """A function that takes the noise from one named mechanism."""
    original = Gateway._noisy

    def remove(name):
        def noisy(self, call, query, exact):
            return original(self, replace(call, noise=1e-9) if call.name == name else call, query, exact)

        monkeypatch.setattr(Gateway, "_noisy", noisy)

    return remove


def test_every_mechanism_of_every_family_is_audited_alone():
    assert set(AUDITED) == {name for family in STRATEGIES for name in family.measures} | set(DISCOVERY)


@pytest.mark.usefixtures("seeded")
@pytest.mark.parametrize("name", CASES)
def test_the_canary_reaches_the_sensitivity_of_the_releases(name, monkeypatch):
    """A weak canary makes a weak audit, so it must move every release by nearly its sensitivity."""
    reached = {}

    def spy(calls, noisy, canary, others):
        scored = original(calls, noisy, canary, others)
        for call, value in zip(calls, canary, strict=True):
            numbers = torch.tensor(list(value.values())) if isinstance(value, dict) else value
            reached.setdefault(call.name, []).append(float(numbers.double().norm()) / call.sensitivity)
        return scored

    original = trials.scores_of
    monkeypatch.setattr(trials, "scores_of", spy)
    trial = one_fit(CASES[name], True)
    assert np.isfinite(trial.score)
    assert np.isfinite(trial.released).all()
    assert set(reached) == {mechanism.name for mechanism in CASES[name].plan.mechanisms}
    assert max(max(ratios) for ratios in reached.values()) <= 1 + 1e-6
    # Noise sometimes raises the norm bound; the draws of a VAE are averaged.
    weakest = {mechanism: max(ratios) for mechanism, ratios in reached.items()}
    assert min(weakest.values()) > (0.6 if name == "VAE" else 0.8), weakest


@pytest.mark.usefixtures("seeded")
@pytest.mark.parametrize("name", CASES)
def test_a_fit_is_judged_by_its_own_certificate_and_passes(name):
    found = run_trials(CASES[name], FITS)
    result = findings.judge_trials(CASES[name], found)
    (certificate,) = found.certificates
    plan = CASES[name].plan
    assert (set(certificate.mechanisms), certificate.delta) == (set(plan.mechanisms), plan.delta)
    assert result.epsilon == certificate.epsilon
    assert result.epsilon == pytest.approx(cost(plan.mechanisms, plan.delta).epsilon)
    assert result.passed, [gate for gate in result.gates if not gate.passed]


@pytest.mark.parametrize("name", AUDITED)
def test_a_mechanism_without_noise_is_caught(name, without_noise):
    """The alarm works on the real code, for every mechanism: guesses are always right, whatever the other noise is."""
    without_noise(name)
    case = AUDITED[name]
    found = findings.judge_trials(case, run_trials(case, FITS))
    assert not found.passed
    assert name in [gate.name for gate in found.gates if not gate.passed]
    assert "PRIVACY BUG" in found.verdict


@pytest.mark.usefixtures("seeded")
def test_a_certificate_that_claims_less_than_its_mechanisms_cost_is_caught(monkeypatch):
    def halved(mechanisms, delta):
        spent = cost(mechanisms, delta)
        return replace(spent, epsilon=spent.epsilon / 2)

    monkeypatch.setattr(certified_fit, "cost", halved)
    assert isinstance(halved(MECHANISM, 1e-5), Cost)
    found = findings.judge_trials(CASES["table"], run_trials(CASES["table"], 2))
    assert not found.passed
    assert not found.gates[0].passed


@pytest.mark.usefixtures("seeded")
def test_a_certificate_that_depends_on_the_canary_is_caught():
    without, with_it = (one_fit(CASES["table"], member) for member in (False, True))
    assert gates.gate_of_certificates(gathered([without], [with_it])).passed
    other = replace(with_it, certificate=replace(with_it.certificate, epsilon=with_it.certificate.epsilon + 1e-9))
    assert not gates.gate_of_certificates(gathered([without], [other])).passed


def test_unknown_names_and_too_few_fits_are_refused():
    with pytest.raises(UsageError, match="no audit 'D'"):
        audit(["D"])
    with pytest.raises(UsageError, match="at least 40 fits"):
        audit(["A"], fits=3)


def finding(**changes):
    values = {
        "configuration": "A", "sentence": "", "fits": 20, "epsilon": 4.0, "delta": 1e-5, "epsilon_lower": 3.0,
        "epsilon_assumption_free": 1.0, "right": 0.6, "right_at_most": 0.7, "least_share": 0.7, "gates": (),
        "seconds": 1.0,
    }  # fmt: skip
    return AuditFinding(**(values | changes))


def test_a_verdict_follows_from_gates_and_bound():
    assert finding().passed
    assert finding().strong
    assert "weak" in finding(epsilon_lower=1.0).verdict
    assert "BUG" in finding(epsilon_lower=4.1).verdict
    failed = gates.Gate("G1", 1e-9, False, "")
    assert not finding(gates=(failed,)).passed
    assert finding().to_json()["share"] == 0.75


def test_an_alarm_is_checked_once_with_more_fits(monkeypatch):
    requested = []

    def fake(configuration, fits, pool, progress):
        requested.append(fits)
        return finding(epsilon_lower=5.0 if len(requested) == 1 else 3.0)

    monkeypatch.setattr(findings, "_audit", fake)
    assert audit(["A"], fits=40)[0].passed
    assert requested == [80, 320]


# -- one run ----------------------------------------------------------------------------------------------------------


def test_the_bound_of_one_run_is_the_published_one():
    """Values of the reference code in appendix D of Steinke, Nasr and Jagielski (2023), re-derived."""
    assert one_run.one_run_p_value(100, 100, 50, 0.0, 0.0) > 0.5
    assert one_run.one_run_p_value(100, 100, 100, 0.0, 0.0) == pytest.approx(2.0**-100)
    assert one_run.one_run_bound(1000, 1000, 1000, 0.0) == pytest.approx(
        np.log(0.05**0.001 / (1 - 0.05**0.001)), abs=1e-3
    )
    assert one_run.one_run_bound(1000, 100, 50, 1e-5) == 0.0
    assert one_run.one_run_bound(1000, 500, 450, 1e-5) < one_run.one_run_bound(1000, 500, 450, 0.0)
    # Two fair guesses (epsilon 0), both right: 1/4, and 2 m delta times the larger of 1/2 and (1/2 + 1/4) / 2.
    assert one_run.one_run_p_value(10, 2, 2, 0.0, 1e-3) == pytest.approx(0.25 + 2 * 10 * 1e-3 * 0.5)


@pytest.mark.usefixtures("short_fits")
def test_one_run_of_public_data_finds_a_lower_bound_below_the_claim():
    rng = np.random.default_rng(0)
    records = Records.from_dense(rng.random((500, 16)) < 0.2, Domain.of_items(16))
    result = audit_one_run(records, epsilon=90.0, canaries=60)
    assert result.model == "products"
    assert result.right > 0.9 * result.guesses
    assert 0 < result.epsilon_lower < result.epsilon
    assert result.passed


def test_one_run_needs_a_set_of_items():
    from dpgm.data.domain import Categorical

    table = Domain((Categorical("colour", ("red", "blue")),))
    with pytest.raises(UsageError, match="one set of items"):
        audit_one_run(Records.from_lists([[0]], table))
    some = Records.from_lists([[0]], Domain.of_items(3))
    with pytest.raises(UsageError, match="domain that lists the items"):
        audit_one_run(with_open_items(some))
    for few in (-1, 0, 1):
        with pytest.raises(UsageError, match="canaries"):
            audit_one_run(some, canaries=few)


# -- the command ------------------------------------------------------------------------------------------------------


def test_the_command_prints_verdicts_and_exits_1_on_a_bug(monkeypatch, capsys, tmp_path):
    load_commands()
    monkeypatch.setattr(findings, "_audit", lambda *_: finding(gates=(gates.Gate("G1", 0.4, True, "60 % right"),)))
    assert run(["audit", "--only", "A", "--quiet"]) == 0
    assert "claimed epsilon 4.00, shown at least 3.00 (75%): no contradiction" in capsys.readouterr().out
    assert run(["audit", "--only", "A", "--json", "--out", str(tmp_path / "audit.json")]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed["passed"]
    assert printed == json.loads((tmp_path / "audit.json").read_text())
    monkeypatch.setattr(findings, "_audit", lambda *_: finding(epsilon_lower=4.5))
    assert run(["audit", "--only", "A", "--quiet"]) == 1
    assert "PRIVACY BUG" in capsys.readouterr().err
    assert run(["audit", "--quick", "--data", "x"]) == 2
