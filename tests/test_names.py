"""One meaning per name: a public name of `src/` stands for one thing, and no private function has a twin elsewhere."""

import ast
from collections import defaultdict
from pathlib import Path

import dpgm

SRC = Path(dpgm.__file__).parent
# Names that are meant to return: commands are called like the function they run; `T` is any type.
SAME = {"audit", "cost", "evaluate", "sign", "verify", "T", "__all__"}


def modules(root=SRC):
    return [(str(path.relative_to(root)), ast.parse(path.read_text())) for path in sorted(root.rglob("*.py"))]


def defined(tree):
    """Top-level names of a module: functions, classes, constants and kinds of values."""
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            yield from (name.id for target in targets for name in ast.walk(target) if isinstance(name, ast.Name))


def repeated_names(found):
    where = defaultdict(set)
    for path, tree in found:
        for name in defined(tree):
            where[name].add(path)
    return {
        name: sorted(paths)
        for name, paths in where.items()
        if len(paths) > 1 and name not in SAME and not name.startswith("_")
    }


def twins(found):
    """Functions and classes with the same text, whatever they are called, in several modules."""
    where = defaultdict(set)
    for path, tree in found:
        for node in tree.body:
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                signature = ast.dump(node.args) if isinstance(node, ast.FunctionDef) else ""
                body = node.body[1:] if ast.get_docstring(node) else node.body
                where[signature, tuple(map(ast.dump, body))].add((path, node.name))
    return [sorted(places) for (_, body), places in where.items() if len({path for path, _ in places}) > 1 and body]


def test_a_public_name_is_defined_in_one_module():
    assert repeated_names(modules()) == {}


def test_no_function_has_a_twin():
    assert twins(modules()) == []


def test_names_and_twins_are_found(tmp_path):
    (tmp_path / "one.py").write_text("RULES = 1\n\ndef half(number):\n    'Half.'\n    return number / 2\n")
    (tmp_path / "two.py").write_text("RULES: int = 2\n\ndef _mean(number):\n    return number / 2\n")
    assert repeated_names(modules(tmp_path)) == {"RULES": ["one.py", "two.py"]}
    assert twins(modules(tmp_path)) == [[("one.py", "half"), ("two.py", "_mean")]]
