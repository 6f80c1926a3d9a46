"""The one door to private rows. Whatever comes out of it is noisy; everything after it is post-processing.

Three modes, one interface:

- `Gateway`          live: exact value, noise, done.
- `TraceGateway`     tests only: also keeps exact and noisy values, so that neighbouring data can be compared.
- `PlaybackGateway`  no data at all: returns a tape of noisy values; a fit must come out bit for bit the same.

A gateway is opened with an *allowance*, the mechanisms of the plan. A call that is not in it, has another
multiplier, or comes once too often is refused before any row is touched, so what ran can never exceed the plan.
A call is charged before its query runs and stays charged whatever happens then.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, TypeAlias, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dpgm.data.records import Records
from dpgm.errors import BudgetError, DpgmError, UsageError
from dpgm.kernels import parallel
from dpgm.kernels.agreement import agree
from dpgm.mechanisms.gaussian import add_noise, noise_std
from dpgm.mechanisms.normals import fill_with_normals
from dpgm.mechanisms.query import Counts, Query, View
from dpgm.mechanisms.randomness import Randomness
from dpgm.mechanisms.sampling import Coins
from dpgm.mechanisms.threshold import Discovered, ThresholdQuery, Value, passed, read_discovered
from dpgm.privacy.events import Mechanism


@dataclass(frozen=True)
class Call:
    """One release, as it happened. Nothing here depends on the rows."""

    name: str
    sensitivity: float
    noise: float
    sampling_rate: float = 1.0
    sample: str | None = None
    delta: float = 0.0


@dataclass(frozen=True, eq=False)
class ReleasedSum:
    """A noisy answer over all rows, as it left the gateway; `std` is the standard deviation of the noise.

    `labels` are the values that a discovery has published, one for each number.
    """

    name: str
    value: Tensor
    std: float
    counts: Counts | None = None
    labels: tuple[Value, ...] = ()


Q = TypeVar("Q", bound=Query)
_Key: TypeAlias = tuple[str, float, float, str | None, float]


class Gateway:
    """Live access: the exact value of a query plus noise, metered against the plan's allowance.

    Args:
        records: the private rows (of this rank).
        randomness: source of noise, coins and public draws.
        allowance: the mechanisms the plan pays for; None leaves the gateway unmetered (library use and tests).
        first_row: global number of this rank's first row.
        already_spent: what an earlier process of the same fit charged; counts against the allowance.
        rows_per_person: rows that a person has at most. The caller gives multipliers for one row. K rows move a sum
            K times as far, so a K-th of each multiplier is charged, and stands in the allowance.
    """

    def __init__(
        self,
        records: Records,
        *,
        randomness: Randomness,
        allowance: Sequence[Mechanism] | None = None,
        first_row: int = 0,
        already_spent: Sequence[Mechanism] = (),
        rows_per_person: int = 1,
    ) -> None:
        if rows_per_person < 1:
            raise DpgmError("a person has at least one row.")
        self._rows_per_person = rows_per_person
        if records is not None:  # a gateway that plays back has none
            parallel.refuse_unasked()
            records.check()  # every sensitivity assumes distinct positions
        self._records = records
        self._kept: dict[str, Any] = {}
        self._labels: Sequence[Value] = ()  # what the last exact sums over a private vocabulary belong to
        self._sample: tuple[str, float, NDArray[np.int64]] | None = None
        self._used_on_sample: set[str] = set()
        self._allowance = None if allowance is None else {entry.name: entry for entry in allowance}
        if allowance is not None and len(self._allowance or ()) < len(allowance):
            raise UsageError("the plan names a mechanism twice; names must differ.")
        self._coins_ahead = Coins(0 if records is None else len(records), randomness, first_row)
        self._spent: Counter[_Key] = Counter()
        self._run = randomness.new_run()
        self._step = 0
        self.randomness = randomness
        self.released: list[ReleasedSum] = []  # over all rows; those over samples are steps of a training
        for entry in already_spent:
            key = (entry.name, float(entry.noise), float(entry.sampling_rate), entry.sample, float(entry.delta))
            if entry.count > 0:
                self._refuse_if_over(key, entry.count)
                self._spent[key] += entry.count

    # -- what post-processing may call ------------------------------------------------------------------

    def keep(self, name: str, derive: Callable[[Records], Any]) -> None:
        """Derive a private column from the rows, record by record; it stays inside for later queries."""
        with _silent():
            self._kept[name] = derive(self._records)

    def release(self, name: str, query: Query, noise: float) -> Tensor:
        """The query's value plus Gaussian noise of standard deviation `noise` x sensitivity (to one row)."""
        if isinstance(query, ThresholdQuery):
            raise DpgmError("sums over a private vocabulary are discovered, not released.")
        sample, rate, rows = self._sample if self._sample is not None else (None, 1.0, None)
        query, noise = self._per_person(name, query, noise)
        call = Call(name, float(query.sensitivity), float(noise), rate, sample)
        std = noise_std(query, noise, self.randomness)  # a bad multiplier is refused before it is charged
        if sample is None:  # a step's only number, the clipping bound, comes from the first process
            # Noise follows the sensitivity of its owner, so one of another machine must not be rounded otherwise.
            agree(
                {f"how to measure {name}": [call.sensitivity, call.noise, query.grid, list(map(int, query.shape))]}
            )
        self._charge(call)
        answer = self._answer(call, query, rows)
        if sample is None:
            self.released.append(ReleasedSum(name, answer.detach().cpu().clone(), std, query.counts))
        return answer

    def discover(self, name: str, query: ThresholdQuery, noise: float) -> Discovered:
        """The values of private columns whose noisy sums pass the query's threshold, with these sums."""
        if self._sample is not None:
            raise DpgmError("values are discovered in all rows, not in a sample of them.")
        if parallel.is_parallel() and self._rows_per_person > 1:
            raise UsageError("values of several rows per person are discovered by one process; run one process.")
        if query.rows != self._rows_per_person:
            raise DpgmError("the threshold was made for another number of rows per person.")
        query, noise = self._per_person(name, query, noise)
        call = Call(name, float(query.sensitivity), float(noise), delta=float(query.delta))
        std = noise_std(query, noise, self.randomness)
        self._charge(call)
        found = read_discovered(self._answer(call, query, None))
        self.released.append(ReleasedSum(name, torch.tensor(found.sums), std, labels=found.values))
        return found

    def _per_person(self, name: str, query: Q, noise: float) -> tuple[Q, float]:
        """By how much a person with all rows moves the query, and the multiplier that this leaves; noise is the same.

        Along K data sets, each with one row more, a sum moves by at most K times its sensitivity.
        """
        rows = self._rows_per_person
        if rows == 1:
            return query, noise
        entry = None if self._allowance is None else self._allowance.get(name)
        planned = entry is not None and noise == rows * entry.noise  # else a quotient would miss by its rounding
        multiplier = entry.noise if entry is not None and planned else noise / rows
        return replace(query, sensitivity=rows * query.sensitivity), multiplier

    def recode(self, derive: Callable[[Records], Records]) -> None:
        """Replace the rows by a public, record-wise recoding of them; later queries see the new rows alone."""
        with _silent():
            recoded = derive(self._records)
        if len(recoded) != len(self._records):
            raise DpgmError("a recoding must keep every record.")
        recoded.check()
        self._records = recoded

    @contextmanager
    def poisson(self, sample: str, rate: float) -> Iterator[None]:
        """Within the block every release sees one fresh Poisson sample of the rows, each name once."""
        if self._sample is not None:
            raise DpgmError("a Poisson sample is already open; samples do not nest.")
        if self._rows_per_person > 1:
            raise DpgmError("a Poisson sample of rows does not protect a person with several of them.")
        if not 0 < rate <= 1:
            raise UsageError(f"`rate` must be in (0, 1]; got {rate!r}.")
        self._sample = (sample, float(rate), self._coins(float(rate)))
        self._used_on_sample = set()
        self._step += 1
        try:
            yield
        finally:
            self._sample = None

    @property
    def spent(self) -> tuple[Mechanism, ...]:
        """The mechanisms that ran, in order of first use: what the certificate lists."""
        return tuple(
            Mechanism(name, noise, count, rate, sample, delta)
            for (name, noise, rate, sample, delta), count in self._spent.items()
        )

    def remaining(self, name: str) -> int | None:
        """How many more runs of this mechanism the plan pays for; None when the gateway is unmetered."""
        if self._allowance is None:
            return None
        entry = self._allowance.get(name)
        return 0 if entry is None else entry.count - self._runs_of(name)

    def assert_complete(self) -> None:
        """What ran is the plan, exactly."""
        if self._allowance is None:
            raise UsageError("this gateway has no plan to compare with.")
        for name, entry in self._allowance.items():
            runs = self._runs_of(name)
            if runs < entry.count:
                raise DpgmError(f"the release {name!r} ran {runs} times; the plan says {entry.count}.")

    # -- how the modes differ ------------------------------------------------------------------------------

    def _coins(self, rate: float) -> NDArray[np.int64]:
        return self._coins_ahead.sample((self._run << 32) + self._step, rate)

    def _answer(self, call: Call, query: Query, rows: NDArray[np.int64] | None) -> Tensor:
        return self._noisy(call, query, self._exact(query, rows))

    def _exact(self, query: Query, rows: NDArray[np.int64] | None) -> Tensor:
        """The query's value on this rank's rows."""
        with _silent():
            if isinstance(query, ThresholdQuery):
                self._labels, sums = query.sums_of_all(View(self._records, self._kept), self.randomness)
                return sums
            return query.compute(View(self._records, self._kept, rows, self._fill_normals))

    def _fill_normals(self, rows: NDArray[np.int64], out: Tensor) -> None:
        fill_with_normals(out, self.randomness)

    def _noisy(self, call: Call, query: Query, exact: Tensor) -> Tensor:
        if isinstance(query, ThresholdQuery):
            # Noise is drawn once, by the first process; what passes is what it says.
            if parallel.rank() > 0:
                return _as_tensor(parallel.bytes_from_first(b""))
            found = passed(self._labels, exact, query, call.noise, self.randomness)
            return _as_tensor(parallel.bytes_from_first(found.numpy().tobytes()))
        return add_noise(exact, query, call.noise, self.randomness)

    # -- the meter ---------------------------------------------------------------------------------------------

    def _charge(self, call: Call) -> None:
        key = (call.name, call.noise, call.sampling_rate, call.sample, call.delta)
        self._refuse_if_over(key, 1)
        if call.sample is not None:
            # Two runs of one mechanism on one sample would be accounted as two samples.
            if call.name in self._used_on_sample:
                raise BudgetError(f"the release {call.name!r} has already seen this sample.")
            self._used_on_sample.add(call.name)
        self._spent[key] += 1

    def _refuse_if_over(self, key: _Key, runs: int) -> None:
        if self._allowance is None:
            return
        name = key[0]
        entry = self._allowance.get(name)
        if entry is None:
            raise BudgetError(f"the release {name!r} is not in the plan.")
        if (entry.noise, entry.sampling_rate, entry.sample, entry.delta) != key[1:]:
            raise BudgetError(f"the release {name!r} differs from the plan in noise or sampling.")
        if self._spent[key] + runs > entry.count:
            raise BudgetError(f"the release {name!r} has used up its {entry.count} runs.")

    def _runs_of(self, name: str) -> int:
        return sum(count for key, count in self._spent.items() if key[0] == name)


