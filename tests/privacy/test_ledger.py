import json
import math
import multiprocessing
import re
import sqlite3
import threading
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from dpgm.errors import ArtefactError, BudgetError, DiskError, UsageError
from dpgm.privacy import ledger as ledger_module
from dpgm.privacy import ledger_chain
from dpgm.privacy.accountant import cost
from dpgm.privacy.calibration import Spend, Training, calibrate
from dpgm.privacy.certificate import LedgerMark
from dpgm.privacy.events import Mechanism
from dpgm.privacy.ledger import Ledger

PLAN = (Mechanism("counts", 40.0, 4), Mechanism("gradients", 1.5, 300, 0.01, "step"))


@pytest.fixture
def ledger(tmp_path):
    return Ledger.create(tmp_path / "people.ledger", 3.0, 1e-6)


def tenth(ledger):
    """A plan that takes a tenth of the cap at the order its own kind would choose."""
    plan = (Mechanism("counts", 10.0),)
    probe = Ledger.create(ledger._chain.path.with_suffix(".probe"), ledger.epsilon_cap, ledger.delta)
    probe.reserve(plan, 1e-6)
    return (Mechanism("counts", 10.0 * np.sqrt(10 * probe.totals().spent) * (1 + 1e-9)),)


def test_a_plan_goes_from_reserved_to_committed(ledger):
    entry = ledger.reserve(PLAN, 1e-6, plan_hash="abc")
    assert (entry.state, entry.charged, entry.plan_hash) == ("reserved", PLAN, "abc")
    assert ledger.start(entry).state == "started"
    assert ledger.start(entry).state == "started"  # a resumed fit
    done = ledger.commit(entry, release="visits-2026")
    assert (done.state, done.charged, done.release) == ("committed", PLAN, "visits-2026")
    assert ledger.entries() == (done,)


def test_room_is_checked_without_writing(ledger):
    before = ledger._chain.path.read_bytes()
    ledger.check_room(PLAN)
    with pytest.raises(BudgetError):
        ledger.check_room((Mechanism("counts", 0.1),))
    assert ledger._chain.path.read_bytes() == before


def test_a_ledger_is_opened_again(ledger):
    ledger.reserve(PLAN, 1e-6)
    again = Ledger.open(ledger._chain.path)
    assert again.entries() == ledger.entries()
    assert (again.population, again.epsilon_cap, again.delta) == (ledger.population, 3.0, 1e-6)


def test_totals_are_composed_and_never_added(ledger):
    for _ in range(4):
        ledger.reserve(PLAN, 1e-6)
    alone = cost(PLAN, 1e-6).epsilon
    totals = ledger.totals()
    assert totals.epsilon_if_fixed < 3 * alone
    assert 0 < totals.spent <= 1
    assert Ledger.create(ledger._chain.path.with_suffix(".new"), 1.0, 1e-6).totals().epsilon_if_fixed == 0


def test_a_plan_beyond_the_cap_is_refused_with_the_figures(ledger):
    admitted, refusal = 0, ""
    while not refusal:
        try:
            ledger.reserve(PLAN, 1e-6)
            admitted += 1
        except BudgetError as error:
            refusal = str(error)
    assert re.search(r"needs .*% of the ledger's epsilon 3 .*% is spent", refusal)
    assert admitted > 3
    assert len(ledger.entries()) == admitted
    totals = ledger.totals()
    assert totals.spent <= 1
    assert totals.epsilon_if_fixed <= ledger.epsilon_cap  # the tight figure stays under the cap too


@pytest.mark.parametrize("share", [1.05, 1.5, 1.95, 5.0])
def test_a_plan_larger_than_what_is_left_is_refused_however_small_the_excess(ledger, share):
    part = tenth(ledger)
    for _ in range(9):
        ledger.reserve(part, 1e-6)
    with pytest.raises(BudgetError, match="is spent or reserved"):
        ledger.reserve((Mechanism("counts", part[0].noise / share**0.5),), 1e-6)
    ledger.reserve(part, 1e-6)
    assert ledger.totals().spent == pytest.approx(1)


