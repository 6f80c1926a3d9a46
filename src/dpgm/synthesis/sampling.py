"""Synthetic records: any number of them, in constant memory, over several cores, the same for the same seed.

Records are drawn in fixed chunks, each with its own generator derived from (seed, chunk), so that neither the number
of threads nor the way chunks are consumed changes what comes out. Sampling is post-processing and costs nothing.
"""

import os
import secrets
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray

from dpgm import validation
from dpgm.data.domain import Domain
from dpgm.data.records import Records, concatenate
from dpgm.data.writers import RecordWriter
from dpgm.errors import UsageError
from dpgm.synthesis.generator import Generator
from dpgm.synthesis.surroundings import Progress, silent

if TYPE_CHECKING:
    from dpgm.synthesis.release import Release

CHUNK = 16_384
RAREST = 1e-4  # acceptance below this is refused: a million draws for a hundred records


def sample_chunks(
    generator: Generator, count: int, *, seed: int | None = None, threads: int | None = None
) -> Iterator[Records]:
    """`count` synthetic records, in chunks."""
    validation.whole(records=count, at_least=0)
    if seed is not None:
        validation.whole(seed=seed, at_least=0)
    root = secrets.randbits(62) if seed is None else seed
    sizes = [min(CHUNK, count - start) for start in range(0, count, CHUNK)]
    threads = min(threads or os.cpu_count() or 1, max(len(sizes), 1))

    def draw(number: int) -> Records:
        return generator.sample(sizes[number], generator=_generator(root, number))

    if threads == 1:
        yield from map(draw, range(len(sizes)))
        return
    with ThreadPoolExecutor(threads) as pool:
        waiting: deque[Future[Records]] = deque()
        for number in range(len(sizes)):
            waiting.append(pool.submit(draw, number))
            if len(waiting) > threads:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()


def sample(generator: Generator, domain: Domain, count: int, *, seed: int | None = None) -> Records:
    """`count` synthetic records in memory."""
    parts = list(sample_chunks(generator, count, seed=seed))
    return concatenate(parts) if parts else Records.from_lists([], domain)


def sample_where(
    generator: Generator, domain: Domain, count: int, where: list[str], *, seed: int | None = None
) -> tuple[Records, float]:
    """`count` records that meet every condition `field=value`, and the share of draws that did.

    Exact: records are drawn and kept or not. A condition met by fewer than one draw in ten thousand is refused.
    """
    positions = [position_of(domain, condition) for condition in where]
    root = secrets.randbits(62) if seed is None else seed
    kept: list[Records] = []
    found = drawn = number = 0
    while found < count:
        chunk = generator.sample(CHUNK, generator=_generator(root, number))
        number += 1
        hits = chunk.take(np.flatnonzero(_holds_all(chunk, positions)))
        drawn += len(chunk)
        found += len(hits)
        kept.append(hits)
        if drawn >= 10 / RAREST and found < drawn * RAREST:
            raise UsageError(
                f"the condition {' and '.join(where)} holds for fewer than {RAREST:.2%} of synthetic records "
                f"({found} of {drawn}); ask for something less rare."
            )
    joined = concatenate(kept) if kept else Records.from_lists([], domain)
    return joined.rows(0, count), (found / drawn if drawn else 1.0)


def write_sample(
    release: "Release",
    count: int,
    path: Path,
    *,
    seed: int | None = None,
    where: Sequence[str] = (),
    shape: str | None = None,
    force: bool = True,
    progress: Progress = silent,
) -> float | None:
    """Stream `count` synthetic records to a file; returns the acceptance rate of a condition, if there is one."""
    validation.whole(records=count, at_least=1)
    # Numbers within a bin are drawn by the writer, in the order of the records: reproducible with the seed, too.
    rng = np.random.default_rng(None if seed is None else [seed, 1])
    rate = None
    if where:
        records, rate = sample_where(release.generator, release.domain, count, list(where), seed=seed)
        chunks: Iterable[Records] = records.chunks(CHUNK)
    else:
        chunks = sample_chunks(release.generator, count, seed=seed)
    done = 0
    with RecordWriter(path, release.domain, shape=shape, rng=rng, force=force) as writer:
        for chunk in chunks:
            writer.write(chunk)
            done += len(chunk)
            progress("sample", done, count)
    return rate


def position_of(domain: Domain, condition: str) -> int:
    """The position of the binary vector that a condition `field=value` (or `item`) names."""
    name, equals, value = condition.partition("=")
    for start, field in zip(domain.offsets, domain.fields, strict=True):
        if equals and field.name != name:
            continue
        wanted = value if equals else condition
        if field.kind == "items":
            labels = [str(item) for item in field.items]
        elif field.kind == "categorical":
            labels = [str(item) for item in field.values]
        else:
            continue
        if wanted in labels:
            return start + labels.index(wanted)
    raise UsageError(
        f"the condition {condition!r} names no item or category of the domain; write field=value with a value it lists."
    )


def _holds_all(records: Records, positions: list[int]) -> NDArray[np.bool_]:
    holds = np.ones(len(records), dtype=bool)
    rows = np.repeat(np.arange(len(records)), records.lengths)
    for position in positions:
        has = np.zeros(len(records), dtype=bool)
        has[rows[records.indices == position]] = True
        holds &= has
    return holds


def _generator(root: int, number: int) -> torch.Generator:
    # SeedSequence spreads (seed, chunk) over 64 bits, so that neighbouring seeds share nothing.
    mixed = np.random.SeedSequence([root, number]).generate_state(1, np.uint64)[0]
    return torch.Generator().manual_seed(int(mixed))
