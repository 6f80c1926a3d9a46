"""Long files of events: read as written out by hand, with attributes, a file of persons, on disk and in frames."""

import datetime
from dataclasses import replace

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dpgm
from dpgm.data.domain import Categorical, Date, Domain, ItemSequence, ItemSet, Numeric
from dpgm.data.layouts import Layout
from dpgm.data.read.frames import read_frame
from dpgm.errors import InputError, UsageError
from naive_events import naive_events, read_events

PERIOD = {"time": True, "start": "2024-03-04", "end": "2024-03-06"}
LABELS = ("b", "a", "c")
STOP = ItemSequence("stop", LABELS, max_length=4, **PERIOD)
DOMAIN = Domain((Categorical("kind", ("x", "y", "z"), missing=True), STOP, Numeric("size", 0, 10, 5, missing=True)))
OPEN = Domain(
    (
        Categorical("kind", discover=True),
        replace(STOP, items=(), discover=True),
        Numeric("size", "discover", "discover"),
    )
)
NAMED = {"person": "card", "item": "stop", "time": "when"}
START = datetime.datetime(2024, 3, 3, 23, 58)
rows = st.lists(
    st.fixed_dictionaries(
        {
            "card": st.integers(0, 3),
            "stop": st.sampled_from([*LABELS, "x", None]),
            "when": st.one_of(
                st.none(), st.integers(0, 6).map(lambda at: START + datetime.timedelta(seconds=29 * at))
            ),
            "kind": st.sampled_from(["x", "y", "z", None]),
            "size": st.sampled_from([1.0, 5.0, 9.0, None]),
        }
    ),
    min_size=1,
    max_size=14,
)


def _frame(made):
    types = {"card": pa.int64(), "stop": pa.string(), "when": pa.timestamp("s"), "kind": pa.string()}
    types |= {"size": pa.float64()}
    return pa.table({name: pa.array([row[name] for row in made], kind) for name, kind in types.items()})


def _by_person(made):
    people: dict[int, list] = {}
    for row in made:
        people.setdefault(row["card"], []).append(row)
    return people


def _earliest(own, name, rank):
    """The value of the first row that has one: by time (those without last), item, and value."""

    def key(row):
        when = (row["when"] is None, row["when"] or START)
        return (*when, -1 if row["stop"] not in rank else rank.index(row["stop"]), row[name])

    valued = [row for row in own if row[name] is not None]
    return min(valued, key=key)[name] if valued else None


