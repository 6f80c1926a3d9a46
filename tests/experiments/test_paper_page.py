"""docs/paper.md names only code and files that exist, and every erratum."""

import importlib
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "paper.md").read_text()


def named(name: str) -> object:
    """The module, class or function of a dotted name."""
    parts = name.split(".")
    for cut in range(len(parts), 0, -1):
        try:
            found: object = importlib.import_module(".".join(parts[:cut]))
        except ModuleNotFoundError:
            continue
        for part in parts[cut:]:
            found = getattr(found, part)
        return found
    raise ModuleNotFoundError(name)


@pytest.mark.parametrize("name", sorted(set(re.findall(r"`(dpgm\.[\w.]+)`", PAGE))))
def test_every_name_on_the_page_exists(name):
    assert named(name) is not None


@pytest.mark.parametrize("path", sorted(set(re.findall(r"`((?:experiments|tests|docs)/[\w/.]+)`", PAGE))))
def test_every_file_on_the_page_exists(path):
    assert (ROOT / path).is_file()


def test_every_link_of_the_page_leads_somewhere():
    for target in re.findall(r"\]\(([^)#]+)\)", PAGE):
        assert (ROOT / "docs" / target).resolve().is_file(), target


def test_every_erratum_is_on_the_page_once():
    assert re.findall(r"^\| (E\d+) \|", PAGE, re.MULTILINE) == [f"E{number}" for number in range(1, 18)]
