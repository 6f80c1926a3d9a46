"""Tables that relations between columns are measured on: four public ones, and tables made here whose truth is known.

Public tables come in public, equally wide bins, as in `tables.py`, with rows on which boosting is tested. Diamonds
(53,940 rows of ggplot2) and the national ACS excerpt of NIST (27,253 rows) are read from the folder `public_tables`
beside the repository, or DPGM_TABLES:

    diamonds.csv       github.com/mwaskom/seaborn-data
    national2019.csv   github.com/usnistgov/SDNist, "diverse communities data excerpts"

Made tables are Arrow tables with the values that a user would have in a file.
"""

import os
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import tables
from data_folder import DATA

import dpgm

FOLDER = Path(os.environ.get("DPGM_TABLES") or Path(__file__).parents[2] / "public_tables")
BINS = 32
DIAMONDS = {
    "carat": (0.2, 3),
    "depth": (55, 70),
    "table": (50, 70),
    "price": (0, 19_000),
    "x": (3.5, 9.5),
    "y": (3.5, 9.5),
    "z": (2, 6),
}
ACS = {
    "AGEP": (0, 96),
    "NOC": (0, 16),
    "NPF": (0, 16),
    "DENSITY": (0, 32_000),
    "PINCP": (-10_000, 310_000),
    "POVPIP": (0, 512),
    "PWGTP": (0, 640),
    "WGTP": (0, 640),
}
ACS_CATEGORIES = (
    "PUMA", "SEX", "MSP", "HISP", "RAC1P", "HOUSING_TYPE", "OWN_RENT", "INDP", "INDP_CAT", "EDU", "PINCP_DECILE",
    "DVET", "DREM", "DPHY", "DEYE", "DEAR",
)  # fmt: skip


# -- public tables ------------------------------------------------------------------------------------------


def public(name: str) -> tables.Table:
    """Adult, bank marketing, diamonds or the ACS excerpt, in public bins."""
    if name in tables.BINS:
        return tables.load(name, DATA)
    return {"diamonds": diamonds, "nist": acs}[name]()


def diamonds() -> tables.Table:
    """Seven numbers in 32 bins, colour, clarity, and whether the cut is ideal: the label."""
    frame = pd.read_csv(FOLDER / "diamonds.csv")
    frame["cut"] = np.where(frame["cut"] == "Ideal", "ideal", "other")
    fields: list[dpgm.Numeric | dpgm.Categorical] = []
    for column in frame.columns:
        if column in DIAMONDS:
            fields.append(dpgm.Numeric(column, *DIAMONDS[column], bins=BINS))
        else:
            fields.append(dpgm.Categorical(column, tuple(sorted(frame[column].unique()))))
    return _public("diamonds", frame, dpgm.Domain(tuple(fields), label="cut"))


def acs() -> tables.Table:
    """The 24 columns of the ACS excerpt; the label is whether the home is owned."""
    frame = pd.read_csv(FOLDER / "national2019.csv", dtype=str)[[*ACS, *ACS_CATEGORIES]]
    frame["OWN_RENT"] = np.where(frame["OWN_RENT"] == "1", "owned", "not owned")
    fields: list[dpgm.Numeric | dpgm.Categorical] = []
    for column in frame.columns:
        if column in ACS:
            low, high = ACS[column]
            frame[column] = pd.to_numeric(frame[column], errors="coerce")
            has_gaps = bool(frame[column].isna().any())
            fields.append(dpgm.Numeric(column, low, high, bins=min(BINS, high), missing=has_gaps))
        else:
            fields.append(dpgm.Categorical(column, tuple(sorted(frame[column].unique()))))
    return _public("nist", frame, dpgm.Domain(tuple(fields), label="OWN_RENT"))


def _public(name: str, frame: pd.DataFrame, domain: dpgm.Domain) -> tables.Table:
    """All rows in bins; boosting is tested on these rows, there being no others."""
    rows = dpgm.as_records(pa.Table.from_pandas(frame, preserve_index=False), domain=domain)
    return tables.Table(name, rows, rows, rows)


# -- made tables --------------------------------------------------------------------------------------------

Made = tuple[pa.Table, dpgm.Domain]


