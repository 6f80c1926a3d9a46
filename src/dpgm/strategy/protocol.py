"""The protocol of a generator family: the facts, plan and context it receives, and the methods it must have."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, TypeAlias, TypeGuard

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dpgm.arrays import Mask
from dpgm.data.domain import Domain
from dpgm.data.records import Records
from dpgm.errors import ArtefactError, BudgetError, UsageError
from dpgm.mechanisms.gateway import Gateway
from dpgm.mechanisms.query import Measures
from dpgm.privacy.calibration import Spend, Training, training_mechanisms
from dpgm.privacy.events import Adjacency, Mechanism
from dpgm.strategy.memory_rules import MemoryRules, Sizes
from dpgm.strategy.progress import StageLines
from dpgm.strategy.settings import Config, FamilySettings, Settings, no_settings, refuses_paper

# -- what a family receives ---------------------------------------------------------------------


@dataclass(frozen=True)
class PublicFacts:
    """All that a plan may depend on: the domain (None for a wide item set), the number of records, the budget."""

    domain: Domain | None
    records: int
    epsilon: float
    delta: float
    rows_per_person: int = 1


@dataclass(frozen=True)
class Budget:
    """What a fit pays for: releases on all records, and private SGD with the rest of the budget."""

    spends: tuple[Spend, ...]
    training: Training | None = None

    @property
    def runs(self) -> dict[str, Mechanism]:
        """Every mechanism that such a fit runs, by name; each with noise 1, as the noise is not calibrated yet."""
        steps = () if self.training is None else training_mechanisms(1.0, self.training)
        releases = (Mechanism(spend.name, 1.0, spend.count, delta=spend.delta) for spend in self.spends)
        return {one.name: replace(one, noise=1.0) for one in (*releases, *steps)}


@dataclass(frozen=True)
class FitPlan:
    """The plan as a family sees it: public numbers, and the noise of every mechanism that it pays for.

    The multipliers of `mechanisms` are those of the guarantee: noise relative to the change of a sum by one person.
    With K rows per person that change is K times the one by a record, so that `noise` and `noises`, which are relative
    to one record, are K times larger.
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
        """The public facts that the plan was made from."""
        return PublicFacts(domain, self.records, self.target_epsilon, self.delta, self.rows_per_person)

    def noise(self, name: str) -> float:
        """The noise multiplier of a mechanism, relative to one record."""
        return self.rows_per_person * self.mechanism(name).noise

    def mechanism(self, name: str) -> Mechanism:
        """The mechanism with that name."""
        for mechanism in self.mechanisms:
            if mechanism.name == name:
                return mechanism
        raise UsageError(f"the plan has no mechanism {name!r}.")

    def pays_for(self, name: str) -> bool:
        """Whether the plan has a mechanism; stages without one are skipped."""
        return any(mechanism.name == name for mechanism in self.mechanisms)

    @property
    def noises(self) -> dict[str, float]:
        """The noise multiplier of every mechanism, relative to one record."""
        return {mechanism.name: self.rows_per_person * mechanism.noise for mechanism in self.mechanisms}


# Called with the stage, how much of it is done, and its total: public numbers only.
Progress: TypeAlias = Callable[[str, int, int], None]


def silent(stage: str, done: int, total: int) -> None:
    """Report no progress."""


class SavedProgress(Protocol):
    """The part of a checkpoint that families use."""

    @property
    def lost(self) -> dict[str, int]:
        """Number of releases per mechanism that were charged but whose answer never reached the disk."""

    @property
    def steps_charged(self) -> int:
        """Training steps spent, whether or not their result survived."""

    def trainer_state(self) -> dict[str, Tensor] | None:
        """The trainer's state after the last completed block of steps."""

    def charge(self, name: str, runs: int = 1) -> None:
        """Record runs of a mechanism before they happen."""

    def save_steps(self, steps: int, state: Mapping[str, Tensor]) -> None:
        """Save the trainer after `steps` steps."""


@dataclass(frozen=True)
class RunContext:
    """Settings and tools of a run that cannot alter its guarantee."""

    device: str = "cpu"
    progress: Progress = silent
    checkpoint: SavedProgress | None = None
    public: Records | None = None
    # Noisy sum of every position, if all were discovered privately with the domain: a pilot release of item counts.
    pilot: NDArray[np.float64] | None = None
    memory: int | None = None  # limit in bytes; None for no limit

    def percent(self, stage: str) -> Callable[[float], None]:
        """A progress callback that takes the fraction of a stage that is done."""
        return lambda share: self.progress(stage, round(1000 * share), 1000)

    def runs_left(self, planned: Mapping[str, int]) -> int:
        """Remaining rounds of mechanisms that run together, given the planned number of runs of each.

        Runs that were charged but lost in a crash are subtracted.
        """
        lost = {} if self.checkpoint is None else self.checkpoint.lost
        left = min(count - lost.get(name, 0) for name, count in planned.items())
        if left < 1:
            raise BudgetError(
                f"crashes have used up every run of {next(iter(planned))!r}; start again with a new budget."
            )
        return left


