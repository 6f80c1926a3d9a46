"""AIM (McKenna, Mullins, Sheldon, Miklau 2022) for few 0/1 columns, as a baseline for narrow item sets.

The rounds, shares of the budget (zCDP), scores and annealing are those of the reference implementation with a workload
of all triples: single columns first, then in every round the exponential mechanism picks the item, pair or triple that
the model explains worst, its table is measured, and noise is halved when a round teaches nothing new. The model is the
one the reference fits, the distribution over all cells of largest entropy among those closest to the noisy tables (its
limit of 80 MB is never reached by 2^17 cells), found by Walsh-Hadamard transforms and L-BFGS instead of junction trees
and mirror descent: minutes become seconds. Noise is seeded: a measurement of the method, not a private release.
"""

import math
from collections.abc import Sequence
from functools import cache
from itertools import combinations

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import hadamard as _hadamard
from scipy.optimize import minimize
from spanning_tree import zcdp

from dpgm.data.records import Records
from dpgm.errors import UsageError

Floats = NDArray[np.float64]
Clique = tuple[int, ...]
WIDEST = 17
DEGREE = 3
# Weight of the entropy against half the sum of squared errors (each over its noise): it moves a parity by less than a
# tenth of its noise, and without it the fit chases noise to the border, where it does not end.
_ENTROPY = 30.0


@cache
def hadamard(size: int) -> Floats:
    """Signs of the parities: (size, size)."""
    return _hadamard(size).astype(np.float64)


class CellModel:
    """The distribution over all 2^m cells closest to noisy tables of few columns.

    A table of columns c is, up to an orthogonal transform, the parities of the subsets S of c; so the squared error of
    all tables is a weighted sum over subsets of (parity - target)², and its minimum exp(sum of multipliers x parities).
    """

    def __init__(self, width: int, count: int) -> None:
        self.width, self.count = width, count
        self.weight = np.zeros(2**width)  # precision of a parity, by the bits of its subset
        self.total = np.zeros(2**width)  # precision x target
        self.multipliers = np.zeros(2**width)
        self.cells = np.full(2**width, 2.0**-width)

    def take(self, clique: Clique, table: Floats, scale: float) -> None:
        """One more noisy table, (2, ..., 2), with noise of standard deviation `scale` a cell."""
        parities = transform(table.ravel()) / self.count
        precision = self.count**2 / (scale**2 * table.size)
        places = self._places(clique)
        self.weight[places] += precision
        self.total[places] += precision * parities

    def fit(self, steps: int) -> None:
        """Move to the optimum; the problem is convex, and each fit starts from the last."""
        used = np.flatnonzero(self.weight[1:]) + 1  # the parity of no column is always 1
        weight = self.weight[used] / _ENTROPY
        target = self.total[used] / self.weight[used]

        def dual(multipliers: Floats) -> tuple[float, Floats]:
            self.multipliers[used] = multipliers
            logits = transform(self.multipliers)
            top = logits.max()
            cells = np.exp(logits - top)
            total = cells.sum()
            self.cells = cells / total
            shown = transform(self.cells)[used]
            value = top + math.log(total) - multipliers @ target + (multipliers**2 / weight).sum() / 2
            return value, shown - target + multipliers / weight

        options = {"maxiter": steps, "ftol": 1e-13, "gtol": 1e-9}
        found = minimize(dual, self.multipliers[used], jac=True, method="L-BFGS-B", options=options)
        dual(found.x)

    def table(self, clique: Clique) -> Floats:
        """The expected counts of a table."""
        return self.tables([clique])[clique]

    def tables(self, cliques: Sequence[Clique]) -> dict[Clique, Floats]:
        """The expected counts of several tables."""
        parities = transform(self.cells) * self.count
        shapes = {clique: (2,) * len(clique) for clique in cliques}
        return {c: transform(parities[self._places(c)]).reshape(shapes[c]) / 2 ** len(c) for c in cliques}

    def _places(self, clique: Clique) -> NDArray[np.int64]:
        """Places of the parities of a table, in the order of its cells (the first column is the highest bit)."""
        places = np.zeros(1, dtype=np.int64)
        for column in clique:
            places = np.concatenate(
                [places[:, None], places[:, None] + (1 << (self.width - 1 - column))], axis=1
            ).ravel()
        return places


def transform(values: Floats) -> Floats:
    """Walsh-Hadamard transform: sums with the sign of the parity of every subset of bits."""
    bits = len(values).bit_length() - 1
    low, high = 2 ** (bits // 2), 2 ** (bits - bits // 2)
    made: Floats = hadamard(high) @ values.reshape(high, low) @ hadamard(low)
    return made.ravel()


def fit(records: Records, epsilon: float, delta: float, seed: int) -> Floats:
    """Shares of all cells, the first column being the highest bit."""
    width, count = records.width, len(records)
    if width > WIDEST:
        raise UsageError(f"our form of AIM lists all cells, so it takes at most {WIDEST} items.")
    generator = np.random.default_rng(seed)
    codes = records.to_dense(np.int64) @ (1 << np.arange(width - 1, -1, -1))
    real = CellModel(width, count)
    real.cells = np.bincount(codes, minlength=2**width) / count
    cliques = [clique for size in range(1, DEGREE + 1) for clique in combinations(range(width), size)]
    truth = {clique: real.table(clique) for clique in cliques}
    # How many columns the clique shares with the triples of the workload, over all of them.
    worth = {clique: len(clique) * math.comb(width - 1, DEGREE - 1) for clique in cliques}
    rho = zcdp(epsilon, delta)
    rounds = 16 * width
    scale, sharpness = math.sqrt(rounds / (1.8 * rho)), math.sqrt(0.8 * rho / rounds)
    model = CellModel(width, count)

    def measure(clique: Clique) -> None:
        model.take(clique, truth[clique] + generator.normal(0, scale, truth[clique].shape), scale)

    for column in range(width):
        measure((column,))
    used = width * 0.5 / scale**2
    model.fit(100)
    last = False
    while not last:
        if rho - used < 2 * (0.5 / scale**2 + sharpness**2 / 8):
            last = True  # what remains goes into one more round
            if rho <= used:
                break
            scale, sharpness = math.sqrt(1 / (1.8 * (rho - used))), math.sqrt(0.8 * (rho - used))
        used += sharpness**2 / 8 + 0.5 / scale**2
        noise = math.sqrt(2 / math.pi) * scale  # what noise alone would make of a cell
        shown = model.tables(cliques)
        error = [worth[c] * (np.abs(truth[c] - shown[c]).sum() - noise * 2 ** len(c)) for c in cliques]
        score = 0.5 * sharpness / max(worth.values()) * np.array(error)
        chosen = cliques[int((score + generator.gumbel(size=len(score))).argmax())]
        measure(chosen)
        model.fit(50)
        if np.abs(model.table(chosen) - shown[chosen]).sum() <= noise * 2 ** len(chosen):
            scale, sharpness = scale / 2, sharpness * 2
    model.fit(1000)
    return model.cells


def sample(cells: Floats, records: Records, count: int, seed: int) -> Records:
    """`count` records, with rounded counts of all cells."""
    generator = np.random.default_rng([seed, 1])
    whole = np.floor(cells * count)
    left = cells * count - whole
    more = generator.choice(len(cells), count - int(whole.sum()), replace=False, p=left / left.sum())
    whole[more] += 1
    codes = generator.permutation(np.repeat(np.arange(len(cells)), whole.astype(np.int64)))
    bits = (codes[:, None] >> np.arange(records.width - 1, -1, -1)) & 1
    return Records.from_dense(bits.astype(np.bool_), records.domain)
