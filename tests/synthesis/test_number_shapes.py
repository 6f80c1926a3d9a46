"""Ranges, bins and shapes of numbers, estimated from noisy histograms."""

import numpy as np
import pytest

from dpgm.data.domain import Numeric
from dpgm.data.kinds.shaped import draw_shaped, shaped_codes
from dpgm.data.number_grids import BOUND_SLOTS, bound_slot, grid_of
from dpgm.strategy.discovery_rules import DiscoveryRules
from dpgm.synthesis.number_shapes import estimate_bounds, estimate_cells, shape_number, without_empty_ends

RULES = DiscoveryRules()


def shape(values, field, std, columns_std, seed):
    """Values drawn from the discovered shape of a number with unknown range, given the true share of every bin."""
    rng = np.random.default_rng(seed)
    ticks = field.format.ticks(values)
    grid = grid_of(*noisy_bounds(field, ticks, columns_std, rng), field.format, field.scale)
    cells = noisy_cells(grid, ticks, std, rng, (True, True))
    grid, cells = without_empty_ends(grid, cells, (True, True))
    found = shape_number(field, grid, cells, False, {}, std, len(values), RULES).field
    return draw_shaped(found, shaped_codes(found, ticks), rng)


def noisy_cells(grid, values, std, rng, *ends):
    """The number of records in every cell, estimated from noisy counts."""
    noisy = grid.counts(grid.cell_of(values)) + np.rint(rng.normal(0, std, grid.size))
    return estimate_cells(noisy, grid, std, float(len(values)), RULES, *ends)


def noisy_bounds(field, ticks, std, rng):
    """The range, estimated from noisy counts."""
    slots = np.bincount(bound_slot(ticks), minlength=BOUND_SLOTS) + rng.normal(0, std, BOUND_SLOTS)
    return estimate_bounds(field, slots, std, RULES)


def distance(one, other):
    """The Kolmogorov-Smirnov distance."""
    every = np.sort(np.concatenate([one, other]))
    shares = [np.searchsorted(np.sort(side), every, side="right") / len(side) for side in (one, other)]
    return float(np.abs(shares[0] - shares[1]).max())


def test_tails_that_stand_out_together_are_kept():
    """2,000 values around a mean at epsilon 1: the last groups of cells hold 100, 70, 40 people, and noise is 60."""
    field = Numeric("score", "discover", "discover", decimals=1)
    distances = []
    for seed in range(16):
        values = np.round(np.random.default_rng(100 + seed).normal(50, 10, 2000), 1)
        distances.append(distance(field.format.ticks(values), shape(values, field, 48.0, 36.0, seed)))
    assert np.mean(distances) < 0.095  # it was 0.13


def test_few_records_spread_evenly_do_not_fall_together_where_noise_is_highest():
    """1,000 days of two years, 40 in every group of cells and noise of 48: one significant group got them all."""
    field = Numeric("day", 0, 730, integer=True)
    grid = grid_of(0.0, 730.0, field.format, field.scale)
    spreads = []
    for seed in range(30):
        rng = np.random.default_rng(seed)
        days = rng.integers(0, 731, 1000).astype(float)
        cells = noisy_cells(grid, days, 48.0, rng)
        spreads.append(int(np.ptp(np.array(grid.edges)[np.flatnonzero(cells)])) / 730)
    assert np.mean(spreads) > 0.7  # it was 0.45
    assert np.quantile(spreads, 0.1) > 0.3  # it was 0.03


def test_counts_of_few_keep_their_tail():
    """Visits of 2,500 people, one in twenty of whom came often: the last groups of cells hold some each."""
    field = Numeric("visits", 0, 100, integer=True)
    grid = grid_of(0.0, 100.0, field.format, field.scale)
    spreads = []
    for seed in range(40):
        rng = np.random.default_rng(seed)
        visits = rng.poisson(1.5, 2500) + (rng.random(2500) < 0.05) * rng.integers(5, 40, 2500)
        cells = noisy_cells(grid, visits.astype(float), 48.0, rng)
        shares, middles = cells / cells.sum(), (np.array(grid.edges)[:-1] + np.array(grid.edges)[1:] - 1) / 2
        mean = float(shares @ middles)
        spreads.append(float(shares @ (middles - mean) ** 2) ** 0.5 / visits.std())
    assert 0.7 < np.mean(spreads) < 1.3  # it was 0.63


