"""Tuned numbers of private k-means, each with its unit and reason; all of them public and chosen by hand."""

from dataclasses import dataclass


@dataclass(frozen=True)
class ClusteringRules:
    """How centres follow noisy counts and sums, and how many features the noise allows."""

    # Shrunk toward the mean, a centre keeps at least this share of its distance from it: centres never fall together.
    least_distance: float = 0.1
    # A re-seeded centre starts so far from the one it splits, in units of the norm bound.
    split_distance: float = 0.1
    # Noise of a centre that k-means bears, as a share of the length of a feature vector.
    bearable_noise: float = 0.25
    # Records drawn to choose initial centres from, at the least, and per cluster.
    pool: int = 2000
    pool_per_cluster: int = 10
    # Features, however much or little noise there is.
    least_features: float = 50.0
    most_features: float = 400.0


RULES = ClusteringRules()
