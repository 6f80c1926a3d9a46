"""Events of a sequence go with their records, wherever those go; and a domain says what a sequence is."""

import datetime

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpgm.data.domain import Categorical, Domain, ItemSequence
from dpgm.data.domain_file import domain_from_plain, domain_to_plain
from dpgm.data.events import Events, concatenate_events
from dpgm.data.records import Records, concatenate
from dpgm.errors import UsageError
from dpgm.strategy.settings import Config
from dpgm.synthesis.strategies import STRATEGIES, choose_strategy

ITEMS = 6
PERIOD = {"time": True, "start": "2024-03-04", "end": "2024-03-10"}
DOMAIN = Domain((Categorical("card", ("adult", "child")), ItemSequence("stops", tuple(range(ITEMS)), **PERIOD)))
people = st.lists(
    st.tuples(
        st.integers(0, 1), st.lists(st.tuples(st.integers(0, 7 * 1440 - 1), st.integers(0, ITEMS - 1)), max_size=6)
    ),
    min_size=1,
    max_size=8,
)


def _records(made):
    lists = [sorted(events) for _, events in made]
    codes, times = ([[event[at] for event in row] for row in lists] for at in (1, 0))
    cards = Records.from_lists([[card] for card, _ in made], DOMAIN)
    records = Records.of_events(Events.from_lists(codes, ITEMS, times), DOMAIN, cards)
    records.check()
    return records, codes


@given(made=people, data=st.data())
def test_events_go_with_their_records(made, data):
    records, codes = _records(made)
    picked = np.array(data.draw(st.lists(st.integers(0, len(made) - 1), max_size=9)), dtype=np.int64)
    chosen = records.take(picked)
    chosen.check()
    kept = [chosen.events.rows(at, at + 1).codes.tolist() for at in range(len(picked))]
    assert kept == [codes[at] for at in picked]
    start, stop = data.draw(st.integers(-3, 9)), data.draw(st.integers(-3, 9))
    part = records.rows(start, stop)
    part.check()
    assert part == records.take(np.arange(len(made))[start:stop])
    assert concatenate(list(records.chunks(data.draw(st.integers(1, 4))))) == records
    assert concatenate(list(records.pieces())) == records
    mask = np.arange(len(made)) % 2 == 0
    assert records.take(mask).events == records.events.take(mask)
    short = records.events.first(2)
    assert [short.rows(at, at + 1).codes.tolist() for at in range(len(made))] == [row[:2] for row in codes]


@given(made=people)
def test_the_items_of_a_record_are_those_of_its_events(made):
    records, codes = _records(made)
    for at, row in enumerate(codes):
        held = records.rows(at, at + 1).indices.tolist()
        assert held == [made[at][0], *(2 + item for item in sorted(set(row)))]


def test_equality_and_digests_see_the_order():
    one, other = (Records.of_events(Events.from_lists([row], 3), _plain()) for row in ([0, 1, 0], [0, 0, 1]))
    assert np.array_equal(one.indices, other.indices)
    assert one != other
    assert [array.tolist() for array in one.buffers()] != [array.tolist() for array in other.buffers()]
    with pytest.raises(ValueError, match="read-only"):
        one.events.codes[0] = 1


def _plain():
    return Domain((ItemSequence("page", ("a", "b", "c"), max_length=4),))


@pytest.mark.parametrize(
    ("codes", "times", "said"),
    [
        ([[0, 1, 2, 0, 1]], None, "more than 4 events"),
        ([[3]], None, "item numbers"),
        ([[0]], [[5]], "one time each"),
    ],
)
def test_events_that_do_not_fit_the_domain_are_refused(codes, times, said):
    events = Events.from_lists(codes, 4, times)
    with pytest.raises(UsageError, match=said):
        Records(_plain(), np.array([0, 0]), np.empty(0, np.int16), events=events).check()


