"""What forms do: nothing is spent without the amount typed, two tabs spend once, every refusal says what to do."""

import asyncio
import json
import sys

import pytest

from dpgm.errors import DpgmError
from dpgm.privacy.ledger import Ledger
from dpgm.studio import actions, commands, pages
from dpgm.studio.runs import State
from dpgm.studio.workspace import write_json
from studio_desk import Client, run

DOMAIN = "fields:\n- {name: stop, kind: items, items: [a, b, c, d, e, f]}\n"


@pytest.fixture
def client(tmp_path, monkeypatch):
    monkeypatch.setenv("DPGM_CACHE", str(tmp_path.parent / "cache"))
    folder = tmp_path / "office"
    folder.mkdir()
    (folder / "data.csv").write_text("stop\na\nb\n" * 50)
    return Client(folder)


@pytest.fixture
def started(client, monkeypatch):
    """Commands that would have been started; none is."""
    made = []

    def start(self, project, kind, words, *, once="", leash=False):
        made.append(words)
        write_json(project.path(f"{kind}.json"), {"command": " ".join(words), "pid": 1, "born": None, "once": once})

    monkeypatch.setattr(type(client.desk.runs), "start", start)
    return made


def ready(client, cap=3.0, **answers):
    """A project of which only the amount is missing."""
    id, path = client.workspace.new_ledger("people")
    Ledger.create(path, cap, 1e-3)
    asked = {"file": "data.csv", "several": "no", "records": 100, "epsilon": 1.0, "ledger": id} | answers
    project = client.workspace.new_project("p", **asked)
    project.path("domain.yaml").write_text(DOMAIN)
    return project


def form_of(client, project):
    """The hidden fields of the page of the plan."""
    shown = client.page(f"/projects/{project.id}/plan")["body"]
    return {"hash": shown["planned"]["hash"], "head": shown["planned"]["ledger"]["head"], "once": shown["once"]}


def state_of_ledger(client, project):
    return Ledger.open(client.workspace.ledger(project.answers.ledger)).entries()


def test_the_amount_typed_starts_the_command_that_the_page_shows(client, started):
    project = ready(client)
    shown = client.page(f"/projects/{project.id}/plan")
    reply = client.post(f"/projects/{project.id}/spend", form_of(client, project) | {"amount": "1"})
    assert client.follow(reply) == f"/projects/{project.id}/run"
    assert [commands.line(words) for words in started] == [shown["command"].splitlines()[-1]]
    written = json.loads(project.path("plan.json").read_text())
    assert written["target_epsilon"] == 1.0
    assert "--stop-with-stdin" in started[0]


@pytest.mark.parametrize("amount", ["", "2", "1.01", "one", "1 ", "01"])
def test_another_amount_starts_nothing(client, started, amount):
    project = ready(client)
    reply = client.post(f"/projects/{project.id}/spend", form_of(client, project) | {"amount": amount})
    if amount.strip() == "1":
        assert reply.status == 303
        return
    assert reply.status == 422
    assert "type 1 to spend it" in reply.text
    assert started == []
    assert not project.path("plan.json").exists()


@pytest.mark.parametrize(
    ("change", "words"), [({"hash": "0" * 64}, "plan has changed"), ({"head": "0" * 64}, "ledger has changed")]
)
def test_a_page_that_is_out_of_date_starts_nothing(client, started, change, words):
    project = ready(client)
    reply = client.post(f"/projects/{project.id}/spend", form_of(client, project) | {"amount": "1"} | change)
    assert reply.status == 422
    assert words in reply.text
    assert started == []


def test_a_ledger_that_moved_meanwhile_shows_its_new_total(client, started):
    project = ready(client)
    form = form_of(client, project)
    plan = client.page(f"/projects/{project.id}/plan")["body"]["planned"]["plan"]
    from dpgm.synthesis.plan import Plan

    Ledger.open(client.workspace.ledger(project.answers.ledger)).reserve(
        Plan.from_json(plan).mechanisms, plan["delta"]
    )
    assert client.post(f"/projects/{project.id}/spend", form | {"amount": "1"}).status == 422
    assert started == []
    assert client.post(f"/projects/{project.id}/spend", form_of(client, project) | {"amount": "1"}).status == 303


