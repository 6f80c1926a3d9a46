"""The default method: what it plans, what it measures, and that it depends on released values alone."""

import dataclasses
import itertools
from collections.abc import Callable
from functools import partial

import numpy as np
import pytest
import torch

from dpgm.data.domain import Categorical, Domain, ItemSet
from dpgm.data.records import Records
from dpgm.mechanisms.gateway import Gateway
from dpgm.mechanisms.randomness import SeededRandomness
from dpgm.privacy.calibration import calibrate
from dpgm.products.enumerated import fit_enumerated, is_enumerated, measure_enumerated
from dpgm.products.planning import component_count, measurement_spends
from dpgm.products.rules import PRODUCT_RULES, ProductSettings
from dpgm.products.strategy import PRODUCTS, fit_products, measure
from dpgm.products.targets import moment_targets
from dpgm.statistics.centred_pairs import CentredPairs
from dpgm.statistics.enumerated_sets import EnumeratedSets
from dpgm.statistics.item_counts import item_profile
from dpgm.statistics.item_tuples import ItemTuples
from dpgm.statistics.record_lengths import (
    LengthGroups,
    PopularLengths,
    ReleasedFacts,
)
from dpgm.statistics.scaled_items import ScaledItems
from dpgm.strategy.memory_rules import MEMORY_RULES, Sizes
from dpgm.strategy.protocol import FitPlan, PublicFacts
from dpgm.strategy.settings import Settings
from dpgm.testing import assert_bounded, assert_playback_invariant

MIXED = Domain((ItemSet("items", tuple(range(6))), Categorical("colour", ("red", "green", "blue"))))
TABLE = Domain((Categorical("a", (0, 1, 2)), Categorical("b", (0, 1))))


BRIEF = dataclasses.replace(
    PRODUCT_RULES, fit=dataclasses.replace(PRODUCT_RULES.fit, steps=20, steps_narrow=20, steps_table=20)
)


def random_records(domain, count, seed=0, chance=0.3):
    draws = np.random.default_rng(seed)
    dense = draws.random((count, domain.width)) < chance
    for block in domain.blocks:
        if block.softmax:
            dense[:, block.start : block.stop] = False
            dense[np.arange(count), draws.integers(block.start, block.stop, count)] = True
    return Records.from_dense(dense, domain)


def fit(gateway, domain, count, noises):
    """What a plan of products does: the releases after the first stage of item counts, and the generator."""
    if is_enumerated(domain, PRODUCT_RULES.enumerated):
        measured = measure_enumerated(gateway, domain, count, noises, PRODUCT_RULES)
        return measured.sums, fit_enumerated(measured, PRODUCT_RULES)
    measured = measure(gateway, domain, count, noises, PRODUCT_RULES)
    scaled = None if measured.scaled is None else measured.scaled.released
    released = [one for one in (*measured.tuples, measured.centred, scaled, measured.popular) if one is not None]
    return released, fit_products(measured, BRIEF, generator=torch.Generator().manual_seed(0))


def noises_for(domain, records, epsilon):
    spends = measurement_spends(PublicFacts(domain, records, epsilon, 1 / (10 * records)), PRODUCT_RULES)
    return {m.name: m.noise for m in calibrate(epsilon, 1 / (10 * records), spends)}


@pytest.mark.parametrize("epsilon", [0.01, 1.0, 100.0])
@pytest.mark.parametrize(
    ("domain", "count", "chance"),
    [
        (Domain.of_items(1), 1, 1.0),
        (Domain.of_items(1), 50, 0.5),
        (Domain.of_items(2), 50, 0.5),
        (Domain.of_items(20), 50, 0.0),
        (Domain.of_items(20), 3000, 1.0),
        (MIXED, 1, 0.3),
        (MIXED, 2000, 0.3),
        (TABLE, 500, 0.3),
        (Domain.of_items(5000), 30, 0.01),
    ],
)
def test_every_domain_size_and_budget_gives_a_generator(domain, count, chance, epsilon):
    records = random_records(domain, count, chance=chance)
    noises = noises_for(domain, count, epsilon)
    _, model = fit(Gateway(records, randomness=SeededRandomness(0)), domain, count, noises)
    assert bool(torch.isfinite(model.probabilities).all())
    assert bool(torch.isfinite(model.weights).all())
    assert len(model.sample(100, generator=torch.Generator().manual_seed(0))) == 100


