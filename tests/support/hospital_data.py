"""A hospital's table as untidy as such files are: ids, dates, booleans in several spellings, free text, gaps, money, codes."""

import csv
import datetime
from pathlib import Path

import numpy as np

CODES = {"I10": 0.35, "E11.9": 0.2, "J45.0": 0.12, "N39.0": 0.1, "K21.0": 0.08, "F32.1": 0.06}
WORDS = [
    "patient",
    "reports",
    "mild",
    "chest",
    "pain",
    "since",
    "yesterday,",
    "x-ray",
    "normal;",
    "advised",
    "rest",
    "and",
    "a",
    "check",
    "of",
    "labs",
]
ITEMS = ("--item-separator", ";")


def hospital_rows(count, seed=0):
    draws = np.random.default_rng(seed)
    rows = []
    for number in range(count):
        age = int(np.clip(draws.normal(58, 19), 0, 101))
        admitted = datetime.date(2021, 1, 1) + datetime.timedelta(days=int(draws.integers(0, 730)))
        stay = int(min(60, draws.geometric(0.22) - 1 + (age > 70) * draws.integers(0, 5)))
        left = admitted + datetime.timedelta(days=stay)
        codes = [code for code, share in CODES.items() if draws.random() < share * (1 + (age > 60))]
        rows.append(
            {
                "patient_id": f"P{100_000 + 7 * number}",
                "admission": admitted.isoformat(),
                "discharge": left.isoformat() if draws.random() > 0.03 else "",
                "age": age if draws.random() > 0.05 else "",
                "sex": str(draws.choice(["F", "M"])),
                "emergency": str(draws.choice(["yes", "no"], p=[0.4, 0.6])),
                "insured": str(draws.choice(["True", "False"], p=[0.8, 0.2])),
                "smoker": str(draws.choice(["Y", "N", ""], p=[0.2, 0.65, 0.15])),
                "died": int(draws.random() < 0.03 + 0.06 * (age > 75)),
                "ward": str(draws.choice(["Cardiology", "Surgery, general", "Medicine"], p=[0.2, 0.3, 0.5])),
                "cost": f"{np.exp(draws.normal(6.2, 0.5)) + 410.5 * stay:.2f}",
                "copay": f"{0 if draws.random() < 0.6 else 10 * draws.integers(1, 4):.2f}",
                "diagnoses": ";".join(codes or ["Z00.0"]),
                "notes": " ".join(draws.choice(WORDS, 9)) + f" {number}",
                "unused": "",
            }
        )
    return rows


def write_rows(rows, path: Path) -> Path:
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return path
