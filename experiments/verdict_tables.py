"""Tables on which the verdict is tried: a clinic with lists of codes, a survey, a shop, loans; and public ones."""

import csv
import gzip
import io
import zipfile
from collections.abc import Callable

import numpy as np
import pandas as pd
from data_folder import DATA
from table_data import FOLDER

WARDS = ("heart", "bone", "eye", "skin", "lung", "birth", "ENT children", "burns")
CODES = tuple(f"{letter}{number}" for letter in "ABCDEFGH" for number in range(10, 15))


def clinic(count: int, seed: int) -> pd.DataFrame:
    """Stays in hospital: bills grow with the stay and are 0 for private patients; codes depend on the ward."""
    rng = np.random.default_rng([seed, 1])
    ward = rng.choice(len(WARDS), count, p=[0.3, 0.25, 0.14, 0.1, 0.1, 0.077, 0.013, 0.02])
    birth, child = ward == 5, ward == 6
    adults = np.clip(58 + 17 * rng.normal(size=count), 18, 99).round()
    age = np.where(child, rng.integers(1, 13, count), np.where(birth, rng.integers(18, 45, count), adults))
    sex = np.where(birth | (rng.random(count) < 0.5), "f", "m")
    days = 1 + rng.poisson(rng.gamma(2, 1.5 + age / 40))
    insurance = rng.choice(["public", "private", "none"], count, p=[0.75, 0.2, 0.05])
    bill = np.where(insurance == "private", 0, 120 * days * np.exp(0.4 * rng.normal(size=count))).round(2)
    admitted = pd.Timestamp("2021-01-01") + pd.to_timedelta(rng.integers(0, 900, count), unit="D")
    weekend = rng.random(count) < 0.6
    admitted = admitted.where(~((admitted.day_of_week > 4) & weekend), admitted - pd.Timedelta(days=2))
    smokes = rng.random(count) < np.where(age < 18, 0, 0.3)
    own = rng.random((count, len(CODES))) < 0.02
    for at in range(5):
        own[np.arange(count), 5 * ward + at] |= rng.random(count) < 0.5 - 0.09 * at
    own[:, 0] |= rng.random(count) < (age > 65) * 0.35
    bmi = np.where(
        rng.random(count) < np.where(ward < 2, 0.05, 0.3), np.nan, (25 + 4 * rng.normal(size=count)).round(1)
    )
    return pd.DataFrame(
        {
            "ward": np.array(WARDS)[ward],
            "age": age.astype(int),
            "sex": sex,
            "admitted": admitted,
            "discharged": admitted + pd.to_timedelta(days, unit="D"),
            "insurance": insurance,
            "bill": bill,
            "bmi": bmi,
            "smokes": np.where(smokes, "yes", "no"),
            "cigarettes": np.where(smokes, rng.poisson(12, count) + 1.0, np.nan),
            "pregnant": np.where(
                (birth | (rng.random(count) < 0.03)) & (sex == "f") & (age > 17) & (age < 50), "yes", "no"
            ),
            "codes": [[CODES[at] for at in np.flatnonzero(row)] for row in own],
        }
    )


def survey(count: int, seed: int) -> pd.DataFrame:
    """Answers from 1 to 5 in four blocks, work and age, a question that is skipped, and an outcome of two answers."""
    rng = np.random.default_rng([seed, 2])
    frame = {}
    for block in "abcd":
        hidden = rng.normal(size=count)
        for at in range(1, 6):
            answer = np.clip(np.round(3 + 0.9 * hidden + 0.9 * rng.normal(size=count)), 1, 5)
            frame[f"{block}{at}"] = answer.astype(int)
    age = np.clip(48 + 17 * rng.normal(size=count), 16, 95).round()
    employed = rng.random(count) < np.where(age > 66, 0, 0.75)
    frame["age"] = age.astype(int)
    frame["employed"] = np.where(employed, "yes", "no")
    frame["years_worked"] = np.where(employed, np.floor((age - 15) * rng.beta(2, 2, count)), np.nan)
    frame["income"] = np.exp(7 + 0.5 * employed + 0.4 * rng.normal(size=count)).round(-1).astype(int)
    frame["happy"] = (8 - ((age - 48) / 17) ** 2 * 1.5 + rng.normal(size=count)).round(1)
    first, second = rng.random(count) < 0.5, rng.random(count) < 0.5
    frame["plan"] = np.where(first, "basic", "plus")
    frame["city"] = np.where(second, "north", "south")
    frame["renews"] = np.where(rng.random(count) < np.where(first ^ second, 0.75, 0.25), "yes", "no")
    return pd.DataFrame(frame)


