"""Trials of the audit: fits with and without the canary, made as a user makes them, and an adversary's score of each.

A trial runs `Synthesizer.fit` and keeps its certificate, what the gateway released and the generator. Two things differ
from a user's fit. The gateway notes what it releases (`TraceGateway`). And the number of records is told, the same with
and without the canary, since it is public: otherwise it would give the canary away.

The adversary knows the other records, the canary, the code and the plan. It replays the fit on the records it knows,
with the released values in place of noisy sums, and so computes what the canary would have added to each release (v)
and what the others added. Its score is the log-likelihood ratio: for a release with residual r and noise variance s²,

    l = (<r, v> - |v|² / 2) / s²

If the noise is as declared, l has the law N(±d²/2, d²), with d = |v| / s, whatever was released before. For releases on
one Poisson sample of rate q the score is log(1 - q + q exp(sum of l)). The adversary does not know which other records
were sampled, so from sampled releases it uses only the coordinates to which no other record contributes. Of discovered
values it uses the published sums; a value that is published though nobody else holds it gives the canary away.
"""

import contextlib
import math
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from typing import Any, TypeAlias
from unittest.mock import patch

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dpgm.audit.configurations import Configuration
from dpgm.data.records import Records, concatenate
from dpgm.kernels import parallel
from dpgm.mechanisms.gateway import Call, TraceGateway
from dpgm.mechanisms.query import Query
from dpgm.mechanisms.randomness import Randomness, SystemRandomness
from dpgm.mechanisms.threshold import Value, read_discovered
from dpgm.privacy.certificate import Certificate
from dpgm.strategy.protocol import Progress, RunContext, silent
from dpgm.synthesis import books
from dpgm.synthesis.domain_discovery import discover_domain
from dpgm.synthesis.plan import Plan
from dpgm.synthesis.strategies import fit_generator
from dpgm.synthesis.synthesizer import Synthesizer

# What records add to a release; to discovered values, by value.
Sums: TypeAlias = Tensor | dict[Value, float]
FITS_PER_TASK = 20  # fits per task of a process
CERTAIN = 700.0  # the score of a release that only the canary explains: the largest exponent of a double


@dataclass(frozen=True)
class Score:
    """The log-likelihood ratio of one release, and d²: how far the canary moves it, relative to the noise."""

    name: str
    ratio: float
    energy: float


@dataclass(frozen=True)
class Trial:
    """One fit: the score of the whole, of each release whose law is known, all released numbers, the certificate."""

    score: float
    scores: tuple[Score, ...]
    released: NDArray[np.float32]
    certificate: Certificate


@dataclass(frozen=True)
class Trials:
    """Fits without and with the canary: scores, and all numbers that each fit released, one row per fit."""

    scores: tuple[NDArray[np.float64], NDArray[np.float64]]
    released: tuple[NDArray[np.float32], NDArray[np.float32]]
    # Scores of single releases by mechanism: a row (1 or -1 for with or without the canary, ratio, energy) for each.
    mechanisms: dict[str, NDArray[np.float64]]
    certificates: tuple[Certificate, ...]  # all that differ in what they claim


# -- one fit -------------------------------------------------------------------------------------------------------


def one_fit(configuration: Configuration, member: bool) -> Trial:
    """Fit with or without the canary, and score what was released."""
    data = [configuration.records, configuration.canary] if member else [configuration.records]
    randomness = SystemSource()
    with _traced(configuration.plan) as gateways:
        model = configuration.plan.settings.model
        fitted = Synthesizer(model=model, device="cpu", randomness=randomness)
        fitted.fit(concatenate(data), plan=configuration.plan, source=configuration.source)
    (gateway,) = gateways
    added, rest = (
        replayed(configuration, known, gateway.tape, randomness)
        for known in (configuration.canary, configuration.records)
    )
    state = fitted.generator_.state()
    numbers = [*gateway.tape, *(state[name] for name in sorted(state))]
    row = np.concatenate([number.detach().cpu().numpy().astype(np.float32).ravel() for number in numbers])
    total, scores = scores_of(gateway.calls, gateway.tape, added, rest)
    if configuration.copies > 1:  # secret draws of the other records add to the noise: no law is known
        scores = ()
    return Trial(total, scores, row, fitted.certificate_)


