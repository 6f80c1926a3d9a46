"""Calls of the library that pages show: plans, odds, forecasts, checks, ledgers.

They run in a helper process, which is started when it is needed and ends when nobody has asked for a while: the server
itself stays small, and does no arithmetic. Each call has a command that says the same, named beside it.
"""

import asyncio
import multiprocessing
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any

_IDLE = 120.0  # seconds after which the helper ends
ATTESTATION = "certificate.intoto.jsonl"
_SHOWN_ROWS = 20
# Simulated visitors of a town: a list that everybody may know.
_PLACES = ["station", "market", "school", "library", "harbour", "museum", "stadium", "park", "clinic", "bakery"]
MADE_UP: Mapping[str, Any] = {"fields": [{"name": "places", "kind": "items", "items": _PLACES}]}


class Library:
    """The helper process."""

    def __init__(self) -> None:
        self._pool: ProcessPoolExecutor | None = None
        self._last = 0.0

    async def call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """The result of one function of this module, computed in the helper."""
        for attempt in (1, 2):
            if self._pool is None:
                self._pool = ProcessPoolExecutor(1, multiprocessing.get_context("spawn"))
            self._last = time.monotonic()
            try:
                return await asyncio.wrap_future(self._pool.submit(function, *arguments))
            except BrokenProcessPool:  # it was killed: once more in a new one
                self.close()
                if attempt == 2:
                    raise
        return None

    def close_if_idle(self) -> None:
        """End the helper if nobody has asked for a while."""
        if self._pool is not None and time.monotonic() - self._last > _IDLE:
            self.close()

    def close(self) -> None:
        """End the helper."""
        if self._pool is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)
            self._pool = None


def planned(
    epsilon: float, records: int, domain: Mapping[str, Any] | None, rows_per_person: int, ledger: str | None
) -> dict[str, Any]:
    """A plan with its stages, odds, forecast and what the ledger would come to: `dpgm plan`, `explain`, `ledger show`.

    `domain` is plain values; without one the plan is for a wide item set.
    """
    from dpgm.data.domain_file import domain_from_plain
    from dpgm.strategy.settings import Config
    from dpgm.synthesis.books import plan_hash
    from dpgm.synthesis.explanation import explain_plan
    from dpgm.synthesis.plan import budget_shares, describe, make_plan

    described = None if domain is None else domain_from_plain(dict(domain))
    plan = make_plan(Config(epsilon, rows_per_person=rows_per_person), records, described)
    part = budget_shares(plan)
    stages = [
        describe(plan, one)._asdict()
        | {"name": one.name, "noise": one.noise, "runs": one.count, "share": part[one.name]}
        for one in plan.mechanisms
    ]
    return {
        "plan": plan.to_json(),
        "hash": plan_hash(plan),
        "stages": stages,
        "odds": explain_plan(plan).to_json(),
        "width": None if described is None else described.width,
        "ledger": None if ledger is None else _outlook(Path(ledger), plan.mechanisms),
    }


def expected(told: Mapping[str, Any], epsilon: float) -> dict[str, Any]:
    """A forecast at another epsilon, about: `dpgm plan --forecast`."""
    from dpgm.synthesis.forecast import Forecast

    made = Forecast.from_json(told)
    return made.to_json() if epsilon == made.epsilon else made.at(epsilon).to_json()


def _outlook(path: Path, mechanisms: Any) -> dict[str, Any]:
    """What a ledger has now, and would have after one more plan."""
    from dataclasses import asdict

    from dpgm.errors import DpgmError
    from dpgm.privacy.ledger import Ledger

    opened = Ledger.open(path)
    found: dict[str, Any] = {"now": asdict(opened.totals()), "after": None, "head": opened.mark.head, "refusal": ""}
    try:
        found["after"] = asdict(opened.totals(also=mechanisms))
        opened.check_room(mechanisms)
    except DpgmError as error:
        found["refusal"] = str(error)
    return found


