"""What becomes of noisy histograms of a number."""

import numpy as np

from dpgm.data.domain import Numeric
from dpgm.data.number_grid import grid_of
from dpgm.synthesis.discovery_rules import RULES
from dpgm.synthesis.number_shapes import estimate_cells


def test_noise_puts_nobody_at_the_ends_of_the_range_nor_far_out():
    field = Numeric("stay", 0, 90, integer=True)
    grid = grid_of(0.0, 90.0, field.format, field.scale)
    std, records = 42.8, 2000
    at_ends, spreads = [], []
    for seed in range(40):
        rng = np.random.default_rng(seed)
        stays = np.minimum(rng.geometric(0.18, records), 58).astype(float)
        noisy = grid.counts(grid.cell_of(stays)) + np.rint(rng.normal(0, std, grid.size))
        cells = estimate_cells(noisy, grid, std, float(records), RULES)
        at_ends.append(cells[0] + cells[-1])
        shares = cells / cells.sum()
        mean = float(shares @ np.arange(91))
        spreads.append(float(shares @ (np.arange(91) - mean) ** 2) ** 0.5 / stays.std())
    assert np.mean(np.array(at_ends) > 0) <= 0.05
    assert np.mean(np.array(spreads) > 1.6) <= 0.1
