"""Tuned numbers belong into the `rules.py` of their family: none stands elsewhere.

Counted are real-valued constants (0.03, 1.25), but not the plain ones (0, 1, 2, 1/2 and the like) nor guards against division by zero.
"""

import ast
from pathlib import Path

import pytest

import dpgm

SRC = Path(dpgm.__file__).parent
PLAIN = {0.0, 0.5, 1.0, 2.0, 3.0, 4.0, 10.0}
SMALLEST = 1e-5  # and below: guards
FAMILIES = ("products", "images", "networks", "baselines", "clustering", "strategy")


def bare_numbers(path):
    constants = (node.value for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Constant))
    return [value for value in constants if isinstance(value, float) and value > SMALLEST and value not in PLAIN]


@pytest.mark.parametrize("family", FAMILIES)
def test_no_tuned_number_stands_outside_the_rules(family):
    files = [path for path in (SRC / family).glob("*.py") if path.name != "rules.py"]
    assert files
    assert {path.name: numbers for path in files if (numbers := bare_numbers(path))} == {}


def test_the_count_sees_what_it_is_to_see(tmp_path):
    (tmp_path / "x.py").write_text("share = 0.37 * width + 1 / 2 - 1e-12\n")
    assert bare_numbers(tmp_path / "x.py") == [0.37]
