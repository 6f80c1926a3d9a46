import dataclasses
import itertools

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
from dpgm.products.rules import RULES, ProductSettings
from dpgm.products.strategy import PRODUCTS, fit_products, measure
from dpgm.products.targets import moment_targets
from dpgm.statistics.clipping import choose_cap
from dpgm.statistics.item_counts import item_profile
from dpgm.statistics.record_lengths import Known, LengthGroups, mean_length, read_lengths, thinned
from dpgm.strategy.protocol import FitPlan, PublicFacts
from dpgm.strategy.rules import RULES as COSTS
from dpgm.strategy.rules import Sizes
from dpgm.strategy.settings import Settings
from dpgm.testing import assert_bounded, assert_playback_invariant

MIXED = Domain((ItemSet("items", tuple(range(6))), Categorical("colour", ("red", "green", "blue"))))
TABLE = Domain((Categorical("a", (0, 1, 2)), Categorical("b", (0, 1))))


BRIEF = dataclasses.replace(RULES, fit=dataclasses.replace(RULES.fit, steps=20, steps_narrow=20, steps_table=20))


def random_records(domain, count, seed=0, chance=0.3):
    draws = np.random.default_rng(seed)
    dense = draws.random((count, domain.width)) < chance
    for block in domain.blocks:
        if block.softmax:
            dense[:, block.start : block.stop] = False
            dense[np.arange(count), draws.integers(block.start, block.stop, count)] = True
    return Records.from_dense(dense, domain)


def fit(gateway, domain, count, noises):
    """What a plan of products does: all that was released, and the generator."""
    if is_enumerated(domain, RULES.enumerated):
        measured = measure_enumerated(gateway, domain, count, noises, RULES)
        return measured.sums, fit_enumerated(measured, RULES)
    measured = measure(gateway, domain, count, noises, RULES)
    return measured.tuples, fit_products(measured, BRIEF, generator=torch.Generator().manual_seed(0))


def noises_for(domain, records, epsilon):
    spends = measurement_spends(PublicFacts(domain, records, epsilon, 1 / (10 * records)), RULES)
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
    spends = measurement_spends(PublicFacts(domain, records, epsilon, 1 / (10 * records)), RULES)
    assert sum(spend.share for spend in spends) == pytest.approx(1)
    assert all(spend.share > 0 for spend in spends)


