"""What has been released so far, and the weights by which a pool agrees with it.

`Evidence.ask` chooses on a pool how far long vectors are scaled down, and releases their sums. `Evidence.tilt`
reweights a pool by maximum entropy to everything released. A pool holds no private rows, so all but the release is
post-processing.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from math import isqrt, sqrt

import numpy as np
import torch
from torch import Tensor

from dpgm.arrays import Floats, Ints
from dpgm.mechanisms.gateway import Gateway
from dpgm.sequences.layout import PersonLayout
from dpgm.sequences.pool import Pool
from dpgm.sequences.rules import SequenceRules
from dpgm.statistics.clipped_vectors import ClippedVectors, VectorFeatures, VectorMap, Vectors
from dpgm.statistics.event_vectors import ItemPairs, Ngrams, ngrams_of, pairs_of, person_events
from dpgm.statistics.shrinkage import onto_simplex
from dpgm.statistics.statistic import STEPS, Measured, release
from dpgm.strategy.protocol import FitPlan
from dpgm.tilting.tilt import Released, tilt

_HALVINGS = 10  # of the interval in which a part of the way is looked for
_LEAST, _MOST = 1e-300, 8.0  # weight; logarithm by which weights of a length change


@dataclass(frozen=True, eq=False)
class WeightedPool:
    """A pool with weights that sum to 1, and the parameters of every statistic that they follow from."""

    pool: Pool
    weights: Floats
    parameters: tuple[Tensor, ...] = ()

    @classmethod
    def even(cls, pool: Pool) -> "WeightedPool":
        """With the same weight for every draw."""
        return cls(pool, pool.times / pool.drawn)

    @property
    def effective(self) -> float:
        """How many draws without weights would say as much."""
        return float(1 / (self.weights**2 / self.pool.times).sum())

    def ceiling(self, quantile: float) -> float:
        """The largest logarithm of a weight per draw, but for the given share of the whole weight."""
        logs = np.log(np.maximum(self.weights, 1e-300) / self.pool.times)
        order = np.argsort(logs)
        at = np.searchsorted(np.cumsum(self.weights[order]), quantile)
        return float(logs[order[min(int(at), len(order) - 1)]])


@dataclass
class Evidence:
    """The statistics released so far."""

    gateway: Gateway
    plan: FitPlan
    rules: SequenceRules
    released: list[Measured[ClippedVectors]] = field(default_factory=list)

    @property
    def people(self) -> int:
        """The public number of people."""
        return self.plan.records

    @property
    def scaled(self) -> float:
        """The share of events whose people are scaled down."""
        rules, noises = self.rules.measure, self.plan.noises
        strength = self.people * sqrt(sum(noise**-2 for noise in noises.values()))
        return float(min(rules.most_scaled, (rules.scaled / strength) ** rules.scaled_power))

    def ask(
        self, vectors: VectorMap, on: WeightedPool | None = None, *, ones: int = 1, kept: bool = True
    ) -> Measured[ClippedVectors]:
        """Release the sums of a map, with the bound that suits a pool; without a pool, vectors are so many ones.

        Tilts follow what is `kept`.
        """
        limit = isqrt(ones * STEPS**2 - 1) + 1 if on is None else self.limit(vectors, on)
        measured = release(self.gateway, ClippedVectors(vectors, limit), self.plan.noise(vectors.name))
        if kept:
            self.released.append(measured)
        return measured

    def limit(self, vectors: VectorMap, on: WeightedPool) -> int:
        """The norm, in steps, that people with at most the share `scaled` of all events exceed; at least 1."""
        found = vectors.vectors(on.pool.records)
        norms = np.sqrt(np.bincount(found.rows, found.steps.astype(np.float64) ** 2, minlength=len(found)))
        events = on.weights * (person_events(on.pool.records).lengths + 1)
        order = np.argsort(norms)
        at = np.searchsorted(np.cumsum(events[order]), (1 - self.scaled) * events.sum())
        return max(STEPS, int(np.ceil(norms[order[min(int(at), len(order) - 1)]])))

    def tilt(
        self, pool: Pool, progress: Callable[[float], None] | None = None, *, least: float = 0.0
    ) -> WeightedPool:
        """The weights of largest entropy whose sums are near the released ones.

        They go only part of the way if the draws would say less than `least` of their number: components that are
        fitted to these weights go on from there.
        """
        base = torch.softmax(pool.log_base, 0)
        given = [self._with_ridge(one, pool, base) for one in self.released]
        found = tilt(given, pool.log_base, self.people, self.rules.pool.tilt, progress)
        whole = WeightedPool(pool, found.log_weights.exp().numpy(), found.parameters)
        if whole.effective >= least * pool.drawn:
            return whole
        low, high = 0.0, 1.0
        for _ in range(_HALVINGS):
            middle = (low + high) / 2
            enough = self._part(whole, middle).effective >= least * pool.drawn
            low, high = (middle, high) if enough else (low, middle)
        return self._part(whole, low)

    def _part(self, whole: WeightedPool, way: float) -> WeightedPool:
        """A part of the way to the given weights, with the released lengths.

        Without them long sequences would lose weight, since the logarithms of their weights vary most.
        """
        lengths, pool = self.released[0], whole.pool
        bins = lengths.statistic.map.vectors(pool.records).cells
        energies = np.log(np.maximum(whole.weights, _LEAST) / pool.times)
        logs = pool.log_base.numpy() + way * energies
        weights = np.exp(logs - logs.max())
        shares = onto_simplex(lengths.value.numpy() / self.people, 1.0)
        found = np.bincount(bins, weights / weights.sum(), minlength=len(shares))
        more = np.log(np.maximum(shares, _LEAST) / np.maximum(found, _LEAST)).clip(-_MOST, _MOST)
        weights = weights * np.exp(more)[bins]
        parameters = [way * one for one in whole.parameters]
        parameters[0] = parameters[0] + torch.from_numpy(more)
        return WeightedPool(pool, weights / weights.sum(), tuple(parameters))

    def _with_ridge(self, measured: Measured[ClippedVectors], pool: Pool, base: Tensor) -> Released:
        """With the ridge of normal priors on the parameters."""
        rules, features = self.rules.pool, VectorFeatures(measured.statistic, pool.records)
        variance = self.people * (features.squares(base) - features.sums(base) ** 2).clamp(min=0)
        more = max(1.0, (len(self.released) / rules.usual_statistics) ** rules.more_power)
        overall = rules.precision * more * (1 + self.people / pool.drawn) / measured.std**2
        ridge = overall + 1 / (rules.spread**2 * variance.clamp(min=rules.least_variance))
        return Released(features, measured.value, measured.std, ridge)


def popular_runs(
    order: int, layout: PersonLayout, on: WeightedPool, evidence: Evidence, *, ranks: bool
) -> VectorMap:
    """The runs of so many items that the most people of a pool have, if that is more than the noise will hide."""
    items = layout.symbols if ranks else layout.items

    def chosen(cells: Ints) -> VectorMap:
        found = Ngrams(order, items, cells)
        return layout.of_symbols(found) if ranks else found

    return _popular(chosen, *ngrams_of(person_events(on.pool.records), order, items), on, evidence)


def popular_pairs(items: int, on: WeightedPool, evidence: Evidence) -> VectorMap:
    """The items and pairs that the most people of a pool have, if that is more than the noise will hide."""
    owners, cells = pairs_of(person_events(on.pool.records), items)
    return _popular(lambda chosen: ItemPairs(items, chosen), owners, cells, on, evidence)


def _popular(
    made: Callable[[Ints], VectorMap], owners: Ints, codes: Ints, on: WeightedPool, evidence: Evidence
) -> VectorMap:
    rules = evidence.rules.measure
    values, cells = np.unique(codes, return_inverse=True)
    if not len(values):
        return made(np.zeros(1, dtype=np.int64))
    present = Vectors.counted(owners, cells, len(on.pool), len(values))
    counts = evidence.people * np.bincount(present.cells, on.weights[present.rows], minlength=len(values))
    most = np.argsort(-counts, kind="stable")[: rules.most_runs]
    chosen = made(np.sort(values[most]))
    std = evidence.plan.noise(chosen.name) * evidence.limit(chosen, on) / STEPS
    seen = most[counts[most] > rules.run_noise * std]
    return made(np.sort(values[seen if len(seen) else most[:1]]))
