"""How close synthetic sequences are to real ones: steps, runs, starts and ends, repeats, and times of events."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpgm.arrays import Floats, Ints
from dpgm.data.events import Events
from dpgm.data.number_format import SECONDS
from dpgm.data.records import Records
from dpgm.data.rows import row_pointers
from dpgm.statistics.event_vectors import ngrams_of, person_events

FIRST_ORDER, UNORDERED = "first-order chain, not private", "items without order"
RUN_LENGTHS = (2, 3, 4, 5)
JUDGED_RUN = 3
LAGS = 10  # events between which repeats are counted
COMMONEST = 300  # runs whose numbers of people are compared
LEAST_SHARE = 0.001  # of people: errors of rarer runs are relative to this share
_SHOWN = 14  # items of the picture of steps
_MOST_DRAWN = 50_000  # people of a baseline
_HOUR, _DAY = SECONDS["hour"] // SECONDS["minute"], SECONDS["day"] // SECONDS["minute"]
_HOURS, _WEEK = _DAY // _HOUR, 7
_LONGEST_GAP = 14  # days between events that are told apart


@dataclass(frozen=True)
class StepPicture:
    """Shares of what follows each of the most frequent items: (items + 1, items + 1), the start and the end last."""

    names: tuple[str, ...]
    real: Floats
    synthetic: Floats


@dataclass(frozen=True)
class TimePicture:
    """Shares of events by hour of the day, of days between events of a person, and of events by weekday."""

    hours: tuple[Floats, Floats]
    gaps: tuple[Floats, Floats]
    weekdays: tuple[Floats, Floats]


@dataclass(frozen=True)
class EventFigures:
    """Figures of sequences.

    Attributes:
        distances: total variation by what is compared, for the synthetic data and for the baselines.
        run_errors: by length, the mean relative error of how many people have each of the commonest runs.
        repeats: by lag, the share of events that repeat the one so many before them: real and synthetic.
        returns: share of visits that return to the place before the last one: real and synthetic.
        closed: share of people whose last event has the item of the first one: real and synthetic.
        steps: what follows each item.
        times: hours, gaps and weekdays, if events have times.
    """

    distances: Mapping[str, Mapping[str, float]]
    run_errors: Mapping[int, Mapping[str, float]]
    repeats: tuple[Floats, Floats]
    returns: tuple[float, float]
    closed: tuple[float, float]
    steps: StepPicture
    times: TimePicture | None


def event_figures(real: Records, synthetic: Records, method: str, seed: int) -> EventFigures | None:
    """Figures of the synthetic sequences, by the name of their method, and of two baselines; None without sequences."""
    if real.events is None or synthetic.events is None:
        return None
    events = person_events(real), person_events(synthetic)
    items = _items(real)
    methods = {method: events[1]} | _baselines(events[0], items, seed)
    compared = distances_of(real)
    return EventFigures(
        {
            name: {
                who: code_distance(of(events[0]), of(other)) for who, other in methods.items() if _has(other, name)
            }
            for name, of in compared.items()
        },
        {
            length: {who: run_error(events[0], other, length, items) for who, other in methods.items()}
            for length in RUN_LENGTHS
        },
        (_repeats(events[0]), _repeats(events[1])),
        (_returns(events[0]), _returns(events[1])),
        (_closed(events[0]), _closed(events[1])),
        _step_picture(real, events[0], events[1]),
        _time_picture(real, events[0], events[1]),
    )


def distances_of(records: Records) -> dict[str, Callable[[Events], Ints]]:
    """What is compared by total variation: the code of everything that is counted."""
    items, sequence = _items(records), records.domain.sequence
    found: dict[str, Callable[[Events], Ints]] = {
        "steps": lambda events: ngrams_of(events, 2, items)[1],
        "triples": lambda events: ngrams_of(events, 3, items)[1],
        "ends": lambda events: _first(events) * items + _last(events),
    }
    if sequence is not None and sequence.time:
        begins = sequence.minute_of_day

        def hours(events: Events) -> Ints:
            return _minutes(events, begins) % _DAY // _HOUR

        def hour_pairs(events: Events) -> Ints:
            later = _later(events)
            return hours(events)[later - 1] * _HOURS + hours(events)[later]

        found |= {"hours": hours, "hour_pairs": hour_pairs, "gaps": lambda events: _gaps(events, begins)}
    return found


def _has(events: Events, name: str) -> bool:
    return events.times is not None or name not in ("hours", "hour_pairs", "gaps")


def event_distances(real: Records) -> dict[str, Callable[[Records, Records], float]]:
    """The distances of two samples by name, for what chance makes of them; empty without a sequence."""
    if real.events is None:
        return {}

    def of(codes: Callable[[Events], Ints]) -> Callable[[Records, Records], float]:
        return lambda first, second: code_distance(codes(person_events(first)), codes(person_events(second)))

    def run_errors(first: Records, second: Records) -> float:
        return run_error(person_events(first), person_events(second), JUDGED_RUN, _items(real))

    return {name: of(codes) for name, codes in distances_of(real).items()} | {"runs": run_errors}


def code_distance(first: Ints, second: Ints) -> float:
    """Half the sum of differences between the shares of all codes; 1 if only one side has any."""
    if not len(first) or not len(second):
        return float(len(first) != len(second))
    codes, at = np.unique(np.concatenate([first, second]), return_inverse=True)
    shares = [np.bincount(part, minlength=len(codes)) / len(part) for part in (at[: len(first)], at[len(first) :])]
    return float(np.abs(shares[0] - shares[1]).sum() / 2)


def run_error(real: Events, synthetic: Events, length: int, items: int) -> float:
    """The mean relative error of how many people have each of the commonest runs."""
    codes, shares = _people_with(real, length, items)
    chosen = np.argsort(-shares, kind="stable")[:COMMONEST]
    if not len(chosen):
        return 0.0
    other, found = _people_with(synthetic, length, items)
    at = np.minimum(np.searchsorted(other, codes[chosen]), max(len(other) - 1, 0))
    matched = np.where(other[at] == codes[chosen], found[at], 0.0) if len(other) else np.zeros(len(chosen))
    wanted = shares[chosen]
    return float((np.abs(matched - wanted) / np.maximum(wanted, LEAST_SHARE)).mean())


def _people_with(events: Events, length: int, items: int) -> tuple[Ints, Floats]:
    people, codes = ngrams_of(events, length, items)
    values, at = np.unique(codes, return_inverse=True)
    held = np.unique(people * max(len(values), 1) + at) % max(len(values), 1)
    return values, np.bincount(held, minlength=len(values)) / max(len(events), 1)


def _items(records: Records) -> int:
    assert records.domain.sequence is not None
    return records.domain.sequence.width


def _later(events: Events) -> Ints:
    """The numbers of the events that another one of the same person comes before."""
    return 1 + np.flatnonzero(np.diff(events.people()) == 0)


def _first(events: Events) -> Ints:
    found: Ints = events.codes[events.indptr[:-1][events.lengths > 0]].astype(np.int64)
    return found


def _last(events: Events) -> Ints:
    found: Ints = events.codes[events.indptr[1:][events.lengths > 0] - 1].astype(np.int64)
    return found


def _minutes(events: Events, begins: int) -> Ints:
    assert events.times is not None
    return events.times.astype(np.int64) + begins


def _gaps(events: Events, begins: int) -> Ints:
    later, days = _later(events), _minutes(events, begins) // _DAY
    gaps: Ints = np.minimum(days[later] - days[later - 1], _LONGEST_GAP)
    return gaps


def _repeats(events: Events) -> Floats:
    """By lag, the share of events that repeat the one so many before them."""
    people, found = events.people(), np.zeros(LAGS)
    for lag in range(1, LAGS + 1):
        together = people[lag:] == people[:-lag]
        same = events.codes[lag:] == events.codes[:-lag]
        found[lag - 1] = same[together].mean() if together.any() else 0.0
    return found


def _returns(events: Events) -> float:
    people = events.people()
    visits = (people[2:] == people[:-2]) & (events.codes[1:-1] != events.codes[:-2])
    return float((events.codes[2:] == events.codes[:-2])[visits].mean()) if visits.any() else 0.0


def _closed(events: Events) -> float:
    return float((_first(events) == _last(events)).mean()) if len(events.codes) else 0.0


def _step_picture(records: Records, real: Events, synthetic: Events) -> StepPicture:
    sequence = records.domain.sequence
    assert sequence is not None
    counts = np.bincount(real.codes, minlength=sequence.width)
    shown = np.argsort(-counts, kind="stable")[:_SHOWN]
    shown = shown[counts[shown] > 0]
    number = np.full(sequence.width, -1, dtype=np.int64)
    number[shown] = np.arange(len(shown))
    names = tuple(str(sequence.labels[at]) for at in shown)
    return StepPicture(names, _step_shares(real, number, len(shown)), _step_shares(synthetic, number, len(shown)))


def _step_shares(events: Events, number: Ints, shown: int) -> Floats:
    """What follows each shown item, and the start, as shares of all that does, including items that are not shown."""
    people = np.repeat(np.arange(len(events)), events.lengths + 1)
    places = np.arange(len(events.codes)) + np.repeat(np.arange(len(events)), events.lengths)
    before, after = np.full((2, len(people)), shown, dtype=np.int64)
    before[places + 1] = after[places] = number[events.codes]
    known = (before >= 0) & (after >= 0)
    table = np.bincount(before[known] * (shown + 1) + after[known], minlength=(shown + 1) ** 2)
    totals = np.bincount(before[before >= 0], minlength=shown + 1)
    return table.reshape(shown + 1, shown + 1) / np.maximum(totals, 1)[:, None]


def _time_picture(records: Records, real: Events, synthetic: Events) -> TimePicture | None:
    sequence = records.domain.sequence
    if sequence is None or not sequence.time:
        return None
    begins, weekday = sequence.minute_of_day, sequence.weekday

    def shares(codes: Ints, count: int) -> Floats:
        return np.bincount(codes, minlength=count) / max(len(codes), 1)

    def both(of: Callable[[Events], Ints], count: int) -> tuple[Floats, Floats]:
        return shares(of(real), count), shares(of(synthetic), count)

    return TimePicture(
        both(lambda events: _minutes(events, begins) % _DAY // _HOUR, _HOURS),
        both(lambda events: _gaps(events, begins), _LONGEST_GAP + 1),
        both(lambda events: (weekday + _minutes(events, begins) // _DAY) % _WEEK, _WEEK),
    )


def _baselines(real: Events, items: int, seed: int) -> dict[str, Events]:
    """A first-order chain, and items drawn independently with the lengths of real sequences; neither is private."""
    rng = np.random.default_rng(seed)
    count = min(len(real), _MOST_DRAWN)
    lengths = rng.choice(real.lengths, count)
    shares = np.bincount(real.codes, minlength=items).astype(np.float64)
    codes = rng.choice(items, int(lengths.sum()), p=shares / shares.sum()) if len(real.codes) else real.codes[:0]
    return {FIRST_ORDER: _chain(real, items, count, rng), UNORDERED: Events(row_pointers(lengths), codes)}


def _chain(real: Events, items: int, count: int, rng: np.random.Generator) -> Events:
    """Sequences that go on from each event as a random real occurrence of its item does."""
    start = np.array([items])
    after = np.append(real.codes.astype(np.int64), items)
    last = np.zeros(len(real.codes), dtype=np.bool_)
    last[real.indptr[1:][real.lengths > 0] - 1] = True
    follows = np.where(last, items, after[1:]) if len(real.codes) else after[:0]
    order = np.argsort(real.codes, kind="stable")
    starts = row_pointers(np.bincount(real.codes, minlength=items))
    firsts: NDArray[np.int64] = np.where(
        real.lengths > 0, after[np.minimum(real.indptr[:-1], len(real.codes))], items
    )
    now = firsts[rng.integers(0, len(firsts), count)] if len(firsts) else np.repeat(start, count)
    alive, people, codes = np.arange(count), [np.empty(0, dtype=np.int64)], [np.empty(0, dtype=np.int64)]
    for _ in range(int(real.lengths.max(initial=0))):
        alive, now = alive[now < items], now[now < items]
        if not len(alive):
            break
        people.append(alive)
        codes.append(now)
        sizes = starts[now + 1] - starts[now]
        now = follows[order[starts[now] + np.floor(rng.random(len(now)) * sizes).astype(np.int64)]]
    owner = np.concatenate(people)
    by_person = np.argsort(owner, kind="stable")
    return Events(row_pointers(np.bincount(owner, minlength=count)), np.concatenate(codes)[by_person])
