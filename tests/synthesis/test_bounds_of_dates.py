"""Stated bounds of dates: samples keep them, also where a date is modelled as the time since another one."""

import datetime
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import dpgm
from dpgm.data.domain import Date, DateTime, Domain, ShapedNumber
from dpgm.data.domain_file import domain_from_plain, domain_to_plain
from dpgm.data.kinds.shaped import dates_after, shaped_codes, times_since
from dpgm.data.number_format import NumberFormat
from dpgm.errors import UsageError
from dpgm.mechanisms.randomness import SeededRandomness
from dpgm.synthesis.verification import _check_discovered

END = pd.Timestamp("2025-01-31")
MEMBERS = Domain(
    (
        Date("born", "1940-01-01", "2005-12-31"),
        Date("joined", "1950-01-01", "2025-01-31", after="born"),
    )
)
VISITS = Domain((DateTime("seen", "2024-03-01", "2024-03-03", unit="minute"),))


def members(count, *, still_waiting):
    """People who joined some time after they were born; those whose day is yet to come have the last day, or none."""
    rng = np.random.default_rng(0)
    born = pd.Timestamp("1940-01-01") + pd.to_timedelta(rng.integers(0, 65 * 365, count), unit="D")
    days = (16 * 365 + rng.exponential(4500, count)).astype(np.int64)
    frame = pd.DataFrame({"born": born, "joined": born + pd.to_timedelta(days, unit="D")})
    if still_waiting:
        return frame.assign(joined=frame.joined.clip(upper=END))
    return frame[frame.joined < END].reset_index(drop=True)


@pytest.mark.parametrize("still_waiting", [True, False])
def test_a_date_after_another_stays_within_its_bounds_and_is_the_last_day_as_often_as_the_real_one(still_waiting):
    frame = members(4000, still_waiting=still_waiting)
    fitted = dpgm.Synthesizer(epsilon=3.0, domain=MEMBERS, randomness=SeededRandomness(1)).fit(frame)
    drawn = fitted.sample(4000, seed=1).to_pandas()
    joined = pd.to_datetime(drawn.joined)
    assert joined.between("1950-01-01", END).all()
    assert abs((joined == END).mean() - (frame.joined == END).mean()) < 0.03
    assert abs(joined.dt.year.mean() - frame.joined.dt.year.mean()) < 2
    assert (joined >= pd.to_datetime(drawn.born)).all()


def some_times(weights=(5.0, 3.0, 1.0, 0.0), atoms=()):
    """Times of 0 to 100 days in two bins, for dates from day 1000 to day 1100."""
    whole = NumberFormat("integer")
    return ShapedNumber(
        "left", whole, atoms, (0, 10, 40, 100, 101), weights, (0, 2), after="came", low=1000.0, high=1100.0
    )


def test_a_time_that_leads_beyond_the_last_day_is_drawn_again_and_piles_up_nowhere():
    field, rng = some_times(), np.random.default_rng(0)
    base = np.full(4000, 1080.0)
    dates = dates_after(
        field, np.full(4000, 30.0), base, rng
    )  # of the first bin, in which up to 20 days are possible
    assert dates.min() >= 1080
    assert dates.max() == 1100
    assert (dates == 1100).mean() < 0.05
    assert np.array_equal(dates_after(field, np.full(4000, 15.0), base, rng), base + 15)  # possible, so unchanged
    assert dates_after(field, np.full(4000, 70.0), base, rng).max() == 1100  # of a bin that is out of reach
    early = dates_after(field, np.full(4000, 3.0), np.full(4000, 985.0), rng)
    assert early.min() == 1000
    assert (early == 1000).mean() < 0.1


def test_times_up_to_the_last_day_count_as_the_longest_where_that_is_modelled():
    known, unknown = some_times((5.0, 3.0, 1.0, 2.0)), some_times()
    times = times_since(known, np.array([1005.0, 1100.0, 1150.0, 990.0, np.nan]), np.full(5, 995.0))
    assert shaped_codes(known, times).tolist() == [0, 1, 1, 0, -1]
    assert shaped_codes(unknown, times).tolist() == [0, 1, 1, 0, -1]
    times = times_since(known, np.array([1005.0, 1100.0]), np.full(2, 1096.0))
    assert shaped_codes(known, times).tolist() == [0, 1]  # the longest time of all
    assert shaped_codes(unknown, times).tolist() == [0, 0]  # four days
    drawn = dates_after(known, np.full(3, 100.0), np.array([990.0, 1000.0, 1090.0]), np.random.default_rng(0))
    assert drawn.tolist() == [1100, 1100, 1100]


