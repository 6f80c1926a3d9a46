"""How often a value that one person alone holds is published by a discovery: at most as often as the plan promises."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binom, norm

from dpgm.data.domain import Categorical, Domain, ItemSet
from dpgm.data.read.frames import as_records
from dpgm.mechanisms.gateway import Gateway
from dpgm.mechanisms.randomness import SeededRandomness
from dpgm.mechanisms.threshold import STEP, ThresholdQuery, threshold_for
from dpgm.privacy.events import Mechanism
from dpgm.strategy.settings import Config
from dpgm.synthesis.domain_discovery import VALUES, discover_domain
from dpgm.synthesis.plan import make_plan
from whole_fits import FITS, OPEN_SETS, Done, traced

pytestmark = pytest.mark.filterwarnings("ignore::dpgm.PrivacyWarning")
DELTA, TRIALS = 0.02, 1500
MOST = int(binom.isf(1e-6, TRIALS, DELTA))  # exposures that a sound build exceeds with probability 1e-6
WARDS = Domain(
    tuple(Categorical(name, discover=True) for name in ("ward", "doctor", "drug", "room", "bed", "code"))
)
WARD = Domain(WARDS.fields[:1])
BOTH = Domain((Categorical("ward", discover=True), ItemSet("items", discover=True)))


def needed(noise, delta, cap, rows):
    """The threshold of the mechanism as docs/privacy-proof.md states it, by other means than the code's."""
    if rows > 1:
        return rows + noise * norm.isf(-np.expm1(np.log1p(-delta) / (rows * cap)))
    return max(n**-0.5 + noise * norm.isf(-np.expm1(np.log1p(-delta) / n)) for n in range(1, cap + 1))


@pytest.mark.parametrize(
    ("name", "cap", "rows"),
    [
        ("products, discovered sets", 64, 1),
        ("products, discovered table, 2 rows per person", 3, 2),  # a category, amounts and times
        ("products, discovered, 3 rows per person", 65, 3),  # a category and up to 64 items
    ],
)
def test_the_query_at_the_gateway_has_the_threshold_of_its_noise_delta_cap_and_rows(name, cap, rows):
    whole = FITS[name]
    plan = whole.plan()
    (query,) = [query for _, query in traced(whole).calls if isinstance(query, ThresholdQuery)]
    noise, delta = rows * plan.mechanism(VALUES).noise, plan.mechanism(VALUES).delta
    assert (query.cap, query.rows, query.delta, query.sensitivity) == (cap, rows, delta, 1.0)
    assert query.threshold == threshold_for(noise, delta, cap, rows)
    assert 0 <= query.threshold - needed(noise, delta, cap, rows) <= 3 * STEP


@pytest.mark.parametrize("rows", [1, 2, 5])
@pytest.mark.parametrize("cap", [1, 7, 64])
@pytest.mark.parametrize("noise", [0.02, 0.3, 2.0, 40.0])
def test_the_threshold_is_the_one_of_the_proof(noise, cap, rows):
    for delta in (1e-2, 1e-6, 1e-12):
        assert 0 <= threshold_for(noise, delta, cap, rows) - needed(noise, delta, cap, rows) <= 3 * STEP


def canaries(domain, rows, own, same):
    """The rows of one person: `own` values in each set, new ones in every row unless all rows are the `same`."""
    person = []
    for row in range(rows):
        mark = "" if same else f" {row}"
        person.append(
            {
                field.name: [f"own {at}{mark}" for at in range(own)] if isinstance(field, ItemSet) else f"own{mark}"
                for field in domain.fields
            }
        )
    return person


def exposures(domain, rows, own, same, noise):
    """In how many of many discoveries some value is published that one person alone holds."""
    others = [
        {field.name: ["a", "b"] if isinstance(field, ItemSet) else "a" for field in domain.fields}
        for _ in range(50)
    ]
    records = as_records(pd.DataFrame([*others, *canaries(domain, rows, own, same)]), domain)
    plan = make_plan(Config(1.0, 1e-3, rows_per_person=rows), len(records), domain)
    values = Mechanism(VALUES, noise, delta=DELTA)  # relative to a person
    plan = replace(plan, mechanisms=tuple(values if one.name == VALUES else one for one in plan.mechanisms))
    exposed = 0

    class Repeating(Gateway):
        def discover(self, name, query, noise):
            nonlocal exposed
            for _ in range(TRIALS):
                self._spent.clear()
                found = super().discover(name, query, noise)
                exposed += any(str(value).startswith("own") for _, value in found.values)
            raise Done

    gateway = Repeating(
        records, randomness=SeededRandomness(1), allowance=plan.mechanisms, rows_per_person=plan.rows_per_person
    )
    with pytest.raises(Done):
        discover_domain(gateway, plan, domain)
    return exposed


@pytest.mark.parametrize("noise", [0.2, 4.0])
@pytest.mark.parametrize(
    ("domain", "rows", "own", "same"),
    [
        pytest.param(OPEN_SETS, 1, 16, True, id="16 items of one record"),
        pytest.param(OPEN_SETS, 1, 100, True, id="100 items of one record, of which 64 count"),
        pytest.param(WARDS, 1, 0, True, id="six columns of one row"),
        pytest.param(WARD, 3, 0, True, id="one value in three rows"),
        pytest.param(BOTH, 3, 1, True, id="the same two values in three rows"),
        pytest.param(BOTH, 3, 64, False, id="65 other values in each of three rows"),
    ],
)
def test_values_of_one_person_are_published_no_more_often_than_promised(domain, rows, own, same, noise):
    assert exposures(domain, rows, own, same, noise) <= MOST