def _positions(kind, size):
    return {"xyz".index(kind) if kind else 3, 4 + 3 + (int(size // 2) if size is not None else 5)}


@given(made=rows)
def test_persons_are_read_as_written_out_by_hand(made):
    records = read_frame(_frame(made), DOMAIN, **NAMED).records
    records.check()
    people = _by_person(made)
    assert read_events(records) == [
        naive_events([(row["stop"], row["when"]) for row in own], STOP) for own in people.values()
    ]
    for own, record in zip(people.values(), records.chunks(1), strict=True):
        told = _positions(_earliest(own, "kind", LABELS), _earliest(own, "size", LABELS))
        assert {at for at in record.indices.tolist() if not 4 <= at < 7} == told


@given(made=rows)
def test_open_values_are_read_as_written_out_by_hand(made):
    records = read_frame(_frame(made), OPEN, **NAMED).records
    records.check()
    kinds, _, sizes = records.columns
    people = _by_person(made)
    expected = [naive_events([(row["stop"], row["when"]) for row in own], OPEN.sequence) for own in people.values()]
    assert read_events(records) == expected
    alphabet = ["a", "b", "c", "x"]
    for at, own in enumerate(people.values()):
        code = int(kinds.codes[at])
        assert (kinds.vocabulary.labels[code] if code >= 0 else None) == _earliest(own, "kind", alphabet)
        size = float(sizes.ticks[at])
        assert (None if np.isnan(size) else size) == _earliest(own, "size", alphabet)


@settings(max_examples=40)
@given(made=rows, seed=st.integers(0, 99))
def test_the_order_of_rows_does_not_matter_and_disk_is_like_memory(made, seed, tmp_path_factory):
    folder = tmp_path_factory.mktemp("rows")
    pq.write_table(_frame(made), folder / "x.parquet", row_group_size=4)
    order = np.random.default_rng(seed).permutation(len(made))
    pq.write_table(_frame([made[at] for at in order]), folder / "y.parquet")
    for domain in (DOMAIN, OPEN):
        options = NAMED | {"domain": domain}
        one = dpgm.read_records(folder / "x.parquet", **options)
        on_disk = dpgm.read_records(folder / "x.parquet", **options, memory=100)
        other = dpgm.read_records(folder / "y.parquet", **options)
        assert read_events(on_disk) == read_events(one)
        assert domain.is_open or on_disk == one
        names = [list(dict.fromkeys(row["card"] for row in part)) for part in (made, [made[at] for at in order])]
        moved = [names[0].index(name) for name in names[1]]
        assert read_events(other) == [read_events(one)[at] for at in moved]
        if not domain.is_open:
            assert other == one.take(np.array(moved))


@given(made=rows)
def test_without_a_column_of_times_the_order_of_rows_counts(made):
    ordered = replace(STOP, time=False, start=None, end=None)
    domain = Domain((DOMAIN.fields[0], ordered))
    records = read_frame(_frame(made), domain, person="card", item="stop").records
    records.check()
    people = _by_person(made)
    told = [naive_events([(row["stop"], None) for row in own], ordered, timed=False) for own in people.values()]
    assert read_events(records) == told
    for own, record in zip(people.values(), records.chunks(1), strict=True):
        first = next((row["kind"] for row in own if row["kind"] is not None), None)
        assert record.indices[0] == ("xyz".index(first) if first else 3)


@given(made=rows)
def test_numbers_that_rise_order_events(made):
    ordered = replace(STOP, time=False, start=None, end=None, max_length=100)
    table = _frame(made)
    seconds = table["when"].cast(pa.int64())
    by_number = table.set_column(2, "when", seconds)
    for one in (table, by_number):
        records = read_frame(one, Domain((ordered,)), **NAMED).records
        told = [
            naive_events([(row["stop"], row["when"]) for row in own], ordered) for own in _by_person(made).values()
        ]
        assert read_events(records) == told


@given(made=rows)
def test_a_file_of_persons_has_their_attributes(made):
    """Persons without events are there, and so are those that it lacks, if their attributes may be missing."""
    events = _frame(made).select(["card", "stop", "when"])
    persons = pa.table({"card": [7, 1, 2], "kind": ["x", "y", None], "size": [1.0, None, 5.0]})
    records = read_frame(events, DOMAIN, **NAMED, persons=persons).records
    records.check()
    people = {7: [], 1: [], 2: []} | {card: [] for card in _by_person(made)}
    people |= _by_person(made)
    told = [naive_events([(row["stop"], row["when"]) for row in own], STOP) for own in people.values()]
    assert read_events(records) == told
    known = {7: ("x", 1.0), 1: ("y", None), 2: (None, 5.0)}
    for card, record in zip(people, records.chunks(1), strict=True):
        outside = {at for at in record.indices.tolist() if not 4 <= at < 7}
        assert outside == _positions(*known.get(card, (None, None)))


CSV = """card,when,stop,kind,size
7,2024-03-04 09:00,b,x,1
3,2024-03-05 09:00,a,,
7,2024-03-04 08:00,a,y,3
9,,b,x,5
7,2024-03-04 09:00,b,x,1
"""


@pytest.fixture
def taps(tmp_path):
    (tmp_path / "taps.csv").write_text(CSV)
    return tmp_path / "taps.csv"


def test_samples_come_back_like_the_file(taps, tmp_path):
    records, source = dpgm.read_source(taps, domain=DOMAIN, **NAMED)
    assert source.layout == Layout("long", "card", "stop", "when")
    assert source.unit == "person"
    back = replace(records, domain=replace(DOMAIN, layout=source.layout))
    for ending in ("csv", "jsonl", "parquet"):
        path = tmp_path / f"back.{ending}"
        back.write(path)
        again = dpgm.read_records(path, domain=DOMAIN, **NAMED)
        assert again == records
        assert dpgm.read_records(path, domain=replace(DOMAIN, layout=source.layout)) == records
    header = (tmp_path / "back.csv").read_text().splitlines()[:2]
    assert header[0] == "card,kind,stop,when,size"
    assert header[1].startswith("0,y,a,2024-03-04 08:00:00,")


def test_a_column_of_times_alone_makes_a_sequence_of_what_is_found(taps):
    records, source = dpgm.read_source(taps, discover=True, **NAMED)
    assert records.domain.sequence == ItemSequence("stop", discover=True)
    assert read_events(records) == [[("a", None), ("b", None)], [("a", None)], []]
    assert not source.items_assumed_public
    public, source = dpgm.read_source(taps, assume_public_items=True, **NAMED)
    assert source.items_assumed_public
    assert public.domain.sequence.items == ("a", "b")
    assert read_events(public) == read_events(records)
    with pytest.raises(UsageError, match="the set of items must be public"):
        dpgm.read_records(taps, **NAMED)


def test_shares_of_processes_are_parts_of_the_whole(taps):
    from dpgm.data.read.options import ReadOptions
    from dpgm.data.read.readers import read_share
    from dpgm.data.records import concatenate

    whole = dpgm.read_records(taps, domain=DOMAIN, **NAMED)
    parts = [read_share(taps, ReadOptions(DOMAIN, **NAMED), share, 2)[0] for share in (0, 1)]
    assert concatenate(parts) == whole
    on_disk = [read_share(taps, ReadOptions(DOMAIN, **NAMED, memory=100), share, 2)[0] for share in (0, 1)]
    assert concatenate(on_disk) == whole


def test_one_frame_is_read_alike_by_all_packages(taps):
    import polars as pl

    frame = pd.read_csv(taps)
    first = read_frame(frame, DOMAIN, **NAMED)
    assert first.records == dpgm.read_records(taps, domain=DOMAIN, **NAMED)
    for other in (pl.from_pandas(frame), pa.Table.from_pandas(frame), frame.convert_dtypes(), frame.astype(object)):
        again = read_frame(other, DOMAIN, **NAMED)
        assert again.records == first.records
        assert again.source == first.source
    lists = frame.groupby("card", sort=False).agg({"kind": "first", "size": "first", "stop": list, "when": list})
    lists = lists.reset_index()
    timed = read_frame(lists, DOMAIN, time="when")
    assert timed.source.layout == Layout("wide", item="stop", time="when")
    assert read_events(timed.records) == read_events(first.records)
    assert read_events(read_frame(lists, DOMAIN, **NAMED).records) == read_events(first.records)
    arrow = read_frame(pa.Table.from_pandas(lists), DOMAIN, **NAMED)
    assert read_events(arrow.records) == read_events(first.records)
    assert arrow.source.layout == Layout("wide", item="stop", time="when")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"persons": "x"}, "there is no such file"),
        ({"time": "then"}, "no column 'then' for `time`"),
        ({"domain": Domain((ItemSet("stop", LABELS),))}, "`time` belongs to a sequence"),
        ({"domain": Domain((STOP, ItemSet("others", ("a",))))}, "holds several values per person"),
        ({"domain": Domain((STOP, Date("left", "2024-01-01", "2024-12-31")))}, "no column 'left' for `domain`"),
        ({"domain": Domain((STOP,)), "persons": "x"}, "`persons` has attributes of persons; list them"),
        ({"rows_per_person": 3}, "the long shape makes one record of all rows"),
        ({"person": None, "item": None, "shape": None}, "does not hold lists|must hold a list"),
    ],
)
def test_what_does_not_fit_is_refused(taps, change, said):
    with pytest.raises((UsageError, InputError), match=said):
        dpgm.read_records(taps, **({"domain": DOMAIN} | NAMED | change))


