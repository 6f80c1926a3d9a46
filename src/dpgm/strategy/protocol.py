"""What a family of generators and what it fits must answer: the protocols that plans, fits and releases go through."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor

from dpgm.data.domain import Domain
from dpgm.data.records import Records, index_dtype
from dpgm.mechanisms.gateway import Gateway
from dpgm.mechanisms.query import Measures
from dpgm.privacy.calibration import Spend, Training, training_mechanisms
from dpgm.privacy.events import Mechanism
from dpgm.statistics.fourier_features import expected_profile
from dpgm.strategy.config import Config
from dpgm.strategy.context import RunContext
from dpgm.strategy.rules import CostRules
from dpgm.strategy.settings import FamilySettings, Settings


class ProductMixture(Protocol):
    """A mixture of components whose items and table columns are independent."""

    @property
    def domain(self) -> Domain:
        """The public domain."""
        ...

    @property
    def components(self) -> int:
        """Their number k."""
        ...

    @property
    def weights(self) -> Tensor:
        """(k,) shares of the components."""
        ...

    @property
    def probabilities(self) -> Tensor:
        """(k, m) probability of every position in every component."""
        ...


class Generator(Protocol):
    """A fitted generator: plain tensors and a description; it has never heard of the rows."""

    @property
    def kind(self) -> str:
        """The name of the family it belongs to."""
        ...

    @property
    def architecture(self) -> dict[str, Any]:
        """Plain values from which, with `state`, it can be rebuilt."""
        ...

    def state(self) -> dict[str, Tensor]:
        """Its parameters."""
        ...

    def sample(self, count: int, *, generator: torch.Generator) -> Records:
        """`count` synthetic records."""
        ...

    def as_products(self) -> ProductMixture | None:
        """The mixture of products that it is, if it is one: such a mixture can be conditioned exactly."""
        ...

    def samples_whole(self, count: int) -> bool:
        """Whether `sample` arranges `count` records as a whole; if not, larger samples are drawn in parts."""
        ...

    def sample_part(self, count: int, phase: float, *, generator: torch.Generator) -> Records:
        """`count` records of a larger sample that is drawn in parts; `phase`s are spread evenly over [0, 1)."""
        ...


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


@dataclass(frozen=True)
class Sizes:
    """The public sizes of a fit: records of one process, positions, guessed items per record."""

    records: float
    width: int
    items: float

    @classmethod
    def of(cls, records: int, domain: Domain, processes: int = 1) -> "Sizes":
        """Those of so many records over a domain, shared by some processes."""
        return cls(records / processes, domain.width, float(expected_profile(domain).sum()))

    @property
    def row_bytes(self) -> float:
        """Of all rows in memory: 8 per record and 2 or 4 per item."""
        return self.records * (8 + self.items * index_dtype(self.width)().itemsize)


@dataclass(frozen=True)
class Work:
    """What a family adds to what all fits cost: seconds on the reference machine, bytes beside the rows."""

    seconds: float
    memory: float = 0.0


def counting_seconds(sizes: Sizes, costs: CostRules) -> float:
    """Of statistics of item sets and tables, and of choosing their bounds."""
    return costs.bounds + sizes.records * (costs.counted_record + costs.counted_item * sizes.items)


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

    def work(self, plan: FitPlan, sizes: Sizes, domain: Domain | None, costs: CostRules) -> Work:
        """What a fit costs in time and memory beyond what all fits do, for the estimate before it."""
        ...

    def fit(
        self, gateway: Gateway, plan: FitPlan, domain: Domain, *, draws: torch.Generator, context: RunContext
    ) -> Generator:
        """Measure and train behind the gateway; what it returns is post-processing of noisy values."""
        ...

    def load(self, architecture: Mapping[str, Any], tensors: Mapping[str, Tensor], domain: Domain) -> Generator:
        """A generator from the parts of an untrusted release; raises ArtefactError unless every part is sound."""
        ...
