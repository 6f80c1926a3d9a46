"""The audit: its statistics on mechanisms with known epsilon, and the real pipeline with and without its noise."""

import json

import numpy as np
import pytest
import torch

from dpgm.audit import Finding, audit, audit_one_run, findings, one_run
from dpgm.audit.trials import CANARY, DOMAIN, Trials, configurations, one_fit, run_trials, score_of
from dpgm.cli.app import load_commands, run
from dpgm.data.records import Records
from dpgm.errors import UsageError
from dpgm.mechanisms import gateway as gateway_module
from dpgm.mechanisms.gateway import Call
from dpgm.privacy.accountant import cost
from dpgm.privacy.events import Mechanism

MU = 0.9
MECHANISM = [Mechanism("gaussian", 1 / MU)]
CASES = {configuration.name: configuration for configuration in configurations()}


def gaussian_trials(mu, fits=2000, scalar=0.0, seed=0):
    """Trials of a Gaussian mechanism with parameter mu; one released number shifts by `scalar` standard deviations."""
    rng = np.random.default_rng(seed)
    outputs = [rng.normal(mean, 1.0, fits) for mean in (0.0, mu)]
    scores = tuple(mu * output - mu**2 / 2 for output in outputs)
    numbers = [rng.normal(size=(fits, 6)).astype(np.float32) for _ in range(2)]
    numbers[1][:, 3] += scalar
    return Trials(scores, tuple(numbers))


def all_gates(trials):
    limit, curve = findings.most_right(MECHANISM), findings.certified_curve(MECHANISM, 1e-5)
    return [
        findings.gate_of_guesses(trials, limit),
        findings.gate_of_rates(trials, curve),
        findings.gate_of_scalars(trials, limit, curve),
    ]


def test_an_optimal_adversary_of_the_claimed_mechanism_comes_close_and_raises_no_alarm():
    trials = gaussian_trials(MU)
    assert all(gate.passed for gate in all_gates(trials))
    claimed = cost(MECHANISM, 1e-5).epsilon
    lower = findings.lower_bound(trials, MECHANISM, 1e-5)
    assert 0.8 * claimed < lower <= claimed
    assumption_free = findings.assumption_free(trials, 1e-5)
    assert 0.1 * claimed < assumption_free < lower


def test_halved_noise_is_noticed_by_the_guesses():
    trials = gaussian_trials(2 * MU)
    assert not all_gates(trials)[0].passed
    assert findings.lower_bound(trials, MECHANISM, 1e-5) > cost(MECHANISM, 1e-5).epsilon


def test_a_leak_outside_the_score_is_noticed_by_the_gate_of_scalars():
    assert not all_gates(gaussian_trials(MU, scalar=4.0))[2].passed
    assert all_gates(gaussian_trials(MU, scalar=0.5))[2].passed


def test_a_rare_but_certain_leak_is_noticed_by_the_gate_of_rates():
    trials = gaussian_trials(0.1)
    with_it = trials.scores[1].copy()
    with_it[:200] = 50.0  # a tenth of the fits reveal the record with certainty
    found = all_gates(Trials((trials.scores[0], with_it), trials.released))
    assert found[0].passed
    assert not found[1].passed


def test_the_lower_bound_is_zero_without_a_signal():
    assert findings.lower_bound(gaussian_trials(0.0), MECHANISM, 1e-5) == 0.0
    assert findings.assumption_free(gaussian_trials(0.0), 1e-5) < 0.3


def test_gates_seldom_fail_a_correct_mechanism():
    failed = sum(not gate.passed for seed in range(40) for gate in all_gates(gaussian_trials(MU, 300, seed=seed)))
    assert failed <= 1  # expected: 0.04 of 120


def test_the_score_is_the_log_likelihood_ratio():
    added = torch.tensor([2.0, 0.0])
    whole = [Call("counts", 2.0, 1.0)]
    assert score_of(whole, [added], [added], [torch.zeros(2)]) == pytest.approx(0.5)
    assert score_of(whole, [torch.zeros(2)], [added], [torch.zeros(2)]) == pytest.approx(-0.5)
    assert score_of(whole, [added + 3], [added], [torch.full((2,), 3.0)]) == pytest.approx(0.5)
    steps = [Call(name, 2.0, 1.0, 0.25, "step") for name in ("norms", "gradients")] * 2
    expected = 2 * np.log(0.75 + 0.25 * np.exp(1.0))
    assert score_of(steps, [added] * 4, [added] * 4, [torch.zeros(2)] * 4) == pytest.approx(expected)
    # Where others contribute, only the canary's own coordinates count.
    others = torch.tensor([0.0, 7.0])
    assert score_of(steps, [added + others] * 4, [added] * 4, [others] * 4) == pytest.approx(expected)


