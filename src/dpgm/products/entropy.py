"""Entropy of a mixture of products: a lower bound that is nearly tight and differentiable.

With C the component of a record X, H(X) = H(X | C) + I(X; C). The first term is exact. For the second, the pairwise
bound of Kolchinsky and Tracey (2017): minus the sum over components c of w_c log(sum over d of w_d B(c, d)), where
B(c, d), the Bhattacharyya coefficient of two components, is a product over columns of sum_v sqrt(p_c(v) p_d(v)).
Components that are alike count as one, so a fit may use as many as it likes at no price.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

_LEAST = 1e-12  # probabilities below are taken as this
_LEAST_OVERLAP = 1e-30


def entropy_bound(columns: Sequence[slice], probabilities: Tensor, weights: Tensor) -> Tensor:
    """At most the entropy (nats per record) of a mixture of products over table columns.

    Args:
        columns: the positions of every column; in each component their probabilities sum to 1.
        probabilities: (k, m).
        weights: (k,) shares of the components.

    >>> two = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
    >>> round(float(entropy_bound([slice(0, 2)], two, torch.tensor([0.5, 0.5]))), 4)
    0.6931
    """
    chances = probabilities.clamp(min=_LEAST)
    within = -(weights * (chances * chances.log()).sum(dim=1)).sum()
    roots = chances.sqrt()
    overlap = torch.ones(len(weights), len(weights), device=weights.device)
    for column in columns:
        overlap = overlap * (roots[:, column] @ roots[:, column].T)
    between = -(weights * (overlap @ weights).clamp(min=_LEAST_OVERLAP).log()).sum()
    return within + between
