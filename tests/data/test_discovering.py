"""Reading with values still to be found: every shape of file, the schema of Parquet, and what stays private."""

import datetime

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dpgm.data.domain import Categorical, Domain, ItemSet, Numeric
from dpgm.data.open_records import OpenRecords
from dpgm.data.read.readers import domain_of_schema, read_records, read_source
from dpgm.data.records import concatenate
from dpgm.errors import UsageError

BASKETS = [["bread", "milk"], ["milk"], [], ["7", "bread"]]


def held(records):
    """The labels of every record."""
    (column,) = records.columns
    labels = column.vocabulary.labels
    rows = np.split(column.codes, column.indptr[1:-1])
    return [sorted(labels[code] for code in row) for row in rows]


def test_baskets_and_the_long_shape_keep_a_private_vocabulary(tmp_path):
    (tmp_path / "b.csv").write_text("".join(",".join(row) + "\n" for row in BASKETS))
    records, source = read_source(tmp_path / "b.csv", shape="basket", discover=True)
    assert isinstance(records, OpenRecords)
    assert held(records) == [sorted(row) for row in BASKETS]
    assert records.domain == Domain((ItemSet("items", discover=True),))
    assert not source.items_assumed_public
    (tmp_path / "l.csv").write_text("who,what\n1,bread\n2,milk\n1,milk\n")
    assert held(read_records(tmp_path / "l.csv", person="who", item="what", discover=True)) == [
        ["bread", "milk"],
        ["milk"],
    ]


def test_one_label_does_not_change_the_type_of_the_others(tmp_path):
    """A basket of numbers with and without one text: what the other records hold is the same."""
    for name, extra in (("a", ""), ("b", "word\n")):
        (tmp_path / f"{name}.csv").write_text("1,2\n02,3\n" + extra)
    with_it, without = (read_records(tmp_path / f"{n}.csv", shape="basket", discover=True) for n in ("b", "a"))
    assert held(with_it)[:2] == held(without)


def test_a_domain_file_may_say_discover(tmp_path):
    (tmp_path / "d.yaml").write_text("fields: [{name: things, kind: items, discover: true}]\n")
    (tmp_path / "b.dat").write_text("1 2\n2\n")
    records = read_records(tmp_path / "b.dat", domain=tmp_path / "d.yaml")
    assert records.domain.fields[0] == ItemSet("things", discover=True)
    assert held(records) == [["1", "2"], ["2"]]


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
    with pytest.raises(UsageError, match="--discover"):
        read_records(tmp_path / "b.dat")


def test_parts_with_vocabularies_of_their_own_join():
    domain = Domain((ItemSet("items", discover=True),))
    from dpgm.data.records import Records

    first = OpenRecords.of_sets(Records.from_lists([[0, 1]], Domain.of_items(["a", "b"])), domain)
    second = OpenRecords.of_sets(Records.from_lists([[1], [0]], Domain.of_items(["b", "c"])), domain)
    joined = concatenate([first, second])
    joined.check()
    assert held(joined) == [["a", "b"], ["c"], ["b"]]


def test_a_column_that_cannot_be_modelled_is_not_lost_unseen():
    schema = pa.schema({"age": pa.int64(), "wait": pa.duration("s"), "who": pa.binary()})
    with pytest.warns(UserWarning, match="'wait': of a type that cannot be modelled.*seconds"):
        domain = domain_of_schema(schema, leave_out=("who",))
    assert [field.name for field in domain.fields] == ["age"]


def test_a_column_called_after_identifiers_is_one_and_the_fit_says_so():
    schema = pa.schema({"id": pa.int64(), "patientId": pa.string(), "shop_id": pa.int64(), "uid": pa.float64()})
    with pytest.warns(UserWarning, match="'id', 'patientId': an identifier, as its name says"):
        domain = domain_of_schema(schema)
    assert [one.kind for one in domain.columns] == ["identifier", "identifier", "numeric", "numeric"]
