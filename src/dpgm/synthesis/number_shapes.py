"""How a number is modelled (range, popular values, bins, shapes), estimated from its noisy histograms.

All of it is post-processing. A count is significant if it exceeds a multiple of the standard deviation of its noise.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from dpgm.arrays import Floats
from dpgm.data.domain import ShapedNumber
from dpgm.data.kinds.open_number import OpenNumber
from dpgm.data.number_grids import YEARS, Grid, bound_exponent, hour_slot, slot_range, year_range
from dpgm.statistics.shrinkage import onto_simplex
from dpgm.strategy.discovery_rules import DiscoveryRules


@dataclass(frozen=True)
class Shaped:
    """A closed field, and its position with the most records."""

    field: ShapedNumber
    commonest: int


def estimate_bounds(field: OpenNumber, counts: Floats, std: float, rules: DiscoveryRules) -> tuple[float, float]:
    """Low and high in ticks: as stated, else from the numbers of records between powers of two."""
    significant = np.flatnonzero(counts > rules.range_threshold * std)
    zero = len(counts) // 2  # the slot of 0, between the negative and the positive numbers
    if not len(significant):
        significant = np.array([_likeliest(counts / std, zero, field.format.in_steps, rules)])
    first, last = int(significant[0]), int(significant[-1])
    first, last = _with_tails(counts, first, last, rules.adjacent_threshold * std, rules.max_run)
    first, last = _with_distant_runs(counts, first, last, rules.run_threshold * std)
    first, last = _with_other_sign(counts, first, last, zero, rules.other_sign_threshold * std)
    first -= first not in (0, zero, zero + 1) and counts[first - 1] > rules.one_more_threshold * std
    last += last not in (zero - 1, zero, len(counts) - 1) and counts[last + 1] > rules.one_more_threshold * std
    in_steps = field.format.in_steps
    found_low, found_high = slot_range(first, in_steps)[0], slot_range(last, in_steps)[1]
    if in_steps:  # noise may be significant between 0 and 1, where there is no whole number
        found_low, found_high = float(np.ceil(found_low)), float(np.floor(found_high))
    return _as_stated(field, found_low, found_high)


def _as_stated(field: OpenNumber, found_low: float, found_high: float) -> tuple[float, float]:
    """The bounds of a field: as stated, else as found; the range is never empty."""
    low, high = field.bounds
    if low is None:
        low = found_low if high is None else min(found_low, high - 1)
    if high is None:
        high = found_high if found_high > low else low + 1
    return low, high


def _likeliest(counts: Floats, zero: int, in_steps: bool, rules: DiscoveryRules) -> int:
    """The power of two to start from if none is significant: small numbers are likelier than huge ones."""
    exponents = np.array([0.0 if at == zero else bound_exponent(at) for at in range(len(counts))])
    penalty = rules.size_penalty * np.abs(exponents) + rules.negative_penalty * (np.arange(len(counts)) < zero)
    if in_steps:
        penalty[exponents < 0] = np.inf
    return int(np.argmax(counts - penalty))


def estimate_years(
    field: OpenNumber, years: Floats, std: float, step: int, records: int, rules: DiscoveryRules
) -> tuple[float, float]:
    """Low and high of a date in ticks (of `step` seconds): as stated, else from the records per calendar year.

    `records` is the public number of all records, which the range must account for up to noise and missing dates.
    """
    first, last = _clearest_run(years, rules.run_threshold * std) or (0, YEARS - 1)
    single = np.flatnonzero(years > rules.range_threshold * std)
    first, last = min([first, *single.tolist()]), max([last, *single.tolist()])
    first, last = _with_tails(years, first, last, rules.adjacent_threshold * std, rules.max_run)
    first, last = _with_unexplained(years, first, last, std, records, rules)
    first -= first > 0 and years[first - 1] > rules.one_more_threshold * std
    last += last < YEARS - 1 and years[last + 1] > rules.one_more_threshold * std
    return _as_stated(field, *year_range(first, last, step))


def estimate_step(counts: Floats, std: float, rules: DiscoveryRules) -> int:
    """The finest step (counts go from coarse to fine) with a significant count; else the commonest."""
    significant = np.flatnonzero(counts > rules.range_threshold * std)
    return int(significant[-1]) if len(significant) else int(np.argmax(counts))


def _with_distant_runs(counts: Floats, first: int, last: int, least: float) -> tuple[int, int]:
    """The range widened by significant runs beyond a gap: most people have 0, the others an amount of money."""
    below, above = _clearest_run(counts[:first], least), _clearest_run(counts[last + 1 :], least)
    return first if below is None else below[0], last if above is None else last + 1 + above[1]


def _with_unexplained(
    counts: Floats, first: int, last: int, std: float, records: int, rules: DiscoveryRules
) -> tuple[int, int]:
    """The range widened while it holds significantly fewer records than there are, and others hold some.

    It grows by the clearest runs next to it, of any length; if there is none, by distant runs. (Records that are short
    may also be missing: then the counts outside of the range add up to noise.)
    """
    least, end = rules.long_tail_threshold * std, len(counts) - 1
    while True:
        size, inside = last - first + 1, counts[first : last + 1].sum()
        short = records - inside > rules.shortfall_threshold * std * size**0.5
        if not short or counts.sum() - inside <= rules.outside_threshold * std * (len(counts) - size) ** 0.5:
            break
        wider = (end - _clearest_end(counts[::-1], end - first, least), _clearest_end(counts, last, least))
        if wider == (first, last):
            wider = _with_distant_runs(counts, first, last, rules.distant_threshold * std)
        if wider == (first, last):
            break
        first, last = wider
    return first, last


def _clearest_end(counts: Floats, last: int, least: float) -> int:
    """Last slot of the run after `last` with the largest sum / sqrt(length); `last` itself if that is below `least`."""
    sums = np.cumsum(counts[last + 1 :])
    clarity = sums / np.sqrt(np.arange(1, len(sums) + 1))
    return last + 1 + int(np.argmax(clarity)) if len(sums) and clarity.max() > least else last


def _with_other_sign(counts: Floats, first: int, last: int, zero: int, least: float) -> tuple[int, int]:
    """The range widened by numbers of the same sizes with the other sign, such as negative balances."""
    if first <= zero <= last:
        return first, last
    start, stop = 2 * zero - last, 2 * zero - first
    found = _clearest_run(counts[start : stop + 1], least)
    if found is None:
        return first, last
    return min(first, start + found[0]), max(last, start + found[1])


def _clearest_run(counts: Floats, least: float) -> tuple[int, int] | None:
    """First and last slot of the run with the largest sum / sqrt(length); None if that is below `least`."""
    cumulative = np.concatenate([[0.0], np.cumsum(counts)])
    at = np.arange(len(cumulative))
    lengths = at[None, :] - at[:, None]
    sums = cumulative[None, :] - cumulative[:, None]
    clarity = np.where(lengths > 0, sums / np.sqrt(np.maximum(lengths, 1)), -np.inf)
    if clarity.max() < least:
        return None
    first, after = np.unravel_index(int(np.argmax(clarity)), clarity.shape)
    return int(first), int(after) - 1


def _with_tails(counts: Floats, first: int, last: int, least: float, max_run: int) -> tuple[int, int]:
    """The range widened at both ends by adjacent significant runs of up to `max_run` slots."""

    def outermost(counts: Floats, last: int) -> int:
        while True:
            sums = np.cumsum(counts[last + 1 : last + 1 + max_run])
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
    """Estimated number of records in every cell: not negative, and `total` in all.

    From coarse to fine: the records of a group are divided among its parts by their own noisy counts, which are trusted
    as far as they differ from what neighbouring groups suggest by more than noise does. Beyond the outermost
    significant group there are none. `found` says of either end of the range whether it was discovered, not stated.
    """
    at = len(grid.separate)
    separate = np.array(grid.separate, dtype=np.int64)
    found_ends = (found[0] & (separate == 0)) | (found[1] & (separate == grid.cells - 1))
    found_ends &= np.array(grid.edges)[separate] != 0  # at 0 there often are many records
    least = np.where(found_ends | (std > rules.noisy_share * total), rules.separate_threshold * std, 0.0)
    own = np.where(noisy[:at] > least, _shrunk(noisy[:at], std, rules.empty_odds_separate), 0.0)
    own *= min(1.0, total / max(float(own.sum()), 1e-12))
    above, mass = np.array([0]), np.array([max(total - float(own.sum()), 0.0)])
    for starts in grid.levels:
        counts = noisy[at : at + len(starts)].copy()
        at += len(starts)
        if len(starts) == grid.cells:
            counts[separate] = -np.inf
        sizes = np.diff(starts, append=grid.cells)
        middles = starts + sizes / 2
        slopes = _slopes(mass, np.append(above, grid.cells))
        borders = np.searchsorted(starts, [*above, grid.cells])
        parts = np.zeros(len(starts))
        for group, (first, last) in enumerate(pairwise(borders.tolist())):
            possible = counts[first:last] > -np.inf
            if len(mass) == 1 and (len(grid.levels) > 1 or any(found)):
                visible = _visible(counts[first:last], std, float(mass[0]), len(separate) + 1, rules)
                if len(grid.levels) == 1:
                    visible = _with_value_tails(visible, counts[first:last], std, float(mass[0]), found, rules)
                possible &= visible
            inside = first + np.flatnonzero(possible)
            if len(inside):
                middle = np.average(middles[inside], weights=sizes[inside])
                shares = sizes[inside] * np.maximum(1 + slopes[group] * (middles[inside] - middle), 0.0)
                parts[inside] = _divided(counts[inside], shares / shares.sum(), float(mass[group]), std, rules)
        above, mass = starts, parts
    mass[separate] = own
    return mass * total / max(float(mass.sum()), 1e-12)


def without_empty_ends(grid: Grid, cells: Floats, found: tuple[bool, bool]) -> tuple[Grid, Floats]:
    """The grid and its estimated cells without empty cells at ends that were discovered; for grids of one level.

    Discovered bounds are powers of two: the hours of the day would go up to 31.
    """
    if len(grid.levels) > 1:
        return grid, cells
    filled = np.flatnonzero(cells > 0)
    first = int(filled[0]) if found[0] else 0
    last = int(filled[-1]) if found[1] else grid.cells - 1
    return replace(grid, edges=grid.edges[first : last + 2]), cells[first : last + 1]


def estimate_hours(
    noisy: Floats, found: Mapping[float, float], day: int, std: float, rules: DiscoveryRules
) -> tuple[float, ...]:
    """Weight of each hour of the day, without the exact moments in `found`; empty if hours were not counted.

    An hour must be significant, or be next to one that is: shops that open at eight are not open at night.
    """
    if not day:
        return ()
    counts = noisy.copy()
    np.subtract.at(counts, hour_slot(np.array(list(found), dtype=np.float64), day), list(found.values()))
    present = counts > rules.outer_threshold * std
    likely = counts > rules.one_more_threshold * std
    for _ in counts:
        present |= likely & (np.roll(present, 1) | np.roll(present, -1))
    hours = np.where(present, counts, 0.0) if present.any() else np.ones(len(counts))
    return tuple(float(f"{weight:.4g}") for weight in hours)


def _slopes(mass: Floats, borders: NDArray[np.int64]) -> Floats:
    """Slope of the density within every group, per cell and relative to the density (a minmod limiter).

    It is the smaller of the slopes to both neighbours, 0 where these have different signs, as at a peak, and so limited
    that the density does not fall below 0 within a group.
    """
    sizes, middles = np.diff(borders), (borders[:-1] + borders[1:]) / 2
    if len(mass) < 3:
        return np.zeros(len(mass))
    density = mass / sizes
    rises = np.diff(density) / np.diff(middles)
    left, right = np.append(0.0, rises), np.append(rises, 0.0)
    slopes = np.where(left * right > 0, np.sign(left) * np.minimum(np.abs(left), np.abs(right)), 0.0)
    return np.clip(slopes / np.maximum(density, 1e-12), -2 / sizes, 2 / sizes)


def _visible(counts: Floats, std: float, total: float, subtracted: int, rules: DiscoveryRules) -> NDArray[np.bool_]:
    """Groups from the first to the last significant one, with their tails; all groups if none is significant.

    They include the shortest run that explains the total up to noise: of few records no group may be significant.
    """
    clear = np.flatnonzero(counts > rules.outer_threshold_clear * std)
    if not len(clear) and std > rules.noisy_share * total:
        clear = np.flatnonzero(counts > rules.outer_threshold * std)
    inside = np.ones(len(counts), dtype=np.bool_)
    if len(clear):
        first, last = _with_tails(counts, int(clear[0]), int(clear[-1]), rules.tail_threshold * std, rules.max_run)
        shortest = _explaining_run(counts, total, rules.unexplained_threshold * std, subtracted)
        first, last = min(first, shortest[0]), max(last, shortest[1])
        inside[:first] = inside[last + 1 :] = False
    return inside


def _with_value_tails(
    visible: NDArray[np.bool_],
    counts: Floats,
    std: float,
    total: float,
    found: tuple[bool, bool],
    rules: DiscoveryRules,
) -> NDArray[np.bool_]:
    """The visible values widened by their tails, of any length; up to a stated bound every value is possible.

    All values are kept if the visible ones fall short of the total: then a long tail has records that no value shows.
    """
    if total - counts[visible].sum() > rules.value_shortfall * std * visible.sum() ** 0.5:
        return np.ones_like(visible)
    first, last = np.flatnonzero(visible)[[0, -1]].tolist()
    least, end = rules.value_tail_threshold * std, len(counts) - 1
    first = end - _clearest_end(counts[::-1], end - first, least) if found[0] else 0
    last = _clearest_end(counts, last, least) if found[1] else end
    at = np.arange(len(counts))
    return (at >= first) & (at <= last)


def _explaining_run(counts: Floats, total: float, least: float, subtracted: int) -> tuple[int, int]:
    """First and last of the shortest run whose sum is the total up to noise; of equally long ones, the largest sum.

    The total is noisy itself: `subtracted` noisy counts (missing values, separate cells) were taken off it.
    """
    cumulative = np.concatenate([[0.0], np.cumsum(counts)])
    for size in range(1, len(counts)):
        sums = cumulative[size:] - cumulative[:-size]
        first = int(np.argmax(sums))
        if sums[first] >= total - least * (size + subtracted) ** 0.5:
            return first, first + size - 1
    return 0, len(counts) - 1


def _divided(counts: Floats, shares: Floats, total: float, std: float, rules: DiscoveryRules) -> Floats:
    """`total` records divided among the parts of a group, given their noisy counts and expected shares."""
    if total <= 0 or len(counts) == 1:
        return np.full(len(counts), max(total, 0.0) / len(counts))
    result = np.zeros(len(counts))
    spikes = counts - shares * total > rules.spike_threshold * std
    if spikes.any():
        result[spikes] = counts[spikes] * min(1.0, total / max(float(counts[spikes].sum()), 1e-12))
    rest, free = max(0.0, total - float(result.sum())), ~spikes
    if not free.any():
        return result * total / max(float(result.sum()), 1e-12)
    even = rest * shares[free] / shares[free].sum()
    deviations = counts[free] - even
    # The variance of the parts beyond noise, whose mean square itself has a relative deviation of sqrt(2 / parts).
    noise = (1 + rules.signal_threshold * np.sqrt(2 / len(deviations))) * std**2
    signal = max(0.0, float(np.mean(deviations**2)) - noise)
    expected = even + signal / (signal + std**2) * deviations
    result[free] = onto_simplex(_shrunk(expected, std, rules.empty_odds), rest)
    return result


def _shrunk(counts: Floats, std: float, empty_odds: float) -> Floats:
    """Counts shrunk toward 0: their posterior mean under a prior with a point mass at 0."""
    density = np.exp(-((counts / std) ** 2) / 2) / np.sqrt(2 * np.pi)
    shrunk: Floats = np.where(counts > 0, counts / (1 + empty_odds * density), counts)
    return shrunk


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
    """The closed field of a number, from the estimated records of every cell of its grid.

    `found` are the values that were discovered or are special, with their approximate numbers of records; `clock` are
    the weights of the hours of the day, if days and hours are modelled separately.
    """
    own_cells = grid.in_steps and not clock  # cells of whole days are not split at a moment
    edges, weights = _with_own_cells(np.array(grid.edges), cells, found, own_cells)
    atoms = _atoms(field, edges, weights, found, own_cells, std, records, rules)
    own = np.isin(edges[:-1], list(atoms)) & (np.diff(edges) == 1) & own_cells
    weight_of = {atom: float(found.get(atom, 0.0)) for atom in atoms}
    for at in np.flatnonzero(own).tolist():
        if edges[at] not in field.special_ticks:  # special values are not counted in cells
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
    """Edges and weights with a cell for every discovered value, split off the cell around it."""
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
    """Values with a position of their own, in ascending order."""
    specials = set(field.special_ticks)
    single = np.diff(edges) == 1 if in_steps else np.zeros(len(weights), dtype=np.bool_)
    clear = records >= rules.least_bin * std * len(weights)  # on average, values have enough records for a bin
    few = rules.few_clear_values if clear else rules.few_values
    if in_steps and single.all() and len(weights) <= few:
        return tuple(sorted({*edges[:-1].tolist(), *specials}))
    outstanding = single & (weights >= rules.atom_contrast * _neighbour_mean(weights / np.diff(edges)))
    popular = {float(edges[at]): float(weights[at]) for at in np.flatnonzero(outstanding).tolist()}
    popular |= {value: count for value, count in found.items() if not in_steps}
    enough = {value: count for value, count in popular.items() if count >= rules.atom_share * records}
    first = sorted(enough, key=lambda value: (-enough[value], value))[: rules.most_atoms]
    return tuple(sorted({*first, *specials}))


def _neighbour_mean(density: Floats) -> Floats:
    """Mean density of the two cells on either side of every cell."""
    if len(density) < 3:
        return np.zeros(len(density))
    padded = np.pad(density, 2, mode="reflect")
    mean: Floats = (padded[:-4] + padded[1:-3] + padded[3:-1] + padded[4:]) / 4
    return mean


def _bins(weights: Floats, std: float, records: int, rules: DiscoveryRules) -> NDArray[np.int64]:
    """First cells of bins of about equal weight."""
    total = float(weights.sum())
    count = max(1, min(rules.max_bins, int(total / max(rules.least_bin * std, 1e-12)), int((weights > 0).sum())))
    cumulative, tail = np.cumsum(weights), rules.tail_share * records
    quantiles = total * np.arange(1, count) / count
    if count > 2 and tail >= rules.least_bin * std and total / count > 2 * tail:
        quantiles = np.concatenate([[tail], quantiles, [total - tail]])
    borders = np.searchsorted(cumulative, quantiles, side="left") + 1
    return np.unique(np.concatenate([[0], borders[borders < len(weights)]]))


def _fewer_cells(
    edges: Floats, weights: Floats, starts: NDArray[np.int64]
) -> tuple[Floats, Floats, NDArray[np.int64]]:
    """Edges, weights and bin starts with neighbouring empty cells of a bin merged."""
    keep = np.ones(len(weights), dtype=np.bool_)
    keep[1:] = (weights[1:] > 0) | (weights[:-1] > 0)
    keep[starts] = True
    firsts = np.flatnonzero(keep)
    merged = np.add.reduceat(weights, firsts)
    return np.append(edges[firsts], edges[-1]), merged, np.searchsorted(firsts, starts)
