"""What each page shows: one value of plain data, rendered as HTML by a template and as JSON as it stands."""

import secrets
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from dpgm.data.domain_file import domain_to_plain
from dpgm.errors import DpgmError, UsageError
from dpgm.privacy.certificate import CERTIFICATE_NAME
from dpgm.studio import fields, library
from dpgm.studio.commands import HELP, READING_OPTIONS, Commands, in_words_of_the_form, line
from dpgm.studio.library import Library
from dpgm.studio.runs import Runs, RunState, State
from dpgm.studio.workspace import Project, Workspace, read_json

MOST_EPSILON = 100.0  # beyond, no fit calls itself private
STOPS = (0.1, 0.5, 1.0, 2.0, 4.0, 8.0)  # epsilons that the budget page offers
# Bands: from real rows, released, or public numbers only.
FROM_ROWS, RELEASED, FROM_PLAN = "curator", "safe", "public"
PROJECT_STEPS = ("data", "fields", "budget", "plan", "run", "compare", "release")


@dataclass(frozen=True)
class Page:
    """A page: its template, its title, its band, the command that says the same, and what it shows."""

    template: str
    title: str
    band: str
    command: str = ""
    body: Mapping[str, Any] = field(default_factory=dict)
    steps: tuple[tuple[str, str, str], ...] = ()  # name, address, state in words
    address: str = ""  # below the secret path, without .json
    summary: str = ""
    project: str = ""
    message: str = ""
    changing: bool = False  # whether it will look different by itself soon

    def to_json(self) -> dict[str, Any]:
        """Plain values: what the template gets."""
        return asdict(self)


@dataclass(frozen=True)
class Desk:
    """All that pages and actions work with."""

    workspace: Workspace
    runs: Runs
    library: Library


async def home_page(desk: Desk) -> Page:
    """Projects, ledgers and releases."""
    projects = [
        {"id": one.id, "name": one.answers.name, "made": one.answers.made, "next": _next_step(desk, one)}
        for one in desk.workspace.projects()
    ]
    releases = {id: str(path) for id, path in desk.workspace.releases().items()}
    body = {"projects": projects, "releases": releases, "ledgers": desk.workspace.ledgers()}
    return Page("home", "Studio", FROM_PLAN, "ls dpgm-studio/projects", body)


async def ledger_page(desk: Desk, id: str) -> Page:
    """What was spent on one population."""
    path = desk.workspace.ledger(id)
    name = desk.workspace.ledgers().get(id)
    if name is None:
        raise UsageError("there is no such ledger; see the list on the first page.")
    body = await desk.library.call(library.ledger_view, str(path))
    where = str(path.relative_to(desk.workspace.root))
    words = line(["ledger", "show", where], ["ledger", "check", where])
    return Page("ledger", f"Ledger: {name}", FROM_PLAN, words, body, address=f"ledgers/{id}")


async def opened_page(desk: Desk, id: str) -> Page:
    """A release of the folder, checked."""
    path = desk.workspace.releases().get(id)
    if path is None:
        raise UsageError("there is no such release; see the list on the first page.")
    body = await desk.library.call(library.verified, str(desk.workspace.root / path))
    if body["ok"]:
        body["sample"] = await desk.library.call(library.some_rows, str(desk.workspace.root / path))
    words = [["verify", str(path)], ["explain", str(path)]]
    return Page("open", f"Release: {path}", RELEASED, line(*words), body | {"id": id}, address=f"open/{id}")


async def data_page(desk: Desk, project: Project) -> Page:
    """Which file, who its people are, how it is written, and what it looks like inside."""
    run = desk.runs.state(project, "look")
    found = desk.runs.output(project, "look") if run.state is State.FINISHED else None
    if found is not None:
        for one in ("hints", "left_out"):
            found[one] = [(name, in_words_of_the_form(text)) for name, text in found[one]]
        found["confirm"] = [*map(in_words_of_the_form, found["confirm"])]
    reading = [
        {"name": name, "help": HELP[name], "value": project.answers.reading.get(name, "")}
        for name in READING_OPTIONS
    ]
    body = {
        "files": {id: str(path) for id, path in desk.workspace.data_files().items()},
        "look": _of(run),
        "found": found,
        "columns": _columns(found),
        "unit": _unit(project, found),
        "reading": reading,
        "answers": asdict(project.answers),
    }
    band = FROM_PLAN if found is None else FROM_ROWS
    command = line(Commands(desk.workspace, project).inspect()) if project.answers.file else ""
    return _page(desk, project, "data", "Data", band, command, body, changing=run.is_alive)


