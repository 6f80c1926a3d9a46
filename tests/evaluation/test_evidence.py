"""One estimator: effects on shares, and the evidence that chance hardly ever gives."""

import numpy as np
import pytest
from scipy.stats import hypergeom, norm

from dpgm.evaluation.evidence import angles, clear, deviances, needed_evidence, surely


def test_an_effect_of_a_tenth_is_the_same_step_near_a_half_and_near_nothing():
    hundred = np.full(2, 100.0)
    steps = angles(np.array([55.0, 1.0]), hundred) - angles(np.array([45.0, 0.0]), hundred)
    assert np.allclose(steps, 0.1, atol=0.001)


def test_samples_of_one_population_hardly_ever_exceed_the_evidence_needed():
    """100,000 comparisons of shares from rare to even; the bound promises at most one of a hundred runs."""
    rng = np.random.default_rng(0)
    shares = rng.choice([0.0005, 0.005, 0.05, 0.5], 100_000)
    rows = np.full(shares.shape, 2000.0)
    counts = [rng.binomial(2000, shares).astype(float) for _ in range(2)]
    assert deviances(counts[0], rows, counts[1], rows).max() < needed_evidence(len(shares), 0.01)


def test_groups_without_rows_are_no_evidence():
    none = np.zeros(1)
    assert deviances(none, none, none, none).tolist() == [0.0]
    assert clear(np.ones(1), none, 10.0).tolist() == surely(np.ones(1), none, 10.0).tolist() == [0.0]


@pytest.mark.parametrize(("real", "synthetic"), [(26, 30), (100, 100), (2000, 500), (500, 5000), (10_000, 10_000)])
@pytest.mark.parametrize("total", [5, 20, 100, "half"])
def test_the_evidence_is_as_rare_as_a_normal_deviate_however_few_the_rows(real, synthetic, total):
    """Against the exact (hypergeometric) probabilities of all counts, down to 1e-14."""
    rows = real + synthetic
    total = rows // 2 if total == "half" else min(total, rows)
    counts = np.arange(max(0, total - synthetic), min(real, total) + 1)
    sides = [np.full(len(counts), float(size)) for size in (real, synthetic)]
    evidence = deviances(counts.astype(float), sides[0], (total - counts).astype(float), sides[1])
    fewer = counts < total * real / rows
    chances = hypergeom.cdf(counts, rows, total, real), hypergeom.sf(counts - 1, rows, total, real)
    exact, claimed = np.where(fewer, *chances), norm.sf(np.sqrt(evidence))
    rare = (exact > 1e-14) & (exact < 0.05)
    assert (exact[rare] < 1.45 * claimed[rare]).all()
    assert (exact[rare] > 0.65 * claimed[rare]).all()
