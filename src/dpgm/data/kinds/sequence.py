"""`ItemSequence`: items in order, with repeats and perhaps times: an item set, and its order in `Records.events`."""

import datetime
import zoneinfo
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Self

from dpgm.data.kinds.items import NOMINAL_ITEMS, SetField, check_items
from dpgm.data.labels import Label, checked_labels
from dpgm.data.number_format import SECONDS, is_day, is_whole, iso_seconds
from dpgm.validation import counted

if TYPE_CHECKING:
    from dpgm.data.inspect.seen import Seen

# Most people of public click streams and transit cards have fewer events, and memory of a fit grows with them.
USUAL_MAX_LENGTH = 200
_LONGEST = 100_000  # events of a person
_MOST_DAYS = 20 * 366  # of a period: minutes fit 32 bits
_KEYS = {"start": "from", "end": "to"}  # attributes that a domain file calls otherwise


@dataclass(frozen=True)
class ItemSequence(SetField):
    """Items in order, the same one any number of times: stations, clicks, diagnoses, states of a process.

    Only the first `max_length` events of a person count. With `time` every event has a time, to the minute, within the
    public period from `start` to `end` (ISO texts or dates; an `end` without a time of day includes that day); events
    outside of it are dropped. Times with an offset are converted to the time zone `zone`, if one is stated, and others
    are taken as local times. With `discover` the items are not listed: those that many people have are found privately.

    In a domain file, `start` and `end` are called `from` and `to`.
    """

    items: tuple[Label, ...] = ()
    discover: bool = False
    max_length: int = USUAL_MAX_LENGTH
    time: bool = False
    start: str | None = None
    end: str | None = None
    zone: str | None = None
    separator: str | None = field(default=None, compare=False)

    kind: ClassVar[str] = "sequence"
    draft_kinds: ClassVar[tuple[str, ...]] = ("sequence",)
    lists_values: ClassVar[bool] = True
    list_key: ClassVar[str | None] = "items"
    may_identify: ClassVar[bool] = True
    _nominal_count: ClassVar[int] = NOMINAL_ITEMS

    def __post_init__(self) -> None:
        super().__post_init__()
        self._set("items", checked_labels(self.name, self.items, "items", self.discover))
        check_items(self.name, self.items, self.separator)
        if not is_whole(self.max_length, 1, _LONGEST):
            raise self._error(f"max_length must be a whole number from 1 to {_LONGEST:,}")
        if not isinstance(self.time, bool):
            raise self._error("time must be true or false")
        self._check_period()

    def _check_period(self) -> None:
        if not self.time and not self.start is self.end is self.zone is None:
            raise self._error("'from', 'to' and 'zone' belong to `time: true`; add it, or leave them out")
        if not self.time:
            return
        for key, called in _KEYS.items():
            bound = getattr(self, key)
            if isinstance(bound, datetime.date):  # YAML parses dates
                bound = bound.isoformat()
                self._set(key, bound)
            try:
                iso_seconds(bound)
            except (TypeError, ValueError):
                raise self._error(
                    f"`time: true` needs a public period: '{called}' must be a date such as 2024-03-01"
                ) from None
        if not 0 < self.minutes <= _MOST_DAYS * SECONDS["day"] // SECONDS["minute"]:
            raise self._error("'from' must be before 'to', by twenty years at most")
        if self.zone is not None and not _is_zone(self.zone):
            raise self._error("zone must be the name of a time zone such as Europe/Paris")

    # -- the period ------------------------------------------------------------------------------------------------

    @cached_property
    def begin(self) -> int:
        """The first minute of the period, in minutes since 1970 by the local clock."""
        return int(iso_seconds(str(self.start)) // SECONDS["minute"])

    @cached_property
    def minutes(self) -> int:
        """How many minutes the period has; 0 without times."""
        if not self.time:
            return 0
        text = str(self.end)
        last = iso_seconds(text) + (SECONDS["day"] if is_day(text) else SECONDS["minute"])
        return int(last // SECONDS["minute"]) - self.begin

    @property
    def minute_of_day(self) -> int:
        """The time of day at which the period begins, in minutes."""
        return self.begin % (SECONDS["day"] // SECONDS["minute"])

    @property
    def weekday(self) -> int:
        """The day of the week on which the period begins; Monday is 0."""
        return datetime.datetime.fromisoformat(str(self.start)).weekday()

    # -- as a field ------------------------------------------------------------------------------------------------

    @property
    def as_sequence(self) -> "ItemSequence":
        """The field itself."""
        return self

    @property
    def _value_count(self) -> int | None:
        return None if self.discover else len(self.items)

    @property
    def _value_names(self) -> list[str]:
        return self.labels

    @property
    def finds_labels(self) -> bool:
        """Whether the items are to be found."""
        return self.discover

    def with_labels(self, labels: tuple[Label, ...], *, other: bool) -> "ItemSequence":
        """The sequence of the items that were found; events of others are dropped."""
        return replace(self, items=labels, discover=False)

    def with_separator(self, separator: str) -> "ItemSequence":
        """The sequence with this text between items."""
        return replace(self, separator=separator)

    # -- in a domain file ------------------------------------------------------------------------------------------

    @classmethod
    def keys(cls) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Required and optional keys."""
        required, optional = super().keys()
        return required, tuple(_KEYS.get(key, key) for key in optional)

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> Self:
        """From the keys of a domain file."""
        attribute = {key: name for name, key in _KEYS.items()}
        return super().from_plain({attribute.get(key, key): value for key, value in plain.items()})

    def to_plain(self) -> dict[str, Any]:
        """With the keys of a domain file; the greatest length is always stated."""
        plain = super().to_plain() | {"max_length": self.max_length}
        return {_KEYS.get(key, key): value for key, value in plain.items()}

    @classmethod
    def drafted(cls, seen: "Seen", word: str) -> "ItemSequence":
        """With its items left open."""
        return cls(seen.name, discover=True)

    def described(self) -> str:
        """How many items there are, and the period."""
        period = f", from {self.start} to {self.end}" if self.time else ""
        return f"{counted(self.width, 'item')} in order, at most {counted(self.max_length, 'event')}{period}"


def _is_zone(name: object) -> bool:
    try:
        zoneinfo.ZoneInfo(name)  # type: ignore[arg-type]
    except (zoneinfo.ZoneInfoNotFoundError, TypeError, ValueError, OSError):
        return False
    return True
