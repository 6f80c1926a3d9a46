"""Tuned numbers belong into the `rules.py` of their family: none stands elsewhere.

Counted are real-valued constants (0.03, 1.25), but not the plain ones (0, 1, 2, 1/2 and the like) nor guards against division by zero; and whole
numbers above ten (iterations, widths), but not powers of two (sizes of chunks, of caches, of words), nor those of `WHOLE`, each with its reason.
"""

import ast
from pathlib import Path

import pytest

import dpgm

SRC = Path(dpgm.__file__).parent
PLAIN = {0.0, 0.5, 1.0, 2.0, 3.0, 4.0, 10.0}
SMALLEST = 1e-5  # and below: guards
FAMILIES = ("products", "images", "networks", "baselines", "clustering", "strategy", "statistics")
WHOLE = {
    "products/model.py": {100_000: "largest number of components that a release may claim"},
    "images/fitting.py": {49: "progress is told every 50 steps", 50: "the same"},
    "networks/refinement.py": {49: "progress is told every 50 steps", 50: "the same"},
    "networks/fitting.py": {40: "blocks in which training is saved; the result does not depend on it"},
    "networks/private_sgd.py": {24: "bins of the norm histogram, as in the paper's Algorithm 3"},
    "baselines/mwem.py": {100_000: "largest number that a release may claim", 2654435761: "hash", 40503: "hash"},
    "strategy/settings.py": {10_000: "most clusters that may be asked for"},
    "strategy/protocol.py": {1000: "progress is told in thousandths"},
    "statistics/centred_pairs.py": {33: "nodes of a quadrature"},
    "statistics/item_tuples.py": {24: "items up to which records are counted set by set: speed, not the result"},
    "statistics/scaled_items.py": {33: "nodes of a quadrature"},
}  # fmt: skip


def bare_numbers(path):
    constants = (node.value for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Constant))
    return [value for value in constants if isinstance(value, float) and value > SMALLEST and value not in PLAIN]


def bare_whole_numbers(path, allowed=()):
    """Without exponents and shifts, and without estimates of memory, which steer nothing that is fitted."""
    tree = ast.parse(path.read_text())
    passed_over = set()
    for node in ast.walk(tree):
        power = isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow | ast.LShift | ast.RShift)
        memory = isinstance(node, ast.FunctionDef) and node.name.endswith("memory")
        if power or memory:
            passed_over |= {id(inner) for inner in ast.walk(node)}
    numbers = [
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and type(node.value) is int and id(node) not in passed_over
    ]
    return [value for value in numbers if value > 10 and value & (value - 1) and value not in allowed]


def files_of(family):
    return [path for path in (SRC / family).glob("*.py") if path.name != "rules.py"]


@pytest.mark.parametrize("family", FAMILIES)
def test_no_tuned_number_stands_outside_the_rules(family):
    assert files_of(family)
    assert {path.name: numbers for path in files_of(family) if (numbers := bare_numbers(path))} == {}


@pytest.mark.parametrize("family", FAMILIES)
def test_no_tuned_whole_number_stands_outside_the_rules(family):
    found = {
        path.name: numbers
        for path in files_of(family)
        if (numbers := bare_whole_numbers(path, WHOLE.get(f"{family}/{path.name}", {})))
    }
    assert found == {}


def test_every_exception_is_still_needed():
    idle = {
        (name, value)
        for name, reasons in WHOLE.items()
        for value in reasons
        if value not in bare_whole_numbers(SRC / name)
    }
    assert idle == set()


def test_the_count_sees_what_it_is_to_see(tmp_path):
    (tmp_path / "x.py").write_text("share = 0.37 * width + 1 / 2 - 1e-12\nsteps = 37 + 2**40 + 64\n")
    assert bare_numbers(tmp_path / "x.py") == [0.37]
    assert bare_whole_numbers(tmp_path / "x.py") == [37]
