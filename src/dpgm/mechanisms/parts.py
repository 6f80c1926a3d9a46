"""Gateways of a fit whose rows stay where they are: one computes the sum of a part, the other adds up the parts.

`PartGateway` stands where rows lie. It answers from the noisy values that the fit has released so far, and the first
query beyond them ends the run with its exact sum over this part: a secret, sealed to the curator before it is written.
`synthesis/parts.py` has the curator's side, whose gateway adds noise once to the sum of all parts.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from dpgm.data.records import Records
from dpgm.errors import UsageError
from dpgm.mechanisms.gateway import Call, Gateway
from dpgm.mechanisms.query import Query
from dpgm.mechanisms.randomness import Randomness
from dpgm.mechanisms.threshold import ThresholdQuery, Value
from dpgm.privacy.events import Mechanism

SAMPLES = (
    "networks look at a fresh sample of the rows at every step, which rows in several places cannot give; use the"
    " default model."
)


class NextSum(Exception):
    """The exact sum of the next query over the rows of a part, which ends the run of a `PartGateway`."""

    def __init__(self, call: Call, query: Query, exact: Tensor, labels: Sequence[Value] | None) -> None:
        super().__init__(call.name)
        self.call, self.query, self.exact, self.labels = call, query, exact, labels


class PartGateway(Gateway):
    """Answers from a tape of released values, and raises `NextSum` at the first query beyond it."""

    def __init__(
        self,
        records: Records,
        tape: Sequence[Tensor],
        *,
        randomness: Randomness,
        allowance: Sequence[Mechanism],
        rows_per_person: int,
    ) -> None:
        refuse_samples(allowance)
        super().__init__(records, randomness=randomness, allowance=allowance, rows_per_person=rows_per_person)
        self._tape = iter(list(tape))

    def _answer(self, call: Call, query: Query, rows: NDArray[np.int64] | None) -> Tensor:
        for released in self._tape:
            return released
        exact = self._exact(query, rows)
        raise NextSum(call, query, exact, list(self._labels) if isinstance(query, ThresholdQuery) else None)


def refuse_samples(mechanisms: Sequence[Mechanism]) -> None:
    """Refuse a plan that samples rows.

    Raises:
        UsageError: it does.
    """
    if any(one.sample is not None or one.sampling_rate < 1 for one in mechanisms):
        raise UsageError(SAMPLES)
