"""What has been spent on one population of people, over all releases: an append-only, hash-chained SQLite file.

A fit reserves its whole plan before a row is read, in one transaction with the check against the cap, so two fits at
once cannot both take the last of the budget. Nothing is given back except a reservation that never started.

One charge, one release. Each process that runs a fit starts its entry with a token of its own, the owner; the last
process to start an entry owns it. Charging and committing compare the owner in the same transaction that writes, so
when a copy of a checkpoint is resumed elsewhere, the earlier process can neither charge nor commit any more. A commit
holds the hash of the model, and a committed entry accepts that very model again and no other.

Plans may be chosen after seeing earlier releases, so their costs are composed by a Renyi filter (`RenyiFilter`). The
first plan is chosen before anything was seen; it may also be admitted by its own tight figure, after which nothing more
fits. Epsilons are never added. Lists of values that passed a threshold take delta, not divergence: the first
reservation fixes, too, how much of delta is kept for them.
"""

import math
import secrets
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from dpgm import __version__, validation
from dpgm.errors import ArtefactError, BudgetError, UsageError
from dpgm.privacy.accountant import cost
from dpgm.privacy.certificate import LedgerMark, read_mechanisms
from dpgm.privacy.events import Mechanism, Threshold, events_of, threshold_delta
from dpgm.privacy.ledger_chain import Chain, Document, refuse_network
from dpgm.privacy.renyi import RenyiFilter
from dpgm.privacy.strict_json import LARGEST_WHOLE

LEDGER_FORMAT = 1
# Of a ledger's delta, for lists of values that passed a threshold, where the first plan publishes one. Half of delta
# costs about 2 % of epsilon, and leaves room for four plans of the default (a tenth of delta each).
SET_ASIDE = 0.5
# What a state may become. A started entry stays charged whatever happens to it.
_NEXT = {
    "reserved": ("started", "void"),
    "started": ("started", "committed", "abandoned"),
    "abandoned": ("started",),
}


@dataclass(frozen=True)
class Entry:
    """A plan in the ledger: what it may run, how far it got, and what it is charged for."""

    name: str
    state: str
    mechanisms: tuple[Mechanism, ...]
    delta: float
    charged: tuple[Mechanism, ...]
    time: str
    software: str
    plan_hash: str = ""
    release: str = ""
    progress: Mapping[str, int] = field(default_factory=dict)
    owner: str = ""
    model: str = ""


@dataclass(frozen=True)
class Totals:
    """What all entries come to.

    `spent` is the share of the cap the Renyi filter has used; `epsilon_if_fixed` is the tight figure, valid if all
    plans had been fixed in advance.
    """

    epsilon_cap: float
    delta: float
    order: float | None
    spent: float
    epsilon_if_fixed: float
    fits: int


