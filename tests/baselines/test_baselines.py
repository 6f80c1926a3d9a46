"""Baselines: their budgets and samples, and MWEM against an exact implementation."""

import numpy as np
import pytest

from dpgm.baselines import estimators, mwem
from dpgm.baselines.estimators import AnswerZero, IndependentMarginals, Mwem
from dpgm.baselines.mwem import FactoredWeights, clip_records
from dpgm.data.domain import Categorical, Domain, ItemSet
from dpgm.data.records import Records
from dpgm.errors import NotFittedError, UsageError
from dpgm.evaluation.counting_queries import count_queries, item_frequencies, popular_queries, query_error
from dpgm.mechanisms import gateway as gateways
from dpgm.mechanisms.query import View
from dpgm.mechanisms.randomness import SeededRandomness
from dpgm.privacy.accountant import cost
from reading_data import with_open_items


def correlated(count=4000, width=8, seed=0):
    rng = np.random.default_rng(seed)
    hidden = rng.random((count, 1)) < 0.4
    chances = np.where(hidden, np.linspace(0.8, 0.1, width), np.linspace(0.05, 0.3, width))
    return Records.from_dense(rng.random((count, width)) < chances, Domain.of_items(width))


def all_methods(epsilon=1.0, delta=1e-6):
    return [
        IndependentMarginals(epsilon, delta, SeededRandomness(1)),
        Mwem(epsilon, delta, iterations=5, randomness=SeededRandomness(1)),
    ]


@pytest.mark.parametrize("model", all_methods(), ids=lambda model: type(model).__name__)
def test_certificate_recomputes_to_the_budget(model):
    model.fit(correlated(1000))
    certificate = model.certificate_
    assert cost(certificate.mechanisms, 1e-6).epsilon == pytest.approx(certificate.epsilon)
    assert 0.99 <= certificate.epsilon <= 1.0
    assert certificate.private is False  # a seeded generator is never private


def test_baselines_are_private_by_default():
    assert IndependentMarginals(1.0).fit(correlated(200)).certificate_.private


@pytest.mark.parametrize("model", [AnswerZero(), *all_methods()], ids=lambda model: type(model).__name__)
def test_samples_have_the_domain_and_the_requested_size(model):
    records = correlated(500)
    with pytest.raises(NotFittedError, match="not fitted yet"):
        type(model)().sample(3)
    sample = model.fit(records).sample(77, seed=3)
    assert len(sample) == 77
    assert sample.domain == records.domain
    assert sample == model.sample(77, seed=3)
    assert np.all(np.diff(sample.indptr) <= records.width)
    with pytest.raises(UsageError, match="count"):
        model.sample(0)


def test_answer_zero_costs_nothing_and_answers_zero():
    records = correlated(100)
    model = AnswerZero().fit(records)
    assert model.certificate_.epsilon == 0.0
    assert count_queries(model.sample(50), [[0], [1, 2]]).tolist() == [0, 0]


def test_independent_marginals_come_close_at_a_large_budget():
    records = correlated(20_000)
    model = IndependentMarginals(50.0, 1e-6, SeededRandomness(2)).fit(records)
    assert np.allclose(model.generator_.probabilities, item_frequencies(records) / len(records), atol=0.005)
    drawn = model.sample(20_000, seed=0)
    assert np.allclose(item_frequencies(drawn), item_frequencies(records), atol=500)


def test_independent_marginals_keep_columns_valid():
    domain = Domain((Categorical("a", ("x", "y", "z")), ItemSet("s", tuple(range(5))), Categorical("b", (0, 1))))
    rng = np.random.default_rng(0)
    rows = [[int(rng.integers(3)), 3 + int(rng.integers(5)), 8 + int(rng.integers(2))] for _ in range(400)]
    drawn = IndependentMarginals(1.0, 1e-6, SeededRandomness(0)).fit(Records.from_lists(rows, domain)).sample(300)
    dense = drawn.to_dense(np.int64)
    assert (dense[:, :3].sum(axis=1) == 1).all()
    assert (dense[:, 8:].sum(axis=1) == 1).all()


def test_clipping_bounds_every_record_on_its_own():
    records = correlated(300, width=10)
    clipped = clip_records(records, 2)
    assert np.array_equal(clipped.lengths, np.minimum(records.lengths, 2))
    dense, before = clipped.to_dense(np.int64), records.to_dense(np.int64)
    assert (dense <= before).all()
    assert np.array_equal(clip_records(records.rows(100, 200), 2).to_dense(), clipped.rows(100, 200).to_dense())


def test_mwem_queries_move_within_their_sensitivity():
    records = correlated(60, width=9)
    for cap in (1, 2, 4):
        for gone in range(0, 60, 7):
            rest = records.take(np.delete(np.arange(60), gone))
            for make in (lambda c: c.all_answers(), lambda c: c.one_answer(5), lambda c: c.one_answer(20)):
                queries = [make(mwem._Candidates(records.domain, cap)) for _ in range(2)]
                whole, less = (q.compute(View(r)).double() for q, r in zip(queries, (records, rest), strict=True))
                assert (whole - less).norm() <= queries[0].sensitivity + 1e-9


class Tape(gateways.Gateway):
    """Records what it releases, so that another implementation can use the same noise."""

    def __init__(self, *args, **options):
        super().__init__(*args, **options)
        self.tape = []
        Tape.last = self

    def release(self, name, query, noise):
        answer = super().release(name, query, noise)
        self.tape.append((name, answer.clone()))
        return answer


