"""What a plan says beforehand of its errors, against the errors that its noise makes."""

import numpy as np
import pytest

from dpgm.data.domain import Categorical, Domain, ItemSet, Numeric
from dpgm.data.records import Records
from dpgm.mechanisms.gateway import Gateway
from dpgm.mechanisms.randomness import SeededRandomness
from dpgm.strategy.settings import Config
from dpgm.synthesis.plan import expectations, make_plan
from dpgm.trees.dependence import pair_values
from dpgm.trees.expectations import _norm, _rank_error
from dpgm.trees.measurement import measure_table
from dpgm.trees.rules import TREE_RULES

SURVEY = Domain(tuple(Numeric(f"q{at}", 1, 5, 5, integer=True) for at in range(40)))
SMALL = Domain((Categorical("ward", tuple("abcdef")), Numeric("age", 0, 99, 20), Numeric("bill", 0, 99, 20)))


def said(domain, records=3000, epsilon=1.0, **changes):
    return " ".join(expectations(make_plan(Config(epsilon, **changes), records, domain), domain))


def test_a_table_that_is_too_wide_is_told_what_it_loses():
    text = said(SURVEY)
    assert "3,000 records at epsilon 1 are too few for tables of all 780 pairs of columns" in text
    assert "rank correlation" in text
    assert "lost" in text
    assert "`weight`" in text


def test_a_narrow_table_is_told_how_well_its_pairs_are_measured():
    text = said(SMALL)
    assert text.startswith("All 3 pairs of columns are measured as tables of up to")
    assert "lost" not in text


def test_pairs_lists_and_one_column_are_named():
    fields = (*SMALL.fields, ItemSet("codes", tuple("xyz")))
    text = said(Domain(fields, pairs=(("ward", "bill"),)))
    assert "as you asked: ward and bill." in text
    assert "25% of the budget" in text
    assert said(Domain(SMALL.fields[:1])).startswith("Each count of 'ward' is right within about")


def test_other_models_say_nothing():
    assert said(SMALL, model="products") == ""
    assert expectations(make_plan(Config(1.0), 100), None) == ()


@pytest.mark.parametrize("seed", range(3))
def test_the_error_of_rank_correlations_is_the_one_foretold(seed):
    """Of rows whose columns are independent: the correlations that are measured are noise, and as large as said."""
    count = 3000
    codes = np.random.default_rng(seed).integers(0, 5, (count, 40)) + 5 * np.arange(40)
    plan = make_plan(Config(1.0), count, SURVEY)
    gateway = Gateway(Records.from_lists(codes.tolist(), SURVEY), randomness=SeededRandomness(seed))
    measured = measure_table(gateway, SURVEY, count, plan.noises, TREE_RULES)
    (ranks,) = measured.pairs
    likely = ranks.statistic.groups(measured.coding.codes(Records.from_lists(codes.tolist(), SURVEY)))
    weight = ranks.statistic.row_weights(likely).mean()
    square = np.mean(
        [
            float((own * f.phi[:-1, 0] ** 2).sum()) / 64**2
            for own, f in zip(measured.shares, ranks.statistic.features, strict=True)
        ]
    )
    found = np.concatenate([one.ravel() for one in pair_values(ranks)]) / (weight * count * square)
    assert 2 * found.std() == pytest.approx(_rank_error(plan, SURVEY, TREE_RULES), rel=0.3)


def test_the_norm_is_that_of_all_products():
    lengths = [0.2, 0.5, 1.0]
    assert _norm(lengths) ** 2 == pytest.approx(0.2 * 0.5 + 0.2 + 0.5)
