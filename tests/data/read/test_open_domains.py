"""Reading with `discover`: every shape of file, the schema of Parquet files, and what stays private."""

import datetime

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dpgm.data.domain import Boolean, Categorical, Domain, Ignored, ItemSet, Numeric
from dpgm.data.inspection import draft_frame, inspect_file
from dpgm.data.open_records import OpenRecords
from dpgm.data.read.frames import read_frame
from dpgm.data.read.readers import domain_of_schema, read_records, read_source
from dpgm.data.records import concatenate
from dpgm.errors import UsageError

BASKETS = [["bread", "milk"], ["milk"], [], ["7", "bread"]]


def labels_per_record(records):
    (column,) = records.columns
    labels = column.vocabulary.labels
    rows = np.split(column.codes, column.indptr[1:-1])
    return [sorted(labels[code] for code in row) for row in rows]


def test_baskets_and_the_long_shape_keep_a_private_vocabulary(tmp_path):
    (tmp_path / "b.csv").write_text("".join(",".join(row) + "\n" for row in BASKETS))
    records, source = read_source(tmp_path / "b.csv", shape="basket", discover=True)
    assert isinstance(records, OpenRecords)
    assert labels_per_record(records) == [sorted(row) for row in BASKETS]
    assert records.domain == Domain((ItemSet("items", discover=True),))
    assert not source.items_assumed_public
    (tmp_path / "l.csv").write_text("who,what\n1,bread\n2,milk\n1,milk\n")
    assert labels_per_record(read_records(tmp_path / "l.csv", person="who", item="what", discover=True)) == [
        ["bread", "milk"],
        ["milk"],
    ]


def test_one_label_does_not_change_the_type_of_the_others(tmp_path):
    """A text among baskets of numbers leaves all other records the same."""
    for name, extra in (("a", ""), ("b", "word\n")):
        (tmp_path / f"{name}.csv").write_text("1,2\n02,3\n" + extra)
    with_it, without = (read_records(tmp_path / f"{n}.csv", shape="basket", discover=True) for n in ("b", "a"))
    assert labels_per_record(with_it)[:2] == labels_per_record(without)


def test_a_domain_file_may_say_discover(tmp_path):
    (tmp_path / "d.yaml").write_text("fields: [{name: things, kind: items, discover: true}]\n")
    (tmp_path / "b.dat").write_text("1 2\n2\n")
    records = read_records(tmp_path / "b.dat", domain=tmp_path / "d.yaml")
    assert records.domain.fields[0] == ItemSet("things", discover=True)
    assert labels_per_record(records) == [["1", "2"], ["2"]]


def test_the_schema_of_parquet_gives_kinds_and_no_value(tmp_path):
    table = pa.table(
        {
            "who": ["a", "b", "c"],
            "age": [30, None, 41],
            "score": [0.5, 1.5, 2.5],
            "day": [datetime.date(2020, 1, 1)] * 3,
            "blob": [b"x"] * 3,
        }
    )
    pq.write_table(table, tmp_path / "t.parquet")
    with pytest.warns(UserWarning, match="'blob': of a type that cannot be modelled"):
        records = read_records(tmp_path / "t.parquet", discover=True, person="who")
    assert [field.kind for field in records.domain.fields] == ["numeric", "numeric", "date"]
    assert records.domain.field("age") == Numeric("age", "discover", "discover", integer=True)
    assert {column.name for _, column in records.domain.unread} == {"who", "blob"}
    assert domain_of_schema(pa.schema({"x": pa.dictionary(pa.int32(), pa.string())})).fields == (
        Categorical("x", discover=True),
    )
    with pytest.raises(UsageError, match="no column has a type"):
        domain_of_schema(pa.schema({"x": pa.binary()}))


def test_contradicting_options_are_refused(tmp_path):
    (tmp_path / "b.dat").write_text("1 2\n2\n")
    with pytest.raises(UsageError, match="not both"):
        read_records(tmp_path / "b.dat", discover=True, assume_public_items=True)
    with pytest.raises(UsageError, match="leaves nothing to discover"):
        read_records(tmp_path / "b.dat", discover=True, domain=Domain.of_items(3))
    with pytest.raises(UsageError, match="`discover=True`"):
        read_records(tmp_path / "b.dat")


def test_parts_with_different_vocabularies_are_concatenated():
    domain = Domain((ItemSet("items", discover=True),))
    first = read_frame(pa.table({"items": [["a", "b"]]}), domain).records
    second = read_frame(pa.table({"items": [["c"], ["b"]]}), domain).records
    joined = concatenate([first, second])
    joined.check()
    assert labels_per_record(joined) == [["a", "b"], ["c"], ["b"]]


def test_a_warning_names_a_column_that_cannot_be_modelled():
    schema = pa.schema({"age": pa.int64(), "wait": pa.duration("s"), "who": pa.binary()})
    with pytest.warns(UserWarning, match="'wait': of a type that cannot be modelled.*seconds"):
        domain = domain_of_schema(schema, person="who")
    assert [field.name for field in domain.fields] == ["age"]


def test_a_column_named_like_an_identifier_is_one_and_a_warning_says_so():
    schema = pa.schema({"id": pa.int64(), "patientId": pa.string(), "shop_id": pa.int64(), "uid": pa.float64()})
    with pytest.warns(UserWarning, match="'id', 'patientId': an identifier, as its name says"):
        domain = domain_of_schema(schema)
    assert [one.kind for one in domain.columns] == ["identifier", "identifier", "numeric", "numeric"]


def visits(folder, **more):
    table = pa.table({"city": ["a", "b"] * 15, "bought": [["x", "y"], []] * 15, **more})
    pq.write_table(table, folder / "v.parquet")
    return folder / "v.parquet", table


