"""The pass on an accelerator: dense, padded batches (k, n, m), batched products, two CUDA graphs a step.

Records stay on the device as bytes where they fit; otherwise a step's rows are sent there. Only the sampled rows'
numbers travel then. The first graph computes factors, norms and their histogram; the gateway releases; the second
graph computes the clipped sums. So every release still goes through the one door.
"""

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dpgm.compute.cuda_graphs import Recorded
from dpgm.data.records import Records
from dpgm.mechanisms.norm_bound import norm_histogram
from dpgm.mechanisms.query import View
from dpgm.models.draws import latent_draws, step_key
from dpgm.models.factors import Factor, Model
from dpgm.models.padded_batch import PaddedBatch
from dpgm.models.workspace import Workspace
from dpgm.training.passes import clip_weights, diagnose, sorted_by_model

CPU_LIMIT = 2**28  # bytes of resident records when run on the CPU, which is for tests only
CHUNK = 1 << 16


class PaddedPass:
    """Holds private rows on the device between queries."""

    def __init__(self, model: Model, parameters: Tensor, edges: Tensor, seed: int) -> None:
        self._model, self._parameters, self._seed = model, parameters, seed
        self._device = parameters.device
        self._edges = edges.to(self._device)
        self._key = torch.zeros((), dtype=torch.int64, device=self._device)
        self._bound = torch.zeros((), dtype=torch.float64, device=self._device)
        self._sum = torch.zeros_like(parameters)
        self._histogram = torch.zeros(len(edges) + 1, dtype=torch.int64, device=self._device)
        self._counts = torch.zeros(len(edges) + 1, dtype=torch.int64)
        self._resident: Tensor | None = None
        self._asked = False
        self._step = -1
        self._sample: NDArray[np.int64] | None = None
        self._capacity = self._sampled = 0

    def histogram(self, view: View, step: int) -> Tensor:
        """Counts of gradient norms by bin."""
        self._look(view, step)
        return self._counts

    def clipped_sum(self, view: View, step: int, bound: float) -> Tensor:
        """Sum of clipped gradients for every model."""
        self._look(view, step)
        self._bound.fill_(bound)
        self._second()
        return self._sum

    def diagnosis(self, bound: float) -> dict[str, float]:
        """NOT PRIVATE: facts about the last sample."""
        return diagnose(self._norms.reshape(-1), bound)

    def _look(self, view: View, step: int) -> None:
        if step == self._step and view.sample is self._sample:  # see SegmentedPass
            return
        self._make_resident(view.records)
        self._place(view)
        self._key.fill_(step_key(self._seed, step))
        self._first()
        # On the host, where the noise of so few numbers is drawn; a look at their sum spares a pass over everything
        # in the usual case.
        self._counts = self._histogram.cpu().clone()
        if int(self._counts.sum()) < self._sampled:
            self._batch.silence(self._factors, ~torch.isfinite(self._norms))
        self._step, self._sample = step, view.sample

    def _make_resident(self, records: Records) -> None:
        """All records as bytes on the device, with an empty one at the end for places not taken."""
        if self._asked:
            return
        self._asked = True
        size = (len(records) + 1) * records.width
        free = torch.cuda.mem_get_info(self._device)[0] // 2 if self._device.type == "cuda" else CPU_LIMIT
        if size > free:
            return
        held = torch.zeros((len(records) + 1, records.width), dtype=torch.uint8, device=self._device)
        for start in range(0, len(records), CHUNK):
            part = records.rows(start, start + CHUNK)
            _write_rows(held[start : start + len(part)], part)
        self._resident = held

    def _place(self, view: View) -> None:
        """Give every sampled row a place in its model's part of the batch, and tell the device."""
        clusters = len(self._parameters)
        rows, bounds = sorted_by_model(view, clusters)
        counts = np.diff(bounds)
        self._sampled = len(rows)
        if counts.max(initial=0) > self._capacity or self._capacity == 0:
            self._grow(int(counts.max(initial=0)), view.records)
        numbers = self._numbers.numpy()
        numbers.fill(len(view.records))
        place = np.arange(len(rows)) - np.repeat(bounds[:-1], counts)
        where = np.repeat(np.arange(clusters), counts)
        numbers[where, place] = rows
        self._rows.copy_(self._numbers, non_blocking=True)
        if self._resident is None:
            self._bytes.zero_()
            _write_rows(self._bytes, view.records.take(rows), where * self._capacity + place)

    def _grow(self, most: int, records: Records) -> None:
        """Buffers and graphs for batches of up to `most` rows a model and some more."""
        clusters, width = len(self._parameters), records.width
        self._capacity = -(-(most + int(5 * most**0.5) + 8) // 16) * 16
        places = (clusters, self._capacity)
        self._rows = torch.full(places, len(records), dtype=torch.int64, device=self._device)
        # In pinned memory, so that sending them does not wait; a step's releases do, before the next step writes.
        self._numbers = torch.empty(places, dtype=torch.int64, pin_memory=self._device.type == "cuda")
        shape = (clusters * self._capacity, width) if self._resident is None else (0, width)
        self._bytes = torch.zeros(shape, dtype=torch.uint8, device=self._device)
        self._workspace = Workspace(self._parameters.dtype, self._device)
        self._dense = self._workspace.take("records", (*places, width))
        self._norms = torch.zeros(places, dtype=self._parameters.dtype, device=self._device)
        self._padding = len(records)
        self._factors: Sequence[Factor] = ()
        self._first = Recorded(self._compute_norms, self._device)
        self._second = Recorded(self._compute_sum, self._device)

    def _compute_norms(self) -> None:
        source = self._bytes if self._resident is None else self._resident.index_select(0, self._rows.reshape(-1))
        self._dense.copy_(source.view(self._dense.shape))
        taken = self._rows != self._padding
        draws = latent_draws(self._key, self._rows, self._model.draws, self._parameters.dtype)
        self._batch = PaddedBatch(self._model.layout, self._parameters, self._dense, taken, self._workspace, draws)
        self._factors = self._model.factors(self._batch)
        self._norms.copy_(self._batch.squared_norms(self._factors).sqrt_())
        self._histogram.copy_(norm_histogram(self._norms, self._edges))

    def _compute_sum(self) -> None:
        weights = clip_weights(self._norms, self._bound.to(self._norms.dtype))
        self._batch.weighted_sum(self._factors, weights, self._sum)


def _write_rows(out: Tensor, records: Records, at: NDArray[np.int64] | None = None) -> None:
    """Set the ones of records in rows `at` (by default 0, 1, ...) of a zero matrix of bytes."""
    rows = np.arange(len(records)) if at is None else at
    places = np.repeat(rows, records.lengths) * records.width + records.indices
    out.view(-1)[torch.from_numpy(places).to(out.device)] = 1
