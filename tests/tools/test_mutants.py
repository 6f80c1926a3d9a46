"""Planted bugs stay in step with the code: each patch finds its function, and what results is Python.

That each is killed takes minutes and is a run of tools/mutants. If this test fails because code was rewritten, write
the patch anew in tools/mutants; code that only moved is found.
"""

import ast
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PATH = Path("src/dpgm/room.py")
CODE = '''
class Room:
    def area(self, scale):
        """Square metres."""
        for wall in self.walls:
            wall.check()
            wall.count()
        return scale * sum(wall.ä + wall.length for wall in self.walls)  # "ä": columns count bytes

def area(room):
    return room.area(1)
'''


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


@pytest.fixture(scope="module")
def patched(tools):
    """The code above with one patch."""
    mutant, _ = tools

    def patch(function, old, new, files=None):
        fault = mutant.Mutant(0, "none", (mutant.Patch(function, old, new),), ())
        return mutant.edited(fault, files or {PATH: CODE})

    return patch


def test_every_planted_bug_finds_its_place(tools):
    mutant, planted = tools
    files = mutant.read_all(ROOT / "src")
    for each in planted:
        for path, text in mutant.edited(each, files).items():
            compile(text, str(path), "exec")
    numbers = [each.number for each in planted]
    assert len(numbers) == len(set(numbers)) >= 68


def test_an_expression_is_replaced_within_its_function_alone(patched):
    old = "scale * sum(wall.ä + wall.length for wall in self.walls)"
    text = patched("dpgm.room:Room.area", old, "0")[PATH]
    assert text == CODE.replace(old, "(0)")


def test_statements_are_replaced_whatever_their_layout(patched):
    text = patched(
        "dpgm.room:Room.area",
        "wall.check( ); wall.count(\n)",
        "\n            if wall:\n                wall.check()\n",
    )[PATH]
    assert text == CODE.replace(
        "            wall.check()\n            wall.count()\n",
        "            if wall:\n                wall.check()\n",
    )
    ast.parse(text)


def test_statements_are_removed(patched):
    assert (
        "            pass\n            wall.count()\n" in patched("dpgm.room:Room.area", "wall.check()", "")[PATH]
    )


def test_a_function_that_moved_is_found(patched):
    elsewhere = Path("src/dpgm/house.py")
    assert list(patched("dpgm.room:Room.area", "wall.check()", "", {elsewhere: CODE})) == [elsewhere]


@pytest.mark.parametrize(
    ("function", "old", "new", "reason"),
    [
        ("dpgm.room:Room.volume", "0", "1", "nowhere"),
        ("dpgm.room:Room.area", "wall.paint()", "", "0 times"),
        ("dpgm.room:Room.area", "self.walls", "()", "2 times"),
        ("dpgm.room:area", "room.area(1)", "room.area( 1 )", "changes nothing"),
    ],
)
def test_a_patch_without_its_one_place_is_told(tools, patched, function, old, new, reason):
    with pytest.raises(tools[0].NotFoundError, match=reason):
        patched(function, old, new)


def test_of_two_functions_of_one_name_the_module_decides(tools, patched):
    files = {Path("src/dpgm/house.py"): CODE, PATH: CODE}
    assert list(patched("dpgm.room:area", "room.area(1)", "0", files)) == [PATH]
    with pytest.raises(tools[0].NotFoundError, match="house"):
        patched("dpgm.street:area", "room.area(1)", "0", files)


def test_the_tests_that_must_kill_exist(tools):
    _, planted = tools
    for each in planted:
        for killer in each.killers:
            if killer.startswith("tests/"):
                path, _, name = killer.partition("::")
                assert (ROOT / path).exists(), killer
                assert not name or f"def {name}(" in (ROOT / path).read_text("utf-8"), killer
