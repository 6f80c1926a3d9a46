"""From noisy histograms of a number to how it is modelled: popular values, bins, shapes. Post-processing."""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from dpgm.data.domain import ShapedNumber
from dpgm.data.number_fields import LARGEST_TICK, OpenNumber
from dpgm.data.number_grids import YEARS, Grid, bound_exponent, hour_slot, slot_range, year_range
from dpgm.statistics.shrinkage import onto_simplex
from dpgm.synthesis.discovery_rules import DiscoveryRules

Floats: TypeAlias = NDArray[np.float64]


@dataclass(frozen=True)
class Shaped:
    """A closed field, and the position (within it) that most records have."""

    field: ShapedNumber
    commonest: int


def estimate_bounds(field: OpenNumber, counts: Floats, std: float, rules: DiscoveryRules) -> tuple[float, float]:
    """Low and high in ticks: as stated, else from the powers of two that enough records lie between."""
    seen = np.flatnonzero(counts > rules.seen * std)
    zero = len(counts) // 2  # beyond it numbers have the other sign
    if not len(seen):
        seen = np.array([_likeliest(counts / std, zero, field.format.in_steps, rules)])
    first, last = _with_tails(counts, int(seen[0]), int(seen[-1]), rules.near * std, rules.together)
    first, last = _with_far_groups(counts, first, last, rules.rows_seen * std)
    first, last = _with_other_sign(counts, first, last, zero, rules.other_sign * std)
    first -= first not in (0, zero, zero + 1) and counts[first - 1] > rules.beside * std
    last += last not in (zero - 1, zero, len(counts) - 1) and counts[last + 1] > rules.beside * std
    in_steps = field.format.in_steps
    found_low, found_high = slot_range(first, in_steps)[0], slot_range(last, in_steps)[1]
    if in_steps:  # noise may stand out between 0 and 1, where no whole number lies
        found_low, found_high = float(np.ceil(found_low)), float(np.floor(found_high))
    return _as_stated(field, found_low, found_high)


def _as_stated(field: OpenNumber, found_low: float, found_high: float) -> tuple[float, float]:
    """The bounds of a field: as stated, else as found, and never empty."""
    low, high = field.bounds
    if low is None:
        low = found_low if high is None else min(found_low, high - 1)
    if high is None:
        high = found_high if found_high > low else low + 1
    return low, high


def _likeliest(counts: Floats, zero: int, in_steps: bool, rules: DiscoveryRules) -> int:
    """The power of two to start from where none stands out from noise: small numbers are likelier than huge ones."""
    exponents = np.array([0.0 if at == zero else bound_exponent(at) for at in range(len(counts))])
    unlikely = rules.far_fetched * np.abs(exponents) + rules.negative * (np.arange(len(counts)) < zero)
    if in_steps:
        unlikely[exponents < 0] = np.inf
    return int(np.argmax(counts - unlikely))


def estimate_years(
    field: OpenNumber, years: Floats, std: float, step: int, rules: DiscoveryRules
) -> tuple[float, float]:
    """Low and high in ticks (of `step` seconds) of a date: as stated, or by how many records lie in calendar years."""
    first, last = _clearest(years, rules.rows_seen * std) or (0, YEARS - 1)
    lone = np.flatnonzero(years > rules.seen * std)
    first, last = min([first, *lone.tolist()]), max([last, *lone.tolist()])
    first, last = _with_tails(years, first, last, rules.near * std, rules.together)
    first -= first > 0 and years[first - 1] > rules.beside * std
    last += last < YEARS - 1 and years[last + 1] > rules.beside * std
    return _as_stated(field, *year_range(first, last, step))


def estimate_step(counts: Floats, std: float, rules: DiscoveryRules) -> int:
    """The finest step (they are counted from coarse to fine) that stands out from noise; else the commonest."""
    seen = np.flatnonzero(counts > rules.seen * std)
    return int(seen[-1]) if len(seen) else int(np.argmax(counts))


