"""Tilted mixtures of trees: samples have the sums of the fit, conditions hold exactly, damaged states are refused."""

from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
import torch

from dpgm.data.domain import Categorical, Domain
from dpgm.data.records import Records
from dpgm.errors import ArtefactError
from dpgm.statistics.coded_rows import Coding
from dpgm.statistics.column_counts import ColumnCounts
from dpgm.statistics.pair_blocks import FOURTHS, PairBlocks, group_features
from dpgm.synthesis.conditioning import parse_where, region_of
from dpgm.trees.forest import Forest
from dpgm.trees.model import Trees
from dpgm.trees.rules import TreeSamplingRules
from dpgm.trees.tilted import RowPool, TiltedSums

SIZES = (4, 3, 5)
DOMAIN = Domain(tuple(Categorical(name, tuple(range(size))) for name, size in zip("abc", SIZES, strict=True)))
CODING = Coding.of(DOMAIN)
FITTED = 5000


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def tilted_model(seed=0, limit=9000**2):
    """A random mixture and a random tilt, with the sums that a very large pool has."""
    rng = np.random.default_rng(seed)
    parents = (-1, 0, 0)
    tables = []
    for size, parent in zip(SIZES, parents, strict=True):
        table = rng.gamma(1.0, size=(2, 1 if parent < 0 else SIZES[parent], size)).astype(np.float32).astype(float)
        tables.append((table / table.sum(2, keepdims=True)).astype(np.float32).astype(float))
    forest = Forest(DOMAIN, np.array([0.3, 0.7]), parents, tuple(tables))
    pairs = np.array(list(combinations(range(3), 2)))
    features = tuple(group_features(np.arange(size), np.full(size, 1 / size)) for size in SIZES)
    blocks = PairBlocks(CODING, features, pairs, np.array([FOURTHS, 2 * FOURTHS, FOURTHS]), limit)
    statistics = [ColumnCounts(CODING), blocks]
    widths = [sum(SIZES), blocks.width]
    parameters = [torch.from_numpy(0.4 * rng.normal(size=width)) for width in widths]
    pool = RowPool(CODING, forest.draw(200_000, rng))
    codes = pool.codes
    features_there = [pool.features(one) for one in statistics]
    energies = sum(own.energies(theta) for own, theta in zip(features_there, parameters, strict=True))
    log_total = torch.logsumexp(energies, 0)
    weights = FITTED * (energies - log_total).exp()
    tilted = [
        TiltedSums(statistic, theta, own.sums(weights), 10.0, 0.1)
        for statistic, theta, own in zip(statistics, parameters, features_there, strict=True)
    ]
    return Trees(forest, tilted, FITTED, float(log_total) - float(np.log(len(codes))), TreeSamplingRules())


MODEL = tilted_model()
EVERY = np.array(np.meshgrid(*map(np.arange, SIZES), indexing="ij")).reshape(3, -1).T


def law(model=MODEL):
    """The probability of every possible row, by definition."""
    chances = np.zeros(len(EVERY))
    for component, weight in enumerate(model.forest.weights):
        part = np.full(len(EVERY), weight)
        for column, (table, parent) in enumerate(zip(model.forest.tables, model.forest.parents, strict=True)):
            rows = 0 if parent < 0 else EVERY[:, parent]
            part *= table[component, rows, EVERY[:, column]]
        chances += part
    rows = Records.from_lists((EVERY + np.array(DOMAIN.offsets)).tolist(), DOMAIN)
    chances *= np.exp(model.energies(RowPool(CODING, rows)).numpy())
    return chances / chances.sum()


def shares(records):
    codes = CODING.codes(records)
    flat = (codes[:, 0] * SIZES[1] + codes[:, 1]) * SIZES[2] + codes[:, 2]
    return np.bincount(flat, minlength=len(EVERY)) / len(records)


def test_samples_follow_the_tilted_law():
    drawn = shares(MODEL.sample(60_000, generator=generator()))
    assert np.abs(drawn - law()).sum() / 2 < 0.01


def test_parts_of_a_sample_follow_the_tilted_law():
    drawn = np.mean(
        [shares(MODEL.sample_part(16_384, 0.1 * at, generator=generator(at))) for at in range(5)], axis=0
    )
    assert np.abs(drawn - law()).sum() / 2 < 0.015


def test_a_whole_sample_has_the_sums_of_the_fit():
    records = MODEL.sample(FITTED, generator=generator())
    for one in MODEL.tilted:
        found = RowPool(CODING, records).features(one.statistic).sums(torch.ones(FITTED, dtype=torch.float64))
        # independent rows would be off by some 30
        assert float((found - one.sums).abs().mean()) < 4


@pytest.mark.parametrize("count", [0, 1, 7, 3000])
def test_samples_are_valid_records(count):
    records = MODEL.sample(count, generator=generator())
    assert len(records) == count
    records.check()


def test_the_same_generator_gives_the_same_records():
    assert MODEL.sample(100, generator=generator(3)) == MODEL.sample(100, generator=generator(3))
    assert MODEL.sample(100, generator=generator(3)) != MODEL.sample(100, generator=generator(4))


