"""Gradient norms, clipped sums and the norm bound on an accelerator: dense tiles of records, two CUDA graphs per step.

Records stay on the device as bytes if they fit, and then only the numbers of sampled rows are sent; otherwise a step's
rows are sent. The first graph computes factors, norms and their histogram; the gateway releases it; the second graph
computes the clipped sums. So every release still goes through the gateway. Nothing here waits for the device: the host
runs some steps ahead, and the device itself leaves out a record that is not finite. Operations are few and large: the
time of a small batch on an accelerator is the number of its operations.

The records of a network fill as many tiles of equal size as they need, so that clusters of uneven size waste little.
The number of tiles follows from public numbers: places for the expected batch plus six standard deviations, and for
every network one last tile that may be almost empty.
"""

import math
from collections.abc import Mapping, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dpgm.data.records import Records
from dpgm.kernels import fused
from dpgm.kernels.devices import Recorded, Repeated, Staged
from dpgm.mechanisms.norm_bound import AdaptiveNormBound, norm_histogram
from dpgm.mechanisms.query import View
from dpgm.networks.batch import Activation, Batch, Factor, Signal, SparseRecords, Squares, Workspace
from dpgm.networks.clipped_gradients import SLACK, sorted_by_model
from dpgm.networks.model import Block, Layout, Model, Outputs

CPU_LIMIT = 2**28  # bytes of resident records when this runs on the CPU: without numba, and in tests
CHUNK = 1 << 16  # records made dense at a time


