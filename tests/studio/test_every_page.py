"""Every page in every state: no fault for axe-core, no sideways scroll, screenshots at two widths, light and dark."""

import json
import os
from pathlib import Path

import pytest

import browsing
from dpgm.privacy.certificate import About
from release_data import some_release
from studio_server import Served, Visitor, baskets, need_axe

pytest.importorskip("starlette", reason="the extra `studio` is not installed; run `make install`")
pytestmark = pytest.mark.browser
ARTEFACTS = Path(__file__).parents[2] / "artefacts"
LOOKS = [(1280, "light"), (1280, "dark"), (360, "light"), (360, "dark")]
# Elements wider than the window, except within regions that scroll on purpose.
WIDE = """() => document.documentElement.scrollWidth > innerWidth + 1 ? [...document.body.querySelectorAll('*')]
  .filter(e => !e.closest('.scroll') && !e.closest('.skip') && e.getBoundingClientRect().right > innerWidth + 1)
  .map(e => e.tagName + '.' + e.className).slice(0, 5) : []"""
MARK = "Marker-7731"  # in rows alone


def project(desk, name, **answers):
    """A project as forms would leave it."""
    from dpgm.studio.workspace import Workspace

    return Workspace(desk.folder).new_project(name, **answers)


def run_file(made, kind, **values):
    (made.folder / f"{kind}.json").write_text(
        json.dumps({"command": f"dpgm {kind}", "pid": 1, "born": None, "once": ""} | values)
    )


DOMAIN = """fields:
- {name: Card No, kind: identifier}
- {name: age, kind: numeric, low: 0, high: discover, integer: true}
- {name: ward, kind: categorical, values: [heart, surgery]}
- {name: town, kind: categorical, discover: true}
- {name: seen, kind: date, low: discover, high: discover}
"""
ANSWERS = {"file": "travellers.csv", "several": "no", "records": 1200, "epsilon": 1.0}
FOUND = {
    "records": 1200, "domain": [{"name": name, "kind": "categorical", "width": 3} for name in ("age", "ward", "town", "seen")],
    "confirm": [f"ward: categories such as <b>{MARK}</b>", "age: whole numbers"], "left_out": [["Card No", "an identifier"]],
    "hints": [["age", "numbers with a decimal comma: read them with --decimal ,"]], "source": {"unit": "row", "layout": None},
}  # fmt: skip
TOLD = {"epsilon": 1.0, "delta": 4e-5, "records": 1200, "errors": {"count": 9.5, "pair": 12.0, "correlation": 0.02}}
VERDICT = {"verdict": {"headline": "The synthetic data is useful.", "findings": [
    {"sentence": "Counts are off by 2 %.", "off": False}, {"sentence": f"ward: {MARK} is missing.", "off": True}]}}  # fmt: skip


@pytest.fixture(scope="module")
def states(tmp_path_factory):
    """A studio with projects in all states, and the pages to look at by name."""
    browsing.chromium()
    folder = tmp_path_factory.mktemp("pages") / "office"
    folder.mkdir()
    baskets(folder / "travellers.csv", people=60)
    served = Served(folder)
    some_release(about=About("Visits <i>2025</i>", "Office")).save(folder / "got")
    (folder / "bent").mkdir()
    (folder / "bent" / "certificate.json").write_text("{}")
    empty = project(served, "Empty <script>alert(1)</script> \u202egnp.exe")
    begun = project(served, "Begun", **ANSWERS)
    (begun.folder / "look.out").write_text(json.dumps(FOUND))
    run_file(begun, "look", code=0)
    for name in ("draft.yaml", "domain.yaml"):
        (begun.folder / name).write_text(DOMAIN)
    from dpgm.privacy.ledger import Ledger
    from dpgm.studio.runs import _born
    from dpgm.studio.workspace import Workspace

    desk = Workspace(folder)
    id, path = desk.new_ledger("People of the town")
    ledger = Ledger.create(path, 3.0, 1e-4)
    release = some_release(delta=1e-5)
    ledger.abandon(ledger.start(ledger.reserve(release.certificate.mechanisms, 1e-5)))
    ledger.reserve(release.certificate.mechanisms, 1e-5)
    none, path = desk.new_ledger("Nobody yet")
    Ledger.create(path, 1.0, 1e-4)
    planned = begun.save(ledger=id)
    forecast = project(served, "Forecast", **ANSWERS | {"ledger": id})
    forecast.path("domain.yaml").write_text(DOMAIN)
    run_file(forecast, "forecast", code=0)
    forecast.path("forecast.out").write_text(json.dumps({"forecast": TOLD}))
    pages = {
        "budget-forecast": f"projects/{forecast.id}/budget",
        "home": "", "ledger": f"ledgers/{id}", "ledger-empty": f"ledgers/{none}", "failed": "ledgers/00000000",
        "data-empty": f"projects/{empty.id}/data", "fields-empty": f"projects/{empty.id}/fields",
        "budget-empty": f"projects/{empty.id}/budget", "plan-empty": f"projects/{empty.id}/plan",
        "run-empty": f"projects/{empty.id}/run", "compare-empty": f"projects/{empty.id}/compare",
        "release-empty": f"projects/{empty.id}/release",
        "data": f"projects/{planned.id}/data", "fields": f"projects/{planned.id}/fields",
        "budget": f"projects/{planned.id}/budget", "plan": f"projects/{planned.id}/plan",
    }  # fmt: skip
    for state, values in {
        "running": {"pid": os.getpid(), "born": _born(os.getpid())},
        "interrupted": {"code": 130},
        "failed": {"code": 2},
        "finished": {"code": 0},
    }.items():
        made = project(served, f"Fit {state}", **ANSWERS)
        run_file(made, "fit", **values)
        (made.folder / "fit.events").write_text(
            '{"stage": "measure", "done": 1, "total": 1}\n{"stage": "refine", "done": 3, "total": 9}\n'
        )
        (made.folder / "fit.log").write_text(
            "dpgm: error[E-INPUT]: line 3 has two cells and the header three; correct the file.\n"
        )
        pages[f"run-{state}"] = f"projects/{made.id}/run"
    done = project(served, "Done", **ANSWERS | {"made_up": True})
    some_release(about=About("Done")).save(done.folder / "release")
    (done.folder / "evaluation.json").write_text(json.dumps(VERDICT))
    (done.folder / "report.html").write_text("<p>report</p>")
    run_file(done, "compare", code=0)
    pages |= {"release": f"projects/{done.id}/release", "compare": f"projects/{done.id}/compare"}
    ready = project(served, "To compare", **ANSWERS)
    some_release().save(ready.folder / "release")
    pages["compare-ready"] = f"projects/{ready.id}/compare"
    visitor = Visitor(served)
    visitor.enter()
    visitor.page.goto(f"{served.base}/")
    links = {one.inner_text(): one.get_attribute("href") for one in visitor.page.locator("a[href*='/open/']").all()}
    pages["open"] = links["got"].split("/", 3)[-1]
    pages["open-bent"] = links["bent"].split("/", 3)[-1]
    yield served, visitor, pages
    visitor.close("status of 422")
    served.close()


