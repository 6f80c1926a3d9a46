"""Whole ways through the studio in a real browser: keyboard, mouse, without JavaScript, killed half-way, by a recipient."""

import json
import os
import re
import shutil
import signal
import time
import zipfile

import pytest

import browsing
import dpgm
from dpgm.privacy.certificate import read_certificate
from dpgm.privacy.ledger import Ledger
from dpgm.synthesis.readme import LOOKED
from studio_server import Served, Visitor, baskets

pytest.importorskip("starlette", reason="the extra `studio` is not installed; run `make install`")
pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    browsing.chromium()  # skipped here, before a server is started
    folder = tmp_path_factory.mktemp("studio") / "office"
    folder.mkdir()
    baskets(folder / "travellers.csv")
    made = Served(folder)
    yield made
    made.close()


@pytest.fixture(scope="module")
def visitor(served):
    made = Visitor(served)
    made.enter()
    yield made
    made.close("status of 422")


def ledger_of(served):
    return next((served.folder / "dpgm-studio" / "ledgers").glob("*.ledger"))


def entries(served):
    return [(entry.state, entry.name) for entry in Ledger.open(ledger_of(served)).entries()]


# -- J2, J5, J6, J7: a file with a person column, to a signed release; then two more -----------------------------------


@pytest.fixture(scope="module")
def released(served, visitor):
    """The project of J2, walked with the mouse from the file to the signed release."""
    page = visitor.page
    page.goto(f"{served.base}/")
    page.get_by_label("Name").fill("Travellers <2025>")
    visitor.press("Begin")
    visitor.at("data")
    page.select_option("#file", label="travellers.csv")
    assert not list(served.projects()[-1].glob("look*"))  # nothing was opened yet
    visitor.press("Look inside")
    visitor.sees("3. Whom to protect")
    for field in ("#records", "#rows_per_person"):
        assert page.input_value(field) == ""
    page.get_by_label("Yes. A column says").check()
    page.select_option("#person", "Card No")
    page.select_option("#rows", "items")
    page.select_option("#item", "Stop name")
    page.fill("#records", "1200")
    visitor.press("Save")
    visitor.sees("1,200 people")
    page.get_by_role("link", name="Next: fields").click()
    visitor.at("fields")
    page.select_option("#use-0", "stated")
    assert page.input_value("#values-0") == ""
    page.fill("#values-0", "\n".join(f"Stop {letter}" for letter in "ABCDEFGHI"))
    visitor.press("Save")  # refused: it is not said how they are known
    page.get_by_role("alert").filter(has_text="say how you know").wait_for()
    assert page.input_value("#values-0").startswith("Stop A")  # and what was typed is still there
    page.select_option("#known-0", "code book")
    visitor.press("Save")
    visitor.at("budget")
    page.fill("#ledger_name", "Travellers of 2025")
    page.fill("#cap", "1.7")
    page.fill("#title", "Travellers 2025")
    page.fill("#owner", "Transport office")
    visitor.press("Forecast at this epsilon")  # free of charge
    visitor.sees("people of the truth, 95 of 100 times")
    assert page.input_value("#owner") == "Transport office"  # and what was typed is still there
    assert not list(served.projects()[-1].glob("fit*"))
    visitor.press("Save and go on to the plan")
    visitor.at("plan")
    page.fill("#amount", "2")
    visitor.press("Fit")  # refused: not the amount
    page.get_by_role("alert").filter(has_text="type 1 to spend it").wait_for()
    assert entries(served) == []
    page.fill("#amount", "1")
    visitor.press("Fit")
    visitor.at("run")
    page.get_by_role("link", name="Next: release").click()
    visitor.at("release")
    page.fill("#records", "1200")
    visitor.press("Draw")
    visitor.sees("Synthetic records")
    visitor.press("Sign it")
    visitor.sees("Signed with the key")
    return served.projects()[-1]


