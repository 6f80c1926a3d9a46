"""Frames of pandas, polars and pyarrow: kinds from the schema or the domain, long frames, drafts, dtypes back."""

import datetime
import decimal
import sqlite3
import zoneinfo

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import dpgm
from dpgm.data.domain_file import as_domain, domain_to_plain, save_domain
from dpgm.data.read.frames import frame_schema, read_frame
from dpgm.errors import InputError, UsageError

BOUGHT = {"who": ["a", "b", "a", "c"], "sku": ["milk", "milk", "bread", "tea"]}
SHOP = {"fields": [{"name": "sku", "kind": "items", "items": ["bread", "milk"]}]}
LONG = [pd.DataFrame(BOUGHT), pl.DataFrame(BOUGHT), pa.table(BOUGHT)]
PEOPLE = pd.DataFrame(
    {
        "patient": [f"p{at}" for at in range(40)],
        "age": [20 + at % 30 for at in range(40)],
        "bill": [at % 7 + 0.25 for at in range(40)],
        "ward": [("secret-north", "secret-south")[at % 2] for at in range(40)],
        "insured": [at % 3 == 0 for at in range(40)],
        "seen": pd.to_datetime(["2024-01-05 10:00", "2024-03-01 11:30"] * 20),
    }
)


@pytest.mark.parametrize("frame", LONG, ids=["pandas", "polars", "pyarrow"])
def test_rows_of_a_person_are_grouped(frame):
    read = read_frame(frame, SHOP, person="who", item="sku")
    assert read.source.unit == "person"
    assert sorted(read.records.to_pandas()["sku"].map(list).tolist()) == [[], ["bread", "milk"], ["milk"]]
    found = read_frame(frame, person="who", item="sku", discover=True).records
    assert len(found) == 3
    assert found.domain.is_open


def test_a_long_frame_is_refused_without_a_list_of_items_and_a_wrong_column_is_named():
    with pytest.raises(UsageError, match="discover=True"):
        read_frame(LONG[0], person="who", item="sku")
    with pytest.raises(InputError, match=r"no column 'skw'.*'who', 'sku'"):
        read_frame(LONG[0], SHOP, person="who", item="skw")
    for frame in LONG:
        with pytest.raises(InputError, match="list"):
            read_frame(frame, SHOP, item="sku")
        with pytest.raises(InputError, match="list"):
            read_frame(frame, item="sku", discover=True)
    with pytest.raises(UsageError, match="for frames"):
        read_frame(np.eye(2), person="who", item="sku")


def test_a_column_of_lists_is_named_and_one_that_is_not_named_is_refused_with_a_hint():
    visits = pd.DataFrame({"places": [["a", "b"], ["b"]]})
    found = read_frame(visits, item="places", discover=True).records
    assert (len(found), found.domain.fields[0].kind) == (2, "items")
    with pytest.raises(InputError, match="`item` names it"):
        read_frame(visits, discover=True)
    with pytest.raises(InputError, match=r"no column 'place' for `item` \(did you mean places\?\)"):
        read_frame(visits, item="place", discover=True)


def test_a_person_in_two_rows_of_a_table_is_refused():
    domain = {"fields": [{"name": "sku", "kind": "categorical", "values": ["milk", "bread", "tea"]}]}
    with pytest.raises(InputError, match="earlier row"):
        read_frame(LONG[0], domain, person="who")
    once = read_frame(LONG[0].iloc[1:], domain, person="who")
    assert once.source.unit == "person"


