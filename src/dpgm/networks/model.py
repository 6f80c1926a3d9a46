"""The interface of a network to training and sampling: parameter blocks, outputs, per-record gradients as pairs.

A network is a list of parameter blocks. A block is a matrix (inputs, outputs) followed by a bias row; with the
activation a of a record (a one appended for the bias) and the back-propagated delta at the block's output, the record's
gradient of the block is the outer product of the two. So, without ever forming per-record gradients,

    squared norm of record i = sum over blocks |a_i|² |delta_i|²
    weighted sum             = a' diag(weights) delta, one matrix product per block

which is all that private training needs. The parameters of k networks are one (k, P) tensor, so that one draw of noise
and one optimiser call serve all of them. A network of another form can use one block without inputs whose delta is the
whole per-record gradient (`batch.autograd_factor`): slower, with the same guarantee.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from itertools import accumulate
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from dpgm.data.domain import Domain
from dpgm.errors import ArtefactError
from dpgm.networks.rules import LARGEST_SIZE, MOST_LAYERS, NETWORK_RULES, NetworkRules, NetworkSettings
from dpgm.strategy.protocol import is_size

if TYPE_CHECKING:  # `batch` imports this module
    from dpgm.networks.batch import Batch, Factor

RAREST_FREQUENCY = 1e-6  # frequencies are clamped this far from 0 and 1 before taking logarithms


@dataclass(frozen=True)
class WeightMatrix:
    """A matrix (inputs, outputs), with a bias row unless `bias` is False; used once per record."""

    name: str
    inputs: int
    outputs: int
    bias: bool = True

    @property
    def rows(self) -> int:
        """Rows of the matrix, including the bias row."""
        return self.inputs + self.bias

    @property
    def size(self) -> int:
        """Number of parameters."""
        return self.rows * self.outputs


@dataclass(frozen=True)
class ParameterLayout:
    """Where each block lies in the flat parameters of one network."""

    blocks: tuple[WeightMatrix, ...]

    @cached_property
    def offsets(self) -> Mapping[str, int]:
        """First parameter of every block."""
        starts = accumulate((block.size for block in self.blocks), initial=0)
        return dict(zip((block.name for block in self.blocks), starts, strict=False))

    @cached_property
    def size(self) -> int:
        """P, the number of parameters of one network."""
        return sum(block.size for block in self.blocks)

    def matrix(self, parameters: Tensor, block: WeightMatrix) -> Tensor:
        """A view (k, rows, outputs) of a block of (k, P) parameters; the bias is its last row."""
        start = self.offsets[block.name]
        return parameters[:, start : start + block.size].view(len(parameters), block.rows, block.outputs)

    def weight(self, parameters: Tensor, block: WeightMatrix) -> Tensor:
        """A view (k, inputs, outputs) of a block's matrix."""
        return self.matrix(parameters, block)[:, : block.inputs]

    def bias(self, parameters: Tensor, block: WeightMatrix) -> Tensor:
        """A view (k, 1, outputs) of a block's bias."""
        return self.matrix(parameters, block)[:, block.inputs :]


class Views:
    """Every block of (k, P) numbers as one matrix per network; made once, since making views takes time."""

    def __init__(self, layout: ParameterLayout, flat: Tensor) -> None:
        self.flat = flat
        self.matrices = {block.name: layout.matrix(flat, block).unbind(0) for block in layout.blocks}
        self.transposed = {
            block.name: layout.weight(flat, block).transpose(1, 2).unbind(0) for block in layout.blocks
        }


@dataclass(frozen=True)
class Outputs:
    """How m output logits become a binary record."""

    width: int
    bernoulli: tuple[tuple[int, int], ...]  # ranges of columns
    softmax: tuple[tuple[int, int], ...]

    @classmethod
    def of(cls, domain: Domain) -> "Outputs":
        """A softmax for every table column, independent outputs elsewhere."""
        softmax = tuple((column.start, column.stop) for column in domain.table_columns)
        edges = [0, *(edge for column in softmax for edge in column), domain.width]
        between = zip(edges[::2], edges[1::2], strict=True)
        return cls(domain.width, tuple((start, stop) for start, stop in between if start < stop), softmax)

    def members(self, like: Tensor) -> Tensor:
        """(m, softmax blocks): 1 where a column belongs to a block; of the device and type of another tensor."""
        placed = self._members.get((like.device, like.dtype))
        if placed is None:  # made before a step is recorded as a graph, which cannot copy from the CPU
            placed = torch.zeros(self.width, len(self.softmax), device=like.device, dtype=like.dtype)
            for number, (start, stop) in enumerate(self.softmax):
                placed[start:stop, number] = 1
            self._members[(like.device, like.dtype)] = placed
        return placed

    @cached_property
    def _members(self) -> dict[tuple[torch.device, torch.dtype], Tensor]:
        return {}

    def probabilities(self, logits: Tensor) -> Tensor:
        """Turn logits (..., m) into probabilities, in place."""
        for start, stop in self.bernoulli:
            logits[..., start:stop].sigmoid_()
        for start, stop in self.softmax:
            part = logits[..., start:stop]
            part.copy_(torch.softmax(part, -1))
        return logits

    def cross_entropy(self, logits: Tensor, records: Tensor) -> Tensor:
        """Cross-entropy of records (..., m), summed over items and fields; `Batch.residual` is its gradient."""
        total = torch.zeros(logits.shape[:-1], dtype=logits.dtype, device=logits.device)
        for start, stop in self.bernoulli:
            part = logits[..., start:stop]
            total = total + (functional.softplus(part) - part * records[..., start:stop]).sum(-1)
        for start, stop in self.softmax:
            total = total - (torch.log_softmax(logits[..., start:stop], -1) * records[..., start:stop]).sum(-1)
        return total

    def log_odds(self, frequencies: Tensor) -> Tensor:
        """Biases at which outputs have the given frequencies (..., m): logits, or logarithms in a softmax block."""
        safe = frequencies.clamp(RAREST_FREQUENCY, 1 - RAREST_FREQUENCY)
        odds = torch.logit(safe)
        for start, stop in self.softmax:
            shares = safe[..., start:stop] / safe[..., start:stop].sum(-1, keepdim=True)
            odds[..., start:stop] = shares.log()
        return odds

    def draw(self, logits: Tensor, *, generator: torch.Generator) -> Tensor:
        """Draw dense binary records from logits (..., m), in place; for the chains of an RBM."""
        self.probabilities(logits)
        for start, stop in self.bernoulli:
            part = logits[..., start:stop]
            part.copy_(torch.rand(part.shape, generator=generator, dtype=part.dtype, device=part.device) < part)
        for start, stop in self.softmax:
            part = logits[..., start:stop]
            chosen = _choose(part, generator).unsqueeze(-1)
            part.zero_().scatter_(-1, chosen, 1.0)
        return logits

    def draw_sparse(
        self, logits: Tensor, *, generator: torch.Generator
    ) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        """Draw records from logits (n, m) on the CPU, as CSR indices and row lengths; overwrites logits."""
        rows, columns = self.draw(logits, generator=generator).nonzero(as_tuple=True)
        return columns.int().numpy(), torch.bincount(rows, minlength=len(logits)).numpy()


