"""Nobody outside `data/formats` asks which format a file has: what differs between formats is an attribute of the format."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import dpgm
from dpgm.data import formats
from dpgm.data.formats.base import Format

SOURCE = Path(dpgm.__file__).parent
HOME = Path(formats.__file__).parent
ENDINGS = {ending for one in formats.FORMATS for ending in (*one.endings, *one.other_endings)}
# Domain files, workloads of queries and figures may be JSON documents, which hold no rows.
WORDS = ({one.name for one in formats.FORMATS} | ENDINGS | {".gz", ".zip"}) - {".json"}


def _classes(kind: type) -> Iterator[str]:
    yield kind.__name__
    for one in kind.__subclasses__():
        yield from _classes(one)


CLASSES = {name for name in _classes(Format) if name != "CardBox"}


def _is_word(node: ast.AST) -> bool:
    """Whether an expression is the name or ending of a format, or a collection with one."""
    match node:
        case ast.Constant(value):
            return isinstance(value, str) and value.lower() in WORDS
        case ast.Tuple(parts) | ast.List(parts) | ast.Set(parts):
            return any(map(_is_word, parts))
    return False


def _is_class(node: ast.AST) -> bool:
    match node:
        case ast.Name(name) | ast.Attribute(_, name):
            return name in CLASSES
        case ast.Tuple(parts):
            return any(map(_is_class, parts))
    return False


def _asks(node: ast.AST) -> bool:
    """Whether a program branches here on the format of a file."""
    match node:
        case ast.Compare(left, _, others):
            return any(map(_is_word, (left, *others)))
        case ast.Call(ast.Attribute(_, "endswith" | "removesuffix"), [ending]):
            return _is_word(ending)
        case ast.Call(ast.Name("isinstance" | "issubclass"), [_, kind]):
            return _is_class(kind)
        case ast.Dict(keys):
            return any(_is_word(key) for key in keys if key is not None)
        case ast.MatchValue(value):
            return _is_word(value)
    return False


def ladders(text: str) -> list[tuple[int, str]]:
    """Line and text of each place of a program that branches on the format of a file."""
    found = (node for node in ast.walk(ast.parse(text)) if _asks(node))
    return [(getattr(node, "lineno", 0), ast.unparse(node)) for node in found]


def test_no_module_outside_the_formats_branches_on_the_format_of_a_file():
    found = [
        f"{path.relative_to(SOURCE)}:{line} {code}"
        for path in sorted(SOURCE.rglob("*.py"))
        if HOME not in path.parents
        for line, code in ladders(path.read_text(encoding="utf-8"))
    ]
    assert found == []


@pytest.mark.parametrize(
    "code",
    [
        "name == 'csv'",
        "name in ('jsonl', 'json')",
        "path.suffix == '.parquet'",
        "path.name.endswith(('.csv', '.tsv'))",
        "{'csv': 1}[name]",
        "isinstance(format, Delimited)",
        "match name:\n    case 'csv' | 'tsv':\n        pass",
    ],
)
def test_a_planted_ladder_is_found(code):
    assert ladders(code)


def test_reading_and_inspecting_do_not_import_each_other():
    for room, other in (("read", "inspect"), ("inspect", "read")):
        for path in (SOURCE / "data" / room).glob("*.py"):
            assert f"dpgm.data.{other}" not in path.read_text(encoding="utf-8"), path