def test_a_draft_states_kinds_and_no_value():
    for frame in (PEOPLE, pl.from_pandas(PEOPLE), pa.Table.from_pandas(PEOPLE)):
        domain = dpgm.Domain.draft(frame)
        kinds = {field.name: field.kind for field in domain.columns}
        assert kinds == {
            "patient": "identifier",
            "age": "numeric",
            "bill": "numeric",
            "ward": "categorical",
            "insured": "boolean",
            "seen": "datetime",
        }
        assert domain.is_open
        assert "secret" not in str(domain_to_plain(domain))
    drafted = dpgm.Domain.draft(PEOPLE, drop=["seen"], kinds={"age": "categorical"}, person="patient")
    assert [field.name for field in drafted.fields] == ["age", "bill", "ward", "insured"]
    assert drafted.field("age").kind == "categorical"
    with pytest.raises(UsageError, match="no column 'wrad'"):
        dpgm.Domain.draft(PEOPLE, drop=["wrad"])


def test_a_draft_is_that_of_inspect(tmp_path):
    PEOPLE.to_parquet(tmp_path / "people.parquet")
    assert dpgm.Domain.draft(PEOPLE) == dpgm.inspect_file(tmp_path / "people.parquet").domain
    ones = pd.DataFrame({"milk": [0, 1, 1], "bread": [1, 1, 0]})
    ones.to_parquet(tmp_path / "ones.parquet")
    assert dpgm.Domain.draft(ones) == dpgm.inspect_file(tmp_path / "ones.parquet").domain


@pytest.mark.filterwarnings("ignore:.*named like an identifier of persons")
def test_kinds_come_from_dtypes_not_from_values():
    frame = PEOPLE.assign(coded=pd.Series([1] * 40, dtype=object), level=pd.Series([1] * 40, dtype="category"))
    other = frame.assign(coded=pd.Series(["x"] * 40, dtype=object), level=pd.Series(["x"] * 40, dtype="category"))
    assert frame_schema(frame) == frame_schema(other)
    found = [read_frame(one, discover=True).records.domain for one in (frame, other, frame.iloc[:1])]
    assert found[0] == found[1] == found[2]
    assert found[0].field("coded").kind == "categorical"


def test_a_domain_is_given_in_any_form(tmp_path):
    domain = as_domain(SHOP)
    save_domain(domain, tmp_path / "shop.yaml")
    frame = pd.DataFrame({"sku": [["milk"], []]})
    for form in (domain, SHOP, tmp_path / "shop.yaml", str(tmp_path / "shop.yaml")):
        assert dpgm.as_records(frame, form).domain == domain
        assert dpgm.Synthesizer(domain=form).domain is form
        assert dpgm.make_plan(dpgm.Config(1.0), 1000, form).width == 2
    with pytest.raises(UsageError, match="must be a Domain, a mapping or the path"):
        dpgm.as_records(frame, 3)


def test_columns_of_zero_and_one_are_items():
    frame = pd.DataFrame({"bread": [0, 1], "milk": [True, True]})
    records = read_frame(frame, SHOP).records
    assert records.to_dense().tolist() == [[0, 1], [1, 1]]
    with pytest.raises(InputError, match="neither 0 nor 1"):
        read_frame(frame.assign(bread=[0.3, 1.0]), SHOP)


def test_matrices_with_other_floats_than_0_and_1_are_refused_for_item_sets():
    sparse = pytest.importorskip("scipy.sparse")
    weights = np.array([[0.0, 0.3], [1.0, 1.0]])
    for matrix in (weights, sparse.csr_array(weights)):
        with pytest.raises(InputError, match="other than 0 and 1"):
            dpgm.as_records(matrix)
    assert len(dpgm.as_records(np.array([[0.0, 1.0]]))) == 1


def test_a_matrix_with_two_values_of_a_table_column_is_refused():
    domain = {"fields": [{"name": "a", "kind": "categorical", "values": [1, 2, 3]}]}
    assert len(dpgm.as_records(np.eye(3), domain)) == 3
    for row in ([1, 1, 0], [0, 0, 0]):
        with pytest.raises(InputError, match=r"row 2: .*exactly one"):
            dpgm.as_records(np.array([[1, 0, 0], row]), domain)
    with pytest.raises(InputError, match="nothing open"):
        dpgm.as_records(np.eye(3), {"fields": [{"name": "a", "kind": "categorical", "discover": True}]})


