"""Cases of `metamorphic` with events: a row is a person with attributes and events, scattered over the file.

Where events have times, those of a person come in any order, another one in every file; nothing that is read of a person
may depend on it, or on the rows of others in between.
"""

import datetime
import json
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from dpgm.data.domain import Categorical, Date, Domain, ItemSequence, Numeric
from dpgm.data.layouts import Layout
from metamorphic import Case, delimited, json_lines, person_of

ITEMS = ("b", "a", "01", "1", "é")
PERIOD = {"time": True, "start": "2024-03-04", "end": "2024-03-31T12:00", "zone": "Europe/Paris"}
TIMED = ItemSequence("what", ITEMS, max_length=4, **PERIOD)
ORDERED = ItemSequence("what", ITEMS, max_length=4)
ATTRIBUTES = (
    Categorical("kind", ("x", "y", "z"), missing=True),
    Numeric("size", 0, 100, 10, missing=True),
)
OPEN_ATTRIBUTES = (
    Categorical("kind", discover=True),
    Numeric("size", "discover", "discover"),
    Date("born", "1950-01-01", "2030-01-01"),
)
COLUMNS = ("who", "kind", "size", "born", "what", "when")
NAMED = {"person": "who", "item": "what", "time": "when"}


def closed(sequence: ItemSequence = TIMED) -> Domain:
    return Domain((ATTRIBUTES[0], sequence, ATTRIBUTES[1]))


def opened(sequence: ItemSequence = TIMED) -> Domain:
    return Domain((*OPEN_ATTRIBUTES, replace(sequence, items=(), discover=True)))


def moment(rng: random.Random) -> str:
    """Few different times, so that events fall together; some outside of the period, or in another zone."""
    day, minute = rng.choice([3, 4, 4, 5, 31, 31]), rng.randrange(3)
    clock = rng.choice([f"0{minute}:30", f"0{minute}:30:00", f"0{minute}:30:00.5", f"0{minute}:30:59"])
    zone = rng.choice(["", "", "", "Z", "+01:00", "-02:30"])
    return rng.choice([f"2024-03-{day:02} {clock}{zone}", f"2024-03-{day:02}T{clock}{zone}", f"2024-03-{day:02}"])


def texts(rng: random.Random) -> Any:
    """A person whose attributes are mostly the same in every row."""
    odd = rng.random() < 0.03
    usual = {"kind": rng.choice("xyz"), "size": rng.choice(["5", "77", " 7 "]), "born": "1990-05-01"}

    def event() -> dict[str, Any]:
        other = {"kind": rng.choice(["x", "y", ""]), "size": rng.choice(["5", "1e1", "", "q" if odd else "3"])}
        made = usual | (other if rng.random() < 0.3 else {})
        what = rng.choice([*ITEMS, "", "unlisted", " a "])
        return made | {"what": what, "when": rng.choice([moment(rng)] * 12 + ["", "soon" if odd else ""])}

    return person_of(rng), [event() for _ in range(1 + rng.randrange(6))]


def values(rng: random.Random) -> Any:
    """The same as Python values."""
    who, events = texts(rng)
    pool = [None, datetime.datetime(2024, 3, 4, 9, 30), datetime.datetime(2024, 3, 4, 9, 30, 0, 500), moment(rng)]
    zoned = datetime.datetime(2024, 3, 4, 8, 30, tzinfo=datetime.UTC)
    for one in events:
        one["when"] = rng.choice([*pool, *pool, zoned if rng.random() < 0.2 else pool[1]])
        one["what"] = rng.choice([*ITEMS, 1, None, one["what"] or None])
        one["size"] = rng.choice([5, 7.5, None])
    return who, events


def numbered(rng: random.Random) -> Any:
    """A person whose events have numbers or dates that rise."""
    who, events = texts(rng)
    for one in events:
        one["when"] = rng.choice(
            ["1", "2", "10", "1e1", "", "2024-03-04", "-3", "x" if rng.random() < 0.01 else "2"]
        )
    return who, events


def anywhere(rows: list[Any], *, in_turn: bool = False) -> list[dict[str, Any]]:
    """The events of all persons, anywhere: a first one of every person, then all others, shuffled by the whole file."""
    rng = random.Random(repr(rows))
    people = [[{"who": who, **event} for event in events] for who, events in rows]
    if not in_turn:
        for events in people:
            rng.shuffle(events)
    firsts, rest = [events[0] for events in people], [events[1:] for events in people]
    turns = [at for at, events in enumerate(rest) for _ in events]
    rng.shuffle(turns)
    return firsts + [rest[at].pop(0) for at in turns]


def text_file(in_turn: bool = False) -> Callable[..., None]:
    inner = delimited(",", [*COLUMNS])
    return lambda path, rows: inner(path, anywhere(rows, in_turn=in_turn))


def json_file(path: Path, rows: list[Any]) -> None:
    json_lines(path, anywhere(rows))


def parquet_file(path: Path, rows: list[Any]) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    made = anywhere(rows)
    table = {name: pa.array([row[name] for row in made], pa.string()) for name in COLUMNS if name != "when"}
    whens = [None if row["when"] is None else datetime.datetime.fromisoformat(row["when"]) for row in made]
    table["when"] = pa.array(whens, pa.timestamp("ms", "UTC"))
    pq.write_table(pa.table(table), path, row_group_size=5)


