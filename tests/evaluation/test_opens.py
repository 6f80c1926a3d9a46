"""`evaluate` opens the real file twice at most: its first rows to guess what nobody stated, and all rows."""

import sys
from pathlib import Path

import numpy as np
import pytest

import dpgm
from dpgm.data.domain import Categorical, Domain, Image, ItemSet, Numeric
from dpgm.data.layouts import Layout
from dpgm.data.read.options import ReadOptions
from dpgm.evaluation.file_inputs import file_inputs

ITEMS = Domain((ItemSet("goods", ("tea", "milk", "rye", "oil")),))
LONG = Domain(ITEMS.fields, layout=Layout("long", "person", "goods"))
TABLE = Domain((Categorical("ward", ("n", "s")), Numeric("age", 0, 100, 8, integer=True)))
OPEN = Domain((Categorical("ward", discover=True), Numeric("age", "discover", "discover")))
IMAGES = Domain((Image("image", 5, 5),))
LABELLED = Domain((Image("image", 5, 5), Categorical("label", (0, 1))), label="label")
CASES = {
    "lines of items": ("x.csv", ITEMS, "basket", {}),
    "lines of items, a domain": ("x.csv", ITEMS, "basket", {"domain": ITEMS}),
    "lines of items, a domain with items to be found": (
        "x.csv",
        ITEMS,
        "basket",
        {"domain": Domain((ItemSet("goods", discover=True),))},
    ),
    "fimi": ("x.dat", Domain.of_items(4), "basket", {}),
    "long csv": ("x.csv", LONG, "long", {"person": "person", "item": "goods"}),
    "long csv, the layout of a release": ("x.csv", LONG, "long", {"domain": LONG}),
    "long parquet": ("x.parquet", LONG, "long", {"domain": LONG}),
    "0/1 columns": ("x.csv", ITEMS, "wide", {}),
    "lists in parquet": ("x.parquet", ITEMS, "basket", {"domain": ITEMS}),
    "table csv": ("x.csv", TABLE, None, {}),
    "table csv, a domain": ("x.csv", TABLE, None, {"domain": TABLE}),
    "table csv, an open domain": ("x.csv", TABLE, None, {"domain": OPEN}),
    "table parquet": ("x.parquet", TABLE, None, {"domain": TABLE}),
    "table parquet without a domain": ("x.parquet", TABLE, None, {}),
    "table xlsx": ("x.xlsx", TABLE, None, {"domain": TABLE}),
    "table xlsx without a domain": ("x.xlsx", TABLE, None, {}),
    "table jsonl": ("x.jsonl", TABLE, None, {"domain": TABLE}),
    "table jsonl without a domain": ("x.jsonl", TABLE, None, {}),
    "lists in jsonl": ("x.jsonl", ITEMS, "basket", {}),
    "compressed": ("x.csv.gz", TABLE, None, {"domain": TABLE}),
    "matrix npz": ("x.npz", ITEMS, "wide", {"domain": ITEMS}),
    "matrix npy": ("x.npy", ITEMS, "wide", {"domain": ITEMS}),
    "images idx": ("x.idx", IMAGES, "wide", {}),
    "labelled images npz": ("x.npz", LABELLED, None, {"domain": LABELLED}),
}


@pytest.fixture(scope="module")
def opened():
    sys.path.insert(0, str(Path(__file__).parents[2] / "tools"))
    try:
        from walk import opened
    finally:
        sys.path.pop(0)
    return opened


def some_records(domain: Domain) -> dpgm.Records:
    rng = np.random.default_rng(3)
    rows = []
    for _ in range(60):
        row: list[int] = []
        for block in domain.blocks:
            chosen = [rng.integers(block.width)] if block.softmax else np.flatnonzero(rng.random(block.width) < 0.5)
            row += [block.start + int(at) for at in chosen]
        rows.append(row)
    return dpgm.Records.from_lists(rows, domain)


@pytest.mark.parametrize("case", CASES)
def test_a_real_file_is_opened_twice_at_most(case, tmp_path, opened):
    name, domain, shape, options = CASES[case]
    records = some_records(domain)
    with dpgm.RecordWriter(tmp_path / name, domain, shape=shape, layout=domain.layout) as writer:
        writer.write(records)
    made = tmp_path / f"made-{name}"
    with dpgm.RecordWriter(made, domain, shape=shape, layout=domain.layout) as writer:
        writer.write(records)
    with opened() as times:
        inputs = file_inputs(tmp_path / name, made, ReadOptions(**options))
    assert len(inputs.real) == len(records)
    assert 1 <= times[name] <= 2
