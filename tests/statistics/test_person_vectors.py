"""Maps of persons with events, times and columns: each person alone decides what it adds; ones, cells and ranks by hand."""

import numpy as np
import pytest

from dpgm.data.domain import Domain, ItemSequence
from dpgm.data.events import Events
from dpgm.data.records import Records
from dpgm.data.rows import row_pointers
from dpgm.sequences.layout import PersonLayout
from dpgm.sequences.rules import SEQUENCE_RULES
from dpgm.statistics.attribute_vectors import (
    ATTRIBUTE_PAIRS,
    ATTRIBUTES,
    ATTRIBUTES_BY_ITEM,
    ATTRIBUTES_BY_LENGTH,
    ATTRIBUTES_BY_STEP,
    AttributeCodes,
    AttributesByEvents,
    AttributeVectors,
)
from dpgm.statistics.event_vectors import ItemPairs, Ngrams, SequenceLengths, StepCounts
from dpgm.statistics.place_vectors import (
    FIRST_PLACES,
    NEXT_PLACES,
    PLACES,
    OfRanks,
    PlaceVectors,
    ranked,
    ranks_of,
)
from dpgm.statistics.statistic import STEPS
from dpgm.statistics.time_vectors import (
    ACTIVE_DAYS,
    ACTIVITY,
    HABITS,
    TIME_STATISTICS,
    WEEK,
    Clock,
    DaySteps,
    ItemHours,
    TimeVectors,
    habit_kinds,
)
from synthesis_data import TRAVELLERS, some_records

CLOCK = Clock.of(TRAVELLERS.sequence, SEQUENCE_RULES.bins)
FINE = AttributeCodes.fine(TRAVELLERS)
MAPS = [
    SequenceLengths(30),
    StepCounts(5),
    StepCounts(5, (3, 6)),
    ItemPairs(5),
    ItemPairs(5, np.array([0, 3, 7])),
    Ngrams(2, 5, np.array([1, 7, 13])),
    OfRanks(StepCounts(3), 3),
    OfRanks(Ngrams(3, 3, np.array([3, 10])), 3),
    DaySteps(5, CLOCK),
    ItemHours(5, CLOCK),
    *(TimeVectors(name, CLOCK) for name in TIME_STATISTICS),
    *(PlaceVectors(name, 5, 3) for name in (FIRST_PLACES, PLACES, NEXT_PLACES)),
    *(AttributeVectors(name, FINE) for name in (ATTRIBUTES, ATTRIBUTE_PAIRS, ATTRIBUTES_BY_LENGTH)),
    *(AttributesByEvents(name, FINE, 5) for name in (ATTRIBUTES_BY_STEP, ATTRIBUTES_BY_ITEM)),
]


def rows_of(vectors):
    return [
        sorted(zip(vectors.cells[a:b].tolist(), vectors.steps[a:b].tolist(), strict=True))
        for a, b in zip(vectors.indptr[:-1], vectors.indptr[1:], strict=True)
    ]


@pytest.mark.parametrize("one", MAPS, ids=lambda one: one.name)
def test_what_a_person_adds_depends_on_that_person_alone(one):
    records = some_records(TRAVELLERS, 60, seed=3)
    together = rows_of(one.vectors(records))
    alone = [rows_of(one.vectors(records.rows(at, at + 1)))[0] for at in range(len(records))]
    assert together == alone
    assert all(0 <= cell < one.width for row in together for cell, _ in row)
    assert all(len({cell for cell, _ in row}) == len(row) for row in together)
    most = getattr(one, "ones", 0)
    if most:
        assert max(sum(step**2 for _, step in row) for row in together) <= most * STEPS**2


def timed(rows, times, items=5):
    sequence = ItemSequence(
        "s", tuple("abcdefgh"[:items]), max_length=30, time=True, start="2024-03-04", end="2024-03-10"
    )
    domain = Domain((sequence,))
    return Records.of_events(Events.from_lists(rows, items, times), domain), Clock.of(sequence, SEQUENCE_RULES.bins)


