"""Fits a mixture of products to the measured statistics by gradient descent. Sees released values only, never data.

The loss is made of squared errors and of the divergence of components from the profile or, for tables, the entropy.
All have their gradients written out: few passes over the arrays. The entropy of a mixture of products is a lower bound
that is nearly tight: with C the component of a record X, H(X) = H(X | C) + I(X; C). The first term is exact; for the
second, the pairwise bound of Kolchinsky and Tracey (2017): minus the sum over components c of
w_c log(sum over d of w_d B(c, d)), where B(c, d), the Bhattacharyya coefficient of two components, is a product over
columns of sum_v sqrt(p_c(v) p_d(v)). Components that are alike count as one, so a fit may use as many as it likes at no
price.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import torch
from torch import Tensor

from dpgm.data.domain import Domain
from dpgm.products.model import Products
from dpgm.products.rules import RULES, DescentRules
from dpgm.statistics.record_lengths import LengthGroups
from dpgm.statistics.statistic import Expected, Scale, Target

_LEAST = 1e-9  # probabilities below are taken as this in logarithms
_LEAST_CHANCE, _LEAST_OVERLAP = 1e-12, 1e-30  # the same in the entropy


@dataclass(frozen=True)
class FitSettings:
    """Public settings of the fit."""

    components: int
    steps: int
    learning_rate: float = RULES.fit.learning_rate
    penalty: float = 0.0  # on the mutual information between component and record, per record
    # Chi-square per target to end with, by as much entropy as that allows; else there is `penalty`.
    misfit: float | None = None
    profile_rounds: int = RULES.fit.profile_rounds  # see `with_profile`, where there is a misfit
    descent: DescentRules = RULES.fit.descent


@dataclass(frozen=True)
class Targets:
    """What a generator should show, as far as it was measured, and how to fit it."""

    profile: (
        Tensor  # (m,) share of the records that hold each position; what components start from, and are pulled to
    )
    moments: Sequence[Target[Expected]]
    lengths: Target[LengthGroups] | None
    rule: FitSettings


class Components(NamedTuple):
    """A mixture of products as a function of parameters: free ones, or a decoder at latent points."""

    moved: Sequence[tuple[Tensor, float]]  # each with its learning rate as a share of the rule's
    mixture: Callable[[], tuple[Tensor, Tensor]]  # probabilities (k, m) and weights (k,), differentiable


def chances_of(domain: Domain, logits: Tensor) -> Tensor:
    """Probabilities (k, m) of logits (k, m): of an item each, and of the values of a table column together."""
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
    """A mixture of products whose statistics are near the targets; `progress` is given the share of the work done.

    The random start is drawn on the CPU; on another `device` results differ by rounding.
    """
    profile, rule = targets.profile, targets.rule
    logits = _start(domain, targets, generator).to(device).requires_grad_()
    weight_logits = torch.zeros(rule.components, device=device, requires_grad=True)

    def mixture() -> tuple[Tensor, Tensor]:
        return chances_of(domain, logits), torch.softmax(weight_logits, dim=0)

    components = Components([(logits, 1.0), (weight_logits, 1.0)], mixture)
    match_moments(components, domain, records, replace(targets, profile=profile.to(device)), progress=progress)
    with torch.no_grad():
        probabilities, weights = mixture()
    fitted = Products(domain, weights.cpu().double(), probabilities.cpu())
    return fitted if rule.misfit is None else with_profile(fitted, profile, rule.profile_rounds)


def with_profile(model: Products, profile: Tensor, rounds: int) -> Products:
    """The mixture with the shares of single values brought to those of the profile, in table columns.

    Within every column the probabilities of a value are multiplied by one factor in all components, and those of a
    component are brought to the sum 1 again, in turn; how columns depend on each other hardly changes.
    """
    weights, probabilities = model.weights.double(), model.probabilities.double()
    for column in model.domain.table_columns:
        chances, shares = probabilities[:, column], profile[column].double()
        for _ in range(rounds):
            chances = chances * (shares / (weights @ chances).clamp(min=1e-12))
            chances = chances / chances.sum(dim=1, keepdim=True)
        probabilities[:, column] = chances
    return Products(model.domain, model.weights, probabilities.float())


def match_moments(
    components: Components,
    domain: Domain,
    records: int,
    targets: Targets,
    *,
    progress: Callable[[float], None] | None = None,
) -> None:
    """Move the parameters of the components, in place, toward the targets; arguments as in `fit_moments`."""
    profile, rule, descent = targets.profile, targets.rule, targets.rule.descent
    free = None if domain.item_positions.all() else torch.tensor(domain.item_positions).to(profile)
    everything = [target.to(profile.device) for target in (*targets.moments, targets.lengths) if target is not None]
    log_profile, log_rest = profile.log(), (1 - profile).clamp(min=1e-6).log()
    optimizer = torch.optim.Adam(
        [{"params": [tensor]} for tensor, _ in components.moved], lr=rule.learning_rate, betas=descent.betas
    )
    scales: list[Scale] = []
    # Single values are left out of what entropy is judged by: they are brought to their shares in the end.
    numbers = sum(int(target.variances.isfinite().sum()) for target in everything if target.values.dim() > 1)
    entropy_weight = descent.entropy
    for step in range(rule.steps):
        rate = 0.5 * (1 + math.cos(math.pi * step / rule.steps)) * min(1.0, (step + 1) / descent.warm_up)
        for group, (_, share) in zip(optimizer.param_groups, components.moved, strict=True):
            group["lr"] = rule.learning_rate * rate * share
        done = min(1.0, step / (descent.tightened * rule.steps))
        probabilities, weights = components.mixture()
        if step % descent.refresh == 0:
            with torch.no_grad():
                scales = [target.scaling(probabilities) for target in everything]
        loss, misfit = probabilities.new_zeros(()), 0.0
        tolerance = descent.first_tolerance * (descent.tolerance / descent.first_tolerance) ** done
        adjusts = rule.misfit is not None and (step + 1) % descent.entropy_every == 0
        for target, scale in zip(everything, scales, strict=True):
            expected = target.statistic.expected(probabilities, weights, scale)
            precision = (tolerance * target.size).square_().add_(target.variances).reciprocal_()
            if adjusts and target.values.dim() > 1:
                misfit += float(squared_errors(expected.detach(), target.values, records, precision))
            loss = loss + squared_errors(expected, target.values, records, precision.mul_(target.emphasis))
        if rule.misfit is not None:
            if adjusts and done > descent.entropy_from:
                entropy_weight *= _adjustment(misfit / numbers, rule.misfit, descent)
            loss = loss - entropy_weight * records * entropy_bound(domain.table_columns, probabilities, weights)
        elif rule.penalty > 0:
            divergence = divergences(probabilities, log_profile, log_rest, free)
            loss = loss + rule.penalty * records * (weights * divergence).sum()
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        if progress is not None and step % 10 == 9:
            progress((step + 1) / rule.steps)


def _adjustment(misfit: float, target: float, descent: DescentRules) -> float:
    """The factor by which entropy weighs more where the targets are met too well, and less where they are not."""
    most = descent.entropy_most
    return math.exp(descent.entropy_pace * max(-most, min(most, 1 - misfit / target)))


def _start(domain: Domain, targets: Targets, generator: torch.Generator) -> Tensor:
    """Logits of components of different lengths: random sets where records are short, else random tilts."""
    profile, lengths, rule = targets.profile, targets.lengths, targets.rule
    descent, k, m, free = rule.descent, rule.components, domain.width, torch.tensor(domain.item_positions)
    items = torch.where(free, profile, torch.zeros(()))
    start = torch.logit(profile.clamp(1e-6, 1 - 1e-6)).expand(k, m)
    tilted = start + torch.randn(k, m, generator=generator)
    if lengths is not None:
        groups, values = torch.tensor(lengths.statistic.groups), lengths.values
        shares = (values / torch.bincount(groups, minlength=len(values)))[groups].clamp(min=0)
        shares = shares.cumsum(0) / shares.sum().clamp(min=1e-9)
        target_lengths = torch.searchsorted(shares, (torch.arange(k) + 0.5) / k).clamp(max=len(groups) - 1).float()
        mean = float(target_lengths.mean())
        if mean <= descent.short_records:
            drawn = torch.log(items.clamp(min=1e-12)) + _gumbel((k, m), generator)
            drawn[:, ~free] = -math.inf
            ranks = drawn.argsort(dim=1, descending=True).argsort(dim=1)
            share = descent.profile_share
            sets = share * profile + (1 - share) * (ranks < target_lengths[:, None])
            tilted = torch.logit(sets.clamp(1e-6, 1 - 1e-6))
        else:
            for _ in range(descent.length_rounds):  # shift each component to its length
                now = torch.sigmoid(tilted[:, free]).sum(dim=1)
                shift = ((target_lengths + 0.5) / (now + 0.5)).log()
                tilted[:, free] += shift[:, None]
        tilted[:, ~free] = start[:, ~free] + torch.randn(k, m, generator=generator)[:, ~free]
    for column in domain.table_columns:  # logits of a column are logarithms of shares
        shares = profile[column].log()
        tilted[:, column] = shares + torch.randn(k, len(shares), generator=generator)
    return tilted.clone()


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
        off = (predicted * records).sub_(values)
        pull = off * weights
        ctx.save_for_backward(pull)
        ctx.factor = 2.0 * records
        return (off.mul_(pull)).sum()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None, None]:  # type: ignore[override]
        (pull,) = ctx.saved_tensors
        return pull * (gradient * ctx.factor), None, None, None


def divergences(probabilities: Tensor, log_profile: Tensor, log_rest: Tensor, free: Tensor | None) -> Tensor:
    """(k,) Kullback-Leibler divergence of every component (k, m) from the profile (m,), in nats per record.

    Of the profile its logarithms are given, and those of one minus it; `free` is 1 for items and 0 for values of table
    columns, None where all are items.

    >>> profile = torch.tensor([0.5, 0.25])
    >>> found = divergences(torch.tensor([[0.5, 0.25], [1.0, 0.25]]), profile.log(), (1 - profile).log(), None)
    >>> [round(value, 3) for value in found.tolist()]
    [0.0, 0.693]
    """
    found: Tensor = _Divergences.apply(probabilities, log_profile, log_rest, free)  # type: ignore[no-untyped-call]
    return found


class _Divergences(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, probabilities: Tensor, log_profile: Tensor, log_rest: Tensor, free: Tensor | None
    ) -> Tensor:
        rest = (1 - probabilities).clamp_(min=_LEAST).log_().sub_(log_rest)
        if free is not None:
            rest.mul_(free)
        slope = probabilities.clamp(min=_LEAST).log_().sub_(log_profile).sub_(rest)
        # p a + (1 - p) b = p (a - b) + b
        divergence = rest.addcmul_(probabilities, slope).sum(dim=1)
        if free is not None:
            slope.add_(1 - free)  # of p log p alone; the two halves of an item cancel
        ctx.save_for_backward(slope)
        return divergence

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None, None]:  # type: ignore[override]
        (slope,) = ctx.saved_tensors
        return slope * gradient[:, None], None, None, None


def entropy_bound(columns: Sequence[slice], probabilities: Tensor, weights: Tensor) -> Tensor:
    """At most the entropy (nats per record) of a mixture of products (k, m) over table columns, of shares (k,).

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
        overlaps = [roots[:, column] @ roots[:, column].T for column in columns]
        overlap = overlaps[0].clone()
        for other in overlaps[1:]:
            overlap *= other
        reached = (overlap @ weights).clamp_(min=_LEAST_OVERLAP)
        ctx.columns = columns
        ctx.save_for_backward(probabilities, weights, logs, within, roots, overlap, reached, *overlaps)
        return (weights * (within - reached.log())).sum()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[None, Tensor, Tensor]:  # type: ignore[override]
        probabilities, weights, logs, within, roots, overlap, reached, *overlaps = ctx.saved_tensors
        drawn = weights / reached
        # Of -sum_c w_c log(sum_d w_d B(c, d)), by B(c, d) and B(d, c) together, since they are one number.
        pull = overlap * torch.outer(drawn, weights)
        pull += pull.T.clone()
        slopes = (logs + 1) * weights[:, None]
        for column, own in zip(ctx.columns, overlaps, strict=True):
            # by the roots, and of a root by its probability
            slopes[:, column] += ((pull / own) @ roots[:, column]) / (2 * roots[:, column])
        slopes *= probabilities >= _LEAST_CHANCE
        by_weights = within - reached.log() - overlap @ drawn
        return None, slopes.mul_(-gradient), by_weights * gradient
