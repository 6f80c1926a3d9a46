"""Files as offices and shops export them: titles above the header, currency signs, odd headers, padded codes."""

import numpy as np
import pytest

from dpgm.data.domain import Categorical, Domain, Identifier, Ignored, ItemSet, Numeric
from dpgm.data.formats.headers import distinct_names
from dpgm.data.inspection import inspect_file
from dpgm.data.read.frames import read_frame
from dpgm.data.read.readers import read_records
from dpgm.errors import InputError, UsageError
from reading_data import write_file

AGES = Domain((Numeric("age", 0, 101, bins=101), Categorical("sex", ("f", "m"))))
ROWS = [(31, "f"), (45, "m"), (62, "m")]


def ages(records):
    """The age and the sex of every record."""
    return [(row.indices[0], "fm"[row.indices[1] - 101]) for row in records.chunks(1)]


TITLES = {
    "a line": 'Clinic "St. J; export of today\n',
    "two lines and a blank one": "Clinic\nprinted, today\n\n",
    "a byte order mark": "\ufeffClinic\n",
    "Windows": "Clinic\r\n",
    "old Mac": "Clinic\r",
}


@pytest.mark.parametrize("title", TITLES)
def test_lines_above_the_header_are_skipped(tmp_path, title):
    end = "\r" if title == "old Mac" else "\n"
    table = "".join(f"{line}{end}" for line in ["age,sex", *(f"{age},{sex}" for age, sex in ROWS)])
    file = write_file(tmp_path / "export.csv", TITLES[title] + table)
    count = 3 if "two" in title else 1
    assert ages(read_records(file, domain=AGES, skip_lines=count)) == ROWS


def test_lines_are_left_out_after_the_encoding_is_undone_and_keep_their_numbers(tmp_path):
    file = write_file(tmp_path / "export.csv", "Klinik für alle\nage,sex\n31,f\n45,x\n", "utf-16")
    with pytest.raises(InputError, match="line 4"):
        read_records(file, domain=AGES, skip_lines=1, encoding="utf-16")


def test_baskets_and_sheets_have_lines_left_out_too(tmp_path):
    from openpyxl import Workbook

    baskets = write_file(tmp_path / "b.csv", "shop of today\nbread,milk\nmilk\n")
    assert len(read_records(baskets, shape="basket", assume_public_items=True, skip_lines=1)) == 2
    book = Workbook()
    for row in [("Clinic",), ("age", "sex"), *ROWS]:
        book.active.append(row)
    book.save(tmp_path / "e.xlsx")
    assert ages(read_records(tmp_path / "e.xlsx", domain=AGES, skip_lines=1)) == ROWS


def test_leaving_out_more_lines_than_there_are_is_refused(tmp_path):
    file = write_file(tmp_path / "export.csv", "age,sex\n31,f\n")
    with pytest.raises(InputError, match="ends at line 3"):
        read_records(file, domain=AGES, skip_lines=9)
    np.save(tmp_path / "m.npy", np.eye(3))
    with pytest.raises(UsageError, match="`skip_lines` is for text files"):
        read_records(tmp_path / "m.npy", skip_lines=1)


def test_inspect_says_how_many_lines_stand_above_a_table(tmp_path):
    table = "".join(f"{number};{number * 3};x\n" for number in range(9))
    file = write_file(tmp_path / "export.csv", f"Clinic, a list\n\nprinted today\na;b;c\n{table}")
    with pytest.raises(InputError, match="line 4; leave out what is above them with `skip_lines=3`"):
        inspect_file(file)
    assert inspect_file(file, skip_lines=3).records == 9


def test_signs_beside_numbers_are_left_out_and_anything_else_is_refused(tmp_path):
    domain = Domain((Numeric("price", -100, 2000, bins=2100), Categorical("shop", ("a", "€"))))
    cells = ["€ 12", "-€ 3", "€ -3", "7 €", "1.250 €", "8", "EUR 9"]
    file = write_file(tmp_path / "p.csv", "price;shop\n" + "".join(f"{cell};€\n" for cell in cells))
    read = read_records(
        file, domain=domain, decimal=",", thousands=".", strip_from_numbers=["€", "EUR"], separator=";"
    )
    assert [row.indices[0] - 100 for row in read.chunks(1)] == [12, -3, -3, 7, 1250, 8, 9]
    write_file(file, "price;shop\n€ 12;a\n$ 5;a\n")
    with pytest.raises(InputError, match=r"line 3, column 'price'.*`strip_from_numbers`"):
        read_records(file, domain=domain, strip_from_numbers=["€"])


