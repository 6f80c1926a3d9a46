"""The tables of results in README and docs are what the committed CSV files give."""

import importlib
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def report():
    sys.path.insert(0, str(ROOT / "experiments"))
    try:
        yield importlib.import_module("fidelity_report")
    finally:
        sys.path.remove(str(ROOT / "experiments"))


def test_every_table_in_the_documents_comes_from_the_csv_files(report):
    runs = report.all_runs()
    marked = [page for page in report.PAGES if "<!-- table:" in page.read_text()]
    assert ROOT / "README.md" in marked
    for page in marked:
        text = page.read_text()
        assert report.rewrite(text, runs) == text, f"{page.name}: run `python experiments/fidelity_report.py`"


def test_a_figure_that_is_changed_by_hand_is_noticed(report):
    text = (ROOT / "README.md").read_text()
    start = text.index("<!-- table: summary -->")
    digit = next(at for at in range(start, len(text)) if text[at].isdigit() and text[at + 1] == "%")
    changed = text[:digit] + str(9 - int(text[digit])) + text[digit + 1 :]
    assert report.rewrite(changed, report.all_runs()) == text != changed
