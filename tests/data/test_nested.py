"""Lists of structures are read as one list per member, and samples come back as lists of structures."""

import json
from dataclasses import replace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dpgm
from dpgm.data.layouts import Layout
from dpgm.data.nested import with_members
from dpgm.data.read.frames import frame_stream, read_frame

LAYOUT = Layout("wide", None, "trips.station", "trips.at")
NAMED = {"item": "trips.station", "time": "trips.at"}


@pytest.fixture(scope="module")
def cards():
    records = dpgm.simulate_trips(80, seed=4)
    return records, replace(records, domain=replace(records.domain, layout=LAYOUT))


@pytest.mark.parametrize("ending", ["parquet", "jsonl", "csv"])
def test_trips_come_back_as_they_were_read(cards, ending, tmp_path):
    plain, nested = cards
    nested.write(tmp_path / f"x.{ending}")
    records, source = dpgm.read_source(tmp_path / f"x.{ending}", domain=plain.domain, shape="wide", **NAMED)
    assert records == plain
    assert source.layout == LAYOUT
    assert dpgm.read_records(tmp_path / f"x.{ending}", domain=nested.domain) == plain
    if ending == "parquet":
        kind = pq.read_schema(tmp_path / "x.parquet").field("trips").type
        assert [member.name for member in kind.value_type] == ["station", "at"]
    if ending == "jsonl":
        row = json.loads((tmp_path / "x.jsonl").read_text().splitlines()[0])
        assert set(row["trips"][0]) == {"station", "at"}


def test_frames_hold_structures(cards):
    plain, nested = cards
    for frame in (nested.to_arrow(), nested.to_polars()):
        assert read_frame(frame, nested.domain).records == plain


def test_missing_lists_and_members_are_empty_and_missing():
    kind = pa.list_(pa.struct({"station": pa.string(), "at": pa.int64(), "deep": pa.list_(pa.list_(pa.int64()))}))
    trips = [[{"station": "a", "at": 3}, None], None, [], [{"station": None, "at": 4}]]
    table = pa.table({"trips": pa.array(trips, kind), "age": [1, 2, 3, 4]})
    stream = frame_stream(table.slice(0, 3))
    assert stream.names == ("age", "trips.station", "trips.at")
    (chunk,) = stream.read(dict.fromkeys(["trips.station", "trips.at"]))
    assert chunk.table["trips.station"].to_pylist() == [["a", None], [], []]
    assert chunk.table["trips.at"].to_pylist() == [[3, None], [], []]
    plain = frame_stream(table.drop_columns(["trips"]))
    assert with_members(plain) is plain


def test_a_column_that_is_called_like_a_member_comes_first():
    kind = pa.list_(pa.struct({"station": pa.string()}))
    table = pa.table({"trips": pa.array([[{"station": "a"}]], kind), "trips.station": [["b"]]})
    stream = frame_stream(table)
    (chunk,) = stream.read({"trips.station": None})
    assert chunk.table["trips.station"].to_pylist() == [["b"]]


def test_a_domain_of_one_sequence_is_read_from_structures(tmp_path):
    rows = [{"clicks": [{"page": "b"}, {"page": "a"}, {"page": "b"}]}, {"clicks": []}]
    (tmp_path / "x.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    domain = dpgm.Domain((dpgm.ItemSequence("page", ("a", "b")),))
    records = dpgm.read_records(tmp_path / "x.jsonl", domain=domain, item="clicks.page")
    assert records.events.codes.tolist() == [1, 0, 1]
    assert records.events.lengths.tolist() == [3, 0]
