"""Pandas columns are read row by row, whatever their dtype: categories, objects of any type, times of numpy."""

import datetime
import itertools
import zoneinfo
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import metamorphic
from dpgm.data.domain import Categorical, Domain, ItemSet
from dpgm.data.inspection import draft_frame
from dpgm.data.read.frames import as_records, frame_schema, read_frame
from dpgm.data.read.pandas_columns import has_fixed_type
from dpgm.errors import InputError
from dpgm.evaluation.inputs import inputs_of
from metamorphic import Case, labels_of, raw_values

WARD = Domain((Categorical("ward", (5, 7), missing=True),))
OPEN = Domain((Categorical("x", discover=True),))
ITEMS = Domain((ItemSet("what", ("a", "5", "7", "0.5", "2020-01-31")),))
VALUES = {
    "int": 5,
    "int8": np.int8(7),
    "float": 0.5,
    "float32": np.float32(0.1),
    "decimal": Decimal("1.50"),
    "boolean": True,
    "text": "a",
    "bytes": b"b",
    "date": datetime.date(2020, 1, 31),
    "datetime": datetime.datetime(2020, 1, 31, 12, 30),
    "zoned": datetime.datetime(2020, 1, 31, 9, tzinfo=datetime.timezone(datetime.timedelta(hours=1))),
    "Timestamp": pd.Timestamp("2020-02-01 10:00"),
    "zoned Timestamp": pd.Timestamp("2020-02-02 10:00", tz="Europe/Berlin"),
    "datetime64": np.datetime64("2021-07-05"),
    "time": datetime.time(12, 30),
    "missing": None,
}


def series(values, dtype):
    return pd.Series(values, dtype=dtype)


def frame_of(dtype):
    return lambda path, rows: pd.DataFrame({"x": series(rows, dtype)})


@pytest.mark.parametrize("dtype", ["category", object, None], ids=["category", "object", "inferred"])
@pytest.mark.parametrize("odd", VALUES)
def test_a_row_of_another_type_changes_no_other_row(odd, dtype, tmp_path):
    case = Case("pandas", lambda rng: None, frame_of(dtype), {"domain": OPEN})
    alone = {name: case.read(tmp_path, [value]) for name, value in VALUES.items()}
    for usual, at in itertools.product(VALUES, range(3)):
        names = [usual, usual]
        names.insert(at, odd)
        metamorphic.check(case, tmp_path, [VALUES[name] for name in names], [alone[name] for name in names])


@pytest.mark.parametrize("at", [0, 1_000, 2_000], ids=["first", "middle", "last"])
@pytest.mark.parametrize("odd", [name for name in VALUES if name not in ("int", "int8")])
def test_counts_of_a_column_of_categories_move_by_one_row(odd, at):
    rows = [5] * 958 + [7] * 1_043
    before = pd.DataFrame({"ward": series(rows, "category")})
    rows[at] = VALUES[odd]
    after = pd.DataFrame({"ward": series(rows, "category")})
    first, second = (np.bincount(as_records(frame, WARD).indices, minlength=3) for frame in (before, after))
    assert first.tolist() == [958, 1_043, 0]
    assert np.abs(second - first).tolist() == ([1, 0, 1] if at < 958 else [0, 1, 1])


def test_a_date_of_numpy_among_small_integers_is_read():
    frame = pd.DataFrame({"x": series([np.datetime64("2026-07-05"), np.int8(1), np.int8(2)], "category")})
    read = raw_values(read_frame(frame, OPEN).records)
    assert read == [frozenset({label}) for label in ("x=2026-07-05 00:00:00", "x=1", "x=2")]


