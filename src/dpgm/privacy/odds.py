"""What somebody who studies a release can find out about one person, of 100: the odds behind epsilon and delta.

Two figures, each for the promise (epsilon and delta alone) and for the plan (all of its mechanisms, composed):

    accused   somebody's method wrongly accuses 5 of 100 people who were not in the data; at most so many of 100 who
              were in it does it accuse rightly
    guesses   told to guess in or out, half and half, they are right at most so many times of 100

Both follow from the profile delta(e), the largest P(S) - exp(e) Q(S) over all events S. An event of probability `a`
without the person has with them at most min over e of exp(e) a + delta(e). Two outcomes that are equally likely
beforehand are told apart at best with probability (1 + delta(0)) / 2. Every figure is rounded up.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from dpgm.privacy import cache as disk
from dpgm.privacy.accountant import ACCOUNTANT, Costable, NormalForm, cost, normal_form
from dpgm.privacy.events import Adjacency
from dpgm.privacy.loss_composition import FARTHEST_LOSS, Composed, TooWideError, compose

WRONGLY = 5.0  # of 100 people who were not in the data: how many the method accuses
_TAIL = 1e-6  # what cutting off tails may add to delta
_STABLE = 5e-5  # a grid is fine enough once both probabilities move by less than this when it is halved
_FIRST_POINTS, _MOST_POINTS = 2**10, 2**20
_LARGEST = 60.0  # no epsilon above this lowers a bound: exp(60) is 1e26


@dataclass(frozen=True)
class Odds:
    """Of 100 people, and of 100 guesses; see the top of the module."""

    accused: float
    guesses: float


_NOTHING = Odds(100.0, 100.0)  # of a composition that no grid holds; the promise is then what is stated


class Profile(Protocol):
    """A composed privacy loss in one direction."""

    def delta(self, epsilon: float) -> float:
        """The hockey-stick divergence at epsilon >= 0, or more."""


def promised_odds(epsilon: float, delta: float) -> Odds:
    """The odds that (epsilon, delta) alone allow.

    >>> promised_odds(1.0, 1e-6)
    Odds(accused=13.6, guesses=73.2)
    """
    wrongly, growth = WRONGLY / 100, math.exp(min(epsilon, _LARGEST))
    accused = min(growth * wrongly + delta, 1 - (1 - wrongly - delta) / growth)
    return _rounded_up(accused, (growth + delta) / (1 + growth))


def odds(mechanisms: Sequence[Costable], delta: float, *, cache: bool = True) -> Odds:
    """The odds that all mechanisms together allow; never more than what their epsilon at `delta` promises.

    Args:
        mechanisms: mechanisms or events, as `cost` takes them.
        delta: the delta of the guarantee.
        cache: look the figures up on disk, and keep them there.
    """
    normal = normal_form(mechanisms, Adjacency.ADD_REMOVE)
    promised = promised_odds(cost(mechanisms, delta, cache=cache).epsilon, delta)
    if normal.is_gaussian:
        found = _gaussian_odds(normal)
    else:
        key = ["odds", ACCOUNTANT, repr(normal)]
        known = disk.recall(key) if cache else None
        if isinstance(known, list) and len(known) == 2 and all(isinstance(figure, float) for figure in known):
            found = Odds(*known)
        else:
            found = _composed_odds(normal)
            if cache:
                disk.keep(key, [found.accused, found.guesses])
    return Odds(min(found.accused, promised.accused), min(found.guesses, promised.guesses))


def accused_at_most(directions: Sequence[Profile], wrongly: float) -> float:
    """The largest share accused rightly by any test that accuses `wrongly`, a share, of the others."""
    from scipy.optimize import minimize_scalar

    def least(profile: Profile, opposite: Profile) -> float:
        def bound(epsilon: float) -> float:
            if epsilon >= 0:
                return math.exp(epsilon) * wrongly + profile.delta(epsilon)
            return 1 - math.exp(epsilon) * (1 - wrongly - opposite.delta(-epsilon))  # the profile below 0

        sides = [(-_LARGEST, 0.0), (0.0, _LARGEST)]
        return min(1.0, bound(0.0), *(float(minimize_scalar(bound, bounds=side).fun) for side in sides))

    return max(least(one, other) for one, other in zip(directions, reversed(directions), strict=True))


def _gaussian_odds(normal: NormalForm) -> Odds:
    """In closed form; thresholds add to every probability what they add to delta."""
    from scipy.special import ndtr, ndtri

    accused = float(ndtr(ndtri(WRONGLY / 100) + normal.mu)) + normal.thresholds
    right = float(ndtr(normal.mu / 2)) + normal.thresholds / 2
    return _rounded_up(accused, right)


def _composed_odds(normal: NormalForm) -> Odds:
    """On grids of losses, each twice as fine as the one before, until the figures stand still."""
    pieces = [part for parts in normal.directions() for part in parts]
    tail = _TAIL / sum(part.runs for part in pieces)
    width = max(part.width(tail) for part in pieces)
    if width > FARTHEST_LOSS:
        return _NOTHING
    span = max(width, 20 * math.sqrt(sum(part.variance(tail) for part in pieces)))
    points, before = _FIRST_POINTS, (math.inf, math.inf)
    while points <= _MOST_POINTS:
        grid = span / points
        try:
            composed = [compose([part.on_grid(grid, tail) for part in parts], 0.0) for parts in normal.directions()]
        except TooWideError:
            return _NOTHING
        now = _probabilities(composed, normal.thresholds)
        if max(abs(a - b) for a, b in zip(before, now, strict=True)) < _STABLE:
            break
        points, before = 2 * points, now
    return _rounded_up(*now)


def _probabilities(composed: Sequence[Composed], thresholds: float) -> tuple[float, float]:
    # Both directions bound the same distance between the two distributions.
    apart = min(direction.delta(0.0) for direction in composed)
    return accused_at_most(composed, WRONGLY / 100) + thresholds, (1 + apart + thresholds) / 2


def _rounded_up(accused: float, guesses: float) -> Odds:
    return Odds(*(min(100.0, math.ceil(1000 * share) / 10) for share in (accused, guesses)))
