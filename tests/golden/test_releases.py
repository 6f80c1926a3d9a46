"""Releases of seeded fits stay the same, byte for byte, while the code around them is moved.

A change that is meant to alter what is released records new digests (`python tests/golden/releases.py --write`) and
says why in its commit.
"""

import pytest

from releases import CASES, digests, digests_here, machine, recorded


@pytest.mark.filterwarnings("ignore::dpgm.errors.PrivacyWarning")
@pytest.mark.parametrize("name", CASES)
def test_a_seeded_release_is_the_one_on_record(name):
    on_file = digests_here()
    if on_file is None:
        pytest.skip(f"no digests were made on a machine that rounds as this one: {machine()}")
    assert digests(name) == on_file[name]


def test_every_case_is_on_record():
    assert all(set(one["digests"]) == set(CASES) for one in recorded())
