"""Four commands on an untouched hospital file: no error, types back, and a verdict that sees a fault in any one column."""

import csv

import numpy as np
import pandas as pd
import pytest

from dpgm.cli.app import run
from hospital_data import ITEMS, hospital_rows, write_rows

# Every row is another person, as the curator knows; tests turn warnings into errors.
pytestmark = pytest.mark.filterwarnings("ignore:.*named like an identifier of persons")

MODELLED = [
    "admission",
    "discharge",
    "age",
    "sex",
    "emergency",
    "insured",
    "smoker",
    "died",
    "ward",
    "cost",
    "copay",
    "diagnoses",
]


@pytest.fixture(scope="module")
def hospital(tmp_path_factory):
    folder = tmp_path_factory.mktemp("hospital")
    data, draft = str(write_rows(hospital_rows(1500), folder / "hospital.csv")), str(folder / "domain.yaml")
    lists = (*ITEMS, "--kind", "diagnoses=items")
    assert run(["inspect", data, *lists, "--draft-domain", draft]) == 0
    # The one line that `inspect` suggests to write.
    text = (folder / "domain.yaml").read_text()
    text = text.replace("{name: discharge, kind: date,", "{name: discharge, kind: date, after: admission,")
    (folder / "domain.yaml").write_text(text)
    fitted = ("--epsilon", "5", "--out", str(folder / "release"), "--quiet")
    assert run(["fit", data, *ITEMS, "--domain", draft, "--discover", *fitted]) == 0
    assert run(["sample", str(folder / "release"), "--out", str(folder / "synthetic.csv"), "--quiet"]) == 0
    return folder


def judged(folder, synthetic, capsys):
    compared = (str(folder / "hospital.csv"), str(synthetic), *ITEMS, "--domain", str(folder / "domain.yaml"))
    capsys.readouterr()
    assert run(["evaluate", *compared]) == 0
    return capsys.readouterr().out.partition("raw values")[0]


def test_the_sample_has_the_columns_and_types_of_the_file(hospital):
    real, made = (pd.read_csv(hospital / name) for name in ("hospital.csv", "synthetic.csv"))
    assert list(made.columns) == ["patient_id", *MODELLED]
    assert len(made) == len(real)
    assert made.patient_id.is_unique
    for name in ("sex", "emergency", "smoker", "ward"):
        assert set(made[name].dropna()) <= set(real[name].dropna()), name
    assert made.insured.dtype == bool
    assert made.died.dtype == real.died.dtype
    ages = made.age.dropna()
    assert (ages == ages.round()).all()
    assert ages.between(-1, 128).mean() > 0.99  # in one fit of 25 noise widens the range by a power of two
    assert ages.between(-256, 256).all()
    for name in ("admission", "discharge"):
        assert (
            pd.to_datetime(made[name].dropna(), format="%Y-%m-%d").between("2015-01-01", "2027-01-01").mean() > 0.9
        )
    with (hospital / "synthetic.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    for name in ("cost", "copay"):
        assert all(len(row[name].partition(".")[2]) == 2 for row in rows if row[name]), name
    stays = [
        (pd.to_datetime(one.discharge) - pd.to_datetime(one.admission)).dt.days.dropna() for one in (real, made)
    ]
    assert stays[1].min() >= 0
    assert abs(stays[0].median() - stays[1].median()) <= 2
    codes = {code for cell in made.diagnoses.dropna() for code in cell.split(";")}
    assert codes <= {"I10", "E11.9", "J45.0", "N39.0", "K21.0", "F32.1", "Z00.0"}


def test_the_verdict_is_good_for_other_people_of_the_same_kind(hospital, capsys):
    fresh = write_rows(hospital_rows(1500, seed=1), hospital / "fresh.csv")
    printed = judged(hospital, fresh, capsys)
    assert "close stand-in" in printed
    assert "worst columns" not in printed


FAULTS = {
    "admission": lambda row: row | {"admission": "2031" + row["admission"][4:]},
    "discharge": lambda row: row | {"discharge": ""},
    "age": lambda row: row | {"age": 0},
    "sex": lambda row: row | {"sex": "F"},
    "emergency": lambda row: row | {"emergency": "yes"},
    "insured": lambda row: row | {"insured": {"True": "false", "False": "true"}[row["insured"]]},
    "smoker": lambda row: row | {"smoker": row["smoker"] or "N"},
    "died": lambda row: row | {"died": 1 - row["died"]},
    "ward": lambda row: row | {"ward": "Surgery"},
    "cost": lambda row: row | {"cost": f"{10 * float(row['cost']):.2f}"},
    "copay": lambda row: row | {"copay": "5.00"},
    "diagnoses": lambda row: row | {"diagnoses": "Z00.0"},
}


@pytest.mark.parametrize("column", FAULTS)
def test_a_fault_in_one_column_is_named(hospital, capsys, column):
    assert set(FAULTS) == set(MODELLED)
    rows = [FAULTS[column](row) for row in hospital_rows(1500, seed=1)]
    printed = judged(hospital, write_rows(rows, hospital / f"{column}.csv"), capsys)
    assert "close stand-in" not in printed
    assert column in printed
    others = np.array([other in printed.splitlines()[0] for other in MODELLED if other != column])
    assert not others.any(), printed.splitlines()[0]
