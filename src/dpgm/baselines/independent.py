"""Independent noisy marginals: noisy counts of all items (or values), which are sampled independently.

A small share of the budget is spent on a noisy histogram of record lengths. Its 99th percentile is the bound on the
length: longer records are down-weighted, so that the counts have sensitivity sqrt(bound). Tables need no bound, since a
row has one value per column.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dpgm.baselines.rules import BaselineSettings, baseline_rules
from dpgm.data.domain import Domain
from dpgm.data.records import Records, concatenate
from dpgm.errors import ArtefactError
from dpgm.mechanisms.gateway import Gateway
from dpgm.privacy.calibration import Spend
from dpgm.products.model import Products
from dpgm.products.rules import SAMPLING_RULES, SamplingRules
from dpgm.statistics.item_counts import ITEMS, ItemCounts
from dpgm.statistics.record_lengths import LENGTHS, RecordLengths
from dpgm.statistics.statistic import plan_descriptions
from dpgm.strategy.memory_rules import MemoryRules, Sizes
from dpgm.strategy.protocol import (
    Box,
    Budget,
    FitPlan,
    Generator,
    PublicFacts,
    RunContext,
    Strategy,
    check_shares,
    check_tensors,
)
from dpgm.strategy.settings import Config, FamilySettings, no_settings

CHUNK_CELLS = 2**24


@dataclass(frozen=True, eq=False)
class IndependentItems(Generator):
    """The probability of every position; items are independent, a table column takes one value."""

    kind: ClassVar[str] = "independent"

    domain: Domain
    probabilities: Tensor  # (m,) float64; those of a table column sum to 1
    sampling: SamplingRules = SAMPLING_RULES  # of samples that meet a condition

    @property
    def architecture(self) -> dict[str, Any]:
        """Only the kind; the domain determines the shape."""
        return {"kind": self.kind}

    def state(self) -> dict[str, Tensor]:
        """The probabilities."""
        return {"probabilities": self.probabilities}

    def conditioned(self, boxes: Sequence[Box]) -> tuple[Products | None, float] | None:
        """The same distribution as a mixture of one component, given a union of disjoint boxes."""
        return Products(self.domain, torch.ones(1), self.probabilities[None], self.sampling).conditioned(boxes)

    def sample(self, count: int, *, generator: torch.Generator) -> Records:
        """`count` records whose items are independent and whose columns take one value each."""
        chances = self.probabilities.float()

        def draw(size: int) -> NDArray[np.bool_]:
            present = torch.rand(size, self.domain.width, generator=generator) < chances
            for column in self.domain.table_columns:
                own = chances[column].double()
                drawn = torch.multinomial(own, size, replacement=True, generator=generator)
                present[:, column] = torch.nn.functional.one_hot(drawn, len(own)).bool()
            return present.numpy()

        return in_chunks(self.domain, count, draw)


def in_chunks(domain: Domain, count: int, draw: Callable[[int], NDArray[np.bool_]]) -> Records:
    """`count` records from dense chunks (records, positions); `draw` takes the number of records of a chunk."""
    rows = max(1, CHUNK_CELLS // max(1, domain.width))
    parts = (draw(min(rows, count - start)) for start in range(0, count, rows))
    return concatenate([Records.from_lists([], domain), *(Records.from_dense(part, domain) for part in parts)])


class IndependentStrategy(Strategy):
    """Independent noisy marginals as a family."""

    name = IndependentItems.kind
    settings_type = BaselineSettings
    measures = plan_descriptions(RecordLengths.words, ItemCounts.words)

    def settings(self, config: Config, facts: PublicFacts) -> FamilySettings:
        """The tuned numbers; a request changes none of them."""
        no_settings(config)
        return BaselineSettings()

    def budget(self, facts: PublicFacts, settings: FamilySettings) -> Budget:
        """A small share for lengths, unless the domain is a table; the rest for the counts."""
        if facts.domain is not None and facts.domain.is_table:
            return Budget((Spend(ITEMS, 1.0),))
        lengths = baseline_rules(settings).lengths
        return Budget((Spend(LENGTHS, lengths), Spend(ITEMS, 1 - lengths)))

    def memory(self, plan: FitPlan, sizes: Sizes, domain: Domain | None, rules: MemoryRules) -> float:
        """A few numbers per position."""
        return rules.baseline_position * sizes.width

    def fit(
        self, gateway: Gateway, plan: FitPlan, domain: Domain, *, draws: torch.Generator, context: RunContext
    ) -> IndependentItems:
        """Release lengths and counts; the noisy shares of the records are the probabilities."""
        rules = baseline_rules(plan.settings.family)
        context.progress("measure", 0, 1)
        cap = len(domain.table_columns)
        if plan.pays_for(LENGTHS):
            cap += quantile(noisy_lengths(gateway, domain, plan.noise(LENGTHS)), rules.covered)
        statistic = ItemCounts(domain, min(cap, domain.width))
        noisy = gateway.release(ITEMS, statistic.query(), plan.noise(ITEMS))
        context.progress("measure", 1, 1)
        shares = _probabilities(domain, noisy.numpy() / max(1, plan.records))
        return IndependentItems(domain, torch.from_numpy(shares), rules.sampling)

    def load(
        self,
        architecture: Mapping[str, Any],
        tensors: Mapping[str, Tensor],
        domain: Domain,
        settings: FamilySettings,
    ) -> IndependentItems:
        """The generator from an untrusted release."""
        if dict(architecture) != {"kind": self.name}:
            raise ArtefactError("the release does not hold independent marginals; get it again.")
        check_tensors(tensors, {"probabilities": ((domain.width,), torch.float64)}, 0, 1)
        for column in domain.table_columns:
            check_shares(tensors["probabilities"][column], 1e-6)
        return IndependentItems(domain, tensors["probabilities"], baseline_rules(settings).sampling)


def _probabilities(domain: Domain, shares: NDArray[np.float64]) -> NDArray[np.float64]:
    shares = np.clip(shares, 0.0, 1.0)
    for column in domain.table_columns:
        total = shares[column].sum()
        shares[column] = shares[column] / total if total > 0 else 1 / len(shares[column])
    return shares


INDEPENDENT_STRATEGY = IndependentStrategy()


def noisy_lengths(gateway: Gateway, domain: Domain, noise: float) -> NDArray[np.float64]:
    """A noisy histogram of the number of items per record; bins below the noise are set to 0.

    Privacy: one Gaussian release of multiplier `noise`; a record changes one bin by 1.
    """
    statistic = RecordLengths(domain)
    noisy = gateway.release(LENGTHS, statistic.query(), noise).numpy().astype(np.float64)
    # Without the threshold hundreds of empty bins would add up to a long tail that does not exist.
    threshold = noise * math.sqrt(2 * math.log(max(2, len(noisy))))
    return np.where(noisy > threshold, noisy, 0.0)


def quantile(histogram: NDArray[np.float64], share: float) -> int:
    """The smallest length, at least 1, that `share` of the records do not exceed."""
    total = histogram.sum()
    if total <= 0:
        return 1
    return max(1, int(np.searchsorted(np.cumsum(histogram) / total, share - 1e-12)))


def average(histogram: NDArray[np.float64]) -> float:
    """The mean length; 1 if all bins are 0."""
    total = histogram.sum()
    return float(histogram @ np.arange(len(histogram)) / total) if total > 0 else 1.0
