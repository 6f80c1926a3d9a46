"""Checks that reading is record by record, on pairs of files that differ in one row, in every format and shape.

A case writes odd rows to a file (or puts them into a frame) and reads them. Two things are asserted for every pair of
neighbouring files, of which one has a row added, removed or changed at the beginning, in the middle or at the end:

- each file reads as its rows read alone, one file per row: no other record changes, and the number of records changes
  by exactly the rows added or removed;
- a file is refused if and only if one of its rows is refused alone: a refusal concerns that row only.

`make assure RUNS=metamorphic` runs 20,000 pairs and prints how many there were per case; `make test` a few hundred.
"""

import argparse
import csv
import datetime
import gzip
import io
import json
import math
import os
import random
import shutil
import struct
import sys
import tempfile
import zoneinfo
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from decimal import Decimal
from itertools import pairwise
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

import dpgm.data.formats.excel
import dpgm.data.formats.json_lines
import dpgm.data.formats.lines
import dpgm.data.formats.parquet
import dpgm.data.read.frames
from dpgm.data.domain import Boolean, Categorical, Date, DateTime, Domain, Identifier, Image, ItemSet, Numeric
from dpgm.data.events import Events
from dpgm.data.open_columns import NumberColumn, SetColumn
from dpgm.data.open_records import OpenRecords
from dpgm.data.read.frames import read_frame
from dpgm.data.read.readers import read_records
from dpgm.data.records import Records
from dpgm.errors import DpgmError

REFUSED = "refused"

WORDS = [
    *("0", "00", "01", "007", "1", "+1", "-1", "1.0", "0.5", "1e10", "10000000000", "1e16", "10000000000000000"),
    *("nan", "NaN", "inf", "NA", "null", "None", "true", "True", "false", "9223372036854775807", "5", "05"),
    *("9223372036854775808", "99999999999999999999999", "0x1", "1_0", "\u0663", "a", "A", " a", "a ", "b c", "é"),
    *("日本", "=1+1", "'=1", "-x", "@x", "\u00a0", "\ufeffa", "[1]", '["a"]', "a;b", "a|b", "x" * 40, "a\u2028b"),
]
QUOTED = ['q"q', "a,b", "new\nline", "cr\rcr", "", " ", "\t"]
KNOWN = (
    *("0", "01", "1", "007", "5", "10000000000", "10000000000000000", "0.5"),
    *("a", "é", "true", "a;b", "nan", "=1+1"),
)
NUMBERS = [0, 1, 5, 7, 10**10, 10**16, 0.5, 1e10, 1e16, 5.0, -0.0, 1.5, 2**53, 3.25e-7]

TEXT_SET = Domain((ItemSet("items", KNOWN),))
NUMBER_SET = Domain((ItemSet("items", (0, 1, 5, 7, 10**10, 10**16)),))
TABLE = Domain(
    (
        Categorical("kind", KNOWN, missing=True),
        Categorical("code", (0, 1, 5, 7, 10**10), missing=True),
        Numeric("size", -10, 100, 11, missing=True),
        ItemSet("extras", ("0", "01", "1", "a")),
    )
)
FLAT = Domain(TABLE.fields[:3])
OPEN = Domain(
    (
        Categorical("kind", discover=True),
        Numeric("size", "discover", "discover"),
        Numeric("age", 0, 120, integer=True),
        Date("day", "1950-01-01", "2030-01-01"),
        DateTime("moment", "1950-01-01", "2030-01-01", unit="minute"),
        Boolean("old", missing=True),
        ItemSet("extras", discover=True),
    )
)
# Some dates are modelled as the time since another date, whose column may come before or after.
STAYS = Domain(
    (
        Date("left", "1950-01-01", "2030-01-01", after="came"),
        Date("came", "1950-01-01", "2030-01-01"),
        DateTime("seen", "1950-01-01", "2030-01-01", unit="minute", pattern="%d.%m.%Y %H:%M"),
        DateTime("healed", "1950-01-01", "2030-01-01", unit="minute", after="seen"),
        Date("paid", "1950-01-01", "2030-01-01", missing=False, after="came"),
        Date("billed", "1950-01-01", "2030-01-01", pattern="%Y%m%d"),
    )
)
FOUND = Domain((ItemSet("items", discover=True),))


@dataclass(frozen=True)
class Case:
    """How rows of one format and shape are generated, written and read."""

    name: str
    row: Callable[[random.Random], Any]
    write: Callable[[Path, list[Any]], Any]
    options: dict[str, Any] = field(default_factory=dict)
    ending: str = ""  # empty: an object in memory
    companion: Any = None  # a last row with an item, for cases in which the list of items comes from the file

    def read(self, folder: Path, rows: list[Any]) -> list[frozenset[str]] | str:
        """The labels of every record, or `REFUSED`."""
        path = folder / f"x{self.ending}"
        try:
            made = self.write(path, rows if self.companion is None else [*rows, self.companion])
            records = (
                read_records(path, **self.options) if self.ending else read_frame(made, **self.options).records
            )
        except DpgmError:
            return REFUSED
        read = raw_values(records) if isinstance(records, OpenRecords) else labels_of(records)
        return read if self.companion is None else read[:-1]


def labels_of(records: Records) -> list[frozenset[str]]:
    """The labels of every record of a closed domain."""
    names: list[str] = []
    for one, offset in zip(records.domain.fields, records.domain.offsets, strict=True):
        labels = getattr(one, "items", None) or getattr(one, "values", None) or range(one.width)
        names += [
            f"{one.name}={labels[at]}" if at < len(labels) else f"{one.name} missing" for at in range(one.width)
        ]
        assert len(names) == offset + one.width
    made = [{names[at] for at in record.indices} for record in records.chunks(1)]
    if records.events is not None:
        labels = records.domain.sequence.items
        made = [one | told for one, told in zip(made, in_words(records.events, labels), strict=True)]
    return [*map(frozenset, made)]


def in_words(events: Events, labels: Any) -> list[set[str]]:
    """Every event of every person: the how manyth it is, its item, and its time."""
    whole = [one for at in range(len(events)) for one in [events.rows(at, at + 1)]]
    return [
        {
            f"event {at}: {labels[code]} at {None if one.times is None else one.times[at]}"
            for at, code in enumerate(one.codes.tolist())
        }
        for one in whole
    ]