class Ledger:
    """The ledger of one population; open it with `create` or `open`."""

    def __init__(self, path: Path) -> None:
        self._chain = Chain(path)
        header = self._chain.documents()[0]
        if header.get("kind") != "created" or header.get("format") != LEDGER_FORMAT:
            raise ArtefactError(f"{path} is not a ledger of format {LEDGER_FORMAT}.")
        if not {"population", "epsilon_cap", "delta"} <= set(header):
            raise ArtefactError(f"{path} was altered: its first entry is not complete.")
        self.population: str = header["population"]
        self.epsilon_cap: float = header["epsilon_cap"]
        self.delta: float = header["delta"]
        try:
            validation.positive(epsilon_cap=self.epsilon_cap)
            validation.probability(delta=self.delta)
        except UsageError as error:
            raise ArtefactError(f"{path} was altered: {error}") from error

    @classmethod
    def create(cls, path: Path | str, epsilon_cap: float, delta: float) -> "Ledger":
        """A new ledger for a population that may lose `epsilon_cap` at `delta` over all its releases."""
        path = Path(path)
        validation.positive(epsilon_cap=epsilon_cap)
        validation.probability(delta=delta)
        header = {
            "kind": "created",
            "format": LEDGER_FORMAT,
            "population": secrets.token_hex(16),
            "epsilon_cap": float(epsilon_cap),
            "delta": float(delta),
            "time": _now(),
            "software": f"dpgm {__version__}",
        }
        Chain.create(path, header)
        return cls(path)

    @classmethod
    def open(cls, path: Path | str) -> "Ledger":
        """An existing ledger; raises ArtefactError if its chain does not hold."""
        path = Path(path)
        if not path.is_file():
            raise UsageError(f"{path} does not exist; make a ledger with `dpgm ledger create`.")
        refuse_network(path)
        ledger = cls(path)
        problems = ledger.check()
        if problems:
            raise ArtefactError(f"{path} was altered: {problems[0]}.")
        return ledger

    # -- the life of a plan ------------------------------------------------------------------------------------

    def reserve(
        self, mechanisms: Sequence[Mechanism], delta: float, *, plan_hash: str = "", name: str | None = None
    ) -> Entry:
        """Charge a whole plan, before a row is read.

        Args:
            mechanisms: what the plan may run.
            delta: the plan's delta.
            plan_hash: a hash of the whole plan; a resumed fit must show the same.
            name: the entry's name, chosen beforehand by a fit that notes it in its checkpoint first.

        Raises:
            BudgetError: the plan does not fit under the cap, with the figures.
        """
        validation.probability(delta=delta)
        alone = cost(mechanisms, self.delta, check=False).epsilon  # also refuses what cannot be costed
        with self._chain.writing() as (documents, append):
            entries, renyi = self._check_room(documents, mechanisms, alone)
            name = secrets.token_hex(8) if name is None else name
            if any(entry.name == name for entry in entries):
                raise UsageError(f"the ledger has an entry {name!r} already; resume that fit.")
            document = {
                "kind": "reserved",
                "entry": name,
                "order": renyi.order,
                **({"set_aside": renyi.aside} if renyi.aside else {}),
                "mechanisms": [mechanism.to_json() for mechanism in mechanisms],
                "delta": float(delta),
                "plan_hash": plan_hash,
                "time": _now(),
                "software": f"dpgm {__version__}",
            }
            append(document)
        return self.entry(name)

    def check_room(self, mechanisms: Sequence[Mechanism]) -> None:
        """Refuse, before anything is read or written, a plan that `reserve` would refuse now; raises BudgetError."""
        alone = cost(mechanisms, self.delta, check=False).epsilon
        self._check_room(self._chain.documents(), mechanisms, alone)

    def _check_room(
        self, documents: list[Document], mechanisms: Sequence[Mechanism], alone: float
    ) -> tuple[list[Entry], RenyiFilter]:
        """The entries and the filter, if there is room for the plan under the cap."""
        added = _thresholds(mechanisms)
        entries, fixed = _state(documents)
        first = all(entry.state == "void" for entry in entries)  # nothing was seen yet
        renyi = self._filter(fixed, mechanisms)
        listed = sum(_thresholds(entry.charged) for entry in entries if entry.state != "void")
        spent = sum(renyi.share(entry.charged) for entry in entries if entry.state != "void")
        share = renyi.share(mechanisms)
        admitted = first and alone <= self.epsilon_cap
        if spent + share > 1 + 1e-9 and not admitted:
            raise BudgetError(
                f"the plan needs {share:.1%} of the ledger's epsilon {self.epsilon_cap:g} (at delta "
                f"{self.delta:g}), {spent:.1%} is spent or reserved; alone it would cost {alone:.4g}. "
                "Lower its epsilon, or do not fit this population again."
            )
        room = renyi.aside * self.delta
        if listed + added > room and not admitted:
            raise BudgetError(_no_room(added, room, room - listed))
        return entries, renyi

    def _filter(self, fixed: tuple[float, float] | None, first: Sequence[Mechanism]) -> RenyiFilter:
        """The filter that the first reservation fixed, or would fix with these mechanisms."""
        if fixed is not None:
            return RenyiFilter(self.epsilon_cap, self.delta, *fixed)
        aside = SET_ASIDE if _thresholds(first) else 0.0
        return RenyiFilter.for_first_plan(self.epsilon_cap, self.delta, first, aside)

    def start(self, entry: Entry | str, *, owner: str = "") -> Entry:
        """The fit reads rows from now on; the reservation can no longer be voided.

        Args:
            entry: the reservation, or a fit that was started before and is now resumed.
            owner: a token of this process alone; whoever owned the entry before can neither charge nor commit now.
        """
        with self._changing(entry) as (current, write):
            _check_next(current, "started")
            write({"kind": "started", "owner": owner})
        return self.entry(current.name)

    def commit(
        self,
        entry: Entry | str,
        charged: Sequence[Mechanism] | None = None,
        *,
        owner: str = "",
        model: str = "",
        release: str = "",
    ) -> Entry:
        """The fit ended.

        Args:
            entry: a started entry; one that is committed already is left as it is, if `model` is the same.
            charged: what ran by the fit's own count; refused unless it is what was reserved, for that is charged.
            owner: the token that the entry was started with.
            model: hash of the model that is published; no other model will be accepted for this charge.
            release: a name for people.

        Raises:
            BudgetError: something else ran than was reserved, another process took the fit over, or another model
                was committed.
        """
        with self._changing(entry) as (current, write):
            if charged is not None:
                _same_runs(charged, current.mechanisms)
            if current.state == "committed":
                if model != current.model or not model:
                    raise BudgetError(
                        f"the ledger's entry {current.name} is committed with another model; one charge pays for one "
                        "release."
                    )
                return current
            _check_next(current, "committed")
            _check_owner(current, owner)
            listed = [mechanism.to_json() for mechanism in current.mechanisms]
            write({"kind": "committed", "charged": listed, "model": model, "release": release})
        return self.entry(current.name)

    def record_progress(self, entry: Entry | str, charged: Mapping[str, int], *, owner: str = "") -> None:
        """Runs charged so far by a fit that keeps a checkpoint, before they run; `step` counts training steps.

        Compare-and-swap: refused when another process took the fit over, when fewer runs are named than are recorded
        (the checkpoint is an older copy), and when more are named than were reserved.
        """
        with self._changing(entry) as (current, write):
            if current.state != "started":
                raise UsageError(f"the ledger's entry {current.name} is {current.state}; it cannot be charged.")
            _check_owner(current, owner)
            for mechanism, runs in current.progress.items():
                if charged.get(mechanism, 0) < runs:
                    raise ArtefactError(
                        f"the ledger has {runs} runs of {mechanism!r} charged and the checkpoint fewer; it is an older "
                        "copy. Resume it again."
                    )
            most = _most_runs(current.mechanisms)
            for mechanism, runs in charged.items():
                if runs > most.get(mechanism, 0):
                    raise BudgetError(f"{mechanism!r} would run more often than was reserved.")
            write({"kind": "progress", "charged": dict(charged)})

    def abandon(self, entry: Entry | str, *, owner: str = "") -> Entry:
        """The fit was given up; everything it reserved stays charged."""
        with self._changing(entry) as (current, write):
            _check_next(current, "abandoned")
            _check_owner(current, owner)
            write({"kind": "abandoned"})
        return self.entry(current.name)

    def void(self, entry: Entry | str) -> Entry:
        """Give back a reservation that never started: no row was read."""
        with self._changing(entry) as (current, write):
            _check_next(current, "void")
            write({"kind": "void"})
        return self.entry(current.name)

    # -- reading -----------------------------------------------------------------------------------------------

    def entries(self) -> tuple[Entry, ...]:
        """All plans, in order."""
        return tuple(_state(self._chain.documents())[0])

    def entry(self, name: str) -> Entry:
        """One plan by its name."""
        return _find(self._chain.documents(), name)

    @property
    def mark(self) -> LedgerMark:
        """Where the ledger stands now, for a certificate."""
        sequence, head = self._chain.head()
        return self._mark_at(sequence, head)

    def _mark_at(self, sequence: int, head: str) -> LedgerMark:
        """The mark of a line: where it stands, and the totals up to it."""
        totals = self.totals(lines=sequence)
        return LedgerMark(
            self.population,
            sequence,
            head,
            totals.epsilon_cap,
            totals.delta,
            totals.fits,
            totals.spent,
            totals.epsilon_if_fixed,
        )

    def totals(self, lines: int | None = None, *, also: Sequence[Mechanism] = ()) -> Totals:
        """What all plans come to, composed.

        Args:
            lines: as it was when the ledger had so many lines.
            also: a further plan, as if it were charged as well.
        """
        entries, fixed = _state(self._chain.documents()[:lines])
        charged = [entry.charged for entry in entries if entry.state != "void"]
        charged += [tuple(also)] if also else []
        spent, order = 0.0, None
        if fixed is not None or also:
            renyi = self._filter(fixed, also)
            spent, order = sum(renyi.share(mechanisms) for mechanisms in charged), renyi.order
        events = [event for mechanisms in charged for event in events_of(mechanisms)]
        tight = cost(events, self.delta, check=False).epsilon if events else 0.0
        return Totals(self.epsilon_cap, self.delta, order, spent, tight, len(charged))

    def check(self, marks: Sequence[LedgerMark] = ()) -> tuple[str, ...]:
        """What is wrong with the chain, or with it against the marks of releases in circulation; empty if nothing."""
        hashes, fault = self._chain.check()
        problems = [fault] if fault else []
        for mark in marks:
            if mark.population != self.population:
                problems.append(f"a release belongs to another population ({mark.population[:12]})")
            elif hashes.get(mark.sequence) != mark.head:
                problems.append(f"a release was made at line {mark.sequence}, which is gone or differs")
            elif not _same_totals(mark, self._mark_at(mark.sequence, mark.head)):
                problems.append(
                    f"the release of line {mark.sequence} states other totals than the ledger has there"
                )
        return tuple(problems)

    @contextmanager
    def _changing(self, entry: Entry | str) -> Iterator[tuple[Entry, Callable[[Document], None]]]:
        """An entry, and how to write what becomes of it, in one transaction."""
        name = entry if isinstance(entry, str) else entry.name
        with self._chain.writing() as (documents, append):
            yield _find(documents, name), lambda change: append(change | {"entry": name, "time": _now()})


