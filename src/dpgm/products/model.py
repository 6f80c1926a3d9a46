"""A mixture of products: k components, each with independent items and table columns of its own.

A component has no latent variable; dependence between items comes from the choice of the component alone. All
moments are exact, and sampling is a matter of counting.
"""

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dpgm.data.domain import Domain
from dpgm.data.records import Records, index_dtype
from dpgm.errors import ArtefactError
from dpgm.products.rules import SAMPLING, SHARES_OFF
from dpgm.products.sampling import balanced, evened, one_of_many, rounded, subsets


class Products:
    """Weights of the components and, for each, the probability of every position.

    Args:
        domain: the public domain; the probabilities of a table column sum to 1 within each component.
        weights: (k,) shares of the components; they sum to 1.
        probabilities: (k, m).
    """

    kind = "products"

    def __init__(self, domain: Domain, weights: Tensor, probabilities: Tensor) -> None:
        self.domain = domain
        self.weights = weights.detach().double().cpu()
        self.probabilities = probabilities.detach().float().cpu()

    @property
    def components(self) -> int:
        """Their number k."""
        return len(self.weights)

    @property
    def architecture(self) -> dict[str, Any]:
        """What `from_state` needs beside the tensors and the domain."""
        return {"kind": self.kind, "components": self.components}

    def state(self) -> dict[str, Tensor]:
        """Every parameter."""
        return {"weights": self.weights, "probabilities": self.probabilities}

    @classmethod
    def from_state(
        cls, architecture: Mapping[str, Any], tensors: Mapping[str, Tensor], domain: Domain
    ) -> "Products":
        """Read a model back, trusting nothing.

        Raises:
            ArtefactError: a tensor is missing, unknown, misshapen, of another type, or not a probability.
        """
        components = architecture.get("components")
        if set(architecture) != {"kind", "components"} or architecture["kind"] != cls.kind:
            raise ArtefactError("the model is not a mixture of products; get the release again.")
        if not isinstance(components, int) or isinstance(components, bool) or not 1 <= components <= 100_000:
            raise ArtefactError("the model's number of components is not valid; get the release again.")
        expected = {
            "weights": ((components,), torch.float64),
            "probabilities": ((components, domain.width), torch.float32),
        }
        if set(tensors) != set(expected):
            raise ArtefactError("the model has missing or unknown tensors; get the release again.")
        for name, (shape, dtype) in expected.items():
            tensor = tensors[name]
            if tuple(tensor.shape) != shape or tensor.dtype != dtype:
                raise ArtefactError(f"the tensor {name!r} has another shape or type; get the release again.")
            if not bool(((tensor >= 0) & (tensor <= 1)).all()):  # false for NaN too
                raise ArtefactError(f"the tensor {name!r} holds values outside [0, 1]; get the release again.")
        model = cls(domain, tensors["weights"], tensors["probabilities"])
        sums = [model.weights.sum(dim=0, keepdim=True)]
        sums += [model.probabilities[:, column].double().sum(dim=1) for column in domain.table_columns]
        if any(bool(((total - 1).abs() > SHARES_OFF).any()) for total in sums):
            raise ArtefactError("the model holds shares that do not sum to 1; get the release again.")
        return model

    def sample(self, count: int, *, generator: torch.Generator) -> Records:
        """`count` records, stratified: components, items, and pairs of items appear as often as they should.

        Together they vary less than independent draws: the number of records of a component and the number of
        them that hold an item are fixed up to rounding, and which of the component's records hold the item is
        random, but for exchanges that bring the counts of pairs and triples nearer to the mixture's
        (`balanced`). Rounding goes through components that are alike one after the other, so that what
        one loses a similar one gains; where nothing is left to chance it is arranged so that items and pairs come
        out right (`evened`).
        """
        random = _random(generator)
        return self._draw(count, random.random(), random, balances=True)

    def sample_part(self, count: int, phase: float, *, generator: torch.Generator) -> Records:
        """`count` records of a larger sample that is drawn in parts, stratified but not balanced.

        If the phases of all parts are spread evenly over [0, 1), the rounding of components evens out over the parts.
        """
        return self._draw(count, phase, _random(generator), balances=False)

    def as_products(self) -> "Products":
        """Itself."""
        return self

    def samples_whole(self, count: int) -> bool:
        """Whether `count` records are few enough to be balanced, or to be rounded as a whole."""
        return count <= SAMPLING.balanced_records or self._evens_out(count)

    def _evens_out(self, count: int) -> bool:
        """Whether components leave nothing to chance and the sample is small enough to round it as a whole."""
        mean_length = float(self.weights @ self.probabilities.double().sum(dim=1))
        return self.deterministic and count * (1 + mean_length) <= SAMPLING.rounded_cells

    def _draw(self, count: int, phase: float, random: np.random.Generator, *, balances: bool) -> Records:
        order = self._neighbours()
        weights = self.weights.numpy()[order]
        expected = count * weights / weights.sum()
        sizes = rounded(expected, phase)
        if balances and self.deterministic:
            sizes = evened(expected, sizes, self.probabilities.numpy()[order] > 0.5, random)
        used = sizes > 0
        sizes, order = sizes[used], order[used]
        starts = np.cumsum(sizes) - sizes
        parts = [np.empty(0, dtype=np.int64)]
        for block in self.domain.blocks:
            probabilities = self.probabilities.numpy()[order, block.start : block.stop]
            if block.softmax:
                values = one_of_many(probabilities, sizes, random)
                parts.append(np.arange(count) * self.domain.width + block.start + values)
            else:
                places, items = subsets(probabilities, sizes, starts, random)
                parts.append(places * self.domain.width + block.start + items)
        keys = np.concatenate(parts)
        if balances:
            keys = balanced(self.domain, self.weights.numpy(), self.probabilities.numpy(), keys, sizes, random)
        places = keys // self.domain.width
        shuffled = random.permutation(count)  # place -> record
        keys = np.sort((shuffled[places] - places) * self.domain.width + keys)
        rows = keys // self.domain.width
        positions = keys - rows * self.domain.width
        indptr = np.zeros(count + 1, dtype=np.int64)
        np.cumsum(np.bincount(rows, minlength=count), out=indptr[1:])
        return Records(self.domain, indptr, positions.astype(index_dtype(self.domain.width)))

    @cached_property
    def deterministic(self) -> bool:
        """Whether there are few positions and all records of a component are alike."""
        certain = (self.probabilities == 0) | (self.probabilities == 1)
        return self.domain.width <= SAMPLING.certain_positions and bool(certain.all())

    def _neighbours(self) -> NDArray[np.int64]:
        """Components in the order of the items they are likely to hold, the most frequent items first."""
        frequent = np.argsort(-(self.weights @ self.probabilities.double()).numpy(), kind="stable")[
            : SAMPLING.sorted_by
        ]
        return np.lexsort((self.probabilities.numpy()[:, frequent[::-1]] > 0.5).T)


def joined(models: Sequence[Products]) -> Products:
    """The mixture of mixtures of one domain in equal shares: all of its moments are the means of theirs."""
    if len(models) == 1:
        return models[0]
    weights = torch.cat([model.weights for model in models]) / len(models)
    return Products(models[0].domain, weights, torch.cat([model.probabilities for model in models]))


def _random(generator: torch.Generator) -> np.random.Generator:
    return np.random.default_rng(int(torch.randint(2**62, (1,), generator=generator)))
