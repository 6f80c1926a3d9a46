"""Files as people have them: encodings, decimal commas, JSON arrays, Excel, columns of booleans and times."""

import datetime
import gzip
import json
import random

import pytest

from dpgm.data.domain import Boolean, Categorical, DateTime, Domain, ItemSet, Numeric
from dpgm.data.read.options import ReadOptions
from dpgm.data.read.readers import read_records
from dpgm.errors import InputError, ResourceError, UsageError

TABLE = Domain((Categorical("colour", ("rouge", "crème")), Numeric("size", 0, 2000, 20)))
ITEMS = Domain((ItemSet("items", ("a", "é")),))


def lists(records):
    return [sorted(one.indices.tolist()) for one in records.chunks(1)]


@pytest.fixture
def plain(tmp_path):
    path = tmp_path / "plain.csv"
    path.write_text("colour,size\nrouge,1234.5\ncrème,7\n", encoding="utf-8")
    return read_records(path, domain=TABLE)


@pytest.mark.parametrize("encoding", ["cp1252", "Latin-1", "utf-16", "utf-16-le", "iso-8859-15", "mac-roman"])
def test_other_encodings_read_as_utf8_does(tmp_path, plain, encoding):
    path = tmp_path / "x.csv.gz"
    path.write_bytes(gzip.compress("colour,size\nrouge,1234.5\ncrème,7\n".encode(encoding)))
    assert lists(read_records(path, domain=TABLE, encoding=encoding)) == lists(plain)


def test_an_encoding_that_shifts_or_is_not_known_is_refused():
    for name in ("utf-7", "iso-2022-jp", "rot13", "klingon", "hz"):
        with pytest.raises(UsageError, match="encoding"):
            ReadOptions(encoding=name)


def test_text_of_another_encoding_than_stated_is_refused(tmp_path):
    path = tmp_path / "x.csv"
    path.write_bytes(b"colour,size\nrouge,1\ncr\x81me,7\n")
    with pytest.raises(InputError, match=r"line 3.*cp1252") as refused:
        read_records(path, domain=TABLE, encoding="cp1252")
    assert "me" not in str(refused.value).split("line 3")[1].split(":")[0]


@pytest.mark.parametrize(
    ("cells", "options"),
    [
        ("1234,5;7", {"decimal": ","}),
        ("1.234,5;7,0", {"decimal": ",", "thousands": "."}),
        ("1 234,5;+7", {"decimal": ",", "thousands": " "}),
        ("1\u00a0234,5;7", {"decimal": ",", "thousands": " "}),
        ("1,234.5;7", {"thousands": ","}),
        ("1'234.5;7", {"thousands": "'"}),
    ],
)
def test_decimal_commas_and_thousands(tmp_path, plain, cells, options):
    path = tmp_path / "x.csv"
    first, second = cells.split(";")
    path.write_text(f"colour;size\nrouge;{first}\ncrème;{second}\n", encoding="utf-8")
    assert lists(read_records(path, domain=TABLE, **options)) == lists(plain)


@pytest.mark.parametrize("cell", ["1.5", "1.23", "12.34,5", "1,2,3", "1..000"])
def test_numbers_with_other_marks_are_refused_and_not_guessed(tmp_path, cell):
    path = tmp_path / "x.csv"
    path.write_text(f"colour;size\nrouge;1\nrouge;{cell}\n")
    with pytest.raises(InputError, match=r"line 3, column 'size'.*`decimal`"):
        read_records(path, domain=TABLE, decimal=",", thousands=".")


def test_missing_numbers_stay_missing_beside_marks(tmp_path):
    domain = Domain((Numeric("size", 0, 10, 10, missing=True),))
    path = tmp_path / "x.csv"
    path.write_text('size\n1,5\n-\n""\n')
    assert lists(read_records(path, domain=domain, decimal=",", missing=["-"], separator=";")) == [[1], [10], [10]]


def test_marks_that_cannot_tell_numbers_are_refused():
    for marks in ({"decimal": "x"}, {"decimal": ",", "thousands": ","}, {"thousands": "1"}, {"thousands": "''"}):
        with pytest.raises(UsageError):
            ReadOptions(**marks)


@pytest.mark.parametrize("ending", [".json", ".json.gz"])
def test_json_arrays_read_as_json_lines_do(tmp_path, ending):
    rows = [["a"], {"items": ["é", "a"]}, {"items": []}]
    path = tmp_path / f"x{ending}"
    data = json.dumps(rows, indent=1).encode()
    path.write_bytes(gzip.compress(data) if ending.endswith("gz") else data)
    lines = tmp_path / "x.jsonl"
    lines.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert lists(read_records(path, domain=ITEMS)) == lists(read_records(lines, domain=ITEMS)) == [[0], [0, 1], []]


