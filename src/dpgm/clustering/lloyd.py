"""One pass of Lloyd's algorithm over the rows, in whole numbers: counts and sums of every cluster.

Features are held in memory where they fit a stated limit and recomputed chunk by chunk otherwise; the results are
the same bits, because every operand is a whole number.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dpgm.compute.feature_kernels import add_by_cluster, assign
from dpgm.data.records import Records
from dpgm.statistics.fourier_features import UNIT, FeatureMap

CHUNK_NUMBERS = 1 << 19  # features of a chunk: 1 MiB, so that a chunk stays in the second-level cache
DEVICE_CHUNK_NUMBERS = 1 << 26


@dataclass(frozen=True, eq=False)
class Centers:
    """Centres as whole numbers, ready to compare with quantised features.

    `units` (k, d) int16 are the centres on a public grid; `offsets` (k,) int64 are half their squared norms in
    units of a score, so that the nearest centre has the largest <feature, centre> - offset.
    """

    units: Tensor
    offsets: Tensor

    @classmethod
    def of(cls, centers: Tensor, feature_map: FeatureMap, device: str = "cpu") -> "Centers":
        """Round real centres to the grid on which scores are exact."""
        scale = _center_scale(feature_map)
        units = torch.round(centers.double() * scale).clamp(-UNIT, UNIT - 1).to(torch.int16)
        # A score counts steps of grid / scale; half a squared norm counts steps of 1 / (2 scale^2).
        squares = (units.long() ** 2).sum(dim=1).double()
        offsets = torch.round(squares / (2 * scale * feature_map.grid)).long()
        return cls(units.to(device), offsets.to(device))


def _center_scale(feature_map: FeatureMap) -> int:
    """Steps to a length of one such that every centre fits int16 and every score int32."""
    longest = feature_map.norm_bound / feature_map.grid  # of a feature vector, in units
    reach = feature_map.norm_bound  # of a centre
    scale = UNIT
    while longest * reach * scale >= 2**31:
        scale //= 2
    return scale


def feature_chunks(
    records: Records, feature_map: FeatureMap, device: str = "cpu", cached: Tensor | None = None
) -> Iterator[Tensor]:
    """Quantised features of consecutive rows, from the cache or computed."""
    numbers = CHUNK_NUMBERS if device == "cpu" else DEVICE_CHUNK_NUMBERS
    size = max(1, numbers // feature_map.features)
    if cached is not None:
        yield from torch.split(cached, size)
        return
    for chunk in records.chunks(size):
        yield feature_map.quantised(chunk, device)


def cache_features(
    records: Records, feature_map: FeatureMap, memory_limit: int, device: str = "cpu"
) -> Tensor | None:
    """All features, (N, d) int16, or None where they would take more than `memory_limit` bytes."""
    if len(records) * feature_map.features * 2 > memory_limit:
        return None
    cached = torch.empty((len(records), feature_map.features), dtype=torch.int16, device=device)
    at = 0
    for chunk in feature_chunks(records, feature_map, device):
        cached[at : at + len(chunk)] = chunk
        at += len(chunk)
    return cached


def count_and_sum(
    records: Records,
    centers: Tensor,
    feature_map: FeatureMap,
    device: str = "cpu",
    cached: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Rows (k,) and sum of quantised features (k, d) of every cluster, int64; each row in exactly one."""
    whole = Centers.of(centers, feature_map, device)
    counts = torch.zeros(len(centers), dtype=torch.int64, device=device)
    sums = torch.zeros(centers.shape, dtype=torch.int64, device=device)
    for features in feature_chunks(records, feature_map, device, cached):
        add_by_cluster(features, assign(features, whole.units, whole.offsets), counts, sums)
    return counts.cpu(), sums.cpu()


def nearest(records: Records, centers: Tensor, feature_map: FeatureMap, device: str = "cpu") -> NDArray[np.int64]:
    """The nearest centre of every record; ties go to the first."""
    whole = Centers.of(centers, feature_map, device)
    parts = [
        assign(features, whole.units, whole.offsets).cpu()
        for features in feature_chunks(records, feature_map, device)
    ]
    joined: NDArray[np.int64] = torch.cat(parts).numpy() if parts else np.empty(0, dtype=np.int64)
    return joined
