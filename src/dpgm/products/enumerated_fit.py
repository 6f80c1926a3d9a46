"""For a handful of items: a distribution over all 2^m records, fitted to the measured statistics.

Among all distributions the one that minimises (errors / noise)² + penalty x N x divergence from independent items. The
problem is convex; its solution is a log-linear model with one parameter per measured number, found by L-BFGS. Sums over
all records or all sets take m passes over the table. Post-processing: only released values enter.
"""

from collections.abc import Callable, Sequence
from typing import Protocol

import torch
from torch import Tensor

from dpgm.products.rules import RULES, EnumeratedRules


class TableTarget(Protocol):
    """Measured numbers, and the same numbers of a table of probabilities (see `statistics/enumerated_sets.py`)."""

    @property
    def values(self) -> Tensor:
        """What was measured."""
        ...

    @property
    def variances(self) -> Tensor:
        """Of the values."""
        ...

    @property
    def penalty(self) -> float:
        """How readily these numbers give way to independence."""
        ...

    def expected(self, chances: Tensor) -> Tensor:
        """The same numbers of a table, as shares."""
        ...

    def squares(self, chances: Tensor) -> Tensor:
        """The same for the squares of what is summed."""
        ...

    def scores(self, parameters: Tensor, cells: int) -> Tensor:
        """For every record the sum of parameters, each times what the record adds to its number."""
        ...


def fit_table(
    profile: Tensor,
    records: int,
    targets: Sequence[TableTarget],
    rules: EnumeratedRules = RULES.enumerated,
    *,
    progress: Callable[[float], None] | None = None,
) -> Tensor:
    """(2^m,) probabilities; bit j of a cell's number says whether it holds item j.

    Args:
        profile: (m,) share of the records that hold each item; the independent distribution to stay near.
        records: the public number of records.
        targets: what was measured.
        rules: tuned numbers.
        progress: is given the share of the work done.
    """
    width = len(profile)
    cells = torch.arange(2**width)
    start = torch.zeros(2**width, dtype=torch.float64)
    for item, share in enumerate(profile.double().clamp(1e-6, 1 - 1e-6)):
        start += torch.where((cells >> item) & 1 == 1, share.log(), (1 - share).log())
    counts = [len(part.values) for part in targets]
    values = torch.cat([part.values.double() for part in targets])
    variances = torch.cat([part.variances.double() for part in targets])
    penalties = torch.tensor([part.penalty for part in targets]).double()
    damping = penalties.repeat_interleave(torch.tensor(counts)) * variances / (2 * records)

    def table(parameters: Tensor) -> Tensor:
        score = start.clone()
        for part, parameter in zip(targets, torch.split(parameters, counts), strict=True):
            score += part.scores(parameter, len(cells))
        return score

    def moments(chances: Tensor) -> Tensor:
        return torch.cat([part.expected(chances) for part in targets])

    def spread(chances: Tensor) -> Tensor:
        """Variance of what each parameter multiplies: its own curvature."""
        squares = torch.cat([part.squares(chances) for part in targets])
        return (squares - moments(chances) ** 2).clamp(min=1 / records)

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