def range_in_places(low: float, high: float, places: int) -> tuple[float, float]:
    """A range between powers of two, whose outer ends are not part of it, in ticks of so many places after the point.

    >>> range_in_places(0.5, 4.0, 1), range_in_places(-2.0, 0.0, 0)
    ((5.0, 39.0), (-1.0, 0.0))
    """
    scale = 10.0**places
    first = np.ceil(low * scale) if low >= 0 else np.floor(low * scale) + 1
    last = np.ceil(high * scale) - 1 if high > 0 else np.floor(high * scale)
    first, last = np.clip([first, last], -LARGEST_TICK, LARGEST_TICK).tolist()
    return first, max(last, first + 1)


def _with_far_groups(counts: Floats, first: int, last: int, least: float) -> tuple[int, int]:
    """The range widened by neighbours beyond a gap that stand out together: most people have 0, the others money."""
    below, above = _clearest(counts[:first], least), _clearest(counts[last + 1 :], least)
    return first if below is None else below[0], last if above is None else last + 1 + above[1]


def _with_other_sign(counts: Floats, first: int, last: int, zero: int, least: float) -> tuple[int, int]:
    """The range widened by numbers of the same sizes and the other sign: balances, of which some are below 0."""
    if first <= zero <= last:
        return first, last
    start, stop = 2 * zero - last, 2 * zero - first
    found = _clearest(counts[start : stop + 1], least)
    if found is None:
        return first, last
    return min(first, start + found[0]), max(last, start + found[1])


def _clearest(counts: Floats, least: float) -> tuple[int, int] | None:
    """First and last of the neighbours whose sum stands out most from noise; None where none does by `least`."""
    upto = np.concatenate([[0.0], np.cumsum(counts)])
    at = np.arange(len(upto))
    sizes = at[None, :] - at[:, None]
    sums = upto[None, :] - upto[:, None]
    clear = np.where(sizes > 0, sums / np.sqrt(np.maximum(sizes, 1)), -np.inf)
    if clear.max() < least:
        return None
    first, after = np.unravel_index(int(np.argmax(clear)), clear.shape)
    return int(first), int(after) - 1


def _with_tails(counts: Floats, first: int, last: int, least: float, together: int) -> tuple[int, int]:
    """The range widened at both ends by neighbours, up to so many at a time, that stand out together."""

    def outermost(counts: Floats, last: int) -> int:
        while True:
            sums = np.cumsum(counts[last + 1 : last + 1 + together])
            clear = np.flatnonzero(sums > least * np.sqrt(np.arange(1, len(sums) + 1)))
            if not len(clear):
                return last
            last += int(clear[0]) + 1

    end = len(counts) - 1
    return end - outermost(counts[::-1], end - first), outermost(counts, last)


