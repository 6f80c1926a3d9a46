"""Copies of real records are found; records that are equal by chance are not called copies.

The synthetic data is always a new sample of the population, reduced or thinned as in a release, with or without real
records among it.
"""

from functools import cache

import numpy as np
import pandas
import pyarrow as pa
import pytest

from dpgm.data.records import Records, concatenate
from dpgm.data.simulate import simulate_transit
from dpgm.evaluation.copies import copies_of_records, copies_of_rows
from dpgm.evaluation.evaluate import evaluate
from dpgm.evaluation.raw_columns import raw_columns
from dpgm.evaluation.verdict import verdict

PEOPLE = 5_000


def with_entries(records, chosen):
    """The records, reduced to the chosen ones of their entries."""
    owners = np.repeat(np.arange(len(records)), records.lengths)[chosen]
    lengths = np.bincount(owners, minlength=len(records))
    return Records.from_flat(records.indices[chosen], lengths, records.domain)


@cache
def towns(seed, people=PEOPLE):
    """Real people, equally many new people, and the places sorted by popularity."""
    both = simulate_transit(records=2 * people, seed=seed)
    popularity = np.argsort(-np.bincount(both.indices, minlength=both.width))
    return both.take(np.arange(people)), both.take(np.arange(people, 2 * people)), popularity


def restricted_to(records, places):
    """The records as a release would hold them that discovered only these places."""
    return with_entries(records, np.isin(records.indices, places))


def has_copies(real, synthetic):
    measured = copies_of_records(real, synthetic)
    return measured is not None and measured.copied > measured.limit


@pytest.mark.parametrize("places", [20, 40, 100, 342])
@pytest.mark.parametrize("seed", range(3))
def test_fresh_people_with_few_places_are_no_copies(seed, places):
    real, new, popular = towns(seed)
    new = restricted_to(new, popular[:places])
    shorter = with_entries(new, np.random.default_rng(seed).random(len(new.indices)) < 0.8)
    for synthetic in (new, shorter, new.take(np.arange(500))):
        assert not has_copies(real, synthetic)


@pytest.mark.parametrize(("places", "cut"), [(40, True), (100, True), (342, True), (20, False), (40, False)])
@pytest.mark.parametrize("seed", range(3))
def test_one_copy_in_twenty_is_found_also_among_few_places(seed, places, cut):
    """Whether whole records are copied (`cut` is false), or only their discovered places."""
    real, new, popular = towns(seed)
    new = restricted_to(new, popular[:places])
    copied = real.take(np.arange(PEOPLE // 20))
    copied = restricted_to(copied, popular[:places]) if cut else copied
    assert has_copies(real, concatenate([new.take(np.arange(PEOPLE - len(copied))), copied]))


def test_the_verdict_on_a_release_of_few_places_is_not_copies():
    real, new, popular = towns(0)
    judged = verdict(evaluate(real, restricted_to(new, popular[:20]), baselines={}))
    assert judged.grade == "rough"
    assert not any("equal a real record" in text for text in judged.bad)


COLUMNS = ("work", "town", "school", "family", "car", "paper")


def rows(seed, count, values=8):
    """A table of six correlated categories, in which small values are the most frequent."""
    rng = np.random.default_rng(seed)
    factor = rng.random(count)
    return pandas.DataFrame(
        {name: (values * (0.7 * factor + 0.3 * rng.random(count)) ** 3).astype(int) for name in COLUMNS}
    ).astype(str)


def has_copied_rows(real, synthetic):
    tables = [pa.Table.from_pandas(side, preserve_index=False) for side in (real, synthetic)]
    measured = copies_of_rows(raw_columns(*tables).columns)
    return measured.copied > measured.limit


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("values", [3, 5, 8])
def test_fresh_rows_with_frequent_values_alone_are_no_copies(seed, values):
    real, new = rows(seed, 4_000), rows(seed + 100, 4_000)
    assert not has_copied_rows(real, new[(new.astype(int) < values).all(axis=1)])


@pytest.mark.parametrize("seed", range(3))
def test_one_copied_row_in_twenty_is_found(seed):
    real, new = rows(seed, 4_000, values=25), rows(seed + 100, 4_000, values=25)
    assert has_copied_rows(real, pandas.concat([new.iloc[200:], real.iloc[:200]]))
    assert not has_copied_rows(real, new)


def test_rows_of_a_full_design_are_equal_by_chance():
    """One row per country and year: none occurs twice, and yet random countries and years equal every one of them."""
    rng = np.random.default_rng(5)
    grid = pandas.MultiIndex.from_product([range(200), range(40)], names=["country", "year"]).to_frame(index=False)
    for real in (grid, grid.assign(place=rng.integers(0, 30, len(grid)))):
        drawn = pandas.DataFrame({name: rng.permutation(real[name]) for name in real})
        assert not has_copied_rows(real.astype(str), drawn.astype(str))


def test_rows_written_twice_are_copies():
    real = rows(1, 4_000, values=25)
    assert has_copied_rows(real, pandas.concat([real, real]))
