"""Checks by replaying a tape of noisy values: without data, on other data, and on neighbouring data.

Playback: everything that a run makes is a function of the noisy values only.

Coupled runs: two runs with the same noisy values, coins and secret draws, one of them with one more record (or one more
person, with all of their records). Coins and secret draws belong to records, not to row numbers: the records that D and
D + x share have the same ones, wherever x is added. So any difference between the two runs is due to x.
"""

import dataclasses
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
import pyarrow as pa
import torch
from numpy.typing import NDArray

from dpgm.data.records import Records, concatenate
from dpgm.mechanisms.gateway import Call, Gateway, PlaybackGateway, TraceGateway
from dpgm.mechanisms.randomness import SeededRandomness
from dpgm.privacy.events import Mechanism

# Runs a stage against a gateway and returns everything it made, including internal state: nested dicts, lists,
# dataclasses, tensors, arrays, generators, strings and numbers.
Run: TypeAlias = Callable[[Gateway], Any]
Rows: TypeAlias = NDArray[np.int64]
Position: TypeAlias = Literal["first", "middle", "last"]
POSITIONS: tuple[Position, ...] = get_args(
    Position
)  # where a record is added: a fault may show at one of them only


def require(condition: bool, message: str) -> None:
    """Raise AssertionError with a message unless the condition holds; works under `python -O` as well."""
    if not condition:
        raise AssertionError(message)


def assert_playback_invariant(
    run: Run,
    datasets: Sequence[Records],
    *,
    tapes: int = 3,
    seed: int = 0,
    allowance: Sequence[Mechanism] | None = None,
    with_empty: bool = True,
) -> None:
    """With the same noisy values, a run makes the same state bit for bit, without data or on any data.

    Args:
        run: the stage; it returns everything it made, including internal state.
        datasets: a tape is recorded on the first; the run is then repeated with the answers of the tape, without data
            and on all of these. Pass data sets of different sizes.
        tapes: number of tapes.
        seed: seed of the first tape.
        allowance: the mechanisms of the plan, if the stage needs a metered gateway.
        with_empty: repeat the run on an empty data set as well.

    Raises:
        AssertionError: the state or the list of calls depends on the data.
    """
    others = [*datasets, datasets[0].rows(0, 0)] if with_empty else datasets
    for number in range(seed, seed + tapes):
        traced = TraceGateway(datasets[0], randomness=SeededRandomness(number), allowance=allowance)
        expected = run(traced)
        require(bool(traced.calls), "the run released nothing, so there is nothing to check")
        for index in range(-1, len(others)):
            source, tape = SeededRandomness(number), traced.tape
            again: PlaybackGateway | TraceGateway
            if index < 0:
                where, again = "without data", PlaybackGateway(tape, randomness=source, allowance=allowance)
            else:
                where = f"on data set {index}"
                again = TraceGateway(others[index], randomness=source, tape=tape, allowance=allowance)
            found = ", ".join(differences(expected, run(again))[:8])
            require(not found, f"the state differs {where}, though the noisy values are the same: {found}")
            require(again.calls == traced.calls, f"the list of calls differs {where}")


def differences(a: Any, b: Any, path: str = "state") -> list[str]:
    """The paths at which two states differ in any bit."""
    if type(a) is not type(b):
        return [f"{path} (type)"]
    if isinstance(a, torch.Tensor):
        a, b = a.detach().cpu(), b.detach().cpu()
        if a.dtype != b.dtype or a.shape != b.shape:
            return [f"{path} (shape or dtype)"]
        bits = [each.contiguous().reshape(-1).view(torch.uint8) for each in (a, b)]
        return [] if torch.equal(*bits) else [path]
    if isinstance(a, (np.ndarray, np.generic)):
        same = a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()
        return [] if same else [path]
    if isinstance(a, pa.Table):
        return [] if a.equals(b) else [path]
    if isinstance(a, torch.Generator):
        return differences(a.get_state(), b.get_state(), path)
    if dataclasses.is_dataclass(a):
        names = [field.name for field in dataclasses.fields(a)]
        parts = [(getattr(a, name), getattr(b, name), f"{path}.{name}") for name in names]
        return [found for part in parts for found in differences(*part)]
    if isinstance(a, Mapping):
        if list(a) != list(b):
            return [f"{path} (keys)"]
        return [found for key in a for found in differences(a[key], b[key], f"{path}[{key!r}]")]
    if isinstance(a, (list, tuple)):
        if len(a) != len(b):
            return [f"{path} (length)"]
        return [found for at in range(len(a)) for found in differences(a[at], b[at], f"{path}[{at}]")]
    if isinstance(a, (str, bytes, bytearray, int, type(None))):
        return [] if a == b else [path]
    if isinstance(a, (float, complex)):
        return [] if repr(a) == repr(b) else [path]
    if hasattr(a, "__dict__"):
        return differences(vars(a), vars(b), path)
    raise TypeError(f"cannot compare {type(a).__name__} at {path}; return plain values")