def test_j2_a_file_with_a_person_column_becomes_a_signed_release(served, visitor, released, tmp_path):
    verified = dpgm.verify(released / "release", signed_by=served.folder / "dpgm-studio" / "office.pub")
    assert verified.ok
    assert (verified.certificate.unit, verified.certificate.records) == ("person", 1200)
    assert verified.certificate.about.title == "Travellers 2025"
    assert verified.certificate.ledger.fits == 1
    assert LOOKED not in verified.certificate.statements
    assert [state for state, _ in entries(served)] == ["committed"]
    visitor.page.goto(f"{served.base}/projects/{released.name}/release")
    with visitor.page.expect_download() as download:
        visitor.page.get_by_role("link", name="The release folder").click()
    with zipfile.ZipFile(download.value.path()) as packed:
        packed.extractall(tmp_path)
    assert dpgm.verify(tmp_path / "release").ok
    lines = (released / "synthetic.csv").read_text().splitlines()
    assert len({line.split(",")[0] for line in lines[1:]}) > 1000


def test_j5_a_recipient_checks_samples_and_sees_a_flipped_bit(served, visitor, released):
    shutil.copytree(released / "release", served.folder / "got")
    shutil.copytree(released / "release", served.folder / "bent")
    model = served.folder / "bent" / "model.safetensors"
    content = bytearray(model.read_bytes())
    content[-3] ^= 4
    model.write_bytes(content)
    visitor.page.goto(f"{served.base}/")
    visitor.page.get_by_role("link", name="got", exact=True).click()
    visitor.sees("Certified")
    assert "Transport office" in visitor.text()
    assert visitor.page.locator("tbody tr").count() > 20
    visitor.page.go_back()
    visitor.page.get_by_role("link", name="bent", exact=True).click()
    visitor.sees("nothing in it was opened")
    assert "✗ sha256 of model.safetensors" in visitor.text()
    shutil.rmtree(served.folder / "got")
    shutil.rmtree(served.folder / "bent")


@pytest.fixture(scope="module")
def compared(served, visitor, released):
    visitor.page.goto(f"{served.base}/projects/{released.name}/compare")
    visitor.page.get_by_label("I know that looking is remembered").check()
    visitor.press("Compare with the real data")
    visitor.page.get_by_role("link", name="The whole comparison").wait_for()
    return released


def again(served, visitor, epsilon):
    """Another fit of the same people, up to the page where the amount is typed."""
    visitor.press("Another fit of these people")
    visitor.at("budget")
    visitor.page.fill("#epsilon", epsilon)
    visitor.press("Save and go on to the plan")
    visitor.at("plan")
    visitor.page.fill("#amount", epsilon)


def test_j6_after_looking_the_next_certificate_says_so(served, visitor, compared):
    page = visitor.page
    assert "CURATOR ONLY" in visitor.text()
    page.get_by_role("link", name="The whole comparison").click()
    page.wait_for_url(re.compile("/report$"))
    assert "Curator only" in page.content()
    page.go_back()
    again(served, visitor, "0.5")
    assert "chosen after looking" in visitor.text()
    visitor.press("Fit")
    visitor.at("run")
    page.get_by_role("link", name="Next: release").wait_for()
    certificate = read_certificate(served.projects()[-1] / "release")
    assert LOOKED in certificate.statements
    assert certificate.ledger.fits == 2


def test_j7_without_budget_nothing_is_read(served, visitor, compared):
    before = entries(served)
    visitor.page.goto(f"{served.base}/projects/{compared.name}/compare")
    again(served, visitor, "1.5")
    assert "is spent or reserved" in visitor.text()
    visitor.press("Fit")
    visitor.page.get_by_role("alert").filter(has_text="Lower its epsilon").first.wait_for()
    assert entries(served) == before
    assert not list(served.projects()[-1].glob("fit*"))


def test_the_odds_are_the_same_everywhere(served, visitor, released):
    """To the digit: budget, plan, release, certificate and `dpgm explain --json`; and none states less risk."""
    from dpgm.cli.app import load_commands, run

    visitor.page.goto(f"{served.base}/projects/{released.name}/budget")
    shown = {step: visitor.page.evaluate("a => fetch(a).then(r => r.json())", f"{served.base}/projects/{released.name}/{step}.json")
             for step in ("budget", "plan", "release")}  # fmt: skip
    certificate = read_certificate(released / "release")
    stated = {"accused": certificate.odds.accused, "guesses": certificate.odds.guesses}
    assert shown["budget"]["body"]["planned"]["odds"]["plan"] == stated
    assert shown["plan"]["body"]["planned"]["odds"]["plan"] == stated
    assert shown["release"]["body"]["odds"]["plan"] == stated
    text = visitor.text()
    for figure in stated.values():
        assert f"{figure:.1f}" in text
    load_commands()
    import contextlib
    import io

    for what in (released / "plan.json", released / "release"):
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            assert run(["explain", str(what), "--json"]) == 0
        told = json.loads(printed.getvalue())
        assert told["plan"] == stated
        assert told["promise"] == shown["release"]["body"]["odds"]["promise"]