class TraceGateway(Gateway):
    """Tests only: keeps every call with its exact and its noisy value. Never private.

    Args:
        records: the rows.
        randomness: as for `Gateway`.
        coins: `coins(step, rate)` gives the sampled row numbers instead of the sampler.
        normals: `normals(step, rows, width)` gives the secret draws of rows, one line per row, instead of the source:
            so that two data sets can share the draws of the records they share.
        tape: noisy values to answer with, while exact values are still computed on the rows at hand.
        allowance, rows_per_person: as for `Gateway`.

    Attributes:
        calls, queries, exact, tape, samples: one entry per release or Poisson sample; `exact` and `tape` are
            in the units of the query (grid applied).
        vocabularies: for a release of discovered values, by its place among the calls, what the exact sums belong to.
    """

    def __init__(
        self,
        records: Records,
        *,
        randomness: Randomness,
        coins: Callable[[int, float], Any] | None = None,
        normals: Callable[[int, NDArray[np.int64], int], Any] | None = None,
        tape: Sequence[Tensor] | None = None,
        allowance: Sequence[Mechanism] | None = None,
        rows_per_person: int = 1,
    ) -> None:
        super().__init__(records, randomness=randomness, allowance=allowance, rows_per_person=rows_per_person)
        self._injected, self._normals = coins, normals
        self._replay = None if tape is None else iter(list(tape))
        self.calls: list[Call] = []
        self.queries: list[Query] = []
        self.exact: list[Tensor] = []
        self.tape: list[Tensor] = []
        self.samples: list[NDArray[np.int64]] = []
        self.vocabularies: dict[int, tuple[Value, ...]] = {}

    def _coins(self, rate: float) -> NDArray[np.int64]:
        if self._injected is None:
            sample = super()._coins(rate)
        else:
            sample = np.asarray(self._injected(self._step, rate), dtype=np.int64)
        self.samples.append(sample)
        return sample

    def _fill_normals(self, rows: NDArray[np.int64], out: Tensor) -> None:
        if self._normals is None:
            super()._fill_normals(rows, out)
        else:
            out.copy_(torch.as_tensor(self._normals(self._step, rows, out.shape[1])))

    def _noisy(self, call: Call, query: Query, exact: Tensor) -> Tensor:
        self.calls.append(call)
        self.queries.append(query)
        if isinstance(query, ThresholdQuery):
            self.vocabularies[len(self.exact)] = tuple(self._labels)
        self.exact.append(exact.clone() if query.grid is None else exact.double() * query.grid)
        noisy = super()._noisy(call, query, exact) if self._replay is None else _next(self._replay, call)
        self.tape.append(noisy.clone())
        return noisy


