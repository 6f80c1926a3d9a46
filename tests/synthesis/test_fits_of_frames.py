"""Fits of frames: arguments checked early, long frames per person, dtypes back, the same values at every look."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import dpgm
from dpgm.data.domain_file import domain_to_plain
from dpgm.errors import UsageError
from dpgm.synthesis.readme import KINDS_JUDGED

pytestmark = pytest.mark.usefixtures("short_fits")

RNG = np.random.default_rng(0)
N = 300
FRAME = pd.DataFrame(
    {
        "age": pd.array(RNG.integers(18, 80, N), dtype="Int64"),
        "small": RNG.integers(0, 9, N).astype("uint8"),
        "ward": pd.Categorical(RNG.choice(["north", "south"], N)),
        "insured": RNG.random(N) < 0.4,
        "seen": pd.Timestamp("2024-01-01") + pd.to_timedelta(RNG.integers(0, 300, N), unit="D"),
        "bill": RNG.integers(0, 900, N) / 4,
    }
)
DOMAIN = {
    "fields": [
        {"name": "age", "kind": "numeric", "low": 18, "high": 80, "bins": 5, "integer": True},
        {"name": "small", "kind": "numeric", "low": 0, "high": 8, "bins": 3, "integer": True},
        {"name": "ward", "kind": "categorical", "values": ["north", "south"]},
        {"name": "insured", "kind": "boolean"},
        {"name": "seen", "kind": "date", "low": "2024-01-01", "high": "2024-12-31"},
        {"name": "bill", "kind": "numeric", "low": 0, "high": 250, "bins": 4},
    ]
}
CLOSED = {"fields": [field for field in DOMAIN["fields"] if field["name"] != "seen"]}


def test_dtypes_come_back_and_values_stay_the_same_at_every_look():
    fitted = dpgm.Synthesizer(epsilon=5.0, domain=DOMAIN).fit(FRAME)
    drawn = fitted.sample(50, seed=1)
    frame = drawn.to_pandas()
    assert frame.dtypes.astype(str).to_dict() == FRAME.dtypes.astype(str).to_dict()
    pd.testing.assert_frame_equal(frame, drawn.to_pandas())
    pd.testing.assert_frame_equal(frame, fitted.sample(50, seed=1).to_pandas())
    pd.testing.assert_frame_equal(frame.iloc[10:20].reset_index(drop=True), drawn.rows(10, 20).to_pandas())
    assert (fitted.sample(20, seed=1, where="age >= 50").to_pandas()["age"] >= 50).all()


def test_the_certificate_says_that_kinds_were_judged_by_the_rows(tmp_path):
    """One row decides places of decimals, and whether a truth value may be missing: nobody has stated that."""
    frame = FRAME[["bill", "insured"]]
    more = pd.concat([frame, pd.DataFrame({"bill": [0.125], "insured": [None]})], ignore_index=True)
    drafts = [dpgm.Domain.draft(one) for one in (frame, more)]
    assert drafts[0] != drafts[1]
    fitted = dpgm.Synthesizer(epsilon=5.0, domain=drafts[0]).fit(frame)
    assert KINDS_JUDGED in fitted.certificate_.statements
    fitted.save(tmp_path / "release")
    assert dpgm.verify(tmp_path / "release").ok
    drafted = domain_to_plain(drafts[0])
    for plain, judged in ((drafted, True), ({"fields": drafted["fields"]}, False)):  # as drafted; as confirmed
        again = dpgm.Synthesizer(epsilon=5.0, domain=plain).fit(frame)
        assert (KINDS_JUDGED in again.certificate_.statements) == judged


def test_the_certificate_says_that_the_kinds_of_a_frame_without_a_domain_were_judged_by_the_rows(tmp_path):
    """One gap makes floats of whole numbers, and one large number makes `downcast` choose another width."""
    ages = pd.DataFrame({"age": np.arange(400) % 80})
    for dtype in ("int64", "Int32", "int8"):
        fitted = dpgm.Synthesizer(epsilon=5.0, model="independent").fit(ages.astype(dtype), discover=True)
        assert KINDS_JUDGED in fitted.certificate_.statements
        fitted.save(tmp_path / dtype)
        assert dpgm.verify(tmp_path / dtype).ok


def test_frames_of_other_libraries_fit_as_well():
    for frame in (pl.from_pandas(FRAME), pa.Table.from_pandas(FRAME)):
        fitted = dpgm.Synthesizer(epsilon=5.0, domain=CLOSED).fit(frame)
        assert list(fitted.sample(5).to_pandas().columns) == [field["name"] for field in CLOSED["fields"]]


@pytest.mark.parametrize("made", [pd.DataFrame, pl.DataFrame, pa.table], ids=["pandas", "polars", "pyarrow"])
def test_a_long_frame_is_protected_per_person(made, capsys):
    long = made({"user_id": np.repeat(np.arange(N), 2), "sku": RNG.choice(["milk", "tea", "bread"], 2 * N)})
    fitted = dpgm.Synthesizer(epsilon=2.0).fit(long, person="user_id", item="sku", discover=True, progress=True)
    assert fitted.certificate_.unit == "person"
    assert fitted.certificate_.records == N
    assert "dpgm: " in capsys.readouterr().err
    assert set(fitted.domain_.fields[0].items) <= {"milk", "tea", "bread"}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"epsilon": 0}, "`epsilon` must be"),
        ({"epsilon": "1"}, "`epsilon` must be"),
        ({"delta": 2}, "`delta` must be"),
        ({"model": "gan"}, "`model` must be"),
        ({"domain": "nowhere.yaml"}, "no such domain file"),
    ],
)
def test_arguments_are_checked_at_construction(arguments, words):
    with pytest.raises(UsageError, match=words) as caught:
        dpgm.Synthesizer(**arguments)
    assert "\n" not in str(caught.value)
    with pytest.raises(UsageError, match=words):
        dpgm.Synthesizer().set_params(**arguments)


def test_everything_is_shown_in_one_line_and_as_html():
    fitted = dpgm.Synthesizer(epsilon=5.0, domain=CLOSED)
    assert repr(fitted) == "Synthesizer(epsilon=5.0, model='auto', not fitted)"
    assert fitted._repr_html_().startswith("<table>")
    fitted.fit(FRAME)
    for value in (fitted, fitted.release_, fitted.plan_, fitted.certificate_, fitted.sample(3)):
        assert "\n" not in repr(value)
        assert len(repr(value)) < 120
        assert value._repr_html_().startswith("<table>")
    with pytest.raises(UsageError, match="`progress` must be"):
        fitted.fit(FRAME, progress="yes")