def ledger_view(path: str) -> dict[str, Any]:
    """All entries of a ledger, its totals and faults of its chain: `dpgm ledger show` and `dpgm ledger check`."""
    from dataclasses import asdict

    from dpgm.privacy.accountant import cost
    from dpgm.privacy.ledger import Ledger

    opened, entries = Ledger(Path(path)), []
    faults = list(opened.check())
    if faults:
        return {"entries": [], "totals": None, "faults": faults}
    for entry in opened.entries():
        alone = cost(entry.charged, opened.delta, check=False).epsilon if entry.charged else 0.0
        shown = {"name": entry.name, "state": entry.state, "time": entry.time, "release": entry.release}
        entries.append(shown | {"epsilon": alone})
    return {"entries": entries, "totals": asdict(opened.totals()), "faults": []}


def create_ledger(path: str, epsilon: float, delta: float) -> None:
    """A new ledger: `dpgm ledger create`."""
    from dpgm.privacy.ledger import Ledger

    Ledger.create(path, epsilon, delta)


def verified(path: str) -> dict[str, Any]:
    """Every check of a release, its certificate and odds: `dpgm verify` and `dpgm explain`."""
    from dataclasses import asdict

    from dpgm.errors import ArtefactError
    from dpgm.privacy.untrusted_files import ReleaseFolder
    from dpgm.synthesis.explanation import explain_certificate
    from dpgm.synthesis.verification import examine

    try:
        found, opened = examine(ReleaseFolder(path), cache=True)
    except ArtefactError as error:
        return {
            "ok": False,
            "checks": [{"name": "certificate", "ok": False, "why": str(error)}],
            "certificate": None,
        }
    certificate = found.certificate
    facts = {
        "about": asdict(certificate.about),
        "epsilon": certificate.epsilon,
        "delta": certificate.delta,
        "unit": certificate.unit,
        "records": certificate.records,
        "private": certificate.private,
        "statements": [*certificate.statements, *certificate.warnings, *found.warnings],
        "fields": [] if opened is None else [f"{field.name} ({field.kind})" for field in opened[0].fields],
    }
    return {
        "ok": found.ok,
        "checks": [asdict(check) for check in found.checks],
        "signature": found.signature,
        "certificate": facts,
        "odds": explain_certificate(certificate).to_json(),
    }


def check_about(words: Mapping[str, str]) -> None:
    """Refuse words that no certificate takes (cheap, so in the server itself)."""
    from dpgm.privacy.certificate import About

    About(**words)


def make_up(domain: Mapping[str, Any], records: int, path: str) -> None:
    """Made-up people of a domain, as a Parquet file: what `dpgm rehearse` begins with."""
    from dpgm.data.domain_file import domain_from_plain
    from dpgm.data.made_up import write_made_up

    write_made_up(domain_from_plain(dict(domain)), records, path, seed=0)


def some_rows(path: str) -> dict[str, Any]:
    """A few synthetic records as cells of text: `dpgm sample`."""
    from dpgm.synthesis.release import load

    table = load(path).sample(_SHOWN_ROWS, seed=0).to_arrow()
    rows = [["" if cell is None else str(cell) for cell in row.values()] for row in table.to_pylist()]
    return {"header": table.column_names, "rows": rows}


def sample_to(path: str, records: int, target: str) -> None:
    """Synthetic records in a file: `dpgm sample`."""
    from dpgm.synthesis.release import load
    from dpgm.synthesis.sampling import write_sample

    write_sample(load(path), records, Path(target), force=True)


def sign_with(release: str, name: str) -> None:
    """Sign a release with the key of the office, which is made if there is none: `dpgm keys create`, `dpgm sign`."""
    from dpgm.privacy.keys import create_keys, read_private_key
    from dpgm.synthesis.release import sign

    key = Path(f"{name}.key")
    if not key.exists():
        create_keys(name)
    sign(release, read_private_key(key))


def certificate_text(path: str) -> str:
    """The certificate of a release that verifies, as a page; written anew, never read from the folder."""
    from dpgm.synthesis.certificate_page import certificate_page
    from dpgm.synthesis.release import load

    return certificate_page(load(path).certificate)