def kinds(domain):
    return {field.name: field.kind for field in domain.fields}


def test_lists_beside_other_columns_are_one_column_of_a_table_as_inspect_says(tmp_path):
    path, _ = visits(tmp_path, age=[7, 8] * 15)
    expected = {"city": "categorical", "bought": "items", "age": "numeric"}
    assert kinds(inspect_file(path).domain) == expected
    records, source = read_source(path, discover=True)  # formerly only the lists were read, without a warning
    assert (kinds(records.domain), source.shape) == (expected, "wide")
    assert kinds(read_records(path, discover=True, item="bought").domain) == {"bought": "items"}
    parts = tmp_path / "parts"
    parts.mkdir()
    for at in range(2):
        pq.write_table(pq.read_table(path), parts / f"{at}.parquet")
    assert kinds(read_records(parts, discover=True).domain) == expected  # formerly refused


def test_lists_and_persons_alone_are_baskets(tmp_path):
    path, _ = visits(tmp_path)
    records, source = read_source(path, discover=True, person="city", rows_per_person=20)
    assert (kinds(records.domain), source.shape, source.unit) == ({"bought": "items"}, "basket", "person")


def test_columns_left_out_beside_lists_that_are_assumed_public_are_named(tmp_path):
    path, _ = visits(tmp_path, age=[7, 8] * 15)
    with pytest.warns(
        UserWarning, match="only the lists of 'bought' are read; left out: 'city', 'age'; to have a table"
    ):
        read_records(path, assume_public_items=True)
    read_records(path, assume_public_items=True, item="bought")  # as stated: no warning


def test_json_objects_of_which_only_the_list_is_read_say_so_whatever_they_hold(tmp_path):
    messages = []
    for rows in ('{"id": 1, "city": "a", "bought": ["x"]}', '{"bought": ["x"]}', '["x"]'):
        (tmp_path / "v.jsonl").write_text(rows + "\n")
        with pytest.warns(UserWarning, match="no other member; to have a table of all") as caught:
            read_records(tmp_path / "v.jsonl", discover=True)
        messages.append(str(caught[0].message))
        read_records(tmp_path / "v.jsonl", discover=True, shape="basket")  # as stated: no warning
    assert len(set(messages)) == 1


NESTED = {
    "structures": pa.array([{"x": 1}] * 30),
    "a map": pa.array([[("k", 1)]] * 30, pa.map_(pa.string(), pa.int64())),
    "lists of lists": pa.array([[[1]]] * 30),
    "lists of booleans": pa.array([[True]] * 30),
}


@pytest.mark.parametrize("name", NESTED)
def test_nested_columns_are_left_out_wherever_they_are_read(tmp_path, name):
    """Lists of lists were drafted as item sets, which readers refuse, so that `inspect` refused the file."""
    path, table = visits(tmp_path, odd=NESTED[name])
    expected = {"city": "categorical", "bought": "items"}
    seen = inspect_file(path, draft_domain=tmp_path / "d.yaml")
    assert kinds(seen.domain) == expected
    assert [one for one, _ in seen.left_out] == ["odd"]
    assert kinds(read_records(path, domain=tmp_path / "d.yaml").domain) == expected
    with pytest.warns(UserWarning, match="'odd': of a type that cannot be modelled"):
        assert kinds(read_records(path, discover=True).domain) == expected
    for frame in (table, table.to_pandas()):
        draft = draft_frame(frame)
        assert kinds(draft) == expected
        assert kinds(read_frame(frame, draft).records.domain) == expected


def test_dates_may_be_items_in_files_and_frames_alike(tmp_path):
    path, table = visits(tmp_path, days=pa.array([[datetime.date(2020, 1, 31)], []] * 15))
    domain = Domain((ItemSet("days", ("2020-01-31",)),))
    for read in (
        read_records(path, domain=domain, item="days"),
        read_frame(table, domain).records,
        read_frame(table.to_pandas(), domain).records,
    ):
        assert read.lengths.tolist() == [1, 0] * 15


def test_nested_json_is_left_out_of_a_table_and_does_not_hide_its_other_members(tmp_path):
    row = '{"city": "a", "bought": [{"sku": 1}], "who": {"name": "x"}}\n'
    (tmp_path / "v.jsonl").write_text(row * 30)
    seen = inspect_file(tmp_path / "v.jsonl", draft_domain=tmp_path / "d.yaml")  # formerly refused
    expected = {"city": "categorical", "bought.sku": "items"}
    assert kinds(seen.domain) == expected
    assert kinds(read_records(tmp_path / "v.jsonl", domain=tmp_path / "d.yaml").domain) == expected


def test_a_list_beside_columns_that_cannot_be_modelled_is_an_item_set(tmp_path):
    """An identifier beside it was read as a 0/1 column, and refused."""
    path, sets = tmp_path / "x.parquet", [["a", "b"], ["a"], []]
    others = {"id": pa.array([10, 11, 12]), "took": pa.array([None] * 3, pa.duration("s"))}
    for name, column in others.items():
        pq.write_table(pa.table({name: column, "items": sets}), path)
        records = read_records(path, discover=True)
        assert records.domain == Domain((ItemSet("items", discover=True),))
        assert labels_per_record(records) == [["a", "b"], ["a"], []]


def test_a_boolean_beside_the_person_may_be_missing(tmp_path):
    path = tmp_path / "x.parquet"
    pq.write_table(pa.table({"who": [1, 2, 3], "smokes": [True, None, False]}), path)
    assert read_records(path, discover=True, person="who").domain == Domain(
        (Ignored("who"), Boolean("smokes", missing=True))
    )