def test_a_first_plan_of_exactly_the_cap_is_admitted_and_nothing_after_it(tmp_path):
    plan = calibrate(1.0, 1e-6, [Spend("counts", 0.1)], Training(0.01, 500))
    ledger = Ledger.create(tmp_path / "ledger", 1.0, 1e-6)
    entry = ledger.reserve(plan, 1e-6)
    with pytest.raises(BudgetError):
        ledger.reserve((Mechanism("counts", 1000.0),), 1e-6)
    ledger.void(entry)
    ledger.reserve(plan, 1e-6)


def test_a_void_reservation_is_given_back_but_only_before_it_starts(ledger):
    entry = ledger.reserve(PLAN, 1e-6)
    spent = ledger.totals().spent
    assert ledger.void(entry).charged == ()
    assert ledger.totals().spent == 0 < spent
    started = ledger.start(ledger.reserve(PLAN, 1e-6))
    with pytest.raises(UsageError, match="is started; it cannot become void"):
        ledger.void(started)


def test_an_abandoned_fit_stays_charged(ledger):
    entry = ledger.start(ledger.reserve(PLAN, 1e-6))
    spent = ledger.totals().spent
    assert ledger.abandon(entry).state == "abandoned"
    assert ledger.totals().spent == spent
    assert ledger.start(entry).state == "started"


def test_a_commit_of_more_or_of_less_than_was_reserved_is_refused(ledger):
    entry = ledger.start(ledger.reserve(PLAN, 1e-6))
    spent = ledger.totals().spent
    for charged in ((replace(PLAN[0], count=5), PLAN[1]), (replace(PLAN[0], noise=1.0), PLAN[1]), (*PLAN, PLAN[0])):
        with pytest.raises(BudgetError, match="reserved"):
            ledger.commit(entry, charged)
    for charged in ((), PLAN[:1], (PLAN[0], replace(PLAN[1], count=299))):
        with pytest.raises(BudgetError, match="never given back"):
            ledger.commit(entry, charged)
    assert ledger.totals().spent == spent
    assert ledger.commit(entry, tuple(reversed(PLAN))).charged == PLAN
    assert ledger.totals().spent == spent


def test_an_abandoned_fit_is_never_given_back_to_the_next_reservation(tmp_path):
    plan = calibrate(1.0, 1e-6, [Spend("counts", 0.1)], Training(0.01, 500))
    ledger = Ledger.create(tmp_path / "ledger", 1.0, 1e-6)
    ledger.abandon(ledger.start(ledger.reserve(plan, 1e-6)))
    for more in (plan, (Mechanism("counts", 1000.0),)):
        with pytest.raises(BudgetError, match="is spent or reserved"):
            ledger.reserve(more, 1e-6)
    half = Ledger.create(tmp_path / "half", 3.0, 1e-6)
    share = tenth(half)
    for number in range(10):
        entry = half.start(half.reserve(share, 1e-6))
        if number % 2:
            half.abandon(entry)
    with pytest.raises(BudgetError):
        half.reserve(share, 1e-6)


# -- one charge, one release -------------------------------------------------------------------------------------


def test_a_process_that_resumes_takes_over_and_the_first_can_no_longer_charge_or_commit(ledger):
    entry = ledger.start(ledger.reserve(PLAN, 1e-6), owner="first")
    ledger.record_progress(entry, {"counts": 1}, owner="first")
    assert ledger.start(entry, owner="second").owner == "second"
    for act in (
        lambda: ledger.record_progress(entry, {"counts": 2}, owner="first"),
        lambda: ledger.commit(entry, PLAN, owner="first", model="aa"),
        lambda: ledger.abandon(entry, owner="first"),
        lambda: ledger.commit(entry, PLAN, model="aa"),
    ):
        with pytest.raises(BudgetError, match="taken it over"):
            act()
    ledger.record_progress(entry, {"counts": 2}, owner="second")
    assert ledger.entry(entry.name).progress == {"counts": 2}
    assert ledger.commit(entry, PLAN, owner="second", model="bb").model == "bb"


def test_a_committed_entry_accepts_only_the_very_same_model_again(ledger):
    entry = ledger.start(ledger.reserve(PLAN, 1e-6), owner="me")
    ledger.commit(entry, PLAN, owner="me", model="aa")
    before = ledger.mark
    assert ledger.commit(entry, PLAN, owner="another process", model="aa").state == "committed"
    assert ledger.mark == before
    for model in ("bb", ""):
        with pytest.raises(BudgetError, match="one charge pays for one release"):
            ledger.commit(entry, PLAN, owner="me", model=model)
    with pytest.raises(UsageError, match="cannot become started"):
        ledger.start(entry, owner="me")
    with pytest.raises(UsageError, match="cannot be charged"):
        ledger.record_progress(entry, {"counts": 4}, owner="me")


