"""Traits: columns and what follows from them, divided into cells."""

import numpy as np
import pandas

from dpgm.data.read.frames import as_records
from dpgm.evaluation.inputs import inputs_of
from dpgm.evaluation.trait_makers import traits_of
from dpgm.evaluation.traits import ordered
from dpgm.evaluation.words import part_words


def frames(count=400, seed=0):
    rng = np.random.default_rng(seed)
    day = pandas.Timestamp("2021-01-04") + pandas.to_timedelta(rng.integers(0, 300, count), unit="D")
    frame = pandas.DataFrame({"from": day, "to": day + pandas.to_timedelta(rng.integers(1, 9, count), unit="D")})
    frame["price"] = rng.integers(1, 2000, count) * 5.0
    frame["codes"] = [["a", "b"] if yes else ["b"] for yes in rng.random(count) < 0.3]
    return frame


def traits_by_name():
    inputs = inputs_of(frames(), frames(seed=1))
    return {trait.name: trait for trait in traits_of(inputs.raw.columns, inputs.real, inputs.synthetic)}


def test_times_weekdays_lengths_items_and_rounding_are_traits():
    found = traits_by_name()
    assert {"days from from to to", "weekday of from", "number of codes", "a in codes", "rounding of price"} <= {
        *found
    }
    assert found["days from from to to"].lows.tolist() == list(range(1, 9))
    assert part_words(found["a in codes"].cells_of(1, 1)) == "a in codes"
    assert part_words(found["a in codes"].all_but(1)) == "no a in codes"
    assert found["rounding of price"].lows[found["rounding of price"].counts[0].argmax()] == -5


def test_cells_hold_equal_parts_and_popular_values_are_their_own():
    values = np.concatenate([np.zeros(500), np.random.default_rng(0).normal(size=5000)])
    trait = ordered("x", [values, values])
    zero = int(np.flatnonzero((trait.lows == 0) & (trait.highs == 0))[0])
    assert trait.counts[0][zero] == 500
    assert np.delete(trait.counts[0], zero).max() < 0.05 * len(values)
    assert trait.group_of[zero] not in np.delete(trait.group_of, zero) or trait.in_order > 8


def test_missing_values_are_the_last_cell_and_a_group():
    trait = ordered("x", [np.array([1.0, np.nan, 2.0]), np.array([np.nan, 1.0, 2.0])])
    assert trait.missing == trait.width - 1
    assert part_words(trait.group(int(trait.group_of[trait.missing]))) == "x missing"


def test_sets_of_items_alone_have_traits_too():
    sets = as_records(np.eye(5, dtype=np.uint8).repeat(40, axis=0))
    assert (
        any(trait.name.startswith("number of") for trait in traits_of((), sets, sets)) is False
    )  # always one item
    assert len(traits_of((), sets, sets)) == 5
