"""What has been spent on one population of people, over all releases: an append-only, hash-chained SQLite file.

A fit reserves its whole plan before a row is read, in one transaction with the check against the cap, so two fits at
once cannot both take the last of the budget. Nothing is given back except a reservation that never started.

Plans may be chosen after seeing earlier releases, so their costs are composed by a Renyi filter (Feldman and Zrnic
2021): divergences at one order, fixed by the first reservation, may add up to what converts to the cap. The first
plan is chosen before anything was seen; it may also be admitted by its own tight figure, after which nothing more
fits. Epsilons are never added. Lists of values that passed a threshold take delta, not divergence: the first
reservation fixes, too, how much of delta is kept for them.
"""

import secrets
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from dpgm import __version__, validation
from dpgm.errors import ArtefactError, BudgetError, UsageError
from dpgm.privacy.accountant import cost
from dpgm.privacy.certificate_format import LedgerMark
from dpgm.privacy.events import Mechanism, Threshold, events_of, threshold_delta
from dpgm.privacy.ledger_chain import Chain, refuse_network
from dpgm.privacy.renyi import ORDERS, conversion, renyi_curve

FORMAT = 1
# Of a ledger's delta, for lists of values that passed a threshold, where the first plan publishes one. Half of delta
# costs about 2 % of epsilon, and leaves room for four plans of the default (a tenth of delta each).
SET_ASIDE = 0.5
# What a state may become. A started entry stays charged whatever happens to it.
_NEXT = {"reserved": ("started", "void"), "started": ("committed", "abandoned"), "abandoned": ("started",)}


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


