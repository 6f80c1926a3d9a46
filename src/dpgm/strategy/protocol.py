"""What a family of generators must answer: the protocol that plans, fits and releases go through."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor

from dpgm.data.domain import Domain
from dpgm.mechanisms.gateway import Gateway
from dpgm.mechanisms.query import Measures
from dpgm.privacy.calibration import Spend, Training, training_mechanisms
from dpgm.privacy.events import Mechanism
from dpgm.strategy.config import Config
from dpgm.strategy.context import RunContext
from dpgm.strategy.generator import Generator
from dpgm.strategy.settings import FamilySettings, Settings


@dataclass(frozen=True)
class PublicFacts:
    """All that a plan may depend on: the domain (None: a wide item set), the numbers of records, the budget."""

    domain: Domain | None
    records: int
    epsilon: float
    delta: float
    rows_per_person: int = 1


@dataclass(frozen=True)
class Run:
    """How a mechanism is run, whatever its noise: how often, on which sample, with which delta of a threshold."""

    count: int
    sampling_rate: float = 1.0
    sample: str | None = None
    delta: float = 0.0

    @classmethod
    def of(cls, mechanism: Mechanism) -> "Run":
        """How a mechanism of a plan or certificate is run."""
        return cls(mechanism.count, mechanism.sampling_rate, mechanism.sample, mechanism.delta)


@dataclass(frozen=True)
class Budget:
    """What a fit pays for: releases on all records, and the private SGD that gets what they leave."""

    spends: tuple[Spend, ...]
    training: Training | None = None

    @property
    def runs(self) -> dict[str, Run]:
        """Every mechanism that such a fit runs, by name."""
        runs = {spend.name: Run(spend.count, delta=spend.delta) for spend in self.spends}
        if self.training is not None:
            runs |= {step.name: Run.of(step) for step in training_mechanisms(1.0, self.training)}
        return runs


class FitPlan(Protocol):
    """What a fit sees of its plan."""

    @property
    def records(self) -> int:
        """The public number of records."""
        ...

    @property
    def settings(self) -> Settings:
        """The public numbers that steer the fit."""
        ...

    @property
    def rows_per_person(self) -> int:
        """Records that a person has at most."""
        ...

    @property
    def noises(self) -> dict[str, float]:
        """Noise multiplier of every mechanism the plan pays for: noise over the sensitivity to one record."""
        ...

    def noise(self, name: str) -> float:
        """Noise multiplier of a mechanism, in the same way."""
        ...

    def mechanism(self, name: str) -> Mechanism:
        """The mechanism of that name."""
        ...

    def pays_for(self, name: str) -> bool:
        """Whether a mechanism is part of the plan; stages a plan does not pay for do not run."""
        ...


class Strategy(Protocol):
    """A family of generators, from plan to release. One folder each; `synthesis/strategies.py` lists them."""

    @property
    def name(self) -> str:
        """The name of the family, which is also the `kind` of its generators."""
        ...

    @property
    def settings_type(self) -> type[FamilySettings]:
        """The class of its settings."""
        ...

    @property
    def measures(self) -> Mapping[str, Measures]:
        """Every mechanism that a fit may run, in words."""
        ...

    def refuses(self, config: Config, domain: Domain | None) -> str | None:
        """Why it cannot fit such a request, in one sentence; None if it can."""
        ...

    def settings(self, config: Config, facts: PublicFacts) -> FamilySettings:
        """Its settings for a request it does not refuse, from public numbers."""
        ...

    def budget(self, facts: PublicFacts, settings: FamilySettings) -> Budget:
        """Which mechanisms a fit runs, and their shares of the budget."""
        ...

    def architecture(self, settings: FamilySettings) -> dict[str, Any]:
        """What the settings fix of the architecture of a fitted generator."""
        ...

    def memory(self, facts: PublicFacts, settings: FamilySettings) -> int:
        """Bytes that a fit needs beyond the records themselves; deliberately generous."""
        ...

    def fit(
        self, gateway: Gateway, plan: FitPlan, domain: Domain, *, draws: torch.Generator, context: RunContext
    ) -> Generator:
        """Measure and train behind the gateway; what it returns is post-processing of noisy values."""
        ...

    def load(self, architecture: Mapping[str, Any], tensors: Mapping[str, Tensor], domain: Domain) -> Generator:
        """A generator from the parts of an untrusted release; raises ArtefactError unless every part is sound."""
        ...
