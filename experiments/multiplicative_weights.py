"""MWEM (Hardt, Ligett, McSherry 2012) over item sets, in the strongest form we know of, as a baseline.

Each round the exponential mechanism picks the item or pair that the current distribution answers worst, its count is
measured with fresh noise, and the distribution is fitted to all measurements so far (iterative scaling instead of
single multiplicative steps). Selection and measurement share the budget (zCDP) evenly. Both have sensitivity 1, so no
record is clipped: `dpgm.baselines.Mwem`, whose selection is a Gaussian release of all answers, must clip,
and loses by it. The distribution is a product of groups of items (`FactoredWeights`). Noise is seeded: a measurement
of the method, not a private release.
"""

import math

import numpy as np
from spanning_tree import zcdp

from dpgm.baselines.mwem import FactoredWeights
from dpgm.data.records import Records, concatenate
from dpgm.evaluation.marginals import pair_counts

WHOLE = 17  # up to so many items the distribution has one table of all cells
LARGEST = 12  # items of a group beyond that
ROUNDS = 100  # 50 and 100 were tried on msnbc and nltcs, 50 to 600 on msweb: more help where all cells are listed
REPLAYS = 10
_ROWS = 2**16


class Scaled(FactoredWeights):
    """A step makes the answer equal to what was measured: the projection, instead of a step of fixed rate."""

    def update(self, query: tuple[int, ...], measured: float) -> None:
        """Make the share of records holding the query's items what was measured."""
        group = int(self.group[query[0]])
        table = self.tables[group]
        cells = tuple(1 if item in query else slice(None) for item in self.items[group])
        answer = float(table[cells].sum())
        wanted = min(max(measured, 1e-9), 1 - 1e-9)
        if 0 < answer < 1:
            inside = wanted / answer
            outside = (1 - wanted) / (1 - answer)
            table *= outside
            table[cells] *= inside / outside


def fit(records: Records, epsilon: float, delta: float, seed: int, rounds: int = ROUNDS) -> FactoredWeights:
    """Select, measure, fit, `rounds` times."""
    generator = np.random.default_rng(seed)
    count, width = len(records), records.width
    rho = zcdp(epsilon, delta)
    sharpness = math.sqrt(4 * rho / rounds)  # of a selection: costs sharpness² / 8
    scale = math.sqrt(rounds / rho)  # of a measurement: costs 1 / (2 scale²)
    counts = pair_counts(records, np.arange(width, dtype=np.int64))
    first, second = np.triu_indices(width)  # the diagonal holds single items
    truth = counts[first, second]
    # The start is the average density; one noisy total would tell it, at a cost too small to matter.
    largest = width if width <= WHOLE else LARGEST
    weights = Scaled(np.full(width, min(0.5, records.lengths.mean() / width)), largest)
    measured: list[tuple[tuple[int, ...], float]] = []
    for _ in range(rounds):
        score = 0.5 * sharpness * np.abs(truth - weights.pairs[first, second] * count)
        score[~weights.representable()[first, second]] = -np.inf
        chosen = int((score + generator.gumbel(size=len(score))).argmax())
        query = tuple(sorted({int(first[chosen]), int(second[chosen])}))
        weights.join(query[0], query[-1])
        measured.append((query, float(truth[chosen] + generator.normal(0, scale)) / count))
        touched = {int(weights.group[query[0]])}
        for _ in range(REPLAYS):
            for items, share in measured:
                if int(weights.group[items[0]]) in touched:  # other groups have not moved
                    weights.update(items, share)
        weights.refresh()
    return weights


def sample(weights: FactoredWeights, records: Records, count: int, seed: int) -> Records:
    """`count` records of the fitted distribution."""
    generator = np.random.default_rng([seed, 1])
    parts = [min(_ROWS, count - start) for start in range(0, count, _ROWS)]
    return concatenate([Records.from_dense(weights.draw(part, generator), records.domain) for part in parts])
