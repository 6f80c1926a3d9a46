"""One estimator: effects on shares, and the evidence that chance hardly ever gives."""

import numpy as np

from dpgm.evaluation.shares import angles, beyond, deviances, needed_evidence


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
    assert beyond(np.ones(1), none, 10.0).tolist() == [0.0]