def test_amounts_of_the_few_who_have_any_are_in_the_range():
    field = Numeric("gain", "discover", "discover", integer=True)
    highest = []
    for seed in range(40):
        rng = np.random.default_rng(200 + seed)
        values = np.where(rng.random(6000) < 0.9, 0.0, np.floor(rng.lognormal(8, 1.3, 6000)))
        highest.append(noisy_bounds(field, values, 36.0, rng)[1])
    assert np.mean(np.array(highest) > 4000) > 0.7  # their median is 2,981; it was 0.5


def test_noise_does_not_widen_the_range():
    field = Numeric("age", "discover", "discover", integer=True)
    ages = np.random.default_rng(1).integers(18, 90, 3000).astype(float)
    slots = np.bincount(bound_slot(ages), minlength=BOUND_SLOTS).astype(float)
    slots[180] = 4.5 * 36.0  # of 200 slots one in 150 columns has so many by chance
    low, high = estimate_bounds(field, slots, 36.0, RULES)
    assert low >= 0
    assert high <= 255


def test_noise_puts_nobody_at_the_ends_of_the_range_nor_far_out():
    field = Numeric("stay", 0, 90, integer=True)
    grid = grid_of(0.0, 90.0, field.format, field.scale)
    std, records = 42.8, 2000
    at_ends, spreads = [], []
    for seed in range(40):
        rng = np.random.default_rng(seed)
        stays = np.minimum(rng.geometric(0.18, records), 58).astype(float)
        cells = noisy_cells(grid, stays, std, rng)
        at_ends.append(cells[0] + cells[-1])
        shares = cells / cells.sum()
        mean = float(shares @ np.arange(91))
        spreads.append(float(shares @ (np.arange(91) - mean) ** 2) ** 0.5 / stays.std())
    assert np.mean(np.array(at_ends) > 0) <= 0.05
    assert np.mean(np.array(spreads) > 1.6) <= 0.1


def test_where_nothing_stands_out_numbers_are_small():
    """Twelve ages at epsilon 1: any of 200 powers of two was as likely, and ages had sixteen digits."""
    field = Numeric("age", "discover", "discover", integer=True)
    ages = np.random.default_rng(1).integers(18, 90, 12).astype(float)
    widest = []
    for seed in range(60):
        low, high = noisy_bounds(field, ages, 36.0, np.random.default_rng(seed))
        widest.append(max(-low, high))
    assert np.median(widest) < 10_000
    assert np.mean(np.array(widest) > 1e7) < 0.1


def test_few_records_come_from_all_of_their_range():
    """600 shares at epsilon 1: a group that noise made stand out was taken for the whole range in two fits of five."""
    field = Numeric("share", "discover", "discover")
    distances = []
    for seed in range(40):
        values = np.random.default_rng(500 + seed).random(600)
        distances.append(distance(values, shape(values, field, 60.0, 31.0, seed)))
    assert np.mean(distances) < 0.32  # it was 0.38
    assert np.mean(np.array(distances) > 0.4) < 0.36  # it was 0.45


def test_tails_of_small_whole_numbers_keep_their_mass():
    """2,500 counts of visits at epsilon 1, most of them 0 and few up to 40."""
    field = Numeric("visits", "discover", "discover", integer=True)
    means, quantiles = [], []
    for seed in range(24):
        values = np.minimum(np.random.default_rng(700 + seed).zipf(1.9, 2500) - 1, 40).astype(float)
        drawn = shape(values, field, 45.0, 33.0, seed)
        means.append(abs(drawn.mean() - values.mean()) / values.std())
        quantiles.append(abs(np.quantile(drawn, 0.95) - np.quantile(values, 0.95)) / values.std())
    assert np.mean(means) < 0.1  # it was 0.116
    assert np.mean(quantiles) < 0.4  # it was 0.51


