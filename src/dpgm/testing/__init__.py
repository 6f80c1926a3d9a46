"""Privacy checks for a new statistic, mechanism or generator family; together they execute the privacy proof.

Most take `run(gateway) -> state`: a function that runs a stage against a gateway and returns everything it made,
including internal state (nested dicts, lists, dataclasses, tensors, arrays, generators, strings, numbers).

- `assert_playback_invariant`  the state is a function of the noisy values only.
- `assert_bounded`             one more record (first, in the middle or last) changes every query by at most its
                               sensitivity, and no private column of other records; returns the largest ratio.
- `assert_coin_off`            a record that is not in the Poisson sample changes no query on the sample.
- `assert_noise_law`           all noise is independent and has the declared distribution.
- `assert_sampler_law`         the sample is a Poisson sample with the public rate.

Failures raise AssertionError and name the release. The statistical checks fail a correct build with probability below
1e-6; the deterministic ones never. They need no test framework and run on tiny data in a fraction of a second:

    >>> import torch
    >>> from dpgm.data.domain import Domain
    >>> from dpgm.data.records import Records
    >>> from dpgm.mechanisms.query import Query
    >>> from dpgm.testing import assert_bounded, assert_playback_invariant
    >>> domain = Domain.of_items(4)
    >>> def run(gateway):
    ...     largest = Query(lambda view: torch.tensor([min(len(view.rows), 9)]), 1.0, (1,), grid=1.0)
    ...     return {"noisy": gateway.release("number of rows, at most nine", largest, 2.0)}
    >>> records = Records.from_lists([[0], [1, 2], []], domain)
    >>> assert_playback_invariant(run, [records, records.rows(0, 1)])
    >>> assert_bounded(run, records, Records.from_lists([[0, 1, 2, 3]], domain))
    1.0
"""

from dpgm.testing.noise_law import assert_noise_law, assert_sampler_law, log_probability
from dpgm.testing.replayed_runs import (
    POSITIONS,
    Position,
    Run,
    assert_bounded,
    assert_coin_off,
    assert_playback_invariant,
    differences,
    sensitivity_ratios,
)

__all__ = [
    "POSITIONS",
    "Position",
    "Run",
    "assert_bounded",
    "assert_coin_off",
    "assert_noise_law",
    "assert_playback_invariant",
    "assert_sampler_law",
    "differences",
    "log_probability",
    "sensitivity_ratios",
]
