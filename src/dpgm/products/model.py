"""A mixture of products: k components, each with independent items and independent table columns.

Components have no latent variable; all dependence between items comes from the choice of the component. Moments are
exact, and `sampling.py` draws records. Post-processing.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from dpgm.data.domain import Domain
from dpgm.data.records import Records
from dpgm.errors import ArtefactError
from dpgm.products.conditions import restrict
from dpgm.products.rules import MOST_COMPONENTS, SAMPLING_RULES, SamplingRules
from dpgm.products.sampling import draw_records, drawn_at_once
from dpgm.strategy.protocol import Box, check_shares, check_tensors, is_size


class Products:
    """Weights of the components and, for each, the probability of every position.

    Args:
        domain: the public domain; the probabilities of a table column sum to 1 within each component.
        weights: (k,) shares of the components; they sum to 1.
        probabilities: (k, m).
        sampling: how samples are drawn.
    """

    kind = "products"

    def __init__(
        self,
        domain: Domain,
        weights: Tensor,
        probabilities: Tensor,
        sampling: SamplingRules = SAMPLING_RULES,
    ) -> None:
        self.domain = domain
        self.sampling = sampling
        self.weights = weights.detach().double().cpu()
        self.probabilities = probabilities.detach().float().cpu()

    @property
    def components(self) -> int:
        """The number k of components."""
        return len(self.weights)

    @property
    def architecture(self) -> dict[str, Any]:
        """Plain values that `from_state` needs besides the tensors and the domain."""
        return {"kind": self.kind, "components": self.components}

    def state(self) -> dict[str, Tensor]:
        """All parameters by name."""
        return {"weights": self.weights, "probabilities": self.probabilities}

    @classmethod
    def from_state(
        cls,
        architecture: Mapping[str, Any],
        tensors: Mapping[str, Tensor],
        domain: Domain,
        sampling: SamplingRules = SAMPLING_RULES,
    ) -> "Products":
        """Restore a model from an untrusted file.

        Raises:
            ArtefactError: a tensor is missing, unknown, misshapen, of another type, or not a probability.
        """
        components = architecture.get("components")
        if set(architecture) != {"kind", "components"} or architecture["kind"] != cls.kind:
            raise ArtefactError("the model is not a mixture of products; get the release again.")
        if not is_size(components, MOST_COMPONENTS):
            raise ArtefactError("the model's number of components is not valid; get the release again.")
        expected = {
            "weights": ((components,), torch.float64),
            "probabilities": ((components, domain.width), torch.float32),
        }
        check_tensors(tensors, expected, 0, 1)
        weights, probabilities = tensors["weights"], tensors["probabilities"]
        for shares in (weights, *(probabilities[:, column] for column in domain.table_columns)):
            check_shares(shares)
        return cls(domain, weights, probabilities, sampling)

    def sample(self, count: int, *, generator: torch.Generator) -> Records:
        """`count` records, stratified and balanced: counts of items and pairs are near their expectations."""
        random = _random(generator)
        return self._drawn(count, random.random(), random, balance=True)

    def sample_part(self, count: int, phase: float, *, generator: torch.Generator) -> Records:
        """`count` records of a larger sample that is drawn in parts, stratified but not balanced.

        If the phases of all parts are spread evenly over [0, 1), the rounding errors of component sizes cancel.
        """
        return self._drawn(count, phase, _random(generator), balance=False)

    def _drawn(self, count: int, phase: float, random: np.random.Generator, *, balance: bool) -> Records:
        return draw_records(
            self.domain,
            self.weights,
            self.probabilities,
            count,
            phase,
            random,
            self.sampling,
            balance=balance,
        )

    def conditioned(self, boxes: Sequence[Box]) -> "tuple[Products | None, float] | None":
        """The mixture given a union of disjoint boxes, exactly: a mixture of products again."""
        found = restrict(self.domain, self.weights, self.probabilities, boxes, self.sampling.conditioned_cells)
        if found is None:
            return None
        weights, probabilities, total = found
        return (self.with_components(weights, probabilities) if total > 0 else None), total

    def with_components(self, weights: Tensor, probabilities: Tensor) -> "Products":
        """A mixture of other components, sampled in the same way."""
        return Products(self.domain, weights, probabilities, self.sampling)

    def samples_whole(self, count: int) -> bool:
        """Whether a sample of `count` records should be drawn at once, since it is balanced or rounded as a whole."""
        return drawn_at_once(self.weights, self.probabilities, count, self.sampling)


def joined(models: Sequence[Products]) -> Products:
    """The average of several mixtures over one domain; its moments are the means of theirs."""
    if len(models) == 1:
        return models[0]
    weights = torch.cat([model.weights for model in models]) / len(models)
    return models[0].with_components(weights, torch.cat([model.probabilities for model in models]))


def _random(generator: torch.Generator) -> np.random.Generator:
    return np.random.default_rng(int(torch.randint(2**62, (1,), generator=generator)))