async def fields_page(desk: Desk, project: Project) -> Page:
    """What is stated of every column, and what is left to be found privately."""
    draft = drafted_domain(desk, project)
    found = desk.runs.output(project, "look") or {}
    if draft is None:
        return _page(desk, project, "fields", "Fields", FROM_PLAN, "", {"columns": [], "kinds": []})
    saved = fields.read(project.path("domain.yaml"))
    notes = dict(tuple(one.split(": ", 1)) for one in found.get("confirm", []) if ": " in one)
    notes |= dict(found.get("left_out", []))
    for name, hint in found.get("hints", []):
        notes[name] = f"{notes.get(name, '')} ({hint})".strip()
    notes = {name: in_words_of_the_form(note) for name, note in notes.items()}
    shown = draft if saved is None or not _same_columns(saved, draft) else saved
    lists = [one.name for one in draft.fields if one.is_set]
    body = {
        "columns": [asdict(one) for one in fields.forms(shown, project.answers.known, notes)],
        "kinds": fields.kind_words(),
        "sources": fields.SOURCES,
        "items": project.answers.items,
        "lists": lists,
        "label": shown.label or "",
        "width": shown.width,
        "saved": saved is not None,
    }
    command = f"cat {Commands(desk.workspace, project).path('domain.yaml')}"
    return _page(desk, project, "fields", "Fields", FROM_ROWS, command, body)


async def budget_page(desk: Desk, project: Project, typed: Mapping[str, str]) -> Page:
    """Odds, forecast and ledger at one epsilon, as `typed` in the address; public numbers only."""
    chosen = _epsilon(typed.get("epsilon", "")) or project.answers.epsilon or 1.0
    body: dict[str, Any] = {
        "epsilon": chosen,
        "stops": STOPS,
        "ledgers": desk.workspace.ledgers(),
        "answers": asdict(project.answers),
        "planned": None,
        "ready": is_ready(desk, project),
    }
    message = ""
    if body["ready"]:
        try:
            body["planned"] = await planned_fit(desk, project, chosen)
        except DpgmError as error:
            message = str(error)
    run = desk.runs.state(project, "forecast")
    told = (desk.runs.output(project, "forecast") or {}).get("forecast") if run.state is State.FINISHED else None
    expected = None if told is None else await desk.library.call(library.expected, told, chosen)
    body["forecast"] = {"run": _of(run), "told": told, "expected": expected}
    commands = Commands(desk.workspace, project)
    words = line(commands.plan(chosen), ["explain", commands.path("plan.json")], commands.forecast(chosen, None))
    return _page(desk, project, "budget", "Budget", FROM_PLAN, words, body, message=message, changing=run.is_alive)


async def plan_page(desk: Desk, project: Project) -> Page:
    """Every measurement of the fit, and the form that spends the budget."""
    answers = project.answers
    ready = is_ready(desk, project) and answers.epsilon is not None and bool(answers.ledger or answers.made_up)
    body: dict[str, Any] = {"ready": ready, "answers": asdict(answers), "once": secrets.token_hex(16)}
    commands, words = Commands(desk.workspace, project), ""
    if ready and answers.epsilon is not None:
        body["planned"] = await planned_fit(desk, project, answers.epsilon)
        body["amount"] = f"{answers.epsilon:g}"
        words = line(commands.plan(answers.epsilon), commands.fit(resume=False))
    body["rehearsal"] = _rehearsal(desk, project)
    body["fit"] = _of(desk.runs.state(project, "fit"))
    changing = desk.runs.state(project, "rehearse").is_alive
    return _page(desk, project, "plan", "Plan", FROM_PLAN, words, body, changing=changing)


async def run_page(desk: Desk, project: Project) -> Page:
    """How far the fit is: facts of the plan alone."""
    state = desk.runs.state(project, "fit")
    body = {"fit": _of(state), "epsilon": project.answers.epsilon, "made_up": project.answers.made_up}
    return _page(desk, project, "run", "Run", FROM_PLAN, state.command, body, changing=state.is_alive)


async def compare_page(desk: Desk, project: Project) -> Page:
    """The release beside the real data, for the curator alone."""
    state = desk.runs.state(project, "compare")
    figures = read_json(project.path("evaluation.json")) if state.state is State.FINISHED else None
    commands = Commands(desk.workspace, project)
    body = {
        "compare": _of(state),
        "verdict": None if figures is None else figures.get("verdict"),
        "released": project.path(f"release/{CERTIFICATE_NAME}").is_file(),
        "made_up": project.answers.made_up,
    }
    words = line(commands.sample(project.answers.records or 1000), commands.evaluate())
    return _page(desk, project, "compare", "Compare", FROM_ROWS, words, body, changing=state.is_alive)


async def release_page(desk: Desk, project: Project) -> Page:
    """What may be given away, checked; and what stays."""
    folder, body = project.path("release"), {}
    commands = Commands(desk.workspace, project)
    if (folder / CERTIFICATE_NAME).is_file():
        body = await desk.library.call(library.verified, str(folder))
    key = desk.workspace.home / "office.pub"
    body |= {
        "released": (folder / CERTIFICATE_NAME).is_file(),
        "signed": (folder / library.ATTESTATION).is_file(),
        "has_key": key.is_file(),
        "sampled": project.path("synthetic.csv").is_file(),
        "ledger": project.answers.ledger,
    }
    words = line(["verify", commands.path("release")], commands.sample(1000))
    return _page(desk, project, "release", "Release", RELEASED, words, body)


