"""What a row is read as depends on that row, the domain and the options: one test per former violation."""

import numpy as np
import pytest

from dpgm.data.domain import Categorical, Domain, ItemSet, Numeric
from dpgm.data.inspection import inspect_file
from dpgm.data.read.frames import as_records
from dpgm.data.read.options import ReadOptions
from dpgm.data.read.readers import read_records
from dpgm.errors import InputError, UsageError
from reading_data import write_file, write_parquet

CODES = Domain((ItemSet("items", ("01067", "1067", "5", "a")),))


def sets(records):
    """The labels of every record."""
    items = records.domain.fields[0].items
    return [{str(items[at]) for at in row.indices} for row in records.chunks(1)]


@pytest.mark.parametrize("options", [{"domain": CODES}, {"assume_public_items": True}])
def test_leading_zeros_of_baskets_do_not_depend_on_other_rows(tmp_path, options):
    digits = read_records(write_file(tmp_path / "a.csv", "01067,5\n1067\n"), shape="basket", **options)
    letters = read_records(write_file(tmp_path / "b.csv", "01067,5\n1067\na\n"), shape="basket", **options)
    assert sets(digits) == [{"01067", "5"}, {"1067"}]
    assert sets(letters) == [{"01067", "5"}, {"1067"}, {"a"}]


def test_a_fraction_changes_no_other_code_of_a_column_of_doubles(tmp_path):
    domain = Domain((Categorical("code", ("10000000000", "7"), missing=True), Numeric("x", 0, 1, 2)))
    plain = write_parquet(tmp_path / "a.parquet", code=[1e10, 7.0, 7.0], x=[0.0, 0.0, 0.0])
    mixed = write_parquet(tmp_path / "b.parquet", code=[1e10, 7.0, 0.5], x=[0.0, 0.0, 0.0])
    assert read_records(plain, domain=domain).indices.tolist() == [0, 3, 1, 3, 1, 3]
    assert read_records(mixed, domain=domain).indices.tolist() == [0, 3, 1, 3, 2, 3]


def test_a_fraction_splits_no_persons_written_as_doubles(tmp_path, monkeypatch):
    monkeypatch.setattr("dpgm.data.formats.parquet._BATCH", 50)
    persons = [float(10**10 + at) for at in range(49)]
    for other in (3.0, 0.5):
        path = write_parquet(tmp_path / "x.parquet", p=[*persons, 2.0, *persons, other], i=[1] * 100)
        assert len(read_records(path, person="p", item="i", domain=Domain.of_items(2))) == 51


def test_json_values_are_read_one_by_one(tmp_path):
    domain = Domain((Categorical("code", ("10000000000", "7"), missing=True), Numeric("x", 0, 1, 2)))
    for other, position in (("7", 1), ("0.5", 2), ('"a"', 2), ("true", 2), ("null", 2)):
        path = write_file(tmp_path / "x.jsonl", f'{{"code": 10000000000, "x": 0}}\n{{"code": {other}, "x": 1}}\n')
        assert read_records(path, domain=domain).indices.tolist() == [0, 3, position, 4]
    path = write_file(tmp_path / "i.jsonl", '[1, "01"]\n["a", 2.0]\n[]\n')
    assert sets(read_records(path, assume_public_items=True, shape="basket")) == [{"1", "01"}, {"a", "2"}, set()]


def test_json_members_come_from_the_domain_not_from_the_first_rows(tmp_path, monkeypatch):
    monkeypatch.setattr("dpgm.data.formats.lines.BLOCK_BYTES", 16)
    domain = Domain((Categorical("c", ("u", "v"), missing=True), Numeric("x", 0, 1, 2)))
    path = write_file(tmp_path / "x.jsonl", '{"x": 0}\n{"x": 1}\n{"x": 1, "c": "v"}\n')
    assert read_records(path, domain=domain).indices.tolist() == [2, 3, 2, 4, 1, 4]
    with pytest.raises(InputError, match="no row has the member 'c'"):
        read_records(write_file(tmp_path / "y.jsonl", '{"x": 0}\n{"x": 1}\n'), domain=domain)


def test_lists_within_cells_are_read_one_by_one(tmp_path):
    domain = Domain((ItemSet("s", ("1", "a")), Numeric("x", 0, 1, 1)))
    path = write_file(tmp_path / "x.csv", 's,x\n"[1]",0\n"[""a""]",0\n"[0.5, ""a""]",0\n')
    assert read_records(path, domain=domain).indices.tolist() == [0, 2, 1, 2, 1, 2]


