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
FAMILIES = ("products", "trees", "tilting", "images", "networks", "baselines", "strategy", "statistics")
WHOLE = {
    "images/fitting.py": {49: "progress is told every 50 steps", 50: "the same"},
    "networks/refinement.py": {49: "progress is told every 50 steps", 50: "the same"},
    "networks/fitting.py": {40: "blocks in which training is saved; the result does not depend on it"},
    "baselines/mwem.py": {2654435761: "hash", 40503: "hash"},
    "strategy/settings.py": {10_000: "most clusters that may be asked for"},
    "strategy/progress.py": {60: "seconds of a minute"},
    "strategy/protocol.py": {1000: "progress is told in thousandths"},
    "statistics/bounds.py": {33: "nodes of a quadrature"},
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
    return [path for path in (SRC / family).glob("*.py") if not path.name.endswith("rules.py")]


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


# Packages that steer or judge without being a family: named constants at the top of a module, with their reason, and
# fields of rules will do there. What may stand inside a function, with its reason:
OTHERS = ("audit", "evaluation", "mechanisms", "synthesis", "data/inspect")
INSIDE = {
    "audit/findings.py": {40: "fewest fits, in a sentence that names it"},
    "audit/configurations.py": None,  # the audited data and settings
    "evaluation/copies.py": {11400714819323198485: "hash"},
    "evaluation/chance.py": {14: "purpose of a stream of draws"},
    "evaluation/raw_columns.py": {13: "purpose of a stream of draws", 1e15: "whole numbers that doubles hold"},
    "evaluation/words.py": {9.95: "rounded to two digits it is 10"},
    "evaluation/counting_queries.py": {40: "characters of an item in a message"},
    "mechanisms/gaussian.py": {13: "bits"},
    "mechanisms/normals.py": None,  # coefficients of logarithm, sine and cosine
    "mechanisms/rounded_gaussian.py": None,  # precision of the slow path
    "synthesis/fingerprint.py": {13787848793156543929: "hash", 10723151780598845931: "hash"},
    "synthesis/release.py": {40: "fields that are listed"},
    "synthesis/sampling.py": {62: "bits of a seed"},
}
UNITS = {12, 20, 60, 100, 1000, 3600, 86400}


def numbers_inside_functions(path):
    """Without default values of arguments (they have a name), exponents, shifts, units and modes of files."""
    source = path.read_bytes()
    lines, found = source.splitlines(), set()
    for function in ast.walk(ast.parse(source)):
        if not isinstance(function, ast.FunctionDef):
            continue
        nodes = [node for statement in function.body for node in ast.walk(statement)]
        powers = [
            n for n in nodes if isinstance(n, ast.BinOp) and isinstance(n.op, ast.Pow | ast.LShift | ast.RShift)
        ]
        defaults = [node for node in nodes if isinstance(node, ast.arguments)]
        passed_over = {id(inner) for node in (*powers, *defaults) for inner in ast.walk(node)}
        for node in nodes:
            if not isinstance(node, ast.Constant) or id(node) in passed_over:
                continue
            value = node.value
            if type(value) is float and value > SMALLEST and value not in PLAIN:
                found.add(value)
            octal = lines[node.lineno - 1][node.col_offset :].startswith(b"0o")
            if type(value) is int and value > 10 and value & (value - 1) and value not in UNITS and not octal:
                found.add(value)
    return found


@pytest.mark.parametrize("package", OTHERS)
def test_no_number_that_steers_or_judges_stands_inside_a_function(package):
    found, idle = set(), set()
    for path in sorted((SRC / package).glob("*.py")):
        allowed = INSIDE.get(f"{package}/{path.name}", {})
        if path.name.endswith("rules.py") or allowed is None:
            continue
        numbers = numbers_inside_functions(path)
        found |= {(path.name, number) for number in numbers - set(allowed)}
        idle |= {(path.name, number) for number in set(allowed) - numbers}
    assert (found, idle) == (set(), set())


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
    body = "LIMIT = 0.8\n\n\ndef f(x, most=0.3):\n    mode = 0o600\n    return x > 0.37 and x < LIMIT and x + 37 * 60 < most\n"
    (tmp_path / "x.py").write_text(body)
    assert numbers_inside_functions(tmp_path / "x.py") == {0.37, 37}
