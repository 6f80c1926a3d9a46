"""Inspection of rows of events: proposed where a table may hold them, and drafted as a sequence with attributes."""

from dataclasses import replace

import pandas as pd
import pytest

import dpgm
from dpgm.data.domain_file import load_domain
from dpgm.data.inspect.events import EventColumns
from dpgm.data.layouts import Layout
from dpgm.errors import InputError, UsageError

NAMED = {"person": "card_id", "item": "station", "time": "time"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("taps")
    taps = dpgm.simulate_trips(300, seed=3).to_pandas()
    taps["seconds"] = range(len(taps))
    taps["note"] = "x"
    taps.sample(frac=1, random_state=1).to_csv(folder / "taps.csv", index=False)
    taps.to_parquet(folder / "taps.parquet")
    (folder / "taps.jsonl").write_text(taps.astype({"time": str}).to_json(orient="records", lines=True))
    return folder


@pytest.mark.parametrize("name", ["taps.csv", "taps.parquet", "taps.jsonl"])
def test_events_are_proposed_where_persons_have_several_rows_at_times(folder, name):
    found = dpgm.inspect_file(folder / name)
    assert found.events == EventColumns("card_id", "station", "time")
    assert "--person card_id --item station --time time" in "\n".join(found.lines())


def test_events_are_not_proposed_for_one_row_per_person(tmp_path):
    people = {"card_id": range(50), "born": pd.date_range("1980-01-01", periods=50), "ward": list("ab") * 25}
    pd.DataFrame(people).to_csv(tmp_path / "x.csv", index=False)
    assert dpgm.inspect_file(tmp_path / "x.csv").events is None
    several = pd.concat([pd.DataFrame(people)] * 3)  # nothing varies within a person
    several.to_csv(tmp_path / "y.csv", index=False)
    assert dpgm.inspect_file(tmp_path / "y.csv").events is None


@pytest.mark.parametrize("name", ["taps.csv", "taps.parquet", "taps.jsonl"])
def test_the_draft_has_a_sequence_and_the_columns_that_are_constant_per_person(folder, name, tmp_path):
    found = dpgm.inspect_file(folder / name, **NAMED, draft_domain=tmp_path / "d.yaml")
    text = "\n".join(found.lines())
    assert "correct `from` and `to`" in text
    assert "seconds: differs between the rows of a person" in text
    drafted = load_domain(tmp_path / "d.yaml")
    assert [field.name for field in drafted.fields] == ["card", "age", "zones", "station", "note"]
    assert drafted.layout == Layout("long", "card_id", "station", "time")
    sequence = drafted.sequence
    assert (sequence.discover, sequence.start, sequence.end) == (True, "2024-03-04", "2024-03-31")
    with pytest.raises(UsageError, match="drafted from the data"):
        drafted.refuse_draft()
    corrected = (tmp_path / "d.yaml").read_text().replace("drafted_from_data: true\n", "")
    (tmp_path / "d.yaml").write_text(corrected)
    domain = load_domain(tmp_path / "d.yaml")
    assert domain.origin == "judged"
    records = dpgm.read_records(folder / name, domain=domain)
    assert len(records) == 300
    assert records.columns[3].events.lengths.sum() == len(pd.read_parquet(folder / "taps.parquet"))


def test_a_stated_period_leaves_nothing_of_the_rows_in_the_draft(folder):
    found = dpgm.inspect_file(folder / "taps.csv", **NAMED, period="2024-03-01..2024-03-31")
    assert found.domain.origin == "judged"
    assert (found.domain.sequence.start, found.domain.sequence.end) == ("2024-03-01", "2024-03-31")
    assert "The draft holds no value of any person" in "\n".join(found.lines())
    kept = dpgm.inspect_file(folder / "taps.csv", **NAMED, period="2024-03-01..2024-03-31", drop=["age", "note"])
    assert [field.name for field in kept.domain.fields] == ["card", "zones", "station"]


def test_numbers_that_rise_give_an_order_without_a_period(folder):
    found = dpgm.inspect_file(folder / "taps.csv", person="card_id", item="station", time="seconds")
    assert not found.domain.sequence.time
    assert found.domain.origin == "judged"


def test_a_frame_is_drafted_like_a_file(folder):
    frame = pd.read_parquet(folder / "taps.parquet")
    domain = dpgm.Domain.draft(frame, **NAMED, period="2024-03-01..2024-03-31")
    assert domain == dpgm.inspect_file(folder / "taps.parquet", **NAMED, period="2024-03-01..2024-03-31").domain
    assert dpgm.Domain.draft(frame, **NAMED).origin == "drafted"


@pytest.mark.parametrize("period", ["2024-03-01", "..", "2024-03-05..2024-03-01", "soon..later"])
def test_what_is_no_period_is_refused(folder, period):
    with pytest.raises(UsageError, match=r"public period|before 'to'"):
        dpgm.read_records(folder / "taps.csv", **NAMED, discover=True, period=period)
    with pytest.raises(UsageError, match="`period` belongs to `time` without a domain"):
        dpgm.read_records(folder / "taps.csv", person="card_id", item="station", discover=True, period=period)


def test_a_period_makes_times_of_what_orders_events(folder):
    options = NAMED | {"discover": True, "period": "2024-03-01..2024-03-31"}
    records = dpgm.read_records(folder / "taps.csv", **options)
    assert records.domain.sequence.minutes == 31 * 1440
    assert records.columns[0].events.times is not None


@pytest.mark.parametrize("ending", ["csv", "jsonl", "parquet"])
def test_lists_of_events_are_drafted_with_their_times(ending, tmp_path):
    cards = dpgm.simulate_trips(60, seed=2)
    layout = Layout("wide", None, "trips.station", "trips.at")
    nested = replace(cards, domain=replace(cards.domain, layout=layout))
    nested.write(tmp_path / f"x.{ending}")
    found = dpgm.inspect_file(tmp_path / f"x.{ending}", item="trips.station", time="trips.at")
    assert found.domain.layout == layout
    assert (found.domain.sequence.start, found.domain.sequence.end) == ("2024-03-04", "2024-03-31")
    assert [field.name for field in found.domain.fields] == ["card", "age", "zones", "trips.station"]
    records = dpgm.read_records(tmp_path / f"x.{ending}", domain=replace(found.domain, origin="stated"))
    assert records.columns[3].events.lengths.tolist() == cards.events.lengths.tolist()
    with pytest.raises(InputError, match=r"no lists|must hold a list"):
        dpgm.inspect_file(tmp_path / f"x.{ending}", item="age", time="trips.at")
