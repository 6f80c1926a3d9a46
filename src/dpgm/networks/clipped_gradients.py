"""One pass over a Poisson sample: gradient norms, then the sum of clipped gradients.

These objects hold private values between the two queries of a step and live inside queries only. The factors of
a sample are computed once; both queries use them. A record whose gradient is not finite contributes nothing to either.
"""

from collections.abc import Sequence
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dpgm.compute import layer_kernels
from dpgm.mechanisms.query import View
from dpgm.networks.batch_cpu import SegmentedBatch
from dpgm.networks.per_record_gradients import Factor, Model
from dpgm.networks.workspace import BlockViews, Workspace, on_lines

SLACK = 1 + 1e-5  # norms are rounded; clip a little below the bound instead of a little above


class Pass(Protocol):
    """Two queries' exact values, from one pass over a step's sample."""

    def histogram(self, view: View, step: int) -> Tensor:
        """Counts of gradient norms by bin, int64; one bin per record."""
        ...

    def clipped_sum(self, view: View, step: int, bound: float | Tensor) -> Tensor:
        """Sum of gradients, each scaled to a norm of at most `bound`, for every model: (k, P)."""
        ...


class SegmentedPass:
    """The pass on the CPU: sparse records sorted by model."""

    def __init__(self, model: Model, parameters: Tensor, edges: Tensor) -> None:
        self._model, self._parameters, self._edges = model, parameters, edges
        self._workspace = Workspace(parameters.dtype)
        self._views = BlockViews(model.layout, parameters)
        self._sum = BlockViews(model.layout, on_lines(torch.zeros_like(parameters)))
        self._counts = np.zeros(len(edges) + 1, dtype=np.int64)
        self._step = -1
        self._sample: NDArray[np.int64] | None = None
        self._batch: SegmentedBatch | None = None
        self._factors: Sequence[Factor] = ()
        self._norms = torch.empty(0)

    def histogram(self, view: View, step: int) -> Tensor:
        """Counts of gradient norms by bin."""
        self._pass_over(view, step)
        return torch.from_numpy(self._counts.copy())

    def clipped_sum(self, view: View, step: int, bound: float | Tensor) -> Tensor:
        """Sum of clipped gradients for every model."""
        bound, batch = float(bound), self._pass_over(view, step)
        weights = torch.empty(len(self._norms), dtype=self._parameters.dtype)
        if not layer_kernels.clip_weights(self._norms.numpy(), bound / SLACK, weights.numpy()):
            weights = clip_weights(self._norms, bound)
        return batch.weighted_sum(self._factors, weights, self._sum)

    def _pass_over(self, view: View, step: int) -> SegmentedBatch:
        # The two releases of a step share one sample; a sample drawn anew is never answered from an older pass.
        if self._batch is not None and step == self._step and view.sample is self._sample:
            return self._batch
        batch = self._batch_of(view)
        squared = batch.squared_norms(self._factors)
        self._norms = torch.empty_like(squared)
        self._counts[:] = 0
        usable = layer_kernels.bin_norms(squared.numpy(), self._edges.numpy(), self._norms.numpy(), self._counts)
        if usable < len(squared):
            batch.silence(self._factors, ~torch.isfinite(self._norms))
        self._step, self._sample, self._batch = step, view.sample, batch
        return batch

    def _batch_of(self, view: View) -> SegmentedBatch:
        rows, bounds = sorted_by_model(view, len(self._parameters))
        draws = torch.empty((len(rows), self._model.draws), dtype=self._parameters.dtype)
        if draws.numel():
            view.fill_normals(rows, draws)
        batch = SegmentedBatch(self._views, view.records, rows, bounds, self._workspace, draws)
        self._factors = self._model.factors(batch)
        return batch


def clip_weights(norms: Tensor, bound: float | Tensor) -> Tensor:
    """What scales every gradient to a norm of at most `bound`; 0 where the norm is not finite."""
    weights = (bound / (norms * SLACK)).clamp_(max=1.0)
    return weights.masked_fill_(~torch.isfinite(norms), 0.0)


def sampled_rows(view: View) -> NDArray[np.int64]:
    """Numbers of the rows a query is about."""
    return np.arange(len(view.records), dtype=np.int64) if view.sample is None else view.sample


def sorted_by_model(view: View, clusters: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The sampled rows sorted by cluster, and where each cluster's rows begin and end."""
    rows = sampled_rows(view)
    if clusters == 1:
        return rows, np.array([0, len(rows)], dtype=np.int64)
    routed = np.asarray(view.kept["clusters"])[rows]
    # Small numbers are sorted by radix, in a fraction of the time.
    order = np.argsort(routed.astype(np.uint16) if clusters <= 2**16 else routed, kind="stable")
    bounds = np.zeros(clusters + 1, dtype=np.int64)
    np.cumsum(np.bincount(routed, minlength=clusters), out=bounds[1:])
    return rows[order], bounds
