"""Fits a mixture of products to target statistics by gradient descent (Adam). Sees released values only, never data.

The loss is the sum of the squared errors and of one regulariser: the divergence of the components from the profile or,
for tables, minus the entropy. Gradients are written out, which takes fewer passes over the arrays than autograd.

The entropy of a mixture of products is replaced by a lower bound that is nearly tight. With C the component of a record
X, H(X) = H(X | C) + I(X; C). The first term is exact; the second has the pairwise bound of Kolchinsky and Tracey
(2017): minus the sum over components c of w_c log(sum over d of w_d B(c, d)), where B(c, d), the Bhattacharyya
coefficient of two components, is a product over columns of sum_v sqrt(p_c(v) p_d(v)). Identical components count as
one, so more components than needed cost nothing.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import torch
from torch import Tensor

from dpgm.data.domain import Domain
from dpgm.products.model import Products
from dpgm.products.rules import PRODUCT_RULES, DescentRules, SamplingRules
from dpgm.statistics.record_lengths import LengthGroups
from dpgm.statistics.statistic import Expected, ScaleTerms, Target

_LEAST = 1e-9  # probabilities are raised to this in logarithms
_LEAST_CHANCE, _LEAST_OVERLAP = 1e-12, 1e-30  # the same in the entropy


@dataclass(frozen=True)
class FitSettings:
    """Public settings of the fit."""

    components: int
    steps: int
    learning_rate: float = PRODUCT_RULES.fit.learning_rate
    penalty: float = 0.0  # on the mutual information between component and record, per record
    # Chi-square per target that the fit should end with, by raising the entropy; None: use `penalty` instead.
    misfit: float | None = None
    profile_rounds: int = PRODUCT_RULES.fit.profile_rounds  # rounds of `with_profile`, run where there is a misfit
    descent: DescentRules = PRODUCT_RULES.fit.descent
    sampling: SamplingRules = PRODUCT_RULES.sampling


@dataclass(frozen=True)
class Targets:
    """The statistics that a generator should reproduce, and how to fit it."""

    profile: Tensor  # (m,) share of the records that hold each position; components start from it
    moments: Sequence[Target[Expected]]
    lengths: Target[LengthGroups] | None
    settings: FitSettings


class Components(NamedTuple):
    """A mixture of products as a function of parameters: its own logits, or a decoder at latent points."""

    parameters: Sequence[tuple[Tensor, float]]  # each with a factor on the learning rate
    mixture: Callable[[], tuple[Tensor, Tensor]]  # probabilities (k, m) and weights (k,), differentiable


def chances_of(domain: Domain, logits: Tensor) -> Tensor:
    """Probabilities (k, m) from logits (k, m): a sigmoid per item, a softmax per table column."""
    parts, at = [], 0
    for column in domain.table_columns:
        parts.append(torch.sigmoid(logits[:, at : column.start]))
        parts.append(torch.softmax(logits[:, column], dim=1))
        at = column.stop
    if not parts:
        return torch.sigmoid(logits)
    return torch.cat([*parts, torch.sigmoid(logits[:, at:])], dim=1)


def fit_moments(
    domain: Domain,
    records: int,
    targets: Targets,
    *,
    generator: torch.Generator,
    device: str = "cpu",
    progress: Callable[[float], None] | None = None,
) -> Products:
    """A mixture of products whose statistics are near the targets; `progress` receives the share of the work done.

    The random start is drawn on the CPU; on another `device` results differ by rounding.
    """
    profile, settings = targets.profile, targets.settings
    logits = _start(domain, targets, generator).to(device).requires_grad_()
    weight_logits = torch.zeros(settings.components, device=device, requires_grad=True)

    def mixture() -> tuple[Tensor, Tensor]:
        return chances_of(domain, logits), torch.softmax(weight_logits, dim=0)

    components = Components([(logits, 1.0), (weight_logits, 1.0)], mixture)
    match_moments(components, domain, records, replace(targets, profile=profile.to(device)), progress=progress)
    with torch.no_grad():
        probabilities, weights = mixture()
    fitted = Products(domain, weights.cpu().double(), probabilities.cpu(), settings.sampling)
    return fitted if settings.misfit is None else with_profile(fitted, profile, settings.profile_rounds)


def with_profile(model: Products, profile: Tensor, rounds: int) -> Products:
    """Adjust the table columns of a mixture so that its single values have the frequencies of the profile.

    Iterative proportional fitting: in turn, the probabilities of a value are multiplied by one factor in all
    components, and each component is normalised again. The dependence between columns hardly changes.
    """
    weights, probabilities = model.weights.double(), model.probabilities.double()
    for column in model.domain.table_columns:
        chances, shares = probabilities[:, column], profile[column].double()
        for _ in range(rounds):
            chances = chances * (shares / (weights @ chances).clamp(min=1e-12))
            chances = chances / chances.sum(dim=1, keepdim=True)
        probabilities[:, column] = chances
    return model.with_components(model.weights, probabilities.float())


def match_moments(
    components: Components,
    domain: Domain,
    records: int,
    targets: Targets,
    *,
    progress: Callable[[float], None] | None = None,
) -> None:
    """Fit the parameters of the components to the targets, in place; arguments as in `fit_moments`."""
    profile, settings, descent = targets.profile, targets.settings, targets.settings.descent
    is_item = None if domain.item_positions.all() else torch.tensor(domain.item_positions).to(profile)
    everything = [target.to(profile.device) for target in (*targets.moments, targets.lengths) if target is not None]
    log_profile, log_rest = profile.log(), (1 - profile).clamp(min=1e-6).log()
    optimizer = torch.optim.Adam(
        [{"params": [tensor]} for tensor, _ in components.parameters],
        lr=settings.learning_rate,
        betas=descent.betas,
    )
    scales: list[ScaleTerms] = []
    # The misfit is computed over matrices of pairs: `with_profile` corrects single values at the end anyway.
    pairs = sum(int(target.variances.isfinite().sum()) for target in everything if target.values.dim() > 1)
    entropy_weight = descent.entropy
    for step in range(settings.steps):
        rate = 0.5 * (1 + math.cos(math.pi * step / settings.steps)) * min(1.0, (step + 1) / descent.warm_up)
        for group, (_, factor) in zip(optimizer.param_groups, components.parameters, strict=True):
            group["lr"] = settings.learning_rate * rate * factor
        done = min(1.0, step / (descent.tightened * settings.steps))
        probabilities, weights = components.mixture()
        if step % descent.refresh == 0:
            with torch.no_grad():
                scales = [target.scaling(probabilities) for target in everything]
        loss, misfit = probabilities.new_zeros(()), 0.0
        tolerance = descent.first_tolerance * (descent.tolerance / descent.first_tolerance) ** done
        adjusts = settings.misfit is not None and (step + 1) % descent.entropy_every == 0
        for target, scale in zip(everything, scales, strict=True):
            expected = target.statistic.expected(probabilities, weights, scale)
            precision = (tolerance * target.size).square_().add_(target.variances).reciprocal_()
            if adjusts and target.values.dim() > 1:
                misfit += float(squared_errors(expected.detach(), target.values, records, precision))
            loss = loss + squared_errors(expected, target.values, records, precision.mul_(target.emphasis))
        if settings.misfit is not None:
            if adjusts and done > descent.entropy_from:
                entropy_weight *= _entropy_factor(misfit / pairs, settings.misfit, descent)
            loss = loss - entropy_weight * records * entropy_bound(domain.table_columns, probabilities, weights)
        elif settings.penalty > 0:
            divergence = divergences(probabilities, log_profile, log_rest, is_item)
            loss = loss + settings.penalty * records * (weights * divergence).sum()
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        if progress is not None and step % 10 == 9:
            progress((step + 1) / settings.steps)


def _entropy_factor(misfit: float, target: float, descent: DescentRules) -> float:
    """Raises the weight of the entropy where the pairs are fitted too closely, and lowers it where they are not."""
    most = descent.entropy_most
    return math.exp(descent.entropy_pace * max(-most, min(most, 1 - misfit / target)))


def _start(domain: Domain, targets: Targets, generator: torch.Generator) -> Tensor:
    """Logits of components with different lengths: random sets if records are short, else a perturbed profile."""
    profile, lengths, settings = targets.profile, targets.lengths, targets.settings
    descent, k, m, is_item = (
        settings.descent,
        settings.components,
        domain.width,
        torch.tensor(domain.item_positions),
    )
    profile_logits = torch.logit(profile.clamp(1e-6, 1 - 1e-6)).expand(k, m)
    start = profile_logits + torch.randn(k, m, generator=generator)
    if lengths is not None:
        target_lengths = _component_lengths(lengths, k)
        if float(target_lengths.mean()) <= descent.short_records:
            items = torch.where(is_item, profile, torch.zeros(()))
            keys = torch.log(items.clamp(min=1e-12)) + _gumbel((k, m), generator)  # the largest are a random set
            keys[:, ~is_item] = -math.inf
            ranks = keys.argsort(dim=1, descending=True).argsort(dim=1)
            share = descent.profile_share
            sets = share * profile + (1 - share) * (ranks < target_lengths[:, None])
            start = torch.logit(sets.clamp(1e-6, 1 - 1e-6))
        else:
            for _ in range(descent.length_rounds):  # shift each component to its length
                now = torch.sigmoid(start[:, is_item]).sum(dim=1)
                shift = ((target_lengths + 0.5) / (now + 0.5)).log()
                start[:, is_item] += shift[:, None]
        start[:, ~is_item] = profile_logits[:, ~is_item] + torch.randn(k, m, generator=generator)[:, ~is_item]
    for column in domain.table_columns:  # logits of a column are logarithms of shares
        shares = profile[column].log()
        start[:, column] = shares + torch.randn(k, len(shares), generator=generator)
    return start.clone()


def _component_lengths(lengths: Target[LengthGroups], k: int) -> Tensor:
    """(k,) record lengths at evenly spaced quantiles of the measured distribution."""
    groups, counts = torch.tensor(lengths.statistic.groups), lengths.values
    shares = (counts / torch.bincount(groups, minlength=len(counts)))[groups].clamp(min=0)
    cumulative = shares.cumsum(0) / shares.sum().clamp(min=1e-9)
    quantiles = (torch.arange(k) + 0.5) / k
    return torch.searchsorted(cumulative, quantiles).clamp(max=len(groups) - 1).float()


def _gumbel(shape: tuple[int, int], generator: torch.Generator) -> Tensor:
    uniform = torch.rand(shape, generator=generator).clamp(1e-9, 1 - 1e-7)
    return -torch.log(-torch.log(uniform))


# -- the terms of the loss -----------------------------------------------------------------------------------------


def squared_errors(predicted: Tensor, values: Tensor, records: int, weights: Tensor) -> Tensor:
    """Sum of weight x (records x predicted - value)², differentiable in `predicted`.

    >>> float(squared_errors(torch.tensor([0.5]), torch.tensor([3.0]), 10, torch.tensor([0.25])))
    1.0
    """
    total: Tensor = _SquaredErrors.apply(predicted, values, records, weights)  # type: ignore[no-untyped-call]
    return total


class _SquaredErrors(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, predicted: Tensor, values: Tensor, records: int, weights: Tensor) -> Tensor:
        errors = (predicted * records).sub_(values)
        weighted = errors * weights
        ctx.save_for_backward(weighted)
        ctx.factor = 2.0 * records
        return (errors.mul_(weighted)).sum()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None, None]:  # type: ignore[override]
        (weighted,) = ctx.saved_tensors
        return weighted * (gradient * ctx.factor), None, None, None


def divergences(probabilities: Tensor, log_profile: Tensor, log_rest: Tensor, is_item: Tensor | None) -> Tensor:
    """(k,) Kullback-Leibler divergence of every component (k, m) from the profile (m,), in nats per record.

    `log_profile` and `log_rest` are the logarithms of the profile and of one minus it; `is_item` is 1 for items and 0
    for values of table columns, None where all positions are items.

    >>> profile = torch.tensor([0.5, 0.25])
    >>> found = divergences(torch.tensor([[0.5, 0.25], [1.0, 0.25]]), profile.log(), (1 - profile).log(), None)
    >>> [round(value, 3) for value in found.tolist()]
    [0.0, 0.693]
    """
    found: Tensor = _Divergences.apply(probabilities, log_profile, log_rest, is_item)  # type: ignore[no-untyped-call]
    return found


class _Divergences(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, probabilities: Tensor, log_profile: Tensor, log_rest: Tensor, is_item: Tensor | None
    ) -> Tensor:
        rest = (1 - probabilities).clamp_(min=_LEAST).log_().sub_(log_rest)
        if is_item is not None:
            rest.mul_(is_item)
        slope = probabilities.clamp(min=_LEAST).log_().sub_(log_profile).sub_(rest)
        # p a + (1 - p) b = p (a - b) + b
        divergence = rest.addcmul_(probabilities, slope).sum(dim=1)
        if is_item is not None:
            slope.add_(1 - is_item)  # the derivative of p log p; for items the two halves cancel
        ctx.save_for_backward(slope)
        return divergence

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None, None]:  # type: ignore[override]
        (slope,) = ctx.saved_tensors
        return slope * gradient[:, None], None, None, None


def entropy_bound(columns: Sequence[slice], probabilities: Tensor, weights: Tensor) -> Tensor:
    """Lower bound of the entropy (nats per record) of a mixture of products (k, m) with weights (k,) over columns.

    >>> two = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
    >>> round(float(entropy_bound([slice(0, 2)], two, torch.tensor([0.5, 0.5]))), 4)
    0.6931
    """
    bound: Tensor = _EntropyBound.apply(columns, probabilities, weights)  # type: ignore[no-untyped-call]
    return bound


class _EntropyBound(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, columns: Sequence[slice], probabilities: Tensor, weights: Tensor) -> Tensor:
        chances = probabilities.clamp(min=_LEAST_CHANCE)
        logs = chances.log()
        within = -(chances * logs).sum(dim=1)
        roots = chances.sqrt_()
        overlaps = [roots[:, column] @ roots[:, column].T for column in columns]  # B(c, d), column by column
        overlap = overlaps[0].clone()
        for other in overlaps[1:]:
            overlap *= other
        mixed = (overlap @ weights).clamp_(min=_LEAST_OVERLAP)
        ctx.columns = columns
        ctx.save_for_backward(probabilities, weights, logs, within, roots, overlap, mixed, *overlaps)
        return (weights * (within - mixed.log())).sum()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[None, Tensor, Tensor]:  # type: ignore[override]
        probabilities, weights, logs, within, roots, overlap, mixed, *overlaps = ctx.saved_tensors
        ratio = weights / mixed
        # Derivative of sum_c w_c log(sum_d w_d B(c, d)) by log B(c, d), which is the same number as log B(d, c).
        by_overlap = overlap * torch.outer(ratio, weights)
        by_overlap += by_overlap.T.clone()
        slopes = (logs + 1) * weights[:, None]
        for column, own in zip(ctx.columns, overlaps, strict=True):
            # chain rule: from the overlap to the roots, from a root to its probability
            slopes[:, column] += ((by_overlap / own) @ roots[:, column]) / (2 * roots[:, column])
        slopes *= probabilities >= _LEAST_CHANCE
        by_weights = within - mixed.log() - overlap @ ratio
        return None, slopes.mul_(-gradient), by_weights * gradient
