"""The seam between a fit and the families of generators: what a family is told, and what it must answer."""

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol, TypeAlias, TypeGuard

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dpgm.data.domain import Domain
from dpgm.data.records import Records
from dpgm.errors import ArtefactError, BudgetError, UsageError
from dpgm.mechanisms.gateway import Gateway
from dpgm.mechanisms.query import Measures
from dpgm.privacy.calibration import Spend, Training, training_mechanisms
from dpgm.privacy.events import Adjacency, Mechanism
from dpgm.strategy.rules import CostRules, Sizes, Work
from dpgm.strategy.settings import Config, FamilySettings, Settings, no_settings, refuses_paper

# -- what a family is told ----------------------------------------------------------------------


@dataclass(frozen=True)
class PublicFacts:
    """All that a plan may depend on: the domain (None: a wide item set), the numbers of records, the budget."""

    domain: Domain | None
    records: int
    epsilon: float
    delta: float
    rows_per_person: int = 1


@dataclass(frozen=True)
class Budget:
    """What a fit pays for: releases on all records, and the private SGD that gets what they leave."""

    spends: tuple[Spend, ...]
    training: Training | None = None

    @property
    def runs(self) -> dict[str, Mechanism]:
        """Every mechanism that such a fit runs, by name; each with the noise 1, since that is not settled here."""
        steps = () if self.training is None else training_mechanisms(1.0, self.training)
        releases = (Mechanism(spend.name, 1.0, spend.count, delta=spend.delta) for spend in self.spends)
        return {one.name: replace(one, noise=1.0) for one in (*releases, *steps)}


@dataclass(frozen=True)
class FitPlan:
    """What a fit sees of its plan: public numbers, and the noise of every mechanism it pays for.

    The multipliers of `mechanisms` are those of the guarantee: noise over what one person can move a sum by. With K
    rows per person that is K times what one record can, so that `noise` and `noises`, which are for one record, are K
    times larger.
    """

    target_epsilon: float
    epsilon: float
    delta: float
    records: int
    width: int | None
    settings: Settings
    mechanisms: tuple[Mechanism, ...]
    adjacency: Adjacency = Adjacency.ADD_REMOVE
    rows_per_person: int = 1

    def facts(self, domain: Domain | None) -> PublicFacts:
        """What the plan was made from, with the domain it was made for."""
        return PublicFacts(domain, self.records, self.target_epsilon, self.delta, self.rows_per_person)

    def noise(self, name: str) -> float:
        """The multiplier of a mechanism of this plan, for one record."""
        return self.rows_per_person * self.mechanism(name).noise

    def mechanism(self, name: str) -> Mechanism:
        """The mechanism of that name."""
        for mechanism in self.mechanisms:
            if mechanism.name == name:
                return mechanism
        raise UsageError(f"the plan has no mechanism {name!r}.")

    def pays_for(self, name: str) -> bool:
        """Whether a mechanism is part of this plan; stages a plan does not pay for do not run."""
        return any(mechanism.name == name for mechanism in self.mechanisms)

    @property
    def noises(self) -> dict[str, float]:
        """Multiplier of every mechanism, for one record."""
        return {mechanism.name: self.rows_per_person * mechanism.noise for mechanism in self.mechanisms}


# Called with the stage, how much of it is done and how much there is in all: public numbers only.
Progress: TypeAlias = Callable[[str, int, int], None]


def silent(stage: str, done: int, total: int) -> None:
    """Say nothing."""


class SavedProgress(Protocol):
    """What a family may ask of the checkpoint of its fit."""

    @property
    def lost(self) -> dict[str, int]:
        """Releases that were charged but whose answer never reached the disk."""

    @property
    def steps_charged(self) -> int:
        """Training steps spent, whether or not their result survived."""

    def trainer_state(self) -> dict[str, Tensor] | None:
        """The state of the last completed block of steps."""

    def charge(self, name: str, runs: int = 1) -> None:
        """Write down a spending before it happens."""

    def save_steps(self, steps: int, state: Mapping[str, Tensor]) -> None:
        """Save the trainer after `steps` steps."""


@dataclass(frozen=True)
class RunContext:
    """What a fit may use that cannot alter its guarantee."""

    device: str = "cpu"
    progress: Progress = silent
    checkpoint: SavedProgress | None = None
    public: Records | None = None
    # Of every position, the noisy sum that was released with it while the domain was discovered; None if any has none.
    pilot: NDArray[np.float64] | None = None
    # Bytes that the process should keep to; None: all there is.
    memory: int | None = None

    def percent(self, stage: str) -> Callable[[float], None]:
        """A callback for the share of a stage that is done."""
        return lambda share: self.progress(stage, round(1000 * share), 1000)

    def runs_left(self, planned: Mapping[str, int]) -> int:
        """Rounds that can still be made of mechanisms that run together, given how often each is planned.

        Runs that were charged but lost in a crash come out of the planned ones.
        """
        lost = {} if self.checkpoint is None else self.checkpoint.lost
        left = min(count - lost.get(name, 0) for name, count in planned.items())
        if left < 1:
            raise BudgetError(
                f"crashes have used up every run of {next(iter(planned))!r}; start again with a new budget."
            )
        return left


