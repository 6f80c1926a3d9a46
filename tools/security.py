"""Promise -> test -> figure: runs the tests behind every promise, and writes what was found into the documents.

    python tools/security.py            run the tests, then write SECURITY.md and docs/guarantee.md
    python tools/security.py --no-run   only gather figures that are on file

Tests that take seconds are run here. What takes minutes or hours has a command of its own (`make assure RUNS=fuzz`,
`audit`, ...) that leaves a small JSON file in tools/figures/. Such a file may carry a key `promises`:

    {"promises": {"P12": {"figure": "100,002 mutated releases: 0 crashes", "met": true}}, ...}

Exit code 1 if a promise has no figure, or one that is not met; missing files are named.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

ROOT = Path(__file__).parent.parent
FIGURES = ROOT / "tools" / "figures"
PAGES = (ROOT / "SECURITY.md", ROOT / "docs" / "guarantee.md")
BEGIN, END = "<!-- figures: begin, written by `make assure` -->", "<!-- figures: end -->"
TESTS_FILE = "tests.json"


@dataclass(frozen=True)
class Promise:
    """What is promised, the tests that would fail if it were broken, and the files with figures of long runs."""

    number: str
    sentence: str
    tests: tuple[str, ...]
    files: tuple[str, ...] = ()


@dataclass(frozen=True)
class Figure:
    """One figure in words, and whether it is as promised."""

    words: str
    met: bool


PROMISES = (
    Promise(
        "P1",
        "A release is post-processing of noisy values only.",
        (
            "tests/synthesis/test_pipeline.py",
            "tests/synthesis/test_provenance.py",
            "tests/synthesis/test_whole_fits.py",
        ),
        ("proofs.json",),
    ),
    Promise(
        "P2",
        "Every query has its declared sensitivity.",
        (
            "tests/testing/test_replayed_runs.py",
            "tests/mechanisms/test_threshold.py",
            "tests/statistics",
            "tests/synthesis/test_exposure.py",
            "tests/synthesis/test_whole_fits.py",
        ),
        ("proofs.json",),
    ),
    Promise(
        "P3",
        "Noise has the declared law everywhere, and is independent.",
        (
            "tests/mechanisms/test_gaussian.py",
            "tests/mechanisms/test_normals.py",
            "tests/mechanisms/test_gateway.py",
            "tests/synthesis/test_whole_fits.py",
        ),
    ),
    Promise("P4", "True Poisson sampling at a public rate.", ("tests/mechanisms/test_sampling.py",)),
    Promise(
        "P5",
        "Ledger = plan = calls.",
        (
            "tests/synthesis/test_books.py",
            "tests/synthesis/test_verification.py::test_mechanisms_dropped_from_both_lists_are_refused",
            "tests/synthesis/test_synthesizer.py::test_the_certificate_lists_what_ran_and_the_release_verifies",
        ),
    ),
    Promise(
        "P6",
        "Epsilon is the stated function of that list; anyone can recompute it from the folder.",
        (
            "tests/privacy/test_accountant.py",
            "tests/privacy/test_calibration.py",
            "tests/privacy/test_certificate.py",
        ),
    ),
    Promise("P7", "The whole is not worse than certified.", (), ("audit.json",)),
    Promise(
        "P8",
        "Only listed fields leave; every file is what dpgm writes for its certificate.",
        ("tests/synthesis/test_verification.py", "tests/synthesis/test_provenance.py"),
    ),
    Promise(
        "P9",
        "Nothing private in logs, errors or names.",
        ("tests/cli/test_commands.py::test_rows_never_reach_the_terminal_or_the_release",),
    ),
    Promise(
        "P10",
        "Fresh randomness, never reused; a seeded run is marked and never verifies.",
        (
            "tests/mechanisms/test_randomness.py",
            "tests/networks/test_latent_draws.py",
            "tests/synthesis/test_synthesizer.py::test_two_fits_share_no_noise",
            "tests/synthesis/test_verification.py::test_a_seeded_release_opens_with_a_warning_and_never_verifies",
        ),
    ),
    Promise(
        "P11",
        "A crash anywhere leaves no half release and no under-count.",
        ("tests/synthesis/test_checkpoint.py", "tests/data/test_atomic.py"),
        ("faults.json",),
    ),
    Promise(
        "P12",
        "Opening a hostile release is safe.",
        ("tests/synthesis/test_release.py", "tests/synthesis/test_release_corpus.py"),
        ("release_fuzz.json",),
    ),
    Promise(
        "P13",
        "Hostile input is bounded, and what a row is read as depends on that row alone.",
        (
            "tests/data/formats/test_bad_input.py",
            "tests/data/read/test_reading_rules.py",
            "tests/data/read/test_record_by_record.py",
        ),
        ("reader_fuzz.json", "metamorphic.json"),
    ),
    Promise(
        "P14",
        "No network.",
        (
            "tests/test_no_network.py",
            "tests/test_public_surface.py::test_nothing_reads_or_writes_pickles_or_opens_sockets",
        ),
    ),
    Promise(
        "P15",
        "Integer stages are exact.",
        ("tests/mechanisms/test_rounded_gaussian.py", "tests/statistics/test_counts.py"),
    ),
    Promise("P16", "Practical attacks fail (an illustration, never the proof).", (), ("attacks.json",)),
)
# Beside the promises: whether the tests would notice.
TESTS_OF_TESTS = Promise("-", "Bugs planted in the real code are found by the tests.", (), ("mutants.json",))
MAKE = {
    "proofs.json": "make assure RUNS=proofs",
    "audit.json": "make assure RUNS=audit",
    "faults.json": "make assure RUNS=faults",
    "release_fuzz.json": "make assure RUNS=fuzz",
    "reader_fuzz.json": "make assure RUNS=fuzz",
    "metamorphic.json": "make assure RUNS=metamorphic",
    "attacks.json": "python experiments/attacks.py --data FILE --figures tools/figures/attacks.json",
    "mutants.json": "make assure RUNS=mutants",
}


# -- figures on file --------------------------------------------------------------------------------------------


def figure_of(promise: str, name: str, document: Mapping[str, Any]) -> Figure | None:
    """What a file says about a promise; None if it says nothing."""
    stated = document.get("promises")
    if isinstance(stated, dict):
        entry = stated.get(promise)
        return None if entry is None else Figure(str(entry["figure"]), entry["met"] is True)
    reader = READERS.get(name)
    return None if reader is None else reader(document)


def _release_fuzz(document: Mapping[str, Any]) -> Figure:
    count, crashes, hangs = (document[key] for key in ("mutated_releases", "crashes", "hangs_over_10_s"))
    grown, allowed = document["memory_growth_bytes"], document["memory_allowed_bytes"]
    words = (
        f"{count:,} mutated releases: {crashes} crashes, {hangs} hangs over 10 s, {document['believed']} believed; "
        f"memory grew by {grown / 2**20:.0f} MB of {allowed / 2**20:.0f} allowed"
    )
    met = count >= 100_000 and crashes + hangs + document["believed"] == 0 and grown <= allowed
    return Figure(words, met)


def _faults(document: Mapping[str, Any]) -> Figure:
    kills, faults = document["kills"], document["faults"]
    return Figure(f"{kills:,} kills, {faults} faults", kills >= 500 and faults == 0)


def _metamorphic(document: Mapping[str, Any]) -> Figure:
    pairs, violations = document["pairs"], document["violations"]
    return Figure(
        f"{pairs:,} pairs of files: {violations} where one row changed another", pairs >= 20_000 and violations == 0
    )


def _reader_fuzz(document: Mapping[str, Any]) -> Figure:
    inputs, crashes, hangs = document["inputs"], document["crashes"], document["hangs_over_10_s"]
    return Figure(f"{inputs:,} hostile inputs: {crashes} crashes, {hangs} hangs over 10 s", crashes + hangs == 0)


def _audit(document: Mapping[str, Any]) -> Figure:
    found = list(_entries(document, "configuration", "share", "passed"))
    words = "; ".join(
        f"{entry['configuration']}: claimed {entry['epsilon']:.3g}, lower bound {entry['epsilon_lower']:.3g}"
        f" ({entry['share']:.0%})"
        for entry in found
    )
    strong = all(entry["passed"] is True and entry.get("strong", True) is True for entry in found)
    return Figure(words or "no configuration was audited", bool(found) and strong)


def _mutants(document: Mapping[str, Any]) -> Figure:
    planted, killed = document["planted"], document["killed"]
    return Figure(f"{killed} of {planted} planted bugs killed", planted >= 35 and killed == planted)


def _entries(value: Any, *keys: str) -> Iterator[Mapping[str, Any]]:
    """Every object, however deep, that has these keys."""
    if isinstance(value, dict):
        if set(keys) <= value.keys():
            yield value
        for inside in value.values():
            yield from _entries(inside, *keys)
    elif isinstance(value, list):
        for inside in value:
            yield from _entries(inside, *keys)


READERS: Mapping[str, Callable[[Mapping[str, Any]], Figure]] = {
    "release_fuzz.json": _release_fuzz,
    "faults.json": _faults,
    "metamorphic.json": _metamorphic,
    "reader_fuzz.json": _reader_fuzz,
    "audit.json": _audit,
    "mutants.json": _mutants,
}


# -- tests ------------------------------------------------------------------------------------------------------


def run_tests(promises: Sequence[Promise]) -> dict[str, dict[str, int]]:
    """Passed and failed tests by the name given in a promise, in one run of pytest."""
    names = sorted({name for promise in promises for name in promise.tests})
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--junitxml={report}", *names]
        subprocess.run(command, cwd=ROOT, check=False)
        cases = list(ElementTree.parse(report).iter("testcase"))
    results = {name: {"passed": 0, "failed": 0} for name in names}
    for case in cases:
        bad = any(child.tag in ("failure", "error") for child in case)
        skipped = any(child.tag == "skipped" for child in case)
        where = f"{case.get('classname', '')}.{case.get('name', '')}".split("[")[0]
        for name in names:
            if _belongs(where, name) and not skipped:
                results[name]["failed" if bad else "passed"] += 1
    return results


def _belongs(where: str, name: str) -> bool:
    """Whether a test's dotted name lies in a folder, file or test named as pytest names them."""
    path, _, test = name.partition("::")
    dotted = path.removesuffix(".py").replace("/", ".")
    if test:
        return where == f"{dotted}.{test}"
    return where == dotted or where.startswith(f"{dotted}.")