def raw_values(records: OpenRecords) -> list[frozenset[str]]:
    """The values of every record of an open domain: labels, ticks, positions."""
    found: list[set[str]] = [set() for _ in range(len(records))]
    for one, column in zip(records.domain.fields, records.columns, strict=True):
        if isinstance(column, NumberColumn):
            held = [[tick] for tick in column.ticks.tolist()]
        elif column.events is not None:
            labels = column.vocabulary.labels if column.vocabulary is not None else one.labels
            held = [*map(list, in_words(column.events, labels))]
        else:
            labels = None if column.vocabulary is None else [*column.vocabulary.labels, "missing"]
            codes = column.codes.tolist()
            ends = column.indptr.tolist() if isinstance(column, SetColumn) else list(range(len(records) + 1))
            held = [
                [code if labels is None else labels[code] for code in codes[start:stop]]
                for start, stop in pairwise(ends)
            ]
        for row, values in zip(found, held, strict=True):
            row |= {f"{one.name}={value}" for value in values}
    return [frozenset(row) for row in found]


# -- rows ------------------------------------------------------------------------------------------------------


def some(rng: random.Random, pool: list[Any], most: int) -> list[Any]:
    return [rng.choice(pool) for _ in range(rng.randrange(most + 1))]


def words(rng: random.Random, quotes: bool = True) -> str:
    if rng.random() < 0.6:
        return rng.choice(KNOWN)
    return rng.choice(QUOTED if quotes and rng.random() < 0.3 else WORDS)


def json_value(rng: random.Random) -> Any:
    return rng.choice([rng.choice(WORDS), rng.choice(KNOWN), rng.choice(NUMBERS), None, True, False, 10**25])


def table_row(rng: random.Random) -> dict[str, str]:
    number = rng.choice(
        ["0", "5", "-3", "0.5", "1e1", "", "?", "99999", "007", " 7 ", "1e400" if rng.random() < 0.03 else "8"]
    )
    code = rng.choice(["0", "1", "5", "007", "10000000000", "x", "", "5.0", "-1", "?"])
    items = json.dumps([rng.choice(["a", "01", 1, 0, 0.5, 7, "é", 1e10, None]) for _ in range(rng.randrange(4))])
    return {"kind": words(rng), "code": code, "size": number, "extras": items}


def people(rng: random.Random, item: Callable[[random.Random], Any]) -> list[Any]:
    """The rows of one person in the long shape: at least one."""
    return [item(rng) for _ in range(1 + rng.randrange(3))]


# -- writers ---------------------------------------------------------------------------------------------------


def store(path: Path, data: bytes) -> None:
    path.write_bytes(gzip.compress(data, 1, mtime=0) if path.suffix == ".gz" else data)


def delimited(
    mark: str, header: list[str] | None = None, blank: bool = False, end: str = "\n", encoding: str = "utf-8"
) -> Callable[..., None]:
    def write(path: Path, rows: list[Any]) -> None:
        text = io.StringIO(newline="")
        writer = csv.writer(text, delimiter=mark, lineterminator=end)
        if header is not None:
            writer.writerow(header)
        for row in rows:
            cells = [row[name] for name in header] if header is not None and isinstance(row, dict) else row
            if blank and not cells:
                text.write(end)
            elif cells == [""]:
                text.write('""' + end)
            else:
                writer.writerow(cells)
            if header is not None and blank:
                text.write(end)  # a blank line between rows means nothing
        store(path, text.getvalue().encode(encoding))

    return write


def long_text(mark: str) -> Callable[..., None]:
    """One row per person and item, the rows of a person scattered over the file."""
    inner = delimited(mark, ["who", "note", "what"])

    def write(path: Path, rows: list[Any]) -> None:
        inner(path, [{"who": who, "note": "x, y", "what": what} for who, what in scattered(rows)])

    return write


def scattered(rows: list[Any]) -> Iterator[tuple[Any, Any]]:
    """First one row of every person, in order; then the rest."""
    for who, items in rows:
        yield who, items[0]
    for who, items in rows:
        for item in items[1:]:
            yield who, item


