"""From the gateway's view of a Poisson sample to a `Batch`, on the CPU and on an accelerator.

On the CPU a batch is made afresh in every step. On an accelerator all buffers have fixed sizes, so that a step can be
recorded as graphs. Records stay there as bytes if they fit, and then only the numbers of sampled rows are sent;
otherwise a step's rows are sent. The records of a network fill as many tiles of equal size as they need, so that
clusters of uneven size waste little. The number of tiles follows from public numbers: places for the expected batch
plus six standard deviations, and for every network one last tile that may be almost empty.
"""

import math
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dpgm.data.records import Records
from dpgm.data.rows import row_pointers
from dpgm.mechanisms.query import View
from dpgm.networks.batch import Batch, SegmentedBatch, TiledBatch
from dpgm.networks.model import Model, Views

CPU_LIMIT = 2**28  # bytes of resident records where tiles are used on the CPU: in tests
MADE_DENSE_AT_ONCE = 1 << 16  # records made dense at a time


class SampledBatches(Protocol):
    """Makes the batch of a step."""

    def load(self, view: View) -> bool:
        """Take in a view; returns whether the memory that `batch` reads is elsewhere than before."""
        ...

    def batch(self) -> Batch:
        """The batch of the view; may be recorded as part of a graph."""
        ...


class SegmentedBatches:
    """Batches of sparse records on the CPU."""

    def __init__(self, model: Model, parameters: Tensor) -> None:
        self._width, self._parameters = model.draws_per_record, Views(model.layout, parameters)

    def load(self, view: View) -> bool:
        """Take in a view."""
        flat = self._parameters.flat
        rows, bounds = sorted_by_model(view, len(flat))
        draws = flat.new_empty(len(rows), self._width)
        if draws.numel():
            view.fill_normals(rows, draws)
        self._batch = SegmentedBatch(self._parameters, view.records, rows, bounds, draws)
        return False

    def batch(self) -> Batch:
        """The batch of the view."""
        return self._batch


class TiledBatches:
    """Batches of dense tiles on an accelerator, where private rows stay; `expected` is the public batch size."""

    def __init__(self, model: Model, parameters: Tensor, expected: float = 0.0) -> None:
        self._model, self._parameters, self._expected = model, parameters, expected
        self._device = parameters.device
        self._resident: Tensor | None = None
        self._padding = -1  # the row number of an unused place
        self._tiles = self._places = 0

    def load(self, view: View) -> bool:
        """Assign every sampled row a place in a tile of its network, and send what the device needs."""
        if self._padding < 0:
            self._padding = len(view.records)
            self._make_resident(view.records)
        rows, bounds = sorted_by_model(view, len(self._parameters))
        counts = np.diff(bounds)
        grown = self._tiles == 0 or self._tiles_needed(counts) > self._tiles
        if grown:
            self._grow(counts, view.records.width)
        used = -(-counts // self._places)  # tiles of each network
        place = np.arange(len(rows)) + np.repeat((np.cumsum(used) - used) * self._places - bounds[:-1], counts)
        numbers = np.full(self._tiles * self._places, self._padding)
        numbers[place] = rows
        owners = np.zeros(self._tiles, dtype=np.int64)
        owners[: used.sum()] = np.repeat(np.arange(len(counts)), used)
        self._rows.copy_(torch.from_numpy(numbers))
        self._owners.copy_(torch.from_numpy(owners))
        if self._draws.numel():
            view.fill_normals(numbers, self._draws)
        if self._resident is None:
            self._bytes.zero_()
            _write_rows(self._bytes, view.records.take(rows), place)
        return grown

    def batch(self) -> Batch:
        """The batch of the view."""
        dense = self._bytes if self._resident is None else self._resident.index_select(0, self._rows)
        records, unused = dense.to(self._parameters.dtype), self._rows == self._padding
        return TiledBatch(self._model.layout, self._parameters, self._owners, records, unused, self._draws)

    def _make_resident(self, records: Records) -> None:
        """Copy all records to the device as bytes if they fit, with an empty one at the end for unused places."""
        size = (len(records) + 1) * records.width
        free = torch.cuda.mem_get_info(self._device)[0] // 2 if self._device.type == "cuda" else CPU_LIMIT
        if size > free:
            return
        dense = torch.zeros((len(records) + 1, records.width), dtype=torch.uint8, device=self._device)
        for start in range(0, len(records), MADE_DENSE_AT_ONCE):
            part = records.rows(start, start + MADE_DENSE_AT_ONCE)
            _write_rows(dense[start : start + len(part)], part, np.arange(len(part)))
        self._resident = dense

    def _tiles_needed(self, counts: NDArray[np.int64]) -> int:
        return int((-(-counts // self._places)).sum())

    def _grow(self, counts: NDArray[np.int64], width: int) -> None:
        """Make buffers for batches of the expected size; larger ones only for a batch that exceeds them."""
        models = len(self._parameters)
        self._tiles, self._places = arrange(self._expected, models)
        if self._tiles_needed(counts) > self._tiles:
            self._tiles, self._places = arrange(float(counts.sum()), models)
        size = self._tiles * self._places
        self._rows = torch.zeros(size, dtype=torch.int64, device=self._device)
        self._owners = torch.zeros(self._tiles, dtype=torch.int64, device=self._device)
        self._draws = self._parameters.new_zeros(size, self._model.draws_per_record)
        travelling = self._resident is None
        self._bytes = torch.zeros((size if travelling else 0, width), dtype=torch.uint8, device=self._device)


def sorted_by_model(view: View, clusters: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The sampled rows sorted by cluster, and (k + 1,) where the rows of each cluster start and end."""
    rows = np.arange(len(view.records), dtype=np.int64) if view.sample is None else view.sample
    if clusters == 1:
        return rows, np.array([0, len(rows)], dtype=np.int64)
    routed = np.asarray(view.kept["clusters"])[rows]
    # numpy sorts 16-bit integers by radix, in a fraction of the time.
    order = np.argsort(routed.astype(np.uint16) if clusters <= 2**16 else routed, kind="stable")
    return rows[order], row_pointers(np.bincount(routed, minlength=clusters))


def arrange(expected: float, models: int) -> tuple[int, int]:
    """Number and size of tiles for a batch of the expected size plus up to six standard deviations."""
    most = expected + 6 * math.sqrt(expected) + 16
    if models == 1:
        return 1, -(-int(most) // 16) * 16
    # A tile has half the records of an average network: then all tiles together have about twice the batch at most.
    share = int(most / (2 * models))
    places = share // 64 * 64 if share >= 64 else -(-max(share, 1) // 16) * 16
    return math.ceil(most / places) + models, places


def _write_rows(out: Tensor, records: Records, at: NDArray[np.int64]) -> None:
    """Write records as ones into the rows `at` of a zero matrix of bytes."""
    places = np.repeat(at, records.lengths) * records.width + records.indices
    out.view(-1)[torch.from_numpy(places).to(out.device)] = 1