def test_a_fit_that_ended_when_no_server_was_there_is_finished(client):
    project = ready(client)
    write_json(project.path("fit.json"), {"command": "dpgm fit", "pid": 1, "born": "long ago", "once": ""})
    assert client.desk.runs.state(project, "fit").state is State.INTERRUPTED
    project.path("release").mkdir()
    write_json(project.path("release/certificate.json"), {})
    assert client.desk.runs.state(project, "fit").state is State.FINISHED
    killed = {"command": "dpgm fit", "pid": 1, "born": "long ago", "once": "", "code": -9}
    write_json(project.path("fit.json"), killed)  # after the release was written
    assert client.desk.runs.state(project, "fit").state is State.FINISHED


TOLD = {"epsilon": 1.0, "delta": 1e-3, "records": 100, "errors": {"count": 5.0, "pair": None, "correlation": None}}


def test_a_forecast_is_a_command_and_belongs_to_its_answers(client, started):
    project = ready(client)
    address = f"/projects/{project.id}"
    reply = client.post(f"{address}/forecast", {"epsilon": "0.5"})
    assert client.follow(reply) == f"{address}/budget?epsilon=0.5"
    assert client.post(f"{address}/forecast", {"find": "yes", "group": ""}).status == 422
    client.post(f"{address}/forecast", {"epsilon": "1", "find": "yes", "group": "40"})
    size = ["--records", "100", "--domain", commands.Commands(client.workspace, project).domain]
    assert started == [
        ["plan", "--epsilon", "0.5", *size, "--forecast", "--json"],
        ["plan", "--visible", "40", *size, "--forecast", "--json"],
    ]
    write_json(project.path("forecast.json"), {"command": "", "pid": 1, "born": None, "once": "", "code": 0})
    write_json(project.path("forecast.out"), {"forecast": TOLD})
    exact = client.get(f"{address}/budget.json?epsilon=1").json()["body"]["forecast"]["expected"]
    assert exact["errors"] == TOLD["errors"]
    assert exact["sentences"][0] in client.get(f"{address}/budget").text
    other = client.get(f"{address}/budget?epsilon=2").text
    assert "About: from a forecast at epsilon 1" in other
    assert exact["sentences"][0] not in other
    asked = {"asked": "yes", "several": "no", "records": "90"}
    assert client.post(f"{address}/data", asked).status == 303
    assert client.page(f"{address}/budget")["body"]["forecast"]["told"] is None
    assert state_of_ledger(client, project) == ()


def test_two_tabs_at_the_same_instant_spend_once(client, started):
    """W8, a hundred times: one command is started, the other tab is told."""
    for _ in range(100):
        project = ready(client)
        shown = form_of(client, project)
        forms = [shown | {"amount": "1"}, shown | {"amount": "1", "once": "another tab"}]

        async def both(project=project, forms=forms):
            return await asyncio.gather(
                *(actions.spend(client.desk, project, form) for form in forms), return_exceptions=True
            )

        done = run(both())
        assert sorted(isinstance(one, DpgmError) for one in done) == [False, True]
        assert "started already" in str(next(one for one in done if isinstance(one, DpgmError)))
        project.path("fit.json").unlink()  # so that the next project is alone
    assert len(started) == 100


def test_one_fit_at_a_time(client, started, monkeypatch):
    first, second = ready(client), ready(client)
    assert client.post(f"/projects/{first.id}/spend", form_of(client, first) | {"amount": "1"}).status == 303
    real = client.desk.runs.state
    running = pages.RunState(State.RUNNING)
    monkeypatch.setattr(
        client.desk.runs,
        "state",
        lambda project, kind: running if (project.id, kind) == (first.id, "fit") else real(project, kind),
    )
    reply = client.post(f"/projects/{second.id}/spend", form_of(client, second) | {"amount": "1"})
    assert "one at a time" in reply.text
    assert len(started) == 1


