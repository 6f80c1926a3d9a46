"""How far off a release will be, from public numbers alone: the whole fit on made-up people, before any data is opened.

The made-up people have the fields of the domain, and their number; the noise is that of the plan. What the fit does not
get right for them it will not get right for real people either: mostly noise, which is the same. Nobody is in it, so it
costs nothing. Errors are root mean squares, in people:

    count         of values and items that at least a hundredth of the people have
    pair          of two values or items together, of all pairs among the most frequent ones
    correlation   of ranks, of all pairs of columns with an order

Of many people fewer are made up, with as much less noise, so that errors keep their share of the people.
"""

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpgm.arrays import Floats, Mask
from dpgm.data.domain import Domain
from dpgm.data.domain_file import DomainLike, as_domain
from dpgm.data.made_up import made_up_people
from dpgm.data.read.frames import read_frame
from dpgm.data.records import Records
from dpgm.errors import PrivacyWarning, UsageError
from dpgm.mechanisms.randomness import SeededRandomness
from dpgm.privacy.calibration import gaussian_mu
from dpgm.strategy.protocol import RunContext
from dpgm.strategy.settings import Config
from dpgm.synthesis.books import Books
from dpgm.synthesis.certified_fit import discover_and_fit
from dpgm.synthesis.plan import Plan, make_plan
from dpgm.synthesis.sampling import Sample
from dpgm.validation import whole

FREQUENT = 0.01  # share of the people that have a value whose count is judged
MOST_FREQUENT = 40  # values and items whose pairs are judged
RELATIVE = 0.1  # a group is visible if its count is off by less than this, 95 of 100 times
_USUAL = 1.96  # standard deviations that 95 of 100 errors stay within
_MADE_UP = 20_000  # people that are enough to make up, unless noise is so small that rounding to people shows
_MOST_MADE_UP = 100_000
_LEAST_NOISE = 4.0  # people: the noise on a count is at least this in what is made up
_ENOUGH, _MOST_FITS = 60, 3  # counts that errors are taken over, and fits for them at most
_MOST_FORECASTS = 4  # steps of a search for an epsilon
_CLOSE = 0.9  # the search ends when the smallest visible group is at least this share of the one asked for
# What a search for an epsilon tries: two digits each; beyond 100 no fit calls itself private.
_EPSILONS = [float(f"{digits}e{power}") for power in range(-3, 1) for digits in range(10, 100)] + [100.0]


@dataclass(frozen=True)
class Errors:
    """Root mean square errors of a release; None where there is nothing of the kind."""

    count: float
    pair: float | None
    correlation: float | None

    def scaled(self, by: float) -> "Errors":
        """The same for more people: errors of counts grow with their number."""
        return replace(self, count=self.count * by, pair=None if self.pair is None else self.pair * by)


@dataclass(frozen=True)
class Forecast:
    """What to expect of a release at one epsilon.

    Attributes:
        epsilon: asked for.
        delta: of the release.
        records: the number of people.
        errors: expected ones.
    """

    epsilon: float
    delta: float
    records: int
    errors: Errors

    @property
    def usual(self) -> float:
        """How far off a count is at most, 95 of 100 times, in people."""
        return _USUAL * self.errors.count

    @property
    def visible(self) -> int:
        """The smallest group whose count is right within a tenth of itself, 95 of 100 times."""
        return math.ceil(self.usual / RELATIVE)

    def at(self, epsilon: float) -> "Forecast":
        """About what to expect at another epsilon, as if errors grew as noise does."""
        grown = gaussian_mu(self.epsilon, self.delta) / gaussian_mu(epsilon, self.delta)
        scaled = self.errors.scaled(grown)
        if scaled.correlation is not None:
            scaled = replace(scaled, correlation=scaled.correlation * grown)
        return replace(self, epsilon=epsilon, errors=scaled)

    def epsilon_for(self, group: int) -> float | None:
        """About the smallest epsilon at which a group is visible, to two digits; None if none is enough."""
        return next((epsilon for epsilon in _EPSILONS if self.at(epsilon).visible <= group), None)

    @property
    def sentences(self) -> tuple[str, ...]:
        """The forecast in words."""
        errors = self.errors
        said = [
            f"A count of a value or item will be within {self.usual:,.0f} people of the truth, 95 of 100 times.",
            f"Groups under about {self.visible:,} people will be off by more than a tenth.",
        ]
        if errors.pair is not None:
            said.append(
                f"A count of two values together will be within about {_USUAL * errors.pair:,.0f} people, where values "
                "go together about as those of the made-up people do."
            )
        if errors.correlation is not None:
            said.append(
                f"A rank correlation of two columns will be right within about {_USUAL * errors.correlation:.2f}."
            )
        return tuple(said)

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> "Forecast":
        """The inverse of `to_json`."""
        return cls(values["epsilon"], values["delta"], values["records"], Errors(**values["errors"]))

    def to_json(self) -> dict[str, Any]:
        """Plain values by name."""
        return asdict(self) | {"usual": self.usual, "visible": self.visible, "sentences": list(self.sentences)}


def forecast(
    config: Config, records: int, domain: DomainLike, *, mean_length: float | None = None, seed: int = 0
) -> Forecast:
    """Fit made-up people as planned, and see how far off the result is; again if few counts can be judged.

    Args:
        config: the request.
        records: the public number of records.
        domain: the public domain.
        mean_length: the public mean number of items of a person, where the domain has items.
        seed: of the made-up people and their noise.
    """
    described = as_domain(domain)
    if described is None:
        raise UsageError("a forecast needs a domain; pass `domain`.")
    plan = make_plan(config, records, described)
    mu = gaussian_mu(plan.epsilon, plan.delta)
    fine = records * _LEAST_NOISE * mu / config.rows_per_person
    people = min(records, max(_MADE_UP, min(round(fine), _MOST_MADE_UP)))
    found: list[Errors] = []
    judged = 0
    while not found or (judged < _ENOUGH and len(found) < _MOST_FITS):
        errors, counts = _errors_of_a_fit(plan, described, people, mean_length, seed + len(found))
        found.append(errors)
        judged += counts
    return Forecast(config.epsilon, plan.delta, records, _together(found).scaled(records / people))