def test_a_frame_of_mixed_objects_is_read_value_by_value():
    import pandas as pd

    domain = Domain((Categorical("c", ("7", "a", "true"), missing=True),))
    for values in ([7, "a"], [7, 7.0], [7, True], [7, None], [7, 0.5], ["7", 7]):
        found = as_records(pd.DataFrame({"c": values}), domain).indices.tolist()
        assert found[0] == 0
        typed = as_records(pd.DataFrame({"c": pd.Series(values, dtype=object)}), domain).indices.tolist()
        assert typed == found


def test_the_first_record_does_not_choose_the_separator(tmp_path):
    domain = Domain.of_items(["a", "b", "a;b"])
    semicolons = write_file(tmp_path / "x.csv", "a;b;b\na,b\n")
    with pytest.raises(InputError, match=r"line 1.*`item_separator`.*`separator`"):
        read_records(semicolons, domain=domain, shape="basket")
    assert sets(read_records(write_file(tmp_path / "y.csv", "a;b\na,b\n"), domain=domain, shape="basket")) == [
        {"a;b"},
        {"a", "b"},
    ]
    with pytest.raises(InputError, match="line 2"):  # the row with another separator
        read_records(semicolons, domain=domain, shape="basket", separator=";")


def test_a_header_with_the_stated_names_determines_the_separator(tmp_path):
    path = write_file(tmp_path / "x.csv", "p;what;note\n1;a;x,y,z,,,\n")
    assert sets(read_records(path, domain=Domain.of_items(["a"]), person="p", item="what")) == [{"a"}]


def test_the_shape_is_not_taken_from_the_rows(tmp_path):
    for content in ("a,b\nb\n", "a,b\n0,1\n", "a,b\nb,a\n"):
        with pytest.raises(UsageError, match=r"shape.*`person`"):
            read_records(write_file(tmp_path / "x.csv", content), domain=Domain.of_items(["a", "b"]))
        with pytest.raises(UsageError, match=r"shape.*`person`"):
            read_records(tmp_path / "x.csv", assume_public_items=True)


@pytest.mark.parametrize(
    ("content", "options"),
    [
        ("12.5,3,7\n1,0,1\n", {}),
        ("12,3,7\n10,20,1\n", {"threshold": 5}),
        ("0,1\n1,1\n", {}),
        ("0,1\n1,1\n", {"domain": Domain.of_items(2)}),
    ],
)
def test_a_first_line_that_could_be_a_record_is_not_taken_for_a_header(tmp_path, content, options):
    path = write_file(tmp_path / "x.csv", content)
    with pytest.raises(UsageError, match=r"line 1 may be a record.*`header=False`.*`header=True`"):
        read_records(path, shape="wide", **options)
    with_header = read_records(path, shape="wide", header=True, **options)
    without = read_records(path, shape="wide", header=False, **options | {"threshold": 5})
    assert (len(with_header), len(without)) == (content.count("\n") - 1, content.count("\n"))


def test_a_first_line_of_words_is_a_header_and_one_of_zeros_and_ones_a_record(tmp_path):
    assert len(read_records(write_file(tmp_path / "x.csv", "tea,milk\n0,1\n"), shape="wide")) == 1
    assert len(read_records(write_file(tmp_path / "y.csv", "0,1,1\n0,1,0\n"))) == 2


def test_cells_that_hold_several_items_are_split_or_refused(tmp_path):
    path = write_file(tmp_path / "x.csv", 'items\n"a, b, c"\n"b, d"\n\n"a"\n')
    with pytest.raises(InputError, match=r"line 2.*`item_separator"):
        read_records(path, shape="basket", header=True, assume_public_items=True)
    records = read_records(path, shape="basket", header=True, item_separator=",", assume_public_items=True)
    assert records.domain.fields[0].items == ("a", "b", "c", "d")
    assert sets(records) == [{"a", "b", "c"}, {"b", "d"}, {"a"}]
    whole = read_records(path, shape="basket", header=True, item_separator="", assume_public_items=True)
    assert sets(whole) == [{"a, b, c"}, {"b, d"}, {"a"}]
    lines = write_file(tmp_path / "y.csv", '"a, b",c\nd\n')
    with pytest.raises(InputError, match=r"line 1.*`item_separator"):
        read_records(lines, shape="basket", assume_public_items=True)
    assert sets(read_records(lines, shape="basket", item_separator=",", assume_public_items=True)) == [
        {"a", "b", "c"},
        {"d"},
    ]
    long = write_file(tmp_path / "z.csv", "p,i\n1,a; b\n2,\n1,c\n")
    records = read_records(long, person="p", item="i", item_separator=";", assume_public_items=True)
    assert sets(records) == [{"a", "b", "c"}, set()]


