"""Synthetic records: any number of them, in constant memory, over several cores, the same for the same seed.

Records are drawn in fixed chunks, each with its own generator derived from (seed, chunk), so that neither the number
of threads nor the way chunks are consumed changes what comes out. Sampling is post-processing and costs nothing.
"""

import os
import secrets
from collections import deque
from collections.abc import Iterator, Sequence
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
from dpgm.models.balance import MOST_RECORDS
from dpgm.models.products import Products
from dpgm.models.rounding import LARGEST
from dpgm.synthesis.context import Progress, silent
from dpgm.synthesis.generator import Generator

if TYPE_CHECKING:
    from dpgm.synthesis.release import Release

CHUNK = 16_384
MOST = 10_000_000_000
MISSING = "missing"  # what `--where field=missing` calls a missing value
_GOLDEN = (5**0.5 - 1) / 2  # its multiples are spread evenly over [0, 1)
RAREST = 1e-4  # acceptance below this is refused: a million draws for a hundred records


def sample_chunks(
    generator: Generator, count: int, *, seed: int | None = None, threads: int | None = None
) -> Iterator[Records]:
    """`count` synthetic records, in chunks."""
    validation.whole(records=count, at_least=0, at_most=MOST)
    _check_seed(seed)
    root = secrets.randbits(62) if seed is None else seed
    source = _Source(generator, count, root)
    sizes = [min(source.chunk, count - start) for start in range(0, count, source.chunk)]
    threads = min(threads or os.cpu_count() or 1, max(len(sizes), 1))

    def draw(number: int) -> Records:
        return source.draw(sizes[number], number)

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


class Conditioned:
    """Records that meet every condition `field=value`, found by drawing and keeping or not: exact.

    A condition met by fewer than one draw in ten thousand is refused.
    """

    def __init__(
        self, generator: Generator, domain: Domain, where: Sequence[str], *, seed: int | None = None
    ) -> None:
        _check_seed(seed)
        self._source = _Source(generator, MOST, secrets.randbits(62) if seed is None else seed)
        self._where = list(where)
        self._positions = [position_of(domain, condition) for condition in where]
        self._found = self._drawn = 0

    @property
    def rate(self) -> float:
        """The share of draws so far that met the conditions."""
        return self._found / self._drawn if self._drawn else 1.0

    def chunks(self, count: int) -> Iterator[Records]:
        """`count` records, in chunks."""
        number = given = 0
        while given < count:
            chunk = self._source.draw(self._source.chunk, number)
            number += 1
            hits = chunk.take(np.flatnonzero(_holds_all(chunk, self._positions)))
            self._drawn += len(chunk)
            self._found += len(hits)
            if self._drawn >= 10 / RAREST and self._found < self._drawn * RAREST:
                raise UsageError(
                    f"the condition {' and '.join(self._where)} holds for fewer than {RAREST:.2%} of synthetic "
                    f"records ({self._found} of {self._drawn}); ask for something less rare."
                )
            kept = hits.rows(0, min(len(hits), count - given))
            given += len(kept)
            if len(kept):
                yield kept


def sample_where(
    generator: Generator, domain: Domain, count: int, where: list[str], *, seed: int | None = None
) -> tuple[Records, float]:
    """`count` records that meet every condition `field=value`, and the share of draws that did."""
    conditioned = Conditioned(generator, domain, where, seed=seed)
    kept = list(conditioned.chunks(count))
    return (concatenate(kept) if kept else Records.from_lists([], domain)), conditioned.rate


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
    validation.whole(records=count, at_least=1, at_most=MOST)
    _check_seed(seed)
    conditioned = Conditioned(release.generator, release.domain, where, seed=seed) if where else None
    # Numbers within a bin are drawn by the writer, in the order of the records: reproducible with the seed, too.
    rng = np.random.default_rng(None if seed is None else [seed, 1])
    done = 0
    with RecordWriter(path, release.domain, shape=shape, rng=rng, force=force) as writer:
        drawn = (
            sample_chunks(release.generator, count, seed=seed) if conditioned is None else conditioned.chunks(count)
        )
        for chunk in drawn:
            writer.write(chunk)
            done += len(chunk)
            progress("sample", done, count)
    return None if conditioned is None else conditioned.rate


def position_of(domain: Domain, condition: str) -> int:
    """The position of the binary vector that a condition `field=value` (or an item or category alone) names.

    Names and labels may hold `=` themselves; a condition that can be read in two ways is refused.
    """
    found, numbers = set(), False
    for start, field in zip(domain.offsets, domain.fields, strict=True):
        named = condition.startswith(f"{field.name}=")
        if field.kind not in ("items", "categorical"):
            numbers = numbers or named
            continue
        labels = [str(label) for label in (field.items if field.kind == "items" else field.values)]
        if field.kind == "categorical" and field.missing and MISSING not in labels:
            labels.append(MISSING)
        for wanted in (condition, condition[len(field.name) + 1 :] if named else None):
            if wanted in labels:
                found.add(start + labels.index(wanted))
    if len(found) == 1:
        return found.pop()
    if found:
        raise UsageError(f"the condition {condition!r} can be read in several ways; write field=value.")
    if numbers:
        raise UsageError(
            f"the condition {condition!r} is on a field of numbers or pixels; use items or categories."
        )
    raise UsageError(
        f"the condition {condition!r} names no item or category of the domain; write field=value with a value it lists."
    )


def _evens_out(products: Products, count: int) -> bool:
    """Whether components leave nothing to chance and the sample is small enough to round it as a whole."""
    mean_length = float(products.weights @ products.probabilities.double().sum(dim=1))
    return products.settled and count * (1 + mean_length) <= LARGEST


class _Source:
    """Where chunks come from: few records are balanced over all of them, many come in small chunks."""

    def __init__(self, generator: Generator, count: int, root: int) -> None:
        products = generator if isinstance(generator, Products) else getattr(generator, "products", None)
        whole = products is not None and (count <= MOST_RECORDS or _evens_out(products, count))
        self.chunk = max(count, 1) if whole else CHUNK
        self._generator = products or generator
        self._parts: Products | None = None if whole else products
        self._root = root
        self._phase = float(np.random.default_rng(root).random())

    def draw(self, count: int, number: int) -> Records:
        """The records of chunk `number`."""
        draws = _generator(self._root, number)
        if self._parts is not None:
            return self._parts.sample_part(count, (self._phase + number * _GOLDEN) % 1, generator=draws)
        return self._generator.sample(count, generator=draws)


def _check_seed(seed: int | None) -> None:
    if seed is not None:
        validation.whole(seed=seed, at_least=0)


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