def test_missing_values_keep_whole_numbers_and_truth_values():
    fields = [
        {"name": "n", "kind": "numeric", "low": 0, "high": 9, "bins": 10, "integer": True, "missing": True},
        {"name": "whole", "kind": "numeric", "low": 0, "high": 9, "bins": 10, "integer": True},
        {"name": "b", "kind": "boolean", "missing": True},
        {"name": "sure", "kind": "boolean"},
    ]
    came = pd.DataFrame(
        {
            "n": pd.array([1, None], dtype="Int64"),
            "whole": [3, 4],
            "b": pd.array([True, None], dtype="boolean"),
            "sure": [True, False],
        }
    )
    back = dpgm.as_records(came, {"fields": fields}).to_pandas()
    pd.testing.assert_frame_equal(back, came)


def test_dates_come_back_as_dates():
    domain = {"fields": [{"name": "day", "kind": "date", "low": "2020-01-01", "high": "2020-12-31"}]}
    frame = pd.DataFrame({"day": [datetime.date(2020, 1, 5), datetime.date(2020, 2, 5)]})
    assert len(dpgm.as_records(frame, domain)) == 2


def test_what_a_notebook_shows_holds_no_row_and_is_escaped():
    domain = {"fields": [{"name": "<b>", "kind": "categorical", "values": ["secret"]}]}
    records = dpgm.as_records(pd.DataFrame({"<b>": ["secret"]}), domain)
    html = records._repr_html_()
    assert "&lt;b&gt;" in html
    assert "<b>" not in html
    assert "secret" not in html
    assert "\n" not in repr(records)


def raw(values, kind, **more):
    """A pandas column of these values, read with an open domain of one field."""
    domain = as_domain({"fields": [{"name": "x", "kind": kind, **more}]})
    (column,) = read_frame(pd.DataFrame({"x": values}), domain).records.columns
    if hasattr(column, "ticks"):
        return column.ticks.tolist()
    return [[*column.vocabulary.labels, None][code] for code in column.codes]


DATES = {"low": "1950-01-01", "high": "2030-01-01"}


def test_a_row_of_another_type_changes_no_moment_of_a_pandas_column():
    """pandas turns the column into objects: times are still read and counted as before."""
    moments = [datetime.datetime(1960, 1, 1, 0, 0, 30, 500), datetime.datetime(2020, 1, 31, 12, 30)]
    for more in ([], ["x"], [5], [None]):
        labels = raw([*moments, *more], "categorical", discover=True)
        assert labels[:2] == ["1960-01-01 00:00:30.000500", "2020-01-31 12:30:00"]
    for more in ([], ["2020-01-31"], [None]):
        ticks = raw([*moments, *more], "datetime", **DATES)
        assert ticks[:2] == [-315619170.0, 1580473800.0]


def test_moments_of_a_time_zone_are_what_clocks_show_there_in_a_column_of_its_own_and_among_others():
    there = pd.Timestamp("2020-01-31 00:30").tz_localize("Europe/Berlin")
    alone, among_texts = raw([there], "date", **DATES), raw([there, "2020-01-31"], "date", **DATES)
    assert [*alone, *alone] == among_texts == [18292.0, 18292.0]
    old = datetime.datetime(1880, 1, 1, 12, tzinfo=zoneinfo.ZoneInfo("Europe/Berlin"))  # 53 min 28 s from Greenwich
    assert raw([old], "date", **DATES) == raw([old, "2020-01-31"], "date", **DATES)[:1]


def test_a_text_beside_dates_does_not_change_how_they_are_read_by_a_pattern():
    swapped = DATES | {"unit": "minute", "pattern": "%Y-%d-%m %H:%M:%S"}
    moment = datetime.datetime(2020, 1, 2, 6, 15)
    alone = raw([moment, moment], "datetime", **swapped)
    assert raw([moment, "2020-25-12 00:00:00"], "datetime", **swapped)[0] == alone[0]
    compact = DATES | {"pattern": "%Y%m%d"}
    assert raw([20200131], "date", **compact) == raw([20200131, "20200201"], "date", **compact)[:1] == [18292.0]
    for odd in ([5], [5, "2020-01-01"]):
        with pytest.raises(InputError, match="row 1"):
            raw(odd, "date", **DATES)


