"""A mixture of products: k components, each with independent items and table columns of its own.

A component has no latent variable; dependence between items comes from the choice of the component alone. All
moments are exact, and sampling is a matter of counting.

A sample varies less than independent draws. The number of records of a component, and of those that hold an item, is
fixed up to rounding (`rounded`, `one_of_many`, `subsets`); where components leave nothing to chance the rounding is
arranged so that items and pairs come out right (`evened`); else items are exchanged between records of a component
until counts of pairs and triples come nearer to the mixture's (`balanced`). Post-processing.
"""

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dpgm.data.domain import Domain
from dpgm.data.records import Records, index_dtype, row_pointers
from dpgm.errors import ArtefactError
from dpgm.kernels.compiled import HAS_NUMBA
from dpgm.kernels.set_kernels import balance
from dpgm.products.rules import MOST_COMPONENTS, SAMPLING, SHARES_OFF
from dpgm.statistics.statistic import Floats, Ints
from dpgm.strategy.protocol import check_shares, check_tensors, is_size


class Products:
    """Weights of the components and, for each, the probability of every position.

    Args:
        domain: the public domain; the probabilities of a table column sum to 1 within each component.
        weights: (k,) shares of the components; they sum to 1.
        probabilities: (k, m).
    """

    kind = "products"

    def __init__(self, domain: Domain, weights: Tensor, probabilities: Tensor) -> None:
        self.domain = domain
        self.weights = weights.detach().double().cpu()
        self.probabilities = probabilities.detach().float().cpu()

    @property
    def components(self) -> int:
        """Their number k."""
        return len(self.weights)

    @property
    def architecture(self) -> dict[str, Any]:
        """What `from_state` needs beside the tensors and the domain."""
        return {"kind": self.kind, "components": self.components}

    def state(self) -> dict[str, Tensor]:
        """Every parameter."""
        return {"weights": self.weights, "probabilities": self.probabilities}

    @classmethod
    def from_state(
        cls, architecture: Mapping[str, Any], tensors: Mapping[str, Tensor], domain: Domain
    ) -> "Products":
        """Read a model back, trusting nothing.

        Raises:
            ArtefactError: a tensor is missing, unknown, misshapen, of another type, or not a probability.
        """
        components = architecture.get("components")
        if set(architecture) != {"kind", "components"} or architecture["kind"] != cls.kind:
            raise ArtefactError("the model is not a mixture of products; get the release again.")
        if not is_size(components, MOST_COMPONENTS):
            raise ArtefactError("the model's number of components is not valid; get the release again.")
        expected = {
            "weights": ((components,), torch.float64),
            "probabilities": ((components, domain.width), torch.float32),
        }
        check_tensors(tensors, expected, 0, 1)
        weights, probabilities = tensors["weights"], tensors["probabilities"]
        for shares in (weights, *(probabilities[:, column] for column in domain.table_columns)):
            check_shares(shares, SHARES_OFF)
        return cls(domain, weights, probabilities)

    def sample(self, count: int, *, generator: torch.Generator) -> Records:
        """`count` records, stratified: components, items, and pairs of items appear as often as they should.

        Rounding goes through components that are alike one after the other, so that what one loses a similar one gains.
        """
        random = _random(generator)
        return self._draw(count, random.random(), random, balances=True)

    def sample_part(self, count: int, phase: float, *, generator: torch.Generator) -> Records:
        """`count` records of a larger sample that is drawn in parts, stratified but not balanced.

        If the phases of all parts are spread evenly over [0, 1), the rounding of components evens out over the parts.
        """
        return self._draw(count, phase, _random(generator), balances=False)

    def as_products(self) -> "Products":
        """Itself."""
        return self

    def samples_whole(self, count: int) -> bool:
        """Whether `count` records are few enough to be balanced, or to be rounded as a whole."""
        return count <= SAMPLING.balanced_records or self._evens_out(count)

    def _evens_out(self, count: int) -> bool:
        """Whether components leave nothing to chance and the sample is small enough to round it as a whole."""
        mean_length = float(self.weights @ self.probabilities.double().sum(dim=1))
        return self.deterministic and count * (1 + mean_length) <= SAMPLING.rounded_cells

    def _draw(self, count: int, phase: float, random: np.random.Generator, *, balances: bool) -> Records:
        order = self._neighbours()
        weights = self.weights.numpy()[order]
        expected = count * weights / weights.sum()
        sizes = rounded(expected, phase)
        if balances and self.deterministic:
            sizes = evened(expected, sizes, self.probabilities.numpy()[order] > 0.5, random)
        used = sizes > 0
        sizes, order = sizes[used], order[used]
        starts = np.cumsum(sizes) - sizes
        parts = [np.empty(0, dtype=np.int64)]
        for block in self.domain.blocks:
            probabilities = self.probabilities.numpy()[order, block.start : block.stop]
            if block.softmax:
                values = one_of_many(probabilities, sizes, random)
                parts.append(np.arange(count) * self.domain.width + block.start + values)
            else:
                places, items = subsets(probabilities, sizes, starts, random)
                parts.append(places * self.domain.width + block.start + items)
        keys = np.concatenate(parts)
        if balances:
            keys = balanced(self.domain, self.weights.numpy(), self.probabilities.numpy(), keys, sizes, random)
        places = keys // self.domain.width
        shuffled = random.permutation(count)  # place -> record
        keys = np.sort((shuffled[places] - places) * self.domain.width + keys)
        rows = keys // self.domain.width
        positions = keys - rows * self.domain.width
        indptr = row_pointers(np.bincount(rows, minlength=count))
        return Records(self.domain, indptr, positions.astype(index_dtype(self.domain.width)))

    @cached_property
    def deterministic(self) -> bool:
        """Whether there are few positions and all records of a component are alike."""
        certain = (self.probabilities == 0) | (self.probabilities == 1)
        return self.domain.width <= SAMPLING.certain_positions and bool(certain.all())

    def _neighbours(self) -> Ints:
        """Components in the order of the items they are likely to hold, the most frequent items first."""
        frequent = np.argsort(-(self.weights @ self.probabilities.double()).numpy(), kind="stable")[
            : SAMPLING.sorted_by
        ]
        return np.lexsort((self.probabilities.numpy()[:, frequent[::-1]] > 0.5).T)