def tests_figure(promise: Promise, results: Mapping[str, Mapping[str, int]]) -> Figure | None:
    """How many of a promise's tests passed; None if it has none."""
    if not promise.tests:
        return None
    missing = [name for name in promise.tests if not sum(results.get(name, {}).values())]
    if missing:
        return Figure(f"no test was run of {missing[0]}", False)
    passed = sum(results[name]["passed"] for name in promise.tests)
    failed = sum(results[name]["failed"] for name in promise.tests)
    return Figure(f"{passed} tests passed" + (f", {failed} failed" if failed else ""), failed == 0)


# -- the table --------------------------------------------------------------------------------------------------


def figures_of(promise: Promise, folder: Path, results: Mapping[str, Mapping[str, int]]) -> list[Figure]:
    """All figures of a promise; a file that is missing or unreadable is a figure that is not met."""
    found = [] if not promise.tests else [tests_figure(promise, results)]
    for name in promise.files:
        path = folder / name
        if not path.is_file():
            found.append(Figure(f"missing: tools/figures/{name} (`{MAKE[name]}`)", False))
            continue
        try:
            figure = figure_of(promise.number, name, json.loads(path.read_text("utf-8")))
        except (ValueError, KeyError, TypeError, AttributeError):
            figure = None
        found.append(figure or Figure(f"tools/figures/{name} says nothing about it", False))
    return [figure for figure in found if figure is not None]