def test_more_budget_never_measures_less():
    for width in (10, 300, 1000):
        names = [
            {
                spend.name
                for spend in measurement_spends(PublicFacts(Domain.of_items(width), 50_000, epsilon, 1e-6), RULES)
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


def run(gateway, domain=MIXED):
    measured, model = fit(gateway, domain, 60, NOISES)
    return {
        "values": [m.value for m in measured],
        "bounds": [m.statistic.query().sensitivity for m in measured],
    } | model.state()


@pytest.mark.parametrize("domain", [MIXED, Domain.of_items(9)])
def test_the_fit_depends_on_released_values_alone(domain):
    assert_playback_invariant(
        lambda gateway: run(gateway, domain), [random_records(domain, 60), random_records(domain, 7, seed=1)]
    )


@pytest.mark.parametrize("row", [[], [0, 6], list(range(9)), [0, 1, 2, 3, 4, 5, 7]])
def test_one_record_moves_no_release_by_more_than_declared(row):
    assert assert_bounded(run, random_records(MIXED, 60), Records.from_lists([row], MIXED)) <= 1 + 1e-6


ITEMS = Domain.of_items(40)


def run_items(gateway):
    measured = measure(gateway, ITEMS, 600, NOISES | {"scaled item counts": 0.5, "popular lengths": 2.0}, RULES)
    model = fit_products(measured, BRIEF, generator=torch.Generator().manual_seed(0))
    released = measured.scaled.released
    asked = released.statistic
    popular = measured.popular
    assert [len(group) for group in popular.statistic.groups] == [30]
    return {
        "scaled": released.value,
        "asked": [asked.scales, asked.offsets, asked.limit],
        "popular": popular.value,
        "groups": popular.statistic.groups,
    } | model.state()


def uneven_records(count, seed=0):
    """Of forty items some are held by most records and some by hardly any."""
    chances = np.linspace(0, 0.8, 40) ** 3
    return Records.from_dense(np.random.default_rng(seed).random((count, 40)) < chances, ITEMS)


@pytest.mark.parametrize("row", [[], [0], [0, 1, 2, 39], list(range(40))])
def test_one_record_moves_no_release_by_more_than_declared_where_items_are_scaled(row):
    assert assert_bounded(run_items, uneven_records(600), Records.from_lists([row], ITEMS)) <= 1 + 1e-6


def test_the_fit_to_scaled_items_depends_on_released_values_alone():
    assert_playback_invariant(run_items, [uneven_records(600), uneven_records(7, seed=1)])


def test_the_second_look_at_items_finds_rare_ones_better_than_one_look_of_the_same_price():
    domain, count, errors = Domain.of_items(300), 20_000, {"two": 0.0, "one": 0.0}
    chances = 0.9 / np.arange(1, 301) ** 1.3
    records = Records.from_dense(np.random.default_rng(0).random((count, 300)) < chances, domain)
    held = np.bincount(records.indices, minlength=300)
    two = noises_for(domain, count, 1)
    together = (two["item counts"] ** -2 + two["scaled item counts"] ** -2) ** -0.5
    one = {"record lengths": two["record lengths"], "item counts": together}
    for seed in range(3):
        for name, noises in (("two", two), ("one", one)):
            measured = measure(Gateway(records, randomness=SeededRandomness(seed)), domain, count, noises, RULES)
            found = measured.profile * count
            errors[name] += np.abs(found - held)[30:].sum()
    assert errors["two"] < 0.85 * errors["one"]


WIDE = Domain.of_items(120)


def wide_records(count, seed=0):
    return Records.from_dense(np.random.default_rng(seed).random((count, 120)) < 0.3 / np.arange(1, 121), WIDE)


def run_wide(gateway):
    noises = {name: NOISES[name] for name in ("record lengths", "item counts", "pair counts")}
    measured = measure(gateway, WIDE, 600, noises | {"scaled item counts": 0.5, "popular lengths": 2.0}, RULES)
    groups = measured.popular.statistic.groups
    assert [len(group) for group in groups] == [30, 100]
    assert set(groups[0]) < set(groups[1])
    model = fit_products(measured, BRIEF, generator=torch.Generator().manual_seed(0))
    return {"popular": measured.popular.value, "groups": groups} | model.state()


@pytest.mark.parametrize("row", [[], [0], [0, 1, 2, 39], list(range(120))])
def test_one_record_moves_no_release_by_more_than_declared_where_popular_items_are_counted(row):
    assert assert_bounded(run_wide, wide_records(600), Records.from_lists([row], WIDE)) <= 1 + 1e-6


def test_the_fit_to_popular_lengths_depends_on_released_values_alone():
    assert_playback_invariant(run_wide, [wide_records(600), wide_records(7, seed=1)])


def test_popular_lengths_after_a_gap_are_seen():
    noisy = np.zeros(31)
    noisy[0], noisy[12:22] = 18_500, 150
    noisy += 30 * np.random.default_rng(0).normal(size=31)
    seen = read_lengths(noisy, 30.0, 20_000, RULES.read, few=True)
    assert seen.shares[12:22].sum() == pytest.approx(0.075, abs=0.02)
    assert seen.shares[1:10].sum() < 0.02
    nobody = read_lengths(
        np.r_[20_000.0, 30 * np.random.default_rng(1).normal(size=30)], 30.0, 20_000, RULES.read, few=True
    )
    assert nobody.shares[0] > 0.98


def test_popular_lengths_tell_the_fit_how_many_popular_items_records_hold():
    domain, count = Domain.of_items(120), 20_000
    rng = np.random.default_rng(0)
    held = rng.random((count, 120)) < np.repeat([0.08, 0.01], [30, 90])
    noises = noises_for(domain, count, 1)
    gateway = Gateway(Records.from_dense(held, domain), randomness=SeededRandomness(0))
    measured = measure(gateway, domain, count, noises, RULES)
    assert sorted(measured.popular.statistic.groups[0]) == list(range(30))
    targets = moment_targets(measured, BRIEF, generator=torch.Generator().manual_seed(0))
    first, second = (target for target in targets.moments if isinstance(target.statistic, LengthGroups))
    assert first.statistic.positions == tuple(measured.popular.statistic.groups[0])
    assert len(second.statistic.positions) == 100
    real = np.bincount(held[:, :30].sum(axis=1), minlength=len(first.statistic.groups))
    summed = np.bincount(first.statistic.groups, real)
    assert np.abs(first.values.numpy() - summed).max() < 5 * noises["popular lengths"] * 2**0.5


@pytest.mark.parametrize(("chance", "fitted"), [(0.1, True), (0.9, False)])
def test_triples_of_crowded_records_stay_out_of_the_fit(chance, fitted):
    gateway = Gateway(random_records(ITEMS, 600, chance=chance), randomness=SeededRandomness(0))
    measured = measure(gateway, ITEMS, 600, NOISES | {"scaled item counts": 0.5}, RULES)
    assert 3 in [released.statistic.order for released in measured.tuples]
    targets = moment_targets(measured, BRIEF, generator=torch.Generator().manual_seed(0))
    assert (3 in [getattr(target.statistic, "order", None) for target in targets.moments]) == fitted


DENSE = Domain((ItemSet("items", tuple(range(20))), Categorical("colour", ("red", "green", "blue"))))


def dense_records(count, seed=0):
    """Of twenty items most records hold the same eighteen."""
    draws = np.random.default_rng(seed)
    dense = draws.random((count, 23)) < 0.95
    dense[:, :2] = draws.random((count, 2)) < 0.3
    dense[:, 20:] = False
    dense[np.arange(count), draws.integers(20, 23, count)] = True
    return Records.from_dense(dense, DENSE)


def run_dense(gateway):
    noises = {name: noise / 10 for name, noise in NOISES.items()}
    measured = measure(gateway, DENSE, 600, noises, RULES)
    model = fit_products(measured, BRIEF, generator=torch.Generator().manual_seed(0))
    return {"centred": measured.centred.value, "limit": measured.centred.statistic.limit} | model.state()


@pytest.mark.parametrize("row", [[20], [0, 1, 21], list(range(21))])
def test_one_record_moves_no_release_by_more_than_declared_where_pairs_are_centred(row):
    assert assert_bounded(run_dense, dense_records(600), Records.from_lists([row], DENSE)) <= 1 + 1e-6


def test_the_fit_to_centred_pairs_depends_on_released_values_alone():
    assert_playback_invariant(run_dense, [dense_records(600), dense_records(7, seed=1)])


def test_pairs_are_centred_where_records_are_dense_and_counted_where_they_are_short():
    short = random_records(Domain.of_items(200), 5_000, chance=0.02)
    noises = noises_for(short.domain, 5_000, 3)
    measured = measure(Gateway(short, randomness=SeededRandomness(0)), short.domain, 5_000, noises, RULES)
    assert measured.centred is None
    assert measured.tuples[0].statistic.order == 2
    dense = dense_records(5_000)
    measured = measure(
        Gateway(dense, randomness=SeededRandomness(0)), DENSE, 5_000, noises_for(DENSE, 5_000, 3), RULES
    )
    assert measured.centred is not None
    assert 2 not in [released.statistic.order for released in measured.tuples]


@pytest.mark.parametrize("row", [[], [3], [0, 1, 2, 3], list(range(9))])
def test_one_record_moves_no_release_by_more_than_declared_where_all_records_are_listed(row):
    domain = Domain.of_items(9)
    moved = assert_bounded(
        lambda gateway: run(gateway, domain), random_records(domain, 60), Records.from_lists([row], domain)
    )
    assert moved <= 1 + 1e-6


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


def test_noise_alone_is_not_read_as_long_records():
    noise = 23 * np.random.default_rng(0).normal(size=513)
    histogram = 28_000 * 0.2 * 0.8 ** np.arange(513.0)
    lengths = read_lengths(histogram + noise, 23.0, 28_000, RULES.read)
    assert mean_length(lengths.shares) == pytest.approx(4.0, abs=0.4)
    assert lengths.shares.sum() == pytest.approx(1)
    assert lengths.counts.sum() == pytest.approx(28_000)


def test_thinning_keeps_the_mean():
    shares = np.array([0.1, 0.2, 0.3, 0.4])
    assert thinned(shares, 0.5, 2) @ np.arange(6) == pytest.approx(3.0)
    assert thinned(shares, 1.0).tolist() == pytest.approx(shares.tolist())


def test_the_bound_on_lengths_grows_with_the_number_of_records():
    lengths = 0.8 ** np.arange(60.0)
    lengths /= lengths.sum()
    profile = 1 / np.arange(3.0, 103.0)
    known = [Known(Domain.of_items(100), records, None, RULES) for records in (3_000, 100_000, 10_000_000)]
    caps = [choose_cap(2, lengths, profile, one, 5.0)[0] for one in known]
    assert caps == sorted(caps)
    assert caps[0] < caps[-1]


def columns_of(*widths):
    return Domain(tuple(Categorical(f"c{at}", tuple(range(width))) for at, width in enumerate(widths)))


@pytest.mark.parametrize("widths", [[20] * 40, [5000], [5000, *[10] * 10], [50] * 200])
def test_wide_tables_stay_within_the_limits_of_a_fit(widths):
    """Why a fit of 40 columns of 20 values, or of one of 5,000, takes minutes and below 1 GB (docs/performance.md).

    The numbers that are matched are bounded whatever the number of pairs of cells is, and so are the components; the
    estimate that is checked before anything is charged is below 4 GB, and above what the parameters alone take.
    """
    domain, count = columns_of(*widths), 300
    plan = FitPlan(1.0, 1.0, 1e-8, 4_000_000, domain.width, Settings("products", family=ProductSettings()), ())
    components = component_count(domain.width, plan.records, RULES.fit)
    assert components <= 600
    needed = PRODUCTS.work(plan, Sizes.of(plan.records, domain), domain, COSTS).memory
    assert 4 * 4 * components * domain.width < needed < 2 * 2**30
    noises = noises_for(domain, count, 1.0)
    measured = measure(
        Gateway(random_records(domain, count), randomness=SeededRandomness(0)), domain, count, noises, RULES
    )
    draws = torch.Generator().manual_seed(0)
    targets = moment_targets(measured, BRIEF, generator=draws)
    assert sum(target.values.numel() for target in targets.moments) <= domain.width + 300**2
    model = fit_products(measured, BRIEF, generator=draws)
    assert bool(torch.isfinite(model.probabilities).all())
    assert len(model.sample(20, generator=draws)) == 20


def test_one_column_has_no_pairs_to_pay_for():
    (only,) = measurement_spends(PublicFacts(columns_of(5000), 50_000, 1.0, 1e-6), RULES)
    assert only.name == "item counts"
    names = {spend.name for spend in measurement_spends(PublicFacts(columns_of(50, 3), 50_000, 1.0, 1e-6), RULES)}
    assert names == {"item counts", "pair counts"}


def test_values_below_the_noise_are_shrunk_in_columns_of_many_values():
    """5,000 values, a few of them frequent: without shrinkage many rare ones come out far too frequent."""
    domain, count = columns_of(5000), 20_000
    shares = np.random.default_rng(0).dirichlet(np.full(5000, 0.1))
    drawn = np.random.default_rng(1).choice(5000, count, p=shares)
    records = Records.from_flat(drawn, np.ones(count, dtype=np.int64), domain)
    measured = measure(
        Gateway(records, randomness=SeededRandomness(0)), domain, count, noises_for(domain, count, 1.0), RULES
    )
    true = np.bincount(drawn, minlength=5000) / count
    errors = []
    for many in (RULES.read.many_values, 10_000):
        rules = dataclasses.replace(RULES, read=dataclasses.replace(RULES.read, many_values=many))
        profile = item_profile(measured.items, Known.read(None, domain, count, rules))
        errors.append(np.abs(profile - true).sum() / 2)
    scaled = np.clip(measured.items.value.numpy(), 0, None)
    assert errors[0] < 0.75 * np.abs(scaled / scaled.sum() - true).sum() / 2
    assert errors[0] < 0.95 * errors[1]  # the nearest shares that sum to 1 are better than scaled ones already
    assert errors[0] < 0.2