class PublicSeed(Randomness):
    """A source that remembers the seed of its public draws, which the adversary may know."""

    public_seed = 0

    def draws(self, device: torch.device | str = "cpu") -> torch.Generator:
        """As always."""
        drawn = super().draws(device)
        self.public_seed = drawn.initial_seed()
        return drawn


class SystemSource(PublicSeed, SystemRandomness):
    """The source of a user's fit."""


@contextlib.contextmanager
def _traced(plan: Plan) -> Iterator[list[TraceGateway]]:
    """The gateways that fits open meanwhile; the number of records is the plan's."""
    opened: list[TraceGateway] = []

    def trace(records: Records, *, first_row: int, already_spent: Sequence[Any], **options: Any) -> TraceGateway:
        opened.append(TraceGateway(records, **options))
        return opened[-1]

    told = patch.object(parallel, "total_rows", lambda rows: plan.records)
    with patch.object(books, "Gateway", trace), told:
        yield opened


# -- the adversary -------------------------------------------------------------------------------------------------


class _Done(Exception):
    """All released values have been replayed."""


class ReplayGateway(TraceGateway):
    """The adversary's gateway: its own records, all of them in every sample, with the released values as answers."""

    def __init__(self, records: Records, *, tape: Sequence[Tensor], **options: Any) -> None:
        everybody = np.arange(len(records))
        super().__init__(records, tape=tape, coins=lambda step, rate: everybody, **options)
        self._answers = len(tape)

    def run(self, fit: Callable[[], object]) -> None:
        """Run a fit until its last release."""
        with contextlib.suppress(_Done):
            fit()

    def _noisy(self, call: Call, query: Query, exact: Tensor) -> Tensor:
        noisy = super()._noisy(call, query, exact)
        if len(self.exact) == self._answers:
            raise _Done
        return noisy


def replayed(
    configuration: Configuration, records: Records, tape: Sequence[Tensor], randomness: PublicSeed
) -> list[Sums]:
    """What these records add to every release, given the released values, averaged over secret draws of records.

    Sums of values to be discovered are by value.
    """
    plan, copies = configuration.plan, configuration.copies
    if len(records) == 0:
        return [torch.zeros_like(value, dtype=torch.float64) for value in tape]
    draws = torch.Generator().manual_seed(randomness.public_seed)
    gateway = ReplayGateway(
        concatenate([records] * copies),
        tape=tape,
        randomness=randomness,
        allowance=plan.mechanisms,
        rows_per_person=plan.rows_per_person,
    )

    def fit() -> None:
        found = discover_domain(gateway, plan, records.domain)
        fit_generator(gateway, plan, found.domain, draws=draws, context=RunContext(pilot=found.sums))

    gateway.run(fit)
    sums: list[Sums] = [value.double() / copies for value in gateway.exact]
    for at, values in gateway.vocabularies.items():
        sums[at] = dict(zip(values, gateway.exact[at].tolist(), strict=True))
    return sums


def scores_of(
    calls: Sequence[Call],
    noisy: Sequence[Tensor],
    canary: Sequence[Sums],
    others: Sequence[Sums],
) -> tuple[float, tuple[Score, ...]]:
    """The log-likelihood ratio of "the canary is in the data" against "it is not", and those of single releases."""
    total, steps, rate = 0.0, [0.0], 1.0
    seen: set[str] = set()
    scores = []
    for call, value, added, rest in zip(calls, noisy, canary, others, strict=True):
        if isinstance(added, Tensor) and isinstance(rest, Tensor):
            score = _score_of_sums(call, value.double() - rest, added, rest)
        else:
            score = _score_of_values(call, value, dict(added), dict(rest))
        if call.sampling_rate == 1:
            total += score.ratio
            scores.append(score)
            continue
        rate = call.sampling_rate
        if call.name in seen:  # the next step begins
            steps.append(0.0)
            seen.clear()
        seen.add(call.name)
        steps[-1] += score.ratio
    total += sum(math.log1p(-rate + rate * math.exp(min(step, CERTAIN))) for step in steps)
    return total, tuple(scores)


