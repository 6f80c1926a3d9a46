"""Few items: all 2^m possible records are listed, sets are measured centred, and the fit is a convex problem."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import comb
from typing import TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray

from dpgm.data.domain import Domain
from dpgm.mechanisms.gateway import Gateway
from dpgm.models.products import Products
from dpgm.statistics.cell_sets import STEPS, CellSets, offsets_near
from dpgm.statistics.item_counts import ItemCounts
from dpgm.statistics.record_lengths import item_positions
from dpgm.statistics.statistic import GRID, Measured, clip_steps
from dpgm.synthesis.bound_choice import SANITY, popular_sets, relative_error
from dpgm.synthesis.reading import Reading, item_profile
from dpgm.training.table_fit import Shown, ShownLengths, fit_table

Floats: TypeAlias = NDArray[np.float64]

WIDEST = 17  # items
DOUBT = 0.1  # with all records listed the correction for scaling down is exact, or nearly
_MOST_CELLS = 50_000
_WHOLE = (3, 4)  # releases that count short records whole
# How readily counts give way to what the others imply: (least, most), by order; see `_price`.
_PRICES = {1: (0.03, 0.03), 2: (0.03, 0.03), 3: (0.03, 0.1), 4: (0.03, 0.2)}
_WHOLE_PRICE = 0.2


def lists_cells(domain: Domain) -> bool:
    """Whether the domain is of so few items, and of items alone."""
    return domain.width <= WIDEST and bool(item_positions(domain).all())


def ask_cells(
    gateway: Gateway, domain: Domain, order: int, profile: Floats, law: Floats, records: int, noise: float
) -> Measured[CellSets]:
    """Centred sums of sets, within the bound that balances noise against what scaling down distorts."""
    free = CellSets(domain, order, offsets_near(profile), bound=1.0, whole=order in _WHOLE)
    chances = likely_records(profile, law)
    chances[free.whole_records] = 0.0
    held = np.bitwise_count(np.arange(1 << domain.width))
    parted = chances * np.array([comb(n, order) for n in range(domain.width + 1)], dtype=np.float64)[held]
    expected, yardstick = popular_sets(order, law, profile, records)
    best, best_cost = float(free.norms.max()), np.inf
    candidates = np.unique(free.norms.round(1)) if parted.any() else np.empty(0)
    for bound in candidates[candidates > 0]:
        kept = np.minimum(1.0, bound / np.maximum(free.norms, 1e-12))
        retained = float((parted * kept).sum() / parted.sum())
        cost = relative_error(order, noise * bound, retained, expected, yardstick, doubt=DOUBT)
        if cost < best_cost:
            best, best_cost = float(bound), cost
    sets = replace(free, bound=max(best, 1 / STEPS**order))
    return Measured(sets, gateway.release(sets.name, sets.query(), noise), noise * sets.sensitivity)


def likely_records(profile: Floats, law: Floats) -> Floats:
    """A guess at the share of each of the 2^m possible records, from item frequencies and the law of lengths."""
    cells = np.arange(1 << len(profile))
    odds = np.log(profile) - np.log1p(-profile)
    chances = np.exp(((cells[:, None] >> np.arange(len(profile))) & 1) @ odds)
    sizes = np.bitwise_count(cells)
    shares = np.zeros(len(profile) + 1)
    shares[: len(law)] = law[: len(profile) + 1]
    guess: Floats = chances * (shares / np.bincount(sizes, chances))[sizes]
    return guess


def fit_cells(
    items: Measured[ItemCounts],
    cells: Sequence[Measured[CellSets]],
    reading: Reading,
    domain: Domain,
    records: int,
    progress: Callable[[float], None] | None,
) -> Products:
    """The records that are likely to occur become components of one record each. Post-processing."""
    profile = torch.from_numpy(item_profile(items, reading, records)).float()
    sizes = np.bitwise_count(np.arange(1 << domain.width))
    shown = [
        Shown(
            sets=torch.from_numpy(1 << np.arange(domain.width)),
            values=items.value,
            variances=torch.full_like(items.value, items.std**2),
            weights=torch.from_numpy((clip_steps(domain.width, 1, items.statistic.cap) * GRID)[sizes]),
            price=_price(1, items.std, records),
        )
    ]
    for measured in cells:
        asked = measured.statistic
        sums, whole = measured.value[: len(asked.sets)], measured.value[len(asked.sets) :]
        shown.append(
            Shown(
                sets=torch.from_numpy(asked.sets),
                values=sums,
                variances=torch.full_like(sums, measured.std**2),
                weights=torch.from_numpy(asked.weight_steps * GRID),
                offsets=torch.tensor(asked.offsets) / STEPS,
                price=_price(asked.order, measured.std, records),
            )
        )
        if asked.whole:
            shown.append(
                Shown(
                    sets=torch.from_numpy(asked.whole_records),
                    values=whole / asked.whole_weight,
                    variances=torch.full_like(whole, (measured.std / asked.whole_weight) ** 2),
                    weights=None,
                    price=_WHOLE_PRICE,
                )
            )
    lengths = None
    if reading.lengths is not None:
        read = reading.lengths
        lengths = ShownLengths(
            torch.from_numpy(read.groups), torch.from_numpy(read.counts), torch.from_numpy(read.stds**2)
        )
    chances = fit_table(profile, records, shown, lengths, progress=progress)
    chosen = chances.argsort(descending=True)[:_MOST_CELLS]
    chosen = chosen[chances[chosen] > 1e-3 / records]
    weights = chances[chosen] / chances[chosen].sum()
    held = (chosen[:, None] >> torch.arange(domain.width)) & 1
    return Products(domain, weights, held.float())


def _price(order: int, std: float, records: int) -> float:
    """The noisier compared with what matters, the readier these counts give way to what the others imply."""
    least, most = _PRICES[order]
    return float(np.clip(std / (SANITY * records), least, most))