def estimate_cells(
    noisy: Floats,
    grid: Grid,
    std: float,
    total: float,
    rules: DiscoveryRules,
    found: tuple[bool, bool] = (False, False),
) -> Floats:
    """How many records lie in every cell: not negative, and `total` in all.

    From coarse to fine: what a group holds is shared out among its parts by their own noisy counts, which are trusted
    as far as they differ from what the groups around suggest by more than noise does. Far out, where no group stands
    out, there is nothing. `found` is whether either end of the range is not stated.
    """
    at = len(grid.separate)
    apart = np.array(grid.separate, dtype=np.int64)
    ends = (found[0] & (apart == 0)) | (found[1] & (apart == grid.cells - 1))
    ends &= np.array(grid.edges)[apart] != 0  # many people have none of something
    least = np.where(ends | (std > rules.apart_noise * total), rules.apart_seen * std, 0.0)
    alone = np.where(noisy[:at] > least, _believed(noisy[:at], std, rules.rare_apart), 0.0)
    alone *= min(1.0, total / max(float(alone.sum()), 1e-12))
    above, mass = np.array([0]), np.array([max(total - float(alone.sum()), 0.0)])
    for starts in grid.levels:
        counts = noisy[at : at + len(starts)].copy()
        at += len(starts)
        if len(starts) == grid.cells:
            counts[apart] = -np.inf
        parts = np.zeros(len(starts))
        borders = np.searchsorted(starts, [*above, grid.cells])
        slopes = _slopes(mass, np.append(above, grid.cells))
        for group, (first, last) in enumerate(pairwise(borders.tolist())):
            sizes = np.diff([*starts[first:last], grid.cells if last == len(starts) else starts[last]])
            own = counts[first:last]
            possible = own > -np.inf
            if len(mass) == 1 and len(grid.levels) > 1:
                possible &= _within_sight(own, std, float(mass[0]), len(apart) + 1, rules)
            if possible.any():
                middles = starts[first:last] + sizes / 2
                middle = np.average(middles[possible], weights=sizes[possible])
                shares = (sizes * np.maximum(1 + slopes[group] * (middles - middle), 0.0))[possible]
                shares = shares / shares.sum()
                part = _shared_out(own[possible], shares, float(mass[group]), std, rules)
                parts[first:last][possible] = part
        above, mass = starts, parts
    mass[apart] = alone
    return mass * total / max(float(mass.sum()), 1e-12)


def estimate_hours(
    noisy: Floats, found: Mapping[float, float], day: int, std: float, rules: DiscoveryRules
) -> tuple[float, ...]:
    """How often each hour of the day occurs, besides exact moments that were discovered; nothing where none is counted.

    Hours stand out from noise on their own, or beside one that does: shops that open at eight are not open at night.
    """
    if not day:
        return ()
    counts = noisy.copy()
    np.subtract.at(counts, hour_slot(np.array(list(found), dtype=np.float64), day), list(found.values()))
    present = counts > rules.far * std
    beside = counts > rules.beside * std
    for _ in counts:
        present |= beside & (np.roll(present, 1) | np.roll(present, -1))
    hours = np.where(present, counts, 0.0) if present.any() else np.ones(len(counts))
    return tuple(float(f"{weight:.4g}") for weight in hours)


def _slopes(mass: Floats, borders: NDArray[np.int64]) -> Floats:
    """How the density rises within every group, per cell and as a share of it: the smaller of the rises to both sides.

    Where these have different signs, as at a peak, it is 0; and nowhere does the density fall below 0 within a group.
    """
    sizes, middles = np.diff(borders), (borders[:-1] + borders[1:]) / 2
    if len(mass) < 3:
        return np.zeros(len(mass))
    density = mass / sizes
    rises = np.diff(density) / np.diff(middles)
    left, right = np.append(0.0, rises), np.append(rises, 0.0)
    slopes = np.where(left * right > 0, np.sign(left) * np.minimum(np.abs(left), np.abs(right)), 0.0)
    return np.clip(slopes / np.maximum(density, 1e-12), -2 / sizes, 2 / sizes)


def _within_sight(
    counts: Floats, std: float, total: float, noises: int, rules: DiscoveryRules
) -> NDArray[np.bool_]:
    """From the first to the last group that stands out, with the tails beside them; all of them where none does.

    At least the fewest neighbours that hold the total but for noise: of few records no group may stand out.
    """
    far = rules.far if std > rules.apart_noise * total else rules.far_many
    clear = np.flatnonzero(counts > far * std)
    inside = np.ones(len(counts), dtype=np.bool_)
    if len(clear):
        first, last = _with_tails(counts, int(clear[0]), int(clear[-1]), rules.tails * std, rules.together)
        fewest = _explaining(counts, total, rules.unexplained * std, noises)
        first, last = min(first, fewest[0]), max(last, fewest[1])
        inside[:first] = inside[last + 1 :] = False
    return inside


