"""A gateway over the rows of one part: released values first, then one exact sum, and never a sample."""

import pytest
import torch

from dpgm.data.domain import Domain
from dpgm.data.records import Records
from dpgm.errors import BudgetError, UsageError
from dpgm.mechanisms.parts import NextSum, PartGateway, refuse_samples
from dpgm.mechanisms.query import Query
from dpgm.mechanisms.randomness import SeededRandomness
from dpgm.privacy.events import Mechanism

RECORDS = Records.from_lists([[0], [1], [0, 1], []], Domain.of_items(2))
ROWS = Query(lambda view: torch.tensor([len(view.rows)]), 1.0, (1,), grid=1.0)
PLAN = (Mechanism("rows", 2.0, 2), Mechanism("more rows", 3.0))


def part(tape):
    return PartGateway(RECORDS, tape, randomness=SeededRandomness(0), allowance=PLAN, rows_per_person=1)


def test_released_values_are_answered_and_the_next_sum_ends_the_run():
    gateway = part([torch.tensor([17.0])])
    assert gateway.release("rows", ROWS, 2.0).tolist() == [17.0]  # what was released, not the four rows here
    with pytest.raises(NextSum) as found:
        gateway.release("rows", ROWS, 2.0)
    assert found.value.exact.tolist() == [len(RECORDS)]
    assert (found.value.call.name, found.value.query, found.value.labels) == ("rows", ROWS, None)


def test_what_is_not_in_the_plan_is_refused_before_a_row_is_touched():
    with pytest.raises(BudgetError, match="not in the plan"):
        part([]).release("columns", ROWS, 2.0)


@pytest.mark.parametrize("sampled", [Mechanism("norms", 5.0, 3, 0.5, "step"), Mechanism("norms", 5.0, 3, 0.5)])
def test_a_plan_that_samples_rows_is_refused(sampled):
    refuse_samples(PLAN)
    with pytest.raises(UsageError, match="a fresh sample of the rows"):
        refuse_samples((*PLAN, sampled))