@pytest.mark.parametrize("model", all_methods(), ids=lambda model: type(model).__name__)
def test_fit_depends_on_the_rows_only_through_what_was_released(monkeypatch, model):
    records, others = correlated(500), correlated(500, seed=9)
    monkeypatch.setattr(estimators, "Gateway", Tape)
    model.randomness = SeededRandomness(4)
    expected = model.fit(records).sample(200, seed=0)
    tape = [answer for _, answer in Tape.last.tape]
    monkeypatch.setattr(estimators, "Gateway", lambda _, **options: gateways.PlaybackGateway(tape, **options))
    assert model.fit(others).sample(200, seed=0) == expected


def exact_mwem(tape, width, count, replays):
    """MWEM over all 2^m cells, from the same noisy answers: the textbook loop and nothing else."""
    cells = (np.arange(2**width)[:, None] >> np.arange(width)) & 1
    queries = [(i,) for i in range(width)] + [(i, j) for i in range(width) for j in range(i + 1, width)]
    holds = np.stack([cells[:, list(query)].all(axis=1) for query in queries]).astype(float)
    histogram = tape[0][1].numpy()
    noise = Tape.last._allowance["record lengths"].noise
    histogram = np.where(histogram > noise * np.sqrt(2 * np.log(len(histogram))), histogram, 0.0)
    mean = histogram @ np.arange(len(histogram)) / histogram.sum()
    cap = min(width, max(1, round(mean)))
    p = min(0.5, min(mean, cap) / width)
    weights = np.prod(np.where(cells == 1, p, 1 - p), axis=1)
    measured = []
    for (_, answers), (_, answer) in zip(tape[1::2], tape[2::2], strict=True):
        chosen = int(np.abs(answers.numpy() / count - holds @ weights).argmax())
        measured.append((chosen, float(np.clip(answer.item() / count, 0, 1))))
        for _ in range(replays):
            for query, share in measured:
                weights = weights * np.exp(holds[query] * (share - holds[query] @ weights) / 2)
                weights /= weights.sum()
    return weights, cells


@pytest.mark.parametrize("width", [3, 8, 12])
def test_mwem_agrees_with_an_exact_implementation(monkeypatch, width):
    records = correlated(3000, width=width, seed=width)
    monkeypatch.setattr(estimators, "Gateway", Tape)
    model = Mwem(2.0, 1e-6, iterations=8, randomness=SeededRandomness(width)).fit(records)
    weights, cells = exact_mwem(Tape.last.tape, width, len(records), mwem.BASELINE_RULES.replays)
    expected = cells.T @ (weights[:, None] * cells)
    assert np.allclose(model.generator_.weights.pairs, expected, atol=1e-10)


def mwem_error(epsilon, iterations, seeds=3):
    records = correlated(5000, width=8)
    queries = [query for n in (1, 2, 3) for query in popular_queries(records, n, count=40)]
    errors = []
    for seed in range(seeds):
        model = Mwem(epsilon, 1e-6, iterations, SeededRandomness(seed)).fit(records)
        # against the clipped data: what clipping costs is not what iterations buy
        errors.append(
            query_error(clip_records(records, model.generator_.cap), model.sample(20_000, seed=0), queries).mean
        )
    return np.mean(errors)


def test_mwem_error_falls_with_iterations():
    few, some, many = (mwem_error(20.0, n) for n in (1, 8, 40))
    assert few > some > many


def test_mwem_error_falls_with_epsilon():
    small, middle, large = (mwem_error(epsilon, 20) for epsilon in (0.02, 0.2, 20.0))
    assert small > middle > large


def test_groups_never_exceed_their_limit():
    weights = FactoredWeights(np.full(6, 0.3), largest=3)
    weights.join(0, 1)
    weights.join(1, 2)
    allowed = weights.representable()
    assert allowed[0, 2]
    assert not allowed[0, 3]
    assert allowed[3, 4]
    weights.update((0, 2), 0.25)
    weights.refresh()
    drawn = weights.draw(40_000, np.random.default_rng(0))
    assert np.allclose((drawn[:, 0] & drawn[:, 2]).mean(), weights.pairs[0, 2], atol=0.01)
    assert weights.pairs[3, 4] == pytest.approx(0.09)


def test_mwem_refuses_what_it_cannot_represent():
    table = Records.from_lists([[0, 2]], Domain((Categorical("a", (0, 1)), Categorical("b", (0, 1)))))
    with pytest.raises(UsageError, match="item sets and images only"):
        Mwem(1.0).fit(table)
    with pytest.raises(UsageError, match="at most 2000 items"):
        Mwem(1.0).fit(Records.from_lists([[0]], Domain.of_items(2001)))


@pytest.mark.parametrize("lists", [[], [[]], [[0]], [[0, 1, 2]] * 3], ids=["none", "empty", "one", "equal"])
def test_degenerate_data_runs(lists):
    records = Records.from_lists(lists, Domain.of_items(3))
    for model in (IndependentMarginals(1.0, 1e-6), Mwem(1.0, 1e-6, iterations=2)):
        assert len(model.fit(records).sample(5)) == 5


def test_arguments_are_attributes_that_a_later_fit_heeds():
    model = Mwem(2.0, 1e-6, iterations=8, randomness=SeededRandomness(0))
    assert model.iterations == 8
    model.iterations = 3
    model.fit(Records.from_lists([[0], [1, 2], []] * 40, Domain.of_items(4)))
    assert {one.name: one.count for one in model.certificate_.mechanisms}["select"] == 3


@pytest.mark.parametrize("model", [*all_methods(), AnswerZero()], ids=lambda model: type(model).__name__)
def test_a_domain_with_values_to_discover_is_refused(model):
    """Otherwise counts over no positions are measured, and sampling fails."""
    records = with_open_items(correlated(50))
    with pytest.raises(UsageError, match="nothing to discover"):
        model.fit(records)
