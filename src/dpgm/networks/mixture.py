"""A fitted mixture of k networks of one kind: what a release contains and samples are drawn from."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from dpgm.data.domain import Domain
from dpgm.data.records import Records, concatenate
from dpgm.data.rows import index_dtype, row_pointers
from dpgm.errors import ArtefactError
from dpgm.networks.model import Model
from dpgm.networks.rbm import RBM
from dpgm.networks.rules import LARGEST_WEIGHT, MOST_CLUSTERS, MOST_LATENT_POINTS
from dpgm.networks.vae import VAE
from dpgm.products.model import Products
from dpgm.products.rules import SAMPLING_RULES, SamplingRules
from dpgm.strategy.protocol import Box, check_shares, check_tensors, is_size

GENERATED_AT_ONCE = 4096  # records generated at a time: their logits stay in the cache


@dataclass(frozen=True, eq=False)
class Mixture:
    """k networks with parameters (k, P) and mixture weights (k,).

    RBMs may have their chains (k, n, m). VAEs may have, in place of the normal prior, latent points (k, n, latent) and
    shares of the points (k, n), which sum to 1 for every network.
    """

    model: Model
    parameters: Tensor
    weights: Tensor
    chains: Tensor | None = None
    points: Tensor | None = None
    point_shares: Tensor | None = None
    sampling: SamplingRules = SAMPLING_RULES  # of decoders at latent points

    @property
    def kind(self) -> str:
        """The network kind's name, such as "vae"."""
        return self.model.kind

    @property
    def domain(self) -> Domain:
        """The public domain of the records."""
        return self.model.domain

    @property
    def architecture(self) -> dict[str, object]:
        """Plain JSON values that determine the shapes of `state`."""
        sizes = {**self.model.architecture, "clusters": len(self.weights), "with_chains": self.chains is not None}
        return sizes if self.points is None else sizes | {"points": self.points.shape[1]}

    def state(self) -> dict[str, Tensor]:
        """All tensors, by name."""
        state = {"parameters": self.parameters, "weights": self.weights}
        if self.chains is not None:
            state["chains"] = self.chains.to(torch.uint8)
        if self.points is not None and self.point_shares is not None:
            state |= {"points": self.points, "point_shares": self.point_shares}
        return state

    @classmethod
    def from_state(
        cls,
        architecture: Mapping[str, Any],
        tensors: Mapping[str, Tensor],
        domain: Domain,
        networks: Sequence[type[Model]] = (VAE, RBM),
        sampling: SamplingRules = SAMPLING_RULES,
    ) -> "Mixture":
        """A mixture of one of the given network kinds, from an untrusted file.

        Raises:
            ArtefactError: names, shapes, types or values are not those of such a mixture.
        """
        sizes = dict(architecture)
        clusters, with_chains = sizes.pop("clusters", None), sizes.pop("with_chains", None)
        if not is_size(clusters, MOST_CLUSTERS):
            raise ArtefactError("the model's number of clusters is not valid; get the release again.")
        if not isinstance(with_chains, bool) or (with_chains and sizes.get("kind") != RBM.kind):
            raise ArtefactError("the model's architecture is not valid; get the release again.")
        points = sizes.pop("points", None)
        if points is not None and (sizes.get("kind") != VAE.kind or not is_size(points, MOST_LATENT_POINTS)):
            raise ArtefactError("the model's number of latent points is not valid; get the release again.")
        network = next((network for network in networks if network.kind == sizes.get("kind")), None)
        if network is None:
            raise ArtefactError("the release's kind of network is not known to this version of dpgm.")
        model = network.from_architecture(sizes, domain)
        expected: dict[str, tuple[tuple[int, ...], torch.dtype]] = {
            "parameters": ((clusters, model.layout.size), torch.float32),
            "weights": ((clusters,), torch.float32),
        }
        if with_chains:
            expected["chains"] = ((clusters, sizes["chains"], domain.width), torch.uint8)
        if points is not None:
            expected["points"] = ((clusters, points, sizes["latent"]), torch.float32)
            expected["point_shares"] = ((clusters, points), torch.float32)
        check_tensors(tensors, expected, -LARGEST_WEIGHT, LARGEST_WEIGHT)
        weights = tensors["weights"]
        for shares in (weights, tensors.get("point_shares", weights)):
            check_shares(shares)
        chains = tensors.get("chains")
        if chains is not None and bool((chains > 1).any()):
            raise ArtefactError("the model's chains are not zeros and ones.")
        return cls(
            model,
            tensors["parameters"],
            weights,
            None if chains is None else chains.float(),
            tensors.get("points"),
            tensors.get("point_shares"),
            sampling,
        )

    @cached_property
    def products(self) -> Products | None:
        """Decoders at latent points as the mixture of products that they are; None with the normal prior."""
        if self.points is None or self.point_shares is None or not isinstance(self.model, VAE):
            return None
        with torch.no_grad():
            logits = self.model.decode_all(self.parameters, self.points).flatten(0, 1)
        weights = (self.weights.double().unsqueeze(1) * self.point_shares).flatten()
        return Products(
            self.domain, weights / weights.sum(), self.model.outputs.probabilities(logits), self.sampling
        )

    def sample(self, count: int, *, generator: torch.Generator) -> Records:
        """`count` records in random order; the number from each network is drawn from the weights.

        Decoders at latent points are sampled as a mixture of products: stratified.
        """
        if self.products is not None:
            return self.products.sample(count, generator=generator)
        if count == 0:
            return Records.from_lists([], self.domain)
        weights, parts = self.weights.double().clamp(min=0), []
        which = torch.multinomial(weights, count, replacement=True, generator=generator)
        counts = torch.bincount(which, minlength=len(weights)).tolist()
        for s, number in enumerate(counts):
            chains = None if self.chains is None else self.chains[s : s + 1]
            for start in range(0, number, GENERATED_AT_ONCE):
                logits = self.model.generate(
                    self.parameters[s : s + 1], chains, min(GENERATED_AT_ONCE, number - start), generator=generator
                )
                columns, lengths = self.model.outputs.draw_sparse(logits, generator=generator)
                columns = columns.astype(index_dtype(self.domain.width), copy=False)
                parts.append(Records(self.domain, row_pointers(lengths), columns))
        drawn = concatenate(parts)
        if len(counts) == 1:
            return drawn
        # Records were generated network by network; restore the random order of `which`.
        places = np.argsort(which.numpy(), kind="stable")
        order = np.empty_like(places)
        order[places] = np.arange(count)
        return drawn.take(order)

    def conditioned(self, boxes: Sequence[Box]) -> tuple[Products | None, float] | None:
        """The mixture as products, if decoders have latent points, given a union of disjoint boxes."""
        return None if self.products is None else self.products.conditioned(boxes)

    def samples_whole(self, count: int) -> bool:
        """Whether `sample` arranges all records together: as products do, where decoders have latent points."""
        return self.products is not None and self.products.samples_whole(count)

    def sample_part(self, count: int, phase: float, *, generator: torch.Generator) -> Records:
        """`count` records of a larger sample that is drawn in parts."""
        if self.products is not None:
            return self.products.sample_part(count, phase, generator=generator)
        return self.sample(count, generator=generator)