def shop(count: int, seed: int) -> pd.DataFrame:
    """Orders: weekdays and seasons, prices by category, totals, discounts with spikes, and baskets."""
    rng = np.random.default_rng([seed, 3])
    day = pd.Timestamp("2022-01-01") + pd.to_timedelta(rng.integers(0, 730, 3 * count), unit="D")
    weight = np.where(day.day_of_week == 6, 0.2, 1) * (1 + 1.2 * np.isin(day.month, (11, 12)))
    ordered = pd.DatetimeIndex(rng.choice(day, count, replace=False, p=weight / weight.sum()))
    country = rng.choice(["DE", "AT", "CH", "LI", "IT"], count, p=[0.6, 0.2, 0.14, 0.02, 0.04])
    kind = rng.choice(["book", "toy", "tool", "coat"], count, p=[0.4, 0.3, 0.2, 0.1])
    base = np.select([kind == "book", kind == "toy", kind == "tool"], [15, 25, 60], 120) * np.where(
        country == "CH", 1.4, 1
    )
    price = (base * np.exp(0.35 * rng.normal(size=count))).round(2)
    quantity = 1 + rng.poisson(0.8, count)
    discount = np.where(
        rng.random(count) < 0.7, 0.0, np.where(rng.random(count) < 0.4, 10.0, rng.uniform(1, 30, count).round(1))
    )
    length = 1 + rng.poisson(np.where(kind == "book", 2.5, 1.2))
    goods = [f"{name}{at}" for name in ("book", "toy", "tool", "coat") for at in range(6)]
    start = np.select([kind == "book", kind == "toy", kind == "tool"], [0, 6, 12], 18)
    baskets = [
        sorted({goods[(s + rng.integers(6)) if rng.random() < 0.7 else rng.integers(24)] for _ in range(n)})
        for s, n in zip(start, length, strict=True)
    ]
    shipped = ordered + pd.to_timedelta(rng.geometric(np.where(country == "DE", 0.6, 0.3)) - 1, unit="D")
    coupon = np.where(discount > 0, rng.choice(["mail", "app", "paper"], count), "")
    return pd.DataFrame(
        {
            "ordered": ordered,
            "shipped": shipped,
            "country": country,
            "kind": kind,
            "price": price,
            "quantity": quantity,
            "total": (price * quantity).round(2),
            "discount": discount,
            "coupon": pd.Series(coupon).replace("", None),
            "basket": baskets,
            "goods": [len(basket) for basket in baskets],
            "rating": np.clip(np.round(4.5 - 0.5 * (shipped - ordered).days + rng.normal(size=count)), 1, 5).astype(
                int
            ),
        }
    )


TOWNS = {"Aachen": "052", "Bonn": "053", "Dresden": "010", "Hof": "095", "Halle": "061", "Kiel": "241"}


