"""Disjoint parts of the data under unequal mechanisms: the worst branch at every epsilon, before composing.

Which branch a record falls into may depend on earlier releases, so the branches' profiles delta(epsilon) are
replaced by their pointwise maximum (docs/privacy-proof.md 3.3). The maximum of convex profiles is one, so
it has a loss of its own; taking the maximum of the composed epsilons instead would be wrong.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dpgm.privacy.loss_composition import Composed, compose
from dpgm.privacy.loss_distribution import Floats, Loss, Pair


@dataclass(frozen=True)
class Envelope:
    """The pointwise largest profile of several branches, all in one direction."""

    branches: tuple[tuple[Pair, ...], ...]

    @property
    def runs(self) -> int:
        """How many outcomes are drawn in all."""
        return sum(pair.times for branch in self.branches for pair in branch)

    def width(self, tail: float) -> float:
        """How far the losses of one run of one pair reach."""
        return max(pair.width(tail) for branch in self.branches for pair in branch)

    def variance(self, tail: float) -> float:
        """Variance of the widest branch."""
        return max(sum(pair.variance(tail) for pair in branch) for branch in self.branches)

    def added_variance(self, grid: float, tail: float) -> float:
        """What the grid adds to the worst branch."""
        return max(sum(pair.added_variance(grid, tail) for pair in branch) for branch in self.branches)

    def on_grid(self, grid: float, tail: float) -> Loss:
        """The loss whose profile is the envelope."""
        composed = [
            compose([pair.on_grid(grid, tail) for pair in branch], 0.0, precise=True) for branch in self.branches
        ]
        first = min(branch_loss.first for branch_loss in composed)
        last = max(branch_loss.first + len(branch_loss.masses) - 1 for branch_loss in composed)
        masses = np.stack([_padded(branch_loss, first, last) for branch_loss in composed])
        losses: Floats = (first + np.arange(last - first + 1, dtype=np.float64)) * grid
        profiles = np.stack(
            [_profile(row, losses, branch_loss.infinity) for row, branch_loss in zip(masses, composed, strict=True)]
        )
        worst = np.argmax(profiles, axis=0)
        profile = profiles.max(axis=0)
        slopes = np.diff(profile) / np.diff(np.exp(losses))
        result = masses[worst, np.arange(len(losses))]
        # Where the worst branch changes, the envelope has a kink of its own.
        changed = np.flatnonzero((worst[:-2] != worst[1:-1]) | (worst[1:-1] != worst[2:])) + 1
        result[changed] = np.exp(losses[changed]) * np.maximum(slopes[changed] - slopes[changed - 1], 0.0)
        result = np.maximum(result, 0.0)
        infinity = float(profile[-1])
        result[0] = max(0.0, 1.0 - infinity - float(result[1:].sum()))
        return Loss(grid, first, result, infinity)


def _padded(branch_loss: Composed, first: int, last: int) -> Floats:
    masses = np.zeros(last - first + 1)
    start = branch_loss.first - first
    masses[start : start + len(branch_loss.masses)] = branch_loss.masses
    return masses


def _profile(masses: Floats, losses: Floats, infinity: float) -> Floats:
    """The hockey-stick divergence at every grid point, from sums over the losses above it."""
    upper = np.append(np.cumsum(masses[::-1])[::-1][1:], 0.0)
    lower = np.append(np.cumsum((masses * np.exp(-losses))[::-1])[::-1][1:], 0.0)
    profile: Floats = np.maximum(upper - np.exp(losses) * lower, 0.0) + infinity
    return profile


def dominating(branches: Sequence[tuple[Pair, ...]]) -> tuple[Pair, ...] | None:
    """The branch that is worst in every parameter, if there is one among branches of one pair each."""
    if any(len(branch) != 1 for branch in branches):
        return None
    pairs = [branch[0] for branch in branches]
    for pair in pairs:
        if all(pair.mu >= other.mu and pair.rate >= other.rate and pair.times >= other.times for other in pairs):
            return (pair,)
    return None
