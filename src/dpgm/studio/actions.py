"""What each form does: saves answers, starts commands, spends budget. Every action ends at a page."""

import math
import os
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from dpgm.data.domain_file import domain_from_plain
from dpgm.data.formats import by_ending
from dpgm.data.kinds import draft_words
from dpgm.errors import BudgetError, DiskError, UsageError
from dpgm.strategy.settings import default_delta
from dpgm.studio import fields, library, pages
from dpgm.studio.commands import READING_OPTIONS, Commands
from dpgm.studio.pages import Desk
from dpgm.studio.runs import State
from dpgm.studio.workspace import Project, plain, write_json

Form = Mapping[str, str]
MADE_UP_RECORDS = 5000


async def lock(desk: Desk, form: Form) -> str:
    """Lock the pages that show real rows; the application does it, for it knows the session."""
    return ""


async def new_project(desk: Desk, form: Form) -> str:
    """Begin a project; with `made_up`, one on simulated people."""
    project = desk.workspace.new_project(form.get("name", ""))
    if form.get("made_up"):
        domain = library.MADE_UP
        fields.save(domain_from_plain(domain), project.path("domain.yaml"))
        data = str(project.path("people.parquet").relative_to(desk.workspace.root))
        project = project.save(
            name="Made-up data", made_up=True, file=data, several="no", records=MADE_UP_RECORDS, epsilon=1.0
        )
        await desk.library.call(library.make_up, domain, MADE_UP_RECORDS, str(project.path("people.parquet")))
        return f"projects/{project.id}/budget"
    return f"projects/{project.id}/data"


async def save_data(desk: Desk, project: Project, form: Form) -> str:
    """Save what the page of data asks; with `look`, look inside the file."""
    refuse_while_fitting(desk, project)
    answers = project.answers
    changes: dict[str, Any] = {}
    if form.get("file"):
        chosen = desk.workspace.data_files().get(form["file"])
        if chosen is None:
            raise UsageError("this file is no longer in the folder; choose one of the list.")
        changes |= {"file": str(chosen)} | ({} if str(chosen) == answers.file else {"kinds": {}})
    if form.get("reading"):
        changes["reading"] = {name: form[name].strip() for name in READING_OPTIONS if form.get(name, "").strip()}
    if form.get("asked"):
        changes |= _about_people(form)
    project = project.save(**changes)
    if {**vars(project.answers), "reading": 0} != {**vars(answers), "reading": 0}:
        desk.runs.forget(project, "forecast")
    if form.get("look"):
        if not project.answers.file:
            raise UsageError("choose a file first, or drop one.")
        desk.workspace.checked(project.answers.file)
        for name in ("draft.yaml", "domain.yaml"):  # of another reading
            project.path(name).unlink(missing_ok=True)
        desk.runs.start(project, "look", Commands(desk.workspace, project).inspect())
    elif _shape(project) != _shape(replace(project, answers=answers)):
        project.path("domain.yaml").unlink(missing_ok=True)
        desk.runs.start(project, "look", Commands(desk.workspace, project).inspect())
    return f"projects/{project.id}/data"


def _shape(project: Project) -> tuple[str, ...]:
    """What decides what a record is: after a change the file must be looked at again."""
    answers = project.answers
    return (answers.file, answers.several, answers.person, answers.rows, answers.item)


def _about_people(form: Form) -> dict[str, Any]:
    """The answers about people, which start empty and are not guessed."""
    several, rows = form.get("several", ""), form.get("rows", "")
    if several not in ("no", "yes", "unknown"):
        raise UsageError("say whether one person may have several rows; if you do not know, say so.")
    if several == "yes" and not form.get("person"):
        raise UsageError("say which column tells whose row it is.")
    if several == "yes" and rows not in ("items", "rows"):
        raise UsageError("say what the rows of one person are: things, or rows of a table.")
    if several == "yes" and rows == "items" and not form.get("item"):
        raise UsageError("say which column names the thing.")
    most = None
    if several == "yes" and rows == "rows":
        most = _whole(form.get("rows_per_person", ""), "the most rows of a person that are used")
    return {
        "several": several,
        "person": form.get("person", "") if several != "unknown" else "",
        "rows": rows if several == "yes" else "",
        "item": form.get("item", "") if several == "yes" and rows == "items" else "",
        "rows_per_person": most,
        "records": _whole(form.get("records", ""), "the number of people or rows"),
    }


