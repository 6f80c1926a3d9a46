"""Sequences in columns of lists: read person by person as stated, written as they came, opened and closed."""

import datetime
import json
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpgm.data.domain import Categorical, Domain, ItemSequence
from dpgm.data.encoding import TableEncoder
from dpgm.data.event_times import clock_times, running_times
from dpgm.data.layouts import Layout
from dpgm.data.open_records import concatenate_open
from dpgm.data.records import Records
from dpgm.errors import InputError, UsageError
from naive_events import naive_events, read_events

PERIOD = {"time": True, "start": "2024-03-04", "end": "2024-03-06"}
LABELS = ("b", "a", "c")
TIMED = ItemSequence("stops", LABELS, max_length=4, **PERIOD)
ORDERED = ItemSequence("stops", LABELS, max_length=4)
START = datetime.datetime(2024, 3, 3, 23, 58)
events = st.lists(
    st.tuples(
        st.sampled_from([*LABELS, "x", None]),
        st.one_of(st.none(), st.integers(0, 8).map(lambda at: START + datetime.timedelta(seconds=29 * at))),
    ),
    max_size=7,
)
people = st.lists(events, min_size=1, max_size=6)


def _domain(field, layout="when"):
    return Domain((Categorical("card", ("x", "y")), field), layout=Layout("wide", time=layout))


def _table(made):
    return pa.table(
        {
            "card": ["x"] * len(made),
            "stops": pa.array([[item for item, _ in one] for one in made], pa.list_(pa.string())),
            "when": pa.array([[when for _, when in one] for one in made], pa.list_(pa.timestamp("s"))),
        }
    )


@given(made=people)
def test_lists_with_times_are_read_as_written_out_by_hand(made):
    records = TableEncoder(_domain(TIMED)).encode(_table(made))
    records.check()
    assert read_events(records) == [naive_events(one, TIMED) for one in made]
    found = replace(TIMED, items=(), discover=True)
    opened = TableEncoder(_domain(found)).encode(_table(made))
    opened.check()
    assert read_events(opened) == [naive_events(one, found) for one in made]


@given(made=people, cut=st.integers(0, 6))
def test_events_of_an_open_domain_become_those_of_the_published_items(made, cut):
    """The published items may be any, in an order of their own; vocabularies of parts differ."""
    domain = _domain(replace(TIMED, items=(), discover=True))
    parts = [part for part in (_table(made).slice(0, cut), _table(made).slice(cut)) if part.num_rows]
    opened = concatenate_open([TableEncoder(domain).encode(part) for part in parts])
    closed = replace(TIMED, items=("a", "b"))
    records = opened.closed(_domain(closed), {})
    records.check()
    by_name = replace(closed, items=("a", "b", "c", "x"), max_length=100)
    whole = [[event for event in naive_events(one, by_name) if event[0] in closed.items][:4] for one in made]
    assert read_events(records) == whole
    held = opened.columns[1].held(None)
    assert len(held[0]) == sum(len({item for item, _ in one}) for one in read_events(opened))


@given(made=people)
def test_lists_without_times_keep_their_order_and_repeats(made):
    records = TableEncoder(_domain(ORDERED, None)).encode(_table(made))
    records.check()
    assert read_events(records) == [naive_events(one, ORDERED, timed=False) for one in made]


@pytest.mark.parametrize("ending", ["csv", "tsv", "jsonl", "parquet"])
@pytest.mark.parametrize("timed", [True, False])
def test_samples_come_back_as_lists_or_rows(ending, timed, tmp_path):
    field = TIMED if timed else ORDERED
    made = [
        [("a", datetime.datetime(2024, 3, 4, 9)), ("b", datetime.datetime(2024, 3, 4, 8))],
        [],
        [("c", datetime.datetime(2024, 3, 6, 23, 59))],
    ]
    records = TableEncoder(_domain(field)).encode(_table(made))
    assert records.to_arrow().column_names == ["card", "stops", "when"]
    long = replace(records, domain=replace(records.domain, layout=Layout("long", "id", "stop", "when")))
    assert long.to_pandas()["stop"].fillna("").tolist() == ["b", "a", "", "c"]
    assert long.to_arrow()["id"].to_pylist() == [0, 0, 1, 2]
    table = long.to_polars()
    assert table.columns == ["id", "card", "stop", "when"]
    whens = [datetime.datetime(2024, 3, 4, 8), datetime.datetime(2024, 3, 4, 9), None, made[2][0][1]]
    assert table["when"].to_list() == (whens if timed else [1, 2, None, 1])
    for one in (long, records):
        one.write(tmp_path / f"x.{ending}")
        if ending == "jsonl":
            rows = [json.loads(line) for line in (tmp_path / "x.jsonl").read_text().splitlines()]
            assert rows[0]["when"] in (
                ["2024-03-04 08:00:00", "2024-03-04 09:00:00"],
                "2024-03-04 08:00:00",
                [1, 2],
                1,
            )


