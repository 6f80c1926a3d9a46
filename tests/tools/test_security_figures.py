"""`tools/security.py` names every promise, finds every test, and fails where a figure is missing or not met."""

import importlib.util
import json
import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def security():
    spec = importlib.util.spec_from_file_location("security", ROOT / "tools" / "security.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules["security"] = module
    spec.loader.exec_module(module)
    return module


GOOD = {
    "release_fuzz.json": {
        **{"mutated_releases": 100_000, "crashes": 0, "hangs_over_10_s": 0, "believed": 0},
        **{"memory_growth_bytes": 1, "memory_allowed_bytes": 2},
    },
    "faults.json": {"kills": 520, "faults": 0},
    "metamorphic.json": {"pairs": 20_000, "violations": 0},
    "reader_fuzz.json": {"inputs": 60, "crashes": 0, "hangs_over_10_s": 0},
    "audit.json": {
        "findings": [
            {
                "configuration": "A",
                "share": 0.9,
                "passed": True,
                "strong": True,
                "epsilon": 3.7,
                "epsilon_lower": 3.3,
            }
        ]
    },
    "mutants.json": {"planted": 35, "killed": 35},
    "proofs.json": {"promises": {"P1": {"figure": "0 bytes", "met": True}, "P2": {"figure": "1.0", "met": True}}},
    "attacks.json": {"promises": {"P16": {"figure": "AUC 0.5", "met": True}}},
}


def gather(security, folder, changes=None):
    for name, document in (GOOD | (changes or {})).items():
        if document is not None:
            (folder / name).write_text(json.dumps(document))
    passed = {name: {"passed": 3, "failed": 0} for promise in security.PROMISES for name in promise.tests}
    return security.table(folder, passed)


def test_all_sixteen_promises_are_there_and_met_by_good_figures(security, tmp_path):
    text, unmet = gather(security, tmp_path)
    assert unmet == []
    assert [promise.number for promise in security.PROMISES] == [f"P{n}" for n in range(1, 17)]
    assert all(f"| P{n} |" in text for n in range(1, 17))
    assert "100,000 mutated releases" in text


@pytest.mark.parametrize("name", sorted(GOOD))
def test_a_missing_file_is_named_and_its_promise_is_not_met(security, tmp_path, name):
    text, unmet = gather(security, tmp_path, {name: None})
    assert unmet
    assert f"missing: tools/figures/{name}" in text


@pytest.mark.parametrize(
    ("name", "change", "number"),
    [
        ("release_fuzz.json", {"crashes": 1}, "P12"),
        ("release_fuzz.json", {"believed": 1}, "P12"),
        ("release_fuzz.json", {"mutated_releases": 99_999}, "P12"),
        ("release_fuzz.json", {"memory_growth_bytes": 3}, "P12"),
        ("faults.json", {"faults": 1}, "P11"),
        ("faults.json", {"kills": 499}, "P11"),
        ("metamorphic.json", {"violations": 1}, "P13"),
        ("reader_fuzz.json", {"crashes": 1}, "P13"),
        ("audit.json", {"findings": []}, "P7"),
        ("mutants.json", {"killed": 34}, "-"),
        ("proofs.json", {"promises": {"P1": {"figure": "3 bytes", "met": False}}}, "P1"),
        ("attacks.json", {"promises": {}}, "P16"),
        ("attacks.json", {"promises": {"P16": {"figure": "AUC", "met": "yes"}}}, "P16"),
    ],
)
def test_a_figure_that_is_not_met_fails_its_promise(security, tmp_path, name, change, number):
    assert number in gather(security, tmp_path, {name: GOOD[name] | change})[1]


def test_a_test_that_failed_or_was_not_run_fails_its_promise(security, tmp_path):
    gather(security, tmp_path)
    passed = {name: {"passed": 3, "failed": 0} for promise in security.PROMISES for name in promise.tests}
    passed["tests/mechanisms/test_sampling.py"] = {"passed": 3, "failed": 1}
    del passed["tests/test_no_network.py"]
    assert security.table(tmp_path, passed)[1] == ["P4", "P14"]


def test_every_test_named_exists(security):
    for promise in security.PROMISES:
        for name in promise.tests:
            path, _, test = name.partition("::")
            assert (ROOT / path).exists(), name
            if test:
                assert re.search(rf"^def {test}\b", (ROOT / path).read_text(), re.M), name
        for name in promise.files:
            assert name in security.MAKE


def test_tests_are_counted_under_the_names_promises_use(security):
    where = "tests.synthesis.test_release.test_x"
    assert security._belongs(where, "tests/synthesis/test_release.py")
    assert security._belongs(where, "tests/synthesis")
    assert security._belongs(where, "tests/synthesis/test_release.py::test_x")
    assert not security._belongs(where, "tests/synthesis/test_rel.py")
    assert not security._belongs(where, "tests/synthesis/test_release.py::test_y")


def test_the_pages_have_a_place_for_the_figures(security):
    for page in security.PAGES:
        text = security.rewritten(page.read_text("utf-8"), "| a table |\n")
        assert "| a table |" in text
        assert security.rewritten(text, "| a table |\n") == text
    with pytest.raises(ValueError, match="marks"):
        security.rewritten("nothing", "x")


PLAYED = {"tapes": 3, "data_sets": 5, "differing_values": 0}


@pytest.mark.parametrize(
    ("change", "unmet"),
    [
        ({}, set()),
        ({"pairs": 1999}, {"P2"}),
        ({"largest_ratio": 1.1}, {"P2"}),
        ({"largest_ratio": 0.9}, {"P2"}),
        ({"passed": False}, {"P1", "P2"}),
        ({"playback": {}}, {"P1"}),
        ({"left_behind": {}}, {"P1"}),
    ],
)
def test_the_executed_proofs_speak_of_their_two_promises(change, unmet):
    spec = importlib.util.spec_from_file_location("proofs", ROOT / "tools" / "proofs.py")
    proofs = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(proofs)
    good = {"playback": dict.fromkeys(set(proofs.CASES) - proofs.SLOW, PLAYED), "pairs": 2190, "largest_ratio": 1.0}
    good["left_behind"] = {name: {"data_sets": 5, "bytes": 9000, "differing_files": 0} for name in proofs.FITS}
    said = proofs.promises(good | {"coin_off_pairs": 228, "passed": True} | change)
    assert {number for number, entry in said.items() if entry["met"] is not True} == unmet
    assert set(said) == {"P1", "P2"}


@pytest.mark.parametrize(
    ("one", "bare", "met"),
    [(0.55, 0.93, True), (0.8, 0.93, False), (0.55, 0.7, False)],
    ids=["as hoped", "leak", "weak"],
)
def test_the_attack_keeps_its_promise_only_if_it_works_without_noise(one, bare, met):
    spec = importlib.util.spec_from_file_location("attacks", ROOT / "experiments" / "attacks.py")
    attacks = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(attacks)
    rows = [
        {"model": "products", "epsilon": name, "fits": 80, "auc": auc, "low": auc - 0.05, "high": auc + 0.05}
        for name, auc in (("1", one), ("10", 0.6), ("no noise", bare))
    ]
    assert attacks.figures(rows, "x")["promises"]["P16"]["met"] is met
