"""What must hold for every mechanism of every family, watched at the gateway of whole fits."""

import functools
from dataclasses import replace

import numpy as np
import pytest

import dpgm
from dpgm.mechanisms.gateway import Gateway
from dpgm.mechanisms.randomness import SeededRandomness
from dpgm.synthesis.checkpoint import Checkpoint
from dpgm.synthesis.domain_discovery import MEASURES as DISCOVERY
from dpgm.synthesis.strategies import STRATEGIES
from dpgm.testing import differences
from dpgm.testing.noise_law import assert_all, normal_pvalues
from whole_fits import (
    FITS,
    Taped,
    assert_record_by_record,
    command_line,
    gateways,
    largest_additions,
    noise_scores,
    traced,
)

pytestmark = pytest.mark.filterwarnings("ignore::dpgm.PrivacyWarning")
ENOUGH = 6000  # residuals of a mechanism: noise 10 % too small is then missed with probability 1e-7
# Statistics that share the name of a mechanism with another; all others have a name of their own.
SHARING = {"EnumeratedSets", "ItemTuples", "CentredPairs", "ItemCounts", "ScaledItems"}


@functools.cache
def live(name):
    return traced(FITS[name])


def test_every_mechanism_and_statistic_is_in_one_of_the_fits():
    calls = [call for name in FITS for call in live(name).calls]
    known = {name for strategy in STRATEGIES for name in strategy.measures} | set(DISCOVERY)
    assert {name for name, _ in calls} == known
    assert {type(getattr(query.compute, "__self__", None)).__name__ for _, query in calls} >= SHARING
    assert {whole.model for whole in FITS.values()} == {strategy.name for strategy in STRATEGIES}


def assert_noise_of_the_plan(whole, checkpoint=None):
    """A mechanism of the plan without enough residuals fails, whatever its name."""
    scores = noise_scores(whole, least=ENOUGH, checkpoint=checkpoint)
    for mechanism in whole.plan().mechanisms:
        assert sum(one.size for one in scores.get(mechanism.name, ())) >= ENOUGH, mechanism.name
    assert_all([found for name in scores for found in normal_pvalues(name, scores[name])])


@pytest.mark.parametrize("name", FITS)
def test_the_noise_of_every_mechanism_is_that_of_the_plan(name):
    assert_noise_of_the_plan(FITS[name])


@pytest.mark.parametrize("name", ["products, dense sets", "products, discovered, 3 rows per person", "rbm"])
def test_with_a_checkpoint_the_noise_is_that_of_the_plan(name, tmp_path, monkeypatch):
    for kept in ("make_room", "_save", "_record"):  # what is written is compared below
        monkeypatch.setattr(Checkpoint, kept, lambda *arguments: None)
    assert_noise_of_the_plan(FITS[name], tmp_path / "saved")


def test_noise_that_is_ten_percent_too_small_for_one_name_is_seen(monkeypatch):
    noisy = Gateway._noisy

    def less(self, call, query, exact):
        return noisy(
            self, replace(call, noise=0.9 * call.noise) if call.name == "pair counts" else call, query, exact
        )

    monkeypatch.setattr(Gateway, "_noisy", less)
    with pytest.raises(AssertionError, match="pair counts: variance"):
        assert_noise_of_the_plan(FITS["products, table"])


@pytest.mark.parametrize("name", FITS)
def test_every_release_is_a_sum_over_records(name):
    assert_record_by_record(FITS[name], live(name))


def test_no_record_adds_more_than_the_sensitivity():
    largest = {}
    for name in FITS:
        for mechanism, ratio in largest_additions(FITS[name], live(name)).items():
            assert ratio <= 1 + 1e-9, f"{name}: one record adds {ratio:.4f} x the sensitivity of {mechanism!r}"
            largest[mechanism] = max(largest.get(mechanism, 0.0), ratio)
    assert min(largest.values()) > 0.9, largest  # records that come near the bound were tried


def fitted_frame(whole, seed, tape, *, play):
    """All that a fitted synthesizer shows of a frame: attributes, texts, and samples with their dtypes."""
    taped = type("Taped", (Taped,), {"tape": tape, "played": iter(tape) if play else None})
    fitted = dpgm.Synthesizer(whole.epsilon, domain=whole.domain, randomness=SeededRandomness(0))
    with gateways(Gateway, taped):
        fitted.fit(whole.frame(seed), person="who", rows_per_person=whole.rows_per_person, plan=whole.plan())
    sample = fitted.sample(50, seed=1).to_pandas(rng=np.random.default_rng(0))
    shown = [repr(fitted), fitted._repr_html_(), repr(fitted.release_), fitted.release_._repr_html_()]
    attributes = {name: value for name, value in vars(fitted).items() if name.endswith("_")}
    return attributes | {"shown": shown, "sample": sample.to_csv(), "dtypes": sample.dtypes.astype(str).to_dict()}


def test_a_fitted_frame_shows_what_follows_from_its_noisy_values():
    whole, tape = FITS["products, discovered table, 2 rows per person"], []
    first = fitted_frame(whole, 1, tape, play=False)
    assert differences(first, fitted_frame(whole, 2, tape, play=True)) == []
    assert dict(first["dtypes_"]) != {}
    assert differences(first, fitted_frame(whole, 2, [], play=False)) != []


@pytest.mark.parametrize("name", FITS)
def test_every_byte_that_a_fit_leaves_behind_or_prints_follows_from_its_noisy_values(name, tmp_path):
    tape = []
    first = command_line(FITS[name], tmp_path / "first", 1, tape, play=False)
    second = command_line(FITS[name], tmp_path / "second", 2, tape, play=True)
    assert {"release/certificate.json", "release/README.md", "release/model.safetensors"} < set(first)
    assert [each for each in first if first[each] != second.get(each)] == []
    assert list(first) == list(second)