def reporting(progress: Progress | bool) -> Progress:
    """A progress callback: nothing, a line on stderr as each stage begins, or the caller's own."""
    if progress is True:
        return _Stages()
    if progress is False or progress is None:
        return silent
    if not callable(progress):
        raise UsageError("`progress` must be True, False or a function of (stage, done, total).")
    return progress


class _Stages:
    """One line per stage."""

    def __init__(self) -> None:
        self._begun: set[str] = set()

    def __call__(self, stage: str, done: int, total: int) -> None:
        if stage not in self._begun:
            self._begun.add(stage)
            sys.stderr.write(f"dpgm: {stage} ...\n")


# -- what it must answer ------------------------------------------------------------------------


class ProductMixture(Protocol):
    """A mixture of components whose items and table columns are independent."""

    @property
    def domain(self) -> Domain:
        """The public domain."""

    @property
    def components(self) -> int:
        """Their number k."""

    @property
    def weights(self) -> Tensor:
        """(k,) shares of the components."""

    @property
    def probabilities(self) -> Tensor:
        """(k, m) probability of every position in every component."""


class Generator(Protocol):
    """A fitted generator: plain tensors and a description; it has never heard of the rows.

    One that draws every record by itself may inherit how larger samples are drawn.
    """

    @property
    def kind(self) -> str:
        """The name of the family it belongs to."""

    @property
    def architecture(self) -> dict[str, Any]:
        """Plain values from which, with `state`, it can be rebuilt."""

    def state(self) -> dict[str, Tensor]:
        """Its parameters."""

    def sample(self, count: int, *, generator: torch.Generator) -> Records:
        """`count` synthetic records."""

    def as_products(self) -> ProductMixture | None:
        """The mixture of products that it is, if it is one: such a mixture can be conditioned exactly."""
        return None

    def samples_whole(self, count: int) -> bool:
        """Whether `sample` arranges `count` records as a whole; if not, larger samples are drawn in parts."""
        return False

    def sample_part(self, count: int, phase: float, *, generator: torch.Generator) -> Records:
        """`count` records of a larger sample that is drawn in parts; `phase`s are spread evenly over [0, 1)."""
        return self.sample(count, generator=generator)


class Strategy(Protocol):
    """A family of generators, from plan to release. One folder each; `synthesis/strategies.py` lists them.

    One without settings, for any domain, may inherit what it says of them.
    """

    @property
    def name(self) -> str:
        """The name of the family, which is also the `kind` of its generators."""

    @property
    def settings_type(self) -> type[FamilySettings]:
        """The class of its settings."""

    @property
    def measures(self) -> Mapping[str, Measures]:
        """Every mechanism that a fit may run, in words."""

    def refuses(self, config: Config, domain: Domain | None) -> str | None:
        """Why it cannot fit such a request, in one sentence; None if it can."""
        return refuses_paper(config, self.name)

    def settings(self, config: Config, facts: PublicFacts) -> FamilySettings:
        """Its settings for a request it does not refuse, from public numbers."""
        return no_settings(config)

    def budget(self, facts: PublicFacts, settings: FamilySettings) -> Budget:
        """Which mechanisms a fit runs, and their shares of the budget."""

    def architecture(self, settings: FamilySettings) -> dict[str, Any]:
        """What the settings fix of the architecture of a fitted generator."""
        return {}

    def work(self, plan: FitPlan, sizes: Sizes, domain: Domain | None, costs: CostRules) -> Work:
        """What a fit costs in time and memory beyond what all fits do: generous, for the estimate before it."""

    def fit(
        self, gateway: Gateway, plan: FitPlan, domain: Domain, *, draws: torch.Generator, context: RunContext
    ) -> Generator:
        """Measure and train behind the gateway; what it returns is post-processing of noisy values."""

    def load(self, architecture: Mapping[str, Any], tensors: Mapping[str, Tensor], domain: Domain) -> Generator:
        """A generator from the parts of an untrusted release; raises ArtefactError unless every part is sound."""


# -- the parts of an untrusted release ----------------------------------------------------------


def is_size(value: object, most: int) -> TypeGuard[int]:
    """Whether a value of an untrusted file can be a size."""
    return isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= most


def check_tensors(
    tensors: Mapping[str, Tensor],
    expected: Mapping[str, tuple[tuple[int, ...], torch.dtype]],
    least: float,
    most: float,
) -> None:
    """Refuse tensors of other names, shapes or types than expected, or with a value out of bounds."""
    if set(tensors) != set(expected):
        raise ArtefactError("the model has missing or unknown tensors; get the release again.")
    for name, (shape, dtype) in expected.items():
        tensor = tensors[name]
        if tuple(tensor.shape) != shape or tensor.dtype != dtype:
            raise ArtefactError(f"the tensor {name!r} has another shape or type; get the release again.")
        if not bool(((tensor >= least) & (tensor <= most)).all()):  # false for NaN too
            raise ArtefactError(
                f"the tensor {name!r} holds values outside [{least:g}, {most:g}]; get the release again."
            )


def check_shares(shares: Tensor, off: float) -> None:
    """Refuse numbers that are not shares, along the last axis; their sum may miss 1 by `off`."""
    if bool((shares < 0).any()) or bool(((shares.double().sum(-1) - 1).abs() > off).any()):
        raise ArtefactError("the model holds shares that do not sum to 1; get the release again.")