def table(folder: Path, results: Mapping[str, Mapping[str, int]]) -> tuple[str, list[str]]:
    """The table in Markdown, and the numbers of promises that are not met."""
    lines = ["| | promise | tests | figure | |", "|---|---|---|---|---|"]
    unmet = []
    for promise in (*PROMISES, TESTS_OF_TESTS):
        figures = figures_of(promise, folder, results)
        met = bool(figures) and all(figure.met for figure in figures)
        if not met:
            unmet.append(promise.number)
        tests = ", ".join(f"`{name.removeprefix('tests/')}`" for name in promise.tests) or "-"
        words = "; ".join(figure.words for figure in figures)
        lines.append(
            f"| {promise.number} | {promise.sentence} | {tests} | {words} | {'met' if met else '**not met**'} |"
        )
    return "\n".join(lines) + "\n", unmet


def rewritten(page: str, text: str) -> str:
    """The page with the table between the two marks; raises ValueError where they are missing."""
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError("the marks for the figures are missing")
    return f"{before}{BEGIN}\n\n{text}\n{END}{after}"


def main() -> int:
    """Run, gather, print, write; 1 if a promise is not met."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--no-run", action="store_true", help="use the test results that are on file")
    asked = parser.parse_args()
    FIGURES.mkdir(parents=True, exist_ok=True)
    kept = FIGURES / TESTS_FILE
    if not asked.no_run:
        kept.write_text(json.dumps(run_tests(PROMISES), indent=1) + "\n", "utf-8")
    results = json.loads(kept.read_text("utf-8")) if kept.is_file() else {}
    text, unmet = table(FIGURES, results)
    print(text)
    for page in PAGES:
        page.write_text(rewritten(page.read_text("utf-8"), text), "utf-8")
    if unmet:
        print(f"not met: {', '.join(unmet)}")
    return 1 if unmet else 0


if __name__ == "__main__":
    sys.exit(main())
