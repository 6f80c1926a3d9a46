"""Samples are written as the source was: items with their separator, yes/no columns as yes/no, workbooks."""

import re

import numpy as np
import openpyxl
import pandas as pd
import pytest

import dpgm
from dpgm.cli.app import load_commands, run
from dpgm.data.domain import Boolean, Domain, ItemSet
from dpgm.data.domain_file import domain_from_plain, domain_to_plain
from dpgm.data.inspection import inspect_file
from dpgm.data.read.readers import read_records
from dpgm.data.records import Records
from dpgm.data.writers import write_records
from dpgm.errors import UsageError

load_commands()
ITEMS = ("bread", "jam", "milk")


def table(count=400):
    rng = np.random.default_rng(0)
    sets = [";".join(item for item in ITEMS if rng.random() < 0.5) for _ in range(count)]
    return pd.DataFrame(
        {"bought": sets, "member": rng.choice(["Ja", "Nein"], count), "age": rng.integers(0, 90, count)}
    )


FIELDS = [
    {"name": "bought", "kind": "items", "items": list(ITEMS)},
    {"name": "member", "kind": "boolean", "written": "Ja/Nein"},
    {"name": "age", "kind": "numeric", "low": 0, "high": 90, "bins": 9, "integer": True},
]


def fitted(tmp_path, ending="csv", fields=FIELDS, **keywords):
    path = tmp_path / f"source.{ending}"
    table().to_csv(path, index=False) if ending == "csv" else table().to_excel(path, index=False)
    made = dpgm.Synthesizer(8.0, model="independent", domain={"fields": fields}).fit(path, **keywords)
    made.save(tmp_path / "release")
    assert dpgm.verify(tmp_path / "release").ok
    return path


def sampled(tmp_path, ending):
    out = tmp_path / f"synthetic.{ending}"
    assert run(["sample", str(tmp_path / "release"), "--out", str(out), "--seed", "1", "--quiet"]) == 0
    return out


def is_alike(frame):
    assert set(frame["member"]) == {"Ja", "Nein"}
    cells = set(frame["bought"].dropna()) - {""}
    assert any(";" in cell for cell in cells)
    assert {item for cell in cells for item in cell.split(";")} == set(ITEMS)


@pytest.mark.parametrize("ending", ["csv", "tsv", "xlsx"])
def test_cells_of_items_and_truth_words_come_back_as_they_were(tmp_path, ending):
    source = fitted(tmp_path, item_separator=";")
    out = sampled(tmp_path, ending)
    read = {"csv": pd.read_csv, "tsv": lambda path: pd.read_csv(path, sep="\t"), "xlsx": pd.read_excel}[ending]
    is_alike(read(out))
    made = dpgm.evaluate(source, out, domain=tmp_path / "release" / "domain.json")
    assert made.data.synthetic_records == 400
    assert made.data.width > 3


def test_what_the_domain_states_needs_no_option(tmp_path):
    fitted(tmp_path, fields=[FIELDS[0] | {"separator": ";"}, *FIELDS[1:]])
    is_alike(pd.read_csv(sampled(tmp_path, "csv")))


def test_what_nobody_stated_is_never_taken_from_the_rows(tmp_path):
    """Yes and no are read as always, and written as true and false; lists of a JSON source stay lists."""
    table().assign(member="Yes", bought='["jam"]').to_csv(tmp_path / "s.csv", index=False)
    domain = {"fields": [FIELDS[0], {"name": "member", "kind": "boolean"}]}
    records = read_records(tmp_path / "s.csv", domain=domain)
    records.write(tmp_path / "out.csv")
    assert (tmp_path / "out.csv").read_text().splitlines()[1] == '"[""jam""]",true'


def test_baskets_come_back_with_their_separator(tmp_path):
    table()[["bought"]].to_csv(tmp_path / "b.csv", index=False)
    for stated in ({"assume_public_items": True}, {"discover": True}):
        made = dpgm.Synthesizer(8.0, model="independent").fit(
            tmp_path / "b.csv", shape="basket", item="bought", item_separator=";", **stated
        )
        made.sample(300, seed=0).write(tmp_path / "out.csv")
        lines = (tmp_path / "out.csv").read_text().splitlines()
        assert lines[0] == "bought"
        assert {item.strip('"') for line in lines[1:] for item in line.strip('"').split(";")} == {*ITEMS, ""}
        again = read_records(
            tmp_path / "out.csv", shape="basket", item="bought", item_separator=";", domain=made.domain_
        )
        assert again == made.sample(300, seed=0)