def _same_totals(stated: LedgerMark, found: LedgerMark) -> bool:
    """Whether two marks of one line state the same totals, up to the last digits of another machine."""
    pairs = ((getattr(stated, name), getattr(found, name)) for name in ("spent", "epsilon_if_fixed"))
    near = all(math.isclose(one, other, rel_tol=1e-3, abs_tol=1e-6) for one, other in pairs)
    return near and replace(found, spent=stated.spent, epsilon_if_fixed=stated.epsilon_if_fixed) == stated


def _thresholds(mechanisms: Sequence[Mechanism]) -> float:
    """What the mechanisms' thresholds add to delta."""
    return threshold_delta(event for event in events_of(mechanisms) if isinstance(event, Threshold))


def _no_room(needed: float, room: float, left: float) -> str:
    """Why a plan that finds values privately is refused, though the ledger has epsilon left for it."""
    if room == 0:
        return (
            "the plan finds values privately, which takes part of the ledger's delta, and the first plan of this "
            "ledger kept none for that: list the values in the domain instead."
        )
    return (
        f"the plan finds values privately, which takes {needed:.3g} of the ledger's delta, and of the {room:.3g} kept "
        f"for that {max(left, 0.0):.3g} is left: lower the plan's delta, or list the values in the domain instead."
    )