@pytest.mark.parametrize(
    "domain",
    [None, MIXED, TABLE, *(Domain.of_items(width) for width in (1, 17, 30, 31, 65, 100, 101, 1000))],
)
@pytest.mark.parametrize("epsilon", [0.01, 1.0, 100.0])
@pytest.mark.parametrize("records", [1, 30_000, 4_400_000])
def test_shares_sum_to_one(domain, epsilon, records):
    spends = measurement_spends(PublicFacts(domain, records, epsilon, 1 / (10 * records)), PRODUCT_RULES)
    assert sum(spend.share for spend in spends) == pytest.approx(1)
    assert all(spend.share > 0 for spend in spends)


def test_more_budget_never_measures_less():
    for width in (10, 300, 1000):
        names = [
            {
                spend.name
                for spend in measurement_spends(
                    PublicFacts(Domain.of_items(width), 50_000, epsilon, 1e-6), PRODUCT_RULES
                )
            }
            for epsilon in (0.1, 0.3, 1.0, 3.0, 10.0)
        ]
        assert all(fewer - {"popular lengths"} <= more for fewer, more in itertools.pairwise(names))
        # triples of popular items say how many of them records hold
        if width > 30:
            assert all(("popular lengths" in measured) != ("triple counts" in measured) for measured in names)


NOISES = {
    "record lengths": 3.0,
    "item counts": 2.0,
    "pair counts": 2.0,
    "triple counts": 2.0,
    "quadruple counts": 2.0,
}
SCALED = NOISES | {"scaled item counts": 0.5, "popular lengths": 2.0}
ITEMS, WIDE = Domain.of_items(40), Domain.of_items(120)
DENSE = Domain((ItemSet("items", tuple(range(20))), Categorical("colour", ("red", "green", "blue"))))


def uneven_records(count, seed=0):
    """Forty items, from those that hardly any record holds to those that most records hold."""
    chances = np.linspace(0, 0.8, 40) ** 3
    return Records.from_dense(np.random.default_rng(seed).random((count, 40)) < chances, ITEMS)


def wide_records(count, seed=0):
    return Records.from_dense(np.random.default_rng(seed).random((count, 120)) < 0.3 / np.arange(1, 121), WIDE)


def dense_records(count, seed=0):
    """Twenty items, eighteen of which most records hold, and a colour."""
    draws = np.random.default_rng(seed)
    dense = draws.random((count, 23)) < 0.95
    dense[:, :2] = draws.random((count, 2)) < 0.3
    dense[:, 20:] = False
    dense[np.arange(count), draws.integers(20, 23, count)] = True
    return Records.from_dense(dense, DENSE)


@dataclasses.dataclass(frozen=True)
class Case:
    """Records, and noises with which a fit measures the given statistic."""

    statistic: type
    records: Callable[..., Records]  # from a number of records and a seed
    count: int
    noises: dict[str, float]
    added: list[list[int]]  # records whose effect on the releases is checked

    def run(self, gateway):
        """All released values, the statistics that were chosen for them, and the generator."""
        measured, model = fit(gateway, self.records(1).domain, self.count, self.noises)
        assert self.statistic in {type(one.statistic) for one in measured}
        statistics = [repr(one.statistic) for one in measured]
        return {"values": [one.value for one in measured], "statistics": statistics} | model.state()


