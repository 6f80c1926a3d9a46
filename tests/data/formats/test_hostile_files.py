"""The corpus of bad input under a memory limit: outcome, message, processor time and peak memory of each case."""

import json
import os
import subprocess
import sys

import pytest

import hostile

TIMEOUT = 600  # seconds for all cases on a busy machine; `hostile` limits the processor time of each


@pytest.fixture(scope="module")
def results():
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, hostile.__file__], capture_output=True, text=True, timeout=TIMEOUT, env=environment
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
