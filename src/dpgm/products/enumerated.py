"""The method for few items: enumerate all 2^m possible records, measure centred sums of sets, solve a convex problem.

Among all distributions over the 2^m records `fit_table` finds the one that minimises (errors / noise)² + penalty x N x
divergence from independent items. The solution is a log-linear model with one parameter per measured number, found by
L-BFGS. Sums over all records or all sets take m passes over the table. Post-processing: only released values enter.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from dpgm.arrays import Floats
from dpgm.data.domain import Domain
from dpgm.mechanisms.gateway import Gateway
from dpgm.products.model import Products
from dpgm.products.rules import PRODUCT_RULES, EnumeratedRules, ProductRules
from dpgm.statistics.enumerated_sets import EnumeratedSets, LengthCounts, TableTarget, enumerated_profile, set_sums
from dpgm.statistics.item_tuples import NAMES
from dpgm.statistics.record_lengths import LENGTHS, RecordLengths, ReleasedFacts
from dpgm.statistics.statistic import Measured, release


def is_enumerated(domain: Domain, rules: EnumeratedRules) -> bool:
    """Whether all possible records are enumerated: the domain has few items and no table columns."""
    return domain.width <= rules.widest and not domain.table_columns


@dataclass(frozen=True)
class EnumeratedMeasurements:
    """Everything that was released: record lengths, and centred sums of items, pairs and larger sets."""

    known: ReleasedFacts
    profile: Floats  # share of the records that hold each item
    sums: tuple[Measured[EnumeratedSets], ...]


def measure_enumerated(
    gateway: Gateway, domain: Domain, records: int, noises: Mapping[str, float], rules: ProductRules
) -> EnumeratedMeasurements:
    """Release every statistic that the plan pays for; arguments as in `strategy.measure`."""
    known = ReleasedFacts.read(release(gateway, RecordLengths(domain), noises[LENGTHS]), domain, records, rules)
    # Until items are measured, all are assumed to be equally frequent.
    least, mean = rules.enumerated.least_frequency, known.items @ np.arange(len(known.items))
    profile = np.full(domain.width, np.clip(mean / domain.width, least, 1 - least))
    sums: list[Measured[EnumeratedSets]] = []
    for order in (order for order in NAMES if NAMES[order] in noises):
        noise, whole = noises[NAMES[order]], order in rules.enumerated.whole_orders
        sums.append(release(gateway, EnumeratedSets.choose(order, profile, known, noise, whole=whole), noise))
        if order == 1:
            profile = enumerated_profile(sums[0], known)
    return EnumeratedMeasurements(known, profile, tuple(sums))


def fit_enumerated(
    measured: EnumeratedMeasurements, rules: ProductRules, *, progress: Callable[[float], None] | None = None
) -> Products:
    """A mixture with one component per likely record, fitted to the released sums."""
    domain, records, lengths = measured.known.domain, measured.known.records, measured.known.lengths
    assert lengths is not None
    targets: list[TableTarget] = []
    for released in measured.sums:
        penalty = _penalty(released.statistic.order, released.std, records, rules)
        targets += set_sums(released, penalty, rules.enumerated.whole_penalty)
    targets.append(LengthCounts.of(lengths, domain.width, rules.enumerated.length_penalty))
    profile = torch.from_numpy(measured.profile).float()
    chances = fit_table(profile, records, targets, rules.enumerated, progress=progress)
    chosen = chances.argsort(descending=True)[: rules.enumerated.most_records]
    chosen = chosen[chances[chosen] > rules.enumerated.least_share / records]
    weights = chances[chosen] / chances[chosen].sum()
    present = (chosen[:, None] >> torch.arange(domain.width)) & 1
    return Products(domain, weights, present.float(), rules.sampling)


def _penalty(order: int, std: float, records: int, rules: ProductRules) -> float:
    """The noisier these counts are, compared with counts that matter, the more they yield to what others imply."""
    least, most = rules.enumerated.least_penalty[order - 1], rules.enumerated.most_penalty[order - 1]
    return float(np.clip(std / (rules.sanity * records), least, most))


def fit_table(
    profile: Tensor,
    records: int,
    targets: Sequence[TableTarget],
    rules: EnumeratedRules = PRODUCT_RULES.enumerated,
    *,
    progress: Callable[[float], None] | None = None,
) -> Tensor:
    """(2^m,) probabilities of all records, fitted to the targets; the start is independent items of the profile (m,).

    Bit j of a record's number says whether it holds item j; `progress` receives the share of the work done.
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

    def scores(parameters: Tensor) -> Tensor:
        """Logarithm of the probability of every record, up to a constant."""
        total = start.clone()
        for part, parameter in zip(targets, torch.split(parameters, counts), strict=True):
            total += part.scores(parameter, len(cells))
        return total

    def moments(chances: Tensor) -> Tensor:
        return torch.cat([part.expected(chances) for part in targets])

    def curvature(chances: Tensor) -> Tensor:
        """Diagonal of the Hessian: the variance of what each parameter multiplies."""
        squares = torch.cat([part.squares(chances) for part in targets])
        return (squares - moments(chances) ** 2).clamp(min=1 / records)

    parameters, chances = torch.zeros(len(values), dtype=torch.float64), start.softmax(0)
    for past, rounds in ((0, rules.rounds[0]), rules.rounds):
        # Rescale the parameters to a curvature near 1, at the start and again after the first rounds.
        scale = (curvature(chances) + damping).rsqrt()

        def loss_and_slope(scaled: Tensor, scale: Tensor = scale) -> tuple[float, Tensor]:
            actual = scaled * scale
            score = scores(actual)
            level = score.logsumexp(0)
            slope = scale * (moments((score - level).exp()) - values / records + damping * actual)
            return float(level - (actual * values).sum() / records + 0.5 * (damping * actual**2).sum()), slope

        def report(done: int, past: int = past) -> None:
            if progress is not None:
                progress((past + done) / sum(rules.rounds))

        parameters = scale * _minimise(loss_and_slope, parameters / scale, rounds, report, rules)
        score = scores(parameters)
        chances = (score - score.logsumexp(0)).exp()
    return chances


def _minimise(
    loss_and_slope: Callable[[Tensor], tuple[float, Tensor]],
    point: Tensor,
    rounds: int,
    report: Callable[[int], None],
    rules: EnumeratedRules,
) -> Tensor:
    """L-BFGS with backtracking, for a smooth and convex loss."""
    loss, slope = loss_and_slope(point)
    history: list[tuple[Tensor, Tensor, float]] = []  # step, change of the slope, their inner product
    for done in range(rounds):
        if float(slope.abs().max()) < rules.flat:
            break
        direction, factors = -slope, []
        for step, change, product in reversed(history):
            factors.append(float(step @ direction) / product)
            direction = direction - factors[-1] * change
        if history:
            step, change, product = history[-1]
            direction = direction * (product / float(change @ change))
        for (step, change, product), factor in zip(history, reversed(factors), strict=True):
            direction = direction + (factor - float(change @ direction) / product) * step
        decrease = float(slope @ direction)
        length = 1.0 if history else min(1.0, 1.0 / float(direction.norm()))
        for _ in range(rules.halvings):
            new_loss, new_slope = loss_and_slope(point + length * direction)
            if new_loss <= loss + rules.sufficient_decrease * length * decrease:
                break
            length /= 2
        else:
            break
        step, change = length * direction, new_slope - slope
        product = float(step @ change)
        if product > 1e-14:
            history = [*history[-rules.history + 1 :], (step, change, product)]
        point, loss, slope = point + step, new_loss, new_slope
        report(done + 1)
    return point