def test_answers_stay_as_they_are_once_there_is_a_fit(client, started):
    project = ready(client)
    client.post(f"/projects/{project.id}/spend", form_of(client, project) | {"amount": "1"})
    for path in ("data", "fields", "budget"):
        reply = client.post(f"/projects/{project.id}/{path}", {"epsilon": "5", "asked": "yes"})
        assert "Begin another one" in reply.text


def test_without_room_in_the_ledger_nothing_starts(client, started):
    project = ready(client, cap=0.5)
    shown = client.page(f"/projects/{project.id}/plan")["body"]["planned"]["ledger"]
    assert "Lower its epsilon" in shown["refusal"]
    reply = client.post(f"/projects/{project.id}/spend", form_of(client, project) | {"amount": "1"})
    assert (reply.status, started) == (422, [])
    assert state_of_ledger(client, project) == ()


def test_an_abandoned_fit_is_spent_and_a_removed_entry_shows_as_a_gap(client):
    project = ready(client)
    path = client.workspace.ledger(project.answers.ledger)
    ledger = Ledger.open(path)
    plan = client.page(f"/projects/{project.id}/plan")["body"]["planned"]["plan"]
    from dpgm.synthesis.plan import Plan

    ledger.abandon(ledger.start(ledger.reserve(Plan.from_json(plan).mechanisms, plan["delta"])))
    shown = client.get(f"/ledgers/{project.answers.ledger}").text
    assert "given up, and charged" in shown
    assert "1 fit" in shown
    import sqlite3

    with sqlite3.connect(path) as connection:
        connection.execute("DELETE FROM ledger WHERE sequence = 2")
    connection.close()
    assert "This ledger was altered: entry 2 is missing." in client.get(f"/ledgers/{project.answers.ledger}").text


# -- the data are opened when somebody says so ----------------------------------------------------------------------------

_watched: dict = {}


def _hook(event, arguments):
    if event == "open" and _watched and str(arguments[0]).endswith(_watched["name"]):
        _watched["seen"].append(str(arguments[0]))


sys.addaudithook(_hook)  # stays for as long as the process; it looks at nothing unless a test watches


def test_the_data_file_is_not_opened_before_somebody_looks_inside(client, started):
    _watched.update(name="data.csv", seen=[])
    try:
        project = ready(client)
        base = f"/projects/{project.id}"
        file = next(iter(client.page(f"{base}/data")["body"]["files"]))
        assert client.post(f"{base}/data", {"file": file}).status == 303
        for path in (
            "/",
            f"{base}/data",
            f"{base}/fields",
            f"{base}/budget?epsilon=2",
            f"{base}/plan",
            f"{base}/run",
            f"{base}/release",
        ):
            assert client.get(path).status == 200
        assert client.post(f"{base}/spend", form_of(client, project) | {"amount": "1"}).status == 303
        assert _watched["seen"] == []  # not by the server: a command of its own opens it
        with open(client.workspace.root / "data.csv"):
            assert len(_watched["seen"]) == 1  # and the watch works
    finally:
        _watched.clear()


# -- every refusal names cause and remedy -----------------------------------------------------------------------------------

PEOPLE = {"asked": "yes", "several": "no", "records": "100"}
REFUSALS = [
    ("data", {"look": "yes"}, "choose a file first"),
    ("data", {"file": "0" * 16}, "choose one of the list"),
    ("data", {"asked": "yes", "records": "10"}, "if you do not know, say so"),
    ("data", PEOPLE | {"several": "yes"}, "say which column"),
    ("data", PEOPLE | {"several": "yes", "person": "a"}, "things, or rows of a table"),
    ("data", PEOPLE | {"several": "yes", "person": "a", "rows": "items"}, "say which column names the thing"),
    ("data", PEOPLE | {"several": "yes", "person": "a", "rows": "rows"}, "the most rows of a person"),
    ("data", PEOPLE | {"records": ""}, "a whole number such as 5000"),
    ("data", PEOPLE | {"records": "many"}, "a whole number such as 5000"),
    ("data", PEOPLE | {"records": "9" * 40}, "a whole number such as 5000"),
    ("fields", {}, "look inside the data first"),
    ("budget", {"epsilon": "0"}, "a number above 0"),
    ("budget", {"epsilon": "nan"}, "a number above 0"),
    ("budget", {"epsilon": "1", "ledger": "new", "cap": "3"}, "name the people"),
    ("budget", {"epsilon": "1", "ledger": "new", "ledger_name": "x", "cap": "-1"}, "a number above 0"),
    ("budget", {"epsilon": "1", "ledger": "../../x"}, "choose the ledger"),
    ("budget", {"epsilon": "1", "date": "tomorrow"}, "a day such as 2026-01-31"),
    ("spend", {"amount": "1"}, "choose a budget first"),
    ("resume", {}, "nothing to resume"),
    ("rehearse", {}, "choose an epsilon first"),
    ("compare", {}, "no release yet"),
    ("sample", {"records": "5"}, "no release yet"),
    ("sign", {}, "no release yet"),
    ("again", {}, "describe the fields first"),
]


