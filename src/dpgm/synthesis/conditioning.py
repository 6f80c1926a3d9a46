"""A mixture of products given that its records lie in certain boxes: exact, without any rejection.

Each component is cut to each box: its weight is multiplied by the probability of the box, and within the box positions
stay independent. So the conditioned mixture is a mixture of products again.
"""

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from dpgm.products.model import Products
from dpgm.strategy.protocol import ProductMixture
from dpgm.synthesis.boxes import Box

MOST_CELLS = 60_000_000  # components x positions of a conditioned mixture; beyond, memory would be the limit
_NEGLIGIBLE = 1e-12  # weight of a component relative to all that are left


def conditioned(products: ProductMixture, boxes: Sequence[Box]) -> tuple[Products | None, float]:
    """The mixture given that records lie in one of the disjoint boxes, and the probability that they do.

    The mixture is None where that probability is 0, or where the mixture would not fit into memory (then the
    probability is NaN).
    """
    weights, kept = [], []
    for box in boxes:
        inside = products.weights * _chance(products, box)
        chosen = torch.nonzero(inside > 0).flatten()
        weights.append(inside[chosen])
        kept.append(chosen)
    total = float(sum(float(one.sum()) for one in weights))
    if not total > 0:
        return None, 0.0
    chosen_by_box = []
    for one, chosen in zip(weights, kept, strict=True):
        large = one > _NEGLIGIBLE * total
        chosen_by_box.append((one[large], chosen[large]))
    if sum(len(one) for one, _ in chosen_by_box) * products.domain.width > MOST_CELLS:
        return None, math.nan
    parts = [_cut(products, box, chosen) for box, (_, chosen) in zip(boxes, chosen_by_box, strict=True)]
    joined = torch.cat([one for one, _ in chosen_by_box])
    return Products(products.domain, joined / joined.sum(), torch.cat(parts)), total


def _places(products: ProductMixture) -> dict[str, tuple[int, int]]:
    domain = products.domain
    return {
        field.name: (block.start, block.stop) for field, block in zip(domain.fields, domain.blocks, strict=True)
    }


def _chance(products: ProductMixture, box: Box) -> Tensor:
    """The probability of a box in every component."""
    places = _places(products)
    chance = torch.ones(products.components, dtype=torch.float64)
    for (name, item), mask in box.items():
        start, stop = places[name]
        if item < 0:
            block = products.probabilities[:, start:stop].double()
            share = block[:, torch.from_numpy(mask)].sum(dim=1) / block.sum(dim=1)
        else:
            present = products.probabilities[:, start + item].double()
            share = present * float(mask[1]) + (1 - present) * float(mask[0])
        chance = chance * share.clamp(min=0)
    return chance


def _cut(products: ProductMixture, box: Box, chosen: Tensor) -> Tensor:
    """Probabilities of the chosen components within a box."""
    places = _places(products)
    probabilities = products.probabilities[chosen].clone()
    for (name, item), mask in box.items():
        start, stop = places[name]
        if item < 0:
            block = probabilities[:, start:stop].double() * torch.from_numpy(mask).double()
            probabilities[:, start:stop] = (block / block.sum(dim=1, keepdim=True)).float()
        elif not mask.all():
            probabilities[:, start + item] = float(mask[1])
    return probabilities
