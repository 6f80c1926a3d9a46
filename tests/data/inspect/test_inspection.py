"""`inspect`: what it prints for the curator, and the domain that it drafts."""

import json

import pytest

from data_strategies import random_records
from dpgm.cli.app import run
from dpgm.data.domain import Categorical, Numeric
from dpgm.data.domain_file import load_domain
from dpgm.data.inspection import inspect_file
from dpgm.errors import InputError, UsageError


@pytest.fixture(autouse=True)
def commands():
    import dpgm.cli.data  # noqa: F401


def test_a_table_gets_a_draft_that_reads_it_and_holds_no_value(tmp_path, capsys):
    rows = "".join(f"{at % 60 + 18},{'yes' if at % 3 else 'no'},{at / 7:.3f},{at % 4},\n" for at in range(200))
    (tmp_path / "t.csv").write_text(
        "age,member,score,group,note\n" + rows.replace(",\n", ",?\n", 5).replace(",\n", ",ok\n")
    )
    draft = tmp_path / "d.yaml"
    assert run(["inspect", str(tmp_path / "t.csv"), "--missing", "?", "--draft-domain", str(draft)]) == 0
    out, err = capsys.readouterr()
    assert "records    200" in out
    assert "curator only" in out
    assert "[ ] note: categories, always the same" in out
    assert "confirm the checklist" in err
    domain = load_domain(draft)
    assert domain.origin == "judged"
    assert domain.field("age") == Numeric("age", "discover", "discover", integer=True)
    assert domain.field("member") == Categorical("member", discover=True)
    assert domain.field("score") == Numeric("score", "discover", "discover", decimals=3)
    for value in ("yes", "ok", "77", "18"):
        assert value not in draft.read_text().split("fields:")[1]
    assert inspect_file(tmp_path / "t.csv", domain=domain, missing=["?"]).records == 200


HOSPITAL = """patient_id,number,admitted,seen,born,age,insured,ward,bill,notes,nothing,country,weight,tags
"""


def hospital(count=60):
    rows = []
    for at in range(count):
        day, month = at % 28 + 1, at % 12 + 1
        notes = f'"patient felt unwell on day {at * 7919}, was seen"'
        rows.append(
            f"P{at:05},{at + 100},2020-{month:02}-{day:02},2021-{month:02}-{day:02} 12:{at % 60:02},{day:02}.{month:02}.1970,"
            f"{at % 9 + 40 if at % 7 else ''},{['true', 'false', ''][at % 3]},{'AB'[at % 2]},{at * 1.25:.2f},{notes},,NL,{at}e-3,x"
        )
    return HOSPITAL + "\n".join(rows) + "\n"


def test_every_column_of_an_untouched_table_is_recognised(tmp_path, capsys):
    path = tmp_path / "h.csv"
    path.write_text(hospital())
    found = inspect_file(path)
    kinds = {column.name: column.kind for column in found.domain.columns}
    assert kinds == {
        "patient_id": "identifier",
        "number": "identifier",
        "admitted": "date",
        "seen": "datetime",
        "born": "date",
        "age": "numeric",
        "insured": "boolean",
        "ward": "categorical",
        "bill": "numeric",
        "notes": "ignored",
        "nothing": "ignored",
        "country": "categorical",
        "weight": "numeric",
        "tags": "categorical",
    }
    assert found.domain.field("bill").decimals == 2
    assert (
        found.domain.field("weight").decimals is None
    )  # written with exponents, so the number of decimals is unknown
    assert found.domain.field("born").pattern == "%d.%m.%Y"
    assert found.domain.field("insured").missing
    reasons = dict(found.left_out)
    assert "identifier" in reasons["patient_id"]
    assert "free text" in reasons["notes"]
    assert reasons["nothing"] == "no row has a value in it"
    assert len(found.confirm) == len(found.domain.fields)
    printed = "\n".join(found.lines())
    for name in kinds:
        assert name in printed
    assert "P00001" not in printed


