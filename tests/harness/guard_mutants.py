"""Each line of the studio's guard removed in turn: the tests of the guard must notice every one.

    python tests/harness/guard_mutants.py          prints how many were noticed, and those that were not

A mutant lacks one statement, one operand of an `and` or `or`, one header or one directive of the policy. Each runs in a
forked process with the altered module in place of the guard.
"""

import ast
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

ROOT = Path(__file__).parents[2]
GUARD = ROOT / "src" / "dpgm" / "studio" / "guard.py"
TESTS = ROOT / "tests" / "studio" / "test_guard.py"
# Without these nothing that anybody can do changes: said here, and looked at by people.
HARMLESS = {
    'headers: "Cross-Origin-Opener-Policy": needs a window that we open',
}


def mutants(source: str) -> Iterator[tuple[str, str]]:
    """What is removed, and the source without it."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        for statement in (
            getattr(node, "body", []) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.If) else []
        ):
            is_text = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
            if not is_text and not isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef):
                yield _without(source, statement, "pass")
        if isinstance(node, ast.BoolOp):
            for operand in node.values:
                left = [ast.unparse(one) for one in node.values if one is not operand]
                word = " and " if isinstance(node.op, ast.And) else " or "
                yield _without(source, node, f"({word.join(left)})", ast.unparse(operand))
        if isinstance(node, ast.Compare) and len(node.comparators) == 1:
            yield _without(source, node, "True", f"{ast.unparse(node)} is True")
            yield _without(source, node, "False", f"{ast.unparse(node)} is False")
        if isinstance(node, ast.Dict) and len(node.keys) > 3:
            for at, key in enumerate(node.keys):
                pairs = zip(node.keys, node.values, strict=True)
                left = [f"{ast.unparse(k)}: {ast.unparse(v)}" for n, (k, v) in enumerate(pairs) if n != at]
                yield _without(source, node, "{" + ", ".join(left) + "}", ast.unparse(key))
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and "default-src" in node.value:
            for directive in node.value.split("; "):
                left = "; ".join(one for one in node.value.split("; ") if one != directive)
                yield _without(source, node, repr(left), directive)


def _without(source: str, node: ast.AST, replacement: str, name: str | None = None) -> tuple[str, str]:
    lines = source.splitlines(keepends=True)
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line.encode()))
    raw = source.encode()
    first = starts[node.lineno - 1] + node.col_offset
    last = starts[node.end_lineno - 1] + node.end_col_offset
    shown = name or ast.unparse(node).splitlines()[0]
    return f"line {node.lineno}: {shown}", (raw[:first] + replacement.encode() + raw[last:]).decode()


def noticed(source: str) -> bool:
    """Whether the tests of the guard fail with this source in its place."""
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) != 0
    code = 9
    try:
        with open(os.devnull, "w") as nowhere, redirect_stdout(nowhere), redirect_stderr(nowhere):
            import importlib.util

            with tempfile.NamedTemporaryFile("w", suffix=".py") as file:
                file.write(source)
                file.flush()
                spec = importlib.util.spec_from_file_location("dpgm.studio.guard", file.name)
                module = importlib.util.module_from_spec(spec)
                sys.modules["dpgm.studio.guard"] = module
                spec.loader.exec_module(module)
            import pytest

            code = pytest.main(
                ["-x", "-q", "-n", "0", "-p", "no:cacheprovider", "--assert=plain", "--no-header", str(TESTS)]
            )
    except BaseException:
        code = 9
    os._exit(int(code))


def main() -> int:
    """Run them all."""
    os.chdir(ROOT)
    sys.path[:0] = [str(ROOT / "tests" / "support")]
    import pytest  # noqa: F401  (warm, before the forks)
    import starlette.requests
    import starlette.responses  # noqa: F401

    import dpgm.privacy.ledger
    import dpgm.synthesis.plan  # noqa: F401

    source = GUARD.read_text()
    if noticed(source):
        print("the tests fail on the guard as it is")
        return 2
    found = list(dict(mutants(source)).items())
    survived = [name for name, changed in found if not noticed(changed)]
    print(f"{len(found) - len(survived)} of {len(found)} noticed")
    for name in survived:
        print("not noticed:", name)
    return 1 if survived else 0


if __name__ == "__main__":
    sys.exit(main())