def test_json_arrays_of_objects_are_tables(tmp_path, plain):
    path = tmp_path / "x.json"
    path.write_text(json.dumps([{"colour": "rouge", "size": 1234.5}, {"colour": "crème", "size": "7"}]))
    assert lists(read_records(path, domain=TABLE)) == lists(plain)


@pytest.mark.parametrize(
    "text", ["", "{}", "[", "[]", "[[]", "[[],]", "[[] []]", "[1]", "[[]] x", "[[NaN]]", "[" * 10_000, '["a"]']
)
def test_what_is_no_array_of_records_is_refused(tmp_path, text):
    path = tmp_path / "x.json"
    path.write_text(text)
    with pytest.raises(InputError) as refused:
        read_records(path, domain=ITEMS)
    assert str(refused.value).endswith(".")


def workbook(path, rows, sheets=1):
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    for row in rows:
        book.active.append(row)
    for _ in range(sheets - 1):
        book.create_sheet()
    book.save(path)


def test_excel_reads_as_text_does(tmp_path, plain):
    path = tmp_path / "x.xlsx"
    workbook(path, [["id", "colour", "size"], [1, "rouge", 1234.5], [], [2, "crème", 7]])
    assert lists(read_records(path, domain=TABLE)) == lists(plain)


def test_excel_dates_truths_and_long_rows(tmp_path):
    domain = Domain((Boolean("ok"), Numeric("size", 0, 10, 10, missing=True)))
    path = tmp_path / "x.xlsx"
    workbook(path, [["ok", "size"], [True, 3], [False, None]])
    assert lists(read_records(path, domain=domain)) == [[1, 5], [0, 12]]
    workbook(path, [["ok", "size"], [True, 3, 4]])
    with pytest.raises(InputError, match="row 2"):
        read_records(path, domain=domain)


def test_excel_formulas_are_not_evaluated(tmp_path):
    path = tmp_path / "x.xlsx"
    workbook(path, [["colour", "size"], ["rouge", "=1+1"]])
    with pytest.raises(InputError, match=r"row 2, column 'size'.*missing"):  # no value was saved with it
        read_records(path, domain=TABLE)


def test_a_first_record_with_a_gap_at_its_end_hides_no_column_of_a_workbook(tmp_path):
    domain, path = Domain((Boolean("ok"), Numeric("size", 0, 10, 10, missing=True))), tmp_path / "x.xlsx"
    for rows in ([[True, 3], [False, None]], [[False, None], [True, 3]]):
        workbook(path, rows)
        assert sorted(lists(read_records(path, domain=domain, header=False))) == [[0, 12], [1, 5]]


def test_no_warning_repeats_a_cell_of_a_workbook(tmp_path, recwarn):
    openpyxl = pytest.importorskip("openpyxl")
    path = tmp_path / "x.xlsx"
    workbook(path, [["colour", "size"], ["rouge", 1], [datetime.date(2020, 1, 31), 2]])
    book = openpyxl.load_workbook(path)
    book.active["A3"] = 98765432101  # as a date out of range; openpyxl warns and quotes the number
    book.active["A3"].number_format = "yyyy-mm-dd"
    book.save(path)
    with pytest.raises(InputError, match="row 3"):
        read_records(path, domain=TABLE)
    assert not [one for one in recwarn if "98765432101" in str(one.message)]