def sensitivity_ratios(
    run: Run,
    records: Records,
    record_to_add: Records,
    *,
    positions: Sequence[Position] = POSITIONS,
    seed: int = 0,
    rounding: float = 0.0,
    allowance: Sequence[Mechanism] | None = None,
    rows_per_person: int = 1,
) -> dict[str, float]:
    """The largest ||exact(D) - exact(D + x)|| / sensitivity of every release, by name; x is always sampled.

    Args:
        run: the stage.
        records: the data set D.
        record_to_add: x, one record; or up to `rows_per_person` records of one person.
        positions: where x is added; the largest ratio counts.
        seed: seed of noise, coins and secret draws.
        rounding: `rounding` x ||exact|| is subtracted from the distance: float32 sums of many rows differ in their last
            bits in any case (2e-7 to 1e-6 is right for them; integers need none).
        allowance: the mechanisms of the plan, if the stage needs a metered gateway.
        rows_per_person: as for `Gateway`; sensitivities are then relative to a person.

    Raises:
        AssertionError: one more record changes the list of calls, a shape, or another record's private column.
    """
    ratios: dict[str, float] = defaultdict(float)
    pairs = _neighbours(run, records, record_to_add, positions, True, seed, allowance, rows_per_person)
    for without, with_it in pairs:
        for at, (call, a, b) in enumerate(zip(with_it.calls, without.exact, with_it.exact, strict=True)):
            if at in with_it.vocabularies:  # private lists of values; the sum of an absent value is 0
                a, b = _aligned(without.vocabularies[at], a, with_it.vocabularies[at], b)
            require(a.shape == b.shape, f"{call.name}: one more record changes the shape")
            a, b = a.double(), b.double()
            distance = torch.linalg.vector_norm(a - b).item() - rounding * torch.linalg.vector_norm(a).item()
            require(distance == distance, f"{call.name}: one more record makes the exact value not finite")
            ratios[call.name] = max(ratios[call.name], distance / call.sensitivity)
    return dict(ratios)


def assert_bounded(
    run: Run,
    records: Records,
    record_to_add: Records,
    *,
    positions: Sequence[Position] = POSITIONS,
    seed: int = 0,
    tolerance: float = 1e-6,
    rounding: float = 0.0,
    allowance: Sequence[Mechanism] | None = None,
    rows_per_person: int = 1,
) -> float:
    """No query changes by more than its sensitivity if one record is added; arguments as for `sensitivity_ratios`.

    Returns:
        The largest ratio, so that a test can require that the bound is nearly reached: else it proves little.

    Raises:
        AssertionError: a query changes by more than (1 + tolerance) x its sensitivity.
    """
    ratios = sensitivity_ratios(
        run,
        records,
        record_to_add,
        positions=positions,
        seed=seed,
        rounding=rounding,
        allowance=allowance,
        rows_per_person=rows_per_person,
    )
    for name, ratio in ratios.items():
        require(ratio <= 1 + tolerance, f"{name}: one record moves it by {ratio:.6f} x the declared sensitivity")
    return max(ratios.values())


