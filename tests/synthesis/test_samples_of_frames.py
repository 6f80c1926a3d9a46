"""Frames as people have them: stated dtypes come back, other kinds of frames work, wrong use gets one sentence."""

import datetime
import decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import dpgm
from dpgm.data.decoding import pandas_frame
from dpgm.data.read.frames import read_frame
from dpgm.errors import DpgmError

N = 300
RNG = np.random.default_rng(0)
GAP = RNG.random(N) < 0.15
DAYS = RNG.integers(0, 300, N)
WORDS = RNG.choice(["x", "y"], N)
START = pd.Timestamp("2024-01-01")
FRAME = pd.DataFrame(
    {
        "int64": RNG.integers(0, 5, N),
        "Int64": pd.array(np.where(GAP, np.nan, RNG.integers(0, 9, N)), dtype="Int64"),
        "uint16": RNG.integers(0, 9, N).astype("uint16"),
        "float32": RNG.normal(size=N).astype("float32"),
        "Float64": pd.array(np.where(GAP, np.nan, RNG.normal(size=N)), dtype="Float64"),
        "bool": RNG.random(N) < 0.5,
        "boolean": pd.array(np.where(GAP, None, RNG.random(N) < 0.5), dtype="boolean"),
        "truths": pd.Series(
            [None if gap else bool(value) for gap, value in zip(GAP, DAYS % 2, strict=True)], dtype=object
        ),
        "category": pd.Categorical(WORDS, categories=["y", "x"], ordered=True),
        "string": pd.array(np.where(GAP, None, WORDS), dtype="string"),
        "none": pd.Series(np.where(GAP, None, WORDS), dtype=object),
        "nan": pd.Series(np.where(GAP, np.nan, pd.Series(WORDS, dtype=object)), dtype=object),
        "day": START + pd.to_timedelta(DAYS, unit="D"),
        "moment": pd.Series(START + pd.to_timedelta(DAYS, unit="h")).where(~GAP),
        "zoned": (START + pd.to_timedelta(pd.Series(DAYS), unit="h")).dt.tz_localize("Europe/Paris"),
        "date": [datetime.date(2024, 1, 1) + datetime.timedelta(days=int(day)) for day in DAYS],
        "arrow": pd.array(DAYS, dtype="int64[pyarrow]"),
    }
)


def synthesizer(domain=None):
    return dpgm.Synthesizer(epsilon=9.0, model="independent", domain=domain)


@pytest.fixture(scope="module")
def back():
    return synthesizer(dpgm.Domain.draft(FRAME)).fit(FRAME).sample(N, seed=1).to_pandas()


# Columns of objects come back in the dtype that pandas has for their values: one odd value makes objects of any column.
USUAL = {"truths": "boolean", "none": "str", "nan": "str", "date": "datetime64[us]"}


@pytest.mark.parametrize("name", FRAME.columns)
def test_dtypes_come_back_as_they_came(back, name):
    assert str(back[name].dtype) == USUAL.get(name, str(FRAME[name].dtype))


def test_unsigned_numbers_stay_unsigned_where_the_range_begins_below_0():
    frame = pd.DataFrame({"n": RNG.integers(0, 4, N).astype("uint8")})
    domain = dpgm.Domain([dpgm.Numeric("n", -8, 8, integer=True)])
    noisy = dpgm.Synthesizer(epsilon=0.001, model="independent", domain=domain)
    drawn = noisy.fit(frame).sample(N, seed=1).to_pandas()["n"]
    assert (str(drawn.dtype), drawn.min()) == ("uint8", 0)


WHOLE = {"fields": [{"name": "x", "kind": "numeric", "low": 0, "high": 200, "integer": True, "missing": False}]}


@pytest.mark.parametrize(
    ("dtype", "expected"),
    [
        ("Int64", "Int64"),
        ("int64[pyarrow]", "int64[pyarrow]"),
        ("uint8", "uint8"),
        ("category", "category"),
        ("UInt64", "int64"),  # chosen for one large number
        ("Float64", "int64"),  # for one fraction
        ("float32", "int64"),
        ("boolean", "int64"),
        ("string", "int64"),  # for one word
    ],
)
def test_the_kind_of_a_column_is_that_of_the_domain_and_not_of_its_dtype(dtype, expected):
    """Packages choose such dtypes by looking at the values (`dtype_backend`): one odd value decides the kind."""
    frame = pd.DataFrame({"x": pd.Series([0, 1] * 50).astype(dtype)})
    sample = pandas_frame(pa.table({"x": [0, 1]}), dict(read_frame(frame, discover=True).dtypes))
    assert str(sample["x"].dtype) == expected


def test_the_kind_of_a_column_of_polars_is_that_of_the_domain():
    wide = pl.DataFrame({"x": pl.Series([1, 2] * 50, dtype=pl.Int16)})
    fitted = synthesizer(WHOLE).fit(wide)
    assert fitted.sample(40, seed=1).to_polars().schema["x"] == pl.Int16  # a width is public: docs/frames.md
    for dtype in (pl.Float32, pl.UInt64, pl.String):
        again = synthesizer(WHOLE).fit(wide.cast({"x": dtype}))
        assert again.sample(40, seed=1).to_polars().schema["x"] == pl.Int64