def survey(seed: int = 0, rows: int = 3_000, factors: int = 5, questions: int = 12) -> Made:
    """Answers from 1 to 5; questions of one factor correlate by .5, others not at all."""
    draws = np.random.default_rng(seed)
    loading = 0.547  # of the normals behind the answers; the answers then correlate by .5
    columns = {}
    for factor in range(factors):
        common = draws.normal(size=rows)
        for question in range(questions):
            hidden = np.sqrt(loading) * common + np.sqrt(1 - loading) * draws.normal(size=rows)
            edges = np.array([-1.4, -0.6, 0.2, 1.0]) + np.linspace(-0.5, 0.5, questions)[question]
            columns[f"f{factor}_q{question}"] = 1 + np.searchsorted(edges, hidden)
    table = pa.table(columns)
    return table, dpgm.Domain.draft(table)


def stated_survey(seed: int = 0) -> Made:
    """The same, and the domain states that answers are from 1 to 5."""
    table, _ = survey(seed)
    names = table.column_names
    return table, dpgm.Domain(tuple(dpgm.Numeric(name, 1, 5, integer=True, bins=5) for name in names))


WARDS = {  # share of patients, typical age, typical stay in days
    "general medicine": (0.20, 68, 3),
    "surgery": (0.16, 55, 5),
    "eyes": (0.14, 72, 2),
    "heart": (0.12, 70, 7),
    "births": (0.10, 30, 4),
    "skin": (0.08, 45, 1),
    "nerves": (0.07, 60, 6),
    "lungs": (0.06, 66, 3),
    "psychiatry": (0.045, 40, 9),
    "children, ear nose throat": (0.025, 6, 2),
}


def clinic(seed: int = 0, rows: int = 30_000) -> Made:
    """Eleven columns, one of them a list of codes that depend on the ward; private patients never have a zero bill."""
    draws = np.random.default_rng(seed)
    share, age, days = (np.array(one) for one in zip(*WARDS.values(), strict=True))
    ward = draws.choice(len(WARDS), rows, p=share / share.sum())
    child = age[ward] < 18
    ages = np.clip(draws.normal(age[ward], np.where(child, 3, 14)), np.where(child, 1, 16), np.where(child, 14, 99))
    stay = draws.poisson(days[ward] * draws.gamma(2, 0.5, rows))
    private = draws.random(rows) < 0.2
    bill = np.round(np.exp(draws.normal(5, 0.75, rows)) * (1 + stay), 2)
    bill[~private & (draws.random(rows) < 0.06)] = 0
    admitted = np.datetime64("2021-01-01") + draws.integers(0, 730, rows)
    weights = draws.dirichlet(np.full(30, 0.15), len(WARDS))
    names = np.array([f"{letter}{number}" for letter in "EIJ" for number in range(10, 20)])
    codes = [sorted(set(draws.choice(names, 1 + draws.poisson(1.0), p=weights[at]))) for at in ward]
    table = pa.table(
        {
            "ward": np.array(list(WARDS))[ward],
            "age": ages.astype(np.int64),
            "sex": np.where(ward == list(WARDS).index("births"), "F", draws.choice(["F", "M"], rows)),
            "insurance": np.where(private, "private", "public"),
            "admitted": pa.array(admitted.astype("datetime64[D]")),
            "left": pa.array((admitted + stay).astype("datetime64[D]")),
            "bill": bill,
            "postcode": [f"P{10 + at}" for at in np.minimum(79, draws.geometric(0.05, rows))],
            "bmi": np.round(np.where(child, 16, 26) + draws.gamma(3, 1.2, rows) - 3.6, 1),
            "emergency": draws.random(rows) < np.where(stay > 4, 0.6, 0.3),
            "codes": codes,
        }
    )
    draft = dpgm.Domain.draft(table)
    fields = tuple(
        dpgm.Date("left", "discover", "discover", after="admitted") if field.name == "left" else field
        for field in draft.fields
    )
    return table, replace(draft, fields=fields)


def skip_rule(seed: int = 0, rows: int = 30_000) -> Made:
    """Only those who have a car say which kind and how many kilometres; others say nothing."""
    draws = np.random.default_rng(seed)
    region = draws.integers(0, 8, rows)
    has_car = draws.random(rows) < 0.3 + 0.06 * region
    kind = np.array(["petrol", "diesel", "electric", "hybrid"])[draws.choice(4, rows, p=[0.5, 0.25, 0.15, 0.1])]
    kilometres = np.round(draws.gamma(3, 4_000, rows), -2)
    columns = {
        "region": np.array([f"region {one}" for one in "ABCDEFGH"])[region],
        "age": draws.integers(18, 90, rows),
        "car": np.where(has_car, "yes", "no"),
        "kind of car": np.where(has_car, kind, None),
        "kilometres": pa.array(kilometres.astype(np.int64), mask=~has_car),
        "household": draws.choice([1, 2, 3, 4, 5], rows, p=[0.35, 0.3, 0.15, 0.14, 0.06]),
    }
    for question in range(6):
        columns[f"opinion {question}"] = draws.integers(1, 6, rows)
    table = pa.table(columns)
    return table, dpgm.Domain.draft(table)


