"""Histograms of raw numbers: by how much one record moves them, whatever number it holds."""

import numpy as np
import pytest

from dpgm.data.domain import Domain, Numeric
from dpgm.data.number_format import NumberFormat
from dpgm.data.number_grids import clock_day, grid_of
from dpgm.data.open_columns import NumberColumn
from dpgm.data.open_records import OpenRecords
from dpgm.mechanisms.query import View
from dpgm.statistics.number_histograms import BoundHistograms, CountedNumber, NumberHistograms

COLUMNS = 3
DOMAIN = Domain(tuple(Numeric(name, "discover", "discover") for name in "abc"))
NUMBERS = [0.0, -0.0, 1.0, -1.0, 0.1, 0.1 + 0.2, 1 / 3, 7.25, 5e-324, 1e308, -1e308, 2.0**52, -(2.0**53), 86_401.0]
MOMENTS = [float(np.floor(np.clip(number, -(2**52), 2**52))) for number in (*NUMBERS, 3600.0, -86_400.0)]
FORMATS = [
    NumberFormat("integer"),
    NumberFormat("decimal", 2),
    NumberFormat("real"),
    NumberFormat("date"),
    NumberFormat("datetime", unit="minute"),
]


def squared_moves(statistic, numbers):
    """Squared change of the sums by a record that has the number in every column, for each number."""
    query, moves = statistic.query(), []
    for number in numbers:
        columns = [NumberColumn(np.array([number])) for _ in range(COLUMNS)]
        moved = query.compute(View(OpenRecords.of(DOMAIN, 1, columns)))
        assert tuple(moved.shape) == query.shape
        moves.append(int((moved**2).sum()))
    return moves


@pytest.mark.parametrize("steps", [(False,) * 3, (True, False, False), (True,) * 3])
@pytest.mark.parametrize("date", [None, 1, 86_400])
def test_bounds_and_steps_move_by_their_sensitivity_and_no_more(steps, date):
    """A column whose step is measured counts twice: for its range and for its step."""
    statistic = BoundHistograms((0, 1, 2), (date,) * 3, steps, ((), (5.0,), ()))
    moves = squared_moves(statistic, [*(NUMBERS if date is None else MOMENTS), 5.0, np.nan])
    assert max(moves) == round(statistic.query().sensitivity ** 2) == 3 + sum(steps)
    assert moves[-1] == 0  # a missing value is in no range
    assert moves[-2] == 2 + sum(steps) - steps[1]  # nor is a special one


@pytest.mark.parametrize("bounds", [(0, 1), (-5, 40), (0, 900), (-3, 5000), (-(10**9), 10**9)])
@pytest.mark.parametrize("format", FORMATS, ids=lambda format: format.kind)
def test_histograms_move_by_their_sensitivity_and_no_more(format, bounds):
    day = clock_day(format, *bounds)
    grid = grid_of(*bounds, format, "auto", (7.0,), day)
    statistic = NumberHistograms(tuple(CountedNumber(at, grid, (7.0,), day) for at in range(COLUMNS)))
    numbers = format.ticks(np.array([*NUMBERS, 25.0, 700.0]))
    moves = squared_moves(statistic, [*numbers.tolist(), np.nan])
    assert max(moves) == round(statistic.query().sensitivity ** 2)
    assert min(moves) >= COLUMNS  # every record is counted, also those without a number
    assert moves[-1] == COLUMNS
