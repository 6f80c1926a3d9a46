"""Places after the point, and units of moments, that are found privately together with the range."""

import warnings

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import dpgm
from discovery_data import assert_discovered_privately, discovered
from dpgm.data.domain import DateTime, Domain, Numeric
from dpgm.data.domain_file import domain_from_plain, domain_to_plain
from dpgm.data.number_format import MOST_PLACES, range_in_places
from dpgm.data.number_grids import places_slot
from dpgm.data.read.frames import as_records
from dpgm.data.read.readers import domain_of_schema
from dpgm.errors import UsageError
from dpgm.strategy.discovery_rules import DiscoveryRules
from dpgm.synthesis.number_shapes import estimate_step

RULES = DiscoveryRules()


def some_frame(count=3000, seed=0):
    rng = np.random.default_rng(seed)
    start = np.datetime64("2021-01-01T00:00:00")
    return pd.DataFrame(
        {
            "price": np.round(rng.gamma(2, 20, count), 2),
            "temperature": np.round(rng.normal(36.8, 0.6, count), 1),
            "balance": np.round(rng.normal(0, 50, count), 1),
            "visits": np.where(rng.random(count) < 0.1, np.nan, rng.poisson(3, count)),
            "share": rng.random(count),
            "admitted": start + rng.integers(0, 24 * 365, count).astype("timedelta64[h]"),
            "seen": start + (rng.integers(0, 24 * 365 * 4, count) * 15).astype("timedelta64[m]"),
        }
    )


def open_domain(frame):
    return domain_of_schema(pa.Schema.from_pandas(frame, preserve_index=False))


def test_places_and_units_are_found():
    found, _ = discovered(some_frame(), open_domain(some_frame()))
    formats = {field.name: field.format for field in found.fields}
    assert (formats["price"].kind, formats["price"].decimals) == ("decimal", 2)
    assert (formats["temperature"].kind, formats["temperature"].decimals) == ("decimal", 1)
    assert formats["balance"].decimals == 1
    assert formats["visits"].kind == "integer"  # one gap makes floats of whole numbers
    assert formats["share"].kind == "real"
    assert (formats["admitted"].unit, formats["seen"].unit) == ("hour", "minute")


def test_a_frame_with_discover_gives_back_the_formats_of_its_columns(tmp_path):
    frame = some_frame(4000)
    made = dpgm.Synthesizer(epsilon=2.0).fit(frame, discover=True)
    made.save(tmp_path / "release")
    assert dpgm.verify(tmp_path / "release").ok
    drawn = dpgm.load(tmp_path / "release").sample(2000, seed=1).to_pandas()
    for name, places in (("price", 2), ("temperature", 1), ("balance", 1), ("visits", 0)):
        values = drawn[name].dropna().astype(float)
        assert np.allclose(values, values.round(places), atol=1e-9), name
        assert abs(values.median() - frame[name].median()) < 0.2 * frame[name].std()
    assert (drawn["admitted"].dt.minute == 0).all()
    assert (drawn["seen"].dt.second == 0).all()
    assert (drawn["share"].round(6) != drawn["share"]).mean() > 0.9
    assert abs(drawn["visits"].isna().mean() - 0.1) < 0.03
    statements = " ".join(made.certificate_.statements)
    assert "How many places after the point 'price', 'temperature', 'balance', 'visits', 'share' have" in statements
    assert "Whether 'admitted', 'seen' are whole days, hours, minutes or seconds was found privately." in statements


def test_finding_steps_is_post_processing_of_noisy_counts_of_bounded_sensitivity():
    frames, odd = [some_frame(300, 1), some_frame(200, 2)], some_frame(1, 9)
    odd.loc[0, ["price", "temperature", "balance", "share"]] = [1e300, -1e-300, 0.1 + 0.2, np.nan]
    moved = assert_discovered_privately(open_domain(frames[0]), frames, [some_frame(1, 8), odd])
    assert moved["value bounds"] > 0.99


def test_one_number_with_more_places_changes_how_no_other_is_read():
    frame = some_frame()
    changed = frame.copy()
    changed.loc[0, "visits"] = 1.23456
    plain, odd = (as_records(one, open_domain(one)) for one in (frame, changed))
    assert np.array_equal(plain.columns[3].ticks[1:], odd.columns[3].ticks[1:], equal_nan=True)
    known, _ = discovered(frame, open_domain(frame))
    assert known.field("visits").format.kind == "integer"
    read, odd_read = as_records(frame, known), as_records(changed, known)  # it was refused as no whole number
    assert np.array_equal(read.rows(1, len(frame)).indices, odd_read.rows(1, len(frame)).indices)


def test_places_of_numbers():
    values = np.array([5.0, -0.0, 1e15, 0.25, 36.6, 0.1 + 0.2, 3 * 0.1, 1234567.89, 1 / 3, 1e-12, np.pi * 1e5])
    assert places_slot(values).tolist() == [0, 0, 0, 2, 1, 1, 1, 2, 7, 7, 7]
    rng = np.random.default_rng(0)
    for places in range(MOST_PLACES + 1):
        cents = rng.integers(-(10**9), 10**9, 1000)
        assert (places_slot(cents / 10.0**places) <= places).all()
        assert (places_slot(cents * 10.0**-places) <= places).all()  # as arithmetic leaves them


def test_the_finest_step_that_stands_out_counts_else_the_commonest():
    assert estimate_step(np.array([100.0, 900.0, 3000.0, 9.0, -20.0, 3.0, 4.0, 30.0]), 20.0, RULES) == 2
    assert estimate_step(np.array([1.0, 30.0, 50.0, 9.0]), 20.0, RULES) == 2


@pytest.mark.parametrize(
    ("bounds", "places", "ticks"),
    [
        ((0.0, 0.5), 1, (0, 4)),
        ((0.0, 128.0), 0, (0, 127)),
        ((-4.0, 2.0), 1, (-39, 19)),
        ((-8.0, -4.0), 0, (-7, -4)),
    ],
)
def test_ranges_between_powers_of_two_in_ticks(bounds, places, ticks):
    assert range_in_places(*bounds, places) == ticks


def test_open_steps_are_written_and_read_again_and_odd_ones_refused():
    domain = Domain((Numeric("x", "discover", "discover", decimals="discover"),))
    assert domain_from_plain(domain_to_plain(domain)) == domain
    with pytest.raises(UsageError, match="decimals are found together with the range"):
        Numeric("x", 0, "discover", decimals="discover")
    with pytest.raises(UsageError, match="no decimals"):
        Numeric("x", "discover", "discover", integer=True, decimals="discover")
    with pytest.raises(UsageError, match="decimals"):
        Numeric("x", 0, 1, bins=3, decimals="discover")
    with pytest.raises(UsageError, match="whole number from 0"):
        Numeric("x", "discover", "discover", decimals="many")
    assert DateTime("t", "discover", "discover", unit="discover").finds_step
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fields = domain_of_schema(pa.schema({"x": pa.float64(), "n": pa.int64()})).fields
    assert [one.finds_step for one in fields] == [True, False]
