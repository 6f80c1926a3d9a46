"""A tilted mixture of trees: what is released, and how samples are drawn from it.

A pool of records is drawn from the mixture, and each is weighted by exp(theta . f(x)), where f(x) is what the record
would add to the measured sums. Records of a sample are taken from the pool in proportion to their weights. For a sample
that is not too large the weights of its pool are adjusted until the pool has the same sums as that of the fit, so that
chance errors of measured sums do not add to those of the noise.

Given a condition, the pool is drawn from the mixture restricted to it, which is exact; weights follow.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from dpgm.data.domain import Domain
from dpgm.data.records import Records
from dpgm.statistics.coded_rows import Coding
from dpgm.statistics.column_counts import ColumnCounts
from dpgm.strategy.protocol import Box
from dpgm.tilting.rules import TiltRules
from dpgm.tilting.tilt import Released, tilt
from dpgm.trees.forest import Forest
from dpgm.trees.rounding import choose_rows
from dpgm.trees.rules import TreeSamplingRules
from dpgm.trees.state import forest_tensors, read_parts, tilted_tensors
from dpgm.trees.tilted import RowPool, TiltedSums


class Trees:
    """The mixture, the tilt of its records, and the logarithm of their mean weight.

    Args:
        forest: the mixture.
        tilted: all statistics with their parameters.
        records: the number of records that was fitted.
        log_mean: the logarithm of the mean of exp(theta . f(x)) over the mixture.
        sampling: how samples are drawn.
        restricted: whether the mixture was restricted, so that sums are not those of the fit.
    """

    kind = "trees"

    def __init__(
        self,
        forest: Forest,
        tilted: Sequence[TiltedSums],
        records: int,
        log_mean: float,
        sampling: TreeSamplingRules,
        *,
        restricted: bool = False,
    ) -> None:
        self.forest, self.tilted, self.records = forest, tuple(tilted), records
        self.log_mean, self.sampling, self._restricted = log_mean, sampling, restricted

    @property
    def domain(self) -> Domain:
        """The public domain."""
        return self.forest.domain

    @property
    def coding(self) -> Coding:
        """How records become codes."""
        columns = self.tilted[0].statistic
        assert isinstance(columns, ColumnCounts)
        return columns.coding

    # -- sampling --------------------------------------------------------------------------------------------------

    def samples_whole(self, count: int) -> bool:
        """Whether the pool of `count` records is weighted as a whole."""
        return count <= self.sampling.whole

    def sample(self, count: int, *, generator: torch.Generator) -> Records:
        """`count` records whose measured sums are near those of the fit."""
        return self._drawn(count, generator, adjust=self.samples_whole(count) and not self._restricted)

    def sample_part(self, count: int, phase: float, *, generator: torch.Generator) -> Records:
        """`count` records of a larger sample, over which the chance errors of its parts cancel."""
        return self._drawn(count, generator, adjust=False)

    def _drawn(self, count: int, generator: torch.Generator, *, adjust: bool) -> Records:
        rng = np.random.default_rng(int(torch.randint(2**62, (1,), generator=generator)))
        if count == 0:
            return self.forest.draw(0, rng)
        pool = self.forest.draw(max(self.sampling.least, round(self.sampling.per_record * count)), rng)
        found = RowPool(self.coding, pool)
        log_weights = self._adjusted(found) if adjust else self.energies(found)
        weights = log_weights.numpy()
        rows = choose_rows(found.codes, self.coding.sizes, self.forest.order, weights, count, rng, self.sampling)
        return pool.take(rows)

    def energies(self, pool: RowPool) -> Tensor:
        """(n,): theta . f(x) of every record."""
        total = torch.zeros(len(pool.records), dtype=torch.float64)
        for one in self.tilted:
            total += pool.features(one.statistic).energies(one.parameters)
        return total

    def _adjusted(self, pool: RowPool) -> Tensor:
        """Energies by which the pool has the sums of the fit."""
        features = [pool.features(one.statistic) for one in self.tilted]
        base = torch.zeros(len(pool.records), dtype=torch.float64)
        for one, own in zip(self.tilted, features, strict=True):
            base += own.energies(one.parameters)
        released = [
            Released(own, one.sums, one.std, one.ridge) for one, own in zip(self.tilted, features, strict=True)
        ]
        rules = TiltRules(iterations=self.sampling.iterations, matched=self.sampling.matched)
        return tilt(released, base, self.records, rules).log_weights

    # -- conditioning ----------------------------------------------------------------------------------------------

    def conditioned(self, boxes: Sequence[Box]) -> "tuple[Trees | None, float] | None":
        """The mixture restricted to a union of disjoint boxes, with the same tilt.

        The probability is estimated by the weights of a pool.
        """
        found = self.forest.conditioned(boxes, self.sampling.most_numbers)
        if found is None:
            return None
        forest, chance = found
        if forest is None:
            return None, 0.0
        made = Trees(forest, self.tilted, self.records, self.log_mean, self.sampling, restricted=True)
        drawn = forest.draw(self.sampling.chance_rows, np.random.default_rng(0))
        energies = self.energies(RowPool(self.coding, drawn))
        inside = float(torch.logsumexp(energies, 0)) - np.log(len(drawn))
        return made, float(min(1.0, chance * np.exp(inside - self.log_mean)))

    # -- the release -----------------------------------------------------------------------------------------------

    @property
    def architecture(self) -> dict[str, Any]:
        """Plain values that `from_state` needs besides the tensors and the domain."""
        names = [one.statistic.name for one in self.tilted]
        components = self.forest.components
        return {"kind": self.kind, "components": components, "records": self.records, "statistics": names}

    def state(self) -> dict[str, Tensor]:
        """All parameters by name."""
        tensors = forest_tensors(self.forest) | {
            "log mean weight": torch.tensor([self.log_mean], dtype=torch.float64)
        }
        for one in self.tilted:
            tensors |= tilted_tensors(one)
        return tensors

    @classmethod
    def from_state(
        cls,
        architecture: Mapping[str, Any],
        tensors: Mapping[str, Tensor],
        domain: Domain,
        sampling: TreeSamplingRules,
    ) -> "Trees":
        """Restore a model from an untrusted file; raises ArtefactError unless all parts are valid."""
        forest, tilted, records, log_mean = read_parts(cls.kind, architecture, tensors, domain)
        return cls(forest, tilted, records, log_mean, sampling)
