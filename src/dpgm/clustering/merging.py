"""Many released clusters into fewer: Ward's rule on noisy centres and sizes, post-processing."""

import math

import torch
from torch import Tensor


def merge_clusters(centers: Tensor, sizes: Tensor, clusters: int) -> tuple[Tensor, Tensor]:
    """Centres (k, d) and sizes (k,): again and again the two clusters whose union costs k-means least become one.

    A union of n and m records with centres at distance r raises the sum of squared distances by r^2 n m / (n + m).

    Args:
        centers: (k or more, d).
        sizes: (k or more,) positive.
        clusters: k; no more centres than that stay as they are.

    >>> centers = torch.tensor([[0.0], [1.0], [9.0]])
    >>> [each.tolist() for each in merge_clusters(centers, torch.tensor([3.0, 1.0, 2.0]), 2)]
    [[[0.25], [9.0]], [4.0, 2.0]]
    """
    centers, sizes = centers.clone(), sizes.clone()
    kept = torch.ones(len(centers), dtype=torch.bool)
    costs = torch.stack([_union_costs(centers, sizes, kept, each) for each in range(len(centers))])
    for _ in range(len(centers) - clusters):
        one, other = divmod(int(costs.argmin()), len(centers))
        union = sizes[one] + sizes[other]
        centers[one] = (sizes[one] * centers[one] + sizes[other] * centers[other]) / union
        sizes[one] = union
        kept[other] = False
        costs[other] = costs[:, other] = math.inf
        costs[one] = costs[:, one] = _union_costs(centers, sizes, kept, one)
    return centers[kept], sizes[kept]


def _union_costs(centers: Tensor, sizes: Tensor, kept: Tensor, one: int) -> Tensor:
    """What it costs to merge cluster `one` with each that is kept, (k,); infinite for itself and the others."""
    gaps = ((centers - centers[one]) ** 2).sum(dim=1)
    costs = gaps * sizes * sizes[one] / (sizes + sizes[one])
    costs[~kept] = math.inf
    costs[one] = math.inf
    return costs
