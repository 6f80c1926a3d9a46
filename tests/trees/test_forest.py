"""Mixtures of forests: draws follow their law, and conditions restrict it exactly."""

from itertools import product

import numpy as np
import pytest

from dpgm.data.conditions import Values, truth
from dpgm.data.domain import Categorical, Domain, ItemSet, Numeric
from dpgm.data.records import Records
from dpgm.synthesis.conditioning import parse_where, region_of
from dpgm.trees.forest import Forest, Leaves, depth_first

DOMAIN = Domain(
    (
        Categorical("married", ("never", "once", "often"), missing=True),
        Categorical("before", ("never", "once")),
        ItemSet("basket", ("milk", "bread", "jam")),
        Numeric("gain", 0, 7, 4, integer=True),
        Categorical("colour", ("red", "green")),
    )
)
SIZES = (4, 2, 4, 2)  # of the table columns
PARENTS = (1, -1, 0, -1)
PLENTY = 10**6


def forest(components=3, seed=0, leaf_parent=0):
    rng = np.random.default_rng(seed)
    tables = []
    for size, parent in zip(SIZES, PARENTS, strict=True):
        table = rng.gamma(0.7, size=(components, 1 if parent < 0 else SIZES[parent], size))
        tables.append(table / table.sum(axis=2, keepdims=True))
    weights = rng.random(components) + 0.1
    start = DOMAIN.blocks[2].start
    chances = rng.random((components, 1 if leaf_parent < 0 else SIZES[leaf_parent], 3))
    return Forest(DOMAIN, weights / weights.sum(), PARENTS, tuple(tables), (Leaves(start, leaf_parent, chances),))


EVERY = [(codes, items) for codes in product(*map(range, SIZES)) for items in product((0, 1), repeat=3)]
OFFSETS = [column.start for column in DOMAIN.table_columns]
ROWS = [
    sorted(
        [start + code for start, code in zip(OFFSETS, codes, strict=True)]
        + [DOMAIN.blocks[2].start + at for at in range(3) if items[at]]
    )
    for codes, items in EVERY
]


def law(model):
    """The probability of every possible record, by definition."""
    found = np.zeros(len(EVERY))
    for at, (codes, items) in enumerate(EVERY):
        for component, weight in enumerate(model.weights):
            chance = weight
            for column, (table, parent) in enumerate(zip(model.tables, model.parents, strict=True)):
                chance *= table[component, 0 if parent < 0 else codes[parent], codes[column]]
            (leaves,) = model.leaves
            own = leaves.chances[component, 0 if leaves.parent < 0 else codes[leaves.parent]]
            found[at] += chance * np.where(items, own, 1 - own).prod()
    return found


def shares(records):
    number = {tuple(row): at for at, row in enumerate(ROWS)}
    drawn = [
        number[tuple(records.indices[a:b])] for a, b in zip(records.indptr[:-1], records.indptr[1:], strict=True)
    ]
    return np.bincount(drawn, minlength=len(EVERY)) / len(records)


@pytest.mark.parametrize("leaf_parent", [-1, 0, 3])
def test_draws_follow_the_law(leaf_parent):
    model = forest(leaf_parent=leaf_parent)
    drawn = shares(model.draw(40_000, np.random.default_rng(0)))
    expected = law(model)
    assert expected.sum() == pytest.approx(1)
    # 512 cells: a total variation of .045 would be ten standard deviations above what chance makes
    assert np.abs(drawn - expected).sum() / 2 < 0.045


def test_counts_of_a_column_are_rounded_expectations():
    model = forest()
    records = model.draw(10_000, np.random.default_rng(0))
    counts = np.bincount(records.indices, minlength=DOMAIN.width)
    expected = 10_000 * model.weights @ model.marginals[1]
    assert np.abs(counts[OFFSETS[1] : OFFSETS[1] + 2] - expected).max() < 1 + model.components


@pytest.mark.parametrize("count", [0, 1, 17])
def test_draws_are_valid_records(count):
    records = forest().draw(count, np.random.default_rng(0))
    assert len(records) == count
    records.check()


CONDITIONS = [
    "married = never",
    "married != never",
    "married in [once, missing]",
    "basket = milk and basket != jam",
    "not (basket = milk or married = once)",
    "married = before",
    "gain >= 4 and colour = red",
    "married = never or basket = milk or colour = green",
    "(married = never or gain < 2) and (before = once or basket = jam)",
]


@pytest.mark.parametrize("text", CONDITIONS)
@pytest.mark.parametrize("leaf_parent", [-1, 0])
def test_a_forest_given_a_condition_has_exactly_the_right_law(text, leaf_parent):
    model = forest(leaf_parent=leaf_parent)
    condition = parse_where(text, DOMAIN)
    region = region_of(condition, DOMAIN, unknown=False)
    assert region.exact
    given, chance = model.conditioned(region.boxes, PLENTY)
    gains = np.array([2.0 * codes[2] for codes, _ in EVERY])
    true, _ = truth(condition, Values(Records.from_lists(ROWS, DOMAIN), {"gain": gains}))
    expected = law(model) * true
    assert chance == pytest.approx(expected.sum())
    np.testing.assert_allclose(law(given), expected / expected.sum(), atol=1e-12)
    assert shares(given.draw(2_000, np.random.default_rng(1)))[~true].sum() == 0


def test_an_impossible_condition_leaves_nothing_and_a_large_one_is_left_to_rejection():
    model = forest()
    tables = list(model.tables)
    tables[3] = np.broadcast_to(np.array([1.0, 0.0]), tables[3].shape)
    model = Forest(DOMAIN, model.weights, PARENTS, tuple(tables), model.leaves)
    green = region_of(parse_where("colour = green", DOMAIN), DOMAIN, unknown=False).boxes
    assert model.conditioned(green, PLENTY) == (None, 0.0)
    red = region_of(parse_where("colour = red", DOMAIN), DOMAIN, unknown=False).boxes
    assert model.conditioned(red, 10) is None


def test_columns_on_a_cycle_are_left_out():
    assert depth_first((-1, 0, 1)) == (0, 1, 2)
    assert depth_first((1, 0, -1)) == (2,)
