"""Which places have which rank for a person: a mixture of products, fitted to noisy tables. Post-processing.

Within a component the places of all ranks are independent, so that homes and workplaces of a part of the town go
together. The fit minimises the squared distance to the tables of first places, of places by rank and of new places
after others, in standard deviations of their noise.
"""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from dpgm.arrays import Floats, Ints
from dpgm.data.events import Events
from dpgm.data.rows import index_dtype
from dpgm.sequences.chains import drawn_from
from dpgm.sequences.rules import PlaceRules
from dpgm.statistics.shrinkage import onto_simplex


@dataclass(frozen=True, eq=False)
class PlaceMixture:
    """Weights (K,), and the law of the places of each rank, (K, ranks, items)."""

    weights: Tensor
    laws: Tensor

    def fill(self, events: Events, rng: np.random.Generator, attempts: int) -> Events:
        """Events whose items are ranks, with places instead; each rank but the last has one place of its own."""
        components, ranks, items = self.laws.shape
        weights = self.weights.double().numpy()
        component = rng.choice(components, len(events), p=weights / weights.sum())
        running = torch.cumsum(self.laws.reshape(-1, items), dim=1).numpy()
        places = np.full((len(events), ranks - 1), -1, dtype=np.int64)
        for rank in range(ranks - 1):
            places[:, rank] = _other_than(places[:, :rank], running, component * ranks + rank, rng, attempts)
        people, codes = events.people(), events.codes.astype(np.int64)
        found = places[people, np.minimum(codes, ranks - 2)]
        beyond = np.flatnonzero(codes == ranks - 1)
        rows = component[people[beyond]] * ranks + ranks - 1
        found[beyond] = _other_than(places[people[beyond]], running, rows, rng, attempts)
        return Events(events.indptr, found.astype(index_dtype(items)), events.times)


def _other_than(taken: Ints, running: np.ndarray, rows: Ints, rng: np.random.Generator, attempts: int) -> Ints:
    """A draw from the law of each row that is none of those taken, unless all attempts fail."""
    found = drawn_from(running, rows, rng)
    for _ in range(attempts):
        again = np.flatnonzero((taken == found[:, None]).any(axis=1))
        if not len(again):
            break
        found[again] = drawn_from(running, rows[again], rng)
    return found


@dataclass(frozen=True, eq=False)
class PlaceTables:
    """The noisy tables, with the standard deviations of their noise.

    Attributes:
        first: (items, items): first and second place; on the diagonal, people with one place.
        places: (ranks, items).
        following: (items, items): from the third place on, the place before and the new one.
        moves: (ranks, ranks): by the pool, how often a new place of the second rank follows the first one, per person.
    """

    first: Tensor
    places: Tensor
    following: Tensor
    stds: tuple[float, float, float]
    moves: Tensor


def fit_places(tables: PlaceTables, people: int, rules: PlaceRules, rng: np.random.Generator) -> PlaceMixture:
    """The mixture of products nearest to the tables."""
    ranks, items = tables.places.shape
    pairs = tables.first.clone()
    pairs.fill_diagonal_(0)
    having = tables.places.sum(dim=1).clamp(min=1)  # people with so many places
    shares = [
        onto_simplex(row.numpy() / float(total), 1.0, rules.floor / items)
        for row, total in zip(tables.places, having, strict=True)
    ]
    common = torch.from_numpy(np.stack(shares)).clamp(min=rules.floor / items**2).log().float()
    start = rng.normal(0, rules.start, (rules.components, 1, items))
    start = start + rng.normal(0, rules.start, (rules.components, ranks, items))
    offsets = torch.from_numpy(start).float().requires_grad_()
    logits = torch.zeros(rules.components, requires_grad=True)
    optimizer = torch.optim.Adam([offsets, logits], lr=rules.rate)
    observed = (pairs.float(), tables.places.float(), tables.following.float())
    outside = 1 - torch.eye(items)
    scale = [float(std) for std in tables.stds]
    moves = tables.moves.float()
    for _ in range(rules.iterations):
        laws = torch.softmax(common + offsets, dim=2)
        weights = torch.softmax(logits, 0)
        weighted = weights[:, None] * laws[:, 0]
        first = float(having[min(1, ranks - 1)]) * (weighted.T @ laws[:, 1]) * outside
        places = having.float()[:, None] * (weights[:, None, None] * laws).sum(dim=0)
        mixed = torch.einsum("rs,ksi->kri", moves, laws)
        following = people * torch.einsum("kri,krj->ij", weights[:, None, None] * laws, mixed) * outside
        loss = sum(
            (((one - other) / std) ** 2).sum()
            for one, other, std in zip((first, places, following), observed, scale, strict=True)
        )
        loss = loss / 2 + rules.ridge * (offsets**2).sum()
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    with torch.no_grad():
        return PlaceMixture(torch.softmax(logits, 0).double(), torch.softmax(common + offsets, dim=2))


def new_places(events: Events, weights: Floats, ranks: int) -> Tensor:
    """(ranks, ranks): how often, per person, an event of one rank comes before the first one of another, from 2 on."""
    codes, people = events.codes.astype(np.int64), events.people()
    keys = people * ranks + codes
    first = np.sort(np.unique(keys, return_index=True)[1])
    later = first[codes[first] >= 2]
    cells = codes[later - 1] * ranks + codes[later]
    return torch.from_numpy(np.bincount(cells, weights[people[later]], minlength=ranks**2).reshape(ranks, ranks))