def _explaining(counts: Floats, total: float, least: float, noises: int) -> tuple[int, int]:
    """First and last of the fewest neighbours whose sum is the total, less noise; of as many, those that hold most.

    The total, too, is noisy: so many counts (of missing values, and of cells apart) were subtracted for it.
    """
    upto = np.concatenate([[0.0], np.cumsum(counts)])
    for size in range(1, len(counts)):
        sums = upto[size:] - upto[:-size]
        first = int(np.argmax(sums))
        if sums[first] >= total - least * (size + noises) ** 0.5:
            return first, first + size - 1
    return 0, len(counts) - 1


def _shared_out(counts: Floats, shares: Floats, total: float, std: float, rules: DiscoveryRules) -> Floats:
    """`total` over the parts of a group, of which noisy counts and the number of cells are known."""
    if total <= 0 or len(counts) == 1:
        return np.full(len(counts), max(total, 0.0) / len(counts))
    result = np.zeros(len(counts))
    spikes = counts - shares * total > rules.spike * std
    if spikes.any():
        result[spikes] = counts[spikes] * min(1.0, total / max(float(counts[spikes].sum()), 1e-12))
    rest, free = max(0.0, total - float(result.sum())), ~spikes
    if not free.any():
        return result * total / max(float(result.sum()), 1e-12)
    even = rest * shares[free] / shares[free].sum()
    apart = counts[free] - even
    # What parts differ by beyond noise, whose mean square itself varies by a share of sqrt(2 / parts).
    noise = (1 + rules.doubt * np.sqrt(2 / len(apart))) * std**2
    signal = max(0.0, float(np.mean(apart**2)) - noise)
    expected = even + signal / (signal + std**2) * apart
    result[free] = onto_simplex(_believed(expected, std, rules.rare), rest)
    return result


def _believed(counts: Floats, std: float, rare: float) -> Floats:
    """Counts that noise explains as well brought toward 0: the mean under a prior by which many are nothing."""
    density = np.exp(-((counts / std) ** 2) / 2) / np.sqrt(2 * np.pi)
    believed: Floats = np.where(counts > 0, counts / (1 + rare * density), counts)
    return believed


def shape_number(
    field: OpenNumber,
    grid: Grid,
    cells: Floats,
    missing: bool,
    found: Mapping[float, float],
    std: float,
    records: int,
    rules: DiscoveryRules,
    clock: tuple[float, ...] = (),
) -> Shaped:
    """How a number is modelled, from the estimated records of every cell of its grid.

    `found` are exact values that were discovered or are special, with about how many records hold them; `clock` is how
    often each hour of the day occurs, where days and hours are modelled apart.
    """
    own_cells = grid.in_steps and not clock  # cells of whole days are not cut at a moment
    edges, weights = _with_own_cells(np.array(grid.edges), cells, found, own_cells)
    atoms = _atoms(field, edges, weights, found, own_cells, std, records, rules)
    own = np.isin(edges[:-1], list(atoms)) & (np.diff(edges) == 1) & own_cells
    weight_of = {atom: float(found.get(atom, 0.0)) for atom in atoms}
    for at in np.flatnonzero(own).tolist():
        if edges[at] not in field.special_ticks:  # of which nothing is counted in cells
            weight_of[float(edges[at])] = float(weights[at])
    if own.all() and len(atoms):
        shaped = ShapedNumber(field.name, field.format, atoms, (), (), (), missing=missing)
        return Shaped(shaped, int(np.argmax([weight_of[atom] for atom in atoms])))
    rest = np.where(own, 0.0, weights)
    starts = _bins(rest, std, records, rules)
    edges, rest, starts = _fewer_cells(edges, rest, starts)
    shaped = ShapedNumber(
        field.name,
        field.format,
        atoms,
        tuple(edges.tolist()),
        tuple(float(f"{weight:.4g}") for weight in rest),
        tuple(starts.tolist()),
        clock,
        missing,
    )
    masses = [*(weight_of[atom] for atom in atoms), *np.add.reduceat(rest, starts)]
    return Shaped(shaped, int(np.argmax(masses)))