def joined(models: Sequence[Products]) -> Products:
    """The mixture of mixtures of one domain in equal shares: all of its moments are the means of theirs."""
    if len(models) == 1:
        return models[0]
    weights = torch.cat([model.weights for model in models]) / len(models)
    return Products(models[0].domain, weights, torch.cat([model.probabilities for model in models]))


def _random(generator: torch.Generator) -> np.random.Generator:
    return np.random.default_rng(int(torch.randint(2**62, (1,), generator=generator)))


def rounded(shares: Floats, offset: float | Floats) -> Ints:
    """Whole numbers next to `shares` (along the first axis) whose running sums are off by less than 1."""
    running = np.floor(np.cumsum(shares, axis=0) + offset + 1e-9).astype(np.int64)
    if shares.ndim == 1:
        total = round(float(shares.sum()))
        running = np.minimum(running, total)
        running[-1:] = total
    return np.diff(running, axis=0, prepend=np.zeros_like(running[:1]))


def one_of_many(probabilities: NDArray[np.float32], sizes: Ints, random: np.random.Generator) -> Ints:
    """A value for every place of every component: shares rounded, then dealt out at random."""
    values = []
    for row, size in zip(probabilities, sizes, strict=True):
        exact = row.astype(np.float64)
        grid = (np.arange(size) + random.random()) / size * exact.sum()
        dealt = np.minimum(np.searchsorted(np.cumsum(exact), grid, side="right"), len(row) - 1)
        values.append(random.permutation(dealt))
    return np.concatenate(values) if values else np.empty(0, dtype=np.int64)


