"""Samples look like the file they stand for: its shape, its column names, its places after the point."""

import json

import numpy as np
import pandas as pd
import polars as pl
import pyarrow.parquet as pq
import pytest

import dpgm
from dpgm.cli.app import run
from dpgm.data.domain import Boolean, ItemSet
from dpgm.data.domain_file import domain_from_plain
from dpgm.data.layouts import Layout
from dpgm.errors import UsageError

GOODS = ("tea", "milk, skimmed", "rye bread", "=1+1")
SHOPPERS = 120


def baskets():
    draws = np.random.default_rng(3)
    return [[item for item in GOODS if draws.random() < 0.5] or ["tea"] for _ in range(SHOPPERS)]


def long_frame():
    rows = [(f"u{at:03d}", item) for at, basket in enumerate(baskets()) for item in basket]
    return pd.DataFrame(rows, columns=["user_id", "sku"])


def sampled(folder, fitted, name, *more):
    release, out = folder / "release", folder / name
    known = ("--epsilon", "5", "--model", "independent", "--quiet", "--out", str(release), "--force")
    assert run(["fit", *map(str, fitted), *known]) == 0
    assert run(["sample", str(release), "--records", "50", "--out", str(out), "--quiet", *more]) == 0
    return out


@pytest.mark.parametrize("ending", ["csv", "parquet", "jsonl"])
def test_a_long_file_gives_long_samples_with_its_column_names(tmp_path, ending):
    data = tmp_path / "bought.csv"
    long_frame().to_csv(data, index=False)
    options = ("--person", "user_id", "--item", "sku", "--assume-public-items")
    out = sampled(tmp_path, (data, *options), f"synthetic.{ending}")
    read = {"csv": pd.read_csv, "parquet": pd.read_parquet, "jsonl": lambda path: pd.read_json(path, lines=True)}
    frame = read[ending](out)
    assert list(frame.columns) == ["user_id", "sku"]
    assert frame.user_id.nunique() == 50
    back = dpgm.read_records(out, person="user_id", item="sku", assume_public_items=True)
    assert len(back) == 50
    assert run(["evaluate", str(data), str(out), "--person", "user_id", "--item", "sku", "--quiet"]) == 0
    assert (
        run(["evaluate", str(data), str(out), *options[:4], "--release", str(tmp_path / "release"), "--quiet"]) == 0
    )


def test_a_wide_file_gives_wide_samples(tmp_path):
    frame = pd.DataFrame(
        {item: [int(item in basket) for basket in baskets()] for item in ("tea", "rye bread", "ale")}
    )
    frame.to_csv(tmp_path / "wide.csv", index=False)
    out = sampled(
        tmp_path, (tmp_path / "wide.csv", "--shape", "wide", "--header", "--assume-public-items"), "out.csv"
    )
    drawn = pd.read_csv(out)
    assert list(drawn.columns) == list(frame.columns)
    assert set(np.unique(drawn.to_numpy())) <= {0, 1}


def test_lines_of_items_give_lines_of_items(tmp_path):
    data = tmp_path / "lines.csv"
    data.write_text("".join(",".join(basket) + "\n" for basket in [["a", "b"], ["c"], ["a"]] * 40))
    out = sampled(tmp_path, (data, "--shape", "basket", "--assume-public-items"), "out.csv")
    back = dpgm.read_records(out, shape="basket", assume_public_items=True)
    assert len(back) == 50
    assert set(back.domain.fields[0].items) <= {"a", "b", "c"}


def test_baskets_as_csv_can_be_read_by_pandas_and_by_us(tmp_path):
    data = tmp_path / "baskets.jsonl"
    data.write_text("".join(json.dumps({"bought": basket}) + "\n" for basket in baskets()))
    out = sampled(tmp_path, (data, "--item", "bought", "--assume-public-items"), "out.csv")
    frame = pd.read_csv(out)
    assert list(frame.columns) == ["bought"]
    assert {item for cell in frame.bought for item in json.loads(cell)} <= set(GOODS)
    assert len(dpgm.read_records(out, item="bought", shape="basket", header=True, assume_public_items=True)) == 50
    assert run(["evaluate", str(data), str(out), "--item", "bought", "--quiet"]) == 0
    assert run(["evaluate", str(data), str(out), "--quiet"]) == 0
    drawn = sampled(tmp_path, (data, "--item", "bought", "--assume-public-items"), "out.parquet")
    assert pq.read_table(drawn).column_names == ["bought"]