async def save_fields(desk: Desk, project: Project, form: Form) -> str:
    """Save what is stated of the columns; a column of another kind is drafted anew."""
    refuse_while_fitting(desk, project)
    draft = pages.drafted_domain(desk, project)
    if draft is None:
        raise UsageError("look inside the data first.")
    kinds, now = {}, {one.name: one.kind for one in fields.forms(draft, {}, {})}
    for at, column in enumerate(draft.columns):
        wanted = form.get(f"kind-{at}", now[column.name])
        if wanted != now[column.name] and wanted in draft_words():
            kinds[column.name] = wanted
    if kinds:
        project = project.save(kinds={**project.answers.kinds, **kinds})
        project.path("domain.yaml").unlink(missing_ok=True)
        desk.runs.start(project, "look", Commands(desk.workspace, project).inspect())
        return f"projects/{project.id}/data"
    items = form.get("items", "found")
    domain, known = fields.stated(draft, form)
    fields.save(domain, project.path("domain.yaml"))
    desk.runs.forget(project, "forecast")
    if items == "file" and not form.get("public_items"):
        raise UsageError(
            "tick that the list of items in the file is public knowledge, or have them found privately."
        )
    project.save(known=known, items=items)
    return f"projects/{project.id}/budget"


async def save_budget(desk: Desk, project: Project, form: Form) -> str:
    """Save epsilon, the ledger, and the words of the certificate."""
    refuse_while_fitting(desk, project)
    epsilon = _positive(form.get("epsilon", ""), "epsilon")
    changes: dict[str, Any] = {"epsilon": epsilon}
    for name in ("title", "owner", "population", "date"):
        changes[name] = plain(form.get(name, ""))
    library.check_about({name: changes[name] for name in ("title", "owner", "population", "date")})
    chosen = form.get("ledger", "")
    if not project.answers.made_up:
        if chosen == "new":
            cap = _positive(form.get("cap", ""), "the largest epsilon of all releases together")
            if not plain(form.get("ledger_name", "")):
                raise UsageError("name the people whose ledger this is.")
            delta = default_delta(project.answers.records or 1)
            id, path = desk.workspace.new_ledger(form["ledger_name"])
            await desk.library.call(library.create_ledger, str(path), cap, delta)
            chosen = id
        if chosen not in desk.workspace.ledgers():
            raise UsageError("choose the ledger of these people, or begin one.")
        changes["ledger"] = chosen
    project.save(**changes)
    return f"projects/{project.id}/plan"


async def start_forecast(desk: Desk, project: Project, form: Form) -> str:
    """Fit made-up people at this epsilon; with a group that must be visible, find the epsilon. Free of charge."""
    refuse_while_fitting(desk, project)
    group = _whole(form.get("group", ""), "the size of the smallest group") if form.get("find") else None
    epsilon = _positive(form.get("epsilon", "") or "1", "epsilon")
    if not pages.is_ready(desk, project):
        raise UsageError("describe the fields first, and say how many people there are.")
    desk.runs.start(project, "forecast", Commands(desk.workspace, project).forecast(epsilon, group))
    return f"projects/{project.id}/budget?epsilon={epsilon:g}"


async def spend(desk: Desk, project: Project, form: Form) -> str:
    """Start the fit, if the amount was typed, and plan and ledger are those that the page showed."""
    answers = project.answers
    if answers.epsilon is None or not (answers.ledger or answers.made_up):
        raise UsageError("choose a budget first.")
    if desk.runs.state(project, "fit").state is not State.NONE:
        raise UsageError("this fit was started already, in another tab or by a second press; nothing runs twice.")
    others = [one.id for one in desk.workspace.projects() if desk.runs.state(one, "fit").is_alive]
    if others:
        raise UsageError("another fit is running; one at a time.")
    if form.get("amount", "").strip() != f"{answers.epsilon:g}":
        raise UsageError(f"type {answers.epsilon:g} to spend it; nothing was started.")
    planned = await pages.planned_fit(desk, project, answers.epsilon)
    if form.get("hash") != planned["hash"]:
        raise UsageError("the plan has changed since this page was shown; look at it again. Nothing was started.")
    if planned["ledger"] is not None:
        if form.get("head") != planned["ledger"]["head"]:
            raise UsageError(
                "the ledger has changed since this page was shown; look at it again. Nothing was started."
            )
        if planned["ledger"]["refusal"]:
            raise BudgetError(planned["ledger"]["refusal"])
    desk.workspace.checked(answers.file)
    # No await from here on: between this check and the start nobody else has a turn.
    if desk.runs.state(project, "fit").state is not State.NONE:
        raise UsageError("this fit was started already, in another tab or by a second press; nothing runs twice.")
    write_json(project.path("plan.json"), planned["plan"])
    words = Commands(desk.workspace, project).fit(resume=False)
    desk.runs.start(project, "fit", words, once=form.get("once", ""), leash=True)
    return f"projects/{project.id}/run"


async def resume(desk: Desk, project: Project, form: Form) -> str:
    """Go on with a fit that stopped; it costs nothing more."""
    state = desk.runs.state(project, "fit")
    if state.state not in (State.INTERRUPTED, State.FAILED):
        raise UsageError("there is nothing to resume.")
    desk.workspace.checked(project.answers.file)
    words = Commands(desk.workspace, project).fit(resume=project.path("checkpoint").is_dir())
    desk.runs.start(project, "fit", words, leash=True)
    return f"projects/{project.id}/run"


