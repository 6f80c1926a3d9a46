"""Raw values of tables: differences that a domain's bins would hide are measured and enter the verdict."""

import dataclasses
import gzip
import json
from pathlib import Path

import numpy as np
import pandas
import polars
import pyarrow as pa
import pytest

import dpgm
import dpgm.cli.synthetic
from dpgm.cli.app import run
from dpgm.data.domain import Categorical, Domain, Numeric
from dpgm.data.domain_file import load_domain, save_domain
from dpgm.data.read.readers import read_records
from dpgm.evaluation.evaluate import evaluate
from dpgm.evaluation.row_checks import column_faults, columns_off
from dpgm.evaluation.verdict import verdict
from dpgm.mechanisms.randomness import SeededRandomness
from public_data import DATA

ADULT = DATA / "adult/adult.data.gz"
EXAMPLE = Path(__file__).parents[2] / "examples/domains/adult.yaml"


def gains(count=4000, seed=0):
    """Nine of ten people gain nothing; the others up to 50,000."""
    rng = np.random.default_rng(seed)
    gain = np.where(rng.random(count) < 0.9, 0, rng.integers(1, 50_000, count))
    age = rng.integers(17, 91, count)
    return pandas.DataFrame({"age": age, "gain": gain, "town": rng.choice(["a", "b", "c"], count)})


def through_bins(frame, domain, seed=0):
    """The sample of a perfect fit in the domain's bins: the right bins, and uniform values within them."""
    records = dpgm.as_records(frame, domain)
    return records.to_pandas(rng=np.random.default_rng(seed))


GAINS = Domain(
    (
        Numeric("age", 17, 90, 37, integer=True),
        Numeric("gain", 0, 99_999, 50, integer=True),
        Categorical("town", ("a", "b", "c")),
    )
)


def sentences(document):
    return [finding["sentence"] for finding in document["verdict"]["findings"] if finding["off"]]


def evaluate_files(tmp_path, *arguments):
    out = tmp_path / "numbers.json"
    assert run(["evaluate", *map(str, arguments), "--json", str(out), "--quiet"]) == 0
    return json.loads(out.read_text())


def test_a_lost_peak_within_a_bin_is_never_called_close(tmp_path):
    real = gains()
    real.to_csv(tmp_path / "real.csv", index=False)
    through_bins(real, GAINS).to_csv(tmp_path / "synthetic.csv", index=False)
    save_domain(GAINS, tmp_path / "domain.yaml")
    document = evaluate_files(
        tmp_path, tmp_path / "real.csv", tmp_path / "synthetic.csv", "--domain", tmp_path / "domain.yaml"
    )
    assert document["verdict"]["grade"] != "close"
    assert any("gain" in text and "instead of" in text for text in sentences(document))


@pytest.fixture
def adult(tmp_path):
    """A folder with two halves of the Adult data, real.csv and other.csv."""
    if not ADULT.is_file():
        pytest.skip("the public data sets are not on this machine (set DPGM_DATA)")
    with gzip.open(ADULT, "rt") as source:
        lines = [line for line in source if line.strip()][:6000]
    (tmp_path / "real.csv").write_text("".join(lines[:3000]))
    (tmp_path / "other.csv").write_text("".join(lines[3000:]))
    return tmp_path


ADULT_OPTIONS = ("--no-header", "--missing", "?")


def test_adult_through_its_example_domain_is_never_called_close(adult):
    example = load_domain(EXAMPLE)
    fields = [  # with twenty equal bins per number, which the example leaves open
        dataclasses.replace(field, bins=min(20, int(field.high - field.low) + 1), missing=False)
        if isinstance(field, Numeric)
        else field
        for field in example.fields
    ]
    domain = adult / "equal.yaml"
    save_domain(Domain(tuple(fields), example.label), domain)
    other = read_records(adult / "other.csv", domain=domain, header=False, missing=("?",))
    dpgm.write_records(other, adult / "synthetic.csv", rng=np.random.default_rng(0))
    files = (adult / "real.csv", adult / "synthetic.csv")
    document = evaluate_files(adult, *files, "--domain", domain, *ADULT_OPTIONS)
    assert document["verdict"]["grade"] != "close"
    assert "capital-gain" in document["verdict"]["headline"]
    columns = {column["name"]: column for column in document["columns"]}
    assert columns["capital-gain"]["real_mode_share"] > 0.9 > 0.1 > columns["capital-gain"]["synthetic_mode_share"]