def test_a_requested_shape_overrides_the_remembered_one(tmp_path):
    data = tmp_path / "bought.csv"
    long_frame().to_csv(data, index=False)
    fitted = (data, "--person", "user_id", "--item", "sku", "--assume-public-items")
    frame = pd.read_csv(sampled(tmp_path, fitted, "out.csv", "--shape", "basket"))
    assert list(frame.columns) == ["sku"]
    assert len(frame) == 50


def test_money_keeps_its_places_in_text(tmp_path):
    draws = np.random.default_rng(5)
    data = tmp_path / "bills.csv"
    data.write_text("bill\n" + "".join(f"{amount / 2:.2f}\n" for amount in draws.integers(2, 9, 200)))
    draft = tmp_path / "draft.yaml"
    assert run(["inspect", str(data), "--draft-domain", str(draft)]) == 0
    out = sampled(tmp_path, (data, "--domain", draft), "out.csv")
    lines = out.read_text().split()[1:]
    assert len(lines) == 50
    assert all(
        line.partition(".")[2].isdigit() and len(line.partition(".")[2]) == 2 for line in lines if line != '""'
    )


def test_long_frames_come_back_long():
    frame = long_frame()
    fitted = dpgm.Synthesizer(epsilon=5.0, model="independent").fit(
        frame, person="user_id", item="sku", discover=True
    )
    drawn = fitted.sample(30, seed=1)
    assert list(drawn.to_pandas().columns) == ["user_id", "sku"]
    assert drawn.to_pandas().user_id.nunique() == 30
    assert drawn.to_polars().columns == ["user_id", "sku"]
    other = pl.from_pandas(frame)
    assert dpgm.Synthesizer(epsilon=5.0, model="independent").fit(
        other, person="user_id", item="sku", discover=True
    ).sample(3).to_polars().columns == ["user_id", "sku"]


def test_a_layout_is_part_of_a_domain_of_one_item_set_only():
    domain = dpgm.Domain.of_items(3)
    assert domain == dpgm.Domain((ItemSet("items", (0, 1, 2)),), layout=Layout("long", "who", "what"))
    with pytest.raises(UsageError, match="one item set"):
        dpgm.Domain((Boolean("insured"),), layout=Layout("long", "who", "what"))
    for wrong in (
        {"shape": "tall"},
        {"shape": "long", "person": 3},
        {"person": "x"},
        {"shape": "wide", "colour": 1},
        5,
    ):
        with pytest.raises(UsageError):
            domain_from_plain({"fields": [{"name": "a", "kind": "items", "items": [1]}], "layout": wrong})


@pytest.mark.parametrize("name", ["s.csv", "s.tsv", "s.jsonl", "s.parquet", "s.npz"])
@pytest.mark.parametrize("source", ["long.csv", "lines.csv", "lists.parquet"])
def test_a_sample_writes_the_file_in_python_that_the_command_writes(tmp_path, source, name):
    path = tmp_path / source
    options = {"long.csv": ["--person", "user_id", "--item", "sku"], "lines.csv": ["--shape", "basket"]}
    if source == "long.csv":
        long_frame().to_csv(path, index=False)
    elif source == "lines.csv":
        path.write_text("\n".join("tea,rye bread" if at % 2 else "tea" for at in range(SHOPPERS)) + "\n")
    else:
        pd.DataFrame({"goods": baskets()}).to_parquet(path)
    stated = [str(path), *options.get(source, ["--item", "goods"]), "--assume-public-items"]
    by_command = sampled(tmp_path, stated, name, "--seed", "1")
    made = dpgm.load(tmp_path / "release").sample(50, seed=1)
    made.write(tmp_path / f"python-{name}")
    assert (tmp_path / f"python-{name}").read_bytes() == by_command.read_bytes()


def test_a_sample_of_items_without_a_layout_is_a_column_of_lists(tmp_path):
    records = dpgm.as_records(np.eye(3, dtype=np.uint8).repeat(40, axis=0))
    fitted = dpgm.Synthesizer(epsilon=5.0, model="independent").fit(records)
    fitted.sample(50, seed=1).write(tmp_path / "x.csv")
    frame = pd.read_csv(tmp_path / "x.csv")
    assert list(frame.columns) == ["items"]
    assert [json.loads(cell) for cell in frame["items"]] == fitted.sample(50, seed=1).to_pandas()["items"].map(
        list
    ).tolist()
