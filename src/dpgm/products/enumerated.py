"""Few items: all 2^m possible records are enumerated, sets are measured centred, and the fit is a convex problem.

Among all distributions over the 2^m records `fit_table` finds the one that minimises (errors / noise)² + penalty x N x
divergence from independent items. Its solution is a log-linear model with one parameter per measured number, found by
L-BFGS. Sums over all records or all sets take m passes over the table. Post-processing: only released values enter.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from dpgm.data.domain import Domain
from dpgm.mechanisms.gateway import Gateway
from dpgm.products.model import Products
from dpgm.products.rules import RULES, EnumeratedRules, ProductRules
from dpgm.statistics.enumerated_sets import EnumeratedSets, LengthCounts, TableTarget, enumerated_profile, set_sums
from dpgm.statistics.item_tuples import NAMES
from dpgm.statistics.record_lengths import LENGTHS, Known, RecordLengths
from dpgm.statistics.statistic import Floats, Measured, ask


def is_enumerated(domain: Domain, rules: EnumeratedRules) -> bool:
    """Whether all possible records are enumerated: the domain has few items, and items alone."""
    return domain.width <= rules.widest and not domain.table_columns


@dataclass(frozen=True)
class EnumeratedMeasurements:
    """Everything that was released: record lengths, and centred sums of items, pairs and larger sets."""

    known: Known
    profile: Floats  # share of the records that hold each item
    sums: tuple[Measured[EnumeratedSets], ...]


def measure_enumerated(
    gateway: Gateway, domain: Domain, records: int, noises: Mapping[str, float], rules: ProductRules
) -> EnumeratedMeasurements:
    """Release every statistic the plan pays for; arguments as in `measure`."""
    known = Known.read(ask(gateway, RecordLengths(domain), noises[LENGTHS]), domain, records, rules)
    # Before anything is known of the items, each is as frequent as the mean length says.
    least, mean = rules.enumerated.least_frequency, known.items @ np.arange(len(known.items))
    profile = np.full(domain.width, np.clip(mean / domain.width, least, 1 - least))
    sums: list[Measured[EnumeratedSets]] = []
    for order in (order for order in NAMES if NAMES[order] in noises):
        noise, whole = noises[NAMES[order]], order in rules.enumerated.whole_orders
        sums.append(ask(gateway, EnumeratedSets.choose(order, profile, known, noise, whole=whole), noise))
        if order == 1:
            profile = enumerated_profile(sums[0], known)
    return EnumeratedMeasurements(known, profile, tuple(sums))


def fit_enumerated(
    measured: EnumeratedMeasurements, rules: ProductRules, *, progress: Callable[[float], None] | None = None
) -> Products:
    """The records that are likely to occur become components of one record each. Post-processing."""
    domain, records, seen = measured.known.domain, measured.known.records, measured.known.lengths
    assert seen is not None
    targets: list[TableTarget] = []
    for released in measured.sums:
        penalty = _penalty(released.statistic.order, released.std, records, rules)
        targets += set_sums(released, penalty, rules.enumerated.whole_penalty)
    targets.append(LengthCounts.of(seen, domain.width, rules.enumerated.length_penalty))
    profile = torch.from_numpy(measured.profile).float()
    chances = fit_table(profile, records, targets, rules.enumerated, progress=progress)
    chosen = chances.argsort(descending=True)[: rules.enumerated.most_records]
    chosen = chosen[chances[chosen] > rules.enumerated.least_share / records]
    weights = chances[chosen] / chances[chosen].sum()
    present = (chosen[:, None] >> torch.arange(domain.width)) & 1
    return Products(domain, weights, present.float())


def _penalty(order: int, std: float, records: int, rules: ProductRules) -> float:
    """The noisier compared with what matters, the readier these counts give way to what the others imply."""
    least, most = rules.enumerated.least_penalty[order - 1], rules.enumerated.most_penalty[order - 1]
    return float(np.clip(std / (rules.sanity * records), least, most))


def fit_table(
    profile: Tensor,
    records: int,
    targets: Sequence[TableTarget],
    rules: EnumeratedRules = RULES.enumerated,
    *,
    progress: Callable[[float], None] | None = None,
) -> Tensor:
    """(2^m,) probabilities near those of independent items of the profile (m,).

    Bit j of a cell's number says whether it holds item j; `progress` is given the share of the work done.
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