def test_ranks_are_those_of_first_appearance():
    events = Events.from_lists([[4, 1, 4, 3, 1], [2]], 5)
    assert ranks_of(events).tolist() == [0, 1, 0, 2, 1, 0]
    assert ranked(events, 2).codes.tolist() == [0, 1, 0, 1, 1, 0]
    assert ranked(ranked(events, 2), 2) == ranked(events, 2)


def test_habits_and_activity_by_hand():
    """Monday and Wednesday at 8:00, the period is a week from Monday on."""
    records, clock = timed([[0, 1, 0]], [[8 * 60, 9 * 60, 2 * 1440 + 8 * 60]])
    kinds = habit_kinds(SEQUENCE_RULES.bins)
    assert rows_of(TimeVectors(HABITS, clock).vectors(records)) == [[(16 * kinds + 1, STEPS)]]
    found = np.zeros(4 * WEEK)
    for cell, steps in rows_of(TimeVectors(ACTIVITY, clock).vectors(records))[0]:
        found[cell] = steps / STEPS
    quiet_on, busy_on = found.reshape(2, WEEK, 2)[:, :, 1]
    assert quiet_on.tolist() == [1, 0, 1, 0, 0, 0, 0]
    assert busy_on.tolist() == [0] * WEEK
    assert found.sum() == WEEK
    size = len(SEQUENCE_RULES.bins.day_counts) + 1
    active = [cell for cell, _ in rows_of(TimeVectors(ACTIVE_DAYS, clock).vectors(records))[0]]
    assert active == [2 * size, size**2 + 2 * size + 2]  # two weekdays and no weekend; two days in two runs


def test_first_and_next_places_by_hand():
    records, _ = timed([[4, 1, 4, 3], [2, 2]], [[0, 1, 2, 3], [0, 1]])
    assert rows_of(PlaceVectors(FIRST_PLACES, 5, 3).vectors(records)) == [[(21, STEPS)], [(12, STEPS)]]
    assert rows_of(PlaceVectors(PLACES, 5, 3).vectors(records)) == [
        [(4, STEPS), (6, STEPS), (13, STEPS)],
        [(2, STEPS)],
    ]
    assert rows_of(PlaceVectors(NEXT_PLACES, 5, 3).vectors(records)) == [[(23, STEPS)], []]


def test_neighbouring_values_share_codes_with_about_equally_many_people():
    shares = [np.array([0.5, 0.5]), np.full(20, 0.05)]
    codes = AttributeCodes.coarse(TRAVELLERS, shares, 4)
    assert codes.codes[0].tolist() == [0, 1]
    assert codes.codes[1].tolist() == [at // 5 for at in range(20)]


def test_proposals_of_ranks_and_times_are_possible():
    """Ranks come in turn, times rise within the period, and no more events than allowed."""
    from dataclasses import replace

    rules = replace(SEQUENCE_RULES, places=replace(SEQUENCE_RULES.places, most_items=4, ranks=3))
    layout = PersonLayout(TRAVELLERS, rules)
    sizes = layout.sizes
    rng = np.random.default_rng(0)
    import torch

    laws = torch.from_numpy(np.concatenate([rng.dirichlet(np.ones(size)) for size in sizes])).float()
    mixture = layout.first(
        torch.ones(1).double(),
        laws[None, : -sum(layout.columns.sizes)],
        [np.full(size, 1 / size) for size in layout.columns.sizes],
    )
    records = layout.draw(mixture, 2000, rng).records
    events = records.events
    events.check(3, TRAVELLERS.sequence.minutes, TRAVELLERS.sequence.max_length)
    later = np.flatnonzero(np.diff(events.people()) == 0)
    assert (np.diff(events.times)[later] > 0).all()
    for person in range(200):
        codes = events.rows(person, person + 1).codes
        assert all(code <= codes[:at].max(initial=-1) + 1 for at, code in enumerate(codes.tolist()))
    assert len(row_pointers(events.lengths)) == len(records) + 1
