"""The statistic that docs/contributing.md shows passes the checks that every statistic must pass."""

import pytest

from dpgm.data.domain import Domain
from dpgm.data.records import Records
from dpgm.statistics.statistic import release
from dpgm.testing import assert_bounded, assert_playback_invariant
from toy_statistic import EvenLengths

DOMAIN = Domain.of_items(4)
RECORDS = Records.from_lists([[0], [1, 2], [], [0, 1, 3]], DOMAIN)


def run(gateway):
    return {"noisy": release(gateway, EvenLengths(), 2.0).value}


def test_it_depends_on_the_noisy_values_alone_and_reaches_its_bound():
    assert_playback_invariant(run, [RECORDS, RECORDS.rows(0, 1)])
    assert assert_bounded(run, RECORDS, Records.from_lists([[2]], DOMAIN)) == 1.0


def test_a_sensitivity_that_is_too_small_is_found():
    def understated(gateway):
        return {"noisy": release(gateway, EvenLengths(sensitivity=0.5), 2.0).value}

    with pytest.raises(AssertionError):
        assert_bounded(understated, RECORDS, Records.from_lists([[2]], DOMAIN))