def reporting(progress: Progress | bool) -> Progress:
    """The progress callback for False (silent), True (lines on stderr) or a function."""
    if progress is True:
        return StageLines()
    if progress is False or progress is None:
        return silent
    if not callable(progress):
        raise UsageError("`progress` must be True, False or a function of (stage, done, total).")
    return progress


# -- what a family provides ---------------------------------------------------------------------


Variable: TypeAlias = tuple[str, int]  # (field, -1) for a column, (field, item) for an item
Box: TypeAlias = dict[Variable, Mask]  # allowed outcomes: positions of a column; (absent, present) of an item


class Generator(Protocol):
    """A fitted generator: tensors and a description, computed from noisy values only.

    A generator that draws records independently can inherit the last three methods.
    """

    @property
    def kind(self) -> str:
        """The name of the family it belongs to."""

    @property
    def architecture(self) -> dict[str, Any]:
        """Plain values from which, together with `state`, it can be rebuilt."""

    def state(self) -> dict[str, Tensor]:
        """Its parameters."""

    def sample(self, count: int, *, generator: torch.Generator) -> Records:
        """`count` synthetic records."""

    def conditioned(self, boxes: Sequence[Box]) -> "tuple[Generator | None, float] | None":
        """The generator given that a record is in one of some disjoint boxes, and the probability of that.

        The generator is None if that probability is 0. All is None if it cannot be conditioned without rejection.
        """
        return None

    def samples_whole(self, count: int) -> bool:
        """Whether `count` records must be drawn by one call of `sample`; if not, they are drawn in parts."""
        return False

    def sample_part(self, count: int, phase: float, *, generator: torch.Generator) -> Records:
        """`count` records of a larger sample that is drawn in parts, whose `phase`s are spread over [0, 1)."""
        return self.sample(count, generator=generator)


class Strategy(Protocol):
    """A generator family, from plan to release. Each has a folder; `synthesis/strategies.py` lists them.

    A family without settings that accepts any domain can inherit `refuses`, `settings` and `architecture`.
    """

    @property
    def name(self) -> str:
        """The name of the family, which is also the `kind` of its generators."""

    @property
    def models_order(self) -> bool:
        """Whether it models the order of a sequence; other families are refused where the domain has one."""
        return False

    @property
    def settings_type(self) -> type[FamilySettings]:
        """The class of its settings."""

    @property
    def measures(self) -> Mapping[str, Measures]:
        """Descriptions of all mechanisms that a fit may run, by name."""

    def refuses(self, config: Config, domain: Domain | None) -> str | None:
        """Why the family cannot fit such a request, in one sentence; None if it can."""
        return refuses_paper(config, self.name)

    def settings(self, config: Config, facts: PublicFacts) -> FamilySettings:
        """The settings for a request that is not refused, from public numbers."""
        return no_settings(config)

    def budget(self, facts: PublicFacts, settings: FamilySettings) -> Budget:
        """Which mechanisms a fit runs, and their shares of the budget."""

    def architecture(self, settings: FamilySettings) -> dict[str, Any]:
        """The part of a generator's architecture that follows from the settings."""
        return {}

    def memory(self, plan: FitPlan, sizes: Sizes, domain: Domain | None, rules: MemoryRules) -> float:
        """Bytes that a fit needs besides its rows and the libraries; an overestimate."""

    def expectations(self, plan: FitPlan, domain: Domain) -> tuple[str, ...]:
        """Sentences on what such a fit measures, how well, and what will be lost, from public numbers."""
        return ()

    def fit(
        self, gateway: Gateway, plan: FitPlan, domain: Domain, *, draws: torch.Generator, context: RunContext
    ) -> Generator:
        """Measure and train through the gateway; the result is post-processing of noisy values."""

    def load(
        self,
        architecture: Mapping[str, Any],
        tensors: Mapping[str, Tensor],
        domain: Domain,
        settings: FamilySettings,
    ) -> Generator:
        """A generator from the parts of an untrusted release, and the settings that its certificate states.

        Raises:
            ArtefactError: a part is not valid.
        """


# -- the parts of an untrusted release ----------------------------------------------------------


def is_size(value: object, most: int) -> TypeGuard[int]:
    """Whether a value from an untrusted file is a whole number from 1 to `most`."""
    return isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= most


def check_tensors(
    tensors: Mapping[str, Tensor],
    expected: Mapping[str, tuple[tuple[int, ...], torch.dtype]],
    least: float,
    most: float,
) -> None:
    """Refuse tensors with other names, shapes or types than expected, or with values out of bounds."""
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


SHARES_OFF = 2.0**-10  # a release with shares whose sum is further from 1 is refused


def check_shares(shares: Tensor, tolerance: float = SHARES_OFF) -> None:
    """Refuse numbers that are negative or whose sums along the last axis differ from 1 by more than a tolerance."""
    near_one = (shares.double().sum(-1) - 1).abs() <= tolerance  # false for NaN
    if bool((shares < 0).any()) or not bool(near_one.all()):
        raise ArtefactError("the model holds shares that do not sum to 1; get the release again.")
