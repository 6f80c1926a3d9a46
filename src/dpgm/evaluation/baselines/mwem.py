"""MWEM (Hardt, Ligett, McSherry 2012) as the paper compared itself with it.

Faithful: records are clipped to the average length; 50 iterations; each selects the query that the current
distribution answers worst, measures it with fresh noise and applies multiplicative weights, replaying all earlier
measurements; half of the budget selects, half measures. For up to 12 items this is MWEM over the full domain.

Not faithful, and why:

- Selection is report-noisy-max with Gaussian noise on all candidates, accounted as one Gaussian release of the
  whole vector of answers (the accountant knows Gaussian releases only), instead of the exponential mechanism. A
  clipped record of c items enters c + c(c-1)/2 candidates, hence the sensitivity: this is where clipping pays.
- The average length comes from a noisy histogram (5 % of the budget); the paper read it from the data.
- Candidates are all items and all pairs of items, not the evaluation queries: those would tell the mechanism which
  questions will be asked.
- The start is independent items of the noisy average length, not the uniform distribution: on hundreds of items
  that one holds half of all items in every record.
- Above 12 items the distribution is a product of groups of at most 12 items; a pair is a candidate only while it
  fits a group.
"""

import math
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray

from dpgm import validation
from dpgm.data.records import Records, concatenate
from dpgm.errors import UsageError
from dpgm.evaluation.baselines.certificate import certify, fitted
from dpgm.evaluation.baselines.factored_weights import FactoredWeights
from dpgm.evaluation.baselines.lengths import NAME, average, noisy_lengths
from dpgm.evaluation.cooccurrence import pair_counts
from dpgm.mechanisms.gateway import Gateway
from dpgm.mechanisms.query import Query, View
from dpgm.mechanisms.randomness import Randomness, SystemRandomness
from dpgm.privacy.calibration import Spend, calibrate

LENGTH_SHARE = 0.05
MOST_ITEMS = 2_000
REPLAYS = 20
_CHUNK_CELLS = 2**24