@pytest.mark.parametrize(("path", "form", "words"), REFUSALS)
def test_every_refusal_says_what_to_do_and_changes_nothing(client, started, path, form, words):
    project = client.workspace.new_project("p")
    before = project.path("project.json").read_bytes()
    reply = client.post(f"/projects/{project.id}/{path}", form)
    assert reply.status == 422
    assert words in reply.text.replace("&#39;", "'")
    assert project.path("project.json").read_bytes() == before
    assert started == []
    assert client.workspace.ledgers() == {}


@pytest.mark.parametrize(
    "path", ["certificate", "report", "rehearsal", "plan-file", "synthetic.csv", "release.zip"]
)
def test_files_that_are_not_there_yet_say_so(client, path):
    project = client.workspace.new_project("p")
    assert client.get(f"/projects/{project.id}/{path}").status == 422


def test_a_second_server_on_the_folder_names_the_first(client):
    with pytest.raises(DpgmError, match=r"open in a studio already, at http://127\.0\.0\.1:4321"):
        Client(client.workspace.root)


def test_a_fault_of_dpgm_shows_no_traceback(client, monkeypatch):
    project = ready(client)

    async def fault(*_):
        raise RuntimeError("a row: 17, heart, 3 May")

    monkeypatch.setattr(client.desk.library, "call", fault)
    reply = client.get(f"/projects/{project.id}/plan")
    assert reply.status == 500
    assert "a fault of dpgm" in reply.text
    assert "heart" not in reply.text


# -- pages and their twins ----------------------------------------------------------------------------------------------------


def test_a_page_and_its_twin_say_the_same(client):
    """Every figure of the JSON that a reader needs stands on the page."""
    project = ready(client)
    for step in pages.PROJECT_STEPS:
        shown, page = client.page(f"/projects/{project.id}/{step}"), client.get(f"/projects/{project.id}/{step}")
        assert page.headers["content-type"].startswith("text/html")
        assert f"<h1>{shown['title']}</h1>" in page.text
        if shown["command"]:
            assert "Show as command" in page.text
            assert all(line.startswith(("dpgm ", "cat ")) for line in shown["command"].splitlines())
    odds = client.page(f"/projects/{project.id}/budget")["body"]["planned"]["odds"]
    text = client.get(f"/projects/{project.id}/budget").text
    for figures in (odds["plan"], odds["promise"]):
        assert all(f"{figure:.1f}" in text for figure in figures.values())
    for step in ("budget", "plan"):  # wherever epsilon stands, delta and the unit do
        text = client.get(f"/projects/{project.id}/{step}").text
        assert f"{odds['delta']:.3g}" in text
        assert odds["protects"] in text


def test_pages_are_small(client):
    project = ready(client)
    sizes = {step: len(client.get(f"/projects/{project.id}/{step}").body) for step in pages.PROJECT_STEPS}
    assert max(sizes.values()) < 150_000
    assert len(client.get("/static/studio.js").body) < 20_000


@pytest.mark.parametrize(
    "phrase", ["anonymous", "except with probability", "guaranteed safe", "event of probability"]
)
def test_no_page_promises_more_than_the_certificate(client, phrase):
    project = ready(client)
    for step in pages.PROJECT_STEPS:
        assert phrase not in client.get(f"/projects/{project.id}/{step}").text.lower()