def _find(documents: list[Document], name: str) -> Entry:
    for entry in _state(documents)[0]:
        if entry.name == name:
            return entry
    raise UsageError(f"the ledger has no entry {name!r}; `dpgm ledger show` lists them.")


def _check_next(current: Entry, state: str) -> None:
    if state not in _NEXT.get(current.state, ()):
        raise UsageError(f"the ledger's entry {current.name} is {current.state}; it cannot become {state}.")


def _check_owner(current: Entry, owner: str) -> None:
    if current.owner != owner:
        raise BudgetError(
            f"another process has resumed the fit of the ledger's entry {current.name} and taken it over; this one "
            "stops here. Let the other one finish, or resume that one."
        )


def _most_runs(reserved: Sequence[Mechanism]) -> dict[str, int]:
    """How often each mechanism may run; the mechanisms of one Poisson sample run together, under the sample's name."""
    most: dict[str, int] = {}
    for mechanism in reserved:
        name = mechanism.name if mechanism.sample is None else mechanism.sample
        most[name] = max(most.get(name, 0), mechanism.count)
    return most


def _same_runs(charged: Sequence[Mechanism], reserved: Sequence[Mechanism]) -> None:
    """What ran is what was reserved: the same mechanisms, each as often."""
    ran, allowed = _runs(charged), _runs(reserved)
    for extra in ran - allowed:
        raise BudgetError(f"the mechanism {extra.name!r} ran more often than, or not as, it was reserved.")
    for missing in allowed - ran:
        raise BudgetError(
            f"the mechanism {missing.name!r} is charged more often than the fit says it ran; a charge is never "
            "given back."
        )