@pytest.mark.parametrize("signs", [["1"], [""], ["-"], [" "], "€", ["x" * 21]])
def test_what_is_no_sign_is_refused(signs):
    with pytest.raises(UsageError, match="strip_from_numbers"):
        read_records("nowhere.csv", strip_from_numbers=signs)


def test_inspect_says_which_signs_to_leave_out_and_then_which_marks(tmp_path):
    file = write_file(tmp_path / "p.csv", "price,share\n" + '"€ 1,200.50",3%\n"€ 3.00",4.5%\n' * 10)
    hints = dict(inspect_file(file).hints)
    assert "--strip-from-numbers '€'" in hints["price"]
    assert "--strip-from-numbers '%'" in hints["share"]
    hints = dict(inspect_file(file, strip_from_numbers=["€", "%"]).hints)
    assert hints == {"price": "numbers with commas between thousands: read them with --thousands ,"}


def test_columns_of_a_table_without_a_name_or_with_that_of_another_are_numbered(tmp_path):
    file = write_file(tmp_path / "s.csv", "age,q,q,\n" + "31,a,b,\n" * 30)
    drafted = inspect_file(file, header=True)
    assert tuple(one.name for one in drafted.domain.columns) == ("age", "q", "q (2)", "column 4")
    both = Domain((Categorical("q", ("a", "z")), Categorical("q (2)", ("y", "b")), Ignored("column 4")))
    read = read_records(file, domain=both)
    assert read.rows(0, 1).indices.tolist() == [0, 3]


def test_items_of_one_name_are_refused_as_before(tmp_path):
    file = write_file(tmp_path / "w.csv", "a,b,a\n0,1,0\n")
    with pytest.raises(InputError, match="columns 1 and 3 have the same name"):
        read_records(file, shape="wide", header=True)


def test_whole_numbers_with_leading_zeros_are_codes(tmp_path):
    rows = [f"{at * 7 % 100:04d},{('01067', '04103', '10115')[at % 3]},{at % 12},{at}" for at in range(60)]
    file = write_file(tmp_path / "c.csv", "card,postcode,month,rooms\n" + "\n".join(rows) + "\n")
    drafted = inspect_file(file)
    kinds = {field.name: field for field in drafted.domain.fields}
    assert isinstance(kinds["postcode"], Categorical)
    assert isinstance(kinds["month"], Numeric)
    assert dict(drafted.domain.unread)[0] == Identifier("card")
    again = inspect_file(file, kinds={"postcode": "integer"})
    assert isinstance({field.name: field for field in again.domain.fields}["postcode"], Numeric)


def test_padded_numbers_prompt_a_question_about_persons(tmp_path):
    rows = [f"{at // 4:08d},{at % 3}" for at in range(200)]
    file = write_file(tmp_path / "c.csv", "card,stop\n" + "\n".join(rows) + "\n")
    assert "--person 'card'" in dict(inspect_file(file).hints)["card"]


def test_a_record_of_a_table_with_several_rows_per_person_is_a_row(tmp_path):
    rows = [f"p{at // 4},{at % 3}" for at in range(200)]
    file = write_file(tmp_path / "c.csv", "card,stop\n" + "\n".join(rows) + "\n")
    line = inspect_file(file, person="card", rows_per_person=2).lines()[1]
    assert "a record is a row, of which a person keeps 2 at most" in line


def test_names_are_numbered_in_linear_time():
    """A line of a million commas took hours."""
    empty = distinct_names([""] * 300_000)
    assert empty[-1] == "column 300000"
    repeated = distinct_names(["a"] * 300_000)
    assert repeated[-1] == "a (300000)"
    taken = distinct_names([*(f"column {at}" for at in range(1, 150_001)), *[""] * 150_000])
    assert len(set(taken)) == 300_000


def test_titles_above_a_table_with_decimal_commas_are_counted_by_the_mark_of_the_header(tmp_path):
    """Decimal commas in the amounts below the header were taken for separators: the header was one line too low."""
    rows = "".join(f"0{1 + at % 9}.03.2024;{at},50 €;EUR;{at},75 €\n" for at in range(30))
    (tmp_path / "bank.csv").write_text("Statement of the bank;;;\n;;;\nday;amount;currency;balance\n" + rows)
    with pytest.raises(InputError, match="in line 3; leave out what is above them with `skip_lines=2`"):
        inspect_file(tmp_path / "bank.csv")