def assert_coin_off(
    run: Run,
    records: Records,
    record_to_add: Records,
    *,
    positions: Sequence[Position] = POSITIONS,
    seed: int = 0,
    allowance: Sequence[Mechanism] | None = None,
) -> None:
    """A record that is not in the sample changes no query on the sample by a single bit.

    Raises:
        AssertionError: it does, or the run makes no release on a Poisson sample.
    """
    sampled = 0
    for without, with_it in _neighbours(run, records, record_to_add, positions, False, seed, allowance):
        for call, a, b in zip(with_it.calls, without.exact, with_it.exact, strict=True):
            if call.sample is not None and call.sampling_rate < 1:
                sampled += 1
                require(torch.equal(a, b), f"{call.name}: a record outside the sample moves it")
    require(sampled > 0, "the run made no release on a Poisson sample")


def _aligned(
    values: Sequence[Any], sums: torch.Tensor, other_values: Sequence[Any], other_sums: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Two vectors of sums, each extended to the values of both."""
    one = dict(zip(values, sums.tolist(), strict=True))
    other = dict(zip(other_values, other_sums.tolist(), strict=True))
    both = sorted({*one, *other}, key=repr)
    return torch.tensor([one.get(v, 0.0) for v in both]), torch.tensor([other.get(v, 0.0) for v in both])


def _neighbours(
    run: Run,
    records: Records,
    extra: Records,
    positions: Sequence[Position],
    sampled: bool,
    seed: int,
    allowance: Sequence[Mechanism] | None,
    rows_per_person: int = 1,
) -> Iterator[tuple[TraceGateway, TraceGateway]]:
    """Traces of D and D + x with the same tape, coins and secret draws, for every position of x."""
    added = len(extra)
    require(1 <= added <= rows_per_person, "exactly one record is added, or at most those that a person may have")
    rows = len(records)

    # Labels of records: 0 .. rows - 1 in D, and from `rows` on for those added.
    def trace(data: Records, labels: Rows, tape: Sequence[torch.Tensor] | None) -> TraceGateway:
        padded_labels = np.append(labels, rows + added)  # the last is for padding rows of a batch

        def coins(step: int, rate: float) -> Rows:
            if rate >= 1:
                return np.arange(len(labels))
            tossed = np.append(np.random.default_rng([seed, step]).random(rows) < rate, np.full(added, sampled))
            return np.flatnonzero(tossed[labels])

        def normals(step: int, taken: Rows, width: int) -> NDArray[np.float64]:
            table = np.random.default_rng([seed, step, 1]).standard_normal((rows + added + 1, width))
            return np.take(table, padded_labels[taken], axis=0)

        traced = TraceGateway(
            data,
            randomness=SeededRandomness(seed),
            coins=coins,
            normals=normals,
            tape=tape,
            allowance=allowance,
            rows_per_person=rows_per_person,
        )
        run(traced)
        return traced

    without = trace(records, np.arange(rows), None)
    require(bool(without.calls), "the run released nothing, so there is nothing to check")
    places = {"first": 0, "middle": rows // 2, "last": rows}
    for place in sorted({places[position] for position in positions}):
        longer = concatenate([records.rows(0, place), extra, records.rows(place, rows)])
        with_it = trace(longer, np.insert(np.arange(rows), place, rows + np.arange(added)), without.tape)
        if without.calls != with_it.calls:
            change = _first_difference(without.calls, with_it.calls)
            raise AssertionError(f"one more record changes the list of calls: {change}")
        for name, column in without._kept.items():
            _assert_record_wise(name, column, with_it._kept[name], rows, place, added)
        yield without, with_it


def _assert_record_wise(name: str, column: Any, longer: Any, rows: int, place: int, added: int) -> None:
    """The entry of a record in a private column does not depend on other records (up to rounding of floats)."""
    if not isinstance(column, (torch.Tensor, np.ndarray)) or (len(column), len(longer)) != (rows, rows + added):
        return
    a, b = torch.as_tensor(column), torch.as_tensor(longer)
    b = torch.cat([b[:place], b[place + added :]])
    same = torch.allclose(a, b, rtol=1e-4, atol=1e-5) if a.is_floating_point() else torch.equal(a, b)
    require(same, f"the private column {name!r} is not record-wise: one more record changes the entries of others")


def _first_difference(a: Sequence[Call], b: Sequence[Call]) -> str:
    for one, other in zip(a, b, strict=False):
        if one != other:
            return f"{one} against {other}"
    return f"{len(a)} calls against {len(b)}"
