"""The tuned numbers of a tilt."""

from dataclasses import dataclass


@dataclass(frozen=True)
class TiltRules:
    """How the weights of a pool are found. By hand, unless an experiment is named."""

    # Most iterations of L-BFGS, and the number of steps that it remembers.
    iterations: int = 150
    history: int = 12
    # Residuals below which all statistics count as matched: in standard deviations of their noise, over the root of
    # how fast they change (`_curvature`).
    matched: float = 0.02


TILT_RULES = TiltRules()