def instants(rng: random.Random) -> Any:
    who, events = texts(rng)
    pool = [None, "2024-03-04T09:30:00+00:00", "2024-03-31T11:30:00.5+01:00", "2024-03-03T23:00:00+00:00"]
    for one in events:
        one["when"] = rng.choice(pool)
        one["size"] = rng.choice(["5", "7", ""])
    return who, events


def frame(package: str, dtype: Any = None) -> Callable[..., Any]:
    def write(path: Path, rows: list[Any]) -> Any:
        made = anywhere(rows)
        columns = {name: [row[name] for row in made] for name in COLUMNS}
        if package == "pandas":
            import pandas as pd

            return pd.DataFrame({name: pd.Series(column, dtype=dtype) for name, column in columns.items()})
        import polars as pl

        return pl.DataFrame(columns, schema=dict.fromkeys(COLUMNS, pl.String))

    return write


def list_rows(person: tuple[Any, list[dict[str, Any]]], rng: random.Random, in_turn: bool) -> dict[str, Any]:
    """A person in one row, with lists of events."""
    who, events = person
    made = events if in_turn else rng.sample(events, len(events))
    lists = {name: [one[name] or None for one in made] for name in ("what", "when")}
    return {"who": who, "kind": events[0]["kind"], "size": "5", "born": "1990-05-01", **lists}


def lists(in_json: bool, in_turn: bool = False) -> Callable[..., None]:
    def write(path: Path, rows: list[Any]) -> None:
        made = [list_rows(person, random.Random(repr(rows)), in_turn) for person in rows]
        if in_json:
            json_lines(path, made)
            return
        cells = [row | {name: json.dumps(row[name]) for name in ("what", "when")} for row in made]
        delimited(",", [*COLUMNS])(path, cells)

    return write


@dataclass(frozen=True)
class WithPersons(Case):
    """A case with a second file, or frame, of the attributes of persons; some persons are not in it."""

    def read(self, folder: Path, rows: list[Any]) -> list[frozenset[str]] | str:
        known = [(who, events) for who, events in rows if events[0]["kind"] != "z"]
        listed = [{"who": who, "kind": events[0]["kind"], "size": events[0]["size"]} for who, events in known]
        listed.append({"who": "nobody else", "kind": "x", "size": "1"})  # a file has one row at least
        random.Random(repr(rows)).shuffle(listed)
        delimited(",", ["who", "kind", "size"])(folder / "persons.csv", listed)
        case = Case(
            self.name, self.row, self.write, self.options | {"persons": folder / "persons.csv"}, self.ending
        )
        found = case.read(folder, rows)
        return found if isinstance(found, str) else self.in_order(found, rows, [row["who"] for row in listed])

    def in_order(self, found: list[frozenset[str]], rows: list[Any], listed: list[str]) -> list[frozenset[str]]:
        """The records of the rows: persons come in order of the first file, and those that it lacks at the end."""
        order = listed + [who for who, _ in rows if who not in listed]
        by_person = dict(zip(order, found, strict=True))
        return [by_person[who] for who, _ in rows]


def event_cases() -> Iterator[Case]:
    """Long files, frames and lists of events."""
    timed = NAMED | {"domain": closed()}
    write = text_file()
    yield Case("events.csv", texts, write, timed, ".csv")
    yield Case("events.csv on disk", texts, write, timed | {"memory": 100}, ".csv")
    yield Case("events.csv open", texts, write, NAMED | {"domain": opened()}, ".csv")
    yield Case("events.csv open on disk", texts, write, NAMED | {"domain": opened(), "memory": 100}, ".csv")
    laid = replace(closed(), layout=Layout("long", "who", "what", "when"))
    yield Case("events.csv by layout", texts, write, {"domain": laid}, ".csv")
    yield Case("events.csv numbers", numbered, write, NAMED | {"domain": closed(ORDERED)}, ".csv")
    in_turn = {"person": "who", "item": "what"}
    yield Case("events.csv in turn", texts, text_file(True), in_turn | {"domain": closed(ORDERED)}, ".csv")
    yield Case("events.csv in turn open", texts, text_file(True), in_turn | {"domain": opened(ORDERED)}, ".csv")
    yield Case("events.csv without a domain", texts, write, NAMED | {"discover": True}, ".csv")
    yield Case("events jsonl", texts, json_file, timed, ".jsonl")
    yield Case("events parquet instants", instants, parquet_file, timed, ".parquet")
    yield WithPersons("events.csv with persons", texts, write, timed, ".csv")
    yield WithPersons("events.csv with persons on disk", texts, write, timed | {"memory": 100}, ".csv")
    for name, dtype in (("objects", object), ("inferred", None), ("category", "category")):
        yield Case(f"events pandas {name}", values, frame("pandas", dtype), timed)
        yield Case(f"events pandas {name} open", values, frame("pandas", dtype), NAMED | {"domain": opened()})
    yield Case("events polars", texts, frame("polars"), timed)
    wide = {"domain": closed(), "time": "when"}
    yield Case("lists of events csv", texts, lists(False), wide, ".csv")
    yield Case("lists of events jsonl", texts, lists(True), wide, ".jsonl")
    yield Case("lists of events jsonl open", texts, lists(True), {"domain": opened(), "time": "when"}, ".jsonl")
    yield Case("lists in turn jsonl", texts, lists(True, True), {"domain": closed(ORDERED)}, ".jsonl")