@pytest.mark.parametrize("name", CASES)
def test_the_canary_reaches_the_sensitivity_of_the_releases(name):
    """A weak canary makes a weak audit, so it must change gradients, counts and lengths by nearly their sensitivity."""
    from dpgm.audit import trials

    configuration = CASES[name]
    randomness = trials.SystemRandomness()
    gateway = trials.TraceGateway(CANARY, randomness=randomness, allowance=configuration.plan.mechanisms)
    trials._fit(gateway, configuration, 5)
    added = trials._exact(configuration, CANARY, gateway.tape, 5, randomness)
    reached = {}
    for call, value in zip(gateway.calls, added, strict=True):
        ratio = float(value.norm()) / call.sensitivity
        assert ratio <= 1 + 1e-6, call
        reached[call.name] = max(reached.get(call.name, 0.0), ratio)  # noise sometimes raises the norm bound
    for mechanism in {"gradients", "record lengths", "item counts", "cluster sums"} & set(reached):
        assert reached[mechanism] > (0.6 if name == "VAE" else 0.95), mechanism


@pytest.mark.parametrize("name", CASES)
def test_a_fit_is_scored_from_its_released_values(name):
    score, released = one_fit(CASES[name], True)
    assert np.isfinite(score)
    assert np.isfinite(released).all()
    assert len(released) > 100


def test_a_pipeline_without_noise_is_caught(monkeypatch):
    """The alarm works on the real code: every release loses nine tenths of its noise."""
    original = gateway_module.add_noise
    monkeypatch.setattr(
        gateway_module, "add_noise", lambda exact, query, noise, source: original(exact, query, noise / 10, source)
    )
    trials = run_trials(CASES["A"], 20)
    mechanisms, delta = CASES["A"].plan.mechanisms, CASES["A"].plan.delta
    assert not findings.gate_of_guesses(trials, findings.most_right(mechanisms)).passed
    assert findings.lower_bound(trials, mechanisms, delta) > CASES["A"].plan.epsilon


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
    return Finding(**(values | changes))


def test_a_verdict_follows_from_gates_and_bound():
    assert finding().passed
    assert finding().strong
    assert "weak" in finding(epsilon_lower=1.0).verdict
    assert "BUG" in finding(epsilon_lower=4.1).verdict
    failed = findings.Gate("G1", 1e-9, False, "")
    assert not finding(gates=(failed,)).passed
    assert finding().to_json()["share"] == 0.75


def test_an_alarm_is_checked_once_with_more_fits(monkeypatch):
    requested = []

    def fake(configuration, fits, pool, progress):
        requested.append(fits)
        return finding(epsilon_lower=5.0 if len(requested) == 1 else 3.0)

    monkeypatch.setattr(findings, "_audit", fake)
    assert audit(["A"], fits=40)[0].passed
    assert requested == [120, 480]


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
    records = Records.from_dense(rng.random((500, DOMAIN.width)) < 0.2, DOMAIN)
    result = audit_one_run(records, epsilon=90.0, canaries=60)
    assert result.model == "products"
    assert result.right > 0.9 * result.guesses
    assert 0 < result.epsilon_lower < result.epsilon
    assert result.passed


def test_one_run_needs_a_set_of_items():
    from dpgm.data.domain import Categorical, Domain, ItemSet
    from dpgm.data.open_records import OpenRecords

    table = Domain((Categorical("colour", ("red", "blue")),))
    with pytest.raises(UsageError, match="one set of items"):
        audit_one_run(Records.from_lists([[0]], table))
    some = Records.from_lists([[0]], Domain.of_items(3))
    with pytest.raises(UsageError, match="domain that lists the items"):
        audit_one_run(OpenRecords.of_sets(some, Domain((ItemSet("items", discover=True),))))
    for few in (-1, 0, 1):
        with pytest.raises(UsageError, match="canaries"):
            audit_one_run(some, canaries=few)


# -- the command ------------------------------------------------------------------------------------------------------


def test_the_command_prints_verdicts_and_exits_1_on_a_bug(monkeypatch, capsys, tmp_path):
    load_commands()
    monkeypatch.setattr(
        findings, "_audit", lambda *_: finding(gates=(findings.Gate("G1", 0.4, True, "60 % right"),))
    )
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