class Ledger:
    """The ledger of one population; open it with `create` or `open`."""

    def __init__(self, path: Path) -> None:
        self._chain = Chain(path)
        header = self._chain.documents()[0]
        if header.get("kind") != "created" or header.get("format") != FORMAT:
            raise ArtefactError(f"{path} is not a ledger of format {FORMAT}.")
        if not {"population", "epsilon_cap", "delta"} <= set(header):
            raise ArtefactError(f"{path} was altered: its first entry is not complete.")
        self.population: str = header["population"]
        self.epsilon_cap: float = header["epsilon_cap"]
        self.delta: float = header["delta"]

    @classmethod
    def create(cls, path: Path | str, epsilon_cap: float, delta: float) -> "Ledger":
        """A new ledger for a population that may lose `epsilon_cap` at `delta` over all its releases."""
        path = Path(path)
        validation.positive(epsilon_cap=epsilon_cap)
        validation.probability(delta=delta)
        header = {
            "kind": "created",
            "format": FORMAT,
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

    def reserve(self, mechanisms: Sequence[Mechanism], delta: float, *, plan_hash: str = "") -> Entry:
        """Charge a whole plan, before a row is read.

        Raises:
            BudgetError: the plan does not fit under the cap, with the figures.
        """
        validation.probability(delta=delta)
        alone = cost(mechanisms, self.delta, check=False).epsilon  # also refuses what cannot be costed
        curve = renyi_curve(events_of(mechanisms))
        added = _thresholds(mechanisms)
        with self._chain.writing() as writer:
            entries, rules = _state(writer.documents())
            first = all(entry.state == "void" for entry in entries)  # nothing was seen yet
            if rules is None:
                aside = SET_ASIDE if added else 0.0
                rules = _Rules(self._best_order(curve, aside), aside)
            listed = sum(_thresholds(entry.charged) for entry in entries if entry.state != "void")
            if listed + added > rules.aside * self.delta and not (first and alone <= self.epsilon_cap):
                raise BudgetError(
                    "the plan publishes values that pass a threshold, and the ledger's delta has no room for more of "
                    "that (room is kept only where the first plan does so): list the values in the domain instead."
                )
            spent = sum(self._share(entry.charged, rules) for entry in entries if entry.state != "void")
            share = float(curve[_index(rules.order)]) / self._budget(rules)
            if spent + share > 1 + 1e-9 and not (first and alone <= self.epsilon_cap):
                raise BudgetError(
                    f"the plan needs {share:.1%} of the ledger's epsilon {self.epsilon_cap:g} (at delta "
                    f"{self.delta:g}), {spent:.1%} is spent or reserved; alone it would cost {alone:.4g}. "
                    "Lower its epsilon, or do not fit this population again."
                )
            name = secrets.token_hex(8)
            document = {
                "kind": "reserved",
                "entry": name,
                "order": rules.order,
                **({"set_aside": rules.aside} if rules.aside else {}),
                "mechanisms": [mechanism.to_json() for mechanism in mechanisms],
                "delta": float(delta),
                "plan_hash": plan_hash,
                "time": _now(),
                "software": f"dpgm {__version__}",
            }
            writer.append(document)
        return self.entry(name)

    def start(self, entry: Entry | str) -> Entry:
        """The fit reads rows from now on; the reservation can no longer be voided. A resumed fit stays started."""
        current = self.entry(_name(entry))
        if current.state == "started":
            return current
        return self._advance(entry, "started")

    def commit(self, entry: Entry | str, charged: Sequence[Mechanism] | None = None, *, release: str = "") -> Entry:
        """The fit ended; `charged` is what its journal says was run, never more than was reserved."""
        reserved = self.entry(_name(entry))
        charged = reserved.mechanisms if charged is None else tuple(charged)
        _within(charged, reserved.mechanisms)
        return self._advance(entry, "committed", charged=charged, release=release)

    def record_progress(self, entry: Entry | str, charged: Mapping[str, int]) -> None:
        """Runs of each mechanism charged so far by a fit that keeps a checkpoint.

        A checkpoint set back to an older copy is told by it, and the runs in between stay spent.
        """
        with self._chain.writing() as writer:
            document = {"kind": "progress", "entry": _name(entry), "charged": dict(charged), "time": _now()}
            writer.append(document)

    def abandon(self, entry: Entry | str) -> Entry:
        """The fit was given up; everything it reserved stays charged."""
        return self._advance(entry, "abandoned")

    def void(self, entry: Entry | str) -> Entry:
        """Give back a reservation that never started: no row was read."""
        return self._advance(entry, "void")

    # -- reading -----------------------------------------------------------------------------------------------

    def entries(self) -> tuple[Entry, ...]:
        """All plans, in order."""
        return tuple(_state(self._chain.documents())[0])

    def entry(self, name: str) -> Entry:
        """One plan by its name."""
        for entry in self.entries():
            if entry.name == name:
                return entry
        raise UsageError(f"the ledger has no entry {name!r}; `dpgm ledger show` lists them.")

    @property
    def mark(self) -> LedgerMark:
        """Where the ledger stands now, for a certificate."""
        return LedgerMark(self.population, *self._chain.head())

    def totals(self) -> Totals:
        """What all plans come to, composed."""
        entries, rules = _state(self._chain.documents())
        charged = [entry.charged for entry in entries if entry.state != "void"]
        spent = 0.0 if rules is None else sum(self._share(mechanisms, rules) for mechanisms in charged)
        events = [event for mechanisms in charged for event in events_of(mechanisms)]
        fixed = cost(events, self.delta, check=False).epsilon if events else 0.0
        return Totals(self.epsilon_cap, self.delta, None if rules is None else rules.order, spent, fixed)

    def check(self, marks: Sequence[LedgerMark] = ()) -> tuple[str, ...]:
        """What is wrong with the chain, or with it against the marks of releases in circulation; empty if nothing."""
        hashes, fault = self._chain.check()
        problems = [fault] if fault else []
        for mark in marks:
            if mark.population != self.population:
                problems.append(f"a release belongs to another population ({mark.population[:12]})")
            elif hashes.get(mark.sequence) != mark.head:
                problems.append(f"a release was made at entry {mark.sequence}, which is gone or differs")
        return tuple(problems)

    # -- inside ------------------------------------------------------------------------------------------------

    def _budget(self, rules: "_Rules") -> float:
        return self.epsilon_cap - float(conversion(np.array([rules.order]), self.delta * (1 - rules.aside))[0])

    def _share(self, mechanisms: Sequence[Mechanism], rules: "_Rules") -> float:
        if not mechanisms:
            return 0.0
        return float(renyi_curve(events_of(mechanisms), np.array([rules.order]))[0]) / self._budget(rules)

    def _best_order(self, curve: Any, aside: float) -> float:
        """The order at which the first plan takes the smallest share of the cap."""
        budgets = self.epsilon_cap - conversion(ORDERS, self.delta * (1 - aside))
        if budgets.max() <= 0:
            raise BudgetError(
                f"no plan can be admitted: an epsilon of {self.epsilon_cap:g} at delta {self.delta:g} is too small "
                "for a ledger."
            )
        shares = np.where(budgets > 0, curve / np.where(budgets > 0, budgets, 1.0), np.inf)
        return float(ORDERS[int(np.argmin(shares))])

    def _advance(
        self, entry: Entry | str, state: str, *, charged: Sequence[Mechanism] | None = None, release: str = ""
    ) -> Entry:
        name = _name(entry)
        with self._chain.writing() as writer:
            current = next((one for one in _state(writer.documents())[0] if one.name == name), None)
            if current is None:
                raise UsageError(f"the ledger has no entry {name!r}.")
            if state not in _NEXT.get(current.state, ()):
                raise UsageError(f"the ledger's entry {name} is {current.state}; it cannot become {state}.")
            document: dict[str, Any] = {"kind": state, "entry": name, "time": _now()}
            if charged is not None:
                document["charged"] = [mechanism.to_json() for mechanism in charged]
                document["release"] = release
            writer.append(document)
        return self.entry(name)


@dataclass(frozen=True)
class _Rules:
    """What the first reservation fixed, so that what is admitted later cannot depend on what was seen by then.

    `aside` is the share of delta kept for lists of values that passed a threshold, over all plans.
    """

    order: float
    aside: float = 0.0


def _thresholds(mechanisms: Sequence[Mechanism]) -> float:
    """What the mechanisms' thresholds add to delta."""
    return threshold_delta(event for event in events_of(mechanisms) if isinstance(event, Threshold))


def _name(entry: Entry | str) -> str:
    return entry if isinstance(entry, str) else entry.name


def _index(order: float) -> int:
    return int(np.flatnonzero(order == ORDERS)[0])


def _within(charged: Sequence[Mechanism], reserved: Sequence[Mechanism]) -> None:
    """What is charged was reserved: the same mechanisms, each at most as often."""
    left = {replace(mechanism, count=1): mechanism.count for mechanism in reserved}
    for mechanism in charged:
        key = replace(mechanism, count=1)
        if left.get(key, 0) < mechanism.count:
            raise BudgetError(f"the mechanism {mechanism.name!r} ran more often than, or not as, it was reserved.")
        left[key] -= mechanism.count


def _now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def _state(documents: list[dict[str, Any]]) -> tuple[list[Entry], _Rules | None]:
    """All plans as the documents leave them, and the rules the first reservation fixed."""
    entries: dict[str, Entry] = {}
    rules: _Rules | None = None
    for document in documents[1:]:
        if document["kind"] == "reserved":
            mechanisms = tuple(Mechanism(**entry) for entry in document["mechanisms"])
            rules = _Rules(document["order"], document.get("set_aside", 0.0)) if rules is None else rules
            entries[document["entry"]] = Entry(
                document["entry"],
                "reserved",
                mechanisms,
                document["delta"],
                mechanisms,
                document["time"],
                document["software"],
                document["plan_hash"],
            )
            continue
        entry = entries[document["entry"]]
        if document["kind"] == "progress":
            most = {name: max(int(runs), entry.progress.get(name, 0)) for name, runs in document["charged"].items()}
            entries[entry.name] = replace(entry, progress={**entry.progress, **most})
            continue
        changes: dict[str, Any] = {"state": document["kind"]}
        if document["kind"] == "committed":
            changes["charged"] = tuple(Mechanism(**one) for one in document["charged"])
            changes["release"] = document["release"]
        elif document["kind"] == "void":
            changes["charged"] = ()
        entries[entry.name] = replace(entry, **changes)
    return list(entries.values()), rules
