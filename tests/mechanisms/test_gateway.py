import numpy as np
import pytest
import torch

from dpgm.data.domain import Domain
from dpgm.data.records import Records
from dpgm.errors import BudgetError, DpgmError, UsageError
from dpgm.mechanisms.gateway import Gateway, PlaybackGateway, TraceGateway
from dpgm.mechanisms.query import Query
from dpgm.mechanisms.randomness import SeededRandomness, SystemRandomness
from dpgm.privacy.events import Mechanism
from dpgm.testing import assert_sampler_law

RECORDS = Records.from_lists([[0], [1], [0, 1], []], Domain.of_items(2))
COUNT = Query(lambda view: torch.tensor([len(view.rows)]), 1.0, (1,), grid=1.0)
PLAN = (
    Mechanism("count", 2.0, 2),
    Mechanism("norms", 5.0, 3, 0.5, "step"),
    Mechanism("sums", 1.0, 3, 0.5, "step"),
)


def live(**options):
    return Gateway(RECORDS, randomness=SeededRandomness(0), **options)


def never(view):
    raise AssertionError("a row was touched")


UNTOUCHED = Query(never, 1.0, (1,), grid=1.0)


def run_plan(gateway):
    for _ in range(2):
        gateway.release("count", COUNT, 2.0)
    for _ in range(3):
        with gateway.poisson("step", 0.5):
            gateway.release("norms", COUNT, 5.0)
            gateway.release("sums", COUNT, 1.0)


def test_what_ran_is_the_plan():
    gateway = live(allowance=PLAN)
    run_plan(gateway)
    assert gateway.spent == PLAN
    gateway.assert_complete()
    assert [gateway.remaining(name) for name in ("count", "norms", "sums", "other")] == [0, 0, 0, 0]


def test_running_less_than_the_plan_is_noticed():
    gateway = live(allowance=PLAN[:1])
    gateway.release("count", COUNT, 2.0)
    assert gateway.remaining("count") == 1
    with pytest.raises(DpgmError, match="'count' ran 1 times; the plan says 2"):
        gateway.assert_complete()


def test_a_gateway_without_a_plan_has_nothing_to_compare():
    assert live().remaining("count") is None
    with pytest.raises(UsageError, match="no plan"):
        live().assert_complete()


@pytest.mark.parametrize(
    ("name", "noise", "message"),
    [("other", 2.0, "not in the plan"), ("count", 1.9, "differs"), ("norms", 5.0, "differs")],
)
def test_what_is_not_in_the_plan_is_refused_before_a_row_is_touched(name, noise, message):
    gateway = live(allowance=PLAN)
    with pytest.raises(BudgetError, match=message):
        gateway.release(name, UNTOUCHED, noise)
    assert gateway.spent == ()


def test_one_run_too_many_is_refused():
    gateway = live(allowance=PLAN)
    run_plan(gateway)
    with pytest.raises(BudgetError, match="used up its 2 runs"):
        gateway.release("count", UNTOUCHED, 2.0)


def test_a_mechanism_sees_a_sample_only_once():
    gateway = live(allowance=PLAN)
    with gateway.poisson("step", 0.5):
        gateway.release("sums", COUNT, 1.0)
        with pytest.raises(BudgetError, match="already seen this sample"):
            gateway.release("sums", UNTOUCHED, 1.0)
    with gateway.poisson("step", 0.5):
        gateway.release("sums", COUNT, 1.0)


def test_a_resumed_fit_continues_the_account():
    before = (Mechanism("count", 2.0, 2), Mechanism("norms", 5.0, 1, 0.5, "step"), Mechanism("unused", 1.0, 0))
    gateway = live(allowance=PLAN, already_spent=before)
    assert gateway.remaining("count") == 0
    assert gateway.remaining("norms") == 2
    with pytest.raises(BudgetError, match="used up"):
        gateway.release("count", UNTOUCHED, 2.0)
    with gateway.poisson("step", 0.5):
        gateway.release("norms", COUNT, 5.0)
    assert gateway.spent == (Mechanism("count", 2.0, 2), Mechanism("norms", 5.0, 2, 0.5, "step"))


@pytest.mark.parametrize(
    "before", [Mechanism("count", 2.0, 3), Mechanism("count", 1.0, 1), Mechanism("other", 1.0, 1)]
)
def test_an_account_beyond_the_plan_is_refused_at_once(before):
    with pytest.raises(BudgetError):
        live(allowance=PLAN, already_spent=[before])


def test_a_plan_that_names_a_mechanism_twice_is_refused():
    with pytest.raises(UsageError, match="twice"):
        live(allowance=[PLAN[0], PLAN[0]])


def test_a_failing_query_stays_charged():
    gateway = live(allowance=PLAN)
    with pytest.raises(AssertionError, match="touched"):
        gateway.release("count", UNTOUCHED, 2.0)
    assert gateway.remaining("count") == 1
    poisoned = Query(lambda view: torch.tensor([float("nan")]), 1.0, (1,))
    with pytest.raises(DpgmError, match="not finite"):
        gateway.release("count", poisoned, 2.0)
    assert gateway.remaining("count") == 0


def test_no_noise_is_refused_before_it_is_charged():
    gateway = Gateway(RECORDS, randomness=SystemRandomness())
    with pytest.raises(UsageError, match="noise"):
        gateway.release("count", UNTOUCHED, 0.0)
    assert gateway.spent == ()


