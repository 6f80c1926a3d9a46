"""What the events of one person must be read as, written out event by event, without arrays."""

import datetime

from dpgm.data.domain import ItemSequence

EPOCH = datetime.datetime(1970, 1, 1)


def naive_events(
    events: list[tuple[str | None, datetime.datetime | None]], field: ItemSequence, timed: bool = True
) -> list[tuple[str, int | None]]:
    """Items and minutes of a person, from the items and times in the rows of that person."""
    kept = [(when, item) for item, when in events if item is not None and (field.discover or item in field.items)]
    if not timed:
        return [(item, None) for _, item in kept][: field.max_length]
    kept = [(when, item) for when, item in kept if when is not None]
    if field.time:
        kept = [(when, item) for when, item in kept if 0 <= _minute(when, field) < field.minutes]
    rank = (lambda item: item) if field.discover else field.items.index
    kept = sorted(set(kept), key=lambda event: (event[0], rank(event[1])))
    found = [(item, _minute(when, field) if field.time else None) for when, item in kept]
    return found if field.discover else found[: field.max_length]


def _minute(when: datetime.datetime, field: ItemSequence) -> int:
    return (when - EPOCH) // datetime.timedelta(minutes=1) - field.begin


def read_events(records) -> list[list[tuple[str, int | None]]]:
    """Items and minutes of every record."""
    field = records.domain.sequence
    found = []
    column = None
    if records.domain.is_open:
        column = records.columns[records.domain.fields.index(field)]
    events = records.events if column is None else column.events
    labels = field.items if column is None or column.vocabulary is None else column.vocabulary.labels
    for at in range(len(events)):
        one = events.rows(at, at + 1)
        times = [None] * len(one.codes) if one.times is None else one.times.tolist()
        found.append([(labels[code], time) for code, time in zip(one.codes.tolist(), times, strict=True)])
    return found
