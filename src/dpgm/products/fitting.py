"""Fits a mixture of products to the measured statistics by gradient descent. Sees released values only, never data."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import torch
from torch import Tensor

from dpgm.data.domain import Domain
from dpgm.products.loss import divergences, entropy_bound, squared_errors
from dpgm.products.model import Products
from dpgm.products.rules import RULES, DescentRules
from dpgm.statistics.record_lengths import LengthGroups
from dpgm.statistics.statistic import Expected, Scale, Target


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
    """What a generator should show, as far as it was measured, and how to fit it.

    Attributes:
        profile: (m,) share of the records that hold each position; the start, and what components are pulled to.
        moments: the measured moments; counts out of the public number of records.
        lengths: the measured record lengths, if any.
        rule: public settings.
    """

    profile: Tensor
    moments: Sequence[Target[Expected]]
    lengths: Target[LengthGroups] | None
    rule: FitSettings


class Components(Protocol):
    """A mixture of products as a function of parameters: free ones, or a decoder at latent points."""

    @property
    def parameters(self) -> Sequence[tuple[Tensor, float]]:
        """What is moved, each with its learning rate as a share of the rule's."""
        ...

    def probabilities(self) -> Tensor:
        """(components, m), differentiable."""
        ...

    def weights(self) -> Tensor:
        """(components,), differentiable."""
        ...


class _Parameters:
    """Logits of all positions and of the weights, and the probabilities they stand for."""

    def __init__(self, domain: Domain, logits: Tensor, weight_logits: Tensor) -> None:
        self.domain = domain
        self.logits = logits.requires_grad_()
        self.weight_logits = weight_logits.requires_grad_()

    def to(self, device: str) -> "_Parameters":
        return _Parameters(self.domain, self.logits.detach().to(device), self.weight_logits.detach().to(device))

    @property
    def parameters(self) -> Sequence[tuple[Tensor, float]]:
        return [(self.logits, 1.0), (self.weight_logits, 1.0)]

    def probabilities(self) -> Tensor:
        return chances_of(self.domain, self.logits)

    def weights(self) -> Tensor:
        return torch.softmax(self.weight_logits, dim=0)


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
    """A mixture of products whose statistics are near the targets.

    Args:
        domain: the public domain.
        records: the public number of records.
        targets: what was measured, and how to fit it.
        generator: source of the random start, which is drawn on the CPU.
        device: where to compute; results differ by rounding.
        progress: is given the share of the work done.
    """
    profile, rule = targets.profile, targets.rule
    model = _start(domain, targets, generator).to(device)
    match_moments(model, domain, records, replace(targets, profile=profile.to(device)), progress=progress)
    with torch.no_grad():
        fitted = Products(domain, model.weights().cpu().double(), model.probabilities().cpu())
    return fitted if rule.misfit is None else with_profile(fitted, profile, rule.profile_rounds)


def with_profile(model: Products, profile: Tensor, rounds: int) -> Products:
    """The mixture with the shares of single values brought to those of the profile, in table columns.

    Within every column the probabilities of a value are multiplied by one factor in all components, and those of a
    component are brought to the sum 1 again, in turn; how columns depend on each other hardly changes.

    Args:
        model: a mixture of products.
        profile: (m,) share of the records that hold each position; those of a column sum to 1.
        rounds: how often in turn.
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
    model: Components,
    domain: Domain,
    records: int,
    targets: Targets,
    *,
    progress: Callable[[float], None] | None = None,
) -> None:
    """Move the parameters of `model`, in place, toward the targets; arguments as in `fit_moments`."""
    profile, rule = targets.profile, targets.rule
    free = None if domain.item_positions.all() else torch.tensor(domain.item_positions).to(profile)
    descent = rule.descent
    measured = [*targets.moments, *([] if targets.lengths is None else [targets.lengths])]
    everything = [target.to(profile.device) for target in measured]
    log_profile, log_rest = profile.log(), (1 - profile).clamp(min=1e-6).log()
    optimizer = torch.optim.Adam(
        [{"params": [tensor]} for tensor, _ in model.parameters], lr=rule.learning_rate, betas=descent.betas
    )
    scales: list[Scale] = []
    # Single values are left out of what entropy is judged by: they are brought to their shares in the end.
    judged = [target.values.dim() > 1 for target in everything]
    numbers = sum(
        int(target.variances.isfinite().sum()) for target, one in zip(everything, judged, strict=True) if one
    )
    entropy_weight = descent.entropy
    for step in range(rule.steps):
        rate = 0.5 * (1 + math.cos(math.pi * step / rule.steps)) * min(1.0, (step + 1) / descent.warm_up)
        for group, (_, share) in zip(optimizer.param_groups, model.parameters, strict=True):
            group["lr"] = rule.learning_rate * rate * share
        done = min(1.0, step / (descent.tightened * rule.steps))
        probabilities, weights = model.probabilities(), model.weights()
        if step % descent.refresh == 0:
            with torch.no_grad():
                scales = [target.scaling(probabilities) for target in everything]
        loss = probabilities.new_zeros(())
        misfit = 0.0
        adjusts = (step + 1) % descent.entropy_every == 0
        for target, scale, in_misfit in zip(everything, scales, judged, strict=True):
            expected = target.statistic.expected(probabilities, weights, scale)
            tolerance = descent.first_tolerance * (descent.tolerance / descent.first_tolerance) ** done
            precision = (tolerance * target.size).square_().add_(target.variances).reciprocal_()
            if rule.misfit is not None and adjusts and in_misfit:
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


def _start(domain: Domain, targets: Targets, generator: torch.Generator) -> _Parameters:
    """Components of different lengths: random sets where records are short, random tilts of the profile else."""
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
    return _Parameters(domain, tilted.clone(), torch.zeros(k))


def _gumbel(shape: tuple[int, int], generator: torch.Generator) -> Tensor:
    uniform = torch.rand(shape, generator=generator).clamp(1e-9, 1 - 1e-7)
    return -torch.log(-torch.log(uniform))