class PlaybackGateway(Gateway):
    """No rows at all: answers from a tape. Everything downstream must not notice."""

    def __init__(
        self,
        tape: Sequence[Tensor],
        *,
        randomness: Randomness,
        allowance: Sequence[Mechanism] | None = None,
        rows_per_person: int = 1,
    ) -> None:
        super().__init__(
            None,  # type: ignore[arg-type]
            randomness=randomness,
            allowance=allowance,
            rows_per_person=rows_per_person,
        )
        self._replay = iter(list(tape))
        self.calls: list[Call] = []

    def keep(self, name: str, derive: Callable[[Records], Any]) -> None:
        """Nothing to derive from."""

    def recode(self, derive: Callable[[Records], Records]) -> None:
        """Nothing to recode."""

    def _coins(self, rate: float) -> NDArray[np.int64]:
        return np.empty(0, dtype=np.int64)

    def _answer(self, call: Call, query: Query, rows: NDArray[np.int64] | None) -> Tensor:
        self.calls.append(call)
        return _next(self._replay, call)


def _silent() -> np.errstate:
    """Silence numpy's warnings of overflow and division while rows are read: a warning would leak data."""
    return np.errstate(all="ignore")


def _as_tensor(data: bytes) -> Tensor:
    return torch.frombuffer(bytearray(data), dtype=torch.uint8)


def _next(tape: Iterator[Tensor], call: Call) -> Tensor:
    for value in tape:
        return value.clone()
    raise DpgmError(f"the tape has run out at {call.name!r}: more releases than were recorded.")
