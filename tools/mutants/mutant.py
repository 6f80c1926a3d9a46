"""A planted bug: patches of named functions, and the tests that must notice.

    Mutant(
        3,
        "noise of floats 10 % low",
        (Patch("dpgm.mechanisms.gaussian:_add_on_cpu", "noise * sensitivity", "0.9 * noise * sensitivity"),),
        ("tests/networks/test_private_sgd.py::test_noise_is_on_every_model",),
    )

A patch replaces an expression, or consecutive statements, within one function. Both are compared as parsed code: line
breaks, indentation and comments do not matter, nor where in its module the function stands. A function that moved to
another module is found by its qualified name, as long as no other function has it.
"""

import ast
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Patch:
    """A change of one function.

    Attributes:
        function: module and qualified name, such as `dpgm.mechanisms.gateway:Gateway.release`.
        old: the expression or the statements as they stand in it, exactly once.
        new: what stands there instead; nothing removes statements.
    """

    function: str
    old: str
    new: str


@dataclass(frozen=True)
class Mutant:
    """One fault.

    Attributes:
        number: of the list of faults.
        fault: what goes wrong, in a few words.
        patches: of the functions that have the fault.
        killers: pytest arguments of the tests that must fail.
    """

    number: int
    fault: str
    patches: tuple[Patch, ...]
    killers: tuple[str, ...]


class NotFoundError(Exception):
    """A function, or the code to be changed in it, is gone or is there twice: the patch must be written anew."""


def edited(mutant: Mutant, files: dict[Path, str]) -> dict[Path, str]:
    """The files that a fault changes, with the fault; `files` are those of `src` as they stand.

    Raises:
        NotFoundError: a function, or what is changed in it, is not found exactly once, or nothing is changed.
    """
    changed: dict[Path, str] = {}
    for patch in mutant.patches:
        try:
            path, function = _function(patch.function, files | changed)
            changed[path] = _patched((files | changed)[path], function, patch)
        except NotFoundError as error:
            raise NotFoundError(f"mutant {mutant.number} ({mutant.fault}): {error}") from None
    return changed


def apply(mutant: Mutant, source: Path) -> dict[Path, str]:
    """Put a fault into a copy of `src`; returns the changed files as they were."""
    files = read_all(source)
    changed = edited(mutant, files)
    for path, text in changed.items():
        path.write_text(text, "utf-8")
    return {path: files[path] for path in changed}


def read_all(source: Path) -> dict[Path, str]:
    """Every module of a source tree."""
    return {path: path.read_text("utf-8") for path in sorted(source.rglob("*.py"))}


def _function(name: str, files: dict[Path, str]) -> tuple[Path, ast.AST]:
    """The file of a function, and its tree."""
    module, _, qualified = name.partition(":")
    word = f"def {qualified.rpartition('.')[2]}("
    found = [
        (path, node)
        for path, text in files.items()
        if word in text or word.replace("(", "[") in text
        for at, node in _functions(ast.parse(text))
        if at == qualified
    ]
    here = [(path, node) for path, node in found if ".".join(path.with_suffix("").parts).endswith(module)]
    chosen = here or found
    if len(chosen) != 1:
        places = ", ".join(str(path) for path, _ in chosen) or "nowhere"
        raise NotFoundError(f"the function {name} stands {places}")
    return chosen[0]


def _functions(tree: ast.AST, outer: str = "") -> Iterator[tuple[str, ast.AST]]:
    """Every function below a node with its qualified name, without the `<locals>` of Python."""
    for node in ast.iter_child_nodes(tree):
        inner = outer
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            inner = f"{outer}{node.name}."
            if not isinstance(node, ast.ClassDef):
                yield inner[:-1], node
        yield from _functions(node, inner)


def _patched(text: str, function: ast.AST, patch: Patch) -> str:
    """The text of a module with one patch."""
    old, new = (ast.parse(textwrap.dedent(code)).body for code in (patch.old, patch.new))
    if _same(old, new):
        raise NotFoundError(f"the patch of {patch.function} changes nothing: {patch.old.strip()!r}")
    if all(len(code) == 1 and isinstance(code[0], ast.Expr) for code in (old, new)):
        spans = [[node] for node in ast.walk(function) if isinstance(node, ast.expr) and _same(node, old[0].value)]
    else:
        spans = [
            body[start : start + len(old)]
            for body in _bodies(function)
            for start in range(len(body) - len(old) + 1)
            if _same(body[start : start + len(old)], old)
        ]
    if len(spans) != 1:
        raise NotFoundError(f"{patch.function} has {len(spans)} times, not once: {patch.old.strip()!r}")
    return _spliced(text, spans[0][0], spans[0][-1], patch)


def _bodies(function: ast.AST) -> Iterator[list[ast.stmt]]:
    """Every list of consecutive statements within a function."""
    for node in ast.walk(function):
        for _, value in ast.iter_fields(node):
            if isinstance(value, list) and value and isinstance(value[0], ast.stmt):
                yield value


def _same(one: object, other: object) -> bool:
    """Whether two pieces of code are equal but for their layout."""
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_same, one, other))
    return isinstance(one, ast.AST) and isinstance(other, ast.AST) and ast.dump(one) == ast.dump(other)


def _spliced(text: str, first: ast.AST, last: ast.AST, patch: Patch) -> str:
    """The text with something else from the first node to the last."""
    lines = text.encode().splitlines(keepends=True)  # Python counts columns in bytes
    start = sum(map(len, lines[: first.lineno - 1])) + first.col_offset
    end = sum(map(len, lines[: last.end_lineno - 1])) + last.end_col_offset
    before, after = text.encode()[:start], text.encode()[end:]
    if isinstance(first, ast.stmt):
        margin = " " * first.col_offset
        new = textwrap.dedent(patch.new).strip("\n ") or "pass"
        return before.decode() + textwrap.indent(new, margin).lstrip(" ") + after.decode()
    return f"{before.decode()}({patch.new}){after.decode()}"