def json_lines(path: Path, rows: list[Any]) -> None:
    store(path, "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows).encode("utf-8"))


def json_array(path: Path, rows: list[Any]) -> None:
    store(path, json.dumps(rows, ensure_ascii=False).encode("utf-8"))


def workbook(domain: Domain) -> Callable[..., None]:
    """One sheet with a header and cells of mixed types."""

    def write(path: Path, rows: list[Any]) -> None:
        from openpyxl import Workbook

        book = Workbook(write_only=True)
        sheet = book.create_sheet("people")
        sheet.append([one.name for one in domain.fields])
        for row in rows:
            sheet.append([row[one.name] for one in domain.fields])
        book.save(path)

    return write


def long_json(path: Path, rows: list[Any]) -> None:
    json_lines(path, [{"who": who, "what": what} for who, what in scattered(rows)])


def parquet(types: dict[str, Any]) -> Callable[..., None]:
    """Columns of given types; None leaves the type to be inferred from the rows, as pandas would."""

    def write(path: Path, rows: list[Any]) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        table = {name: pa.array([row[name] for row in rows], type=kind) for name, kind in types.items()}
        pq.write_table(pa.table(table), path, row_group_size=7)

    return write


def long_parquet(kinds: dict[str, Any]) -> Callable[..., None]:
    inner = parquet(kinds)
    return lambda path, rows: inner(path, [{"who": who, "what": what} for who, what in scattered(rows)])


def pandas_frame(dtype: Any) -> Callable[..., Any]:
    def write(path: Path, rows: list[Any]) -> Any:
        import pandas as pd

        return pd.DataFrame({name: pd.Series([row[name] for row in rows], dtype=dtype) for name in rows[0]})

    return write


def long_frame(dtype: Any) -> Callable[..., Any]:
    """One row per person and item."""

    def write(path: Path, rows: list[Any]) -> Any:
        import pandas as pd

        pairs = list(scattered(rows))
        columns = {"who": [who for who, _ in pairs], "what": [what for _, what in pairs]}
        return pd.DataFrame({name: pd.Series(values, dtype=dtype) for name, values in columns.items()})

    return write


def polars_frame(path: Path, rows: list[Any]) -> Any:
    import polars as pl

    return pl.DataFrame(rows, schema={"kind": pl.String, "code": pl.Float64, "size": pl.Float64})


def arrow_frame(path: Path, rows: list[Any]) -> Any:
    import pyarrow as pa

    return pa.table({name: pa.array([row[name] for row in rows]) for name in rows[0]})


def npz(path: Path, rows: list[Any]) -> None:
    import scipy.sparse

    scipy.sparse.save_npz(path, scipy.sparse.csr_array(np.array(rows)))


def idx(path: Path, rows: list[Any]) -> None:
    store(path, struct.pack(">IIII", 0x803, len(rows), 2, 3) + bytes(pixel for row in rows for pixel in row))


def png(path: Path, rows: list[Any]) -> None:
    from PIL import Image as Pillow

    shutil.rmtree(path, ignore_errors=True)
    path.mkdir()
    for at, row in enumerate(rows):
        Pillow.fromarray(np.array(row, dtype=np.uint8).reshape(2, 3)).save(path / f"{at:03}.png")


def text_lines(path: Path, rows: list[Any]) -> None:
    store(path, "".join(row + "\n" for row in rows).encode())


def below_header(header: str) -> Callable[..., None]:
    return lambda path, rows: text_lines(path, [header, *rows])


# -- cases -----------------------------------------------------------------------------------------------------

_serial = iter(range(10**12))


def person_of(rng: random.Random) -> str:
    """A person that no other row has, in some odd spelling."""
    number = next(_serial)
    return rng.choice([f"{number}", f"0{number}", f"p{number}", f"{number}.5", f" {number}", f"-{number + 1}"])


def fimi_row(rng: random.Random) -> str:
    number = ["0", "1", "5", "7", "007", "10000000000", "9223372036854775807", "3"]
    if rng.random() < 0.04:
        number = ["-1", "x", "9223372036854775808", "0.5", "1,2"]
    return rng.choice([" ", "  "]).join(some(rng, number, 5)) + rng.choice(["", "", " ", "\t"])


def pixels(rng: random.Random) -> list[int]:
    return [rng.choice([0, 1, 127, 128, 255]) for _ in range(6)]


def flat_values(rng: random.Random, kinds: list[Any], codes: list[Any]) -> dict[str, Any]:
    return {"kind": rng.choice(kinds), "code": rng.choice(codes), "size": rng.choice([0.5, 3.0, None, 1e10, -0.0])}


def _basket_cases() -> Iterator[Case]:
    def cells(rng: random.Random) -> list[str]:
        return [words(rng) or "a" for _ in range(rng.randrange(5))]

    def whole(rng: random.Random) -> list[str]:
        pool = ["0", "1", "5", "007", " 7", "10000000000", "12345678901234567890" if rng.random() < 0.02 else "3"]
        return some(rng, pool, 5)

    for ending, mark in ((".csv", ","), (".tsv", "\t"), (".csv.gz", ",")):
        write = delimited(mark, blank=True)
        yield Case(f"basket{ending} texts", cells, write, {"shape": "basket", "domain": TEXT_SET}, ending)
        yield Case(f"basket{ending} numbers", whole, write, {"shape": "basket", "domain": NUMBER_SET}, ending)
        options = {"shape": "basket", "assume_public_items": True, "item_separator": ""}
        yield Case(f"basket{ending} no domain", cells, write, options, ending, companion=["a"])
    write = delimited(",", blank=True, end="\r\n")
    yield Case("basket.csv returns", cells, write, {"shape": "basket", "domain": TEXT_SET}, ".csv")
    write = delimited(",", ["who", "items"], blank=True)
    options = {"shape": "basket", "header": True, "item": "items", "item_separator": ";", "domain": TEXT_SET}

    def joined(rng: random.Random) -> dict[str, str]:
        return {"who": person_of(rng), "items": "; ".join(cells(rng))}

    yield Case("basket.csv split cells", joined, write, options, ".csv")
    yield Case("basket.csv whole cells", joined, write, options | {"item_separator": None}, ".csv")
    yield Case("fimi numbers", fimi_row, text_lines, {"domain": NUMBER_SET}, ".dat")
    yield Case("fimi texts", fimi_row, text_lines, {"domain": TEXT_SET}, ".dat.gz")

    def bare(rng: random.Random) -> list[Any]:
        return [json_value(rng) for _ in range(rng.randrange(4))]

    def plain(rng: random.Random) -> Any:
        items = [rng.choice([*KNOWN, 0, 1, 5, 5.0, 10**10, 1e10, None]) for _ in range(rng.randrange(5))]
        return rng.choice([items, {"items": items}, {"items": items, "note": 0.5}, {"other": items, "n": None}])

    yield Case("jsonl odd lists", bare, json_lines, {"domain": TEXT_SET}, ".jsonl")
    yield Case("jsonl lists", plain, json_lines, {"domain": TEXT_SET}, ".jsonl.gz")
    yield Case(
        "jsonl no domain",
        plain,
        json_lines,
        {"assume_public_items": True, "shape": "basket"},
        ".jsonl",
        companion=["a"],
    )
    yield from _parquet_baskets()


def _parquet_baskets() -> Iterator[Case]:
    import pyarrow as pa

    pools: dict[str, tuple[Any, list[Any]]] = {
        "texts": (pa.list_(pa.string()), [*WORDS, *KNOWN, "", None]),
        "large texts": (pa.large_list(pa.large_string()), [*WORDS, *KNOWN, "", None]),
        "integers": (pa.list_(pa.int64()), [0, 1, 5, 10**16, None]),
        "doubles": (pa.list_(pa.float64()), [0.0, 1.0, 0.5, 1e10, 1e16, 5.0, None]),
        "inferred": (None, [0, 1, 5, 5.0, 0.5, 1e10, 10**10]),
    }
    for name, (kind, pool) in pools.items():

        def row(rng: random.Random, pool: list[Any] = pool) -> dict[str, Any]:
            items = some(rng, pool, 4)
            return {"items": items if items or rng.random() < 0.5 else None}

        def made(rng: random.Random, row: Any = row, name: str = name, pool: list[Any] = pool) -> dict[str, Any]:
            found = row(rng)
            return {"items": found["items"] or [pool[0]]} if name == "inferred" else found

        write = parquet({"items": kind})
        yield Case(f"parquet lists of {name}", made, write, {"domain": TEXT_SET}, ".parquet")


def _long_cases() -> Iterator[Case]:
    import pyarrow as pa

    options = {"person": "who", "item": "what"}

    def texts(rng: random.Random) -> Any:
        return person_of(rng), people(rng, words)

    def numbers(rng: random.Random) -> Any:
        pool = ["0", "1", "5", "007", "", "10000000000", " 7", "x" if rng.random() < 0.05 else "3"]
        return person_of(rng), people(rng, lambda rng: rng.choice(pool))

    for ending, mark in ((".csv", ","), (".tsv", "\t"), (".csv.gz", ";")):
        yield Case(f"long{ending} texts", texts, long_text(mark), options | {"domain": TEXT_SET}, ending)
        yield Case(f"long{ending} numbers", numbers, long_text(mark), options | {"domain": NUMBER_SET}, ending)

    def values(rng: random.Random) -> Any:
        who = rng.choice([person_of(rng), next(_serial), next(_serial) + 0.5])
        odd = rng.random() < 0.03
        pool = [*KNOWN, 0, 1, 5.0, 1e10, None, ["a", 5], []]
        return who, people(rng, json_value if odd else lambda rng: rng.choice(pool))

    yield Case("long jsonl", values, long_json, options | {"domain": TEXT_SET}, ".jsonl")

    def doubles(rng: random.Random) -> Any:
        who = next(_serial)
        return rng.choice([float(who), who + 0.5, 1e10 + who, 1e16 + 2.0 * who]), people(
            rng, lambda rng: rng.choice([0.0, 1.0, 5.0, 1e10, None, 0.5])
        )

    for name, kinds in (
        ("doubles", {"who": pa.float64(), "what": pa.float64()}),
        ("inferred", {"who": None, "what": pa.float64()}),
    ):
        yield Case(f"long parquet {name}", doubles, long_parquet(kinds), options | {"domain": TEXT_SET}, ".parquet")


def _wide_cases() -> Iterator[Case]:
    import pyarrow as pa

    labels = [str(label) for label in KNOWN]

    def bits(rng: random.Random) -> list[str]:
        pool = ["0", "1", " 1", "0 ", "1.0", "true", "False", "0.0", "2" if rng.random() < 0.02 else "0"]
        return [rng.choice(pool) for _ in labels]

    write = delimited(",", labels, blank=True)
    yield Case("wide.csv bits", bits, write, {"shape": "wide", "header": True, "domain": TEXT_SET}, ".csv")
    above = {"shape": "wide", "header": False, "threshold": 0.4, "domain": Domain.of_items(4)}
    yield Case(
        "wide.csv threshold",
        lambda rng: [rng.choice(["0", "0.5", "1e10", "-3", "007"]) for _ in range(4)],
        delimited(","),
        above,
        ".csv",
    )
    yield Case(
        "wide jsonl bits",
        lambda rng: {
            label: rng.choice([0, 1, True, False, "1", 1.0, 0.5 if rng.random() < 0.02 else 0]) for label in labels
        },
        json_lines,
        {"shape": "wide", "domain": TEXT_SET},
        ".jsonl",
    )
    for ending, mark in ((".csv", ","), (".tsv", "\t"), (".csv.gz", "|")):
        write = delimited(mark, [one.name for one in TABLE.fields], blank=mark == ",")
        yield Case(f"table{ending}", table_row, write, {"domain": TABLE, "missing": ["?"]}, ending)

    def row(rng: random.Random) -> dict[str, Any]:
        made = {"kind": json_value(rng), "code": rng.choice([0, 1, 5.0, "007", "x", None, 1e10, 0.5, True])}
        return made | {
            "size": rng.choice([0, 0.5, "5", None, 1e10]),
            "extras": some(rng, ["a", 1, 0.5, "01"], 3) or None,
        }

    def cells(rng: random.Random) -> dict[str, Any]:
        made = {
            "kind": rng.choice([*KNOWN, 1, 0.5, None]),
            "code": rng.choice([0, 1, 5.0, "007", "x", None, 1e10, 0.5]),
        }
        return made | {"size": rng.choice([0, 0.5, "5", None, 1e10])}

    yield Case("table jsonl", row, json_lines, {"domain": TABLE}, ".jsonl")
    yield Case("table json", row, json_array, {"domain": TABLE}, ".json")
    yield Case("table xlsx", cells, workbook(FLAT), {"domain": FLAT, "header": True}, ".xlsx")
    codes = [0, 1, 5, 7, 10**10, None]
    kinds: dict[str, tuple[Any, list[Any]]] = {
        "texts": (pa.string(), [*WORDS, *KNOWN, None]),
        "doubles": (pa.float64(), [0.0, 1e10, 1e16, 0.5, 5.0, None, 0.1]),
        "floats": (pa.float32(), [0.0, 1e10, 0.5, 5.0, None, 0.1]),
        "booleans": (pa.bool_(), [True, False, None]),
        "decimals": (pa.decimal128(20, 2), [Decimal("5.00"), Decimal("0.50"), Decimal("1"), None]),
        "inferred": (None, [0, 1, 5, 0.5, 1e10, 5.0, 7]),
    }
    for name, (kind, pool) in kinds.items():

        def typed(rng: random.Random, pool: list[Any] = pool) -> dict[str, Any]:
            return flat_values(rng, pool, codes)

        write = parquet({"kind": kind, "code": pa.float64(), "size": pa.float64()})
        yield Case(f"table parquet {name}", typed, write, {"domain": FLAT}, ".parquet")
    yield from _frame_cases(codes)
    yield from _matrix_cases()


def _frame_cases(codes: list[Any]) -> Iterator[Case]:
    numbers = [0, 1, 5, 7, 0.5, 5.0, 1e10, None, 10**10]
    mixed = [*numbers, *KNOWN, True, False, math.nan, Decimal("5.0"), "x", np.float64(0.5), np.int64(5)]

    def lists(rng: random.Random) -> dict[str, Any]:
        return {
            "items": rng.choice([some(rng, [0, 1, "01", "a", 5.0, 0.5], 4), np.array([1, 5]), None, '["a", 1]'])
        }

    for name, dtype, pool in (("objects", object, mixed), ("inferred", None, mixed), ("numbers", None, numbers)):

        def row(rng: random.Random, pool: list[Any] = pool) -> dict[str, Any]:
            return flat_values(rng, pool, codes)

        yield Case(f"pandas {name}", row, pandas_frame(dtype), {"domain": FLAT})
    yield Case("pandas lists", lists, pandas_frame(object), {"domain": TEXT_SET})
    yield Case(
        "polars",
        lambda rng: flat_values(rng, [*WORDS, None], [0.0, 1.0, 0.5, 1e10, None]),
        polars_frame,
        {"domain": FLAT},
    )
    yield from _category_cases(codes)
    yield Case(
        "arrow inferred", lambda rng: flat_values(rng, [0, 1, 0.5, 1e10, 5], codes), arrow_frame, {"domain": FLAT}
    )


# Values of many types, of which no two are equal: pandas keeps equal categories (1 and True) as one.
BERLIN, TOKYO = datetime.timezone(datetime.timedelta(hours=1)), zoneinfo.ZoneInfo("Asia/Tokyo")
ODD: tuple[Any, ...] = (
    *(5, np.int8(7), 10**10, 0.5, np.float32(0.1), Decimal("1.50"), Decimal(3), True, np.False_),
    *("a", "01", "é", "nan", b"a;b", np.str_("A"), None, math.nan, Decimal("NaN")),
    *(datetime.date(2020, 1, 31), datetime.datetime(2020, 1, 31, 12, 30, 59, 500), datetime.datetime(1960, 1, 1)),
    *(datetime.datetime(2020, 1, 31, 0, 30, tzinfo=BERLIN), datetime.datetime(2020, 3, 1, 9, tzinfo=TOKYO)),
    *(datetime.time(12, 30), datetime.time(1, 2, 3, 4), np.datetime64("2021-07-05"), np.datetime64("NaT")),
    np.datetime64("2021-07-05T12:00:00.000000001", "ns"),
)
REFUSED_VALUES: tuple[Any, ...] = (
    *(datetime.timedelta(1), np.timedelta64(3, "D"), math.inf, 2 + 1j, b"\xff", ("a",), frozenset("b")),
    *(range(2), object, Decimal("Infinity")),
)
ODD_DOMAIN = Domain((Categorical("kind", discover=True), Categorical("code", (5, 7, 10**10), missing=True)))


def odd_values(rng: random.Random) -> dict[str, Any]:
    """Mostly one type per column, so that one row more or less changes what pandas makes of the column."""
    usual = rng.randrange(len(ODD)) if rng.random() < 0.3 else 0
    kind = rng.choice(REFUSED_VALUES) if rng.random() < 0.02 else ODD[usual]
    return {"kind": kind, "code": rng.choice([5, 7, 5, 7, None, rng.choice(ODD)])}


def _category_cases(codes: list[Any]) -> Iterator[Case]:
    """Columns of categories and of objects of any type, which Arrow would coerce to one type."""
    sets_of_items = [(), ("a", "01"), (5, "a"), (0.5, None), (1, 7), (10**10, 5.0)]
    lists = [*map(frozenset, sets_of_items), '["a", 1]', "[]", None, ""]

    def sets(rng: random.Random) -> dict[str, Any]:
        return {"items": rng.choice([*lists, "x"] if rng.random() < 0.02 else lists)}

    def flat(rng: random.Random) -> dict[str, Any]:
        odd = rng.choice([datetime.date(2020, 1, 31), "x", b"5"]) if rng.random() < 0.03 else 7
        return flat_values(rng, [*KNOWN, *ODD], codes) | {
            "size": rng.choice([0.5, 3, np.float32(7), None, "5", odd])
        }

    def bits(rng: random.Random) -> dict[str, Any]:
        odd = rng.random() < 0.1
        return {label: rng.choice(["1", 0.0, None] if odd else [0, 1]) for label in KNOWN}

    for name, dtype in (("category", "category"), ("odd objects", object), ("odd inferred", None)):
        yield Case(f"pandas {name}", flat, pandas_frame(dtype), {"domain": FLAT})
        yield Case(f"open pandas {name}", odd_values, pandas_frame(dtype), {"domain": ODD_DOMAIN})
    yield Case("pandas category lists", sets, pandas_frame("category"), {"domain": TEXT_SET})
    yield Case("pandas category bits", bits, pandas_frame("category"), {"domain": TEXT_SET})

    def items(rng: random.Random) -> Any:
        usual, who = rng.choice([5, "a", "01", 10**10]), next(_serial)
        return rng.choice([who, who, f"p{who}"]), people(
            rng, lambda rng: rng.choice([usual, usual, rng.choice(ODD)])
        )

    def some_lists(rng: random.Random) -> Any:
        pool = [["a", 5], [], ("01",), {7}, np.array([1, 5]), None, "a", 5, 0.5, [None, "é"]]
        odd = [True, -1, [True], ["a", -0.5], {"a": 1}]
        return next(_serial), people(rng, lambda rng: rng.choice(odd if rng.random() < 0.01 else pool))

    long = {"person": "who", "item": "what", "domain": TEXT_SET}
    yield Case("long pandas category", items, long_frame("category"), long)
    yield Case("long pandas odd objects", items, long_frame(object), long)
    yield Case("long pandas odd inferred", items, long_frame(None), long)
    yield Case("long pandas lists", some_lists, long_frame(None), long)


def _matrix_cases() -> Iterator[Case]:
    def bits(rng: random.Random) -> list[Any]:
        return [rng.choice([0, 1, 1.0, True]) for _ in range(5)]

    def reals(rng: random.Random) -> list[Any]:
        return [rng.choice([0, 1, 0.5, 1e10, -3]) for _ in range(5)]

    def save(path: Path, rows: list[Any]) -> None:
        np.save(path, np.array(rows))

    yield Case("npy bits", bits, save, {}, ".npy")
    yield Case("npy threshold", reals, save, {"threshold": 0.4}, ".npy")
    yield Case("npz", bits, npz, {}, ".npz")
    yield Case("npz threshold", reals, npz, {"threshold": 0.4}, ".npz")
    yield Case("idx", pixels, idx, {}, ".idx")
    yield Case("idx.gz domain", pixels, idx, {"domain": Domain((Image("scan", 2, 3),))}, "-ubyte.gz")
    yield Case("png folder", pixels, png, {}, ".png")
    yield Case("numpy in memory", bits, lambda path, rows: np.array(rows), {})
    yield Case(
        "scipy in memory", reals, lambda path, rows: __import__("scipy.sparse").sparse.csr_array(np.array(rows)), {}
    )


def _written_cases() -> Iterator[Case]:
    """Text as found in the wild: quotes within cells, other encodings, other decimal marks; also with rows on disk."""

    def lines(rng: random.Random) -> str:
        quoted = ['q"q', 'q"', '"a"', '"01","5"', ' "a"', 'a""']
        pool = ["a", "01", "é", *quoted, "\ufeffa", "a;b", "a\rb", "5 ", "0x1"]
        return ",".join(rng.choice(pool) for _ in range(rng.randrange(4)))

    def table_line(rng: random.Random) -> str:
        kinds, sizes = ["a", "01", 'q"q', '"a"', 'a"', " 5", "\ufeffa", ""], ["5", " 0.5", '"7"', "", "1e1", '5"']
        return f"{rng.choice(kinds)},{rng.choice(['5', '007', '?', '5.0'])},{rng.choice(sizes)}"

    basket, table = {"shape": "basket", "domain": TEXT_SET}, {"domain": FLAT, "missing": ["?"]}
    yield Case("basket.csv raw lines", lines, text_lines, basket, ".csv")
    yield Case("basket.csv raw lines on disk", lines, text_lines, basket | {"memory": 100}, ".csv")
    yield Case("table.csv raw lines", table_line, below_header("kind,code,size"), table, ".csv")

    def plain(rng: random.Random) -> list[str]:
        return [rng.choice(["a", "é", "01", "5", "x y", "q,q"]) for _ in range(rng.randrange(4))]

    def indexed_line(rng: random.Random) -> str:
        return f"{rng.choice(['0', '17', '', 'a', '(index)'])},{table_line(rng)}"

    indexed = table | {"domain": Domain((Identifier("(index)"), *FLAT.fields))}
    yield Case("table.csv index without a name", indexed_line, below_header(",kind,code,size"), indexed, ".csv")
    yield Case(
        "table.csv index left out of the header", indexed_line, below_header("kind,code,size"), indexed, ".csv"
    )

    for encoding in ("utf-16", "utf-16-be", "cp1252"):
        write = delimited(",", blank=True, end="\r\n", encoding=encoding)
        yield Case(f"basket.csv {encoding}", plain, write, basket | {"encoding": encoding}, ".csv")

    def marks(rng: random.Random) -> dict[str, str]:
        size = rng.choice(["1.234,5", "7", "-3,25", "1.5", "?", "", "1.000.000", ",5", "12,", "0,000001"])
        return {"kind": words(rng), "code": "5", "size": size}

    write = delimited(";", ["kind", "code", "size"])
    yield Case(
        "table.csv decimal comma",
        marks,
        write,
        table | {"decimal": ",", "thousands": ".", "separator": ";"},
        ".csv",
    )

    def signs(rng: random.Random) -> str:
        return (
            f"a,5,{rng.choice(['€ 7', '-€3', '€ -3', '5 €', '8', '?', '', '€', '7 %', '€ €7', '€7€', '5.0 EUR'])}"
        )

    write = below_header('a "title; above\nkind,code,size')
    yield Case(
        "table.csv title and signs",
        signs,
        write,
        table | {"skip_lines": 1, "strip_from_numbers": ["€", "EUR"]},
        ".csv",
    )


def _optional_cases() -> Iterator[Case]:
    """Options: comments, counts, a column of persons, grey levels."""
    basket, table = {"shape": "basket", "domain": TEXT_SET}, {"domain": FLAT, "missing": ["?"]}

    def lines(rng: random.Random) -> str:
        comments = ["# plain", '#5" nail', '# "q" x', '#a,"b', "#"]
        return rng.choice([*comments, "a,01", "é", '"a\n# x",01', '"a","#b"', '01,"# y"'])

    def table_line(rng: random.Random) -> str:
        comments = ["# plain", '#5" nail', '# "q" x', '#a,"b,1']
        return rng.choice([*comments, "a,5,7", "01,?,1e1", '"a\n# x",5,5', '"q,#",5,8'])

    yield Case("basket.csv comments", lines, text_lines, basket | {"comment": "#"}, ".csv", companion="a")
    head, last = below_header("kind,code,size"), "a,5,7"
    yield Case("table.csv comments", table_line, head, table | {"comment": "#"}, ".csv", companion=last)

    def counted(rng: random.Random) -> Any:
        pool = ["0", "1", "2.5", "-1", "0.0", " 3", "x" if rng.random() < 0.03 else "1"]
        return person_of(rng), people(rng, lambda rng: (rng.choice([*KNOWN, "", "a; 01"]), rng.choice(pool)))

    inner = delimited(",", ["who", "what", "n"])

    def with_counts(path: Path, rows: list[Any]) -> None:
        inner(path, [{"who": who, "what": what, "n": count} for who, (what, count) in scattered(rows)])

    options = {"person": "who", "item": "what", "count": "n", "domain": TEXT_SET}
    yield Case("long.csv counts", counted, with_counts, options, ".csv")
    yield Case("long.csv counts split", counted, with_counts, options | {"item_separator": ";"}, ".csv")
    write = delimited(",", ["who", *(one.name for one in TABLE.fields)])
    options = {"domain": TABLE, "missing": ["?"], "person": "who"}
    yield Case("table.csv persons", lambda rng: table_row(rng) | {"who": person_of(rng)}, write, options, ".csv")

    def grey(rng: random.Random) -> list[list[int]]:
        pool = [0, 1, 42, 43, 127, 128, 255, 256 if rng.random() < 0.02 else 3]
        return [[rng.choice(pool) for _ in range(3)] for _ in range(2)]

    def save(path: Path, rows: list[Any]) -> None:
        np.save(path, np.array(rows))

    yield Case("npy grey", grey, save, {"domain": Domain((Image("scan", 2, 3, 4),))}, ".npy")

    def bits(rng: random.Random) -> dict[str, Any]:
        odd = rng.random() < 0.1
        return {label: rng.choice(["1", 1.0, None] if odd else [0, 1, True, False]) for label in KNOWN}

    yield Case("pandas wide bits", bits, pandas_frame(None), {"domain": TEXT_SET})


def _open_cases() -> Iterator[Case]:
    """Open domains: values, bounds or bins are still to be found."""
    names = [one.name for one in OPEN.fields]

    def texts(rng: random.Random) -> dict[str, str]:
        made = {
            "kind": words(rng),
            "size": rng.choice(
                ["0", "5", "1e10", "-3.5", "", "NA", "007", "1e400" if rng.random() < 0.03 else "8"]
            ),
            "age": rng.choice(["0", "99999", "07", "", "41", "0.5" if rng.random() < 0.03 else "7"]),
            "day": rng.choice(["2020-01-31", "1900-01-01", "NA", "2020-01-31T12:00", "2020-02-30", ""]),
            "moment": rng.choice(["2020-01-31", "2020-01-31 12:30:59.5+02:00", "1960-01-01T00:00:30", "NA"]),
            "old": rng.choice(["1", "0", "true", "No", "", "NA", "maybe" if rng.random() < 0.03 else "yes"]),
            "extras": json.dumps(some(rng, ["a", "01", 1, 0.5, 1e10, None], 3)),
        }
        return {name: made[name] for name in names}

    def values(rng: random.Random) -> dict[str, Any]:
        made = {
            "kind": rng.choice([*KNOWN, *NUMBERS, True, None, 10**25]),
            "size": rng.choice([0, 0.5, "5", None, 1e10, 10**25]),
            "age": rng.choice([0, 41, 99999, "07", None, 41.0]),
            "day": rng.choice(["2020-01-31", "1900-01-01", None]),
            "moment": rng.choice(["2020-01-31 12:30:59", "1960-01-01T00:00:30", None]),
            "old": rng.choice([True, False, 0, 1, "yes", None]),
            "extras": some(rng, ["a", "01", 1, 0.5, 5.0, 1e10, None], 3) or None,
        }
        return {name: made[name] for name in names}

    options = {"domain": OPEN, "missing": ["NA"]}
    yield Case("open table.csv", texts, delimited(",", names), options, ".csv")
    yield Case("open table jsonl", values, json_lines, {"domain": OPEN}, ".jsonl")
    flat = Domain(OPEN.fields[:-1])
    yield Case("open table xlsx", values, workbook(flat), {"domain": flat, "header": True}, ".xlsx")
    # Python's dates and times, from which pandas infers the dtype of a column
    berlin = datetime.timezone(datetime.timedelta(hours=1))
    days = [datetime.date(2020, 1, 31), datetime.date(1900, 1, 1), "2020-01-31", None]
    moments = [datetime.datetime(2020, 1, 31, 12, 30, 59), datetime.datetime(1960, 1, 1, 0, 0, 30, 500), None]
    zoned = [*moments, datetime.datetime(2020, 1, 31, 0, 30, tzinfo=berlin), "2020-01-31 12:30"]

    def objects(rng: random.Random) -> dict[str, Any]:
        return values(rng) | {
            "kind": rng.choice([*KNOWN, *NUMBERS, True, None, *moments, *days]),
            "size": rng.choice([0, 0.5, "5", None, 1e10, True]),
            "day": rng.choice(days),
            "moment": rng.choice(zoned),
        }

    def alike(rng: random.Random) -> dict[str, Any]:
        """Mostly one type per column, so that one row more or less changes the dtype of the column."""
        odd = rng.random() < 0.15
        return objects(rng) | {
            "kind": rng.choice(moments if not odd else ["x", 5, None]),
            "size": rng.choice([True, False, None] if not odd else [0.5]),
            "age": rng.choice([0, 41] if not odd else [None, "07"]),
            "moment": rng.choice(moments if not odd else zoned),
            "old": rng.choice([True, False] if not odd else [None, 1]),
        }

    yield Case("open pandas objects", objects, pandas_frame(object), {"domain": OPEN})
    yield Case("open pandas inferred", objects, pandas_frame(None), {"domain": OPEN})
    yield Case("open pandas alike", alike, pandas_frame(None), {"domain": OPEN})

    def categories(rng: random.Random) -> dict[str, Any]:
        made = alike(rng)
        return made | {"extras": made["extras"] and frozenset(made["extras"]), "kind": made["kind"] or None}

    yield Case("open pandas table of categories", categories, pandas_frame("category"), {"domain": OPEN})

    def cells(rng: random.Random) -> list[str]:
        return [words(rng).strip() or "a" for _ in range(rng.randrange(5))]

    found = {"shape": "basket", "domain": FOUND, "item_separator": ""}
    write = delimited(",", blank=True)
    yield Case("discovered basket.csv", cells, write, found, ".csv", companion=["a"])
    shape = {"discover": True, "shape": "basket"}
    lists = Case("discovered jsonl", lambda rng: cells(rng), json_lines, shape, ".jsonl", companion=["a"])
    yield lists

    def texts_of_persons(rng: random.Random) -> Any:
        return person_of(rng), people(rng, lambda rng: rng.choice([*KNOWN, "", "x y", "1e10"]))

    long = {"person": "who", "item": "what", "discover": True}
    yield Case("discovered long.csv", texts_of_persons, long_text(","), long, ".csv", companion=("last", ["a"]))

    def mixed_persons(rng: random.Random) -> Any:
        who = next(_serial)
        return rng.choice([who, who, who, f"p{who}", who + 0.5]), people(
            rng, lambda rng: rng.choice([0, 1, 5, 5, 10**10, "01", None, 0.5])
        )

    yield Case(
        "long pandas", mixed_persons, long_frame(None), {"person": "who", "item": "what", "domain": TEXT_SET}
    )


def _stay_cases() -> Iterator[Case]:
    """Dates that come after other dates."""
    names = [one.name for one in STAYS.fields]
    days = ["2020-01-31", "1900-01-01", "2020-01-31T12:00", "2020-03-01", "NA", "", "2020-02-30"]
    moments = ["2020-01-31 12:30:59.5+02:00", "1960-01-01T00:00:30", "NA", "2020-01-31"]

    def texts(rng: random.Random) -> dict[str, str]:
        return {
            "left": rng.choice(days),
            "came": rng.choice(days[:-1]),
            "seen": rng.choice(
                ["31.01.2020 12:30", "01.01.1960 00:00", "NA", "", "2020-01-31" if odd(rng) else ""]
            ),
            "healed": rng.choice(moments),
            "paid": rng.choice(days[:4]) if not odd(rng) else "NA",
            "billed": rng.choice(["20200131", "19000101", "", "NA", "2020-01-31" if odd(rng) else "20200301"]),
        }

    def odd(rng: random.Random) -> bool:
        return rng.random() < 0.05

    def unlike(rng: random.Random) -> dict[str, Any]:
        """Python's dates, texts and missing values, mixed."""
        some_days = [datetime.date(2020, 1, 31), datetime.date(1900, 1, 1), "2020-03-01", None]
        some_moments = [datetime.datetime(2020, 1, 31, 12, 30, 59), datetime.datetime(1960, 1, 1, 0, 0, 30, 500)]
        return {
            "left": rng.choice(some_days),
            "came": rng.choice(some_days),
            "seen": rng.choice([*some_moments, None, "31.01.2020 12:30"]),
            "healed": rng.choice([*some_moments, None, "2020-01-31 12:30"]),
            "paid": rng.choice([*some_days[:3], *some_moments] if not odd(rng) else [None]),
            "billed": rng.choice(some_days[:2]),
        }

    def patterned(rng: random.Random) -> dict[str, Any]:
        numbers = [20200131, 20200131, 19000101, 20200301.0, "20200131", None, datetime.date(2020, 1, 31)]
        return unlike(rng) | {"billed": rng.choice(numbers if not odd(rng) else [2020, True, 0.5])}

    def moments_alone(rng: random.Random) -> dict[str, Any]:
        """Mostly times, so that one row more or less changes the dtype of a column."""
        moment = datetime.datetime(2020, 1, rng.randrange(1, 31), rng.randrange(24), rng.randrange(60))
        made = dict.fromkeys(names, moment) | {"left": moment + datetime.timedelta(days=rng.randrange(-3, 9))}
        made |= {"billed": 20200100 + moment.day}
        return made | {name: value for name, value in patterned(rng).items() if odd(rng)}

    def written(rng: random.Random) -> dict[str, Any]:
        return {name: value or None for name, value in texts(rng).items()}

    yield Case("stays.csv", texts, delimited(",", names), {"domain": STAYS, "missing": ["NA"]}, ".csv")
    yield Case("stays jsonl", written, json_lines, {"domain": STAYS, "missing": ["NA"]}, ".jsonl")
    plain = Domain(tuple(replace(one, pattern=None) for one in STAYS.fields))
    yield Case("stays xlsx", unlike, workbook(plain), {"domain": plain, "header": True}, ".xlsx")
    yield Case("stays pandas objects", unlike, pandas_frame(object), {"domain": plain})
    yield Case("stays pandas patterns", patterned, pandas_frame(object), {"domain": STAYS})
    yield Case("stays pandas category", patterned, pandas_frame("category"), {"domain": STAYS})
    yield Case("stays pandas category alike", moments_alone, pandas_frame("category"), {"domain": STAYS})
    yield Case("stays pandas inferred", moments_alone, pandas_frame(None), {"domain": STAYS})


def cases() -> list[Case]:
    """Every format and shape."""
    from event_cases import event_cases

    return [
        *_basket_cases(),
        *_long_cases(),
        *_wide_cases(),
        *_written_cases(),
        *_optional_cases(),
        *_open_cases(),
        *_stay_cases(),
        *event_cases(),
    ]


# -- pairs -----------------------------------------------------------------------------------------------------


def neighbours(rng: random.Random, case: Case, rows: list[Any]) -> Iterator[list[Any]]:
    """The rows with one added, removed or changed, at the beginning, in the middle and at the end, in any order."""
    made = [[*rows, case.row(rng)]]
    for at in (0, len(rows) // 2, len(rows) - 1):
        made.append([*rows[:at], case.row(rng), *rows[at:]])
        made.append([*rows[:at], *rows[at + 1 :]])
        made.append([*rows[:at], case.row(rng), *rows[at + 1 :]])
    rng.shuffle(made)
    yield from made


class Violation(AssertionError):
    """A row was read differently among other rows than alone."""


def check(case: Case, folder: Path, rows: list[Any], alone: list[Any]) -> None:
    """Check that a file reads as its rows read alone, and is refused if and only if one of them is."""
    found = case.read(folder, rows)
    refused = any(one == REFUSED for one in alone)
    if refused or found == REFUSED:
        if refused != (found == REFUSED):
            raise Violation(
                f"{case.name}: {rows!r} {'accepted' if refused else 'refused'} against its rows {alone!r}"
            )
        return
    expected = [record for one in alone for record in one]
    if found != expected:
        raise Violation(f"{case.name}: {rows!r} read as {found!r}, its rows alone as {expected!r}")


def run_case(case: Case, pairs: int, seed: int, folder: Path) -> Counter[str]:
    """At least `pairs` pairs of neighbouring files of one case."""
    rng = random.Random(f"{case.name} {seed}")
    done: Counter[str] = Counter()
    memory: dict[str, Any] = {}

    def reads_alone(row: Any) -> Any:
        if repr(row) not in memory:
            memory[repr(row)] = case.read(folder, [row])
        return memory[repr(row)]

    while done["pairs"] < pairs:
        rows = [case.row(rng) for _ in range(rng.randrange(1, 12))]
        if rng.random() < 0.7:  # mostly files that are accepted
            rows = [row for row in rows if reads_alone(row) != REFUSED] or rows
        for changed in neighbours(rng, case, rows):
            if done["pairs"] >= pairs:
                break
            if changed:
                for file in (rows, changed):
                    check(case, folder, file, [reads_alone(row) for row in file])
                done["pairs"] += 1
                done["refused"] += any(reads_alone(row) == REFUSED for row in changed)
        memory.clear()
    return done


@contextmanager
def small_blocks(size: int) -> Iterator[None]:
    """Read in blocks of `size` bytes and chunks of one to three rows, so that a case crosses many block boundaries."""
    settings = (
        (dpgm.data.formats.lines, "BLOCK_BYTES", size),
        (dpgm.data.formats.parquet, "_BATCH", 3),
        (dpgm.data.formats.json_lines, "_ROWS", 1),
        (dpgm.data.formats.excel, "_ROWS", 2),
        (dpgm.data.read.frames, "_CHUNK", 3),
    )
    with ExitStack() as stack:
        for module, name, value in settings:
            stack.enter_context(mock.patch.object(module, name, value))
        yield


def run(
    pairs: int,
    seed: int,
    only: str = "",
    echo: Callable[[str], None] = lambda line: None,
    total: Counter[str] | None = None,
) -> Counter[str]:
    """Check `pairs` pairs over all cases, half of them with small blocks; `total` counts those done so far."""
    chosen = [case for case in cases() if only in case.name]
    each = -(-pairs // (2 * len(chosen)))
    total = Counter() if total is None else total
    with tempfile.TemporaryDirectory() as name:
        for case in chosen:
            done = run_case(case, each, seed, Path(name))
            with small_blocks(16):
                done += run_case(case, each, seed + 16, Path(name))
            echo(f"{case.name:32} {done['pairs']:6} pairs, {done['refused']:6} with a row that is refused")
            total.update(done)
    return total


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="", help="cases whose name holds this")
    parser.add_argument("--out", type=Path, help="write the figures to this file as well")
    chosen = parser.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    total: Counter[str] = Counter()
    violation = ""
    try:
        run(chosen.pairs, chosen.seed, chosen.only, print, total)
    except Violation as found:
        violation = str(found)
    if chosen.out is not None:
        figures = {
            "pairs": total["pairs"],
            "with_a_refused_row": total["refused"],
            "cases": sum(chosen.only in case.name for case in cases()),
            "seed": chosen.seed,
            "violations": int(bool(violation)),  # it stops at the first
        }
        chosen.out.parent.mkdir(parents=True, exist_ok=True)
        chosen.out.write_text(json.dumps(figures, indent=1) + "\n", "utf-8")
    if violation:
        sys.exit(f"violation: {violation}")
    print(f"{total['pairs']:,} pairs over {len(cases())} cases: 0 where one row changed another")


if __name__ == "__main__":
    main()