def test_a_release_says_the_bounds_of_dates_after_others_and_older_ones_do_without():
    closed = Domain((ShapedNumber("came", NumberFormat("date"), (), (0, 9), (1,), (0,)), some_times()))
    assert domain_from_plain(domain_to_plain(closed)) == closed
    first, last = (str(np.datetime64(day, "D")) for day in (1000, 1100))
    stated = Domain((Date("came", "1970-01-01", "1970-01-09"), Date("left", first, last, after="came")))
    _check_discovered(stated, closed)
    older = replace(closed.fields[1], low=None, high=None)
    _check_discovered(stated, Domain((closed.fields[0], older)))
    with pytest.raises(UsageError, match="does not follow"):
        _check_discovered(stated, Domain((closed.fields[0], replace(older, low=900.0, high=1100.0))))
    with pytest.raises(UsageError, match="histogram"):
        replace(closed.fields[0], low=0.0)


def test_a_high_without_a_time_of_day_includes_that_day():
    rng = np.random.default_rng(0)
    minutes = pd.to_timedelta(rng.integers(0, 3 * 24 * 60, 3000), unit="min")
    frame = pd.DataFrame({"seen": pd.Timestamp("2024-03-01") + minutes})
    fitted = dpgm.Synthesizer(epsilon=3.0, domain=VISITS, model="independent").fit(frame)
    assert dict(fitted.certificate_.plan)["domain"]["fields"][0]["high"] == "2024-03-03"
    drawn = pd.to_datetime(fitted.sample(3000, seed=1).to_pandas().seen)
    assert drawn.between("2024-03-01", "2024-03-03T23:59").all()
    assert drawn.value_counts(normalize=True).max() < 0.02
    assert abs((drawn >= "2024-03-03").mean() - 1 / 3) < 0.05


@pytest.mark.parametrize(
    ("high", "unit", "last"),
    [
        ("2024-03-03", "second", "2024-03-03 23:59:59"),
        ("2024-03-03", "hour", "2024-03-03 23:00:00"),
        ("2024-03-03", "day", "2024-03-03 00:00:00"),
        (datetime.date(2024, 3, 3), "minute", "2024-03-03 23:59:00"),
        (datetime.datetime(2024, 3, 3), "minute", "2024-03-03 00:00:00"),
        ("2024-03-03T00:00", "minute", "2024-03-03 00:00:00"),
        ("2024-03-03T12:30", "minute", "2024-03-03 12:30:00"),
    ],
)
def test_a_high_with_a_time_of_day_is_that_moment(high, unit, last):
    field = DateTime("seen", "2024-03-01", high, unit=unit)
    assert field.format.text(field.bounds[1]) == last
    domain = Domain((field,))
    assert domain_from_plain(domain_to_plain(domain)) == domain


def test_one_day_is_a_range_of_moments_and_no_range_of_days():
    assert DateTime("seen", "2024-03-01", "2024-03-01", unit="hour").bounds[1] % 24 == 23
    with pytest.raises(UsageError, match="low must be before high"):
        DateTime("seen", "2024-03-01", "2024-03-01", unit="day")
    with pytest.raises(UsageError, match="low must be before high"):
        Date("seen", "2024-03-01", "2024-03-01")


@pytest.mark.parametrize(("low", "high"), [(10.0, 5.0), ("1", 5.0), (1.0, "5"), (None, True)])
def test_bounds_that_make_no_sense_are_refused(low, high):
    with pytest.raises(UsageError, match="do not make a histogram"):
        ShapedNumber("n", NumberFormat("integer"), (1.0, 2.0), (), (), (), after="born", low=low, high=high)
    assert ShapedNumber("n", NumberFormat("integer"), (1.0, 2.0), (), (), (), after="born", low=1.0, high=5.0)