def test_categories_that_no_row_has_and_their_order_change_nothing():
    rows, dates = ["a", 5, None, "a"], [datetime.date(2020, 1, day) for day in (1, 2)]
    read = set()
    for categories in itertools.permutations([5, "a", *dates, datetime.timedelta(1)]):
        for ordered in (False, True):
            column = pd.Categorical(rows, categories=pd.Index(categories, dtype=object), ordered=ordered)
            read.add(tuple(raw_values(read_frame(pd.DataFrame({"x": column}), OPEN).records)))
    assert len(read) == 1
    with pytest.raises(InputError, match="row 3, column 'x'"):
        read_frame(pd.DataFrame({"x": series(["a", "b", datetime.timedelta(1), "a"], "category")}), OPEN)


@pytest.mark.parametrize("dtype", ["category", object, None])
@pytest.mark.parametrize("odd", ["date", "datetime", "zoned", "decimal", "text", "float", "float32", "missing"])
def test_an_item_of_another_type_changes_no_other_person(odd, dtype, tmp_path):
    case = Case(
        "long", lambda rng: None, metamorphic.long_frame(dtype), {"person": "who", "item": "what", "domain": ITEMS}
    )
    for at in range(3):
        rows = [(who, [5, 7]) for who in range(3)]
        rows[at] = ("odd", [VALUES[odd]])
        metamorphic.check(case, tmp_path, rows, [case.read(tmp_path, [row]) for row in rows])


def test_an_item_that_is_no_item_is_refused_in_a_column_of_any_dtype():
    for value, dtype in itertools.product((-5, True, Decimal("-0.5")), (object, None, "category")):
        for more in ([], ["a"]):
            column = series([value, *more], dtype)
            with pytest.raises(InputError):
                read_frame(
                    pd.DataFrame({"who": range(1 + len(more)), "what": column}), ITEMS, person="who", item="what"
                )


@pytest.mark.parametrize(
    ("column", "expected"),
    [
        ([np.float32(0.1)], {"x=0.10000000149011612"}),
        ([np.float32(0.1), "a"], {"x=0.10000000149011612"}),
        (np.array([0.1], dtype=np.float32), {"x=0.10000000149011612"}),
        (pd.arrays.SparseArray([0.5, 0.0]), {"x=0.5"}),
        ([np.datetime64("NaT"), "a"], {"x=missing"}),
        ([np.datetime64("2021-07-05T12:00:00.000000001", "ns"), "a"], {"x=2021-07-05 12:00:00.000000001"}),
    ],
)
def test_numbers_and_times_of_numpy_are_read_as_in_a_column_of_their_dtype(column, expected):
    assert raw_values(read_frame(pd.DataFrame({"x": column}), OPEN).records)[0] == expected


def test_a_date_beyond_the_calendar_is_refused_in_a_column_of_any_dtype():
    domain = {"fields": [{"name": "x", "kind": "date", "low": "2020-01-01", "high": "2021-01-01"}]}
    for year in ("12020", "-0500"):
        day = np.datetime64(f"{year}-01-01")
        for rows in ([day], [day, "2020-05-01"]):
            with pytest.raises(InputError, match="row 1, column 'x'"):
                read_frame(pd.DataFrame({"x": rows}), domain)


def test_a_gap_in_a_column_of_times_is_a_gap_in_any_field():
    domain = {"fields": [{"name": "x", "kind": "numeric", "low": 0, "high": 9, "bins": 3, "missing": True}]}
    alone, among = (pd.DataFrame({"x": rows}) for rows in ([pd.NaT], [pd.NaT, 5]))
    assert labels_of(as_records(alone, domain)) == labels_of(as_records(among, domain))[:1] == [{"x=3"}]


def test_whole_numbers_beyond_64_bits_are_read_alone_as_among_texts():
    for rows in ([2**63], [2**63, "a"]):
        frame = pd.DataFrame({"who": range(len(rows)), "what": rows})
        assert labels_of(read_frame(frame, ITEMS, person="who", item="what").records)[0] == frozenset()


