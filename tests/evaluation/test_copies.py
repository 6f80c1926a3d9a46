"""Records that are copies of real ones are found; records that meet by chance are not called copies.

Everything here is fresh people of a known population, cut down or thinned as a release does it, with or without real
records mixed in.
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


def kept(records, chosen):
    """Records with those of their entries alone that are chosen."""
    owners = np.repeat(np.arange(len(records)), records.lengths)[chosen]
    lengths = np.bincount(owners, minlength=len(records))
    return Records.from_flat(records.indices[chosen], lengths, records.domain)


@cache
def towns(seed, people=PEOPLE):
    """As many real people and fresh ones, and the places by popularity."""
    both = simulate_transit(records=2 * people, seed=seed)
    popularity = np.argsort(-np.bincount(both.indices, minlength=both.width))
    return both.take(np.arange(people)), both.take(np.arange(people, 2 * people)), popularity


def found_only(records, places):
    """What a release that found these places shows of people."""
    return kept(records, np.isin(records.indices, places))


def is_copy(real, synthetic):
    measured = copies_of_records(real, synthetic)
    return measured is not None and measured.copied > measured.limit


@pytest.mark.parametrize("places", [20, 40, 100, 342])
@pytest.mark.parametrize("seed", range(3))
def test_fresh_people_with_few_places_are_no_copies(seed, places):
    real, fresh, popular = towns(seed)
    fresh = found_only(fresh, popular[:places])
    shorter = kept(fresh, np.random.default_rng(seed).random(len(fresh.indices)) < 0.8)
    for synthetic in (fresh, shorter, fresh.take(np.arange(500))):
        assert not is_copy(real, synthetic)


@pytest.mark.parametrize(("places", "cut"), [(40, True), (100, True), (342, True), (20, False), (40, False)])
@pytest.mark.parametrize("seed", range(3))
def test_one_copy_in_twenty_is_found_also_among_few_places(seed, places, cut):
    """Whether the fit has seen whole records, or what was left of them once the other places were gone."""
    real, fresh, popular = towns(seed)
    fresh = found_only(fresh, popular[:places])
    copied = real.take(np.arange(PEOPLE // 20))
    copied = found_only(copied, popular[:places]) if cut else copied
    assert is_copy(real, concatenate([fresh.take(np.arange(PEOPLE - len(copied))), copied]))


def test_the_verdict_on_a_release_of_few_places_is_not_copies():
    real, fresh, popular = towns(0)
    judged = verdict(evaluate(real, found_only(fresh, popular[:20]), baselines={}))
    assert judged.grade == "rough"
    assert not any("equal a real record" in text for text in judged.bad)


COLUMNS = ("work", "town", "school", "family", "car", "paper")


def rows(seed, count, values=8):
    """A table of six categories, the first values of each the most frequent, tied by a common factor."""
    rng = np.random.default_rng(seed)
    factor = rng.random(count)
    return pandas.DataFrame(
        {name: (values * (0.7 * factor + 0.3 * rng.random(count)) ** 3).astype(int) for name in COLUMNS}
    ).astype(str)


def of_rows(real, synthetic):
    tables = [pa.Table.from_pandas(side, preserve_index=False) for side in (real, synthetic)]
    measured = copies_of_rows(raw_columns(*tables).columns)
    return measured.copied > measured.limit


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("values", [3, 5, 8])
def test_fresh_rows_with_frequent_values_alone_are_no_copies(seed, values):
    real, fresh = rows(seed, 4_000), rows(seed + 100, 4_000)
    assert not of_rows(real, fresh[(fresh.astype(int) < values).all(axis=1)])


@pytest.mark.parametrize("seed", range(3))
def test_one_copied_row_in_twenty_is_found(seed):
    real, fresh = rows(seed, 4_000, values=25), rows(seed + 100, 4_000, values=25)
    assert of_rows(real, pandas.concat([fresh.iloc[200:], real.iloc[:200]]))
    assert not of_rows(real, fresh)


def test_rows_of_a_full_design_are_met_by_chance():
    """One row per country and year: none occurs twice, and yet drawing countries and years meets every one of them."""
    rng = np.random.default_rng(5)
    grid = pandas.MultiIndex.from_product([range(200), range(40)], names=["country", "year"]).to_frame(index=False)
    for real in (grid, grid.assign(place=rng.integers(0, 30, len(grid)))):
        drawn = pandas.DataFrame({name: rng.permutation(real[name]) for name in real})
        assert not of_rows(real.astype(str), drawn.astype(str))


def test_rows_written_twice_are_copies():
    real = rows(1, 4_000, values=25)
    assert of_rows(real, pandas.concat([real, real]))