class PaddedPass:
    """The pass on an accelerator, where private rows stay between queries; `expected` is the public batch size."""

    def __init__(self, model: Model, parameters: Tensor, edges: Tensor, expected: float = 0.0) -> None:
        self._model, self._parameters = model, parameters
        self._expected = expected
        self._device = parameters.device
        self._edges = edges.to(self._device)
        self._bound = torch.ones((), dtype=torch.float64, device=self._device)
        self._sum = torch.zeros_like(parameters)
        self._histogram = torch.zeros(len(edges) + 1, dtype=torch.int64, device=self._device)
        self._resident: Tensor | None = None
        self._resident_decided = False
        self._step = -1
        self._sample: NDArray[np.int64] | None = None
        self._tiles = self._places = 0

    def histogram(self, view: View, step: int) -> Tensor:
        """Counts of gradient norms by bin."""
        self._pass_over(view, step)
        return self._histogram

    def clipped_sum(self, view: View, step: int, bound: float | Tensor) -> Tensor:
        """Sum of clipped gradients for every network."""
        self._pass_over(view, step)
        # A bound on the device is read there, when the device gets to it.
        self._second(bound if isinstance(bound, Tensor) else self._bound.fill_(bound))
        return self._sum

    def _pass_over(self, view: View, step: int) -> None:
        if step == self._step and view.sample is self._sample:  # see SegmentedPass
            return
        self._make_resident(view.records)
        self._place(view)
        self._staged.send()
        self._first()
        self._step, self._sample = step, view.sample

    def _make_resident(self, records: Records) -> None:
        """Copy all records to the device as bytes if they fit, with an empty one at the end for unused places."""
        if self._resident_decided:
            return
        self._resident_decided = True
        size = (len(records) + 1) * records.width
        free = torch.cuda.mem_get_info(self._device)[0] // 2 if self._device.type == "cuda" else CPU_LIMIT
        if size > free:
            return
        dense = torch.zeros((len(records) + 1, records.width), dtype=torch.uint8, device=self._device)
        for start in range(0, len(records), CHUNK):
            part = records.rows(start, start + CHUNK)
            _write_rows(dense[start : start + len(part)], part)
        self._resident = dense

    def _place(self, view: View) -> None:
        """Assign every sampled row a place in a tile of its network, and stage what the device needs."""
        rows, bounds = sorted_by_model(view, len(self._parameters))
        counts = bounds[1:] - bounds[:-1]
        if self._tiles == 0 or self._tiles_needed(counts) > self._tiles:
            self._grow(counts, view.records)
        size = self._tiles * self._places
        numbers = self._staged.numbers
        place: slice | NDArray[np.int64] = slice(len(rows))
        if len(counts) == 1:
            numbers[len(rows) : size] = self._padding
        else:
            used = -(-counts // self._places)
            place = np.arange(len(rows))
            place += np.repeat((np.cumsum(used) - used) * self._places - bounds[:-1], counts)
            owners = np.repeat(np.arange(len(counts)), used)
            numbers[:size] = self._padding
            numbers[size:] = 0
            numbers[size : size + len(owners)] = owners
        numbers[place] = rows
        if self._draws.numel():  # on the device, in stream order
            view.fill_normals(numbers[:size], self._draws.view(size, -1))
        if self._resident is None:  # in stream order too
            self._bytes.zero_()
            _write_rows(self._bytes, view.records.take(rows), np.arange(size)[place])

    def _tiles_needed(self, counts: NDArray[np.int64]) -> int:
        if len(counts) == 1:
            return -(-int(counts[0]) // self._places)
        return int((-(-counts // self._places)).sum())

    def _grow(self, counts: NDArray[np.int64], records: Records) -> None:
        """Make buffers and graphs for batches of the expected size; larger ones only for a batch that exceeds them."""
        models, width = len(self._parameters), records.width
        self._tiles, self._places = arrange(self._expected, models)
        if self._tiles_needed(counts) > self._tiles:
            self._tiles, self._places = arrange(float(counts.sum()), models)
        size = self._tiles * self._places
        shape = (self._tiles, self._places)
        self._padding = len(records)
        self._staged = Staged(size + self._tiles, torch.int64, self._device)
        self._rows = self._staged.there[:size].view(shape)
        self._owners = self._staged.there[size:]
        self._draws = torch.zeros(
            (*shape, self._model.draws_per_record), dtype=self._parameters.dtype, device=self._device
        )
        travelling = self._resident is None
        self._bytes = torch.zeros((size if travelling else 0, width), dtype=torch.uint8, device=self._device)
        self._in_order = torch.arange(size if travelling else 0, device=self._device)
        self._workspace = Workspace(self._parameters.dtype, self._device)
        self._norms, self._lengths = (
            torch.zeros(shape, dtype=torch.float64, device=self._device) for _ in range(2)
        )
        self._weights = torch.zeros(shape, dtype=self._parameters.dtype, device=self._device)
        # With one network there is one tile, which uses its parameters and sums directly.
        parameters = self._parameters
        self._of_tiles = parameters if models == 1 else parameters.new_zeros(self._tiles, parameters.shape[1])
        self._tile_sums = self._sum if models == 1 else torch.zeros_like(self._of_tiles)
        self._models = torch.arange(models, device=self._device).unsqueeze(1)
        self._belongs = self._parameters.new_zeros(models, self._tiles)
        self._factors: Sequence[Factor] = ()
        self._first = Recorded(self._compute_norms, self._device)
        self._second = Repeated(self._compute_sum, self._device)

    def _compute_norms(self) -> None:
        if len(self._parameters) > 1:
            torch.index_select(self._parameters, 0, self._owners, out=self._of_tiles)
        records, workspace = self._records(), self._workspace
        self._batch = PaddedBatch(self._model.layout, self._of_tiles, records, workspace, self._draws)
        self._factors = self._model.factors(self._batch)
        squares = self._batch.squared_norms(self._factors)
        self._histogram.zero_()
        if not fused.bin_norms(squares, self._rows, self._padding, self._edges, self._norms, self._histogram):
            torch.sqrt(squares, out=self._norms).masked_fill_(self._rows == self._padding, torch.nan)
            self._histogram.copy_(norm_histogram(self._norms, self._edges))

    def _records(self) -> Signal:
        """The dense rows in their places."""
        source, rows = (self._bytes, self._in_order) if self._resident is None else (self._resident, self._rows)
        dense = self._workspace.signal("records", (self._tiles, self._places, source.shape[1]))
        fused.gather_rows(source, rows, dense.values, self._lengths)
        return Signal(dense.with_one, dense.values, self._lengths)

    def _compute_sum(self, bound: Tensor) -> None:
        fused.clip_weights(self._norms, bound, self._weights, SLACK)
        self._batch.weighted_sum(self._factors, self._weights, self._tile_sums)
        if len(self._parameters) > 1:
            # Sum the tiles of each network by a product with zeros and ones: the order of additions is fixed.
            self._belongs.copy_(self._owners == self._models)
            torch.mm(self._belongs, self._tile_sums, out=self._sum)


class PaddedBatch(Batch):
    """A `Batch` of dense records in tiles of places, for batched products: tensors are (tiles, places, width).

    A tile has places for records of one network; `parameters` has a row for every tile, and `records` come with their
    squared norms (including the column of ones).
    """

    kernels = fused

    def __init__(
        self, layout: Layout, parameters: Tensor, records: Signal, workspace: Workspace, draws: Tensor
    ) -> None:
        super().__init__(workspace, tuple(records.values.shape[:2]), draws)
        self._layout, self._flat, self._records = layout, parameters, records

    def affine(self, block: Block, activation: Activation) -> Signal:
        """Product activation @ matrix + bias, with the parameters of each record's network."""
        out = self.signal(block.name, block.outputs)
        torch.bmm(self._left(block, activation), self._layout.matrix(self._flat, block), out=out.values)
        return out

    def backward(self, block: Block, delta: Tensor) -> Tensor:
        """Product delta @ matrix transposed: the gradient at the block's input."""
        matrix = self._layout.matrix(self._flat, block)[:, : block.inputs]
        out = self.buffer(f"{block.name} back", block.inputs)
        return torch.bmm(delta, matrix.transpose(1, 2), out=out)

    def reconstruct(
        self, block: Block, activation: Signal, outputs: Outputs
    ) -> tuple[Tensor, Tensor | None, Tensor]:
        """The last layer: probability - record, its squared norms if known, and the gradient at the layer's input."""
        delta, squared = self.affine(block, activation).values, self._per_record()
        known = not outputs.softmax and fused.sigmoid_residual(delta, self._records.values, squared)
        if not known:
            outputs.residual(delta, self._records.values)
        return delta, squared if known else None, self.backward(block, delta)

    def dense(self) -> Tensor:
        """The records as a dense binary tensor."""
        return self._records.values

    def parameters(self) -> Tensor:
        """The parameters of each record's network, (tiles, places, P) without copying."""
        return self._flat.unsqueeze(1).expand(*self._places, -1)

    # -- norms and clipped sums, for training ----------------------------------------------------------------

    def squared_norms(self, factors: Sequence[Factor]) -> Tensor:
        """Squared norm of the gradient at every place, used or not, (tiles, places)."""
        total: Tensor | None = None
        for factor in factors:
            delta, activation = _squares(factor.delta, factor.squared), self._activation_squares(factor)
            total = delta * activation if total is None else total.addcmul_(delta, activation)
        assert total is not None
        return total

    def weighted_sum(self, factors: Sequence[Factor], weights: Tensor, out: Tensor) -> Tensor:
        """Sum over records of weight x gradient for every tile, into (tiles, P).

        A record of weight 0 contributes nothing, even if its factors are not finite.
        """
        for factor in factors:
            block, delta = factor.block, factor.delta
            signal = self._signal(factor.activation)
            left = self._left(block, signal)
            # The narrower of the two is multiplied by the weights.
            if left.shape[-1] <= delta.shape[-1]:
                left = self._weighted(block, left, delta, weights)
            else:
                delta = self._weighted(block, delta, signal.values, weights)  # its column of ones must stay
            torch.bmm(left.transpose(1, 2), delta, out=self._layout.matrix(out, block))
        return out

    def _weighted(self, block: Block, narrow: Tensor, wide: Tensor, weights: Tensor) -> Tensor:
        out = self.buffer(f"{block.name} weighted", narrow.shape[-1])
        fused.weigh(narrow, wide, weights, out)
        return out

    def _signal(self, activation: Activation) -> Signal:
        return self._records if isinstance(activation, SparseRecords) else activation

    def _left(self, block: Block, activation: Activation) -> Tensor:
        return self._signal(activation).left(block)

    def _activation_squares(self, factor: Factor) -> Tensor:
        signal = self._signal(factor.activation)
        if signal.squared is None:
            return _squares(self._left(factor.block, signal), None)
        known = _squares(signal.values, signal.squared)
        return known if factor.block.bias else known - 1

    def _for_kernel(self, values: Tensor) -> Tensor:
        return values

    def _per_record(self) -> Tensor:
        return torch.empty(self._places, dtype=torch.float64, device=self._flat.device)


def _squares(values: Tensor, known: Squares | None) -> Tensor:
    """Squared norms of the rows in float64: in float32 squares overflow and vanish long before the numbers do."""
    return known if isinstance(known, Tensor) else fused.row_squares(values)


class DeviceNormBound:
    """An `AdaptiveNormBound` with its state on the device, so that no step waits for the histogram of the last one.

    It starts from the state of `rule`; one kernel does what `rule.update` does.
    """

    def __init__(self, rule: AdaptiveNormBound, edges: Tensor, device: torch.device | str) -> None:
        self._rule, device = rule, torch.device(device)
        self._edges = edges.to(device)
        self._state = torch.empty(len(edges) + 3, dtype=torch.float64, device=device)
        self.bound = self._state[-1]
        self._update = Repeated(self._update_state, device, [self._state])
        self._send()

    @staticmethod
    def fits(parameters: Tensor) -> bool:
        """Whether the kernels can run on the device of these parameters."""
        return fused.usable(parameters)

    @property
    def cap(self) -> float:
        """The public maximum of the bound."""
        return self._rule.cap

    def update(self, noisy_histogram: Tensor) -> Tensor:
        """Update by a step's noisy histogram; returns the bound to use, always the same tensor."""
        self._update(noisy_histogram)
        return self.bound

    def _update_state(self, histogram: Tensor) -> None:
        rule = self._rule
        fused.update_bound(
            histogram,
            self._state,
            self._edges,
            noise=rule.noise,
            decay=rule.decay,
            quantile=None if isinstance(rule.quantile, str) else rule.quantile,
            floor=rule.floor,
            cap=rule.cap,
        )

    def state(self) -> dict[str, Tensor]:
        """The state of an `AdaptiveNormBound`."""
        state = self._state.cpu()
        return {"average": state[:-2].clone(), "scalars": state[-2:].clone()}

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Continue from the state of an `AdaptiveNormBound`."""
        self._rule.restore(state)
        self._send()

    def _send(self) -> None:
        state = self._rule.state()
        self._state.copy_(torch.cat([state["average"], state["scalars"]]))


def arrange(expected: float, models: int) -> tuple[int, int]:
    """Number and size of tiles for a batch of the expected size plus up to six standard deviations."""
    most = expected + 6 * math.sqrt(expected) + 16
    if models == 1:
        return 1, -(-int(most) // 16) * 16
    # A tile has half the records of an average network: then all tiles together have about twice the batch at most.
    share = int(most / (2 * models))
    places = share // 64 * 64 if share >= 64 else -(-max(share, 1) // 16) * 16
    return math.ceil(most / places) + models, places


def _write_rows(out: Tensor, records: Records, at: NDArray[np.int64] | None = None) -> None:
    """Write records as ones into the rows `at` (by default 0, 1, ...) of a zero matrix of bytes."""
    rows = np.arange(len(records)) if at is None else at
    places = np.repeat(rows, records.lengths) * records.width + records.indices
    out.view(-1)[torch.from_numpy(places).to(out.device)] = 1
