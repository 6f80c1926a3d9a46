"""No row changes how another is read, in every format and shape: a few hundred of the 20,000 pairs of `make assure RUNS=metamorphic`."""

import random
from pathlib import Path

import pytest

import metamorphic
from dpgm.data.formats.item_lines import plain_cells
from metamorphic import Violation, cases, run_case, small_blocks

CASES = {case.name: case for case in cases()}
PAIRS = 3


@pytest.mark.parametrize("name", CASES)
def test_no_row_changes_another(name, tmp_path):
    done = run_case(CASES[name], PAIRS, seed=1, folder=tmp_path)
    with small_blocks(16):
        done += run_case(CASES[name], PAIRS, seed=2, folder=tmp_path)
    assert done["pairs"] == 2 * PAIRS


def test_every_format_and_shape_has_a_case():
    from dpgm.data.formats import FORMATS, by_ending

    files = [case for case in CASES.values() if case.ending]
    read = {case.options.get("format") or by_ending(f"x{case.ending}").format.name for case in files}
    databases = {"sqlite", "duckdb", "postgresql"}  # formats/test_databases.py changes their rows
    assert read == {one.name for one in FORMATS} - databases
    for word in (
        "basket",
        "long",
        "events",
        "wide",
        "table",
        "pandas",
        "category",
        "polars",
        "arrow",
        "numpy",
        "scipy",
    ):
        assert any(word in name for name in CASES)


def whole_column(column, where):
    """A former bug: floats are converted to whole numbers only if all of a chunk are whole."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    values = column.drop_null().to_numpy(zero_copy_only=False)
    whole = bool(np.array_equal(values, np.floor(values)))
    return pc.cast(column, pa.int64(), safe=False).cast(pa.string()) if whole else column.cast(pa.string())


def numbers_again(text, separator):
    """A former bug: a block of texts that are all digits is read as numbers."""
    import pyarrow as pa

    found = plain_cells(text, separator)
    try:
        return None if found is None else (found[0].cast(pa.int64()).cast(pa.string()), found[1])
    except pa.ArrowInvalid:
        return found


def inferred_categories(series, place, read):
    """A former bug: Arrow takes the type of the first category and turns the others into it."""
    import pyarrow as pa

    try:
        return pa.array(series, from_pandas=True).dictionary_decode()
    except (pa.ArrowException, NotImplementedError):
        return read(series.astype(object).tolist(), place)


def fast_then_slow(series, name, how):
    """A bug: all objects are read in another way if one of them is no text."""
    import pyarrow as pa

    try:
        return pa.array(series, type=pa.string(), from_pandas=True)
    except pa.ArrowException:
        return pa.array([repr(value) for value in series])


def as_numbered(codes, vocabulary):
    """A bug: items at the same time are sorted by who had them first, in the whole file."""
    import numpy as np

    return codes, np.arange(len(vocabulary))


def as_they_come(people, times, ranks):
    """A bug: the events of a person keep the order of the file."""
    import numpy as np

    return np.argsort(people, kind="stable")


def rows_as_they_come(table, people, items, times):
    """A bug: an attribute is that of the first row in the file, not of the first in time."""
    import numpy as np

    return np.arange(len(people)), np.arange(len(people))


@pytest.mark.parametrize(
    ("target", "fault", "name"),
    [
        ("dpgm.data.kinds.sequence.name_ranks", as_numbered, "events.csv without a domain"),
        ("dpgm.data.kinds.sequence.in_order", as_they_come, "events.csv"),
        ("dpgm.data.read.event_rows._EventTable._runs", rows_as_they_come, "events.csv"),
        ("dpgm.data.read.pandas_columns._categories", inferred_categories, "open pandas table of categories"),
        ("dpgm.data.read.pandas_columns._column", fast_then_slow, "open pandas odd objects"),
        ("dpgm.data.values._float_texts", whole_column, "table parquet doubles"),
        ("dpgm.data.values._float_texts", whole_column, "long parquet doubles"),
        ("dpgm.data.formats.item_lines.plain_cells", numbers_again, "basket.csv texts"),
    ],
)
def test_planted_faults_are_found(target, fault, name, tmp_path, monkeypatch):
    monkeypatch.setattr(target, fault)
    with pytest.raises(Violation):
        run_case(CASES[name], 300, seed=0, folder=tmp_path)


def test_rows_come_at_the_beginning_in_the_middle_and_at_the_end():
    case = CASES["fimi numbers"]
    rows = ["first", "middle", "last"]
    made = list(metamorphic.neighbours(random.Random(0), case, rows))
    lengths = sorted(len(one) for one in made)
    assert lengths == [2] * 3 + [3] * 3 + [4] * 4
    assert [one for one in made if len(one) == 2 and one[0] == "middle"]
    assert Path(metamorphic.__file__).parent.name == "harness"
