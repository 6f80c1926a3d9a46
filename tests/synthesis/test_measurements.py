"""The released statistics as a table: what it holds, that it says no more, and that forgeries are refused."""

import io
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

import dpgm
from dpgm.data.domain import Categorical, Domain
from dpgm.errors import ArtefactError
from dpgm.mechanisms.gateway import ReleasedSum
from dpgm.mechanisms.query import Counts
from dpgm.privacy.events import Mechanism
from dpgm.synthesis.measurements import SCHEMA, MeasurementTable, why_not_of

DOMAIN = Domain.of_columns([Categorical("sex", ("f", "m")), Categorical("ward", ("a", "b", "c"))])
RELEASED = [
    ReleasedSum("columns", torch.tensor([3.0, -1.0, 5.0, 0.5, 2.0]), 2.0, Counts(np.arange(5), np.full(5, 0.25))),
    ReleasedSum("pairs", torch.arange(6.0).reshape(2, 3), 3.0),
    ReleasedSum("pairs", torch.arange(6.0).reshape(2, 3) + 10, 3.0),
    ReleasedSum("values", torch.tensor([7.0, 8.0]), 1.0, labels=(("ward", "c"), ("ward", "not here"))),
]
RAN = (Mechanism("columns", 1.0), Mechanism("pairs", 1.0, 2), Mechanism("values", 1.0))


@pytest.fixture
def table():
    return MeasurementTable.of(RELEASED, DOMAIN)


def test_every_number_is_listed_with_its_error_and_what_it_counts(table):
    rows = table.table.to_pylist()
    assert [row["value"] for row in rows] == [
        *RELEASED[0].value.tolist(),
        *range(6),
        *range(10, 16),
        *RELEASED[3].value.tolist(),
    ]
    assert [row["counts"] for row in rows[:5]] == ["sex=f", "sex=m", "ward=a", "ward=b", "ward=c"]
    assert (rows[11]["mechanism"], rows[11]["run"], rows[11]["number"]) == ("pairs", 1, 0)
    assert [row["counts"] for row in rows[-2:]] == ["ward=c", None]  # a label that no position has is not told
    assert table.counts() == {at: (value, 2.0, 0.25) for at, value in enumerate(RELEASED[0].value.tolist())}
    assert (table.smallest_error(), MeasurementTable().smallest_error()) == (1.0, 0.0)


def test_it_comes_back_from_its_bytes(table):
    assert MeasurementTable.from_bytes(table.content, DOMAIN).table.equals(table.table)
    assert why_not_of(table, RAN) is None
    empty = MeasurementTable()
    assert MeasurementTable.from_bytes(empty.content, DOMAIN).table.equals(SCHEMA.empty_table())
    assert why_not_of(empty, ()) is None


@pytest.mark.parametrize(
    ("mechanisms", "why"),
    [
        (RAN[1:], "'columns' is not one of the certificate"),
        ((RAN[0], Mechanism("pairs", 1.0), RAN[2]), "ran less often"),
        ((replace(RAN[0], sample="step", sampling_rate=0.1), *RAN[1:]), "'columns' is not one"),
    ],
)
def test_numbers_of_no_mechanism_are_refused(table, mechanisms, why):
    assert why in why_not_of(table, mechanisms)


def _column(name, values):
    return lambda table: table.set_column(SCHEMA.get_field_index(name), SCHEMA.field(name), values(table))


ROWS = 19
CHANGES = {
    "text": _column("counts", lambda table: pa.array(["a secret"] * ROWS).dictionary_encode()),
    "position": _column("position", lambda table: pa.array([99] * ROWS, pa.int32())),
    "share": _column("share_of_rows", lambda table: pa.array([2.0] * ROWS)),
    "type": lambda table: table.set_column(3, "value", pa.array([1] * ROWS)),
    "column": lambda table: table.append_column("more", pa.array([1.0] * ROWS)),
    "fewer": lambda table: table.drop_columns(["run"]),
    "metadata": lambda table: table.replace_schema_metadata({"secret": "rows"}),
}


@pytest.mark.parametrize("name", CHANGES)
def test_what_dpgm_would_not_write_is_refused(table, name):
    out = io.BytesIO()
    coded = [name for name in SCHEMA.names if name not in ("number", "value", "position")]
    options = {"version": "2.6", "compression": "none", "write_statistics": False, "store_schema": False}
    pq.write_table(table.table, out, use_dictionary=coded, **options)
    assert out.getvalue() == table.content
    out = io.BytesIO()
    changed = CHANGES[name](table.table)
    coded = [column for column in coded if column in changed.column_names]
    pq.write_table(changed, out, use_dictionary=coded, **{**options, "store_schema": name == "metadata"})
    with pytest.raises(ArtefactError, match=r"measurements\.parquet"):
        MeasurementTable.from_bytes(out.getvalue(), DOMAIN)


def test_other_ways_to_write_the_same_numbers_are_refused(table):
    for options in ({"compression": "zstd"}, {"row_group_size": 3}, {"write_statistics": True}):
        out = io.BytesIO()
        pq.write_table(table.table, out, **{"compression": "none", **options})
        with pytest.raises(ArtefactError):
            MeasurementTable.from_bytes(out.getvalue(), DOMAIN)
    for content in (b"", b"PAR1", table.content[:-1], table.content + b"x", b"PAR1" + table.content):
        with pytest.raises(ArtefactError):
            MeasurementTable.from_bytes(content, DOMAIN)


@pytest.mark.parametrize(
    ("name", "values", "why"),
    [
        ("value", [float("nan")] * ROWS, "not finite"),
        ("standard_error", [-1.0] * ROWS, "not finite"),
        ("standard_error", [float(at) for at in range(ROWS)], "several standard errors"),
        ("number", [0] * ROWS, "not in order"),
        ("run", [5] * ROWS, "ran less often"),
        ("value", [None] * ROWS, "missing"),
    ],
)
def test_numbers_that_no_fit_releases_are_refused(table, name, values, why):
    kind = SCHEMA.field(name).type
    changed = _column(name, lambda _: pa.array(values, kind))(table.table)
    assert why in why_not_of(MeasurementTable(changed), RAN)


def test_a_release_carries_what_its_fit_released(tmp_path):
    frame = pa.table({"sex": ["f", "m"] * 500, "ward": ["a", "b", "c", "a"] * 250})
    synthesizer = dpgm.Synthesizer(epsilon=3.0, delta=1e-5, domain=DOMAIN).fit(frame)
    synthesizer.save(tmp_path / "release")
    opened = dpgm.load(tmp_path / "release")
    assert opened.measurements.table.equals(synthesizer.measurements_.table)
    released = {one.name for one in opened.certificate.mechanisms if one.sample is None}
    assert set(opened.measurements.table["mechanism"].to_pylist()) == released
    counts = opened.measurements.counts()
    value, error, share = counts[0]
    assert abs(value + share * 1000 - 500) < 8 * error
    readable = pq.read_table(tmp_path / "release" / "measurements.parquet")  # by whoever reads Parquet
    assert readable.column_names == SCHEMA.names
