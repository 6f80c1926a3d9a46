"""Renyi divergences of the events, by direct integration: an upper bound on epsilon that needs no grid of losses.

A sampled step has E_Q[(P/Q)^a] with P/Q = 1 + u, u = q (e^(mu x - mu²/2) - 1) and E_Q[u] = 0, so the integral of
(1 + u)^a - 1 - a u is all that is left; it keeps its digits even where the divergence is 1e-20. The trapezium rule
converges exponentially for such integrands. Orders that could not help get the unsampled mechanism's divergence.

`RenyiFilter` composes plans that are chosen after seeing earlier releases.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from dpgm.arrays import Floats
from dpgm.errors import BudgetError, UsageError
from dpgm.privacy.events import Event, GaussianRelease, Mechanism, Parallel, SampledSteps, Threshold, events_of

ORDERS: Floats = np.concatenate(
    [
        1 + np.array([0.001, 0.002, 0.005, 0.01, 0.02, 0.03, 0.05, 0.07]),  # for epsilons beyond a hundred
        1 + np.arange(1, 100) / 10,
        np.arange(11.0, 65.0),
        np.round(64 * 2 ** (np.arange(1, 57) / 4)),  # to about a million, for epsilons of 0.01 and less
    ]
)
_FARTHEST = 120.0  # in standard deviations: where an order's integrand peaks; beyond, the order is useless


def renyi_curve(events: Sequence[Event], orders: Floats = ORDERS) -> Floats:
    """Renyi divergence of all events together at each order, the larger of both directions.

    What thresholds add is not a divergence: whoever converts the curve takes `threshold_delta` off delta first.
    """
    total = np.zeros(len(orders))
    for event in events:
        if isinstance(event, GaussianRelease):
            total += event.count * orders / (2 * float(event.noise) ** 2)
        elif isinstance(event, SampledSteps):
            step = [_sampled(1 / float(event.noise), float(event.sampling_rate), float(order)) for order in orders]
            total += event.steps * np.array(step)
        elif isinstance(event, Parallel):  # a record is in one branch only, but which one may depend on releases
            total += np.max([renyi_curve(branch, orders) for branch in event.branches], axis=0)
        elif isinstance(event, Threshold):
            continue  # no divergence: it is taken off delta (`threshold_delta`)
        else:
            raise UsageError(f"an event of kind {type(event).__name__} is unknown and cannot be costed.")
    return total


def epsilon_from(curve: Floats, delta: float, orders: Floats = ORDERS) -> tuple[float, float]:
    """The best epsilon over the orders (Canonne, Kamath, Steinke 2020), and the order it was found at."""
    epsilons = curve + conversion(orders, delta)
    best = int(np.argmin(epsilons))
    return max(0.0, float(epsilons[best])), float(orders[best])


def delta_from(curve: Floats, epsilon: float, orders: Floats = ORDERS) -> float:
    """The best delta over the orders at an epsilon; the same conversion, the other way round."""
    logs = (orders - 1) * (curve + np.log1p(-1 / orders) - epsilon) - np.log(orders)
    return float(np.exp(min(0.0, float(np.min(logs)))))


def conversion(orders: Floats, delta: float) -> Floats:
    """What turns a divergence into an epsilon at each order."""
    converted: Floats = np.log1p(-1 / orders) - np.log(delta * orders) / (orders - 1)
    return converted


@dataclass(frozen=True)
class RenyiFilter:
    """The share of a cap that is used by plans which may depend on earlier releases (Feldman and Zrnic 2021).

    Divergences at one order may add up to the divergence that converts to the cap. The first plan fixes `order` and
    `aside`, the share of delta kept for lists of values that passed a threshold: no later choice can depend on what was
    released before it.
    """

    epsilon_cap: float
    delta: float
    order: float
    aside: float = 0.0

    @classmethod
    def for_first_plan(
        cls, epsilon_cap: float, delta: float, mechanisms: Sequence[Mechanism], aside: float
    ) -> "RenyiFilter":
        """The order at which the first plan takes the smallest share of the cap."""
        budgets = epsilon_cap - conversion(ORDERS, delta * (1 - aside))
        if budgets.max() <= 0:
            raise BudgetError(
                f"no plan can be admitted: an epsilon of {epsilon_cap:g} at delta {delta:g} is too small for a ledger."
            )
        curve = renyi_curve(events_of(mechanisms))
        shares = np.where(budgets > 0, curve / np.where(budgets > 0, budgets, 1.0), np.inf)
        return cls(epsilon_cap, delta, float(ORDERS[int(np.argmin(shares))]), aside)

    def share(self, mechanisms: Sequence[Mechanism]) -> float:
        """What share of the cap a plan takes."""
        budget = self.epsilon_cap - float(conversion(np.array([self.order]), self.delta * (1 - self.aside))[0])
        return _divergence(tuple(mechanisms), self.order) / budget


@lru_cache(maxsize=1000)
def _divergence(mechanisms: tuple[Mechanism, ...], order: float) -> float:
    """The Renyi divergence of a plan; the same few plans are asked for at every reservation."""
    return float(renyi_curve(events_of(mechanisms), np.array([order]))[0])


def trapezium(mu: float, rate: float, farthest: float) -> tuple[Floats, Floats, Floats]:
    """What to integrate over x ~ N(0, 1) with, from -12 to 12 beyond `farthest`, by the trapezium rule.

    Of every x: mu x - mu²/2; log(1 + u), without overflow; and the logarithm of the density times the step.
    """
    step = min(0.05, 0.1 / mu)
    x = np.arange(-12.0, farthest + 12.0 + step, step)
    exponent = mu * x - mu * mu / 2
    log_ratio = np.where(
        exponent > 30, math.log(rate) + exponent, np.log1p(rate * np.expm1(np.minimum(exponent, 30)))
    )
    return exponent, log_ratio, -x * x / 2 + math.log(step / math.sqrt(2 * math.pi))


def _sampled(mu: float, rate: float, order: float) -> float:
    if rate == 1.0:
        return order * mu * mu / 2
    if order * mu > _FARTHEST:
        return order * mu * mu / 2  # that of the unsampled mechanism, which is never less
    exponent, log_ratio, log_density = trapezium(mu, rate, order * mu)
    peak = float(np.max(order * log_ratio + log_density))
    if peak > 2:
        return (peak + math.log(float(np.sum(np.exp(order * log_ratio + log_density - peak))))) / (order - 1)
    u = rate * np.expm1(np.minimum(exponent, 30))
    small = np.abs(order * u) < 1e-3
    series = order * (order - 1) / 2 * u**2 * (1 + (order - 2) / 3 * u * (1 + (order - 3) / 4 * u))
    density = np.exp(log_density)
    # Far out (1 + u)^a may overflow while the density is zero, so the two are multiplied as logarithms there.
    powers = np.exp(np.minimum(order * log_ratio + log_density, 700.0))
    near = np.expm1(np.minimum(order * log_ratio, 1.0)) - order * u
    direct = np.where(order * log_ratio < 1, near * density, powers - (1 + order * u) * density)
    excess = float(np.sum(np.where(small, series * density, direct)))
    return math.log1p(max(excess, 0.0)) / (order - 1)