def _runs(mechanisms: Sequence[Mechanism]) -> Counter[Mechanism]:
    runs: Counter[Mechanism] = Counter()
    for mechanism in mechanisms:
        runs[replace(mechanism, count=1)] += mechanism.count
    return runs


def _now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def _state(documents: list[Document]) -> tuple[list[Entry], tuple[float, float] | None]:
    """`_state_of` for documents of a file that somebody may have written; raises ArtefactError."""
    try:
        return _state_of(documents)
    except (KeyError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
        raise ArtefactError("the ledger holds an entry that makes no sense; restore a copy of it.") from error


def _state_of(documents: list[Document]) -> tuple[list[Entry], tuple[float, float] | None]:
    """All plans as the documents leave them, and the order and share of delta that the first reservation fixed."""
    entries: dict[str, Entry] = {}
    fixed: tuple[float, float] | None = None
    for document in documents[1:]:
        kind, name = document["kind"], _text(document["entry"])
        if kind == "reserved":
            fixed = _fixed_by(document) if fixed is None else fixed
            entries[name] = _reserved(document)
            continue
        entry = entries[name]
        if kind == "progress":
            most = {
                step: max(_whole(runs), entry.progress.get(step, 0)) for step, runs in document["charged"].items()
            }
            entries[name] = replace(entry, progress={**entry.progress, **most})
            continue
        changes: dict[str, Any] = {"state": kind}
        if kind == "committed":
            changes["charged"] = read_mechanisms(document, "charged", "the ledger")
            changes["release"] = _text(document["release"])
            changes["model"] = _text(document.get("model", ""))
        elif kind == "started":
            changes["owner"] = _text(document.get("owner", ""))
        elif kind == "void":
            changes["charged"] = ()
        elif kind != "abandoned":
            raise ValueError("not a kind of entry")
        entries[name] = replace(entry, **changes)
    return list(entries.values()), fixed


def _reserved(document: Document) -> Entry:
    mechanisms = read_mechanisms(document, "mechanisms", "the ledger")
    delta, time, software, plan_hash = (document[key] for key in ("delta", "time", "software", "plan_hash"))
    return Entry(
        name=document["entry"],
        state="reserved",
        mechanisms=mechanisms,
        delta=_number(delta, 1.0),
        charged=mechanisms,
        time=_text(time),
        software=_text(software),
        plan_hash=_text(plan_hash),
    )


def _fixed_by(document: Document) -> tuple[float, float]:
    """The order and the share of delta that a reservation states."""
    order = _number(document["order"], math.inf)
    if order <= 1:
        raise ValueError("not an order")
    return order, _number(document.get("set_aside", 0.0), 1.0)


def _number(value: Any, below: float) -> float:
    if not isinstance(value, (int, float)) or isinstance(value, bool) or not 0 <= value < below:
        raise ValueError("not a number in its range")
    return float(value)


def _whole(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= LARGEST_WHOLE:
        raise ValueError("not a number of runs")
    return value


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError("not a text")
    return value
