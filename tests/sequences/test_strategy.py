"""Sequences end to end: what a fit learns, small and odd domains, releases that nobody trusts."""

from dataclasses import replace

import numpy as np
import pytest
import torch

import dpgm
from dpgm.data.domain import Categorical, Domain, ItemSequence, ItemSet, Numeric
from dpgm.data.events import Events
from dpgm.data.records import Records
from dpgm.errors import ArtefactError, UsageError
from dpgm.mechanisms.randomness import SeededRandomness
from dpgm.sequences.model import Sequences
from dpgm.sequences.rules import SEQUENCE_RULES, SequenceSettings
from dpgm.strategy.settings import Config
from dpgm.synthesis.plan import make_plan
from synthesis_data import CLICKS, FEW_CHAINS, some_records

pytestmark = pytest.mark.filterwarnings("ignore::dpgm.PrivacyWarning")
QUICK = replace(SEQUENCE_RULES, pool=replace(SEQUENCE_RULES.pool, least=20_000, least_before=10_000, first=1000))


def sequences(rows, items, longest):
    domain = Domain((ItemSequence("clicks", tuple(f"i{at}" for at in range(items)), max_length=longest),))
    return Records.of_events(Events.from_lists(rows, items), domain)


def fitted(records, epsilon=1.0, rules=FEW_CHAINS, seed=0):
    plan = make_plan(Config(epsilon), len(records), records.domain)
    plan = replace(plan, settings=replace(plan.settings, family=SequenceSettings(rules)))
    return dpgm.Synthesizer(epsilon, randomness=SeededRandomness(seed)).fit(records, plan=plan)


def rows_of(records):
    events = records.events
    return [events.codes[a:b].tolist() for a, b in zip(events.indptr[:-1], events.indptr[1:], strict=True)]


def test_two_kinds_of_people_and_their_long_memory_come_back():
    """Half go round and round, half to and fro; the last item before the end says which, many steps later."""
    rng = np.random.default_rng(0)
    rows = []
    for _ in range(4000):
        length = int(rng.integers(4, 9))
        rows.append(
            [at % 3 for at in range(length)] if rng.random() < 0.5 else [at % 2 * 3 for at in range(length)]
        )
    records = sequences(rows, 4, 12)
    drawn = rows_of(fitted(records, 4.0, QUICK).sample(2000, seed=1))
    round_and_round = sum(row == [at % 3 for at in range(len(row))] for row in drawn)
    to_and_fro = sum(row == [at % 2 * 3 for at in range(len(row))] for row in drawn)
    assert round_and_round + to_and_fro > 1900
    assert 900 < round_and_round < 1100
    lengths = np.bincount([len(row) for row in drawn], minlength=13)[4:9] / 2000
    assert np.abs(lengths - 0.2).max() < 0.05


def test_columns_of_a_person_go_with_each_other_and_with_the_events():
    """The kind of a person follows from the rows of events, the age from the kind."""
    rng = np.random.default_rng(0)
    sequence = ItemSequence("clicks", tuple("abcd"), max_length=12)
    domain = Domain((Categorical("kind", ("round", "fro")), sequence, Numeric("age", 0, 100, 20)))
    kinds, lengths = rng.random(4000) < 0.4, rng.integers(3, 8, 4000)
    pairs = zip(kinds, lengths, strict=True)
    rows = [
        [at % 3 for at in range(length)] if kind else [at % 2 for at in range(length)] for kind, length in pairs
    ]
    ages = np.where(kinds, rng.integers(0, 10, 4000), rng.integers(10, 20, 4000))
    positions = [[0 if kind else 1, 6 + age] for kind, age in zip(kinds, ages, strict=True)]
    attributes = Records.from_lists(positions, domain)
    found = fitted(Records.of_events(Events.from_lists(rows, 4), domain, attributes), 4.0, QUICK)
    drawn = found.sample(2000, seed=1)
    drawn.check()
    dense = drawn.to_dense()
    kind, old = dense[:, 0] == 1, dense[:, 16:26].any(axis=1)
    has_c = np.array([2 in row for row in rows_of(drawn)])
    assert abs(kind.mean() - 0.4) < 0.03
    assert (has_c == kind).mean() > 0.97
    assert (old == ~kind).mean() > 0.92  # a range of ages that stands for one code has both kinds
    of_one_kind = found.sample(300, seed=1, where="kind = fro").to_dense()
    assert of_one_kind[:, 1].all()
    assert of_one_kind[:, 4].mean() < 0.05