def _choose(shares: Tensor, generator: torch.Generator) -> Tensor:
    """Draw one column index per row with the given probabilities (..., n), by inversion."""
    cumulative = shares.cumsum(-1)
    point = torch.rand(shares.shape[:-1], generator=generator, dtype=shares.dtype, device=shares.device)
    last = shares.shape[-1] - 1
    return (cumulative < point.unsqueeze(-1) * cumulative[..., -1:]).sum(-1).clamp_(max=last)


@dataclass(frozen=True)
class Model(ABC):
    """A kind of generative network over a domain; its parameters are plain tensors outside of it.

    `factors` is called on private records inside a query. All other methods see released values only.
    """

    domain: Domain
    kind: ClassVar[str]

    @cached_property
    def outputs(self) -> Outputs:
        """How logits become records."""
        return Outputs.of(self.domain)

    @property
    @abstractmethod
    def layout(self) -> ParameterLayout:
        """The parameter blocks."""

    @property
    def draws_per_record(self) -> int:
        """Number of standard normal draws per record and step."""
        return 0

    @property
    def architecture(self) -> dict[str, object]:
        """The kind and the sizes (all fields except the domain) as plain JSON values."""
        sizes = {name: getattr(self, name) for name in self._sizes()}
        plain = {name: list(size) if isinstance(size, tuple) else size for name, size in sizes.items()}
        return {"kind": self.kind, **plain}

    @classmethod
    def from_architecture(cls, architecture: Mapping[str, Any], domain: Domain) -> Self:
        """The network of an `architecture` from an untrusted file.

        Raises:
            ArtefactError: a key is missing or unknown, or a size is not a whole number within its limit.
        """
        defaults = cls._sizes()
        if set(architecture) != {"kind", *defaults}:
            raise ArtefactError(
                f"the model's architecture is not that of a network {cls.kind}; get the release again."
            )
        sizes = {}
        for name, default in defaults.items():
            many = architecture[name] if isinstance(default, tuple) else [architecture[name]]
            if not isinstance(many, list) or not 1 <= len(many) <= MOST_LAYERS:
                raise ArtefactError("the model's architecture needs a list of layers; get the release again.")
            if not all(is_size(size, LARGEST_SIZE) for size in many):
                raise ArtefactError("the model's architecture has an impossible size; get the release again.")
            sizes[name] = tuple(many) if isinstance(default, tuple) else many[0]
        return cls(domain, **sizes)

    @classmethod
    @abstractmethod
    def of(cls, domain: Domain, settings: NetworkSettings) -> Self:
        """The network with the sizes of a plan."""

    @classmethod
    def _sizes(cls) -> dict[str, object]:
        """The names of the sizes, with their defaults."""
        return {field.name: field.default for field in fields(cls) if field.name != "domain"}

    @abstractmethod
    def initial(self, clusters: int, rules: NetworkRules = NETWORK_RULES, *, generator: torch.Generator) -> Tensor:
        """Random starting parameters, (clusters, P)."""

    @abstractmethod
    def warm(self, parameters: Tensor, frequencies: Tensor) -> Tensor:
        """A copy of (k, P) parameters with biases such that networks start at item frequencies (k, m)."""

    @abstractmethod
    def factors(self, batch: "Batch") -> "Sequence[Factor]":
        """The per-record gradients of a batch, one factor per block."""

    def begin(self, clusters: int, *, generator: torch.Generator) -> Tensor | None:
        """Public state that is carried from step to step (the chains of an RBM); None if there is none."""
        return None

    def advance(
        self,
        state: Tensor,
        parameters: Tensor,
        norm_bound: float | Tensor,
        gradient: Tensor,
        *,
        generator: torch.Generator,
    ) -> None:
        """Advance the public state by one step and add its term to the mean gradient (k, P), both in place."""
        raise NotImplementedError

    @abstractmethod
    def generate(
        self, parameters: Tensor, state: Tensor | None, count: int, *, generator: torch.Generator
    ) -> Tensor:
        """Output logits (count, m) of generated records, from parameters (1, P) and state (1, ...) of one network."""