def test_records_and_events_must_agree():
    events = Events.from_lists([[0, 1]], 3)
    for indices in ([0], [0, 2], [0, 1, 2]):
        records = Records(_plain(), np.array([0, len(indices)]), np.array(indices, np.int16), events=events)
        with pytest.raises(UsageError, match="must be those of the records"):
            records.check()
    with pytest.raises(UsageError, match="have events if their domain has a sequence"):
        Records.from_lists([[0]], _plain()).check()
    with pytest.raises(UsageError, match="have events if their domain has a sequence"):
        Records(Domain.of_items(3), np.array([0, 0]), np.empty(0, np.int16), events=events).check()
    late = Records.of_events(Events.from_lists([[1]], ITEMS, [[7 * 1440]]), DOMAIN)
    with pytest.raises(UsageError, match="minutes"):
        late.check()
    back = Records.of_events(Events.from_lists([[1, 2]], ITEMS, [[9, 8]]), DOMAIN)
    with pytest.raises(UsageError, match="must not fall"):
        back.check()
    fell = Events.from_lists([[1], [2]], ITEMS, [[9], [8]])  # of two people
    Records.of_events(fell, DOMAIN, Records.from_lists([[0], [1]], DOMAIN)).check()


def test_events_of_some_people_are_joined():
    one, two = Events.from_lists([[1], []], 3, [[4], []]), Events.from_lists([[2, 2]], 3, [[0, 1]])
    assert concatenate_events([one, two]) == Events.from_lists([[1], [], [2, 2]], 3, [[4], [], [0, 1]])
    assert one != two


def test_a_sequence_in_a_domain_file():
    plain = {"name": "stops", "kind": "sequence", "items": ["a", "b"], "max_length": 50, "time": True}
    plain |= {"from": "2024-03-04", "to": "2024-03-10T12:00", "zone": "Europe/Paris"}
    domain = domain_from_plain({"fields": [plain, {"name": "card", "kind": "categorical", "values": ["x"]}]})
    assert domain_to_plain(domain)["fields"][0] == plain
    sequence = domain.sequence
    assert (sequence.minutes, sequence.weekday, sequence.minute_of_day) == (6 * 1440 + 721, 0, 0)
    assert domain.item_set is None
    assert not domain.blocks[0].softmax
    dated = ItemSequence("s", ("a",), time=True, start=datetime.date(2024, 1, 1), end=datetime.date(2024, 1, 1))
    assert dated.minutes == 1440
    assert _plain().sequence is _plain().item_set is not None or _plain().sequence == _plain().item_set
    assert Domain.of_items(3).sequence is None


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ({"max_length": 0}, "max_length"),
        ({"max_length": 2.5}, "max_length"),
        ({"time": "yes"}, "time must be"),
        ({"time": True}, "public period"),
        ({"time": True, "start": "2024-01-01", "end": "soon"}, "'to' must be a date"),
        ({"time": True, "start": "2024-01-02", "end": "2024-01-01"}, "before 'to'"),
        ({"time": True, "start": "1900-01-02", "end": "2024-01-01"}, "twenty years"),
        ({"start": "2024-01-02"}, "belong to `time: true`"),
        ({**PERIOD, "zone": "Mars"}, "time zone"),
        ({"separator": ""}, "separator"),
    ],
)
def test_what_a_sequence_cannot_be_is_refused(keys, said):
    with pytest.raises(UsageError, match=said):
        ItemSequence("stops", ("a", "b"), **keys)


def test_two_sequences_are_refused():
    with pytest.raises(UsageError, match="two sequences"):
        Domain((ItemSequence("a", ("x",)), ItemSequence("b", ("y",))))


def test_families_that_do_not_know_the_order_refuse_a_sequence():
    for strategy in STRATEGIES:
        if not strategy.models_order and strategy.refuses(Config(1.0, model=strategy.name), DOMAIN) is None:
            with pytest.raises(UsageError, match="order of items"):
                choose_strategy(Config(1.0, model=strategy.name), DOMAIN)