def _page(
    desk: Desk,
    project: Project,
    step: str,
    title: str,
    band: str,
    command: str,
    body: Mapping[str, Any],
    *,
    message: str = "",
    changing: bool = False,
) -> Page:
    states = _states(desk, project)
    steps = tuple((name, f"projects/{project.id}/{name}", states[name]) for name in PROJECT_STEPS)
    answers = project.answers
    facts = [answers.name, "simulated people" if answers.made_up else answers.file]
    facts += [f"{answers.records:,} {_unit(project)}"] if answers.records else []
    facts += [f"epsilon {answers.epsilon:g}"] if answers.epsilon else []
    summary, address = " · ".join(filter(None, facts)), f"projects/{project.id}/{step}"
    page = Page(step, title, band, command, body, steps, address, summary, project.id)
    return replace(page, message=message, changing=changing)


def _epsilon(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if 0 < value <= MOST_EPSILON else None


def _unit(project: Project, found: Mapping[str, Any] | None = None) -> str:
    """What a record is; of people with several rows, each of the rows that are used."""
    several = (project.answers.rows_per_person or 1) > 1 or project.answers.several == "unknown"
    return "rows" if several or (found is not None and found["source"]["unit"] == "row") else "people"


def _of(state: RunState) -> dict[str, Any]:
    return asdict(state) | {"alive": state.is_alive}


def _states(desk: Desk, project: Project) -> dict[str, str]:
    """Every step with its state in words."""
    answers = project.answers
    looked = desk.runs.state(project, "look").state is State.FINISHED or answers.made_up
    found = desk.runs.output(project, "look") or {}
    asked = bool(answers.several and answers.records) and found.get("records", answers.records) == answers.records
    fit, compared = desk.runs.state(project, "fit"), desk.runs.state(project, "compare")
    done, needed, later = "done", "needs an answer", "not yet"
    released = project.path(f"release/{CERTIFICATE_NAME}").is_file()
    domain = project.path("draft.yaml" if answers.items == "file" else "domain.yaml").is_file()
    chosen = answers.epsilon is not None and bool(answers.ledger or answers.made_up)
    running = {State.NONE: later, State.FINISHED: done}.get(fit.state, str(fit.state))
    return {
        "data": done if looked and asked else needed,
        "fields": done if domain else needed if looked else later,
        "budget": done if chosen else needed if domain else later,
        "plan": done if fit.state is not State.NONE else needed if chosen else later,
        "run": running,
        "compare": done if compared.state is State.FINISHED else "possible" if released else later,
        "release": done if released else later,
    }


def _next_step(desk: Desk, project: Project) -> str:
    """The step at which a project stands."""
    states = _states(desk, project)
    return next((name for name in PROJECT_STEPS if states[name] not in ("done", "possible")), "release")


def is_ready(desk: Desk, project: Project) -> bool:
    """Whether a plan can be made: the domain and the number of people are known."""
    domain = project.path("draft.yaml" if project.answers.items == "file" else "domain.yaml")
    return project.answers.records is not None and domain.is_file()


async def planned_fit(desk: Desk, project: Project, epsilon: float) -> dict[str, Any]:
    """The plan at an epsilon, with all that pages say of it."""
    answers = project.answers
    domain = fields.read(project.path("draft.yaml" if answers.items == "file" else "domain.yaml"))
    plain = None if domain is None else domain_to_plain(domain)
    rows = answers.rows_per_person if answers.several == "yes" and answers.rows == "rows" else 1
    ledger = str(desk.workspace.ledger(answers.ledger)) if answers.ledger and not answers.made_up else None
    found: dict[str, Any] = await desk.library.call(
        library.planned, epsilon, answers.records, plain, rows or 1, ledger
    )
    return found


def _rehearsal(desk: Desk, project: Project) -> dict[str, Any]:
    state = desk.runs.state(project, "rehearse")
    figures = read_json(project.path("rehearsal/evaluation.json")) if state.state is State.FINISHED else None
    return _of(state) | {"verdict": None if figures is None else figures.get("verdict")}


def _columns(found: Mapping[str, Any] | None) -> list[str]:
    """The names of all columns of the file, as far as looking inside told."""
    if found is None:
        return []
    layout = found["source"].get("layout") or {}
    named = [one["name"] for one in found["domain"]] + [name for name, _ in found["left_out"]]
    return list(dict.fromkeys([*named, *(name for name in (layout.get("person"), layout.get("item")) if name)]))


def drafted_domain(desk: Desk, project: Project) -> Any:
    """The drafted domain, once somebody has looked inside; lists of items are left open."""
    drafted = fields.read(project.path("draft.yaml"))
    if drafted is None or desk.runs.state(project, "look").is_alive:
        return None
    if len(drafted.fields) == 1 and drafted.fields[0].is_set:
        return fields.open_items(drafted.fields[0].name)
    return drafted


def _same_columns(saved: Any, draft: Any) -> bool:
    kinds = [[(one.name, one.kind) for one in domain.columns] for domain in (saved, draft)]
    return kinds[0] == kinds[1]
