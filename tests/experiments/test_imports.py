"""Experiments, benchmarks and tools are run now and then: what they import from the package is still there."""

import ast
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SCRIPTS = [
    path for folder in ("experiments", "benchmarks", "tools") for path in sorted((ROOT / folder).rglob("*.py"))
]


def imported(source):
    """(module, name) of everything that is imported from the package, at the top or inside of functions."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "dpgm":
            yield from ((node.module, alias.name) for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from ((alias.name, None) for alias in node.names if alias.name.split(".")[0] == "dpgm")


def is_there(module, name):
    try:
        found = import_module(module)
        return name is None or hasattr(found, name) or import_module(f"{module}.{name}") is not None
    except ModuleNotFoundError as missing:
        return not str(missing.name).startswith("dpgm")  # an optional dependency, such as triton, may be missing


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_what_a_script_imports_is_there(path):
    assert [pair for pair in imported(path.read_text()) if not is_there(*pair)] == []


def test_a_name_that_is_gone_is_seen():
    gone = "from dpgm.privacy.accountant import cost, nothing_of_the_kind\nimport dpgm.nowhere"
    missing = [pair for pair in imported(gone) if not is_there(*pair)]
    assert missing == [("dpgm.privacy.accountant", "nothing_of_the_kind"), ("dpgm.nowhere", None)]