def test_progress_is_compared_with_what_is_recorded_and_reserved(ledger):
    entry = ledger.start(ledger.reserve(PLAN, 1e-6), owner="me")
    ledger.record_progress(entry, {"step": 7}, owner="me")
    ledger.record_progress(entry, {"step": 7, "counts": 1}, owner="me")
    for older in ({"step": 3, "counts": 1}, {"counts": 2}):
        with pytest.raises(ArtefactError, match="older copy"):
            ledger.record_progress(entry, older, owner="me")
    for more in ({"step": 301, "counts": 1}, {"step": 7, "counts": 5}, {"step": 7, "counts": 1, "other": 1}):
        with pytest.raises(BudgetError, match="more often than was reserved"):
            ledger.record_progress(entry, more, owner="me")
    assert Ledger.open(ledger._chain.path).entry(entry.name).progress == {"step": 7, "counts": 1}


def test_an_entry_may_be_named_beforehand_and_only_once(ledger):
    assert ledger.reserve(PLAN, 1e-6, name="chosen").name == "chosen"
    with pytest.raises(UsageError, match="already"):
        ledger.reserve(PLAN, 1e-6, name="chosen")
    assert len(ledger.entries()) == 1


def test_an_unknown_entry_is_refused(ledger):
    for act in (ledger.start, ledger.entry, ledger.void):
        with pytest.raises(UsageError, match="no entry"):
            act("nonsense")
    with pytest.raises(UsageError, match="cannot become committed"):
        ledger.commit(ledger.reserve(PLAN, 1e-6))


def test_a_bad_plan_is_refused_before_anything_is_written(ledger):
    for plan, delta in (((), 1e-6), ((Mechanism("a", -1.0),), 1e-6), (PLAN, 0.0)):
        with pytest.raises(UsageError):
            ledger.reserve(plan, delta)
    assert ledger.entries() == ()


def test_a_cap_too_small_for_any_order_is_refused(tmp_path):
    ledger = Ledger.create(tmp_path / "ledger", 1e-9, 1e-12)
    with pytest.raises(BudgetError, match="too small"):
        ledger.reserve((Mechanism("counts", 1e6),), 1e-6)


# -- tampering ---------------------------------------------------------------------------------------------------


def tamper(ledger, statement):
    with sqlite3.connect(ledger._chain.path) as connection:
        connection.execute(statement)
    connection.close()


@pytest.mark.parametrize(
    ("statement", "words"),
    [
        (
            "UPDATE ledger SET document = replace(document, '1.5', '9.5') WHERE sequence = 2",
            "entry 2 does not match",
        ),
        ("UPDATE ledger SET previous = 'x' WHERE sequence = 3", "entry 3 does not match"),
        ("DELETE FROM ledger WHERE sequence = 2", "entry 2 is missing"),
        (
            "UPDATE ledger SET document = replace(document, '3.0', '9.0') WHERE sequence = 1",
            "entry 1 does not match",
        ),
    ],
)
def test_an_altered_entry_shows(ledger, statement, words):
    for _ in range(2):
        ledger.reserve(PLAN, 1e-6)
    assert ledger.check() == ()
    tamper(ledger, statement)
    assert words in ledger.check()[0]
    with pytest.raises(ArtefactError, match="altered"):
        Ledger.open(ledger._chain.path)


def test_a_ledger_that_was_rolled_back_shows_against_a_release(ledger):
    ledger.reserve(PLAN, 1e-6)
    mark = ledger.mark
    assert ledger.check([mark]) == ()
    tamper(ledger, "DELETE FROM ledger WHERE sequence = 2")
    assert ledger.check() == ()  # the chain alone cannot tell
    assert "gone or differs" in ledger.check([mark])[0]
    assert "another population" in ledger.check([LedgerMark("other", 1, "x", 1.0, 1e-6, 1, 0.1, 0.1)])[0]