def test_decimals_of_arrow_in_pandas_come_back_as_floats():
    prices = pd.array([decimal.Decimal("1.25")] * N, dtype=pd.ArrowDtype(pa.decimal128(10, 2)))
    domain = {"fields": [{"name": "x", "kind": "numeric", "low": 0, "high": 9, "decimals": 2, "missing": False}]}
    drawn = synthesizer(domain).fit(pd.DataFrame({"x": prices})).sample(20, seed=1)
    assert str(drawn.to_pandas()["x"].dtype) == "float64"


def test_values_are_of_the_kind_they_were(back):
    assert set(back["none"].dropna()) <= {"x", "y"}
    assert set(back["truths"].dropna()) == {True, False}
    assert (back["day"].dt.normalize() == back["day"]).all()  # days stay days, and hours hours
    assert (back["moment"].dropna().dt.floor("h") == back["moment"].dropna()).all()
    assert (back["date"].dt.normalize() == back["date"]).all()
    evaluation = dpgm.evaluate(FRAME, back)
    assert {column.name for column in evaluation.columns} == set(FRAME.columns)
    assert len(repr(evaluation)) < 300
    assert str(evaluation).startswith(repr(evaluation)[12:30])
    assert "curator only" in evaluation._repr_html_()


SMALL = FRAME[["int64", "bool", "category"]].rename(columns={"category": "sex"})


@pytest.mark.parametrize(
    "made",
    [
        pl.from_pandas,
        lambda frame: pl.from_pandas(frame).lazy(),
        pa.Table.from_pandas,
        pa.RecordBatch.from_pandas,
        lambda frame: frame.set_axis([0, 1, 2], axis=1),
    ],
    ids=["polars", "lazy", "table", "batch", "numbered"],
)
def test_other_frames_are_drafted_fitted_and_compared(made):
    frame = made(SMALL)
    fitted = synthesizer(dpgm.Domain.draft(frame)).fit(frame)
    drawn = fitted.sample(50, seed=1)
    assert len(drawn.to_pandas().columns) == 3
    assert dpgm.evaluate(frame, frame).columns
    assert len(drawn.to_polars().columns) == len(drawn.to_arrow().column_names) == 3


def test_columns_of_mixed_objects_are_compared_as_texts():
    mixed = pd.DataFrame({"a": pd.Series([1, "x", None, 2.5] * 30, dtype=object)})
    assert dpgm.evaluate(mixed, mixed).columns[0].name == "a"


def test_long_frames_are_compared_by_person():
    long = pd.DataFrame({"who": np.repeat(np.arange(N), 2), "what": RNG.choice(["a", "b", "c"], 2 * N)})
    drawn = synthesizer().fit(long, person="who", item="what", discover=True).sample(N, seed=1)
    for other in (drawn, drawn.to_pandas(), drawn.to_polars()):
        evaluation = dpgm.evaluate(long, other, person="who", item="what")
        assert evaluation.data.kind == "sets"
        assert evaluation.data.synthetic_records == N


DOMAIN = dpgm.Domain.draft(SMALL)
WRONG = {
    "a column": (lambda: synthesizer(DOMAIN).fit(SMALL["bool"]), "one column is not a frame"),
    "a list": (lambda: synthesizer(DOMAIN).fit([{"bool": True}]), "put lists or dicts into a frame"),
    "a path": (lambda: synthesizer(DOMAIN).fit("people.csv"), "no such file"),
    "no rows": (lambda: synthesizer(DOMAIN).fit(SMALL.iloc[:0]), "holds no records"),
    "no columns": (lambda: dpgm.Domain.draft(pd.DataFrame(index=range(5))), "has columns"),
    "a lost column": (lambda: synthesizer(DOMAIN).fit(SMALL.rename(columns={"sex": "Sex"})), r"did you mean Sex\?"),
    "a misspelt person": (
        lambda: synthesizer().fit(SMALL, person="sexx", item="bool", discover=True),
        r"did you mean sex\?",
    ),
    "a function": (lambda: synthesizer(DOMAIN).fit(SMALL).sample(5, where=len), "a text such as"),
    "a misspelt field": (
        lambda: synthesizer(DOMAIN).fit(SMALL).sample(5, where="boool = true"),
        r"did you mean bool\?",
    ),
    "nothing": (lambda: dpgm.evaluate(SMALL, None), "two frames"),
    "frame and file": (lambda: dpgm.evaluate(SMALL, "people.csv"), "two frames"),
    "one name": (lambda: dpgm.evaluate(SMALL, SMALL, item="sex"), "person"),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_use_gets_one_plain_sentence(case):
    use, message = WRONG[case]
    with pytest.raises(DpgmError, match=message) as caught:
        use()
    assert str(caught.value).endswith(".")
    assert len(str(caught.value)) < 300