def test_what_is_no_list_is_refused_with_its_row():
    for value in (np.array(5), {"a": 1}, 7):
        with pytest.raises(InputError, match="row 2, column 'what'"):
            read_frame(pd.DataFrame({"what": series([["a"], value], object)}), ITEMS)


def test_dtypes_of_one_type_are_those_of_which_no_row_decides_the_type():
    fixed = [
        "int8",
        "float16",
        "bool",
        "datetime64[s]",
        "timedelta64[ns]",
        "Int64",
        "Float32",
        "boolean",
        "str",
        "string",
    ]
    fixed += ["datetime64[ns, Europe/Berlin]", "double[pyarrow]"]
    assert all(has_fixed_type(pd.api.types.pandas_dtype(name)) for name in fixed)
    others = ["object", "category", np.longdouble, "complex128", "period[M]", "interval", "Sparse[float]"]
    assert not any(has_fixed_type(pd.api.types.pandas_dtype(name)) for name in others)
    frame = pd.DataFrame({name: series([], name) for name in ("category", "Sparse[float]", "period[M]", "object")})
    assert frame_schema(frame).types == [pa.string(), pa.float64(), pa.null(), pa.string()]


def test_drafts_and_comparisons_read_categories_of_any_type():
    odd = [np.datetime64("2026-07-05"), *map(np.int8, range(29))]
    frame = pd.DataFrame({"x": series(odd, "category"), "y": series([{"a": 1}] * 30, object), "z": [1, 2] * 15})
    assert {one.name: one.kind for one in draft_frame(frame).columns}["y"] == "ignored"
    compared = inputs_of(frame, frame).raw
    assert [one.name for one in compared.left_out] == ["y"]
    assert "x" in {one.name for one in compared.columns} | {one.name for one in compared.left_out}


def test_times_of_day_and_durations_among_objects_are_left_out_of_drafts():
    times = [datetime.time(hour) for hour in range(20)]
    frame = pd.DataFrame({"at": times, "took": series([datetime.timedelta(hours=1)] * 20, object), "n": range(20)})
    frame["n"] = frame["n"] % 3
    assert [(one.name, one.kind) for one in draft_frame(frame).columns][:2] == [
        ("at", "ignored"),
        ("took", "ignored"),
    ]


def test_a_zone_of_a_category_is_that_of_its_value():
    tokyo = datetime.datetime(2020, 1, 31, 9, tzinfo=zoneinfo.ZoneInfo("Asia/Tokyo"))
    naive = datetime.datetime(2020, 1, 31, 12)
    for rows in ([tokyo, naive], [naive, tokyo]):
        read = raw_values(read_frame(pd.DataFrame({"x": series(rows, "category")}), OPEN).records)
        assert set(read) == {frozenset({"x=2020-01-31 09:00:00+09:00"}), frozenset({"x=2020-01-31 12:00:00"})}


def test_columns_of_other_frames_are_chosen_by_their_exact_name():
    frame = pl.DataFrame(
        {"^x$": ["a", "b"], "x": ["b", "a"], "other": pl.Series([object(), object()], dtype=pl.Object)}
    )
    domain = {"fields": [{"name": "^x$", "kind": "categorical", "values": ["a", "b"]}]}
    assert labels_of(as_records(frame, domain)) == [{"^x$=a"}, {"^x$=b"}]


def test_a_column_of_dates_that_python_cannot_hold_is_refused_where_lists_are_expected():
    days = pd.Series(np.array(["12020-01-01"], dtype="datetime64[s]")).astype(pd.ArrowDtype(pa.date32()))
    with pytest.raises(InputError, match="row 1, column 'what'"):
        read_frame(pd.DataFrame({"what": days}), ITEMS)


def test_long_floats_are_items_as_other_floats_are():
    frame = pd.DataFrame({"who": [0, 1], "what": np.array([0.5, 5.0], dtype=np.longdouble)})
    assert labels_of(read_frame(frame, ITEMS, person="who", item="what").records) == [{"what=0.5"}, {"what=5"}]