@pytest.mark.parametrize(
    ("rows", "items", "longest"),
    [
        ([[0]] * 20 + [[0, 0, 0]] * 20, 1, 3),
        ([[at % 5] for at in range(40)], 5, 1),
        ([[at % 3, (at + 1) % 3] for at in range(40)], 3, 2),
        ([[]] * 40, 4, 10),
        ([[at % 4] * 10 for at in range(40)], 4, 10),
    ],
)
def test_odd_domains_are_fitted_and_sampled(rows, items, longest):
    records = sequences(rows, items, longest)
    found = fitted(records)
    drawn = found.sample(300, seed=0)
    drawn.check()
    assert len(drawn) == 300
    assert max(map(len, rows_of(drawn))) <= longest
    assert found.plan_.pays_for("3 in a row") == (longest >= 3)


def test_a_sample_depends_on_its_seed_alone():
    found = fitted(some_records(CLICKS, 200))
    assert found.sample(500, seed=3) == found.sample(500, seed=3)
    assert found.sample(500, seed=3) != found.sample(500, seed=4)


def test_a_release_is_saved_verified_and_loaded(tmp_path):
    found = fitted(some_records(CLICKS, 200))
    found.save(tmp_path / "release")
    assert {check.name for check in dpgm.verify(tmp_path / "release").failed} == {"private randomness"}
    loaded = dpgm.load(tmp_path / "release")
    assert loaded.sample(50, seed=1) == found.sample(50, seed=1)


@pytest.fixture(scope="module")
def parts():
    generator = fitted(some_records(CLICKS, 200)).generator_
    return generator.architecture, generator.state()


def test_parts_of_a_release_make_the_same_generator(parts):
    architecture, tensors = parts
    again = Sequences.from_state(architecture, tensors, CLICKS, FEW_CHAINS)
    assert again.architecture == architecture
    assert all(torch.equal(tensor, again.state()[name]) for name, tensor in tensors.items())


@pytest.mark.parametrize("name", ["kind", "components", "more"])
@pytest.mark.parametrize("value", [None, 0, -1, "x", 10**12, True, 2.5])
def test_an_architecture_that_makes_no_sense_is_refused(parts, name, value):
    architecture, tensors = parts
    with pytest.raises(ArtefactError):
        Sequences.from_state(architecture | {name: value}, tensors, CLICKS, FEW_CHAINS)


def changed(tensor):
    yield tensor[:-1]
    yield tensor.float() if tensor.dtype != torch.float32 else tensor.double()
    yield tensor.reshape(1, -1) if tensor.dim() == 1 else tensor.flatten()
    yield torch.full_like(tensor, -(10**9))
    yield torch.full_like(tensor, 10**9)
    if tensor.is_floating_point():
        yield torch.full_like(tensor, torch.nan)
    if tensor.dtype == torch.int64 and len(tensor) > 1:
        yield tensor.flip(0)
        yield torch.cat([tensor[:1], tensor[:-1]])


def test_every_tensor_that_makes_no_sense_is_refused(parts):
    architecture, tensors = parts
    for name, tensor in tensors.items():
        without = {other: one for other, one in tensors.items() if other != name}
        for broken in (without, *(tensors | {name: one} for one in changed(tensor))):
            with pytest.raises(ArtefactError):
                Sequences.from_state(architecture, broken, CLICKS, FEW_CHAINS)
    for extra in ("more", "theta: 9 in a row", "theta: steps by height", "cells: steps"):
        with pytest.raises(ArtefactError):
            Sequences.from_state(
                architecture, tensors | {extra: torch.zeros(1, dtype=torch.float64)}, CLICKS, FEW_CHAINS
            )


def test_a_release_for_another_domain_is_refused(parts):
    other = Domain((ItemSequence("clicks", tuple("abcdef"), max_length=30),))
    for domain in (other, Domain.of_items(5)):
        with pytest.raises(ArtefactError):
            Sequences.from_state(*parts, domain, FEW_CHAINS)


def test_other_lists_beside_a_sequence_are_refused():
    domain = Domain((ItemSequence("clicks", tuple("ab"), max_length=5), ItemSet("bought", tuple("xy"))))
    with pytest.raises(UsageError, match="leave other lists"):
        make_plan(Config(1.0, model="sequences"), 100, domain)
