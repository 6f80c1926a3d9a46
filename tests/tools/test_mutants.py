"""Planted bugs stay in step with the code: each text they change is found once, and what results is Python.

That each is killed takes minutes and is `make mutants`. If this test fails because code was moved or rewritten, write
the mutant anew in tools/mutants.
"""

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def tools():
    before = list(sys.path)
    sys.path.insert(0, str(ROOT / "tools" / "mutants"))
    import books
    import mutant
    import noise
    import sampling
    import sensitivity

    yield mutant, [*noise.MUTANTS, *sampling.MUTANTS, *sensitivity.MUTANTS, *books.MUTANTS]
    sys.path[:] = before


def test_every_planted_bug_fits_the_code(tools):
    mutant, planted = tools
    files = mutant.read_all(ROOT / "src")
    for each in planted:
        for path, text in mutant.edited(each, files).items():
            compile(text, str(path), "exec")
    numbers = [each.number for each in planted]
    assert len(numbers) == len(set(numbers)) >= 68


def test_a_text_that_is_gone_is_told(tools):
    mutant, _ = tools
    gone = mutant.Mutant(0, "none", (("this text is nowhere", ""),), ())
    with pytest.raises(mutant.NotFoundError, match="nowhere"):
        mutant.edited(gone, {ROOT: "other text"})


def test_a_bug_that_changes_nothing_is_told(tools):
    mutant, _ = tools
    idle = mutant.Mutant(0, "none", (("some text", "some text"),), ())
    with pytest.raises(mutant.NotFoundError, match="changes nothing"):
        mutant.edited(idle, {ROOT: "some text"})


def test_the_tests_that_must_kill_exist(tools):
    _, planted = tools
    for each in planted:
        for killer in each.killers:
            if killer.startswith("tests/"):
                path, _, name = killer.partition("::")
                assert (ROOT / path).exists(), killer
                assert not name or f"def {name}(" in (ROOT / path).read_text("utf-8"), killer