class Mwem:
    """Multiplicative weights with report-noisy-max, over item sets.

    Args:
        epsilon: the privacy budget.
        delta: by default 1 / (10 x number of records).
        iterations: rounds of select, measure, update.
        randomness: source of noise; the operating system unless a test says otherwise.

    Privacy: (epsilon, delta) per record under add/remove adjacency, with the number of records public.
    """

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float | None = None,
        iterations: int = 50,
        randomness: Randomness | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.iterations = iterations
        self.randomness = randomness

    def fit(self, records: Records) -> "Mwem":
        """Select, measure, update; returns self with `weights_` and `certificate_`."""
        validation.positive(epsilon=self.epsilon)
        validation.whole(at_least=1, iterations=self.iterations)
        delta = 1 / (10 * max(1, len(records))) if self.delta is None else self.delta
        validation.probability(delta=delta)
        domain, count, width = records.domain, max(1, len(records)), records.width
        if any(block.softmax for block in domain.blocks):
            raise UsageError("Mwem handles item sets and images only; the domain has table columns.")
        if width > MOST_ITEMS:
            raise UsageError(f"Mwem handles at most {MOST_ITEMS} items; the domain has {width}.")
        half = (1 - LENGTH_SHARE) / 2
        spends = [
            Spend(NAME, LENGTH_SHARE),
            Spend("select", half, self.iterations),
            Spend("measure", half, self.iterations),
        ]
        plan = {mechanism.name: mechanism for mechanism in calibrate(self.epsilon, delta, spends)}
        randomness = self.randomness if self.randomness is not None else SystemRandomness()
        gateway = Gateway(records, randomness=randomness, allowance=tuple(plan.values()))

        mean = average(noisy_lengths(gateway, domain, plan[NAME].noise))
        cap = min(width, max(1, round(mean)))
        candidates = _Candidates(width, cap)
        start = np.full(width, min(0.5, min(mean, cap) / width))
        weights = FactoredWeights(start)
        measured: list[tuple[tuple[int, ...], float]] = []
        for _ in range(self.iterations):
            noisy = gateway.release("select", candidates.all_answers(), plan["select"].noise).numpy() / count
            chosen = _worst(noisy, weights, candidates)
            query = candidates.members(chosen)
            answer = gateway.release("measure", candidates.one_answer(chosen), plan["measure"].noise)
            weights.join(query[0], query[-1])
            measured.append((query, float(np.clip(answer.item() / count, 0.0, 1.0))))
            for _ in range(REPLAYS):
                for items, share in measured:
                    weights.update(items, share)
            weights.refresh()
        self.domain_, self.cap_, self.weights_ = domain, cap, weights
        self.certificate_ = certify(
            "MWEM", gateway, delta, len(records), ("Selection is noisy-max with Gaussian noise.",)
        )
        return self

    def sample(self, count: int, *, seed: int | None = None) -> Records:
        """`count` records of the fitted distribution; costs nothing."""
        fitted(self)
        validation.whole(at_least=1, count=count)
        generator = np.random.default_rng(seed)
        rows = max(1, _CHUNK_CELLS // self.domain_.width)
        return concatenate(
            [
                Records.from_dense(self.weights_.draw(min(rows, count - at), generator), self.domain_)
                for at in range(0, count, rows)
            ]
        )


class _Candidates:
    """All items, then all pairs, and their exact answers on clipped records, which never leave the queries."""

    def __init__(self, width: int, cap: int) -> None:
        self.width, self.cap = width, cap
        self._exact: torch.Tensor | None = None

    @cached_property
    def upper(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Row and column of every pair."""
        rows, columns = np.triu_indices(self.width, 1)
        return rows.astype(np.int64), columns.astype(np.int64)

    def __len__(self) -> int:
        return self.width + len(self.upper[0])

    def members(self, number: int) -> tuple[int, ...]:
        """The items of a candidate."""
        if number < self.width:
            return (number,)
        at = number - self.width
        return (int(self.upper[0][at]), int(self.upper[1][at]))

    def estimates(self, weights: FactoredWeights) -> NDArray[np.float64]:
        """What the current distribution answers."""
        return np.concatenate([weights.single, weights.pairs[self.upper]])

    def allowed(self, weights: FactoredWeights) -> NDArray[np.bool_]:
        """Candidates that the factored distribution can take in."""
        return np.concatenate([np.ones(self.width, dtype=np.bool_), weights.representable()[self.upper]])

    def all_answers(self) -> Query:
        """Every candidate at once; a record of at most `cap` items enters cap + cap (cap - 1) / 2 of them."""
        touched = self.cap + self.cap * (self.cap - 1) / 2
        return Query(lambda view: self._answers(view).clone(), math.sqrt(touched), (len(self),), grid=1.0)

    def one_answer(self, number: int) -> Query:
        """A single candidate; a record moves it by 1."""
        return Query(lambda view: self._answers(view)[number : number + 1].clone(), 1.0, (1,), grid=1.0)

    def _answers(self, view: View) -> torch.Tensor:
        if self._exact is None:
            counts = pair_counts(clip_records(view.rows, self.cap), np.arange(self.width, dtype=np.int64))
            self._exact = torch.from_numpy(np.concatenate([np.diag(counts), counts[self.upper]]))
        return self._exact


def _worst(noisy: NDArray[np.float64], weights: FactoredWeights, candidates: _Candidates) -> int:
    gap = np.abs(noisy - candidates.estimates(weights))
    return int(np.where(candidates.allowed(weights), gap, -1.0).argmax())


def clip_records(records: Records, cap: int) -> Records:
    """At most `cap` items of every record, chosen by a fixed rule of the record alone.

    The rule is pseudo-random (a multiplicative hash of item and record), so that no item is favoured, and needs no
    coins, so that clipping one record never depends on the others.
    """
    rows = np.repeat(np.arange(len(records)), records.lengths)
    items = records.indices.astype(np.uint64)
    salt = np.bincount(rows, weights=(records.indices.astype(np.float64) + 1) ** 2, minlength=len(records))
    salted = items * np.uint64(2654435761) + salt.astype(np.uint64)[rows] * np.uint64(40503)
    rank = (salted * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(20)
    order = np.lexsort((rank, rows))
    within = np.arange(len(rows)) - records.indptr[:-1][rows]
    kept = np.sort(order[within < cap])
    indptr = np.zeros(len(records) + 1, dtype=np.int64)
    np.cumsum(np.minimum(records.lengths, cap), out=indptr[1:])
    return Records(records.domain, indptr, records.indices[kept])