def test_no_row_decides_the_dtypes_of_samples():
    domain = {
        "fields": [
            {"name": "age", "kind": "numeric", "low": 0, "high": 90, "bins": 3, "integer": True, "missing": True},
            {"name": "old", "kind": "boolean", "missing": True},
            {"name": "ward", "kind": "categorical", "values": ["a", "b"], "missing": True},
            {"name": "seen", "kind": "date", "low": "2020-01-01", "high": "2021-01-01"},
        ]
    }
    usual = {"age": 5, "old": True, "ward": "a", "seen": datetime.datetime(2020, 5, 1)}
    gaps = dict.fromkeys(usual)
    texts = {"age": "5", "old": "no", "ward": 7, "seen": "2020-05-01"}

    def dtypes(*rows):
        return read_frame(pd.DataFrame(list(rows)), domain).dtypes

    assert dtypes(usual, usual) == dtypes(usual, gaps) == dtypes(usual, texts)
    stated = pd.DataFrame([usual]).astype({"age": "uint8", "ward": "category"})
    assert dict(read_frame(stated, domain).dtypes) == {"age": "uint8", "old": "", "ward": "category", "seen": ""}
    assert stated.dtypes.astype(str)["seen"].startswith("datetime64")


@pytest.mark.parametrize("written", ["2020-05-01T00:00Z", "2020-05-01T00:00+01:00"])
def test_no_row_decides_whether_moments_have_an_offset(written):
    moments = pd.to_datetime([written, "2020-06-01" + written[10:]])
    odd = moments.astype(object).append(pd.Index(["2020-05-01"], dtype=object))
    domain = {"fields": [{"name": "seen", "kind": "date", "low": "2020-01-01", "high": "2021-01-01"}]}
    frames = [pd.DataFrame({"seen": column}) for column in (moments, odd)]
    assert frames[0]["seen"].dtype != frames[1]["seen"].dtype
    assert [read_frame(frame, domain).dtypes for frame in frames] == [(("seen", ""),)] * 2
    found = [read_frame(frame, discover=True).records.domain.origin for frame in frames]
    assert found == ["judged", "judged"]


def test_moments_of_a_time_zone_come_back_in_it():
    seen = pd.to_datetime(["2024-07-05 23:00", "2024-07-06 01:00"] * 150).tz_localize("Europe/Berlin")
    domain = {
        "fields": [{"name": "seen", "kind": "datetime", "low": "2024-07-05", "high": "2024-07-07", "unit": "hour"}]
    }
    drawn = dpgm.Synthesizer(epsilon=5.0, domain=domain).fit(pd.DataFrame({"seen": seen})).sample(50).to_pandas()
    assert str(drawn["seen"].dtype) == str(seen.dtype)
    assert (drawn["seen"].dt.hour.isin([23, 1])).mean() > 0.8


def test_a_missing_truth_value_refuses_no_other_in_a_column_of_numbers():
    assert raw([True, False], "numeric", low=0, high=1) == [1.0, 0.0]
    assert raw([True, False, None], "numeric", low=0, high=1)[:2] == [1.0, 0.0]


@pytest.mark.parametrize(
    "values",
    [
        pd.Series(["\ud800"], dtype=object),
        pd.to_timedelta(["1D"]),
        pd.period_range("2020-01", periods=1),
        [1j],
    ],
    ids=["surrogate", "duration", "period", "complex"],
)
def test_values_that_are_no_text_number_or_date_are_refused_in_one_sentence(values):
    with pytest.raises(InputError, match="row 1, column 'x'"):
        raw(values, "categorical", discover=True)


