"""Playback: everything a run makes is a function of the noisy values alone."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import torch

from dpgm.data.records import Records
from dpgm.mechanisms.gateway import Gateway, PlaybackGateway, TraceGateway
from dpgm.mechanisms.randomness import SeededRandomness
from dpgm.privacy.events import Mechanism

# Runs a stage against a gateway and returns everything it made: nested dicts, lists, dataclasses, tensors, arrays,
# generators, strings and numbers, internal state included.
Run: TypeAlias = Callable[[Gateway], Any]


def require(condition: bool, message: str) -> None:
    """Raise AssertionError with a message unless the condition holds, under `python -O` as well."""
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
    """One tape, no data or any data: the same state, bit for bit.

    The tape is recorded on datasets[0]; the run is repeated without data, and, the tape still answering, on
    every other data set and (with_empty) on no rows at all. Pass data sets of different sizes.

    Args:
        run: the stage; it returns everything it made, internal state included.
        datasets: the first is recorded, the others must not matter.
        tapes: how many tapes are recorded.
        seed: of the first tape.
        allowance: the mechanisms of the plan, if the stage asks a metered gateway.
        with_empty: also on no rows at all.

    Raises:
        AssertionError: the state or the list of calls depends on the data.
    """
    others = [*datasets, datasets[0].rows(0, 0)] if with_empty else list(datasets)
    for number in range(seed, seed + tapes):
        traced = TraceGateway(datasets[0], randomness=SeededRandomness(number), allowance=allowance)
        expected = run(traced)
        require(bool(traced.calls), "the run released nothing, so there is nothing to check")
        played = PlaybackGateway(traced.tape, randomness=SeededRandomness(number), allowance=allowance)
        _assert_same(expected, run(played), "without data")
        require(played.calls == traced.calls, "the list of calls differs without data")
        for index, records in enumerate(others):
            again = TraceGateway(
                records, randomness=SeededRandomness(number), tape=traced.tape, allowance=allowance
            )
            _assert_same(expected, run(again), f"on data set {index}")
            require(again.calls == traced.calls, f"the list of calls differs on data set {index}")


def _assert_same(expected: Any, got: Any, where: str) -> None:
    found = differences(expected, got)
    require(not found, f"the state differs {where}, though the noisy values are the same: {', '.join(found[:8])}")


def differences(a: Any, b: Any, path: str = "state") -> list[str]:
    """Paths at which two states differ in any bit."""
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
    if isinstance(a, torch.Generator):
        return differences(a.get_state(), b.get_state(), path)
    if dataclasses.is_dataclass(a):
        names = [field.name for field in dataclasses.fields(a)]
        return [
            found for name in names for found in differences(getattr(a, name), getattr(b, name), f"{path}.{name}")
        ]
    if isinstance(a, Mapping):
        if list(a) != list(b):
            return [f"{path} (keys)"]
        return [found for key in a for found in differences(a[key], b[key], f"{path}[{key!r}]")]
    if isinstance(a, (list, tuple)):
        if len(a) != len(b):
            return [f"{path} (length)"]
        return [
            found for i, pair in enumerate(zip(a, b, strict=True)) for found in differences(*pair, f"{path}[{i}]")
        ]
    if isinstance(a, (str, bytes, bytearray, int, type(None))):
        return [] if a == b else [path]
    if isinstance(a, (float, complex)):
        return [] if repr(a) == repr(b) else [path]
    if hasattr(a, "__dict__"):
        return differences(vars(a), vars(b), path)
    raise TypeError(f"cannot compare {type(a).__name__} at {path}; return plain values")
