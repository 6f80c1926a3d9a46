"""Whole fits of tables whose relations are known, with noise so small that only the fit can be off."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from dpgm.data.domain import Categorical, Domain, Numeric
from dpgm.data.records import Records
from dpgm.mechanisms.gateway import Gateway, PlaybackGateway
from dpgm.mechanisms.randomness import SeededRandomness
from dpgm.statistics.coded_rows import Coding
from dpgm.strategy.protocol import PublicFacts
from dpgm.trees.fitting import fit_trees
from dpgm.trees.measurement import measure_table
from dpgm.trees.model import Trees
from dpgm.trees.planning import bearable_groups, tree_spends
from dpgm.trees.rules import TREE_RULES

COUNT = 4000
QUICK = replace(
    TREE_RULES,
    base=replace(TREE_RULES.base, rows=5000, steps=150),
    pool=replace(TREE_RULES.pool, least=10_000),
    tilt=replace(TREE_RULES.tilt, iterations=80),
)
DOMAIN = Domain(
    (
        Numeric("height", 0, 20, 20),
        Numeric("weight", 0, 20, 20),
        Categorical("eyes", ("blue", "brown", "green")),
        Categorical("sex", ("f", "m")),
        Categorical("label", ("no", "yes")),
    ),
    label="label",
)


def rows(seed=0, count=COUNT):
    """Weight follows height; the label follows whether both are large; eyes follow nothing."""
    rng = np.random.default_rng(seed)
    sex = rng.integers(0, 2, count)
    height = np.clip(np.round(7 + 4 * sex + 2 * rng.normal(size=count)), 0, 19).astype(int)
    weight = np.clip(np.round(height + 2 * rng.normal(size=count)), 0, 19).astype(int)
    label = (rng.random(count) < 0.1 + 0.7 * (height + weight > 22)).astype(int)
    codes = np.stack([height, weight, rng.integers(0, 3, count), sex, label], axis=1)
    return Records.from_lists((codes + np.array(DOMAIN.offsets)).tolist(), DOMAIN)


def noises(value, domain=DOMAIN, count=COUNT, epsilon=1.0):
    spends = tree_spends(PublicFacts(domain, count, epsilon, 1e-6), TREE_RULES)
    return {spend.name: value for spend in spends}


def fitted(noise=1.0, seed=0, rules=QUICK):
    gateway = Gateway(rows(), randomness=SeededRandomness(seed))
    measured = measure_table(gateway, DOMAIN, COUNT, noises(noise), rules)
    return fit_trees(measured, rules, generator=torch.Generator().manual_seed(seed))


def codes_of(records):
    return Coding.of(DOMAIN).codes(records)


def pair_distance(first, second):
    total = []
    for i in range(5):
        for j in range(i):
            both = [
                np.bincount(codes[:, i] * 20 + codes[:, j], minlength=400) / len(codes) for codes in (first, second)
            ]
            total.append(np.abs(both[0] - both[1]).sum() / 2)
    return float(np.mean(total))


def test_with_little_noise_pairs_are_those_of_the_rows():
    real, drawn = codes_of(rows()), codes_of(fitted().sample(COUNT, generator=torch.Generator().manual_seed(1)))
    assert pair_distance(real, drawn) < 0.03  # of a second sample of the same people it is .046
    for records in (real, drawn):
        assert np.corrcoef(records[:, 0], records[:, 1])[0, 1] == pytest.approx(0.82, abs=0.03)


def test_a_fit_is_a_function_of_released_values():
    def run(gateway):
        measured = measure_table(gateway, DOMAIN, COUNT, noises(5.0), QUICK)
        return fit_trees(measured, QUICK, generator=torch.Generator().manual_seed(0)).state()

    tape = []

    class Taping(Gateway):
        def release(self, name, query, noise):
            tape.append(super().release(name, query, noise))
            return tape[-1].clone()

    live = run(Taping(rows(), randomness=SeededRandomness(0)))
    played = run(PlaybackGateway(tape, randomness=SeededRandomness(1)))
    assert all(torch.equal(live[name], played[name]) for name in live)


def test_progress_rises_to_one():
    seen = []
    gateway = Gateway(rows(), randomness=SeededRandomness(0))
    measured = measure_table(gateway, DOMAIN, COUNT, noises(5.0), QUICK)
    fit_trees(measured, QUICK, generator=torch.Generator().manual_seed(0), progress=seen.append)
    assert seen == sorted(seen)
    assert 0 < seen[0] < 0.1 < 0.9 < seen[-1] <= 1


def test_a_table_of_one_column_is_its_histogram():
    domain = Domain((Categorical("eyes", ("blue", "brown", "green")),))
    records = Records.from_lists([[at % 3] for at in range(900)] + [[0]] * 300, domain)
    spends = tree_spends(PublicFacts(domain, 1200, 1.0, 1e-6), TREE_RULES)
    assert [spend.name for spend in spends] == ["column counts"]
    gateway = Gateway(records, randomness=SeededRandomness(0))
    measured = measure_table(gateway, domain, 1200, {"column counts": 1.0}, QUICK)
    drawn = fit_trees(measured, QUICK, generator=torch.Generator().manual_seed(0)).sample(
        1200, generator=torch.Generator().manual_seed(0)
    )
    assert np.abs(np.bincount(drawn.indices) - [600, 300, 300]).max() < 10


def test_few_rows_of_many_columns_have_ranks_alone():
    survey = Domain(tuple(Numeric(f"q{at}", 1, 5, 5, integer=True) for at in range(40)))
    few, many = (PublicFacts(survey, count, 1.0, 1e-6) for count in (1000, 200_000))
    assert [spend.name for spend in tree_spends(few, TREE_RULES)] == ["column counts", "rank pairs"]
    assert "coarse pairs" in [spend.name for spend in tree_spends(many, TREE_RULES)]
    assert bearable_groups(few, TREE_RULES) < bearable_groups(many, TREE_RULES)


def test_pairs_that_the_domain_states_are_measured_value_by_value():
    stated = replace(DOMAIN, pairs=(("eyes", "height"),), weights=(("weight", 3.0),))
    few = PublicFacts(stated, 300, 0.05, 1e-6)
    names = [spend.name for spend in tree_spends(few, TREE_RULES)]
    assert names == ["column counts", "full pairs", "rank pairs"]
    assert sum(spend.share for spend in tree_spends(few, TREE_RULES)) == pytest.approx(1)
    records = Records.from_lists(np.split(rows().indices, COUNT), stated)
    for spends in (dict.fromkeys(names, 1.0), noises(1.0, stated)):
        gateway = Gateway(records, randomness=SeededRandomness(0))
        measured = measure_table(gateway, stated, COUNT, spends, QUICK)
        by_name = {one.statistic.name: one.statistic for one in measured.pairs}
        pairs = [tuple(pair) for pair in by_name["full pairs"].pairs.tolist()]
        assert (0, 2) in pairs
        assert (len(pairs) == 1) == ("coarse pairs" not in spends)
        of_ranks = by_name["rank pairs"]
        emphasis = dict(zip(map(tuple, of_ranks.pairs.tolist()), of_ranks.emphasis.tolist(), strict=True))
        assert emphasis[0, 1] == emphasis[1, 3] == 12
        assert emphasis[0, 3] == 4


def test_a_missing_value_that_no_one_has_is_in_no_row():
    gaps = Domain((Categorical("eyes", ("blue", "brown"), missing=True), Numeric("age", 0, 9, 10, missing=True)))
    lists = [[at % 2, 3 + (10 if at % 4 == 0 else at % 10)] for at in range(2000)]
    spends = noises(1.0, gaps, 2000)
    for seed in range(5):
        gateway = Gateway(Records.from_lists(lists, gaps), randomness=SeededRandomness(seed))
        measured = measure_table(gateway, gaps, 2000, spends, QUICK)
        model = fit_trees(measured, QUICK, generator=torch.Generator().manual_seed(0))
        drawn = model.sample(3000, generator=torch.Generator().manual_seed(1))
        counts = np.bincount(drawn.indices, minlength=gaps.width)
        assert counts[2] == 0
        assert counts[-1] == pytest.approx(750, abs=60)


def test_a_release_of_very_many_columns_opens_again():
    wide = Domain(tuple(Numeric(f"q{at}", 0, 4, 5) for at in range(140)))
    few = replace(
        QUICK,
        base=replace(QUICK.base, rows=200, steps_alone=1, components_alone=2),
        pool=replace(QUICK.pool, least=200),
        tilt=replace(QUICK.tilt, iterations=1),
    )
    draws = np.random.default_rng(0)
    codes = draws.integers(0, 5, (200, 140)) + 5 * np.arange(140)
    gateway = Gateway(Records.from_lists(codes.tolist(), wide), randomness=SeededRandomness(0))
    measured = measure_table(gateway, wide, 200, {"column counts": 1.0, "rank pairs": 1.0}, few)
    model = fit_trees(measured, few, generator=torch.Generator().manual_seed(0))
    again = Trees.from_state(model.architecture, model.state(), wide, few.sampling)
    assert len(again.sample(10, generator=torch.Generator().manual_seed(0))) == 10


def test_ranks_alone_keep_the_correlation():
    spends = {"column counts": 1.0, "rank pairs": 1.0}
    measured = measure_table(Gateway(rows(), randomness=SeededRandomness(0)), DOMAIN, COUNT, spends, QUICK)
    drawn = fit_trees(measured, QUICK, generator=torch.Generator().manual_seed(0)).sample(
        COUNT, generator=torch.Generator().manual_seed(1)
    )
    found = codes_of(drawn)
    assert np.corrcoef(found[:, 0], found[:, 1])[0, 1] > 0.6  # of the rows .82
