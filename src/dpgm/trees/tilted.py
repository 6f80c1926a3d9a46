"""A statistic of a tilt: its parameters, and what it is on the rows of a pool."""

from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

from torch import Tensor

from dpgm.arrays import Ints
from dpgm.data.records import Records
from dpgm.statistics.clipped_vectors import ClippedVectors, VectorFeatures
from dpgm.statistics.coded_rows import Coding
from dpgm.statistics.column_counts import ColumnCounts, ColumnFeatures
from dpgm.statistics.pair_blocks import PairBlocks, PairFeatures
from dpgm.tilting.tilt import PoolFeatures

TiltedStatistic: TypeAlias = ColumnCounts | PairBlocks | ClippedVectors


@dataclass(frozen=True)
class TiltedSums:
    """A statistic with the parameters of the tilt, and the sums of as many records of the model as were fitted.

    `std` is the standard deviation of the noise that the sums were measured with: by it a sample is weighted.
    """

    statistic: TiltedStatistic
    parameters: Tensor
    sums: Tensor
    std: float
    ridge: float


@dataclass(frozen=True)
class RowPool:
    """Records drawn from the base, with their codes."""

    coding: Coding
    records: Records

    @cached_property
    def codes(self) -> Ints:
        """(n, columns)."""
        return self.coding.codes(self.records)

    def features(self, statistic: TiltedStatistic) -> PoolFeatures:
        """What the records add to the sums of a statistic."""
        if isinstance(statistic, ColumnCounts):
            return ColumnFeatures(statistic.coding.sizes, self.codes)
        if isinstance(statistic, PairBlocks):
            return PairFeatures(statistic, self.codes)
        return VectorFeatures(statistic, self.records)