def test_a_pattern_says_how_times_are_written(tmp_path):
    field = replace(TIMED, pattern="%d.%m.%Y %H:%M", separator=";")
    table = pa.table({"card": ["x"], "stops": ["b;a;a"], "when": ["05.03.2024 09:00;04.03.2024 08:30;"]})
    records = TableEncoder(_domain(field)).encode(table)
    assert read_events(records) == [[("a", 510), ("b", 1980)]]
    records.write(tmp_path / "x.csv")
    written = (tmp_path / "x.csv").read_text().replace('"', "")
    assert written == "card,stops,when\nx,a;b,04.03.2024 08:30;05.03.2024 09:00\n"


@pytest.mark.parametrize("ending", ["npz", "npy", "dat"])
def test_formats_without_order_or_times_are_refused(ending, tmp_path):
    domain = Domain((ItemSequence("stops", (1, 2), **PERIOD),))
    with pytest.raises(UsageError, match="cannot hold the events"):
        Records.from_lists([], domain).write(tmp_path / f"x.{ending}")


def test_lists_of_items_and_times_must_be_equally_long():
    table = pa.table({"card": ["x", "x"], "stops": [["a"], ["a", "b"]], "when": [["2024-03-04"], ["2024-03-04"]]})
    with pytest.raises(InputError, match="row 2, column 'when': the list of times is not as long"):
        TableEncoder(_domain(TIMED)).encode(table)
    with pytest.raises(InputError, match="no column 'when'"):
        TableEncoder(_domain(TIMED)).encode(table.drop_columns(["when"]))


def _place(row):
    return f"row {row + 1}"


@pytest.mark.parametrize(
    ("text", "there", "elsewhere"),
    [
        ("2024-03-31T01:30:00.25+01:00", "2024-03-31 01:30:00.250000", "2024-03-31 01:30:00.250000"),
        ("2024-07-01 10:00Z", "2024-07-01 12:00:00", "2024-07-01 10:00:00"),
        (" 2024-01-01 23:30:00-02:30 ", "2024-01-02 03:00:00", "2024-01-01 23:30:00"),
        ("2024-07-01", "2024-07-01 00:00:00", "2024-07-01 00:00:00"),
        ("2024-07-01T10:00:00.125", "2024-07-01 10:00:00.125000", "2024-07-01 10:00:00.125000"),
    ],
)
def test_times_with_an_offset_are_those_of_the_stated_zone(text, there, elsewhere):
    for zone, shown in (("Europe/Paris", there), (None, elsewhere)):
        (seconds,) = clock_times(pa.array([text]), _place, ("",), zone=zone)
        assert str(datetime.datetime(1970, 1, 1) + datetime.timedelta(seconds=seconds)) == shown
    instant = pa.array([datetime.datetime(2024, 7, 1, 10, tzinfo=datetime.UTC)], pa.timestamp("ms", "UTC"))
    assert clock_times(instant, _place, (), zone="Europe/Paris")[0] - clock_times(instant, _place, ())[0] == 7200


def test_equal_moments_written_in_two_ways_are_equal():
    """Else a repeated tap would count twice."""
    texts = [f"2024-03-04T08:15:{second:02}.{part:03}" for second in range(60) for part in range(0, 1000, 7)]
    by_zone = clock_times(pa.array([f"{text}+01:00" for text in texts]), _place, ("",), zone="Europe/Paris")
    utc = pa.array([text.replace("T08", "T07") + "Z" for text in texts])
    assert np.array_equal(by_zone, clock_times(utc, _place, ("",), zone="Europe/Paris"))
    assert np.array_equal(by_zone, clock_times(pa.array(texts), _place, ("",)))
    assert np.array_equal(by_zone, clock_times(pa.array(texts).cast(pa.timestamp("ms")), _place, ()))


def test_any_rising_numbers_order_events():
    texts = pa.array(["2", "10", "", "NA", "1.5", None, "2024-01-01"])
    assert np.isnan(running_times(texts, _place, ("", "NA"))).tolist() == [0, 0, 1, 1, 0, 1, 0]
    assert np.argsort(running_times(texts, _place, ("", "NA")), kind="stable")[:4].tolist() == [4, 0, 1, 6]
    with pytest.raises(InputError, match="row 2: the time of an event must be a date"):
        running_times(pa.array(["1", "soon"]), _place, ("",))
    assert running_times(pa.array([3, None]), _place, ("",))[0] == 3.0
