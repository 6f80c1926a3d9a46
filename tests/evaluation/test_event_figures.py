"""Figures of sequences: zero for the same data, found by hand for small ones, and judged by the verdict."""

import numpy as np
import pytest

import dpgm
from dpgm.data.domain import Domain, ItemSequence
from dpgm.data.events import Events
from dpgm.data.records import Records
from dpgm.evaluation.event_figures import FIRST_ORDER, UNORDERED, code_distance, event_figures
from synthesis_data import TRAVELLERS, some_records

HOUR, DAY = 60, 24 * 60
DOMAIN = Domain((ItemSequence("s", tuple("abcd"), max_length=20),))


def of(rows, domain=DOMAIN, times=None):
    return Records.of_events(Events.from_lists(rows, 4, times), domain)


def test_the_same_data_are_at_no_distance():
    records = some_records(TRAVELLERS, 300)
    found = event_figures(records, records, "synthetic", 0)
    assert all(values["synthetic"] == 0 for values in found.distances.values())
    assert all(values["synthetic"] == 0 for values in found.run_errors.values())
    assert np.array_equal(found.steps.real, found.steps.synthetic)
    assert set(found.distances) == {"steps", "triples", "ends", "hours", "hour_pairs", "gaps"}
    assert found.times is not None
    assert found.times.hours[0].sum() == pytest.approx(1)


def test_distances_by_hand():
    real, synthetic = of([[0, 1, 0], [0, 1]]), of([[0, 1, 2], [3, 1]])
    found = event_figures(real, synthetic, "synthetic", 0)
    # real steps ab, ba, ab; synthetic ab, bc, db
    assert found.distances["steps"]["synthetic"] == pytest.approx(2 / 3)
    assert found.distances["triples"]["synthetic"] == 1
    assert found.distances["ends"]["synthetic"] == 1  # aa, ab against ac, db
    # ab: both against one of two people; ba: one against none
    assert found.run_errors[2]["synthetic"] == pytest.approx((0.5 + 1) / 2)
    assert found.closed == (0.5, 0.0)
    assert found.returns == (1.0, 0.0)
    assert found.repeats[0][1] == 1


def test_hours_and_gaps_by_hand():
    timed = Domain(
        (ItemSequence("s", tuple("abcd"), max_length=20, time=True, start="2024-01-01", end="2024-01-07"),)
    )
    real = of([[0, 1]], timed, [[8 * HOUR, 17 * HOUR]])
    synthetic = of([[0, 1]], timed, [[8 * HOUR, DAY + 17 * HOUR]])
    found = event_figures(real, synthetic, "synthetic", 0)
    assert found.distances["hours"]["synthetic"] == 0
    assert found.distances["hour_pairs"]["synthetic"] == 0
    assert found.distances["gaps"]["synthetic"] == 1
    assert found.times.weekdays[1].tolist() == [0.5, 0.5, 0, 0, 0, 0, 0]


def test_a_chain_keeps_steps_and_independent_items_do_not():
    rng = np.random.default_rng(0)
    rows = [((np.arange(6) + rng.integers(4)) % 4).tolist() for _ in range(2000)]
    found = event_figures(of(rows), of(rows), "synthetic", 0)
    assert found.distances["steps"][FIRST_ORDER] < 0.05
    assert found.distances["steps"][UNORDERED] > 0.5


def test_total_variation_of_nothing():
    nothing, some = np.empty(0, dtype=np.int64), np.array([1])
    assert code_distance(nothing, nothing) == 0
    assert code_distance(nothing, some) == code_distance(some, nothing) == 1


def test_the_verdict_and_the_report_speak_of_order(tmp_path):
    rng = np.random.default_rng(0)
    rows = [((np.arange(6) + rng.integers(4)) % 4).tolist() for _ in range(2000)]
    real = of(rows)
    mixed = of([rng.permutation(row).tolist() for row in rows])
    same = dpgm.evaluate(real, of(rows[::-1]))
    assert same.verdict.grade == "close"
    shuffled = dpgm.evaluate(real, mixed)
    assert shuffled.verdict.grade == "rough"
    assert any("steps from one item to the next would have to change" in text for text in shuffled.verdict.bad)
    dpgm.write_report(shuffled, tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text()
    assert "Events in order" in page
    assert "real data: what follows each item" in page
    assert "events" in shuffled.to_dict()


@pytest.mark.parametrize("rows", [[[]] * 20, [[0]] * 20])
def test_sequences_without_steps_are_evaluated(rows):
    found = dpgm.evaluate(of(rows), of([[0, 1]] * 20))
    assert found.events.distances["steps"]["synthetic"] == 1
    assert dpgm.evaluate(of(rows), of(rows)).events.distances["steps"]["synthetic"] == 0
