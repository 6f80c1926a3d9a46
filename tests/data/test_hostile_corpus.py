"""The corpus of bad input under a cap on memory: outcome, sentence, seconds and peak of memory of each case."""

import json
import os
import subprocess
import sys

import pytest

import hostile

HANG = 600  # seconds for all of them on a busy machine; each has its limit of processor time in `hostile`


@pytest.fixture(scope="module")
def results():
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, hostile.__file__], capture_output=True, text=True, timeout=HANG, env=environment
    )
    assert done.returncode == 0, done.stderr[-2000:]
    found = [json.loads(line) for line in done.stdout.splitlines()]
    return {one["name"]: one for one in found}


@pytest.mark.parametrize("case", hostile.CASES, ids=lambda case: case.name)
def test_a_hostile_file_has_the_outcome_that_is_promised(case, results):
    found = results[case.name]
    assert found["outcome"] == case.outcome, found
    for word in case.words:
        assert word in found["message"], found
    assert "\n" not in found["message"]
    assert found["peak_mb"] < case.most_mb, found


def test_the_corpus_is_complete():
    named = {case.name.split()[0] for case in hostile.CASES}
    assert {f"I{number}" for number in range(1, 36)} <= named
    assert len(hostile.CASES) >= 60