def _score_of_sums(call: Call, residual: Tensor, added: Tensor, rest: Tensor) -> Score:
    if call.sampling_rate < 1:
        own = rest == 0
        residual, added = residual[own], added[own]
    variance = (call.noise * call.sensitivity) ** 2
    energy = float(added.square().sum())
    return Score(call.name, (float((residual * added).sum()) - energy / 2) / variance, energy / variance)


def _score_of_values(call: Call, answer: Tensor, added: dict[Value, float], rest: dict[Value, float]) -> Score:
    """Of published sums: those of values that others hold too, and those that only the canary explains."""
    found = read_discovered(answer)
    published = dict(zip(found.values, found.sums, strict=True))
    common = [value for value in published if value in rest]
    residual, moved, sums = (
        torch.tensor([of(value) for value in common], dtype=torch.float64)
        for of in (lambda v: published[v] - rest[v], lambda v: added.get(v, 0.0), rest.__getitem__)
    )
    score = _score_of_sums(call, residual, moved, sums)
    betrayed = any(value in added and value not in rest for value in published)
    return Score(call.name, score.ratio + CERTAIN * betrayed, score.energy)


# -- many fits -----------------------------------------------------------------------------------------------------


def processes(workers: int) -> contextlib.AbstractContextManager[Executor | None]:
    """A context with a pool of processes that make fits, or with None if this process is enough."""
    if workers <= 1:
        return contextlib.nullcontext()
    context = get_context("spawn")
    return ProcessPoolExecutor(workers, context, initializer=torch.set_num_threads, initargs=(1,))


def run_trials(
    configuration: Configuration, fits: int, *, pool: Executor | None = None, progress: Progress = silent
) -> Trials:
    """Make `fits` fits without the canary and as many with it, in the processes of a pool or in this process."""
    batches = [
        (configuration, member, min(FITS_PER_TASK, fits - start))
        for start in range(0, fits, FITS_PER_TASK)
        for member in (False, True)
    ]
    done = []
    arguments = zip(*batches, strict=True)
    for result in map(_batch, *arguments) if pool is None else pool.map(_batch, *arguments):
        done.append(result)
        progress(configuration.name, len(done), len(batches))
    return gathered(*([trial for batch in done[start::2] for trial in batch] for start in (0, 1)))


def gathered(without: Sequence[Trial], with_it: Sequence[Trial]) -> Trials:
    """The trials of both kinds as arrays."""
    arms = (without, with_it)
    width = max(len(trial.released) for arm in arms for trial in arm)
    released = [np.stack([np.pad(t.released, (0, width - len(t.released))) for t in arm]) for arm in arms]
    mechanisms: dict[str, list[tuple[float, float, float]]] = {}
    claims: dict[tuple[Any, ...], Certificate] = {}
    for sign, arm in zip((-1.0, 1.0), arms, strict=True):
        for trial in arm:
            one = trial.certificate
            claims[(one.epsilon, one.delta, one.mechanisms)] = one
            for score in trial.scores:
                mechanisms.setdefault(score.name, []).append((sign, score.ratio, score.energy))
    scores = [np.array([trial.score for trial in arm]) for arm in arms]
    return Trials(
        (scores[0], scores[1]),
        (released[0], released[1]),
        {name: np.array(rows) for name, rows in mechanisms.items()},
        tuple(claims.values()),
    )


def _batch(configuration: Configuration, member: bool, fits: int) -> list[Trial]:
    return [one_fit(configuration, member) for _ in range(fits)]