# -- J1: made-up data, with the keyboard alone -------------------------------------------------------------------------


def tab_to(page, role, name):
    """Press Tab until something with this name has the focus, as somebody without a mouse does."""
    for _ in range(60):
        page.keyboard.press("Tab")
        found = page.evaluate(
            "() => { const e = document.activeElement;"
            " return [e.tagName, e.getAttribute('aria-label') || e.labels?.[0]?.innerText || e.innerText || '', "
            " getComputedStyle(e).outlineStyle]; }"
        )
        if found[0].lower() == role and name in found[1]:
            assert found[2] != "none", f"{name}: the focus is not visible"
            return
    raise AssertionError(f"no {role} {name!r} can be reached with the keyboard")


def test_j1_made_up_data_with_the_keyboard_alone(served, visitor):
    page = visitor.page
    page.goto(f"{served.base}/")
    tab_to(page, "button", "Try it")
    page.keyboard.press("Enter")
    visitor.at("budget")
    tab_to(page, "button", "Save and go on")
    page.keyboard.press("Enter")
    visitor.at("plan")
    tab_to(page, "input", "Type 1 to go on")
    page.keyboard.type("1")
    page.keyboard.press("Enter")
    visitor.at("run")
    page.get_by_role("link", name="Next: release").wait_for()
    tab_to(page, "a", "Next: release")
    page.keyboard.press("Enter")
    visitor.at("release")
    tab_to(page, "a", "The certificate")
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile("/certificate$"))
    assert "Certificate of differential privacy" in page.inner_text("body").replace(
        "CERTIFICATE", "Certificate"
    ).replace("OF DIFFERENTIAL PRIVACY", "of differential privacy")
    assert dpgm.verify(served.projects()[-1] / "release").ok


# -- J3 and J4: without JavaScript, killed half-way ---------------------------------------------------------------------


def _text(path):
    return path.read_text() if path.is_file() else ""


def test_j3_j4_without_javascript_and_killed_half_way(served, visitor):
    """Budget, plan and fit by plain forms; worker and server are killed, both start again, and nothing is lost."""
    plain = Visitor(served, java_script_enabled=False)
    served.link = served.new_link()
    plain.enter()
    page = plain.page
    plain.press("Try it")
    plain.at("budget")
    page.fill("#epsilon", "2")
    plain.press("Show")
    page.wait_for_url(re.compile(r"epsilon=2"))
    assert "The odds at epsilon 2" in plain.text()
    plain.press("Save and go on to the plan")
    page.fill("#amount", "2")
    plain.press("Fit")
    plain.at("run")
    assert "Running" in plain.text()
    project = served.projects()[-1]
    deadline = time.monotonic() + 100
    measured = '"measure", "done": 1'
    while measured not in _text(project / "fit.events") and time.monotonic() < deadline:
        time.sleep(
            0.02
        )  # a file of another process: until all answers are kept (see the slow test for other times)
    plain.context.close()  # the tab is closed
    os.kill(served.run_of(project)["pid"], signal.SIGKILL)
    served.kill()
    served.start()
    visitor.enter()
    plain = Visitor(served, java_script_enabled=False)
    served.link = served.new_link()
    plain.enter()
    page = plain.page
    page.goto(f"{served.base}/projects/{project.name}/run")
    if "Finished" not in plain.text():
        assert "Interrupted. Nothing is lost." in plain.text()
        plain.press("Resume")
        while "Running" in plain.text():
            time.sleep(0.5)  # as the page would reload itself
            page.reload()
        assert "Finished" in plain.text()
    assert dpgm.verify(project / "release").ok
    assert read_certificate(project / "release").epsilon <= 2.0
    plain.close()
