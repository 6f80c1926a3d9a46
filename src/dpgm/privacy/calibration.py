"""A budget -> every noise multiplier, before any data is opened."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from dpgm.errors import UsageError
from dpgm.privacy.accountant import cost
from dpgm.privacy.events import Mechanism


@dataclass(frozen=True)
class Spend:
    """A share of the budget (in mu² units) spread evenly over `count` releases on the whole data."""

    name: str
    share: float
    count: int = 1


@dataclass(frozen=True)
class Training:
    """Private SGD: takes whatever the spends leave; `norm_share` of each step goes to the norm histogram."""

    sampling_rate: float
    steps: int
    norm_share: float = 0.05


def gaussian_mu(epsilon: float, delta: float) -> float:
    """The mu of the Gaussian mechanism that costs exactly (epsilon, delta)."""
    from scipy.optimize import brentq
    from scipy.special import log_ndtr, ndtr

    def excess(log_mu: float) -> float:
        mu = math.exp(log_mu)
        return float(ndtr(mu / 2 - epsilon / mu) - math.exp(epsilon + log_ndtr(-mu / 2 - epsilon / mu))) - delta

    return math.exp(brentq(excess, math.log(1e-8), math.log(1e3), xtol=1e-13))


def round_up(noise: float, digits: int = 5) -> float:
    """`noise` rounded up to `digits` significant digits."""
    scale = 10.0 ** (digits - 1 - math.floor(math.log10(noise)))
    return math.ceil(noise * scale) / scale


def calibrate(
    epsilon: float, delta: float, spends: Sequence[Spend], training: Training | None = None, cache: bool = True
) -> tuple[Mechanism, ...]:
    """Multipliers for every stage so that the composed cost meets (epsilon, delta)."""
    mu2 = gaussian_mu(epsilon, delta) ** 2
    shares = sum(spend.share for spend in spends)
    if training is None and abs(shares - 1) > 1e-6:
        raise UsageError(f"the shares must sum to 1; they sum to {shares:.6g}.")
    if training is not None and shares >= 1:
        raise UsageError(f"the shares must sum to less than 1, training takes the rest; they sum to {shares:.6g}.")
    releases = tuple(Mechanism(s.name, round_up(math.sqrt(s.count / (s.share * mu2))), s.count) for s in spends)
    if training is None:
        return releases

    def stage(noise: float) -> tuple[Mechanism, ...]:
        rate, steps, share = training.sampling_rate, training.steps, training.norm_share
        gradients = Mechanism("gradients", round_up(noise / math.sqrt(1 - share)), steps, rate, "step")
        if share == 0:
            return (gradients,)
        return (Mechanism("norms", round_up(noise / math.sqrt(share)), steps, rate, "step"), gradients)

    low, high = 0.2, 1.0
    while cost((*releases, *stage(high)), delta).epsilon > epsilon:
        low, high = high, high * 2
    while high / low > 1.0005:
        middle = math.sqrt(low * high)
        if cost((*releases, *stage(middle)), delta).epsilon > epsilon:
            low = middle
        else:
            high = middle
    return (*releases, *stage(high))
