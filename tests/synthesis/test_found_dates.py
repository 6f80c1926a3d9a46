"""Dates of which the range, or whether they have clock times, is found privately."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import dpgm
from discovery_data import assert_discovered_privately, discovered
from dpgm.data.domain import Date, DateTime, Domain, Numeric
from dpgm.data.domain_file import domain_from_plain, domain_to_plain
from dpgm.data.number_grids import YEARS, unit_slot, year_range, year_slot
from dpgm.data.read.frames import as_records
from dpgm.errors import UsageError
from dpgm.mechanisms.randomness import SeededRandomness
from dpgm.strategy.discovery_rules import DiscoveryRules
from dpgm.synthesis.number_shapes import estimate_years

RULES = DiscoveryRules()

DOMAIN = Domain(
    (
        Numeric("age", "discover", "discover", integer=True),
        Date("admitted", "discover", "discover"),
        Date("left", "discover", "discover", after="admitted"),
        DateTime("joined", "discover", "discover", unit="discover"),
        DateTime("seen", "discover", "discover", unit="discover"),
    )
)


def some_table(count=3000, seed=0):
    rng = np.random.default_rng(seed)
    admitted = np.datetime64("2022-01-01") + rng.integers(0, 1000, count)
    seen = np.datetime64("2026-10-01T00:00:00") + (rng.beta(2, 5, count) * 30 * 86_400).astype(np.int64)
    return pa.table(
        {
            "age": rng.integers(18, 90, count),
            "admitted": pa.array(admitted),
            "left": pa.array(admitted + (rng.geometric(0.2, count) - 1)),
            "joined": pa.array((admitted - 400).astype("datetime64[s]")),
            "seen": pa.array(seen, mask=rng.random(count) < 0.2),
        }
    )


def test_the_years_of_dates_and_whether_they_have_clock_times_are_found():
    found, _ = discovered(some_table(), DOMAIN)
    dates = [one for one in found.fields if one.format.kind in ("date", "datetime")]
    ends = {one.name: (one.format.text(one.edges[0]), one.format.text(one.edges[-1] - 1)) for one in dates}
    assert ends["admitted"][0] in ("2022-01-01", "2021-01-01")
    assert ends["admitted"][1] == "2024-12-31"
    assert found.field("joined").format.unit == "day"
    assert ends["joined"][0] in ("2020-01-01 00:00:00", "2019-01-01 00:00:00")
    assert found.field("seen").format.unit == "second"
    assert ends["seen"][0] in ("2026-01-01 00:00:00", "2025-01-01 00:00:00")
    assert found.field("left").format.kind == "integer"
    assert max(*found.field("left").atoms, *found.field("left").edges) <= 256


def test_finding_dates_is_post_processing_of_noisy_counts_of_bounded_sensitivity():
    far = pa.table(
        {
            "age": [5],
            "admitted": pa.array(np.array(["0101-01-01"], dtype="datetime64[D]")),
            "left": pa.array(np.array(["9999-12-31"], dtype="datetime64[D]")),
            "joined": pa.array(np.array(["2021-05-05T05:05:05"], dtype="datetime64[s]")),
            "seen": pa.nulls(1, pa.timestamp("s")),
        }
    )
    moved = assert_discovered_privately(DOMAIN, [some_table(300, 1), some_table(200, 2)], [some_table(1, 9), far])
    assert "value bounds" in moved


def test_one_moment_with_a_clock_time_changes_how_no_other_is_read():
    table = some_table(400)
    changed = table.set_column(
        3, "joined", pa.array([np.datetime64("2021-05-05T05:05:05"), *table["joined"].to_numpy()[1:]])
    )
    plain, odd = as_records(table, DOMAIN), as_records(changed, DOMAIN)
    assert np.array_equal(plain.columns[3].ticks[1:], odd.columns[3].ticks[1:])
    days = replace(DOMAIN.fields[3], unit="day")
    known = replace(DOMAIN, fields=(*DOMAIN.fields[:3], days, *DOMAIN.fields[4:]))
    assert np.array_equal(plain.in_steps(known).columns[3].ticks[1:], odd.in_steps(known).columns[3].ticks[1:])
    assert plain.in_steps(known).columns[3].ticks.max() < 86_400
    assert plain.in_steps(known).columns[4] is plain.columns[4]


def test_years_of_ticks_and_back():
    days = np.array(["1899-12-31", "1900-01-01", "2024-12-31", "2025-01-01", "2099-12-31", "2500-01-01"])
    ticks = days.astype("datetime64[D]").astype(np.float64)
    assert year_slot(ticks, 86_400).tolist() == [0, 0, 124, 125, YEARS - 1, YEARS - 1]
    assert year_range(124, 125, 86_400) == (ticks[2] - 365, ticks[3] + 364)
    assert year_slot(np.array([-1e300, 1e300]), 1).tolist() == [0, YEARS - 1]
    moments = np.array(["1969-12-31T00:00", "2020-01-01T07:00", "2020-01-01T07:01", "2020-01-01T07:01:01"])
    assert unit_slot(moments.astype("datetime64[s]").astype(np.float64)).tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("first", "last", "people"), [(1930, 2008, 4000), (2024, 2024, 300), (2019, 2026, 2000), (1960, 2005, 900)]
)
def test_years_are_found_though_none_stands_out_alone(first, last, people):
    """Births spread over eighty years: 50 people each, and noise of 40; where nothing is clear, all years stay."""
    field, std = Date("born", "discover", "discover"), 40.0
    spans, shares = [], []
    for seed in range(50):
        rng = np.random.default_rng(seed)
        counts = np.zeros(YEARS)
        counts[first - 1900 : last - 1899] = people / (last - first + 1)
        low, high = estimate_years(field, counts + rng.normal(0, std, YEARS), std, 86_400, people, RULES)
        years = [int(field.format.text(end)[:4]) for end in (low, high)]
        spans.append(years[1] - years[0])
        shares.append(max(0, min(years[1], last) - max(years[0], first) + 1) / (last - first + 1))
    assert np.mean(shares) > 0.95
    assert min(shares) > 0.4
    assert np.median(spans) <= (199 if people < 1000 and last > first else (last - first) * 1.1 + 2)


@pytest.mark.parametrize("gone", [0.0, 0.2])
@pytest.mark.parametrize(
    ("peak", "share", "first", "last", "people", "std"),
    [
        (2025, 0.3, 1975, 2024, 5000, 50.0),
        (1999, 0.6, 1980, 2020, 20_000, 70.0),
        (2024, 0.25, 1950, 1965, 8000, 60.0),
    ],
)
def test_years_around_a_peak_are_found(peak, share, first, last, people, std, gone):
    """A default date, or a year that most share: the range was the peak and a few years beside it."""
    field, outside, spans = Date("entered", "discover", "discover"), [], []
    for seed in range(40):
        rng = np.random.default_rng(100 + seed)
        counts = np.zeros(YEARS)
        counts[first - 1900 : last - 1899] = (1 - gone) * (1 - share) * people / (last - first + 1)
        counts[peak - 1900] += (1 - gone) * share * people
        low, high = estimate_years(field, counts + rng.normal(0, std, YEARS), std, 86_400, people, RULES)
        years = [int(field.format.text(end)[:4]) - 1900 for end in (low, high)]
        outside.append(1 - counts[years[0] : years[1] + 1].sum() / counts.sum())
        spans.append(years[1] - years[0] + 1)
    assert np.mean(outside) < 0.05  # 0.25 to 0.75 before
    assert np.median(spans) < 1.3 * (max(last, peak) - min(first, peak) + 1)


def test_a_frame_of_whole_days_gives_whole_days_and_clock_times_stay(tmp_path):
    frame = some_table(4000).select(["age", "joined", "seen"]).to_pandas()
    made = dpgm.Synthesizer(epsilon=1.0, randomness=SeededRandomness(1)).fit(frame, discover=True)
    made.save(tmp_path / "release")
    again = dpgm.load(tmp_path / "release", unverified=True)  # noise of a seed does not verify
    for drawn in (made.sample(3000, seed=1).to_pandas(), again.sample(3000, seed=2).to_pandas()):
        assert (drawn["joined"] == drawn["joined"].dt.normalize()).all()
        assert drawn["joined"].between("2020-01-01", "2024-12-31").all()
        seen = drawn["seen"].dropna()
        assert (seen != seen.dt.normalize()).mean() > 0.95
        assert abs(seen.median() - frame["seen"].median()) < pd.Timedelta(days=3)
    statements = " ".join(made.certificate_.statements)
    assert "The range of 'joined', 'seen' was found privately, in calendar years." in statements
    assert "Whether 'joined', 'seen' are whole days, hours, minutes or seconds was found privately." in statements


def test_moments_spread_as_the_real_ones_do():
    frame = some_table(4000).select(["age", "joined", "seen"]).to_pandas()
    fits = [dpgm.Synthesizer(epsilon=1.0, randomness=SeededRandomness(seed)) for seed in range(5)]
    drawn = [made.fit(frame, discover=True).sample(3000, seed=1).to_pandas() for made in fits]
    assert np.median([one["seen"].std() / frame["seen"].std() for one in drawn]) < 1.5


def test_open_ranges_are_written_and_read_again_and_odd_ones_refused():
    assert domain_from_plain(domain_to_plain(DOMAIN)) == DOMAIN
    with pytest.raises(UsageError, match="unit is found together with the range"):
        DateTime("seen", "2020-01-01", "discover", unit="discover")
    with pytest.raises(UsageError, match="must be a date such as"):
        Date("day", "soon", "discover")
    stated = Date("day", "2020-01-01", "discover")
    low, high = estimate_years(stated, np.zeros(YEARS), 1.0, 86_400, 100, RULES)
    assert stated.format.text(low) == "2020-01-01"
    assert high > low
