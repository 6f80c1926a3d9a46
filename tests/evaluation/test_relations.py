"""Signed rank correlations of every pair of ordered traits, with errors that hold for rare values, too."""

import numpy as np
import pandas
import pytest

from dpgm.evaluation.evaluate import evaluate
from dpgm.evaluation.relations import rank_relations
from dpgm.evaluation.traits import category, ordered


def stays(count=3000, seed=0):
    """Dates of admission and discharge, bills that grow with the stay and are 0 for private patients."""
    rng = np.random.default_rng(seed)
    days = 1 + rng.poisson(rng.gamma(2, 3, count))
    private = rng.random(count) < 0.2
    bill = np.where(private, 0, (200 * days * np.exp(rng.normal(size=count) * 0.4)).round())
    admitted = pandas.Timestamp("2021-01-01") + pandas.to_timedelta(rng.integers(0, 700, count), unit="D")
    discharged = admitted + pandas.to_timedelta(days, unit="D")
    return pandas.DataFrame({"private": private, "bill": bill, "admitted": admitted, "discharged": discharged})


def test_correlations_are_those_of_pandas_whatever_is_missing():
    frame = pandas.DataFrame(np.random.default_rng(0).normal(size=(400, 3)), columns=["a", "b", "c"])
    frame["b"] += frame["a"]
    frame.loc[::7, "c"] = np.nan
    traits = [ordered(name, [frame[name].to_numpy()] * 2) for name in frame]
    expected = frame[["a", "b"]].corr("spearman").to_numpy()
    found = rank_relations(traits, 0.1, 0.01).real
    assert np.allclose(found[:2, :2], expected * (1 - np.eye(2)), atol=1e-9)
    # With gaps, the ranks are those of all values of a column.
    assert abs(found[0, 2] - frame["a"].corr(frame["c"], "spearman")) < 0.01


@pytest.mark.parametrize("share", [0.5, 0.03])
def test_the_error_is_what_new_samples_differ_by(share):
    """A rare yes-or-no column that depends on another: its correlation varies more than 1 / sqrt(rows)."""
    found = []
    for seed in range(300):
        rng = np.random.default_rng(seed)
        first = rng.random(2000) < share
        last = np.where(rng.random(2000) < 0.6, first, rng.random(2000) < share)
        traits = [
            category(name, ("no", "yes"), [codes.astype(int)] * 2) for name, codes in (("a", first), ("b", last))
        ]
        relations = rank_relations(traits, 0.1, 0.01)
        found.append((relations.real[0, 1], relations.error[0, 1] / np.sqrt(2)))
    spread, error = np.std([value for value, _ in found]), np.mean([error for _, error in found])
    assert 0.85 < error / spread < 1.4


def test_lost_and_reversed_relations_are_found_and_new_samples_are_not():
    real = stays()
    ranks = evaluate(real, stays(seed=1), baselines={}).relations.rows.ranks
    assert not ranks.gaps
    assert not ranks.group_gaps
    fake = stays(seed=1)
    turned = np.empty(len(fake))
    turned[np.argsort(fake["bill"].to_numpy(), kind="stable")] = np.sort(fake["bill"].to_numpy())[::-1]
    judged = evaluate(real, fake.assign(bill=turned), baselines={}).verdict
    assert judged.grade != "close"
    assert any("rank correlation" in text and "bill" in text for text in judged.bad)


def test_the_time_between_two_dates_is_compared():
    """Lengths of stay permuted over the patients: every column keeps its values, and the dates their order."""
    real, fake = stays(), stays(seed=1)
    days = (fake.discharged - fake.admitted).to_numpy()
    fake["discharged"] = fake.admitted + np.random.default_rng(0).permutation(days)
    judged = evaluate(real, fake, baselines={}).verdict
    assert judged.grade != "close"
    assert any("days from admitted to discharged" in text for text in judged.bad)