def test_numbers_that_need_options_are_no_identifiers(tmp_path):
    """Amounts that all differ were drafted as identifiers, so that samples had random keys instead."""
    rows = "".join(f"({at}.25);{at},50 €;0:{at % 60:02}:{at % 59:02};K{at:05}x\n" for at in range(1, 60))
    (tmp_path / "odd.csv").write_text("profit;amount;lasted;key\n" + rows)
    seen = inspect_file(tmp_path / "odd.csv", kinds={"key": "categorical"})
    kinds = {column.name: column.kind for column in seen.domain.columns}
    assert kinds == {"profit": "ignored", "amount": "ignored", "lasted": "ignored", "key": "categorical"}
    assert [name for name, _ in seen.hints] == ["profit", "amount", "lasted"]
    seen = inspect_file(tmp_path / "odd.csv", decimal=",", strip_from_numbers=["€"])
    assert {one.name: one.kind for one in seen.domain.columns}["key"] == "identifier"


# -- a first column without a name, as pandas and R write their row numbers ------------------------------------------

UNNAMED = {
    "pandas to_csv": ",age,sex\n0,31,f\n1,45,m\n2,62,m\n",
    "R write.csv": '"","age","sex"\n"1",31,"f"\n"2",45,"m"\n"3",62,"m"\n',
    "R write.table": '"age","sex"\n"1",31,"f"\n"2",45,"m"\n"3",62,"m"\n',
    "R write.csv2": '"";"age";"sex"\n"1";31;"f"\n"2";45;"m"\n"3";62;"m"\n',
    "R write.table with spaces": '"age" "sex"\n"1" 31 "f"\n"2" 45 "m"\n"3" 62 "m"\n',
    "row names": ",age,sex\nMazda RX4,31,f\nFiat 128,45,m\nVolvo 142E,62,m\n",
}
INDEXED = Domain((Identifier("(index)"), *AGES.fields))


@pytest.mark.parametrize("written", UNNAMED)
def test_a_first_column_without_a_name_is_the_index(tmp_path, written):
    """Every such file was refused, with the advice to skip its header."""
    file = write_file(tmp_path / "t.csv", UNNAMED[written])
    seen = inspect_file(file, draft_domain=tmp_path / "d.yaml")
    assert [(column.name, column.kind) for column in seen.domain.columns] == [
        ("(index)", "identifier"),
        ("age", "numeric"),
        ("sex", "categorical"),
    ]
    assert (seen.records, seen.source.shape, seen.left_out[0][0]) == (3, "wide", "(index)")
    assert ages(read_records(file, domain=INDEXED)) == ROWS
    assert len(read_records(file, domain=tmp_path / "d.yaml")) == 3


def test_an_index_is_left_out_unless_the_curator_says_otherwise(tmp_path):
    rows = "".join(f"{'ab'[at % 2]},{30 + at % 7}\n" for at in range(40))
    seen = inspect_file(write_file(tmp_path / "t.csv", ",age\n" + rows))
    assert [field.name for field in seen.domain.fields] == ["age"]
    seen = inspect_file(tmp_path / "t.csv", kinds={"(index)": "categorical"})
    assert seen.domain.field("(index)").kind == "categorical"


@pytest.mark.parametrize("first", ["0,31,f", ",31,f", '"(index)",31,f', "31,f"])
def test_the_header_and_the_domain_alone_say_that_there_is_an_index(tmp_path, first):
    """Whatever the first row holds, the columns have the same names."""
    whole = first.count(",") == 2
    named = write_file(tmp_path / "named.csv", f",age,sex\n{first}\n1,45,m\n")
    short = write_file(tmp_path / "short.csv", f"age,sex\n{first}\n1,45,m\n")
    for file in (named, short):
        if whole:
            assert ages(read_records(file, domain=INDEXED)) == ROWS[:2]
        else:
            with pytest.raises(InputError, match=r"line 2: has 2 cells where 3 are expected.*\(index\) out of the"):
                read_records(file, domain=INDEXED)
    with pytest.raises(InputError, match=r"line \d: has 3 cells where 2 are expected.*name that column \(index\)"):
        read_records(short, domain=AGES)