def test_a_blank_line_is_an_empty_record_independent_of_other_rows(tmp_path):
    domain = Domain.of_items(10)
    for other in ("1,2", '"1",2', "1,0000000000000000000002"):
        records = read_records(write_file(tmp_path / "x.csv", f"{other}\n \n3\n"), domain=domain, shape="basket")
        assert records.lengths.tolist() == [2, 0, 1]


def test_parquet_columns_of_numbers_are_no_items_by_their_values(tmp_path):
    path = write_parquet(tmp_path / "x.parquet", a=np.array([0, 1]), b=np.array([1, 1]))
    with pytest.raises(UsageError, match="shape"):
        read_records(path)
    assert len(read_records(path, shape="wide")) == 2
    assert len(read_records(path, domain=Domain.of_items(["a", "b"]))) == 2
    booleans = write_parquet(tmp_path / "y.parquet", a=[True, False], b=[True, True])
    assert read_records(booleans).lengths.tolist() == [2, 1]


def test_a_named_column_of_items_is_read_beside_a_column_of_lists(tmp_path):
    pq = pytest.importorskip("pyarrow.parquet")
    import pyarrow as pa

    pq.write_table(pa.table({"lists": [["a"], ["b"]], "names": ["c", "d"]}), tmp_path / "t.parquet")
    records = read_records(tmp_path / "t.parquet", item="names", assume_public_items=True)
    assert records.domain.fields[0].items == ("c", "d")


def test_options_are_one_value_or_keywords(tmp_path):
    path = write_file(tmp_path / "v.csv", "who,what\nx,1\ny,2\n")
    options = ReadOptions(
        person="who", item="what", domain={"fields": [{"name": "i", "kind": "items", "items": [1]}]}
    )
    assert options.domain == Domain.of_items([1], "i")
    assert read_records(path, options) == read_records(path, person="who", item="what", domain=options.domain)
    assert len(read_records(path, options, item="who", domain=Domain.of_items(["x"]), person="what")) == 2
    with pytest.raises(UsageError, match="shape"):
        ReadOptions(shape="tall")


def test_every_option_is_declared_once_and_all_else_follows():
    from dataclasses import fields

    from dpgm.cli.options import READ_OPTIONS
    from dpgm.data.read.declared import declared
    from dpgm.data.read.keywords import ReadKeywords

    names = [one.name for one in declared()]
    assert [field.name for field in fields(ReadOptions)] == names
    assert {*ReadKeywords.__annotations__} == {*names}
    assert [one.name for one in READ_OPTIONS] == names
    for one in declared():
        assert f"    {one.name}: {one.option.help}" in ReadOptions.__doc__


def test_a_byte_order_mark_is_dropped_at_the_start_of_any_row(tmp_path):
    domain = Domain((Categorical("c", ("a", "\ufeffa")), Numeric("x", 0, 1, 1)))
    path = tmp_path / "x.csv"
    for rows in ("\ufeffa,0\na,0\n", "a,0\n\ufeffa,0\n"):
        path.write_text("\ufeffc,x\n" + rows, encoding="utf-8")
        assert read_records(path, domain=domain).indices.tolist() == [0, 2, 0, 2]
    path.write_text('c,x\n"\ufeffa",0\na,0\n"\ufeffa",0\n', encoding="utf-8")
    assert read_records(path, domain=domain).indices.tolist() == [1, 2, 0, 2, 1, 2]


def test_a_quotation_mark_within_a_cell_swallows_no_rows(tmp_path):
    """Two rows with one quotation mark each: all rows between them were lost, and N fell from five to one."""
    for text in ('a,5"\na\n5\na\na,5"\n', 'a,5"\n"a"\n5\na,5"\n'):
        for options in (
            {"domain": CODES},
            {"assume_public_items": True},
            {"header": True, "item": "a", "discover": True},
        ):
            with pytest.raises(InputError, match=r"line 1.*quotation mark"):
                read_records(write_file(tmp_path / "x.csv", text), shape="basket", **options)
    with pytest.raises(
        InputError, match=r"line 1.*quotation mark"
    ):  # in a header, which extends over the first records
        read_records(write_file(tmp_path / "x.csv", 'a,b"\n0,1\n1,"0\n0,1\n'), shape="wide", header=True)
    joined = read_records(write_file(tmp_path / "x.csv", 'a,"5\n5"\n5\n'), shape="basket", domain=CODES)
    assert sets(joined) == [{"a"}, {"5"}]  # a quoted cell of two lines is one cell


