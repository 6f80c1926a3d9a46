"""The one door to private rows. Whatever comes out of it is noisy; everything after it is post-processing.

Three modes, one interface:

- `Gateway`          live: exact value, noise, done.
- `TraceGateway`     tests only: also keeps exact and noisy values, so that neighbouring data can be compared.
- `PlaybackGateway`  no data at all: returns a tape of noisy values; a fit must come out bit for bit the same.

A gateway is opened with an *allowance*, the mechanisms of the plan. A call that is not in it, has another
multiplier, or comes once too often is refused before any row is touched, so what ran can never exceed the plan.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from dpgm.compute import parallel
from dpgm.data.records import Records
from dpgm.errors import BudgetError, DpgmError
from dpgm.mechanisms.gaussian import add_noise
from dpgm.mechanisms.query import Query, View
from dpgm.mechanisms.randomness import Randomness
from dpgm.mechanisms.sampling import poisson_sample
from dpgm.privacy.events import Mechanism


@dataclass(frozen=True)
class Call:
    """One release, as it happened. Nothing here depends on the rows."""

    name: str
    sensitivity: float
    noise: float
    sampling_rate: float = 1.0
    sample: str | None = None


class Gateway:
    """Live access: the exact value of a query plus noise, metered against the plan's allowance.

    Args:
        records: the private rows (of this rank).
        randomness: source of noise, coins and public draws.
        allowance: the mechanisms the plan pays for; None leaves the gateway unmetered (library use and tests).
        first_row: global number of this rank's first row.
        before: called with every call before a row is touched (the checkpoint's journal).
    """

    def __init__(
        self,
        records: Records,
        *,
        randomness: Randomness,
        allowance: Sequence[Mechanism] | None = None,
        first_row: int = 0,
        before: Callable[[Call], None] | None = None,
    ) -> None:
        self._records = records
        self._kept: dict[str, Any] = {}
        self._sample: tuple[str, float, NDArray[np.int64]] | None = None
        self._allowance = None if allowance is None else {entry.name: entry for entry in allowance}
        self._first_row = first_row
        self._before = before
        self._spent: Counter[tuple[str, float, float, str | None]] = Counter()
        self._step = 0
        self.randomness = randomness

    # -- what post-processing may call ------------------------------------------------------------------

    def keep(self, name: str, derive: Callable[[Records], Any]) -> None:
        """Derive a private column from the rows, record by record; it stays inside for later queries."""
        self._kept[name] = derive(self._records)

    def release(self, name: str, query: Query, noise: float) -> Tensor:
        """The query's value plus Gaussian noise of standard deviation `noise` x sensitivity."""
        sample, rate, rows = self._sample if self._sample is not None else (None, 1.0, None)
        call = Call(name, float(query.sensitivity), float(noise), rate, sample)
        self._charge(call)
        return self._answer(call, query, rows)

    @contextmanager
    def poisson(self, sample: str, rate: float) -> Iterator[None]:
        """Within the block every release sees one fresh Poisson sample of the rows."""
        if self._sample is not None:
            raise DpgmError("a Poisson sample is already open; samples do not nest.")
        self._sample = (sample, float(rate), self._coins(float(rate)))
        self._step += 1
        try:
            yield
        finally:
            self._sample = None

    @property
    def spent(self) -> tuple[Mechanism, ...]:
        """The mechanisms that ran, in order of first use: what the certificate lists."""
        return tuple(
            Mechanism(name, noise, count, rate, sample)
            for (name, noise, rate, sample), count in self._spent.items()
        )

    # -- how the modes differ ------------------------------------------------------------------------------

    def _coins(self, rate: float) -> NDArray[np.int64]:
        return poisson_sample(
            len(self._records), rate, step=self._step, randomness=self.randomness, first_row=self._first_row
        )

    def _answer(self, call: Call, query: Query, rows: NDArray[np.int64] | None) -> Tensor:
        exact = parallel.all_sum(query.compute(View(self._records, self._kept, rows)))
        return add_noise(exact, query, call.noise, self.randomness)

    def _charge(self, call: Call) -> None:
        key = (call.name, call.noise, call.sampling_rate, call.sample)
        if self._allowance is not None:
            entry = self._allowance.get(call.name)
            if entry is None:
                raise BudgetError(f"the release {call.name!r} is not in the plan.")
            if (entry.noise, entry.sampling_rate, entry.sample) != key[1:]:
                raise BudgetError(f"the release {call.name!r} differs from the plan in noise or sampling.")
            if self._spent[key] >= entry.count:
                raise BudgetError(f"the release {call.name!r} has used up its {entry.count} runs.")
        if self._before is not None:
            self._before(call)
        self._spent[key] += 1


class TraceGateway(Gateway):
    """Tests only: keeps every call with its exact and its noisy value. Never private."""

    def __init__(
        self, records: Records, *, coins: Callable[[int, float], Any] | None = None, **options: Any
    ) -> None:
        super().__init__(records, **options)
        self._injected = coins
        self.calls: list[Call] = []
        self.exact: list[Tensor] = []
        self.tape: list[Tensor] = []

    def _coins(self, rate: float) -> NDArray[np.int64]:
        if self._injected is None:
            return super()._coins(rate)
        return np.asarray(self._injected(self._step, rate), dtype=np.int64)

    def _answer(self, call: Call, query: Query, rows: NDArray[np.int64] | None) -> Tensor:
        exact = parallel.all_sum(query.compute(View(self._records, self._kept, rows)))
        self.calls.append(call)
        self.exact.append(exact.clone() if query.grid is None else exact.double() * query.grid)
        noisy = add_noise(exact, query, call.noise, self.randomness)
        self.tape.append(noisy.clone())
        return noisy


class PlaybackGateway(Gateway):
    """No rows at all: answers from a tape. Everything downstream must not notice."""

    def __init__(self, tape: Sequence[Tensor], **options: Any) -> None:
        super().__init__(None, **options)  # type: ignore[arg-type]
        self._tape = iter(tape)
        self.calls: list[Call] = []

    def keep(self, name: str, derive: Callable[[Records], Any]) -> None:
        """Nothing to derive from."""

    def _coins(self, rate: float) -> NDArray[np.int64]:
        return np.empty(0, dtype=np.int64)

    def _answer(self, call: Call, query: Query, rows: NDArray[np.int64] | None) -> Tensor:
        self.calls.append(call)
        return next(self._tape).clone()