HUGE = 10**400
OF_A_MECHANISM = {
    "count": [math.inf, math.nan, -1, 0, "x", None, [], 1e300, HUGE],
    "noise": [math.inf, math.nan, -1, 0, "x", None, {}, 1e300, 1e-300, HUGE],
    "name": [None, [], 5],
    "sample": [[], 5],
    "sampling_rate": [math.nan, -1, 0, 1.5, "x", None],
    "delta": [math.inf, math.nan, -1, 1, "x", HUGE],
}
OF_A_DOCUMENT = {
    1: {"order": [math.inf, math.nan, -1, "x", None, HUGE], "set_aside": [math.nan, -1, 1.0, "x", None, HUGE],
        "delta": [math.nan, -1, "x", None], "entry": [None, []], "time": [5], "kind": ["x", None, []]},
    2: {"owner": [5, None], "entry": [None, [], "another"], "kind": ["x"]},
    3: {"charged": [None, [], {"counts": math.inf}, {"counts": -5}, {"counts": 1.5}, {"counts": HUGE}]},
}  # fmt: skip


def test_a_forged_ledger_is_refused_in_one_sentence_whatever_it_holds(ledger):
    """All hashes are correct: these ended in a traceback, and some of them, not being numbers, let every plan in."""
    entry = ledger.start(ledger.reserve(PLAN, 1e-6, name="x"))
    ledger.record_progress(entry, {"counts": 1})
    path, honest = ledger._chain.path, ledger._chain.documents()
    forgeries = []
    for place, changes in OF_A_DOCUMENT.items():
        forgeries += [(place, {key: value}) for key, values in changes.items() for value in values]
    for key, values in OF_A_MECHANISM.items():
        forgeries += [(1, {"mechanisms": [PLAN[0].to_json() | {key: value}]}) for value in values]
    believed = []
    for place, change in forgeries:
        previous = ""
        with closing(sqlite3.connect(path)) as connection, connection:
            connection.execute("DELETE FROM ledger")
            for number, document in enumerate(honest):
                text = json.dumps(document | change if number == place else document)
                digest = ledger_chain._hash(previous, text)
                connection.execute("INSERT INTO ledger VALUES (?, ?, ?, ?)", (number + 1, previous, text, digest))
                previous = digest
        for use in (Ledger.entries, Ledger.totals, lambda one: one.reserve(PLAN, 1e-6)):
            try:
                use(Ledger.open(path))
            except ArtefactError:
                continue
            believed.append((place, change))
    assert believed == []
    assert len(forgeries) > 60


def test_a_file_that_is_no_ledger_is_refused(tmp_path):
    path = tmp_path / "file"
    with pytest.raises(UsageError, match="does not exist"):
        Ledger.open(path)
    path.write_text("not a database, long enough to be looked at as one" * 20)
    with pytest.raises(ArtefactError, match="ledger"):
        Ledger.open(path)
    empty = tmp_path / "empty"
    with sqlite3.connect(empty) as connection:
        connection.execute(ledger_chain._SCHEMA)
    connection.close()
    with pytest.raises(ArtefactError, match="empty ledger"):
        Ledger.open(empty)
    for document in ('{"kind": "other"}', "{"):
        with sqlite3.connect(empty) as connection:
            connection.execute("DELETE FROM ledger")
            connection.execute("INSERT INTO ledger VALUES (1, '', ?, 'x')", (document,))
        connection.close()
        with pytest.raises(ArtefactError):
            Ledger.open(empty)
    foreign = tmp_path / "foreign"
    with sqlite3.connect(foreign) as connection:
        connection.execute("CREATE TABLE other (x)")
    connection.close()
    with pytest.raises(ArtefactError, match="cannot be read as a ledger"):
        Ledger.open(foreign)
    with pytest.raises(ArtefactError, match="cannot be opened"):
        ledger_chain._connect(tmp_path / "absent")


def test_an_existing_file_is_never_overwritten(ledger, tmp_path):
    with pytest.raises(UsageError, match="exists already"):
        Ledger.create(ledger._chain.path, 1.0, 1e-6)
    with pytest.raises(DiskError, match="cannot be created"):
        Ledger.create(tmp_path / "no" / "folder", 1.0, 1e-6)
    for epsilon, delta in ((0, 1e-6), (1.0, 2.0)):
        with pytest.raises(UsageError):
            Ledger.create(tmp_path / "other", epsilon, delta)
    assert (ledger._chain.path.stat().st_mode & 0o077) == 0