def loans(count: int, seed: int) -> pd.DataFrame:
    """Loans: parts that add up, a rate that grows with time, postcodes with leading zeros, office hours, paydays."""
    rng = np.random.default_rng([seed, 5])
    day = rng.integers(0, 1000, 4 * count)
    date = pd.Timestamp("2019-03-01") + pd.to_timedelta(day, unit="D")
    weight = np.where(date.day_of_week > 4, 0.05, 1) * np.where(np.isin(date.day, (1, 15)), 4, 1)
    chosen = rng.choice(len(day), count, replace=False, p=weight / weight.sum())
    hour = np.clip(rng.choice([10.5, 15.5], count, p=[0.6, 0.4]) + 1.3 * rng.normal(size=count), 8, 18)
    opened = date[chosen] + pd.to_timedelta((hour * 60).round(), unit="m")
    age = np.clip(43 + 14 * rng.normal(size=count), 18, 90).astype(int)
    town = rng.choice(len(TOWNS), count, p=[0.3, 0.25, 0.2, 0.05, 0.12, 0.08])
    street = rng.integers(0, 12, count)
    heads = list(TOWNS.values())
    postcode = [f"{heads[at]}{one:02d}" for at, one in zip(town, street, strict=True)]
    income = np.exp(7.8 + 0.01 * np.minimum(age, 60) + 0.5 * rng.normal(size=count))
    income = np.where(rng.random(count) < 0.7, (income / 500).round() * 500 + 500, income.round())
    amount = (income * rng.gamma(2, 1.5, count) / 100).round() * 100 + 500
    months = rng.choice([12, 24, 36, 48, 60], count, p=[0.2, 0.3, 0.25, 0.15, 0.1])
    rate = (2 + day[chosen] / 250 + 0.4 * rng.normal(size=count) + (age < 25)).round(2)
    fee, insurance = (amount * 0.01).round(2), np.where(rng.random(count) < 0.4, (amount * 0.02).round(2), 0.0)
    married = rng.random(count) < 0.55
    online = rng.random(count) < np.where(age < 40, 0.7, 0.2)
    strict = rng.random(count) < 0.5
    risk = 0.05 + 0.25 * (online ^ strict)
    score = 600 - 150 * risk + np.where(online, 15, 60) * rng.normal(size=count)
    late = rng.poisson(3 * risk)
    return pd.DataFrame(
        {
            "opened": opened,
            "closed": opened.normalize()
            + pd.to_timedelta(months * 30 - rng.geometric(0.01, count) % 300, unit="D"),
            "postcode": postcode,
            "town": np.array(list(TOWNS))[town],
            "age": age,
            "born": opened.year - age - (rng.random(count) < 0.5),
            "income": income.astype(int),
            "amount": amount,
            "fee": fee,
            "insurance": insurance,
            "total": (amount + fee + insurance).round(2),
            "months": months,
            "rate": rate,
            "online": np.where(online, "online", "branch"),
            "check": np.where(strict, "strict", "light"),
            "score": score.round(),
            "late": late,
            "partner": np.where(
                married, rng.choice(["employed", "retired", "home"], count, p=[0.6, 0.2, 0.2]), None
            ),
            "partner_income": np.where(married, (2000 * rng.gamma(3, 0.4, count)).round(), np.nan),
        }
    )


def adult(count: int, seed: int) -> pd.DataFrame:
    """Rows of the census data without repetition; an odd seed draws from the half that the even one below leaves."""
    names = [
        "age", "workclass", "fnlwgt", "education", "education-num", "marital", "occupation", "relationship", "race",
        "sex", "gain", "loss", "hours", "country", "income",
    ]  # fmt: skip
    rows: list[list[str]] = []
    for file in ("adult.data.gz", "adult.test.gz"):
        with gzip.open(DATA / "adult" / file, "rt") as lines:
            rows += [row for row in csv.reader(lines, skipinitialspace=True) if len(row) == len(names)]
    frame = pd.DataFrame(rows, columns=names).replace("?", None)
    frame["income"] = frame.income.str.rstrip(".")
    numbers = ["age", "fnlwgt", "education-num", "gain", "loss", "hours"]
    frame[numbers] = frame[numbers].astype(int)
    return _half(frame, count, seed)


def bank(count: int, seed: int) -> pd.DataFrame:
    """Rows of the bank's telephone campaign, drawn like those of `adult`."""
    with zipfile.ZipFile(DATA / "bank-marketing/data-society-bank-marketing-data.zip") as archive:
        text = archive.read("data-society-bank-marketing-data/bank-full.csv").decode()
    return _half(pd.read_csv(io.StringIO(text), sep=";"), count, seed)


def diamonds(count: int, seed: int) -> pd.DataFrame:
    """Diamonds with their prices, drawn like the rows of `adult`."""
    return _half(pd.read_csv(FOLDER / "diamonds.csv"), count, seed)


def acs(count: int, seed: int) -> pd.DataFrame:
    """People of the American Community Survey, drawn like the rows of `adult`; N stands for "does not apply"."""
    frame = pd.read_csv(FOLDER / "national2019.csv", dtype=str)
    for name in ("AGEP", "NOC", "NPF", "DENSITY", "PINCP", "POVPIP", "PWGTP", "WGTP"):
        frame[name] = pd.to_numeric(frame[name], errors="coerce")
    return _half(frame, count, seed)


def _half(frame: pd.DataFrame, count: int, seed: int) -> pd.DataFrame:
    order = np.random.default_rng([seed // 2, 4]).permutation(len(frame))
    half = order[seed % 2 :: 2]
    return frame.iloc[half[:count]].reset_index(drop=True)


TABLES: dict[str, Callable[[int, int], pd.DataFrame]] = {
    "clinic": clinic,
    "survey": survey,
    "shop": shop,
    "adult": adult,
    "bank": bank,
    "diamonds": diamonds,
    "acs": acs,
    "loans": loans,
}