def test_columns_of_zeros_and_ones_beside_an_index_are_items(tmp_path):
    rows = "".join(f"{at},{at % 2},{at // 3 % 2}\n" for at in range(30))
    for header in (",bread,milk", "bread,milk"):
        file = write_file(tmp_path / "t.csv", f"{header}\n{rows}")
        seen = inspect_file(file)
        if header[0] == ",":
            assert seen.domain.item_set.items == ("bread", "milk")
            read = read_records(file, shape="wide", assume_public_items=True)
            assert (read.lengths == [at % 2 + at // 3 % 2 for at in range(30)]).all()
        else:
            assert [field.name for field in seen.domain.fields] == ["bread", "milk"]


def test_sheets_may_have_an_index_without_a_name(tmp_path):
    from openpyxl import Workbook

    for names in (("age", "sex"), ("age",)):
        book = Workbook()
        for row in [(None, *names), *((at, *one[: len(names)]) for at, one in enumerate(ROWS))]:
            book.active.append(row)
        book.save(tmp_path / "t.xlsx")
        seen = inspect_file(tmp_path / "t.xlsx", draft_domain=tmp_path / "d.yaml", force=True)
        assert [column.name for column in seen.domain.columns] == ["(index)", *names]
        assert len(read_records(tmp_path / "t.xlsx", domain=tmp_path / "d.yaml")) == 3


def test_an_index_that_pandas_has_named_is_left_out(tmp_path):
    import pandas

    table = pandas.DataFrame({"Unnamed: 0": range(30), "age": [30, 40] * 15})
    with pytest.warns(UserWarning, match="'Unnamed: 0': an identifier"):
        domain = read_frame(table, discover=True).records.domain
    assert [field.name for field in domain.fields] == ["age"]
    assert [field.name for field in Domain.draft(table.sample(frac=1, random_state=0)).fields] == ["age"]


def test_a_first_line_of_another_width_than_the_table_is_no_basket(tmp_path):
    """scikit-learn's files begin with numbers of rows and columns: they were drafted as item sets."""
    rows = "".join(f"{at},{at % 7},{at / 4},1\n" for at in range(30))
    for first in ("30,4,yes", "30,4"):  # the first as wide as a header that does not name the index
        file = write_file(tmp_path / "t.csv", f"\n{first}\n{rows}")
        cells = first.count(",") + 1
        advice = rf"line 2 has {cells} cells and every other row 4; .*`skip_lines=2`.*`header=False`"
        with pytest.raises(InputError, match=advice):
            inspect_file(file)
    assert inspect_file(file, skip_lines=2, header=False).records == 30
    assert inspect_file(file, shape="basket").records == 32  # a blank line is an empty basket


def test_texts_with_spaces_are_one_column(tmp_path):
    names = "".join(f"{first} {last}\n" for first in ("Ann", "Bob", "Cy") for last in ("Lee", "Fox", "Day", "May"))
    assert len(inspect_file(write_file(tmp_path / "t.csv", "full name\n" + names * 3)).domain.columns) == 1


def test_columns_that_are_left_out_count_in_a_file_without_a_header(tmp_path):
    """The draft of a file without a header could not be used if it left a column out."""
    from openpyxl import Workbook

    rows = [(at + 1000, at % 7, at % 3 + 0.25) for at in range(30)]
    text = write_file(tmp_path / "t.csv", "".join(f"{','.join(map(str, row))}\n" for row in rows))
    book = Workbook()
    for row in rows:
        book.active.append(row)
    book.save(tmp_path / "t.xlsx")
    for file in (text, tmp_path / "t.xlsx"):
        seen = inspect_file(file, header=False, draft_domain=tmp_path / "d.yaml", force=True)
        assert [column.kind for column in seen.domain.columns] == ["identifier", "numeric", "numeric"]
        read = read_records(file, header=False, domain=tmp_path / "d.yaml")
        assert read.columns[1].ticks[:3].tolist() == [25, 125, 225]


def test_footnotes_below_a_table_are_named_and_make_no_baskets(tmp_path):
    """Four footnotes below 60 rows made the file one of baskets, with a message about items that hold a comma."""
    rows = "".join(f"{at % 7},{at / 4},x\n" for at in range(60))
    file = write_file(tmp_path / "t.csv", "age,bill,sex\n" + rows + "Source: us\n" * 4)
    with pytest.raises(InputError, match="line 62: has 1 cell where 3 are expected; correct the row"):
        inspect_file(file)


def test_an_item_may_have_the_name_of_an_index(tmp_path):
    (tmp_path / "x.csv").write_text("(index),milk\n1,0\n0,1\n")
    domain = Domain((ItemSet("things", ("(index)", "milk")),))
    assert read_records(tmp_path / "x.csv", domain=domain, shape="wide").to_dense().tolist() == [[1, 0], [0, 1]]