def accurate_enough(
    config: Config, records: int, domain: DomainLike, group: int, *, mean_length: float | None = None, seed: int = 0
) -> Forecast:
    """The forecast at about the smallest epsilon at which a group of this size is visible.

    Each forecast says where to look next; `config.epsilon` is where the search begins.

    Raises:
        UsageError: no epsilon that protects anybody is enough for so few people.
    """
    whole(group=group, at_least=1)
    for _ in range(_MOST_FORECASTS):
        found = forecast(config, records, domain, mean_length=mean_length, seed=seed)
        if group * _CLOSE <= found.visible <= group:
            break
        epsilon = found.epsilon_for(group)
        if epsilon is None:
            raise UsageError(
                f"no epsilon up to {_EPSILONS[-1]:g} makes a group of {group:,} of {records:,} people visible; "
                "ask for a larger group."
            )
        if epsilon == config.epsilon:
            break
        config = replace(config, epsilon=epsilon)
    return found


def _errors_of_a_fit(
    plan: Plan, domain: Domain, people: int, mean_length: float | None, seed: int
) -> tuple[Errors, int]:
    """The errors of one fit of made-up people, and how many counts they are made of."""
    table = made_up_people(domain, people, seed=seed, mean_length=mean_length)
    randomness = SeededRandomness(seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyWarning)  # about columns that are named like identifiers
        real = read_frame(table, domain.declared_public()).records
        with Books.open(_with_fewer(plan, people), real) as books:
            gateway = books.gateway(randomness)
            fitted = discover_and_fit(gateway, books, _with_fewer(plan, people), real.domain, RunContext())
        known = real if fitted.domain == real.domain else read_frame(table, fitted.domain).records
    synthetic = Sample(fitted.generator, fitted.domain, people, seed=seed).records()
    return errors_of(known, synthetic), int(_judged(known).sum())


def _with_fewer(plan: Plan, people: int) -> Plan:
    """The plan for fewer people, with as much less noise; it protects nobody, and nobody is there."""
    share = people / plan.records
    mechanisms = tuple(replace(one, noise=one.noise * share) for one in plan.mechanisms)
    return replace(plan, records=people, mechanisms=mechanisms)


def _together(found: Sequence[Errors]) -> Errors:
    """Root mean squares over several fits."""
    together = {
        name: _rms(np.array([getattr(one, name) for one in found], dtype=np.float64))
        for name, value in asdict(found[0]).items()
        if value is not None
    }
    return replace(found[0], **together)


def errors_of(real: Records, synthetic: Records) -> Errors:
    """How far off synthetic records are, both of one closed domain; for the curator alone where people are real."""
    first, second = (one.to_scipy().astype(np.float64) for one in (real, synthetic))
    scale = len(real) / len(synthetic)
    counts, drawn = np.asarray(first.sum(axis=0)).ravel(), np.asarray(second.sum(axis=0)).ravel() * scale
    judged = _judged(real)
    popular = np.argsort(-np.where(judged, counts, 0.0), kind="stable")[: min(MOST_FREQUENT, int(judged.sum()))]
    pairs = (first[:, popular].T @ first[:, popular]).toarray() - scale * (
        second[:, popular].T @ second[:, popular]
    ).toarray()
    owner = real.domain.column_of[popular]
    apart = np.triu(owner[:, None] != owner[None, :], 1)
    return Errors(
        _rms((drawn - counts)[judged]),
        _rms(np.asarray(pairs)[apart]) if apart.any() else None,
        _correlation_error(real, synthetic),
    )


def _judged(real: Records) -> Mask:
    """Values and items that at least a hundredth of the people have, and not nearly all; or the most frequent one."""
    shares = np.bincount(real.indices, minlength=real.width) / len(real)
    usual: Mask = (shares >= FREQUENT) & (shares <= 1 - FREQUENT)
    return usual if usual.any() else shares == shares.max()


def _correlation_error(real: Records, synthetic: Records) -> float | None:
    ranks = [[_ranks(records, at) for at in _ordered(records.domain)] for records in (real, synthetic)]
    if len(ranks[0]) < 2:
        return None
    first, second = (np.array([each - each.mean() for each in one]) for one in ranks)
    differences = [
        _correlation(first[i], first[j]) - _correlation(second[i], second[j])
        for i, j in combinations(range(len(first)), 2)
    ]
    return _rms(np.array(differences))


def _correlation(one: Floats, other: Floats) -> float:
    spread = math.sqrt(float(one @ one) * float(other @ other))
    return float(one @ other) / spread if spread else 0.0


def _ordered(domain: Domain) -> list[int]:
    """Columns whose values have an order, and not all the same."""
    return [
        at for at, field in enumerate(domain.fields) if not field.is_set and field.position_ranges() is not None
    ]


def _ranks(records: Records, column: int) -> Floats:
    block = records.domain.blocks[column]
    codes = np.asarray(records.to_scipy()[:, block.start : block.stop].argmax(axis=1)).ravel()
    counts = np.bincount(codes)
    middle: Floats = np.cumsum(counts) - counts / 2
    return middle[codes]


def _rms(errors: NDArray[Any]) -> float:
    return float(np.sqrt(np.mean(np.square(errors))))