def test_excel_of_two_sheets_unstated_headers_and_damage_are_refused(tmp_path):
    path = tmp_path / "x.xlsx"
    workbook(path, [["colour", "size"], ["rouge", 1]], sheets=2)
    with pytest.raises(InputError, match="2 sheets"):
        read_records(path, domain=TABLE)
    workbook(path, [["a", "é"], [1, 0]])
    with pytest.raises(UsageError, match="`header=False`"):
        read_records(path, domain=ITEMS, shape="wide")
    assert lists(read_records(path, domain=ITEMS, shape="wide", header=True)) == [[0]]
    data = path.read_bytes()
    for cut in (data[: len(data) // 2], data[:-30]):
        path.write_bytes(cut)
        with pytest.raises(InputError):
            read_records(path, domain=ITEMS, shape="wide", header=True)


def test_damaged_workbooks_are_read_or_refused_in_a_sentence(tmp_path):
    path = tmp_path / "x.xlsx"
    workbook(path, [["a", "é"], [1, 0]])
    data, rng, refused = path.read_bytes(), random.Random(0), 0
    for _ in range(150):
        changed = bytearray(data)
        for _ in range(3):
            changed[rng.randrange(len(changed))] = rng.randrange(256)
        path.write_bytes(changed)
        try:
            read_records(path, domain=ITEMS, shape="wide", header=True)
        except (InputError, ResourceError):
            refused += 1
    assert refused > 50


def test_an_excel_bomb_is_refused(tmp_path):
    import zipfile

    pytest.importorskip("openpyxl")
    path = tmp_path / "x.xlsx"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("xl/worksheets/sheet1.xml", b" " * (65 << 20))
    with pytest.raises(ResourceError):
        read_records(path, domain=TABLE)


def test_parquet_columns_of_truth_values_and_moments(tmp_path):
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    domain = Domain(
        (Boolean("ok", missing=True), Categorical("flag", ("true", "false")), Categorical("day", ("2020-01-31",)))
    )
    path = tmp_path / "x.parquet"
    pq.write_table(
        pa.table(
            {
                "ok": [True, None],
                "flag": [False, True],
                "day": [datetime.date(2020, 1, 31)] * 2,
                "at": pa.array([datetime.datetime(2020, 1, 1)] * 2, pa.timestamp("ns", "UTC")),
            }
        ),
        path,
    )
    assert lists(read_records(path, domain=domain)) == [[1, 4, 5], [2, 3, 5]]
    moments = Domain((DateTime("at", "2020-01-01", "2021-01-01"),))
    assert len(read_records(path, domain=moments)) == 2


def test_a_wrong_column_lists_the_columns(tmp_path):
    path = tmp_path / "x.csv"
    path.write_text("colour,width\nrouge,1\n")
    with pytest.raises(InputError, match="the columns are 'colour', 'width'"):
        read_records(path, domain=TABLE, header=True)
    with pytest.raises(InputError) as refused:  # the line may be a record
        read_records(path, domain=TABLE)
    assert "width" not in str(refused.value)


def test_cheap_checks_come_before_the_file_is_read(tmp_path, capsys):
    from dpgm.cli.app import load_commands, run

    load_commands()
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "x").write_text("x")
    absent, free = str(tmp_path / "absent.parquet"), str(tmp_path / "free")
    for wrong, word in (
        (["--epsilon", "-1", "--out", free], "epsilon"),
        (["--epsilon", "1", "--delta", "2", "--out", free], "delta"),
        (["--epsilon", "1", "--model", "magic", "--out", free], "model"),
        (["--epsilon", "1", "--out", str(tmp_path / "taken")], "taken"),
    ):
        assert run(["fit", absent, "--assume-public-items", *wrong]) == 2
        message = capsys.readouterr().err
        assert word in message
        assert "no such file" not in message


def test_formats_that_are_only_read_are_not_written(tmp_path):
    from dpgm.data.writers import RecordWriter

    with pytest.raises(UsageError, match="can only be read"), RecordWriter(tmp_path / "x.json", ITEMS):
        pass
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("ending", [".json", ".xlsx"])
def test_inspect_drafts_arrays_and_workbooks(tmp_path, ending):
    from dpgm.data.inspection import inspect_file

    path = tmp_path / f"x{ending}"
    if ending == ".json":
        path.write_text(json.dumps([{"age": 30 + row % 20, "town": "ab"[row % 2]} for row in range(50)]))
    else:
        workbook(path, [["age", "town"], *([30 + row % 20, "ab"[row % 2]] for row in range(50))])
    assert {field.name for field in inspect_file(path).domain.fields} == {"age", "town"}


@pytest.mark.parametrize("ending", [".jsonl", ".json", ".xlsx"])
def test_number_marks_are_refused_where_numbers_have_their_own(tmp_path, ending):
    """The number 1.234 was converted to text and then read as 1234."""
    path = tmp_path / f"x{ending}"
    if ending == ".xlsx":
        from openpyxl import Workbook

        book = Workbook()
        book.active.append(["x"])
        book.active.append([1.234])
        book.save(path)
    else:
        path.write_text('{"x": 1.234}\n' if ending == ".jsonl" else '[{"x": 1.234}]')
    domain = Domain((Numeric("x", 0, 2000, 2000),))
    assert read_records(path, domain=domain).indices.tolist() == [1]
    with pytest.raises(UsageError, match="would become 1234"):
        read_records(path, domain=domain, decimal=",", thousands=".")
