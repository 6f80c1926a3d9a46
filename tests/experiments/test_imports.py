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


def used(source):
    """(module, name) of what is taken from a module of the package by its name: `simulate.TRANSIT`."""
    tree = ast.parse(source)
    modules = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "dpgm":
            for alias in node.names:
                whole = f"{node.module}.{alias.name}"
                if is_there(whole, None):
                    modules[alias.asname or alias.name] = whole
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in modules:
            yield modules[node.value.id], node.attr


def is_there(module, name):
    try:
        found = import_module(module)
        return name is None or hasattr(found, name) or import_module(f"{module}.{name}") is not None
    except ModuleNotFoundError as missing:
        return not str(missing.name).startswith("dpgm")  # an optional dependency, such as triton, may be missing


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_what_a_script_imports_is_there(path):
    source = path.read_text()
    assert [pair for pair in (*imported(source), *used(source)) if not is_there(*pair)] == []


def test_a_name_that_is_gone_is_seen():
    gone = "from dpgm.privacy.accountant import cost, nothing_of_the_kind\nimport dpgm.nowhere"
    missing = [pair for pair in imported(gone) if not is_there(*pair)]
    assert missing == [("dpgm.privacy.accountant", "nothing_of_the_kind"), ("dpgm.nowhere", None)]
    assert [
        pair
        for pair in used("from dpgm.data import simulate\nsimulate._gone(simulate.TRANSIT)")
        if not is_there(*pair)
    ] == [("dpgm.data.simulate", "_gone")]
