"""Nobody outside `data/kinds` asks which kind a column has: what differs between kinds is a method of the kind."""

import ast
import dataclasses
from collections.abc import Iterator
from pathlib import Path

import pytest

import dpgm
from dpgm.data import kinds
from dpgm.data.kinds.base import Column

SOURCE = Path(dpgm.__file__).parent
KINDS = Path(kinds.__file__).parent
OTHERS = {"polars", "pandas", "pa", "pyarrow"}  # packages that have classes of the same names


def _subclasses(kind: type) -> Iterator[type]:
    yield kind
    for one in kind.__subclasses__():
        yield from _subclasses(one)


CLASSES = {one.__name__ for one in _subclasses(Column) if one.__module__.startswith("dpgm.")}
KEYS = {kind.kind for kind in kinds.KINDS} - {"date"}  # raw columns are compared as a number, date or category
# What some kinds have and others lack. Frames have `columns`, too.
OWN = {one.name for kind in kinds.KINDS for one in dataclasses.fields(kind)} - {"name", "kind", "columns"}


class _Ladders(ast.NodeVisitor):
    """Collects the places where a program branches on the kind of a column."""

    def __init__(self) -> None:
        self.found: list[tuple[int, str]] = []
        self._aliases = set(CLASSES)  # other names for kinds
        self._tables: set[str] = set()  # names of dictionaries by kind

    def _names_kind(self, node: ast.AST | None) -> bool:
        """Whether an expression is a kind, or a tuple or union of kinds."""
        match node:
            case ast.Name(name):
                return name in self._aliases
            case ast.Attribute(ast.Name(package), _) if package in OTHERS:
                return False
            case ast.Attribute(_, name):
                return name in CLASSES or name == "KINDS"
            case ast.Tuple(parts) | ast.List(parts) | ast.Set(parts):
                return any(map(self._names_kind, parts))
            case ast.BinOp(left, ast.BitOr(), right):
                return self._names_kind(left) or self._names_kind(right)
            case ast.Call(ast.Name("tuple" | "frozenset" | "set"), [one]):
                return self._names_kind(one)
        return False

    def _is_key(self, node: ast.AST) -> bool:
        """Whether an expression is the name of a kind, or a collection with such names."""
        match node:
            case ast.Constant(value):
                return isinstance(value, str) and (value in KEYS or value in CLASSES)
            case ast.Tuple(parts) | ast.List(parts) | ast.Set(parts):
                return any(map(self._is_key, parts))
        return False

    def _asks_kind(self, node: ast.AST) -> bool:
        """Whether an expression is `field.kind` or the name of a class; not of a number format."""
        match node:
            case ast.Attribute(ast.Name("self" | "format"), "kind"):
                return False
            case ast.Attribute(ast.Attribute(_, "format" | "data"), "kind"):
                return False
            case ast.Attribute(_, "kind" | "__name__"):
                return True
        return False

    def _is_type(self, node: ast.AST) -> bool:
        match node:
            case ast.Call(ast.Name("type"), [_]) | ast.Attribute(_, "__class__"):
                return True
        return False

    def _is_table(self, node: ast.AST) -> bool:
        """Whether an expression is a dictionary by kind."""
        match node:
            case ast.Dict(keys):
                return any(self._is_key(key) for key in keys if key is not None)
            case ast.Name(name):
                return name in self._tables
        return False

    def _add(self, node: ast.AST) -> None:
        self.found.append((node.lineno, ast.unparse(node)))  # type: ignore[attr-defined]

    def visit_Import(self, node: ast.Import | ast.ImportFrom) -> None:
        self._aliases |= {one.asname for one in node.names if one.asname and one.name in CLASSES}

    visit_ImportFrom = visit_Import

    def visit_Assign(self, node: ast.Assign) -> None:
        if self._names_kind(node.value):
            self._aliases |= {target.id for target in node.targets if isinstance(target, ast.Name)}
        if self._is_table(node.value):
            self._tables |= {target.id for target in node.targets if isinstance(target, ast.Name)}
        self.generic_visit(node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if isinstance(node.target, ast.Name) and node.value is not None and self._is_table(node.value):
            self._tables.add(node.target.id)
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        match node:
            case ast.Call(ast.Name("isinstance" | "issubclass"), [_, kind]) if self._names_kind(kind):
                self._add(node)
            case ast.Call(ast.Name("hasattr" | "getattr"), [_, ast.Constant(name), *default]) if name in OWN | {
                "kind"
            }:
                if default or node.func.id == "hasattr":  # type: ignore[attr-defined]
                    self._add(node)
            case ast.Call(ast.Attribute(_, "register"), [kind]) if self._names_kind(kind):
                self._add(node)
            case ast.Call(ast.Attribute(table, "get"), [key, *_]) if self._is_table(table) and self._asks_kind(key):
                self._add(node)
        self.generic_visit(node)

    def visit_Compare(self, node: ast.Compare) -> None:
        sides = [node.left, *node.comparators]
        by_type = any(map(self._is_type, sides)) and any(map(self._names_kind, sides))
        by_key = any(map(self._asks_kind, sides)) and any(map(self._is_key, sides))
        pairs = [side for side in sides if isinstance(side, ast.Tuple)]
        by_pair = any(map(self._asks_kind, (part for side in pairs for part in side.elts)))
        if by_type or by_key or by_pair:
            self._add(node)
        self.generic_visit(node)

    def visit_Dict(self, node: ast.Dict) -> None:
        if any(map(self._names_kind, node.keys)):
            self._add(node)
        self.generic_visit(node)

    def visit_Subscript(self, node: ast.Subscript) -> None:
        if self._asks_kind(node.slice) and self._is_table(node.value):
            self._add(node)
        self.generic_visit(node)

    def visit_Match(self, node: ast.Match) -> None:
        for one in ast.walk(node):
            if (isinstance(one, ast.MatchClass) and self._names_kind(one.cls)) or (
                isinstance(one, ast.MatchValue) and self._asks_kind(node.subject) and self._is_key(one.value)
            ):
                self.found.append((node.lineno, f"match ... case {ast.unparse(one)}"))
        self.generic_visit(node)


def ladders(text: str) -> list[tuple[int, str]]:
    """Line and text of each place of a program that branches on the kind of a column."""
    visitor = _Ladders()
    visitor.visit(ast.parse(text))
    return visitor.found


def test_no_module_outside_the_kinds_branches_on_the_kind_of_a_column():
    found = [
        f"{path.relative_to(SOURCE)}:{line} {code}"
        for path in sorted(SOURCE.rglob("*.py"))
        if KINDS not in path.parents
        for line, code in ladders(path.read_text(encoding="utf-8"))
    ]
    assert found == []


@pytest.mark.parametrize(
    "code",
    [
        "isinstance(field, Categorical)",
        "isinstance(field, (ItemSet, domain.Image))",
        "isinstance(field, Numeric | Date)",
        "issubclass(kind, OpenNumber)",
        "from dpgm.data.domain import Date as Day\nisinstance(field, Day)",
        "found = (ShapedNumber, Categorical)\n[one for one in fields if isinstance(one, found)]",
        "isinstance(field, tuple([Boolean]))",
        "type(field) is Boolean",
        "type(field) in (Boolean, Image)",
        "field.__class__ == kinds.Date",
        "type(field).__name__ == 'Numeric'",
        "hasattr(field, 'bins')",
        "getattr(field, 'separator', None)",
        "hasattr(field, 'kind')",
        "field.kind == 'numeric'",
        "one.kind in ('categorical', 'boolean')",
        "(field.name, field.kind) == label",
        "{'numeric': 1}[field.kind]",
        "{'numeric': 1}.get(field.kind)",
        "WORDS: dict[str, str] = {'numeric': 'a number'}\nWORDS[field.kind]",
        "{Numeric: 1, Date: 2}",
        "read.register(Numeric)",
        "match field:\n    case Numeric(low, high):\n        pass",
        "match field:\n    case domain.ItemSet():\n        pass",
        "match field.kind:\n    case 'items' | 'image':\n        pass",
    ],
)
def test_a_planted_ladder_is_found(code):
    assert ladders(code)


@pytest.mark.parametrize(
    "code",
    [
        "isinstance(dtype, polars.Categorical)",
        "hasattr(frame, 'columns')",
        "Categorical('ward', ('a', 'b'))",
        "format.kind in ('date', 'datetime')",
        "field.is_category",
        "column.kind == 'category'",
        "SENTENCES[finding.kind]",
        "{'kind': field.kind}",
    ],
)
def test_other_code_is_left_alone(code):
    assert ladders(code) == []