def test_releases_in_a_block_share_one_sample_and_blocks_do_not():
    rows = Records.from_lists([[0]] * 200, Domain.of_items(1))
    gateway = TraceGateway(rows, randomness=SeededRandomness(0))
    seen = []
    spy = Query(lambda view: seen.append(view.sample) or torch.tensor([len(view.rows)]), 1.0, (1,), grid=1.0)
    for _ in range(2):
        with gateway.poisson("step", 0.3):
            gateway.release("a", spy, 1.0)
            gateway.release("b", spy, 1.0)
    assert np.array_equal(seen[0], seen[1])
    assert np.array_equal(seen[2], seen[3])
    assert not np.array_equal(seen[0], seen[2])
    gateway.release("c", spy, 1.0)
    assert seen[4] is None
    assert [call.sampling_rate for call in gateway.calls] == [0.3] * 4 + [1.0]


def test_two_gateways_of_one_source_toss_different_coins():
    rows = Records.from_lists([[0]] * 500, Domain.of_items(1))
    source = SeededRandomness(0)
    samples = []
    for _ in range(2):
        gateway = TraceGateway(rows, randomness=source)
        with gateway.poisson("step", 0.3):
            pass
        samples.append(gateway.samples[0])
    assert not np.array_equal(*samples)


def test_the_samples_of_a_gateway_have_the_rate_that_is_charged():
    rows = Records.from_dense(np.ones((2000, 1)), Domain.of_items(1))
    gateway = Gateway(rows, randomness=SeededRandomness(4))

    def draw(step):
        seen = []

        def look(view):
            seen.append(view.sample)
            return torch.zeros(1, dtype=torch.int64)

        with gateway.poisson("step", 0.03):
            gateway.release("look", Query(look, 1.0, (1,), grid=1.0), 1.0)
        return seen[0]

    assert_sampler_law(draw, len(rows), 0.03, steps=400)
    assert [(one.count, one.sampling_rate) for one in gateway.spent] == [(400, 0.03)]


def test_samples_do_not_nest_and_close_after_an_error():
    gateway = live()
    with pytest.raises(DpgmError, match="do not nest"), gateway.poisson("a", 0.5), gateway.poisson("b", 0.5):
        pass
    with gateway.poisson("a", 0.5):
        pass


@pytest.mark.parametrize("rate", [0.0, 1.5, float("nan")])
def test_rates_outside_the_unit_interval_are_refused(rate):
    with pytest.raises(UsageError, match="rate"), live().poisson("step", rate):
        pass


def test_kept_columns_reach_queries():
    gateway = live()
    gateway.keep("length", lambda records: records.lengths)
    query = Query(lambda view: torch.tensor([int(view.kept["length"].sum())]), 2.0, (1,), grid=1.0)
    assert gateway.release("total", query, 0.0) == 4


def test_playback_answers_from_the_tape_and_ends_with_it():
    traced = TraceGateway(RECORDS, randomness=SeededRandomness(0), allowance=PLAN)
    run_plan(traced)
    played = PlaybackGateway(traced.tape, randomness=SeededRandomness(0), allowance=PLAN)
    played.keep("nothing", never)
    run_plan(played)
    assert played.calls == traced.calls
    assert played.spent == traced.spent
    short = PlaybackGateway(traced.tape[:1], randomness=SeededRandomness(0))
    assert torch.equal(short.release("count", UNTOUCHED, 2.0), traced.tape[0])
    with pytest.raises(DpgmError, match="tape has run out at 'count'"):
        short.release("count", UNTOUCHED, 2.0)


def test_a_replaying_trace_computes_exact_values_of_the_rows_at_hand():
    traced = TraceGateway(RECORDS, randomness=SeededRandomness(0), coins=lambda step, rate: [0, step])
    run_plan(traced)
    assert [sample.tolist() for sample in traced.samples] == [[0, 0], [0, 1], [0, 2]]
    other = TraceGateway(RECORDS.rows(0, 3), randomness=SeededRandomness(1), tape=traced.tape)
    assert torch.equal(other.release("count", COUNT, 2.0), traced.tape[0])
    assert other.exact[0] == 3
    assert traced.exact[0] == 4
    for _ in traced.tape[1:]:
        other.release("count", COUNT, 2.0)
    with pytest.raises(DpgmError, match="run out"):
        other.release("count", COUNT, 2.0)


@pytest.mark.parametrize(
    ("indptr", "indices"),
    [
        ([0, 4], [1, 1, 1, 1]),
        ([0, 2], [1, 0]),
        ([0, 1], [2]),
        ([0, 1], [-1]),
        ([0, 2], [1]),
        ([0, 2, 1, 2], [0, 1]),
    ],
)
def test_records_whose_norm_no_query_bounds_are_refused_at_the_door(indptr, indices):
    # Four times the same item would move a count by 4 where two distinct items are at most reckoned with.
    odd = Records(Domain.of_items(2), np.array(indptr), np.array(indices, dtype=np.int16))
    with pytest.raises(UsageError):
        Gateway(odd, randomness=SeededRandomness(0))


def test_records_made_in_any_usual_way_pass_the_door():
    domain = Domain.of_items(3)
    rows = [[], [2, 0], [], [0, 1, 2], [1, 1], []]
    made = Records.from_lists(rows, domain)
    for records in (made, made.rows(1, 4), made.take(np.array([3, 0, 3])), Records.from_lists([], domain)):
        Gateway(records, randomness=SeededRandomness(0))


def test_numpy_warns_of_nothing_while_rows_are_looked_at(recwarn):
    """That a warning came would tell of a row."""

    def overflow(view):
        far = np.array([1e308]) * len(view.records) * 100
        return torch.from_numpy(np.nan_to_num(far, posinf=1.0).astype(np.int64))

    gateway = Gateway(RECORDS, randomness=SeededRandomness(0))
    gateway.release("far", Query(overflow, 1.0, (1,), grid=1.0), 1.0)
    gateway.keep("far", lambda records: np.log(np.zeros(len(records))))
    assert not recwarn.list