def test_every_page_has_no_fault_for_axe(states):
    need_axe()
    served, visitor, pages = states
    faults = {}
    for width, scheme, rules in ((*LOOKS[0], None), (*LOOKS[3], ["color-contrast", "target-size"])):
        visitor.page.set_viewport_size({"width": width, "height": 900})
        visitor.page.emulate_media(color_scheme=scheme)
        for name, path in pages.items():
            visitor.page.goto(f"{served.base}/{path}")
            visitor.page.evaluate("document.querySelectorAll('details').forEach(one => one.open = true)")
            found = visitor.faults(rules)
            if found:
                faults[name, width, scheme] = found
    assert faults == {}


def test_a_fault_would_be_noticed(states):
    need_axe()
    _, visitor, _ = states
    visitor.page.goto("about:blank")
    visitor.page.set_content("<img src='data:,'><p style='color:#ccc;background:#fff'>faint</p>")
    assert {one.split(":")[0] for one in visitor.faults()} >= {"image-alt", "color-contrast"}


def test_every_page_fits_the_window(states):
    served, visitor, pages = states
    too_wide = {}
    visitor.page.set_viewport_size({"width": 320, "height": 900})  # as wide as 400 % zoom of 1280
    for name, path in pages.items():
        visitor.page.goto(f"{served.base}/{path}")
        found = visitor.page.evaluate(WIDE)
        if found:
            too_wide[name] = found
    assert too_wide == {}


@pytest.mark.slow
def test_every_page_is_drawn_to_be_looked_at(states):
    served, visitor, pages = states
    ARTEFACTS.mkdir(exist_ok=True)
    for name, path in pages.items():
        visitor.page.goto(f"{served.base}/{path}")
        for width, scheme in LOOKS:
            visitor.page.set_viewport_size({"width": width, "height": 900})
            visitor.page.emulate_media(color_scheme=scheme)
            drawn = visitor.page.screenshot(path=ARTEFACTS / f"studio-{name}-{width}-{scheme}.png", full_page=True)
            assert len(drawn) > 5_000


def test_every_page_works_with_forced_colours_and_has_its_landmarks(states):
    served, visitor, pages = states
    visitor.page.emulate_media(forced_colors="active")
    for path in pages.values():
        visitor.page.goto(f"{served.base}/{path}")
        counts = [visitor.page.locator(one).count() for one in ("main", "header", "footer", "h1", "title")]
        assert counts == [1, 1, 1, 1, 1]
        for svg in visitor.page.locator("svg").all():
            assert svg.get_attribute("aria-label")
    visitor.page.emulate_media(forced_colors="none")


def test_names_from_people_and_files_never_run(states):
    served, visitor, pages = states
    alarms = []
    visitor.page.on("dialog", lambda dialog: (alarms.append(dialog.message), dialog.dismiss()))
    for name in ("home", "data-empty", "data", "open", "compare"):
        visitor.page.goto(f"{served.base}/{pages[name]}")
        assert visitor.page.locator("main script, main i, main b:not(strong)").count() == 0
        assert "\u202e" not in visitor.page.content()
    assert alarms == []


def test_markers_of_rows_are_on_pages_of_the_curator_alone(states):
    served, visitor, pages = states
    shown = set()
    for name, path in pages.items():
        visitor.page.goto(f"{served.base}/{path}")
        twin = visitor.page.evaluate("a => fetch(a).then(r => r.text())", f"{served.base}/{path}.json")
        if MARK in visitor.page.content() + twin:
            shown.add(name)
            assert "CURATOR ONLY" in visitor.text()
    assert shown == {"data", "fields", "compare"}
    stored = visitor.context.storage_state()
    assert MARK not in json.dumps(stored)
    assert stored["origins"] == []  # nothing in the browser's storage but the cookie
    assert [one["httpOnly"] for one in stored["cookies"]] == [True]