def test_a_first_line_of_truth_values_is_not_published_as_names(tmp_path):
    path = write_file(tmp_path / "x.csv", "true,false\n0,1\n1,1\n")
    with pytest.raises(UsageError, match="may be a record"):
        read_records(path, shape="wide")
    assert read_records(path, shape="wide", header=False).to_dense().tolist() == [[1, 0], [0, 1], [1, 1]]


def test_a_space_elsewhere_refuses_no_number_with_many_zeros(tmp_path):
    domain = Domain.of_items(10)
    for other in ("3", " 3", "3 "):
        text = f"1,000000000000000000000005\n2,{other}\n"
        assert sets(read_records(write_file(tmp_path / "x.csv", text), shape="basket", domain=domain)) == [
            {"1", "5"},
            {"2", "3"},
        ]


@pytest.mark.parametrize("header", [None, True])
def test_a_title_above_the_header_is_reported(tmp_path, header):
    (tmp_path / "t.csv").write_text("Visits of 2023,,\n,,\nward,age,sex\n" + "a,30,f\n" * 30)
    domain = {"fields": [{"name": "age", "kind": "numeric", "low": 0, "high": 99}]}
    for options in ({"header": header}, {"header": header, "domain": domain, "shape": "wide"}):
        with pytest.raises(InputError, match=r"like a title above a table.*`skip_lines=2`") as refused:
            inspect_file(tmp_path / "t.csv", **options)
        assert "Visits" not in str(refused.value)
        assert inspect_file(tmp_path / "t.csv", **options, skip_lines=2).records == 30


def test_a_misspelt_column_is_reported_with_every_separator(tmp_path):
    (tmp_path / "l.csv").write_text("reader;title\n" + "1;Faust, Teil I\n2;Momo\n" * 10)
    with pytest.raises(InputError, match="names no column 'raeder' for `person`"):
        read_records(tmp_path / "l.csv", person="raeder", item="title", assume_public_items=True)


def test_files_of_lines_of_items_are_read_one_after_the_other(tmp_path):
    first, second = write_file(tmp_path / "a.csv", "5\na,5\n"), write_file(tmp_path / "b.csv", "01067\n5\n")
    together = read_records([first, second], shape="basket", domain=CODES)
    assert sets(together) == [{"5"}, {"a", "5"}, {"01067"}, {"5"}]  # no first line is taken for a header
    numbers = [write_file(tmp_path / "a.dat", "1 2\n"), write_file(tmp_path / "b.dat", "\n3\n")]
    assert sets(read_records(numbers, domain=Domain.of_items(4))) == [{"1", "2"}, set(), {"3"}]


@pytest.mark.parametrize("other", ["3", "x", "3 "])
def test_two_spaces_between_cells_do_not_depend_on_other_rows(tmp_path, other):
    path = write_file(tmp_path / "x.csv", f"1  2\n{other}\n")
    with pytest.raises(InputError, match="line 1: an item is empty"):
        read_records(path, shape="basket", separator=" ", domain=Domain.of_items(4))


def test_a_block_of_comments_alone_is_no_record(tmp_path, monkeypatch):
    monkeypatch.setattr("dpgm.data.formats.lines.BLOCK_BYTES", 8)
    path = write_file(tmp_path / "x.csv", "# a\n# b\n# c\na,5\n# d\n")
    assert sets(read_records(path, shape="basket", comment="#", domain=CODES)) == [{"a", "5"}]
    with pytest.raises(InputError, match="holds no records"):
        read_records(write_file(tmp_path / "y.csv", "# a\n"), shape="basket", comment="#", domain=CODES)


def test_all_columns_of_a_wide_table_are_read_where_an_item_column_is_named(tmp_path):
    path = write_file(tmp_path / "x.csv", "who,a,b\n1,0,1\n2,1,1\n")
    records = read_records(path, shape="wide", header=True, person="who", item="b")
    assert records.to_dense().tolist() == [[0, 1], [1, 1]]