def test_with_an_open_domain_columns_are_compared_by_raw_values(adult):
    files = (adult / "real.csv", adult / "other.csv")
    document = evaluate_files(adult, *files, "--domain", EXAMPLE, *ADULT_OPTIONS)
    assert document["verdict"]["grade"] == "close"
    columns = {column["name"]: column for column in document["columns"]}
    assert columns["capital-gain"]["synthetic_mode_share"] > 0.9


def test_a_new_sample_is_close():
    assert verdict(evaluate(gains(), gains(seed=1))).grade == "close"


def test_figures_of_a_column_are_those_of_numpy():
    real = pandas.DataFrame({"x": [0.0, 0.0, 0.0, 1.0, 2.0, None, None, 10.0]})
    synthetic = pandas.DataFrame({"x": [0.0, 1.0, 1.0, 3.0, None, 4.0]})
    column = evaluate(real, synthetic).columns[0]
    values = real.x.dropna().to_numpy()
    assert column.real.missing == pytest.approx(0.25)
    assert column.synthetic.missing == pytest.approx(1 / 6)
    assert (column.real.mean, column.real.deviation) == pytest.approx((values.mean(), values.std()))
    assert column.real.quantiles[2] == 0.5
    assert (column.real.low, column.real.high) == (0.0, 10.0)
    assert (column.mode, column.real_mode_share) == ("1", pytest.approx(1 / 6)) or column.mode == "0"
    from scipy.stats import ks_2samp

    assert column.distance == pytest.approx(ks_2samp(values, synthetic.x.dropna()).statistic)


@pytest.mark.parametrize("make", [lambda f: f, polars.from_pandas, pa.Table.from_pandas])
def test_frames_of_any_package_are_compared_without_a_domain(make):
    made = evaluate(make(gains()), make(gains(seed=1)))
    assert made.data.kind == "table"
    assert [column.name for column in made.columns] == ["age", "gain", "town"]
    assert [column.kind for column in made.columns] == ["number", "number", "category"]


def test_dates_booleans_identifiers_and_empty_columns_are_recognised():
    rng = np.random.default_rng(0)
    count = 400
    frame = pandas.DataFrame(
        {
            "id": [f"person {at}" for at in range(count)],
            "born": pandas.Timestamp("1970-01-01") + pandas.to_timedelta(rng.integers(0, 9000, count), unit="D"),
            "seen": [str(day)[:10] for day in pandas.Timestamp("2020-01-01") + pandas.to_timedelta(rng.integers(0, 900, count), unit="D")],
            "smokes": rng.random(count) < 0.3,
            "empty": [None] * count,
            "money": np.where(rng.random(count) < 0.2, np.nan, rng.random(count).round(2)),
        }
    )  # fmt: skip
    made = evaluate(frame, frame)
    kinds = {column.name: column.kind for column in made.columns}
    assert kinds == {"born": "date", "seen": "date", "smokes": "category", "money": "number"}
    reasons = {entry.metric: entry.reason for entry in made.not_computed}
    assert "identifier" in reasons["raw values of the column 'id'"]
    assert "no value" in reasons["raw values of the column 'empty'"]


def test_frames_of_lists_and_of_zeros_and_ones_are_sets():
    rng = np.random.default_rng(0)
    lists = pandas.DataFrame({"bought": [rng.choice(["milk", "bread", "jam"], 2).tolist() for _ in range(60)]})
    assert evaluate(lists, lists).data.kind == "sets"
    ones = pandas.DataFrame(rng.integers(0, 2, (60, 5)), columns=list("abcde"))
    assert evaluate(ones, ones).data.kind == "sets"


def test_a_frame_is_compared_with_records_of_a_release():
    made = evaluate(gains(), dpgm.as_records(gains(seed=1), GAINS))
    assert "gain" in verdict(made).headline
    domain = {"fields": [{"name": "age", "kind": "numeric", "low": 17, "high": 90, "bins": 5, "integer": True}]}
    assert [column.name for column in evaluate(gains(), gains(seed=1), domain=domain).columns] == ["age"]


def test_records_alone_say_that_raw_values_are_not_compared():
    records = dpgm.as_records(gains(), GAINS)
    reasons = {entry.metric: entry.reason for entry in evaluate(records, records).not_computed}
    assert "files or frames" in reasons["raw values of columns"]


def test_tables_without_a_domain_are_compared_from_files(tmp_path, capsys):
    gains().to_csv(tmp_path / "real.csv", index=False)
    gains(seed=1).to_parquet(tmp_path / "synthetic.parquet")
    assert run(["evaluate", f"{tmp_path}/real.csv", f"{tmp_path}/synthetic.parquet"]) == 0
    printed = capsys.readouterr()
    assert "close stand-in" in printed.out
    assert "curator only" in printed.out
    assert "gain" in printed.out
    assert evaluate(tmp_path / "real.csv", tmp_path / "synthetic.parquet").data.kind == "table"


