"""A statistic of a tilt: its parameters, and what it is on the rows of a pool."""

from dataclasses import dataclass

from torch import Tensor

from dpgm.arrays import Ints
from dpgm.statistics.column_counts import ColumnCounts, ColumnFeatures
from dpgm.statistics.pair_blocks import PairBlocks, PairFeatures
from dpgm.tilting.tilt import PoolFeatures


@dataclass(frozen=True)
class TiltedSums:
    """A statistic with the parameters of the tilt, and the sums of as many records of the model as were fitted.

    `std` is the standard deviation of the noise that the sums were measured with: by it a sample is weighted.
    """

    statistic: ColumnCounts | PairBlocks
    parameters: Tensor
    sums: Tensor
    std: float
    ridge: float


def features_of(statistic: ColumnCounts | PairBlocks, codes: Ints) -> PoolFeatures:
    """What rows of a pool add to the sums of a statistic."""
    if isinstance(statistic, ColumnCounts):
        return ColumnFeatures(statistic.coding.sizes, codes)
    return PairFeatures(statistic, codes)
