"""For a handful of items: a distribution over all 2^m records, fitted to the measured statistics.

Among all distributions the one that minimises (errors / noise)² + penalty x N x divergence from independent items. The
problem is convex; its solution is a log-linear model with one parameter per measured number, found by L-BFGS. Sums over
all records or all sets take m passes over the table. Post-processing: only released values enter.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from dpgm.products.rules import RULES, EnumeratedRules


@dataclass(frozen=True)
class SetSums:
    """Noisy sums, over the records, of the product of (x_i - offset_i) over the items of each set.

    Every possible record counts with its weight. With `weights` None, counts of the records that hold exactly the
    items of a set.
    """

    sets: Tensor  # (count,) bit masks
    values: Tensor
    variances: Tensor
    weights: Tensor | None  # (2^m,)
    offsets: Tensor | None = None  # (m,); None: zeros, so that the records that hold the set are counted
    penalty: float = RULES.enumerated.length_penalty  # how readily these numbers give way to independence


@dataclass(frozen=True)
class LengthCounts:
    """Noisy counts of records by group of lengths; `groups[n]` is the group of n items."""

    groups: Tensor
    values: Tensor
    variances: Tensor


def fit_table(
    profile: Tensor,
    records: int,
    targets: Sequence[SetSums],
    lengths: LengthCounts | None,
    rules: EnumeratedRules = RULES.enumerated,
    *,
    progress: Callable[[float], None] | None = None,
) -> Tensor:
    """(2^m,) probabilities; bit j of a cell's number says whether it holds item j.

    Args:
        profile: (m,) share of the records that hold each item; the independent distribution to stay near.
        records: the public number of records.
        targets: the measured sums.
        lengths: the measured counts of lengths, if any.
        rules: tuned numbers.
        progress: is given the share of the work done.
    """
    width = len(profile)
    cells = torch.arange(2**width)
    size = torch.zeros(2**width, dtype=torch.long)
    start = torch.zeros(2**width, dtype=torch.float64)
    for item, share in enumerate(profile.double().clamp(1e-6, 1 - 1e-6)):
        present = (cells >> item) & 1
        size += present
        start += torch.where(present == 1, share.log(), (1 - share).log())
    weights = [None if part.weights is None else part.weights.double() for part in targets]
    none = torch.zeros(width, dtype=torch.float64)
    offsets = [none if part.offsets is None else part.offsets.double() for part in targets]
    counts = [len(part.sets) for part in targets] + ([len(lengths.values)] if lengths is not None else [])
    values = torch.cat([part.values.double() for part in targets] + ([lengths.values.double()] if lengths else []))
    variances = torch.cat(
        [part.variances.double() for part in targets] + ([lengths.variances.double()] if lengths else [])
    )
    group = None if lengths is None else lengths.groups[size.clamp(max=len(lengths.groups) - 1)]
    penalties = [part.penalty for part in targets] + [rules.length_penalty] * (lengths is not None)
    damping = torch.tensor(penalties).double().repeat_interleave(torch.tensor(counts)) * variances / (2 * records)

    def table(parameters: Tensor) -> Tensor:
        parts = torch.split(parameters, counts)
        score = start.clone()
        for part, weight, offset, parameter in zip(targets, weights, offsets, parts, strict=False):
            placed = torch.zeros_like(start).index_add_(0, part.sets, parameter)
            score += placed if weight is None else weight * _sums_over_sets(placed, offset)
        return score if group is None else score + parts[-1][group]

    def moments(chances: Tensor) -> Tensor:
        shares = [
            (chances if weight is None else _sums_over_records(weight * chances, offset))[part.sets]
            for part, weight, offset in zip(targets, weights, offsets, strict=True)
        ]
        if group is not None:
            shares.append(torch.zeros(counts[-1], dtype=torch.float64).index_add_(0, group, chances))
        return torch.cat(shares)

    def spread(chances: Tensor) -> Tensor:
        """Variance of what each parameter multiplies: its own curvature."""
        means = moments(chances)
        squares = means.clone()
        for part, weight, offset, own in zip(targets, weights, offsets, torch.split(squares, counts), strict=False):
            if weight is not None:
                own[:] = _squares_over_records(weight**2 * chances, offset)[part.sets]
        return (squares - means**2).clamp(min=1 / records)

    parameters, chances = torch.zeros(len(values), dtype=torch.float64), start.softmax(0)
    for past, rounds in ((0, rules.rounds[0]), rules.rounds):
        # Scaled so that each parameter's curvature is near 1: at the start, and again where the first rounds led.
        scale = (spread(chances) + damping).rsqrt()

        def loss_and_slope(scaled: Tensor, scale: Tensor = scale) -> tuple[float, Tensor]:
            actual = scaled * scale
            score = table(actual)
            level = score.logsumexp(0)
            slope = scale * (moments((score - level).exp()) - values / records + damping * actual)
            return float(level - (actual * values).sum() / records + 0.5 * (damping * actual**2).sum()), slope

        def report(done: int, past: int = past) -> None:
            if progress is not None:
                progress((past + done) / sum(rules.rounds))

        parameters = scale * _minimise(loss_and_slope, parameters / scale, rounds, report, rules)
        score = table(parameters)
        chances = (score - score.logsumexp(0)).exp()
    return chances


def _minimise(
    loss_and_slope: Callable[[Tensor], tuple[float, Tensor]],
    point: Tensor,
    rounds: int,
    report: Callable[[int], None],
    rules: EnumeratedRules,
) -> Tensor:
    """L-BFGS with backtracking; the loss is smooth and convex."""
    loss, slope = loss_and_slope(point)
    steps: list[tuple[Tensor, Tensor, float]] = []
    for done in range(rounds):
        if float(slope.abs().max()) < rules.flat:
            break
        direction, factors = -slope, []
        for moved, turned, curvature in reversed(steps):
            factors.append(float(moved @ direction) / curvature)
            direction = direction - factors[-1] * turned
        if steps:
            moved, turned, curvature = steps[-1]
            direction = direction * (curvature / float(turned @ turned))
        for (moved, turned, curvature), factor in zip(steps, reversed(factors), strict=True):
            direction = direction + (factor - float(turned @ direction) / curvature) * moved
        fall = float(slope @ direction)
        length = 1.0 if steps else min(1.0, 1.0 / float(direction.norm()))
        for _ in range(rules.halvings):
            new_loss, new_slope = loss_and_slope(point + length * direction)
            if new_loss <= loss + rules.sufficient_decrease * length * fall:
                break
            length /= 2
        else:
            break
        moved, turned = length * direction, new_slope - slope
        curvature = float(moved @ turned)
        if curvature > 1e-14:
            steps = [*steps[-rules.history + 1 :], (moved, turned, curvature)]
        point, loss, slope = point + moved, new_loss, new_slope
        report(done + 1)
    return point


def _sums_over_records(values: Tensor, offsets: Tensor) -> Tensor:
    """For every set the sum over records, each times (x_i - offset_i) for every item of the set."""
    values = values.clone()
    for item, offset in enumerate(offsets.tolist()):
        halves = values.view(-1, 2, 2**item)
        halves[:, 0] += halves[:, 1]
        if offset:
            halves[:, 1] -= offset * halves[:, 0]
    return values


def _squares_over_records(values: Tensor, offsets: Tensor) -> Tensor:
    """For every set the sum over records, each times (x_i - offset_i)² for every item of the set."""
    values = values.clone()
    for item, offset in enumerate(offsets.tolist()):
        halves = values.view(-1, 2, 2**item)
        without = halves[:, 0].clone()
        halves[:, 0] += halves[:, 1]
        halves[:, 1] = (1 - offset) ** 2 * halves[:, 1] + offset**2 * without
    return values


def _sums_over_sets(values: Tensor, offsets: Tensor) -> Tensor:
    """For every record the sum over sets, each times (x_i - offset_i) for every item of the set; in place."""
    for item, offset in enumerate(offsets.tolist()):
        halves = values.view(-1, 2, 2**item)
        if offset:
            halves[:, 0] -= offset * halves[:, 1]
        halves[:, 1] += halves[:, 0]
    return values
