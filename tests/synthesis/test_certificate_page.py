"""The certificate to sign: two A4 pages, no script, rendered from the certificate alone, and checked byte for byte."""

import re
from dataclasses import replace

import pytest

import dpgm
from browsing import pages_of
from dpgm.data.domain import Categorical, Domain, Numeric
from dpgm.privacy.certificate import About, Certificate, LedgerMark
from dpgm.privacy.odds import odds
from dpgm.strategy.settings import Config
from dpgm.synthesis.certificate_page import certificate_page
from dpgm.synthesis.explanation import explain_certificate, explain_plan
from dpgm.synthesis.plan import make_plan
from dpgm.synthesis.readme import LOOKED, PER_ROW, PUBLIC_OPEN, SEEDED
from release_data import edit, some_release

LEDGER = LedgerMark("0123456789abcdef" * 2, 3, "fedcba98" * 8, 3.0, 1e-6, 2, 0.66, 1.44)
LONG = About("Title " * 26, "Owner " * 26, "People " * 22, "2026-01-31")
WORDS = re.compile(r"<[^>]*>|<style>.*?</style>", re.DOTALL)


@pytest.fixture
def folder(tmp_path):
    some_release(about=About("Visits", "The office", "Visitors of 2025", "2026-01-31"), ledger=LEDGER).save(
        tmp_path / "release"
    )
    return tmp_path / "release"


NOT_TRIED = ["the generator opens", "measurements.parquet holds what the mechanisms released"]


def failed(folder):
    return [check.name for check in dpgm.verify(folder).failed]


def text_of(page):
    return " ".join(WORDS.sub(" ", re.sub(r"<style>.*?</style>", "", page, flags=re.DOTALL)).split())


def test_a_release_has_its_certificate_as_a_page_and_verifies(folder):
    assert failed(folder) == []
    page = (folder / "certificate.html").read_text()
    certificate = dpgm.load(folder).certificate
    assert page == certificate_page(certificate)
    assert len(page.encode()) < 60_000
    assert "<script" not in page
    assert not re.search(
        r"(?:src|href|url|http)\s*[=(:]", page.replace("http-equiv=", "").replace('href="data:,"', "")
    )
    for words in ("Visits", "The office", "Visitors of 2025", "2026-01-31", "66.0 %", LEDGER.head, "20,000"):
        assert words in page


@pytest.mark.parametrize(
    ("before", "after"),
    [("at most 8 of 100", "at most 7 of 100"), ("epsilon = ", "epsilon  = "), ("</html>\n", "</html>")],
)
def test_one_changed_word_is_found(folder, before, after):
    page = (folder / "certificate.html").read_text()
    assert before in page
    (folder / "certificate.html").write_text(page.replace(before, after))
    assert failed(folder) == ["certificate.html says what the certificate says", "epsilon", *NOT_TRIED]


def test_a_release_without_the_page_is_refused(folder):
    (folder / "certificate.html").unlink()
    assert failed(folder)[0] == "certificate.html says what the certificate says"


@pytest.mark.parametrize("change", [{"accused": 6.0}, {"guesses": 51.0}, {"guesses": 80.0}])
def test_other_odds_than_those_of_the_mechanisms_are_refused(folder, change):
    edit(folder, lambda document: document["odds"].update(change))
    certificate = Certificate.from_json((folder / "certificate.json").read_text())
    (folder / "certificate.html").write_text(certificate_page(certificate))
    assert failed(folder) == ["odds", *NOT_TRIED]


def test_what_a_curator_says_is_shown_and_never_run(tmp_path):
    hostile = About('<script>alert(1)</script><img src=x onerror="x()">', "'\"&<b>", "</style><style>*{}")
    some_release(about=hostile).save(tmp_path / "r")
    page = (tmp_path / "r" / "certificate.html").read_text()
    assert failed(tmp_path / "r") == []
    assert "<script" not in page
    assert "<img" not in page
    assert page.count("<style>") == 1


def test_the_numbers_on_the_page_are_those_of_the_certificate(folder):
    certificate = dpgm.load(folder).certificate
    text, explained = text_of((folder / "certificate.html").read_text()), explain_certificate(certificate)
    recomputed = odds(certificate.mechanisms, certificate.delta, cache=False)
    assert explained.plan == certificate.odds == recomputed
    for figure in (recomputed.accused, recomputed.guesses, explained.promise.accused, explained.promise.guesses):
        assert f"({figure:.1f})" in text
    for mechanism in certificate.mechanisms:
        assert f"{mechanism.noise:.5g}" in text
    assert f"epsilon = {certificate.epsilon:.4g}" in re.sub(" +", " ", text)


def test_a_plan_and_its_release_have_the_same_odds():
    release = some_release()
    plan = make_plan(Config(1.0, release.certificate.delta), release.certificate.records, release.domain)
    assert explain_plan(plan).plan == explain_certificate(release.certificate).plan
    assert explain_plan(plan).promise == explain_certificate(release.certificate).promise


@pytest.mark.parametrize(
    "phrase", ["anonymous", "except with probability", "guaranteed safe", "apart from an event"]
)
def test_no_phrase_promises_more_than_the_certificate(folder, phrase):
    for name in ("certificate.html", "README.md"):
        assert phrase not in (folder / name).read_text()


def table_release():
    fields = (
        *(Numeric(f"a number with a long name {at}", 0, 100, 10) for at in range(12)),
        Categorical("l", (0, 1)),
    )
    return some_release(Domain(fields, label="l"))


CASES = {
    "items": lambda: some_release(ledger=LEDGER),
    "table": table_release,
    "not private": lambda: some_release(private=False, warnings=(SEEDED,)),
    "all that can be said": lambda: some_release(
        about=LONG, ledger=LEDGER, private=False, warnings=(SEEDED,), statements=(PUBLIC_OPEN, PER_ROW, LOOKED) * 3
    ),
}


@pytest.mark.browser
@pytest.mark.parametrize("name", CASES)
def test_the_page_prints_on_two_sheets_and_fits_a_phone(name, browser, tmp_path):
    release = CASES[name]()
    release.save(tmp_path / "r")
    page = browser.new_page(viewport={"width": 320, "height": 700})
    page.goto((tmp_path / "r" / "certificate.html").as_uri())
    assert pages_of(page.pdf(prefer_css_page_size=True)) == 2
    assert page.evaluate("document.documentElement.scrollWidth") <= 320
    page.close()


def test_a_page_of_three_sheets_would_be_noticed(browser):
    page = browser.new_page()
    page.set_content("<p style='height: 2600px'>long")
    assert pages_of(page.pdf(format="A4")) == 3
    page.close()


def test_a_mechanism_that_no_fit_runs_is_named_on_the_page():
    certificate = some_release().certificate
    other = replace(certificate.mechanisms[0], name="smuggled")
    page = certificate_page(replace(certificate, mechanisms=(other,)))
    assert "smuggled" in page