def test_intervals_are_categories_of_one_name_whatever_the_type_of_the_column():
    ages = pd.Series([10, 40, 20, None])
    bands = pd.cut(ages, [0, 30, 60])
    domain = {"fields": [{"name": "x", "kind": "categorical", "values": ["(0, 30]", "(30, 60]"], "missing": True}]}
    for column in (bands, bands.astype("interval"), bands.astype(object)):
        assert read_frame(pd.DataFrame({"x": column}), domain).records.indices.tolist() == [0, 1, 0, 2]


BASKETS = {"who": [f"p{at}" for at in range(300)], "bought": [["milk", "tea"][: at % 3] for at in range(300)]}
LISTS = [pd.DataFrame(BASKETS), pl.DataFrame(BASKETS), pa.table(BASKETS)]


@pytest.mark.parametrize("frame", LISTS, ids=["pandas", "polars", "pyarrow"])
def test_a_column_of_lists_holds_the_items_of_a_person(frame):
    domain = {"fields": [{"name": "bought", "kind": "items", "items": ["milk", "tea"]}]}
    read = read_frame(frame, domain, person="who", item="bought")
    assert (read.source.unit, read.records.lengths[:4].tolist()) == ("person", [0, 1, 2, 0])
    assert len(read_frame(frame, person="who", item="bought", discover=True).records) == 300
    drawn = dpgm.Synthesizer(epsilon=5.0, domain=domain).fit(frame, person="who", item="bought").sample(300, seed=1)
    for synthetic in (drawn, drawn.to_pandas(), drawn.to_polars()):
        compared = dpgm.evaluate(frame, synthetic, person="who", item="bought")
        assert (compared.data.kind, compared.data.records, compared.data.synthetic_records) == ("sets", 300, 300)


def test_rows_with_lists_of_one_person_are_grouped_in_every_frame():
    rows = {"who": ["a", "b", "a"], "bought": [["milk"], ["tea"], ["tea", "milk"]]}
    domain = {"fields": [{"name": "bought", "kind": "items", "items": ["milk", "tea"]}]}
    for frame in (pd.DataFrame(rows), pl.DataFrame(rows), pa.table(rows)):
        read = read_frame(frame, domain, person="who", item="bought")
        assert read.records.lengths.tolist() == [2, 1]
    layouts = [
        read_frame(kind(rows), domain, person="who", item="bought").source.layout
        for kind in (pl.DataFrame, pa.table)
    ]
    assert {(layout.shape, layout.item) for layout in layouts} == {("basket", "bought")}


def test_evaluation_leaves_out_the_column_of_persons():
    people = pd.DataFrame({"who": range(60), "age": [20, 30, 40] * 20, "town": ["a", "b"] * 30})
    for real in (people, pl.from_pandas(people), pa.Table.from_pandas(people)):
        for synthetic in (people.assign(age=30), people[["age", "town"]], pl.from_pandas(people)):
            compared = dpgm.evaluate(real, synthetic, person="who")
            assert [column.name for column in compared.columns] == ["age", "town"]
            assert compared.data.left_out == ()
    with pytest.raises(UsageError, match=r"no column 'whom' for `person`.*who"):
        dpgm.evaluate(people, people, person="whom")


