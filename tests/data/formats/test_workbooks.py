"""Workbooks of several sheets with titles above the table, nested Parquet columns, and times with a time zone."""

import datetime

import numpy as np
import pyarrow as pa
import pyarrow.compute
import pytest

import dpgm
from dpgm.data.inspection import inspect_file
from dpgm.errors import InputError

openpyxl = pytest.importorskip("openpyxl")


@pytest.fixture
def book(tmp_path):
    """Two sheets; the second has a title, a blank row and a table in which one column has no name."""
    made = openpyxl.Workbook()
    made.active.title = "notes"
    made.active.append(["read me"])
    sheet = made.create_sheet("Umsätze 2024")
    sheet.append(["Bericht 2024"])
    sheet.merge_cells("A1:D1")
    sheet.append([])
    sheet.append(["Nr", "Filiale", None, "Umsatz €", "Datum"])
    for at in range(80):
        day = datetime.datetime(2024, 1, 1) + datetime.timedelta(days=at % 70)
        sheet.append([at + 1, ["Wien", "Graz"][at % 2], None, at % 13 + 0.25, day])
    made.save(tmp_path / "book.xlsx")
    return tmp_path / "book.xlsx"


def test_a_sheet_is_chosen_by_its_name(book):
    """Workbooks with a second sheet were always refused."""
    with pytest.raises(InputError, match=r"2 sheets \(notes, Umsätze 2024\); choose one with `member`"):
        inspect_file(book)
    with pytest.raises(InputError, match="no such sheet; it holds notes"):
        inspect_file(book, member="Umsatz")
    seen = inspect_file(book, member="Umsätze 2024", skip_lines=2)
    assert seen.records == 80
    assert [(field.name, field.kind) for field in seen.domain.fields] == [
        ("Filiale", "categorical"),
        ("Umsatz €", "numeric"),
        ("Datum", "date"),  # midnight on every day is no time of day
    ]
    records = dpgm.read_records(book, domain=seen.domain, member="Umsätze 2024", skip_lines=2)
    assert len(records) == 80


def test_a_title_above_a_sheet_is_named_with_the_rows_to_leave_out(book):
    """The message was that row 3 has 5 cells where 1 is expected."""
    with pytest.raises(InputError, match=r"row 1 looks like a title .* in row 3; .* `skip_lines=2`"):
        inspect_file(book, member="Umsätze 2024")


def test_nested_columns_are_named_among_those_left_out(tmp_path):
    import pyarrow.parquet as pq

    table = pa.table({"age": np.arange(60) % 40, "home": [{"city": "x"}] * 60})
    pq.write_table(table, tmp_path / "t.parquet")
    ((name, reason),) = inspect_file(tmp_path / "t.parquet").left_out
    assert name == "home"
    assert "it is nested" in reason
    assert "flatten it to include it, for example with pandas.json_normalize" in reason


def test_moments_with_a_zone_are_compared_by_what_a_clock_shows_there():
    """Readers take the local time, but the evaluation took UTC: 15 % of the times were at the wrong hour."""
    clock = np.datetime64("2024-06-01T08:00:00") + np.arange(300) * 60
    zoned = pa.compute.assume_timezone(pa.array(clock), "Europe/Vienna")
    made = dpgm.evaluate(pa.table({"seen": zoned}), pa.table({"seen": pa.array(clock)}))
    assert made.columns[0].distance == 0