def test_the_curator_knows_better(tmp_path, capsys):
    path = tmp_path / "h.csv"
    path.write_text(hospital())
    draft = tmp_path / "d.yaml"
    corrections = [
        "--drop",
        "country",
        "--kind",
        "number=integer",
        "--kind",
        "ward=ignored",
        "--draft-domain",
        str(draft),
    ]
    assert run(["inspect", str(path), *corrections]) == 0
    assert "country: as you said" in capsys.readouterr().out
    domain = load_domain(draft)
    assert domain.field("number").integer
    assert {column.name for _, column in domain.unread} >= {"country", "ward", "patient_id"}
    assert run(["inspect", str(path), "--kind", "ward"]) == 2
    assert "COLUMN=KIND" in capsys.readouterr().err
    assert run(["inspect", str(path), "--kind", "ward=colour"]) == 2
    assert run(["inspect", str(path), "--drop", "nobody"]) == 2
    assert "there is no column 'nobody'" in capsys.readouterr().err


def test_parquet_columns_of_every_type_are_drafted(tmp_path):
    import datetime

    import pyarrow as pa
    import pyarrow.parquet as pq

    count = 30
    table = pa.table(
        {
            "flag": pa.array([True, None] * 15),
            "day": pa.array([datetime.date(2020, 1, 1)] * count),
            "moment": pa.array([datetime.datetime(2020, 1, 1, 12)] * count),
            "money": pa.array([1.25, 2.5] * 15),
            "count": pa.array([1, 2, 3] * 10),
            "blob": pa.array([b"x"] * count),
        }
    )
    pq.write_table(table, tmp_path / "t.parquet")
    domain = inspect_file(tmp_path / "t.parquet").domain
    assert {column.name: column.kind for column in domain.columns} == {
        "flag": "boolean",
        "day": "date",
        "moment": "datetime",
        "money": "numeric",
        "count": "numeric",
        "blob": "ignored",
    }


def test_baskets_show_their_lengths(tmp_path, capsys):
    records = random_records(50, 20, 3)
    records.write(tmp_path / "b.dat")
    assert run(["inspect", str(tmp_path / "b.dat"), "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed["records"] == 50
    assert printed["longest"] == records.lengths.max()
    assert printed["mean_length"] == pytest.approx(records.lengths.mean())
    assert "curator only" in printed["note"]
    assert printed["domain_is_draft"] is True


def test_a_table_of_identifiers_alone_is_refused_in_one_sentence(tmp_path):
    (tmp_path / "t.csv").write_text("id,x\n" + "".join(f"name{at},\n" for at in range(2000)))
    with pytest.raises(UsageError, match="no column is left to model"):
        inspect_file(tmp_path / "t.csv")


def test_identifiers_are_known_in_files_of_more_rows_than_values_are_kept(tmp_path, monkeypatch):
    monkeypatch.setattr("dpgm.data.inspect.seen._MOST_VALUES", 500)
    rows = 3000
    numbers = [(at * 7919) % rows for at in range(rows)]
    lines = [f"{at},{numbers[at]},k{numbers[at]:05d},{at % 3},person{at % 700:03d}" for at in range(rows)]
    monkeypatch.setattr("dpgm.data.formats.lines.BLOCK_BYTES", 2000)
    (tmp_path / "t.csv").write_text("row,nr,key,group,who\n" + "\n".join(lines))
    left_out = dict(inspect_file(tmp_path / "t.csv").left_out)
    assert set(left_out) == {"row", "nr", "key"}


def test_a_table_with_a_few_damaged_rows_is_no_file_of_baskets(tmp_path):
    lines = [f"{at},{at % 5},a text" for at in range(100)]
    lines[60] = "60,1,a text\rthat goes on"
    (tmp_path / "t.csv").write_bytes("\n".join(["id,group,note", *lines]).encode())
    with pytest.raises(InputError, match="line 63"):
        inspect_file(tmp_path / "t.csv")