def _with_own_cells(
    edges: Floats, weights: Floats, found: Mapping[float, float], in_steps: bool
) -> tuple[Floats, Floats]:
    """Cells of their own for discovered values, and what is left of the cells around them."""
    for value, count in found.items():
        at = int(np.searchsorted(edges, value, side="right")) - 1
        if not 0 <= at < len(weights):
            continue
        low, high = edges[at], edges[at + 1]
        taken = min(count, float(weights[at]))
        if not in_steps:
            weights = weights.copy()
            weights[at] -= taken
        elif high - low > 1:
            borders = np.unique([low, value, value + 1, high])
            widths = np.where(borders[:-1] == value, 0.0, np.diff(borders))
            parts = (weights[at] - taken) * widths / widths.sum()
            parts[borders[:-1] == value] = taken
            edges = np.concatenate([edges[:at], borders, edges[at + 2 :]])
            weights = np.concatenate([weights[:at], parts, weights[at + 1 :]])
    return edges, weights


def _atoms(
    field: OpenNumber,
    edges: Floats,
    weights: Floats,
    found: Mapping[float, float],
    in_steps: bool,
    std: float,
    records: int,
    rules: DiscoveryRules,
) -> tuple[float, ...]:
    """Values with a position of their own, rising."""
    specials = set(field.special_ticks)
    single = np.diff(edges) == 1 if in_steps else np.zeros(len(weights), dtype=np.bool_)
    clear = records >= rules.least_bin * std * len(weights)  # on average every value stands out as bins must
    few = rules.few_clear_values if clear else rules.few_values
    if in_steps and single.all() and len(weights) <= few:
        return tuple(sorted({*edges[:-1].tolist(), *specials}))
    around = _around(weights / np.diff(edges))
    outstanding = single & (weights >= rules.stands_out * around)
    popular = {float(edges[at]): float(weights[at]) for at in np.flatnonzero(outstanding).tolist()}
    popular |= {value: count for value, count in found.items() if not in_steps}
    enough = {value: count for value, count in popular.items() if count >= rules.atom_share * records}
    first = sorted(enough, key=lambda value: (-enough[value], value))[: rules.most_atoms]
    return tuple(sorted({*first, *specials}))


def _around(density: Floats) -> Floats:
    """Mean density of the two cells on either side of every cell."""
    if len(density) < 3:
        return np.zeros(len(density))
    padded = np.pad(density, 2, mode="reflect")
    around: Floats = (padded[:-4] + padded[1:-3] + padded[3:-1] + padded[4:]) / 4
    return around


def _bins(weights: Floats, std: float, records: int, rules: DiscoveryRules) -> NDArray[np.int64]:
    """First cells of bins of about equal weight."""
    total = float(weights.sum())
    count = max(1, min(rules.bins, int(total / max(rules.least_bin * std, 1e-12)), int((weights > 0).sum())))
    upto, tail = np.cumsum(weights), rules.tail * records
    quantiles = total * np.arange(1, count) / count
    if count > 2 and tail >= rules.least_bin * std and total / count > 2 * tail:
        quantiles = np.concatenate([[tail], quantiles, [total - tail]])
    borders = np.searchsorted(upto, quantiles, side="left") + 1
    return np.unique(np.concatenate([[0], borders[borders < len(weights)]]))


def _fewer_cells(
    edges: Floats, weights: Floats, starts: NDArray[np.int64]
) -> tuple[Floats, Floats, NDArray[np.int64]]:
    """Neighbouring cells of a bin that hold nothing put together."""
    keep = np.ones(len(weights), dtype=np.bool_)
    keep[1:] = (weights[1:] > 0) | (weights[:-1] > 0)
    keep[starts] = True
    firsts = np.flatnonzero(keep)
    merged = np.add.reduceat(weights, firsts)
    return np.append(edges[firsts], edges[-1]), merged, np.searchsorted(firsts, starts)