def age_rule(seed: int = 0, rows: int = 30_000) -> Made:
    """Nobody below 15 or above 66 is employed."""
    draws = np.random.default_rng(seed)
    age = np.clip(draws.normal(42, 23, rows), 0, 95).astype(np.int64)
    employed = (age >= 15) & (age <= 66) & (draws.random(rows) < 0.75)
    status = np.where(age < 15, "child", np.where(age > 66, "retired", "looking for work"))
    income = np.round(np.exp(draws.normal(7.6, 0.5, rows)), -1) * np.where(employed, 1, 0.4) * (age >= 15)
    columns = {
        "age": age,
        "status": np.where(employed, "employed", status),
        "income": income.astype(np.int64),
        "sex": draws.choice(["F", "M"], rows),
        "region": np.array([f"region {one}" for one in "ABCDEFGHIJ"])[draws.integers(0, 10, rows)],
        "education": draws.choice(["none", "school", "trade", "degree"], rows, p=[0.2, 0.35, 0.3, 0.15]),
        "rooms": draws.integers(1, 8, rows),
    }
    table = pa.table(columns)
    return table, dpgm.Domain.draft(table)


def smooth(seed: int = 0, rows: int = 30_000) -> Made:
    """No gaps, and no value that is more frequent than its neighbours."""
    draws = np.random.default_rng(seed)
    height = draws.normal(171, 9, rows)
    table = pa.table(
        {
            "height": np.round(height, 1),
            "weight": np.round(height - 100 + draws.normal(0, 10, rows), 1),
            "year": draws.integers(1930, 2005, rows),
            "distance": np.round(draws.gamma(2, 7, rows), 2),
            "day": pa.array(np.datetime64("2020-01-01") + draws.integers(0, 900, rows)),
            "score": draws.binomial(60, 0.55, rows),
            "race": draws.choice(["a", "b", "c", "d"], rows, p=[0.6, 0.2, 0.15, 0.05]),
            "health": draws.choice(["good", "fair", "poor"], rows),
        }
    )
    return table, dpgm.Domain.draft(table)


def parity(seed: int = 0, rows: int = 30_000, order: int = 3) -> Made:
    """Coins, and a label that is the parity of the first `order` of them."""
    draws = np.random.default_rng(seed)
    coins = draws.random((rows, 8)) < 0.5
    columns: dict[str, np.ndarray] = {f"coin {at}": coins[:, at] for at in range(8)}
    columns["label"] = np.where(coins[:, :order].sum(1) % 2, "odd", "even")
    table = pa.table(columns)
    return table, replace(dpgm.Domain.draft(table), label="label")


def causal(seed: int = 0, rows: int = 30_000) -> Made:
    """Severity makes treatment likely and recovery unlikely; treatment helps: the sign turns once severity is held."""
    draws = np.random.default_rng(seed)
    age = np.clip(draws.normal(50, 18, rows), 18, 95)
    severity = np.clip(np.round(age / 25 + draws.normal(0, 1, rows)), 0, 5).astype(np.int64)
    treated = draws.random(rows) < 0.1 + 0.16 * severity
    recovered = draws.random(rows) < np.clip(0.85 - 0.15 * severity + 0.2 * treated, 0.02, 0.98)
    columns = {
        "age": age.astype(np.int64),
        "severity": severity,
        "treated": np.where(treated, "yes", "no"),
        "recovered": np.where(recovered, "yes", "no"),
        "days": np.where(recovered, 3, 9) + draws.poisson(severity, rows),
        "site": draws.choice(["north", "south", "west"], rows),
    }
    table = pa.table(columns)
    return table, dpgm.Domain.draft(table)


MADE: dict[str, Callable[[], Made]] = {
    "survey": survey,
    "stated survey": stated_survey,
    "clinic": clinic,
    "skip rule": skip_rule,
    "age rule": age_rule,
    "smooth": smooth,
    "causal": causal,
} | {f"parity {order}": partial(parity, order=order) for order in range(3, 8)}