async def stop(desk: Desk, project: Project, form: Form) -> str:
    """Stop a run; a fit can be resumed."""
    kind = form.get("run", "fit")
    desk.runs.stop(project, kind if kind in ("fit", "look", "compare", "rehearse", "forecast") else "fit")
    shown = {"fit": "run", "look": "data", "forecast": "budget"}
    return f"projects/{project.id}/{shown.get(kind, 'plan')}"


async def again(desk: Desk, project: Project, form: Form) -> str:
    """A new project with the same answers, for another fit of the same people."""
    if not project.path("domain.yaml").is_file() and project.answers.items != "file":
        raise UsageError("describe the fields first.")
    other = desk.workspace.new_project(f"{project.answers.name}, again")
    kept = {name: value for name, value in vars(project.answers).items() if name not in ("name", "made")}
    other.save(**kept)
    for name in ("domain.yaml", "draft.yaml", "look.json", "look.out"):
        if project.path(name).is_file():
            other.path(name).write_bytes(project.path(name).read_bytes())
    return f"projects/{other.id}/budget"


async def start_rehearsal(desk: Desk, project: Project, form: Form) -> str:
    """The whole way on simulated people; free of charge."""
    epsilon = project.answers.epsilon
    if epsilon is None:
        raise UsageError("choose an epsilon first.")
    desk.runs.start(project, "rehearse", Commands(desk.workspace, project).rehearse(epsilon))
    return f"projects/{project.id}/plan"


async def start_comparison(desk: Desk, project: Project, form: Form) -> str:
    """Compare the release with the real data; what is seen then is remembered."""
    _released(project)
    if form.get("understood") != "yes":
        raise UsageError("tick that you know what looking means.")
    if not project.path("synthetic.csv").is_file():
        await _sample(desk, project, project.answers.records or 1000)
    if not project.answers.made_up:
        for other in desk.workspace.projects():  # whoever looked knows it in every project about these people
            if other.answers.ledger == project.answers.ledger:
                other.save(looked=True)
    desk.runs.start(project, "compare", Commands(desk.workspace, project).evaluate())
    return f"projects/{project.id}/compare"


async def draw_sample(desk: Desk, project: Project, form: Form) -> str:
    """Draw synthetic records to hand out."""
    _released(project)
    await _sample(desk, project, _whole(form.get("records", ""), "the number of synthetic records"))
    return f"projects/{project.id}/release"


async def _sample(desk: Desk, project: Project, records: int) -> None:
    await desk.library.call(
        library.sample_to, str(project.path("release")), records, str(project.path("synthetic.csv"))
    )


async def sign_release(desk: Desk, project: Project, form: Form) -> str:
    """Sign the release with the office's key, which is made when it is first needed."""
    _released(project)
    name = desk.workspace.home / "office"
    await desk.library.call(library.sign_with, str(project.path("release")), str(name))
    return f"projects/{project.id}/release"


async def upload(desk: Desk, project: Project, form: Form | None, file: Any) -> str:
    """Keep a file that was dropped on the page of data, under a name of ours."""
    refuse_while_fitting(desk, project)
    name = os.path.basename(str(getattr(file, "filename", "") or ""))
    if by_ending(name) is None:
        raise UsageError("no reader knows this ending; drop a .csv, .xlsx, .parquet or .json file, for example.")
    ending = re.search(r"(\.[a-z0-9]{1,8})?(\.gz)?$", name.lower())
    target = project.path(f"data{ending[0] if ending else ''}")
    temporary = desk.workspace.home / "tmp" / project.id
    try:
        with open(os.open(temporary, os.O_CREAT | os.O_WRONLY | os.O_TRUNC | os.O_NOFOLLOW, 0o600), "wb") as stream:
            while part := await file.read(2**20):
                stream.write(part)
        os.replace(temporary, target)
    except OSError as error:
        raise DiskError(f"the file could not be kept: {(error.strerror or 'a fault').lower()}.") from error
    project.save(file=str(target.relative_to(desk.workspace.root)))
    return f"projects/{project.id}/data"


def refuse_while_fitting(desk: Desk, project: Project) -> None:
    """Answers do not change under a fit; another one is another project."""
    if desk.runs.state(project, "fit").state is not State.NONE:
        raise UsageError(
            "this project has a fit; its answers stay as they are. Begin another one for other answers."
        )


def _released(project: Project) -> None:
    if not (project.path("release") / "certificate.json").is_file():
        raise UsageError("there is no release yet.")


def _whole(text: str, what: str) -> int:
    plain_text = text.replace(",", "").replace("_", "").strip()
    if not plain_text.isdecimal() or not int(plain_text[:12]) >= 1 or len(plain_text) > 12:
        raise UsageError(f"type {what}, a whole number such as 5000.")
    return int(plain_text)


def _positive(text: str, what: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not (math.isfinite(value) and value > 0):
        raise UsageError(f"type {what}, a number above 0 such as 1.")
    return value