def test_a_network_file_system_is_refused(tmp_path, monkeypatch):
    real = Path.read_text

    def mounts(kind):
        def read(self, **options):
            if str(self) == "/proc/mounts":
                if kind is None:
                    raise OSError
                return f"disk / ext4 rw 0 0\nserver:/x {tmp_path.resolve()} {kind} rw 0 0\n"
            return real(self, **options)

        return read

    monkeypatch.setattr(Path, "read_text", mounts("nfs4"))
    with pytest.raises(UsageError, match="network file system"):
        Ledger.create(tmp_path / "ledger", 1.0, 1e-6)
    for number, kind in enumerate(("ext4", None)):
        monkeypatch.setattr(Path, "read_text", mounts(kind))
        Ledger.create(tmp_path / f"ledger{number}", 1.0, 1e-6)


def test_a_ledger_that_cannot_be_written_says_so(ledger, monkeypatch):
    monkeypatch.setattr(ledger_chain, "_WAIT_SECONDS", 0.05)
    other = sqlite3.connect(ledger._chain.path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(DiskError, match="cannot be written"):
        ledger.reserve(PLAN, 1e-6)
    other.execute("ROLLBACK")
    other.close()


# -- at once -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("repeat", range(3))
def test_of_fifty_fits_at_once_exactly_ten_get_a_tenth(ledger, repeat):
    plan = tenth(ledger)
    outcomes = []

    def reserve():
        try:
            outcomes.append(ledger.reserve(plan, 1e-6).state)
        except BudgetError:
            outcomes.append("refused")

    threads = [threading.Thread(target=reserve) for _ in range(50)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(outcomes) == ["refused"] * 40 + ["reserved"] * 10
    assert ledger.totals().spent == pytest.approx(1.0, rel=1e-6)
    assert ledger.check() == ()


def _reserve_many(path, plan, count, results):
    ledger = Ledger.open(path)
    admitted = 0
    for _ in range(count):
        try:
            ledger.reserve(plan, 1e-6)
            admitted += 1
        except BudgetError:
            pass
    results.put(admitted)


@pytest.mark.slow
def test_processes_share_one_budget(ledger):
    plan = tenth(ledger)
    context = multiprocessing.get_context("fork")
    results = context.Queue()
    processes = [
        context.Process(target=_reserve_many, args=(ledger._chain.path, plan, 10, results)) for _ in range(5)
    ]
    for process in processes:
        process.start()
    admitted = [results.get(timeout=120) for _ in processes]
    for process in processes:
        process.join()
    assert sum(admitted) == 10


CREATED = {"kind": "created", "format": 1, "population": "a", "epsilon_cap": 1.0, "delta": 1e-6}


@pytest.mark.parametrize(
    ("first", "word"),
    [
        ({"kind": "created", "format": 1}, "not complete"),
        ([1, 2], "not an object"),
        (CREATED | {"epsilon_cap": "much"}, "epsilon_cap"),
        (CREATED | {"delta": 3}, "delta"),
    ],
)
def test_a_ledger_with_an_odd_first_entry_is_refused(tmp_path, first, word):
    ledger_chain.Chain.create(tmp_path / "odd", first)
    with pytest.raises(ArtefactError, match=word):
        Ledger.open(tmp_path / "odd")


@pytest.mark.parametrize(
    "document",
    [
        {},
        {"kind": "started", "entry": "nobody"},
        {"kind": "reserved", "entry": "a"},
        {"kind": "reserved", "entry": "a", "order": 2.0, "mechanisms": [{"noise": 1}]},
        {"kind": "progress", "entry": "known", "charged": [1]},
        {"kind": "progress", "entry": "known", "charged": {"counts": "many"}},
        {"kind": "committed", "entry": "known"},
    ],
)
def test_a_forged_entry_is_refused_in_one_sentence(ledger, document):
    """Its hash fits; these ended in a traceback."""
    ledger.reserve(tenth(ledger), 1e-6, name="known")
    with ledger._chain.writing() as (_, append):
        append(document)
    for use in (ledger.entries, ledger.totals, lambda: ledger.start("known")):
        with pytest.raises(ArtefactError, match="makes no sense"):
            use()


@pytest.mark.parametrize("order", [1.0, 0.5, -3.0])
def test_an_order_that_bounds_nothing_is_refused(order):
    with pytest.raises(ValueError, match=r"not an order|not a number"):
        ledger_module._fixed_by({"order": order})