def test_without_numba_samples_follow_the_same_law(monkeypatch):
    from dpgm.kernels import pair_kernels
    from dpgm.trees import rounding

    monkeypatch.setattr(pair_kernels, "HAS_NUMBA", False)
    monkeypatch.setattr(rounding, "HAS_NUMBA", False)
    drawn = shares(MODEL.sample(20_000, generator=generator()))
    assert np.abs(drawn - law()).sum() / 2 < 0.02


@pytest.mark.parametrize("text", ["a = 0", "a != 1 and c in [2, 3]", "b = 2 or c = 4"])
def test_a_condition_holds_exactly_and_its_law_is_right(text):
    region = region_of(parse_where(text, DOMAIN), DOMAIN, unknown=False)
    given, chance = MODEL.conditioned(region.boxes)
    a, b, c = EVERY.T
    true = {
        "a = 0": a == 0,
        "a != 1 and c in [2, 3]": (a != 1) & np.isin(c, [2, 3]),
        "b = 2 or c = 4": (b == 2) | (c == 4),
    }[text]
    expected = law() * true
    assert chance == pytest.approx(expected.sum(), rel=0.05)
    drawn = shares(given.sample(30_000, generator=generator()))
    assert drawn[~true].sum() == 0
    assert np.abs(drawn - expected / expected.sum()).sum() / 2 < 0.02


def test_a_condition_that_the_base_never_meets_has_probability_0():
    tables = list(MODEL.forest.tables)
    tables[0] = np.array([[[0.5, 0.5, 0.0, 0.0]]] * 2)
    model = Trees(replace(MODEL.forest, tables=tuple(tables)), MODEL.tilted, FITTED, 0.0, TreeSamplingRules())
    assert model.conditioned(region_of(parse_where("a = 3", DOMAIN), DOMAIN, unknown=False).boxes) == (None, 0.0)


def test_too_many_boxes_are_left_to_rejection():
    model = Trees(MODEL.forest, MODEL.tilted, FITTED, 0.0, TreeSamplingRules(most_numbers=10))
    assert model.conditioned(region_of(parse_where("a = 0", DOMAIN), DOMAIN, unknown=False).boxes) is None


def test_state_comes_back():
    again = Trees.from_state(MODEL.architecture, MODEL.state(), DOMAIN, TreeSamplingRules())
    assert again.architecture == MODEL.architecture
    state, kept = MODEL.state(), again.state()
    assert set(state) == set(kept)
    assert all(torch.equal(state[name], kept[name]) for name in state)
    assert again.sample(500, generator=generator(1)) == MODEL.sample(500, generator=generator(1))


def broken(name, change):
    tensors = {key: value.clone() for key, value in MODEL.state().items()}
    tensors[name] = change(tensors[name])
    return tensors


def changed(at, value):
    def change(tensor):
        tensor.view(-1)[at] = value
        return tensor

    return change


PAIRS = "coarse pairs: "


@pytest.mark.parametrize(
    "tensors",
    [
        {},
        MODEL.state() | {"extra": torch.zeros(1)},
        broken("weights", lambda t: t * 2),
        broken("weights", lambda t: t.float()),
        broken("tables", lambda t: t[:-1]),
        broken("tables", lambda t: t * 0.9),
        broken("tables", lambda t: t * float("nan")),
        broken("parents", changed(0, 2)),  # a cycle
        broken("parents", changed(1, 7)),
        broken("log mean weight", lambda t: t * float("inf")),
        broken("column counts: parameters", lambda t: t * 1e9),
        broken("column counts: sums", lambda t: t[1:]),
        broken("column counts: noise", lambda t: -t),
        broken(f"{PAIRS}parameters", lambda t: t[1:]),
        broken(f"{PAIRS}groups", changed(0, 9)),
        broken(f"{PAIRS}groups", changed(4, 0)),  # the number of groups
        broken(f"{PAIRS}widths", changed(0, 0)),
        broken(f"{PAIRS}widths", changed(0, 100_000)),
        broken(f"{PAIRS}features", changed(0, 10_000)),
        broken(f"{PAIRS}features", changed(16, 1)),  # of a row without a value
        broken(f"{PAIRS}features", lambda t: t[1:]),
        broken(f"{PAIRS}pairs", changed(0, 1)),  # a column with itself
        broken(f"{PAIRS}pairs", lambda t: t[[0, 0, 1]]),
        broken(f"{PAIRS}pairs", lambda t: t[:0]),
        broken(f"{PAIRS}emphasis", lambda t: t * 4000),
        broken(f"{PAIRS}limit", lambda t: t * 0),
    ],
)
def test_a_damaged_state_is_refused(tensors):
    with pytest.raises(ArtefactError):
        Trees.from_state(MODEL.architecture, tensors, DOMAIN, TreeSamplingRules())


@pytest.mark.parametrize(
    "change",
    [
        {"kind": "products"},
        {"components": 0},
        {"components": 10**9},
        {"records": 0},
        {"records": True},
        {"statistics": ["coarse pairs"]},
        {"statistics": ["column counts", "full pairs", "coarse pairs"]},
        {"statistics": "column counts"},
        {"more": 1},
    ],
)
def test_a_damaged_architecture_is_refused(change):
    with pytest.raises(ArtefactError):
        Trees.from_state(MODEL.architecture | change, MODEL.state(), DOMAIN, TreeSamplingRules())