def test_items_that_hold_the_separator_stay_json_lists(tmp_path):
    domain = Domain((ItemSet("x", ("a;b", "c"), separator=";"), Boolean("y")))
    write_records(Records.from_lists([[0, 1, 2]], domain), tmp_path / "t.csv")
    assert (tmp_path / "t.csv").read_text() == 'x,y\n"[""a;b"", ""c""]",false\n'


def test_a_draft_states_the_words_for_the_curator_to_confirm(tmp_path):
    table().assign(upper="TRUE", plain="true").to_csv(tmp_path / "s.csv", index=False)
    found = inspect_file(tmp_path / "s.csv", draft_domain=tmp_path / "d.yaml", kinds={"member": "boolean"})
    assert {one.name: one.written for one in found.domain.fields if isinstance(one, Boolean)} == {
        "member": "Ja/Nein",
        "upper": "TRUE/FALSE",
        "plain": None,
    }
    assert read_records(tmp_path / "s.csv", domain=tmp_path / "d.yaml").domain.is_open
    assert domain_from_plain(domain_to_plain(found.domain)) == found.domain


@pytest.mark.parametrize(
    "broken",
    [
        {"name": "a", "kind": "boolean", "written": "yes"},
        {"name": "a", "kind": "boolean", "written": "yes/YES"},
        {"name": "a", "kind": "boolean", "written": True},
        {"name": "a", "kind": "items", "items": ["x"], "separator": ""},
        {"name": "a", "kind": "items", "items": ["x"], "separator": 5},
    ],
)
def test_spellings_that_mean_nothing_are_refused(broken):
    with pytest.raises(UsageError, match=r"written must be|separator must be"):
        domain_from_plain({"fields": [broken]})


def test_a_workbook_holds_values_and_no_formulas(tmp_path):
    domain = domain_from_plain(
        {
            "fields": [
                {"name": "=sum", "kind": "categorical", "values": ["=1+1", "@x", "plain"], "missing": True},
                {"name": "n", "kind": "numeric", "low": 0, "high": 9, "bins": 1, "integer": True},
                {"name": "yes", "kind": "boolean"},
            ]
        }
    )
    records = Records.from_lists([[0, 4, 5], [1, 4, 6], [2, 4, 5], [3, 4, 5]], domain)
    records.write(tmp_path / "t.xlsx")
    rows = list(openpyxl.load_workbook(tmp_path / "t.xlsx").active.iter_rows())
    assert [cell.value for cell in rows[0]] == ["'=sum", "n", "yes"]
    assert [row[0].value for row in rows[1:]] == ["'=1+1", "'@x", "plain", None]
    assert all(cell.data_type != "f" for row in rows for cell in row)
    assert isinstance(rows[1][1].value, int)
    assert rows[2][2].value is True
    again = read_records(tmp_path / "t.xlsx", domain=domain)
    assert again == records


@pytest.mark.parametrize("shape", ["basket", "long", "wide"])
def test_item_sets_are_written_to_workbooks_in_every_shape(tmp_path, shape):
    domain = Domain((ItemSet("items", ITEMS),))
    records = Records.from_lists([[0, 2], [], [1]], domain)
    write_records(records, tmp_path / "t.xlsx", shape=shape)
    named = {"long": {"person": "person", "item": "item"}, "basket": {"shape": "basket", "header": True}}
    assert (
        read_records(tmp_path / "t.xlsx", domain=domain, **named.get(shape, {"shape": "wide", "header": True}))
        == records
    )


def test_a_sheet_that_is_full_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("dpgm.data.formats.excel._SHEET_ROWS", 3)
    records = Records.from_lists([[0], [1], [2]], Domain.of_items(3))
    with pytest.raises(UsageError, match=r"room for 2 rows of data; write \.csv"):
        records.write(tmp_path / "t.xlsx")
    assert not list(tmp_path.iterdir())


def test_dates_are_dates_in_a_workbook_unless_their_pattern_is_stated(tmp_path):
    days = pd.date_range("2020-01-01", periods=300).strftime("%d.%m.%Y")
    pd.DataFrame({"day": days, "iso": days.str.replace(r"(..)\.(..)\.(....)", r"\3-\2-\1", regex=True)}).to_csv(
        tmp_path / "s.csv", index=False
    )
    limits = {"kind": "date", "low": "2020-01-01", "high": "2020-12-31"}
    fields = [{"name": "day", "pattern": "%d.%m.%Y"} | limits, {"name": "iso"} | limits]
    made = dpgm.Synthesizer(8.0, model="independent", domain={"fields": fields}).fit(tmp_path / "s.csv")
    made.sample(5, seed=0).write(tmp_path / "t.xlsx")
    first, second = list(openpyxl.load_workbook(tmp_path / "t.xlsx").active.iter_rows())[1]
    assert second.is_date
    assert re.fullmatch(r"[0-3][0-9]\.[01][0-9]\.2020", first.value)