def test_samples_in_polars_have_the_dtypes_of_the_frame():
    rows = 400
    hours = pl.Series([datetime.datetime(2024, 3, 30) + datetime.timedelta(hours=at % 48) for at in range(rows)])
    frame = pl.DataFrame(
        {
            "age": pl.Series([at % 90 for at in range(rows)], dtype=pl.UInt8),
            "size": pl.Series([at % 9 / 2 for at in range(rows)], dtype=pl.Float32),
            "ward": pl.Series(["north", "south"] * (rows // 2), dtype=pl.Categorical),
            "kind": pl.Series(["b", "a"] * (rows // 2), dtype=pl.Enum(["nobody", "b", "a"])),
            "bill": pl.Series([decimal.Decimal(at % 70) / 4 for at in range(rows)]),
            "price": pl.Series([at % 50 / 4 for at in range(rows)]).cast(pl.Decimal(10, 2)),
            "seen": hours.dt.replace_time_zone("Europe/Berlin", non_existent="null"),
            "count": [at % 9 for at in range(rows)],
            "name": ["a", "b"] * (rows // 2),
        }
    )
    labels = {name: {"kind": "categorical", "values": ["a", "b"]} for name in ("kind", "name")}
    labels["ward"] = {"kind": "categorical", "values": ["north", "south"]}
    numbers = {name: {"kind": "numeric", "low": 0, "high": 90, "decimals": 2} for name in ("bill", "price")}
    numbers |= {name: {"kind": "numeric", "low": 0, "high": 90, "integer": True} for name in ("age", "count")}
    seen = {"kind": "datetime", "low": "2024-03-30", "high": "2024-04-01", "unit": "hour", "missing": True}
    fields = labels | numbers | {"size": {"kind": "numeric", "low": 0, "high": 4, "bins": 4}, "seen": seen}
    domain = {"fields": [{"name": name, **fields[name]} for name in frame.columns]}
    drawn = dpgm.Synthesizer(epsilon=5.0, domain=domain).fit(frame).sample(2_000, seed=1).to_polars()
    expected = dict(frame.schema) | {"kind": pl.Enum(["a", "b"])}  # the categories of the domain alone
    assert dict(drawn.schema) == expected
    assert drawn["seen"].null_count() < 200  # the hour that the clocks skip has become the next


def test_no_row_decides_the_dtypes_of_samples_in_polars():
    domain = {"fields": [{"name": "x", "kind": "categorical", "values": ["5", "7"], "missing": True}]}
    columns = ([5], [5.0], ["5"], [True], [datetime.date(2020, 1, 1)], [datetime.datetime(2020, 1, 1)])
    found = [read_frame(pl.DataFrame({"x": column}), domain).dtypes for column in columns]
    assert found == [(("x", ""),)] * len(columns)
    longer = [[decimal.Decimal("1.5")], [decimal.Decimal("1.5"), decimal.Decimal("0.125")]]
    first, second = (read_frame(pl.DataFrame({"x": column}), domain).dtypes for column in longer)
    assert first == second != (("x", ""),)
    assert read_frame(pl.DataFrame({"x": [5]}), discover=True).records.domain.origin == "judged"


@pytest.mark.filterwarnings("ignore:.*named like an identifier of persons")
def test_drafts_and_discovery_agree_on_identifiers_by_name():
    rows = {"patient_id": [1, 2] * 30, "userId": ["a", "b", "c"] * 20, "id": [5] * 60, "shop_id": [3, 4] * 30}
    rows |= {"uid": [0.5, 1.5] * 30, "age": [40, 50] * 30}
    for frame in (pd.DataFrame(rows), pl.DataFrame(rows), pa.table(rows)):
        with pytest.warns(UserWarning, match="an identifier, as its name says"):
            found = read_frame(frame, discover=True).records.domain
        drafted = dpgm.Domain.draft(frame)
        for domain in (found, drafted):
            identifiers = [field.name for field in domain.columns if field.kind == "identifier"]
            assert identifiers == ["patient_id", "userId", "id"]
    assert dpgm.Domain.draft(frame, kinds={"id": "integer"}).field("id").kind == "numeric"


def test_a_database_gets_a_sentence_that_helps(tmp_path):
    connection = sqlite3.connect(tmp_path / "visits.db")
    people = pd.DataFrame({"age": [1, 2]})
    with pytest.raises(UsageError, match="the database: holds no table"):
        dpgm.Synthesizer(epsilon=1.0).fit(connection, discover=True)
    for attempt in (
        lambda: dpgm.Domain.draft(connection),
        lambda: dpgm.as_records(connection),
        lambda: dpgm.evaluate(connection, people),
    ):
        with pytest.raises(UsageError, match=r"a database is no frame.*pandas\.read_sql"):
            attempt()
    connection.close()
