"""A mixture of products given that a record is in one of some disjoint boxes.

Each component is restricted to each box and its weight is multiplied by the probability of the box; within a box
positions stay independent, so that the result is a mixture of products again.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from dpgm.data.domain import Domain
from dpgm.strategy.protocol import Box

_NEGLIGIBLE = 1e-12  # share of the total weight below which a component is dropped


def restrict(
    domain: Domain, weights: Tensor, probabilities: Tensor, boxes: Sequence[Box], most_cells: int
) -> tuple[Tensor, Tensor, float] | None:
    """Weights and probabilities of the restricted mixture, and the probability of the boxes; 0 leaves no component.

    None if the restricted mixture would have more than so many components x positions.
    """
    fields = zip(domain.fields, domain.blocks, strict=True)
    places = {field.name: (block.start, block.stop) for field, block in fields}
    inside = [weights * _probability(probabilities, box, places) for box in boxes]
    total = float(sum(float(one[one > 0].sum()) for one in inside))
    if not total > 0:
        return weights[:0], probabilities[:0], 0.0
    chosen = [torch.nonzero(one > _NEGLIGIBLE * total).flatten() for one in inside]
    if sum(len(one) for one in chosen) * domain.width > most_cells:
        return None
    kept = torch.cat([one[at] for one, at in zip(inside, chosen, strict=True)])
    parts = [_restricted(probabilities[at], box, places) for box, at in zip(boxes, chosen, strict=True)]
    return kept / kept.sum(), torch.cat(parts), total


_Places = dict[str, tuple[int, int]]


def _probability(probabilities: Tensor, box: Box, places: _Places) -> Tensor:
    """The probability of a box in every component."""
    probability = torch.ones(len(probabilities), dtype=torch.float64)
    for (name, item), mask in box.items():
        start, stop = places[name]
        if item < 0:
            block = probabilities[:, start:stop].double()
            share = block[:, torch.from_numpy(mask)].sum(dim=1) / block.sum(dim=1)
        else:
            present = probabilities[:, start + item].double()
            share = present * float(mask[1]) + (1 - present) * float(mask[0])
        probability = probability * share.clamp(min=0)
    return probability


def _restricted(probabilities: Tensor, box: Box, places: _Places) -> Tensor:
    """Position probabilities of components, conditioned on a box."""
    probabilities = probabilities.clone()
    for (name, item), mask in box.items():
        start, stop = places[name]
        if item < 0:
            block = probabilities[:, start:stop].double() * torch.from_numpy(mask).double()
            probabilities[:, start:stop] = (block / block.sum(dim=1, keepdim=True)).float()
        elif not mask.all():
            probabilities[:, start + item] = float(mask[1])
    return probabilities