def test_json_is_a_flag_and_a_file(tmp_path, capsys):
    gains(300).to_csv(tmp_path / "a.csv", index=False)
    gains(300, seed=1).to_csv(tmp_path / "b.csv", index=False)
    both = [f"{tmp_path}/a.csv", f"{tmp_path}/b.csv"]
    for arguments in (["evaluate", "--json", *both], ["evaluate", *both, "--json"]):
        assert run(arguments) == 0
        assert json.loads(capsys.readouterr().out)["audience"].startswith("curator only")
    assert run(["evaluate", *both, "--json", f"{tmp_path}/n.json"]) == 0
    assert json.loads((tmp_path / "n.json").read_text())["data"]["kind"] == "table"


def test_long_files_are_thinned_evenly(tmp_path, monkeypatch):
    from dpgm.evaluation import file_inputs

    monkeypatch.setattr(file_inputs, "MOST_ROWS_READ", 100)
    table = pa.table({"x": np.arange(1000)})
    kept = file_inputs.RawRows(None, dpgm.ReadOptions())
    for at in range(0, 1000, 37):
        kept.add(table.slice(at, 37))
    rows = kept.table().column("x").to_numpy()
    assert 50 <= len(rows) <= 100
    assert len(set(np.diff(rows))) == 1


def test_a_constant_column_has_faults_only_if_it_changes():
    same = pandas.DataFrame({"x": [5] * 100, "y": [1, 2] * 50})
    assert all(not column_faults(column) for column in evaluate(same, same).columns)
    moved = same.assign(x=6)
    assert column_faults(evaluate(same, moved).columns[0])


def test_a_column_that_has_become_constant_is_listed_as_the_worst():
    rng = np.random.default_rng(0)
    real = pandas.DataFrame({"moved": rng.normal(size=400), "constant": rng.normal(size=400)})
    synthetic = pandas.DataFrame({"moved": rng.normal(size=400) + 3, "constant": [0.0] * 400})
    assert [column.name for column in columns_off(evaluate(real, synthetic))] == ["constant", "moved"]


def test_a_missing_item_of_a_list_is_no_item():
    real = pandas.DataFrame({"town": ["a", "b"] * 20, "bought": [["milk", None], ["jam"]] * 20})
    made = evaluate(real, real)
    assert made.data.kind == "mixed"
    assert made.items.single.real.tolist() == [0.5, 0.5, 0.0, 0.5, 0.5]


def people(count=1500, seed=0):
    """The number of children is missing for a few people; smoker is spelled in several ways."""
    rng = np.random.default_rng(seed)
    children = pandas.array(rng.poisson(1.2, count), dtype="Int64")
    children[rng.random(count) < 0.01] = pandas.NA
    smoker = rng.choice(["yes", "YES", "no", " No"], count)
    return pandas.DataFrame({"age": rng.integers(18, 90, count), "children": children, "smoker": smoker})


OPEN = {
    "fields": [
        {"name": "age", "kind": "numeric", "low": 0, "high": 110, "integer": True},
        {"name": "children", "kind": "numeric", "low": 0, "high": 12, "integer": True},
        {"name": "smoker", "kind": "boolean"},
    ]
}


def test_yes_is_true_where_the_domain_says_boolean_and_leaves_bins_open(tmp_path):
    real = people()
    boolean = real.assign(smoker=real["smoker"].str.strip().str.lower() == "yes")
    real.to_csv(tmp_path / "real.csv", index=False)
    boolean.to_csv(tmp_path / "boolean.csv", index=False)
    for made in (
        evaluate(real, boolean, domain=OPEN),
        evaluate(str(tmp_path / "real.csv"), str(tmp_path / "boolean.csv"), domain=OPEN),
    ):
        smoker = next(column for column in made.columns if column.name == "smoker")
        assert smoker.distance == 0


def test_a_frame_with_missing_values_too_rare_to_be_modelled_is_compared_with_a_sample():
    real = people().assign(smoker=True)
    randomness = SeededRandomness(1)
    made = dpgm.Synthesizer(epsilon=1.0, domain=OPEN, model="independent", randomness=randomness).fit(real)
    sample = made.sample(1500, seed=1)
    assert not sample.domain.field("children").missing
    with pytest.raises(dpgm.InputError, match="too few such rows to model them"):
        dpgm.as_records(real, sample.domain)
    for domain in (None, sample.domain):
        columns = evaluate(real, sample, domain=domain).columns
        children = next(column for column in columns if column.name == "children")
        assert children.real.missing == pytest.approx(real["children"].isna().mean())
        assert children.synthetic.missing == 0
