"""The public data sets of the fidelity experiment, by name, read from the folder of shared data."""

import gzip
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from web_logs import read_web_log

from dpgm import read_records
from dpgm.data.domain import Categorical, Domain, Field, Numeric
from dpgm.data.records import Records
from dpgm.data.simulate import simulate_transit
from dpgm.evaluation.counting_queries import item_frequencies

SETS = (
    "msnbc",
    "msweb",
    "retail",
    "tw_ny",
    "tw_ny 1303",
    "transit",
    "nltcs",
    "msweb16",
    "retail16",
    "plants",
    "accidents",
)
TABLES = ("adult",)


@dataclass(frozen=True)
class Data:
    """Records to fit, and for tables rows that no fit has seen."""

    records: Records
    test: Records | None = None


def load(name: str, folder: Path) -> Data:
    """A data set by name; `name.npz` in the folder, where `store` has put it, is read without any further library."""
    if (folder / f"{name}.npz").exists():
        with np.load(folder / f"{name}.npz") as stored:
            return Data(Records(Domain.of_items(int(stored["width"])), stored["indptr"], stored["indices"]))
    if name == "adult":
        return Data(adult(folder / "adult", "adult.data.gz"), adult(folder / "adult", "adult.test.gz"))
    return Data(_sets(name, folder))


def store(name: str, folder: Path, target: Path) -> None:
    """Copy an item set in a form that needs numpy alone."""
    records = load(name, folder).records
    target.mkdir(parents=True, exist_ok=True)
    parts = {"indptr": records.indptr, "indices": records.indices, "width": np.array(records.width)}
    np.savez_compressed(target / f"{name}.npz", **parts)  # type: ignore[arg-type]


def _sets(name: str, folder: Path) -> Records:
    web = folder / "msweb/anonymous-msweb.data.gz"
    retail = folder / "retail/retail.csv.gz"
    places = [folder / f"repeat-consumption/tw_ny/{part}.csv.gz" for part in ("train", "validation", "test")]
    long = {"shape": "long", "header": False, "person": "0", "item": "1"}
    readers: dict[str, Callable[[], Records]] = {
        "msnbc": lambda: read_web_log(folder / "msnbc/msnbc990928.zip"),
        "msweb": lambda: read_web_log(web),
        "msweb16": lambda: most_frequent(read_web_log(web), 16, drop_empty=False),
        "retail": lambda: most_frequent(
            read_records(retail, assume_public_items=True, shape="basket"), 1000, drop_empty=True
        ),
        "retail16": lambda: most_frequent(
            read_records(retail, assume_public_items=True, shape="basket"), 16, drop_empty=False
        ),
        "tw_ny": lambda: most_frequent(
            read_records(places, assume_public_items=True, **long), 342, drop_empty=True
        ),
        "tw_ny 1303": lambda: most_frequent(
            read_records(places, assume_public_items=True, **long), 1303, drop_empty=True
        ),
        "transit": lambda: simulate_transit(1_200_000, seed=0),
    }
    for binary in ("nltcs", "plants", "accidents"):
        parts = [folder / f"debd/{binary}/{binary}.{part}.data.gz" for part in ("train", "valid", "test")]
        readers[binary] = lambda parts=parts: read_records(  # type: ignore[misc]
            parts, assume_public_items=True, shape="wide", header=False
        )
    return readers[name]()


def most_frequent(records: Records, items: int, drop_empty: bool) -> Records:
    """The records cut to their most frequent items (the list of items is taken as public)."""
    order = np.argsort(-item_frequencies(records), kind="stable")[:items]
    place = np.full(records.width, -1)
    place[order] = np.arange(items)
    rows = np.repeat(np.arange(len(records)), records.lengths)
    inside = place[records.indices] >= 0
    keys = np.sort(rows[inside] * items + place[records.indices[inside]])
    lengths = np.bincount(keys // items, minlength=len(records))
    lengths = lengths[lengths > 0] if drop_empty else lengths
    indptr = np.concatenate([[0], np.cumsum(lengths)])
    return Records(Domain.of_items(items), indptr, (keys % items).astype(np.int16))


ADULT_NUMBERS = {  # public ranges: low, high, bins
    "age": (15, 95, 16),
    "fnlwgt": (0, 1_500_000, 15),
    "education_num": (0.5, 16.5, 16),
    "capital_gain": (0, 100_000, 20),
    "capital_loss": (0, 5_000, 20),
    "hours_per_week": (0, 100, 20),
}
ADULT_COLUMNS = (
    "age", "workclass", "fnlwgt", "education", "education_num", "marital_status", "occupation", "relationship",
    "race", "sex", "capital_gain", "capital_loss", "hours_per_week", "native_country", "income",
)  # fmt: skip


def adult(folder: Path, file: str) -> Records:
    """Census income with public bins and the category lists of both of its files; 211 positions."""
    tables = {}
    for name in ("adult.data.gz", "adult.test.gz"):
        with gzip.open(folder / name, "rt") as lines:
            split = [[cell.strip().rstrip(".") for cell in line.split(",")] for line in lines]
        tables[name] = [cells for cells in split if len(cells) == len(ADULT_COLUMNS)]
    fields: list[Field] = []
    codes = []
    columns = list(zip(*tables[file], strict=True))
    for at, column in enumerate(ADULT_COLUMNS):
        if column in ADULT_NUMBERS:
            low, high, bins = ADULT_NUMBERS[column]
            fields.append(Numeric(column, low, high, bins))
            numbers = (np.array(columns[at], dtype=float) - low) / (high - low) * bins
            codes.append(np.clip(numbers.astype(np.int64), 0, bins - 1))
        else:
            values = sorted({cells[at] for table in tables.values() for cells in table})
            fields.append(Categorical(column, tuple(values)))
            place = {value: number for number, value in enumerate(values)}
            codes.append(np.array([place[value] for value in columns[at]]))
    return from_codes(np.stack(codes, axis=1), Domain(tuple(fields), label="income"))


def from_codes(codes: np.ndarray, domain: Domain) -> Records:
    """Records of a table from its value numbers, one column a field."""
    indices = (codes + np.array(domain.offsets)).astype(np.int16)
    pointers = np.arange(len(codes) + 1, dtype=np.int64) * codes.shape[1]
    return Records(domain, pointers, indices.ravel())
