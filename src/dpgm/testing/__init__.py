"""Checks for whoever adds a statistic, a mechanism or a family of models; together they execute the privacy proof.

Each takes `run(gateway) -> state`: a function that runs a stage against a gateway and returns everything it made,
internal state included (nested dicts, lists, dataclasses, tensors, arrays, generators, strings, numbers).

- `assert_playback_invariant`  the state is a function of the noisy values alone.
- `assert_bounded`             one more record (first, in the middle, last) moves every query by at most its declared
                               sensitivity, and nobody else's private column; the largest ratio is returned.
- `assert_coin_off`            a record whose Poisson coin is 0 moves no query on the sample by a bit.
- `assert_noise_law`           the noise has the declared distribution, everywhere, independently.
- `assert_sampler_law`         the sample is a true Poisson sample at the public rate.

Failures raise AssertionError and say which release. The statistical checks fail a correct build with probability below
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
