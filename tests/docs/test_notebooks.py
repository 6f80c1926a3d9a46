"""The notebooks of `examples/` run from top to bottom, with few people, and keep small outputs."""

import importlib.util
import json
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
NOTEBOOKS = sorted((ROOT / "examples").glob("*.ipynb"))


def runner():
    made = importlib.util.spec_from_file_location("run_notebooks", ROOT / "tools" / "run_notebooks.py")
    module = importlib.util.module_from_spec(made)
    made.loader.exec_module(module)
    return module


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("path", NOTEBOOKS, ids=[path.stem for path in NOTEBOOKS])
def test_a_notebook_runs_from_top_to_bottom(path):
    few = {"people = 10_000": "people = 1200", "people = 20_000": "people = 1200", "(epsilon=1": "(epsilon=9"}
    notebook, names = runner().run_notebook(path, few)
    assert names["people"] == 1200  # the number is written as this test expects it
    assert names["made"].certificate_.private
    drawn = [output for cell in notebook["cells"] for output in cell.get("outputs", [])]
    assert sum("image/png" in output.get("data", {}) for output in drawn) == 1
    told = "".join(text for output in drawn for text in output.get("text", []))
    assert "curator only" in told


def test_there_are_two_and_they_are_small():
    assert [path.stem for path in NOTEBOOKS] == ["item_sets", "table"]
    for path in NOTEBOOKS:
        assert path.stat().st_size < 100_000
        cells = json.loads(path.read_text("utf-8"))["cells"]
        assert cells[0]["cell_type"] == "markdown"
        assert all(cell["outputs"] for cell in cells if cell["cell_type"] == "code")  # a reader sees what comes out
