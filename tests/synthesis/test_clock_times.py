"""Moments: hours of the day are measured privately and modelled separately from days."""

import numpy as np
import pyarrow as pa
import pytest

import dpgm
from discovery_data import assert_discovered_privately, discovered
from dpgm.data.domain import DateTime, Domain, ShapedNumber
from dpgm.data.domain_file import domain_from_plain, domain_to_plain
from dpgm.data.kinds.shaped import draw_shaped, shaped_codes
from dpgm.data.number_format import NumberFormat
from dpgm.data.read.frames import as_records
from dpgm.errors import UsageError

DOMAIN = Domain(
    (
        DateTime("seen", "discover", "discover", unit="minute"),
        DateTime("called", "2022-01-01T12:00", "2023-12-31T18:00", unit="second"),
        DateTime("rung", "2022-05-01", "2022-05-03T23:59", unit="minute"),
    )
)


def some_table(count=3000, seed=0):
    """Open from 8 to 18; calls at night as well, around eight in the evening; two days on which somebody rang."""
    rng = np.random.default_rng(seed)
    days = np.datetime64("2022-03-01T00:00:00") + rng.integers(0, 600, count) * 86_400
    opened = (np.clip(rng.normal(12, 2.5, count), 8, 17.99) * 3600).astype(np.int64)
    late = (np.mod(rng.normal(20, 3, count), 24) * 3600).astype(np.int64)
    rung = np.datetime64("2022-05-01T06:00:00") + rng.integers(0, 40 * 3600, count)
    return pa.table({"seen": pa.array(days + opened), "called": pa.array(days + late), "rung": pa.array(rung)})


def hours(ticks, field):
    day = {"minute": 1440, "second": 86_400}[field.format.unit]
    return np.bincount((np.mod(ticks, day) * 24 // day).astype(int), minlength=24) / len(ticks)


def test_opening_hours_stay_opening_hours():
    """Before, all hours were equally frequent in samples."""
    outside, distances = [], []
    for seed in range(4):
        table = some_table(seed=seed)
        (closed, _), records = discovered(table, DOMAIN, seed=seed), as_records(table, DOMAIN)
        rng = np.random.default_rng(seed)
        for name in ("seen", "called"):
            at = [field.name for field in DOMAIN.fields].index(name)
            field, ticks = closed.fields[at], records.columns[at].ticks
            drawn = draw_shaped(field, shaped_codes(field, ticks), rng)
            real, made = hours(ticks, field), hours(drawn, field)
            distances.append(np.abs(real - made).sum() / 2)
            if name == "seen":
                outside.append(made[:8].sum() + made[18:].sum())
            assert np.array_equal(shaped_codes(field, drawn), shaped_codes(field, ticks))  # days stay in their bins
            low, high = DOMAIN.fields[at].bounds
            if low is not None:
                assert drawn.min() >= low
                assert drawn.max() <= high
    assert max(outside) < 0.06
    assert np.mean(distances) < 0.15


def test_a_range_of_few_days_keeps_its_fine_cells():
    closed, _ = discovered(some_table(), DOMAIN)
    assert [bool(field.clock) for field in closed.fields] == [True, True, False]


def test_hours_are_counted_privately():
    tables = [some_table(300, seed) for seed in range(2)]
    moved = assert_discovered_privately(DOMAIN, tables, [some_table(1, 9)])
    assert moved["number histograms"] >= 0.99  # every level counts the record, and the hour does


def test_a_domain_with_hours_is_written_and_read():
    closed, _ = discovered(some_table(500), DOMAIN)
    assert domain_from_plain(domain_to_plain(closed)).fields == closed.fields


@pytest.mark.parametrize("clock", [(1.0,) * 23, (0.0,) * 24, (-1.0,) + (1.0,) * 23, (float("nan"),) * 24])
def test_invalid_weights_of_hours_are_refused(clock):
    with pytest.raises(UsageError, match="histogram"):
        ShapedNumber("t", NumberFormat("datetime", unit="minute"), (), (0, 1440), (1,), (0,), clock=clock)


def test_a_comparison_sees_hours_that_are_lost():
    """Every moment moved to a random hour: days are the same, and the verdict was close."""
    table = some_table(2000).select(["seen"])
    seen = table["seen"].to_numpy()
    rng = np.random.default_rng(1)
    moved = seen.astype("datetime64[D]").astype("datetime64[s]") + rng.integers(0, 86_400, len(seen))
    column = dpgm.evaluate(table, pa.table({"seen": moved})).columns[0]
    assert "hour" in {gap.what.aspect for gap in column.gaps}
    assert not dpgm.evaluate(table, table).columns[0].off