def test_negative_balances_are_in_the_range():
    """2,000 balances around 2,500 at epsilon 1, a sixth of them negative: they became the least positive one."""
    field = Numeric("balance", "discover", "discover", decimals=2)
    lows, clean = [], []
    for seed in range(40):
        rng = np.random.default_rng(300 + seed)
        noise = rng.normal(0, 36.0, BOUND_SLOTS)
        balances = np.rint(rng.normal(2500, 2500, 2000) * 100)
        lows.append(
            estimate_bounds(field, np.bincount(bound_slot(balances), minlength=BOUND_SLOTS) + noise, 36.0, RULES)[0]
        )
        bills = np.rint(rng.lognormal(7, 0.8, 2000) * 100)
        clean.append(
            estimate_bounds(field, np.bincount(bound_slot(bills), minlength=BOUND_SLOTS) + noise, 36.0, RULES)[0]
        )
    assert np.mean(np.array(lows) < -1000_00) > 0.7  # it was 0.1
    assert np.mean(np.array(clean) < 0) < 0.06


def test_days_of_the_month_have_positions_of_their_own_where_they_stand_out():
    field = Numeric("day", 1, 31, integer=True)
    grid = grid_of(1, 31, field.format, field.scale)
    widths = []
    for records in (45_000, 2_000):
        cells = np.full(31, records / 31)
        widths.append(shape_number(field, grid, cells, False, {}, 60.0, records, RULES).field.width)
    assert widths[0] == 31
    assert widths[1] <= RULES.few_values


def test_years_of_many_records_stay_in_their_century():
    """50,000 years of which none is 1024 or 2047, the ends of the range that is found, and noise of 50."""
    field = Numeric("year", "discover", "discover", integer=True)
    spreads, at_ends = [], 0
    for seed in range(40):
        years = np.rint(np.random.default_rng(200 + seed).triangular(1930, 1995, 2005, 50_000))
        drawn = shape(years, field, 50.0, 50.0, seed)
        at_ends += bool(np.isin(drawn, (1024.0, 2047.0)).any())
        spreads.append(drawn.std() / years.std())
    assert at_ends <= 2  # it was 31
    assert np.quantile(spreads, 0.9) < 1.1  # it was 2.2


@pytest.mark.parametrize(
    ("lowest", "highest", "people"), [(1, 12, 4000), (0, 23, 12_000), (1, 7, 3000), (0, 4, 1500)]
)
def test_values_beyond_the_last_one_are_not_possible(lowest, highest, people):
    """Months went up to 15 and hours up to 31: discovered bounds are powers of two."""
    field, beyond, lost = Numeric("n", "discover", "discover", integer=True), [], []
    for seed in range(40):
        rng = np.random.default_rng(900 + seed)
        values = rng.integers(lowest, highest + 1, people).astype(float)
        grid = grid_of(*noisy_bounds(field, values, 40.0, rng), field.format, field.scale)
        cells = noisy_cells(grid, values, 40.0, rng, (True, True))
        grid, cells = without_empty_ends(grid, cells, (True, True))
        edges = np.array(grid.edges)[:-1]
        beyond.append(int(((edges < lowest) | (edges > highest)).sum()))
        lost.append(float(((values < edges[0]) | (values > edges[-1])).mean()))
    assert np.median(beyond) == 0  # 3, 8, 0 or 1, and 3 before
    assert np.mean(lost) < 0.01


def test_values_up_to_a_stated_bound_stay_possible():
    field = Numeric("n", 0, 31, integer=True)
    grid = grid_of(0.0, 31.0, field.format, field.scale)
    cells = noisy_cells(grid, np.arange(24.0).repeat(500), 40.0, np.random.default_rng(0))
    assert without_empty_ends(grid, cells, (False, False))[0] == grid