def test_a_person_without_attributes_is_refused_where_they_are_needed(taps, tmp_path):
    (tmp_path / "persons.csv").write_text("card,kind\n7,x\n3,y\n")
    domain = Domain((Categorical("kind", ("x", "y")), STOP))
    with pytest.raises(InputError, match=r"taps.csv: a person has events and no value of 'kind'"):
        dpgm.read_records(taps, domain=domain, persons=tmp_path / "persons.csv", **NAMED)
    (tmp_path / "persons.csv").write_text("card,kind\n7,x\n3,y\n9,y\n")
    records = dpgm.read_records(taps, domain=domain, persons=tmp_path / "persons.csv", **NAMED)
    assert [record.indices[0] for record in records.chunks(1)] == [0, 1, 1]


@pytest.mark.parametrize("ending", ["csv", "jsonl", "parquet"])
def test_attributes_of_persons_are_written_to_a_file_of_their_own(ending, tmp_path):
    cards = dpgm.simulate_trips(60, seed=8)
    events, persons = tmp_path / f"events.{ending}", tmp_path / f"persons.{ending}"
    cards.write(events, persons=persons)
    again = dpgm.read_records(events, domain=cards.domain, persons=persons)
    assert again == cards
    read = {"csv": pd.read_csv, "parquet": pd.read_parquet, "jsonl": lambda path: pd.read_json(path, lines=True)}[
        ending
    ]
    assert list(read(persons)) == ["card_id", "card", "age", "zones"]
    assert list(read(events)) == ["card_id", "station", "time"]
    assert len(read(persons)) == 60
    alone = Domain((cards.domain.sequence,), layout=cards.domain.layout)
    with pytest.raises(UsageError, match="attributes of persons, and the domain has none"):
        dpgm.read_records(events, domain=alone).write(tmp_path / "x.csv", persons=tmp_path / "y.csv")
    assert not (tmp_path / "x.csv").exists()


def test_persons_of_parts_are_numbered_on(tmp_path):
    from dpgm.data.writers import RecordWriter

    cards = dpgm.simulate_trips(9, seed=8)
    with RecordWriter(tmp_path / "x.csv", cards.domain, layout=cards.domain.layout, first=100) as writer:
        writer.write(cards.rows(0, 4))
        writer.write(cards.rows(4, 9))
    assert pd.read_csv(tmp_path / "x.csv")["card_id"].unique().tolist() == list(range(100, 109))