CASES = {
    "mixed": Case(
        ItemTuples, partial(random_records, MIXED), 60, NOISES, [[], [0, 6], list(range(9)), [0, 1, 2, 3, 4, 5, 7]]
    ),
    "enumerated": Case(
        EnumeratedSets,
        partial(random_records, Domain.of_items(9)),
        60,
        NOISES,
        [[], [3], [0, 1, 2, 3], list(range(9))],
    ),
    "scaled": Case(ScaledItems, uneven_records, 600, SCALED, [[], [0], [0, 1, 2, 39], list(range(40))]),
    "popular": Case(
        PopularLengths,
        wide_records,
        600,
        {name: SCALED[name] for name in SCALED if name not in ("triple counts", "quadruple counts")},
        [[], [0], [0, 1, 2, 39], list(range(120))],
    ),
    "centred": Case(
        CentredPairs,
        dense_records,
        600,
        {name: noise / 10 for name, noise in NOISES.items()},
        [[20], [0, 1, 21], list(range(21))],
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_the_fit_depends_on_released_values_alone(case):
    assert_playback_invariant(case.run, [case.records(case.count), case.records(7, seed=1)])


@pytest.mark.parametrize(
    ("case", "row"),
    [pytest.param(case, row, id=f"{name}, {len(row)} items") for name, case in CASES.items() for row in case.added],
)
def test_one_record_moves_no_release_by_more_than_declared(case, row):
    records = case.records(case.count)
    assert assert_bounded(case.run, records, Records.from_lists([row], records.domain)) <= 1 + 1e-6


@pytest.mark.parametrize(("name", "sizes"), [("scaled", [30]), ("popular", [30, 100])])
def test_popular_items_are_nested_groups_as_far_as_there_are_items(name, sizes):
    case = CASES[name]
    records = case.records(case.count)
    gateway = Gateway(records, randomness=SeededRandomness(0))
    groups = measure(gateway, records.domain, case.count, case.noises, PRODUCT_RULES).popular.statistic.groups
    assert [len(group) for group in groups] == sizes
    assert set(groups[0]) <= set(groups[-1])


def test_a_pilot_and_scaled_counts_find_rare_items_better_than_one_release_of_the_same_budget():
    domain, count, errors = Domain.of_items(300), 20_000, {"two": 0.0, "one": 0.0}
    chances = 0.9 / np.arange(1, 301) ** 1.3
    records = Records.from_dense(np.random.default_rng(0).random((count, 300)) < chances, domain)
    counts = np.bincount(records.indices, minlength=300)
    two = noises_for(domain, count, 1)
    combined = (two["item counts"] ** -2 + two["scaled item counts"] ** -2) ** -0.5
    one = {"record lengths": two["record lengths"], "item counts": combined}
    for seed in range(3):
        for name, noises in (("two", two), ("one", one)):
            measured = measure(
                Gateway(records, randomness=SeededRandomness(seed)), domain, count, noises, PRODUCT_RULES
            )
            errors[name] += np.abs(measured.profile * count - counts)[30:].sum()
    assert errors["two"] < 0.85 * errors["one"]


def test_popular_lengths_tell_the_fit_how_many_popular_items_records_hold():
    domain, count = Domain.of_items(120), 20_000
    rng = np.random.default_rng(0)
    dense = rng.random((count, 120)) < np.repeat([0.08, 0.01], [30, 90])
    noises = noises_for(domain, count, 1)
    gateway = Gateway(Records.from_dense(dense, domain), randomness=SeededRandomness(0))
    measured = measure(gateway, domain, count, noises, PRODUCT_RULES)
    assert sorted(measured.popular.statistic.groups[0]) == list(range(30))
    targets = moment_targets(measured, BRIEF, generator=torch.Generator().manual_seed(0))
    first, second = (target for target in targets.moments if isinstance(target.statistic, LengthGroups))
    assert first.statistic.positions == tuple(measured.popular.statistic.groups[0])
    assert len(second.statistic.positions) == 100
    real = np.bincount(dense[:, :30].sum(axis=1), minlength=len(first.statistic.groups))
    summed = np.bincount(first.statistic.groups, real)
    assert np.abs(first.values.numpy() - summed).max() < 5 * noises["popular lengths"] * 2**0.5


@pytest.mark.parametrize(("chance", "fitted"), [(0.1, True), (0.9, False)])
def test_triples_of_crowded_records_stay_out_of_the_fit(chance, fitted):
    gateway = Gateway(random_records(ITEMS, 600, chance=chance), randomness=SeededRandomness(0))
    measured = measure(gateway, ITEMS, 600, NOISES | {"scaled item counts": 0.5}, PRODUCT_RULES)
    assert 3 in [released.statistic.order for released in measured.tuples]
    targets = moment_targets(measured, BRIEF, generator=torch.Generator().manual_seed(0))
    assert (3 in [getattr(target.statistic, "order", None) for target in targets.moments]) == fitted


def test_pairs_are_centred_where_records_are_dense_and_counted_where_they_are_short():
    short = random_records(Domain.of_items(200), 5_000, chance=0.02)
    noises = noises_for(short.domain, 5_000, 3)
    measured = measure(Gateway(short, randomness=SeededRandomness(0)), short.domain, 5_000, noises, PRODUCT_RULES)
    assert measured.centred is None
    assert measured.tuples[0].statistic.order == 2
    dense = dense_records(5_000)
    measured = measure(
        Gateway(dense, randomness=SeededRandomness(0)), DENSE, 5_000, noises_for(DENSE, 5_000, 3), PRODUCT_RULES
    )
    assert measured.centred is not None
    assert 2 not in [released.statistic.order for released in measured.tuples]


def test_the_fit_finds_planted_dependence():
    draws = np.random.default_rng(0)
    left = draws.random(20_000) < 0.5
    dense = (draws.random((20_000, 12)) < np.where((np.arange(12) < 6) == left[:, None], 0.5, 0.02)).astype(float)
    records = Records.from_dense(dense, Domain.of_items(12))
    gateway = Gateway(records, randomness=SeededRandomness(0))
    _, model = fit(gateway, records.domain, 20_000, noises_for(records.domain, 20_000, 1))
    drawn = model.sample(20_000, generator=torch.Generator().manual_seed(0)).to_dense(np.float64)
    assert np.abs(drawn.mean(axis=0) - dense.mean(axis=0)).max() < 0.01
    assert np.abs(drawn.T @ drawn - dense.T @ dense).max() / 20_000 < 0.02


def columns_of(*widths):
    return Domain(tuple(Categorical(f"c{at}", tuple(range(width))) for at, width in enumerate(widths)))


@pytest.mark.parametrize("widths", [[20] * 40, [5000], [5000, *[10] * 10], [50] * 200])
def test_wide_tables_stay_within_the_limits_of_a_fit(widths):
    """Why a fit of 40 columns of 20 values, or of one of 5,000, takes minutes and below 1 GB (docs/performance.md).

    The numbers that are matched are bounded whatever the number of pairs of cells is, and so are the components; the
    memory that is checked before anything is charged is below 4 GB, and above what the parameters alone take.
    """
    domain, count = columns_of(*widths), 300
    plan = FitPlan(1.0, 1.0, 1e-8, 4_000_000, domain.width, Settings("products", family=ProductSettings()), ())
    components = component_count(domain.width, plan.records, PRODUCT_RULES.fit)
    assert components <= 600
    needed = PRODUCTS.memory(plan, Sizes.of(plan.records, domain), domain, MEMORY_RULES)
    assert 4 * 4 * components * domain.width < needed < 2 * 2**30
    noises = noises_for(domain, count, 1.0)
    measured = measure(
        Gateway(random_records(domain, count), randomness=SeededRandomness(0)), domain, count, noises, PRODUCT_RULES
    )
    draws = torch.Generator().manual_seed(0)
    targets = moment_targets(measured, BRIEF, generator=draws)
    assert sum(target.values.numel() for target in targets.moments) <= domain.width + 300**2
    model = fit_products(measured, BRIEF, generator=draws)
    assert bool(torch.isfinite(model.probabilities).all())
    assert len(model.sample(20, generator=draws)) == 20


def test_one_column_has_no_pairs_to_pay_for():
    (only,) = measurement_spends(PublicFacts(columns_of(5000), 50_000, 1.0, 1e-6), PRODUCT_RULES)
    assert only.name == "item counts"
    names = {
        spend.name for spend in measurement_spends(PublicFacts(columns_of(50, 3), 50_000, 1.0, 1e-6), PRODUCT_RULES)
    }
    assert names == {"item counts", "pair counts"}


def test_values_below_the_noise_are_shrunk_in_columns_of_many_values():
    """5,000 values, a few of them frequent: without shrinkage many rare ones come out far too frequent."""
    domain, count = columns_of(5000), 20_000
    shares = np.random.default_rng(0).dirichlet(np.full(5000, 0.1))
    drawn = np.random.default_rng(1).choice(5000, count, p=shares)
    records = Records.from_flat(drawn, np.ones(count, dtype=np.int64), domain)
    measured = measure(
        Gateway(records, randomness=SeededRandomness(0)),
        domain,
        count,
        noises_for(domain, count, 1.0),
        PRODUCT_RULES,
    )
    true = np.bincount(drawn, minlength=5000) / count
    errors = []
    for many in (PRODUCT_RULES.read.many_values, 10_000):
        rules = dataclasses.replace(PRODUCT_RULES, read=dataclasses.replace(PRODUCT_RULES.read, many_values=many))
        profile = item_profile(measured.items, ReleasedFacts.read(None, domain, count, rules))
        errors.append(np.abs(profile - true).sum() / 2)
    scaled = np.clip(measured.items.value.numpy(), 0, None)
    assert errors[0] < 0.75 * np.abs(scaled / scaled.sum() - true).sum() / 2
    assert errors[0] < 0.95 * errors[1]  # the nearest shares that sum to 1 are better than scaled ones already
    assert errors[0] < 0.2
