"""Releases of seeded fits stay the same, byte for byte, while the code around them is moved.

A change that is meant to alter what is released records new digests (`python tests/golden/releases.py --write`) and
says why in its commit.
"""

import pytest

from releases import CASES, digests, machine, recorded


@pytest.mark.filterwarnings("ignore::dpgm.errors.PrivacyWarning")
@pytest.mark.parametrize("name", CASES)
def test_a_seeded_release_is_the_one_on_record(name):
    on_file = recorded()
    if machine() != on_file["machine"]:
        pytest.skip(f"the digests were made with {on_file['machine']}; this machine rounds differently")
    assert digests(name) == on_file["digests"][name]


def test_every_case_is_on_record():
    assert set(recorded()["digests"]) == set(CASES)
