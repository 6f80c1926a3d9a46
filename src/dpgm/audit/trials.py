"""Fits with and without the canary, and the adversary's score of each from its released values alone.

The adversary knows the records, the canary, the code and the plan. It runs the same code on what it knows, the released
values answering every question, and so learns what the canary would have added to each released sum (v) and what the
others added. The score is the log-likelihood ratio of the noise: for a release of residual r and variance s²,

    l = (<r, v> - |v|² / 2) / s²

and for releases on one Poisson sample of rate q, log(1 - q + q exp(sum of l)). The others' coins are not known to it,
so of a sampled release it uses the coordinates that no other record can touch.
"""

import contextlib
import math
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dpgm.audit.configurations import CANARY, Configuration
from dpgm.data.records import Records, concatenate
from dpgm.mechanisms.gateway import Call, Gateway, TraceGateway
from dpgm.mechanisms.query import Query
from dpgm.mechanisms.randomness import Randomness, SystemRandomness
from dpgm.strategy.protocol import RunContext
from dpgm.synthesis.strategies import fit_generator

Progress = Callable[[int, int], None]
BATCH = 20  # fits that a process makes at a time


@dataclass(frozen=True)
class Trials:
    """Scores of fits without and with the canary, and everything that each of them released, one line per fit."""

    scores: tuple[NDArray[np.float64], NDArray[np.float64]]
    released: tuple[NDArray[np.float32], NDArray[np.float32]]


class ObservedGateway(Gateway):
    """A live gateway that writes down what leaves it: calls and noisy values."""

    def __init__(self, records: Records, **options: Any) -> None:
        super().__init__(records, **options)
        self.calls: list[Call] = []
        self.tape: list[Tensor] = []

    def _answer(self, call: Call, query: Query, rows: NDArray[np.int64] | None) -> Tensor:
        noisy = super()._answer(call, query, rows)
        self.calls.append(call)
        self.tape.append(noisy.clone())
        return noisy


class _Done(Exception):
    """Every released value has been answered for."""


class ReplayGateway(TraceGateway):
    """What the adversary runs: its own records, every coin on, answered by what was released; no longer than that."""

    def __init__(self, records: Records, *, tape: Sequence[Tensor], **options: Any) -> None:
        everybody = np.arange(len(records))
        super().__init__(records, tape=tape, coins=lambda step, rate: everybody, **options)
        self._answers = len(tape)

    def run(self, fit: Callable[[], object]) -> None:
        """Run a fit up to its last release."""
        with contextlib.suppress(_Done):
            fit()

    def _noisy(self, call: Call, query: Query, exact: Tensor) -> Tensor:
        noisy = super()._noisy(call, query, exact)
        if len(self.exact) == self._answers:
            raise _Done
        return noisy


@contextlib.contextmanager
def processes(workers: int) -> Iterator[Executor | None]:
    """Processes that make fits, for as long as the block runs; None where one is enough, which is this one."""
    if workers <= 1:
        yield None
        return
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn"), initializer=_one_thread) as pool:
        yield pool


def run_trials(
    configuration: Configuration, fits: int, *, pool: Executor | None = None, progress: Progress | None = None
) -> Trials:
    """`fits` fits without the canary and as many with it, by the processes of a pool or by this one."""
    batches = [
        (configuration, member, min(BATCH, fits - start))
        for start in range(0, fits, BATCH)
        for member in (False, True)
    ]
    made: list[tuple[list[float], list[NDArray[np.float32]]]] = []
    arguments = zip(*batches, strict=True)
    for result in map(_batch, *arguments) if pool is None else pool.map(_batch, *arguments):
        made.append(result)
        _tell(progress, len(made), len(batches))
    arms = [made[0::2], made[1::2]]  # batches alternate
    scores = [np.array([score for part, _ in arm for score in part]) for arm in arms]
    lines = [[line for _, part in arm for line in part] for arm in arms]
    width = max(len(line) for arm in lines for line in arm)
    released = [np.stack([np.pad(line, (0, width - len(line))) for line in arm]) for arm in lines]
    return Trials((scores[0], scores[1]), (released[0], released[1]))


def _tell(progress: Progress | None, done: int, total: int) -> None:
    if progress is not None:
        progress(done, total)


def _one_thread() -> None:
    torch.set_num_threads(1)


def _batch(configuration: Configuration, member: bool, fits: int) -> tuple[list[float], list[NDArray[np.float32]]]:
    scores, lines = [], []
    for _ in range(fits):
        score, line = one_fit(configuration, member)
        scores.append(score)
        lines.append(line)
    return scores, lines


def one_fit(configuration: Configuration, member: bool) -> tuple[float, NDArray[np.float32]]:
    """One fit, the adversary's score, and all numbers that left the fit: noisy values and the generator."""
    records = concatenate([configuration.records, CANARY]) if member else configuration.records
    randomness = SystemRandomness()
    public_seed = int(randomness.draws().initial_seed())
    gateway = ObservedGateway(records, randomness=randomness, allowance=configuration.plan.mechanisms)
    state = _fit(gateway, configuration, public_seed)
    canary = _exact(configuration, CANARY, gateway.tape, public_seed, randomness)
    others = _exact(configuration, configuration.records, gateway.tape, public_seed, randomness)
    numbers = [*gateway.tape, *(state[name] for name in sorted(state))]
    line = np.concatenate([number.detach().cpu().numpy().astype(np.float32).ravel() for number in numbers])
    return score_of(gateway.calls, gateway.tape, canary, others), line


def score_of(
    calls: Sequence[Call], noisy: Sequence[Tensor], canary: Sequence[Tensor], others: Sequence[Tensor]
) -> float:
    """The log-likelihood ratio of "the canary is in the data" against "it is not"."""
    total, steps = 0.0, [0.0]
    name_before: set[str] = set()
    rate = 1.0
    for call, value, moved, rest in zip(calls, noisy, canary, others, strict=True):
        residual, moved = value.double() - rest, moved.double()
        variance = (call.noise * call.sensitivity) ** 2
        sampled = call.sample is not None and call.sampling_rate < 1
        if sampled and bool((rest != 0).any()):
            own = rest == 0
            residual, moved = value.double()[own], moved[own]
        ratio = float((residual * moved).sum() - moved.square().sum() / 2) / variance
        if not sampled:
            total += ratio
            continue
        rate = call.sampling_rate
        if call.name in name_before:  # another step begins
            steps.append(0.0)
            name_before = set()
        name_before.add(call.name)
        steps[-1] += ratio
    return total + sum(
        math.log1p(-rate + rate * math.exp(min(step, 700.0))) if rate < 1 else step for step in steps
    )


def _fit(gateway: Gateway, configuration: Configuration, public_seed: int) -> dict[str, Tensor]:
    generator = fit_generator(
        gateway,
        configuration.plan,
        configuration.records.domain,
        draws=torch.Generator().manual_seed(public_seed),
        context=RunContext(),
    )
    gateway.assert_complete()
    return generator.state()


def _exact(
    configuration: Configuration, records: Records, tape: Sequence[Tensor], public_seed: int, randomness: Randomness
) -> list[Tensor]:
    """What these records add to every release, given what was released; secret draws of records averaged out."""
    if len(records) == 0:
        return [torch.zeros_like(value, dtype=torch.float64) for value in tape]
    copies = concatenate([records] * configuration.copies)
    gateway = ReplayGateway(copies, tape=tape, randomness=randomness, allowance=configuration.plan.mechanisms)
    gateway.run(lambda: _fit(gateway, configuration, public_seed))
    return [value.double() / configuration.copies for value in gateway.exact]
