"""Public data for the comparison with peers, as Records; read from the folder named by DPGM_DATA."""

import gzip
import io
import os
import zipfile
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from dpgm.data.domain import Categorical, Domain, Field, Numeric
from dpgm.data.records import Records

DATA = Path(os.environ.get("DPGM_DATA", "/work/shared/data"))


def load(name: str) -> Records:
    """`msweb`, `retail`, `msnbc`, `nltcs` or `adult`; a tail such as `retail:16` keeps the most frequent items."""
    base, _, top = name.partition(":")
    readers = {"msweb": _msweb, "retail": _retail, "msnbc": _msnbc, "nltcs": _nltcs}
    if base == "adult":
        return adult("adult.data.gz")
    return _sets(readers[base](), int(top) if top else None)


def _sets(rows: Sequence[Iterable[int]], top: int | None) -> Records:
    counts = Counter(item for row in rows for item in row)
    items = sorted(item for item, _ in counts.most_common(top))
    place = {item: at for at, item in enumerate(items)}
    kept = [[place[item] for item in row if item in place] for row in rows]
    return Records.from_lists([row for row in kept if row or top is None], Domain.of_items(items))


def _msweb() -> list[list[int]]:
    rows: list[list[int]] = []
    with gzip.open(DATA / "msweb/anonymous-msweb.data.gz", "rt", encoding="latin-1") as lines:
        for line in lines:
            if line.startswith("C,"):
                rows.append([])
            elif line.startswith("V,"):
                rows[-1].append(int(line.split(",")[1]))
    return rows


def _retail() -> list[set[int]]:
    with gzip.open(DATA / "retail/retail.csv.gz", "rt") as lines:
        return [{int(item) for item in line.replace(",", " ").split()} for line in lines if line.strip()]


def _msnbc() -> list[set[int]]:
    with zipfile.ZipFile(DATA / "msnbc/msnbc990928.zip") as archive:
        text = io.TextIOWrapper(archive.open(archive.namelist()[0]), encoding="latin-1")
        split = (line.split() for line in text)
        return [{int(item) - 1 for item in parts} for parts in split if parts and all(p.isdigit() for p in parts)]


def _nltcs() -> list[list[int]]:
    files = sorted((DATA / "debd/nltcs").iterdir())
    tables = []
    for path in files:
        text = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
        tables.append(np.loadtxt(io.BytesIO(text), delimiter=",", dtype=np.uint8, ndmin=2))
    return [np.flatnonzero(row).tolist() for row in np.concatenate(tables)]


ADULT_NUMBERS = {  # public ranges: low, high, bins
    "age": (15, 95, 16),
    "fnlwgt": (0, 1_500_000, 15),
    "education_num": (0.5, 16.5, 16),
    "capital_gain": (0, 100_000, 20),
    "capital_loss": (0, 5_000, 20),
    "hours_per_week": (0, 100, 20),
}
ADULT_COLUMNS = [
    "age",
    "workclass",
    "fnlwgt",
    "education",
    "education_num",
    "marital_status",
    "occupation",
    "relationship",
    "race",
    "sex",
    "capital_gain",
    "capital_loss",
    "hours_per_week",
    "native_country",
    "income",
]


def adult(file: str) -> Records:
    """Census income with public bins and the category lists of both of its files."""
    tables = {}
    for name in ("adult.data.gz", "adult.test.gz"):
        with gzip.open(DATA / "adult" / name, "rt") as lines:
            split = [[cell.strip().rstrip(".") for cell in line.split(",")] for line in lines]
        tables[name] = [cells for cells in split if len(cells) == len(ADULT_COLUMNS)]
    fields: list[Field] = []
    for at, column in enumerate(ADULT_COLUMNS):
        if column in ADULT_NUMBERS:
            low, high, bins = ADULT_NUMBERS[column]
            fields.append(Numeric(column, low, high, bins))
        else:
            values = sorted({cells[at] for table in tables.values() for cells in table})
            fields.append(Categorical(column, tuple(values)))
    domain = Domain(tuple(fields), label="income")
    columns = list(zip(*tables[file], strict=True))
    codes = []
    for field, values in zip(fields, columns, strict=True):
        if isinstance(field, Numeric):
            numbers = (np.array(values, dtype=float) - field.low) / (field.high - field.low) * field.bins
            codes.append(np.clip(numbers.astype(np.int64), 0, field.bins - 1))
        else:
            place = {value: at for at, value in enumerate(field.values)}
            codes.append(np.array([place[value] for value in values]))
    return from_codes(np.stack(codes, axis=1), domain)


def from_codes(codes: np.ndarray, domain: Domain) -> Records:
    """Records of a table from its value numbers, one column a field."""
    indices = (codes + np.array(domain.offsets)).astype(np.int16)
    pointers = np.arange(len(codes) + 1, dtype=np.int64) * codes.shape[1]
    return Records(domain, pointers, indices.ravel())
