"""Sentences: every finding of a check has words, and only `sentences.py` has them."""

import ast
import re
from pathlib import Path

from dpgm.evaluation import findings, sentences

FOLDER = Path(findings.__file__).parent
CHECKS = ("row_checks.py", "record_checks.py", "verdict.py")


def kinds_of(tree):
    """The texts given as kinds to findings in a module: first arguments of `Finding`, `graded`, `beyond_chance`."""
    for call in ast.walk(tree):
        name = getattr(getattr(call, "func", None), "id", "")
        if name in ("Finding", "graded", "beyond_chance"):
            for node in ast.walk(call.args[0]):
                if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.isidentifier():
                    yield name, node.value


def test_every_kind_of_finding_has_words():
    found = [kind for file in CHECKS for kind in kinds_of(ast.parse((FOLDER / file).read_text()))]
    assert len(found) > 20
    source = (FOLDER / "sentences.py").read_text()
    for name, kind in found:
        assert (
            kind in sentences._SENTENCES or f'case "{kind}"' in source or re.search(rf'case .*"{kind}"', source)
        ), kind
        if name == "beyond_chance":
            assert f"too_few_{kind}" in sentences._SENTENCES


def test_no_check_writes_or_reads_sentences():
    for file in CHECKS[:2]:
        for node in ast.walk(ast.parse((FOLDER / file).read_text())):
            called = getattr(getattr(node, "func", None), "attr", "")
            assert called not in ("startswith", "endswith", "removeprefix"), file
            assert called != "join", file