def test_persons_written_as_texts_in_one_file_and_as_numbers_in_another(tmp_path):
    import pyarrow as pa

    first = write_parquet(tmp_path / "a.parquet", who=pa.array([7, 8], pa.uint64()), what=[1, 2])
    second = write_parquet(tmp_path / "b.parquet", who=["8", "07"], what=[3, 3])
    records = read_records([first, second], person="who", item="what", domain=Domain.of_items(4))
    assert sets(records) == [{"1"}, {"2", "3"}, {"3"}]


def test_a_missing_person_is_reported_in_its_column(tmp_path):
    path = write_file(tmp_path / "x.csv", "who,what\na,1\n,2\n")
    with pytest.raises(InputError, match="line 3, column 'who': the person is missing"):
        read_records(path, person="who", item="what", domain=Domain.of_items(4))


def test_files_without_columns_take_no_options_of_columns(tmp_path):
    path = write_file(tmp_path / "x.dat", "1 2\n")
    assert len(read_records(path, assume_public_items=True)) == 1
    with pytest.raises(UsageError, match="have no columns"):
        read_records(path, person="who", rows_per_person=2, assume_public_items=True)
    with pytest.raises(UsageError, match="hold baskets; leave out the shape"):
        read_records(path, shape="wide", assume_public_items=True)
    with pytest.raises(InputError, match="hold one item set"):
        read_records(path, domain=Domain((Categorical("a", ("x",)), Categorical("b", ("y",)))))


def test_arrays_take_no_options_of_columns(tmp_path):
    np.save(tmp_path / "x.npy", np.eye(3))
    with pytest.raises(UsageError, match="have no columns"):
        read_records(tmp_path / "x.npy", person="who", rows_per_person=2)


def test_a_quotation_mark_in_a_comment_takes_no_rows_along(tmp_path, monkeypatch):
    text = '# 5" nail\na,5\n# 6" nail\n"a","5"\n'
    for block in (3, 1 << 20):
        monkeypatch.setattr("dpgm.data.formats.lines.BLOCK_BYTES", block)
        path = write_file(tmp_path / f"x{block}.csv", text)
        assert sets(read_records(path, shape="basket", comment="#", domain=CODES)) == [{"a", "5"}] * 2
        path = write_file(tmp_path / f"y{block}.csv", "\ufeff" + text.replace("\n", "\r\n"))
        assert sets(read_records(path, shape="basket", comment="#", domain=CODES)) == [{"a", "5"}] * 2
    cell = write_file(tmp_path / "z.csv", '"a\n# no comment\n",5\n')
    assert sets(read_records(cell, shape="basket", comment="#", domain=CODES)) == [{"5"}]
    with pytest.raises(UsageError, match="comment"):
        ReadOptions(comment='"')


@pytest.mark.parametrize("comment", ['# it"s the end', '# 5",', '# "', '#","', '\ufeff# 5" pipe'])
@pytest.mark.parametrize("stray", ['a,"5', '"a'])
def test_a_comment_closes_no_quote_that_a_row_left_open(tmp_path, monkeypatch, comment, stray):
    """The quoted cell extended to the comment: 1,001 rows were read as one record."""
    rows = ["a,5"] * 50
    for block in (7, 1 << 20):
        monkeypatch.setattr("dpgm.data.formats.lines.BLOCK_BYTES", block)
        good = write_file(tmp_path / "good.csv", "\n".join([*rows, comment, *rows]))
        assert len(read_records(good, shape="basket", comment="#", domain=CODES)) == 100
        for at in (0, 25, 50):
            bad = write_file(tmp_path / "bad.csv", "\n".join([*rows[:at], stray, *rows[at:], comment, *rows]))
            with pytest.raises(InputError, match="line 52: is a comment with a quotation mark"):
                read_records(bad, shape="basket", comment="#", domain=CODES)


def test_options_by_which_nothing_can_be_read_are_refused_in_a_sentence(tmp_path):
    """A threshold of NaN left every record empty; the other values ended in an error of a library."""
    for threshold in (float("nan"), float("inf"), "5"):
        with pytest.raises(UsageError, match="threshold"):
            ReadOptions(threshold=threshold)
    with pytest.raises(UsageError, match="missing"):
        ReadOptions(missing=["?", None])
    path = write_file(tmp_path / "x.csv", "kind§size\na§5\n")
    domain = Domain((Categorical("kind", ("a", "b")), Numeric("size", 0, 9, 3)))
    with pytest.raises(UsageError, match="ASCII"):
        read_records(path, domain=domain, separator="§")
