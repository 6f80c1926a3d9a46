"""Samples write dates in the pattern of the domain, and drafts recognize the usual patterns."""

import datetime
import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dpgm
from discovery_data import discovered
from dpgm.data.domain import Categorical, Date, DateTime, Domain
from dpgm.data.domain_file import domain_from_plain, domain_to_plain
from dpgm.data.inspection import inspect_file
from dpgm.data.read.frames import as_records
from dpgm.synthesis.verification import _check_discovered

STATED = Domain(
    (
        Date("born", "1950-01-01", "2000-12-31", pattern="%d/%m/%Y"),
        DateTime("seen", "2022-01-01", "2023-12-31", unit="minute", pattern="%d.%m.%y %H:%M"),
        Date("plain", "1950-01-01", "2000-12-31", missing=True),
        Categorical("sex", ("f", "m")),
    )
)


def dates_as_texts(count=400):
    rng = np.random.default_rng(0)
    born = [datetime.date(1950, 1, 1) + datetime.timedelta(days=int(at)) for at in rng.integers(0, 18_000, count)]
    seen = [
        datetime.datetime(2022, 1, 1) + datetime.timedelta(minutes=int(at))
        for at in rng.integers(0, 900_000, count)
    ]
    return pa.table(
        {
            "born": [f"{day:%d/%m/%Y}" for day in born],
            "seen": [f"{moment:%d.%m.%y %H:%M}" for moment in seen],
            "plain": [day.isoformat() for day in born],
            "sex": ["f", "m"] * (count // 2),
        }
    )


@pytest.fixture(scope="module")
def closed_domain():
    return discovered(dates_as_texts(), STATED)[0]


def test_what_is_found_keeps_the_pattern(closed_domain):
    _check_discovered(STATED, closed_domain)
    assert [getattr(field, "pattern", None) for field in closed_domain.fields] == [
        "%d/%m/%Y",
        "%d.%m.%y %H:%M",
        None,
        None,
    ]
    assert domain_from_plain(domain_to_plain(closed_domain)).fields == closed_domain.fields


@pytest.mark.parametrize("ending", ["csv", "jsonl"])
def test_samples_are_written_in_the_pattern_and_read_back(tmp_path, closed_domain, ending):
    """They were always written as 1976-04-01."""
    records = as_records(dates_as_texts(), closed_domain)
    file = tmp_path / f"synthetic.{ending}"
    dpgm.write_records(records, file, rng=np.random.default_rng(1))
    if ending == "csv":
        row = dict(zip(*(line.split(",") for line in file.read_text().splitlines()[:2]), strict=True))
    else:
        row = json.loads(file.read_text().splitlines()[0])
    assert datetime.datetime.strptime(row["born"], "%d/%m/%Y").year < 2001
    assert datetime.datetime.strptime(row["seen"], "%d.%m.%y %H:%M").year in (2022, 2023)
    assert datetime.date.fromisoformat(row["plain"])
    again = dpgm.read_records(file, domain=closed_domain, shape="wide")
    assert np.array_equal(again.indices, records.indices)


def test_files_with_patterns_are_compared(tmp_path, closed_domain):
    import pyarrow.csv as csv

    csv.write_csv(dates_as_texts(), tmp_path / "real.csv")
    dpgm.write_records(
        as_records(dates_as_texts(), closed_domain), tmp_path / "synthetic.csv", rng=np.random.default_rng(1)
    )
    made = dpgm.evaluate(tmp_path / "real.csv", tmp_path / "synthetic.csv", domain=STATED)
    kinds = {column.name: column.kind for column in made.columns}
    assert kinds == {"born": "date", "seen": "date", "plain": "date", "sex": "category"}
    assert all(column.distance < 0.6 for column in made.columns)


@pytest.mark.parametrize(
    "pattern",
    [
        "%d/%m/%Y %H:%M",
        "%m/%d/%Y %I:%M %p",
        "%d.%m.%Y %H:%M:%S",
        "%d.%m.%y",
        "%d-%b-%Y",
        "%d-%b-%y",
        "%Y/%m/%d %H:%M",
    ],
)
def test_drafts_know_how_dates_are_written(tmp_path, pattern):
    """Years of two digits were read as the first century, and date-times as free text."""
    rng = np.random.default_rng(0)
    moments = [
        datetime.datetime(2021, 1, 1) + datetime.timedelta(minutes=int(at)) for at in rng.integers(0, 900_000, 60)
    ]
    (tmp_path / "t.csv").write_text("when,k\n" + "".join(f"{moment.strftime(pattern)},a\n" for moment in moments))
    field = inspect_file(tmp_path / "t.csv").domain.field("when")
    assert field.pattern == pattern
    assert field.kind == ("datetime" if ":" in pattern or "%H" in pattern else "date")


@pytest.mark.parametrize(
    ("written", "pattern"),
    [
        ("%Y-%m-%dT%H:%M:%SZ", "%Y-%m-%dT%H:%M:%SZ"),
        ("%Y-%m-%dT%H:%M", "%Y-%m-%dT%H:%M"),
        ("%Y-%m-%d %H:%M", "%Y-%m-%d %H:%M"),
        ("%Y-%m-%d %H:%M:%S", None),
        ("%Y-%m-%d", None),
    ],
)
def test_moments_as_logs_write_them_come_back_like_that(tmp_path, written, pattern):
    """2024-03-01T08:00:00Z was written as 2024-03-01 08:00:00."""
    moments = [datetime.datetime(2024, 3, 1) + datetime.timedelta(minutes=917 * at) for at in range(40)]
    (tmp_path / "log.csv").write_text(
        "when,what\n" + "".join(f"{one:{written}},{one.day % 3}\n" for one in moments)
    )
    domain = inspect_file(tmp_path / "log.csv", draft_domain=tmp_path / "d.yaml").domain
    assert domain.field("when").pattern == pattern
    ticks = dpgm.read_records(tmp_path / "log.csv", domain=tmp_path / "d.yaml").columns[0].ticks
    step = 86_400 if written == "%Y-%m-%d" else 60
    assert ticks.tolist() == [int(one.replace(tzinfo=datetime.UTC).timestamp()) // step for one in moments]


@pytest.mark.parametrize("as_frame", [True, False])
def test_columns_whose_type_is_a_date_are_drafted_without_a_pattern(tmp_path, as_frame):
    first = datetime.date(2024, 1, 1)
    days = [first + datetime.timedelta(days=at) for at in range(60)]
    moments = [datetime.datetime(2024, 1, 1, 8, 30, at) for at in range(60)]
    table = pa.table({"ordered": pa.array(days, pa.date32()), "sent": pa.array(moments, pa.timestamp("s"))})
    if as_frame:
        domain = dpgm.Domain.draft(table.to_pandas())
    else:
        pq.write_table(table, tmp_path / "orders.parquet")
        drafted = inspect_file(tmp_path / "orders.parquet")
        domain = drafted.domain
        assert drafted.confirm == (
            "ordered: dates; their range is found privately",
            "sent: dates with a time of day; their range is found privately",
        )
    ordered, sent = domain.fields
    assert ordered == Date("ordered", "discover", "discover")
    assert sent == DateTime("sent", "discover", "discover", unit="second")


def test_what_cannot_be_modelled_says_how_to_change_it(tmp_path):
    rows = [{"user": {"name": f"u{at % 3}"}, "age": at % 9} for at in range(40)]
    (tmp_path / "t.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    ((name, reason),) = inspect_file(tmp_path / "t.jsonl").left_out
    assert name == "user"
    assert "pandas.json_normalize" in reason
    noon = pa.array([datetime.time(12, 0, at) for at in range(40)], pa.time32("s"))
    pq.write_table(pa.table({"at": noon, "age": [at % 9 for at in range(40)]}), tmp_path / "t.parquet")
    assert "write it as numbers of seconds" in dict(inspect_file(tmp_path / "t.parquet").left_out)["at"]
