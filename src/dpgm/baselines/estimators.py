"""Baselines for comparisons, fitted and sampled like a `Synthesizer` but without a plan on file or a release.

Each draws its noise through the gateway and has a certificate of the mechanisms that ran.
"""

from dataclasses import dataclass
from typing import Self

import numpy as np
import torch

from dpgm import validation
from dpgm.baselines.independent import INDEPENDENT_STRATEGY
from dpgm.baselines.mwem import MWEM
from dpgm.baselines.rules import BASELINE_RULES, BaselineSettings, MwemSettings
from dpgm.data.domain import Domain
from dpgm.data.records import Records
from dpgm.data.rows import index_dtype
from dpgm.errors import NotFittedError, UsageError
from dpgm.mechanisms.gateway import Gateway
from dpgm.mechanisms.randomness import Randomness, SystemRandomness
from dpgm.privacy.accountant import cost
from dpgm.privacy.calibration import calibrate
from dpgm.privacy.events import Adjacency, Mechanism
from dpgm.strategy.protocol import FitPlan, PublicFacts, RunContext, Strategy
from dpgm.strategy.settings import Config, FamilySettings, Settings, default_delta


@dataclass(frozen=True)
class BaselineCertificate:
    """Epsilon, recomputed from the mechanisms that ran, and the source of the noise."""

    method: str
    epsilon: float
    delta: float
    records: int
    mechanisms: tuple[Mechanism, ...]
    randomness: str
    private: bool
    statements: tuple[str, ...] = ()
    unit: str = "row"
    adjacency: Adjacency = Adjacency.ADD_REMOVE


class _Baseline:
    """Plans and fits a family in one call."""

    method: str
    strategy: Strategy
    statements: tuple[str, ...] = ()

    def __init__(
        self, epsilon: float = 1.0, delta: float | None = None, randomness: Randomness | None = None
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.randomness = randomness

    @property
    def _settings(self) -> FamilySettings:
        return BaselineSettings()

    def fit(self, records: Records) -> Self:
        """Measure and fit; returns self with `generator_` and `certificate_`."""
        validation.positive(epsilon=self.epsilon)
        delta = default_delta(len(records)) if self.delta is None else self.delta
        validation.probability(delta=delta)
        settings, domain = self._settings, _closed_domain(records)
        settings.check()
        refused = self.strategy.refuses(Config(self.epsilon, delta), domain)
        if refused is not None:
            raise UsageError(refused)
        facts = PublicFacts(domain, len(records), self.epsilon, delta)
        mechanisms = calibrate(self.epsilon, delta, self.strategy.budget(facts, settings).spends)
        named = Settings(self.strategy.name, family=settings)
        plan = FitPlan(self.epsilon, self.epsilon, delta, len(records), domain.width, named, mechanisms)
        randomness = self.randomness if self.randomness is not None else SystemRandomness()
        gateway = Gateway(records, randomness=randomness, allowance=mechanisms)
        self.generator_ = self.strategy.fit(gateway, plan, domain, draws=randomness.draws(), context=RunContext())
        self.certificate_ = BaselineCertificate(
            self.method,
            cost(gateway.spent, delta).epsilon,
            delta,
            len(records),
            gateway.spent,
            randomness.name,
            randomness.private,
            self.statements,
        )
        return self

    def sample(self, count: int, *, seed: int | None = None) -> Records:
        """`count` records of the fitted distribution; costs no budget."""
        _check_sampling(self, count)
        generator = torch.Generator()
        if seed is None:
            generator.seed()
        else:
            generator.manual_seed(seed)
        return self.generator_.sample(count, generator=generator)


class IndependentMarginals(_Baseline):
    """Noisy counts of every position, sampled independently (see `baselines.independent`).

    Args:
        epsilon: the privacy budget.
        delta: by default 1 / (10 x number of records).
        randomness: source of noise; the operating system unless a test says otherwise.

    Privacy: (epsilon, delta) per record under add/remove adjacency, with the number of records public.
    """

    method = "independent noisy marginals"
    strategy = INDEPENDENT_STRATEGY


class Mwem(_Baseline):
    """Multiplicative weights with report-noisy-max, over item sets (see `baselines.mwem`).

    Args:
        epsilon: the privacy budget.
        delta: by default 1 / (10 x number of records).
        iterations: rounds of select, measure, update.
        randomness: source of noise; the operating system unless a test says otherwise.

    Privacy: (epsilon, delta) per record under add/remove adjacency, with the number of records public.
    """

    method = "MWEM"
    statements = ("Selection is noisy-max with Gaussian noise.",)
    strategy = MWEM

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float | None = None,
        iterations: int = BASELINE_RULES.iterations,
        randomness: Randomness | None = None,
    ) -> None:
        super().__init__(epsilon, delta, randomness)
        self.iterations = iterations

    @property
    def _settings(self) -> MwemSettings:
        return MwemSettings(iterations=self.iterations)


class AnswerZero:
    """Generates empty records: costs no budget, and is hard to beat on queries whose answers are nearly always 0."""

    def fit(self, records: Records) -> Self:
        """Remember the public domain and number of records."""
        self.domain_ = _closed_domain(records)
        self.certificate_ = BaselineCertificate(
            "answer 0", 0.0, 0.0, len(records), (), "none", True, ("No record was read.",)
        )
        return self

    def sample(self, count: int, *, seed: int | None = None) -> Records:
        """`count` empty records."""
        _check_sampling(self, count)
        indices = np.empty(0, dtype=index_dtype(self.domain_.width))
        return Records(self.domain_, np.zeros(count + 1, dtype=np.int64), indices)


def _closed_domain(records: Records) -> Domain:
    """The domain of the records; open domains are refused, since a baseline has no budget to discover values."""
    if records.domain.is_open:
        raise UsageError(
            "a baseline needs a domain that leaves nothing to discover; state one, or fit with"
            " `Synthesizer(model='independent')`, which discovers it first."
        )
    return records.domain


def _check_sampling(estimator: object, count: int) -> None:
    if not hasattr(estimator, "certificate_"):
        raise NotFittedError(f"this {type(estimator).__name__} is not fitted yet; call fit(records) first.")
    validation.whole(at_least=1, count=count)