def subsets(
    probabilities: NDArray[np.float32], sizes: Ints, starts: Ints, random: np.random.Generator
) -> tuple[Ints, Ints]:
    """Places and items of all ones: each item goes to its rounded number of places of each component.

    Distinct places come from drawing with repetition and drawing the repeated ones again; items held by more
    than half of a component are dealt by choosing who does not get them.
    """
    width = probabilities.shape[1]
    expected = probabilities.astype(np.float64) * sizes[:, None]
    counts = np.clip(rounded(expected, random.random(width)), 0, sizes[:, None])
    absent = 2 * counts > sizes[:, None]
    drawn = np.where(absent, sizes[:, None] - counts, counts)
    rows, items = np.nonzero(drawn)
    keys = np.empty(0, dtype=np.int64)  # place * width + item
    group = np.repeat(np.arange(len(rows)), drawn[rows, items])
    while len(group):
        places = starts[rows[group]] + (random.random(len(group)) * sizes[rows[group]]).astype(np.int64)
        both = np.concatenate([keys, places * width + items[group]])
        sorted_order = np.argsort(both, kind="stable")  # older ones first among equals
        ordered = both[sorted_order]
        again = np.zeros(len(both), dtype=np.bool_)
        again[sorted_order[1:]] = ordered[1:] == ordered[:-1]
        group = group[again[len(keys) :]]
        keys = both[~again]
    out = absent[np.searchsorted(starts, keys // width, side="right") - 1, keys % width]
    if not absent.any():
        return keys // width, keys % width
    given = [keys[~out]]
    without = np.sort(keys[out])
    everywhere = absent & (drawn == 0)
    rows, items = np.nonzero(everywhere)
    places = np.repeat(starts[rows] - (np.cumsum(sizes[rows]) - sizes[rows]), sizes[rows])
    given.append((places + np.arange(len(places))) * width + np.repeat(items, sizes[rows]))
    for component, item in zip(*np.nonzero(absent & ~everywhere), strict=True):
        everyone = np.arange(starts[component], starts[component] + sizes[component]) * width + item
        places = np.searchsorted(without, everyone)
        places[places == len(without)] = 0
        given.append(everyone[without[places] != everyone])
    keys = np.concatenate(given)
    return keys // width, keys % width


def balanced(
    domain: Domain,
    weights: Floats,
    probabilities: NDArray[np.float32],
    keys: Ints,
    sizes: Ints,
    random: np.random.Generator,
) -> Ints:
    """What all records hold after exchanges, as record x width + position, in no order.

    Records of one component are independent draws, so a pair that should occur 25 times occurs 20 or 30 times. Items
    are exchanged between records of the same component (record lengths and item counts stay as they are) as long as
    that brings the counts of pairs and triples, over all records, nearer to what the mixture says. `keys` is what they
    hold before, in the same form; records of a component, of which there are `sizes`, follow each other.
    """
    count = int(sizes.sum())
    certain = bool(((probabilities == 0) | (probabilities == 1)).all())  # nothing is left to chance
    if not HAS_NUMBA or certain or not 1 < count <= SAMPLING.balanced_records:
        return keys
    frequent = np.argsort(-(weights @ probabilities), kind="stable")
    rank = np.empty(domain.width, dtype=np.int64)
    rank[frequent] = np.arange(domain.width)
    groups = np.zeros(domain.width, dtype=np.int64)
    for number, column in enumerate(domain.table_columns, start=1):
        groups[rank[column]] = number
    chances = probabilities[:, frequent[: SAMPLING.pairs]].astype(np.float64)
    shares = weights[:, None] / weights.sum()
    pairs = count * (chances * shares).T @ chances
    few = chances[:, : SAMPLING.triples]
    triples = count * np.einsum("ca,cb,cd->abd", few * shares, few, few, optimize=True)
    rows, positions = np.divmod(np.sort(keys), domain.width)
    indptr = row_pointers(np.bincount(rows, minlength=count))
    items = rank[positions]
    balance(
        indptr, items, np.cumsum(sizes) - sizes, sizes, groups,
        -pairs, _weights(pairs, count), -triples, _weights(triples, count),
        SAMPLING.sweeps, random.integers(2**62, size=1, dtype=np.uint64),
    )  # fmt: skip
    exchanged: Ints = rows * domain.width + frequent[items]
    return exchanged


def _weights(expected: Floats, count: int) -> Floats:
    """What a squared excess costs: errors count relative to what is expected."""
    return 1 / np.maximum(expected, SAMPLING.sanity * count) ** 2


def evened(expected: Floats, sizes: Ints, present: NDArray[np.bool_], random: np.random.Generator) -> Ints:
    """Sizes with the same total, each next to its expectation, whose items and pairs are nearer to the expected ones.

    For components of one possible record each. Rounded one by one, thousands of sizes leave the counts of items off by
    chance. Here single records move from component to component, rounded up here and down there, as long as that
    brings the counts of items and pairs nearer to what they should be. `present` (k, m) is what records hold.
    """
    sizes = sizes.copy()
    up, down = np.flatnonzero(sizes < expected), np.flatnonzero(sizes > expected)
    if not len(up) or not len(down):
        return sizes
    first, second = np.triu_indices(present.shape[1])
    target = (present * expected[:, None]).T @ present
    yardstick = np.maximum(target[first, second], SAMPLING.sanity * expected.sum())

    def features(chosen: Ints) -> Floats:
        marked: Floats = (present[chosen][:, first] & present[chosen][:, second]) / yardstick
        return marked

    gap = ((present * (sizes - expected)[:, None]).T @ present)[first, second] / yardstick
    moves = stale = 0
    while moves < SAMPLING.moves and stale < SAMPLING.stale_draws:
        gain, lose = (
            random.choice(side, min(len(side), SAMPLING.candidates // 2), replace=False) for side in (up, down)
        )
        gained, lost = features(gain), features(lose)
        gain_squares, lose_squares = (gained**2).sum(axis=1), (lost**2).sum(axis=1)
        free_gain, free_lose = np.ones(len(gain), dtype=np.bool_), np.ones(len(lose), dtype=np.bool_)
        before = moves
        while moves < SAMPLING.moves and free_gain.any() and free_lose.any():
            fall = np.where(free_lose, lose_squares - 2 * lost @ gap, np.inf)
            off = int(fall.argmin())
            rise = np.where(free_gain, gain_squares + 2 * gained @ (gap - lost[off]), np.inf)
            on = int(rise.argmin())
            if fall[off] + rise[on] >= -1e-15:
                break
            gap += gained[on] - lost[off]
            sizes[gain[on]] += 1
            sizes[lose[off]] -= 1
            free_gain[on] = free_lose[off] = False
            moves += 1
        stale = stale + 1 if moves == before else 0
        up, down = np.flatnonzero(sizes < expected), np.flatnonzero(sizes > expected)
        if not len(up) or not len(down):
            break
    return sizes
