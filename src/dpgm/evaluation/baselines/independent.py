"""Independent noisy marginals: every item (or column) on its own, as accurate as one release allows."""

import numpy as np
import torch
from numpy.typing import NDArray

from dpgm import validation
from dpgm.data.domain import Domain
from dpgm.data.records import Records, concatenate, index_dtype
from dpgm.evaluation.baselines.certificate import certify, fitted
from dpgm.evaluation.baselines.lengths import NAME, noisy_lengths, quantile
from dpgm.mechanisms.gateway import Gateway
from dpgm.mechanisms.randomness import Randomness, SystemRandomness
from dpgm.privacy.calibration import Spend, calibrate
from dpgm.statistics.item_counts import ItemCounts

LENGTH_SHARE = 0.05
COVERED = 0.99  # share of the records that the clipping leaves whole
_CHUNK_CELLS = 2**24


class IndependentMarginals:
    """Noisy counts of every position, sampled independently.

    A small share of the budget buys a noisy histogram of record lengths; its 99th percentile bounds the length,
    longer records are down-weighted, so that the counts have sensitivity sqrt(bound). Tables need no bound: a row
    has one value a column.

    Args:
        epsilon: the privacy budget.
        delta: by default 1 / (10 x number of records).
        randomness: source of noise; the operating system unless a test says otherwise.

    Privacy: (epsilon, delta) per record under add/remove adjacency, with the number of records public.
    """

    def __init__(
        self, epsilon: float = 1.0, delta: float | None = None, randomness: Randomness | None = None
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.randomness = randomness

    def fit(self, records: Records) -> "IndependentMarginals":
        """Release lengths and counts; returns self with `probabilities_` and `certificate_`."""
        validation.positive(epsilon=self.epsilon)
        delta = 1 / (10 * max(1, len(records))) if self.delta is None else self.delta
        validation.probability(delta=delta)
        domain, count = records.domain, len(records)
        columns = sum(block.softmax for block in domain.blocks)
        has_sets = columns < len(domain.blocks)
        spends = [Spend("item counts", 1 - LENGTH_SHARE * has_sets)]
        if has_sets:
            spends.append(Spend(NAME, LENGTH_SHARE))
        plan = {mechanism.name: mechanism for mechanism in calibrate(self.epsilon, delta, spends)}
        randomness = self.randomness if self.randomness is not None else SystemRandomness()
        gateway = Gateway(records, randomness=randomness, allowance=tuple(plan.values()))
        cap = columns
        if has_sets:
            cap += quantile(noisy_lengths(gateway, domain, plan[NAME].noise), COVERED)
        statistic = ItemCounts(domain, min(cap, domain.width))
        noisy = gateway.release("item counts", statistic.query(), plan["item counts"].noise)
        self.domain_ = domain
        self.cap_ = statistic.cap
        self.probabilities_ = _probabilities(domain, noisy.numpy() / max(1, count))
        self.certificate_ = certify("independent noisy marginals", gateway, delta, count)
        return self

    def sample(self, count: int, *, seed: int | None = None) -> Records:
        """`count` records with independent positions; costs nothing."""
        fitted(self)
        validation.whole(at_least=1, count=count)
        generator = torch.Generator()
        if seed is None:
            generator.seed()
        else:
            generator.manual_seed(seed)
        return sample_independent(self.domain_, self.probabilities_, count, generator)


def _probabilities(domain: Domain, shares: NDArray[np.float64]) -> NDArray[np.float64]:
    shares = np.clip(shares, 0.0, 1.0)
    for block in domain.blocks:
        if block.softmax:
            part = shares[block.start : block.stop]
            total = part.sum()
            shares[block.start : block.stop] = part / total if total > 0 else 1 / block.width
    return shares


def sample_independent(
    domain: Domain, probabilities: NDArray[np.float64], count: int, generator: torch.Generator
) -> Records:
    """Records whose items are independent and whose columns take one value each."""
    chances = torch.from_numpy(probabilities).float()
    rows = max(1, _CHUNK_CELLS // max(1, domain.width))
    parts = []
    for start in range(0, count, rows):
        size = min(rows, count - start)
        present = torch.rand(size, domain.width, generator=generator) < chances
        for block in domain.blocks:
            if block.softmax:
                drawn = torch.multinomial(
                    chances[block.start : block.stop].double(), size, replacement=True, generator=generator
                )
                present[:, block.start : block.stop] = torch.nn.functional.one_hot(drawn, block.width).bool()
        at, columns = np.nonzero(present.numpy())
        indptr = np.zeros(size + 1, dtype=np.int64)
        np.cumsum(np.bincount(at, minlength=size), out=indptr[1:])
        parts.append(Records(domain, indptr, columns.astype(index_dtype(domain.width))))
    return concatenate(parts)
