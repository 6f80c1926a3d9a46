"""Sampling synthetic records in constant memory, on several cores, reproducibly for a given seed.

Records are drawn in chunks of a fixed size, each with a random generator derived from (seed, chunk number), so that
neither the number of threads nor the way chunks are consumed changes the result. Sampling is post-processing and costs
no budget.
"""

import os
import secrets
import warnings
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from typing import IO, TYPE_CHECKING, Any

import numpy as np
import torch

from dpgm import validation
from dpgm.data.conditions import Condition, Rule, Unique, Values, fields_of, numbers_of, truth
from dpgm.data.decoding import decode
from dpgm.data.domain import Domain
from dpgm.data.encoding import TableEncoder
from dpgm.data.layouts import Layout
from dpgm.data.read.declared import Paths
from dpgm.data.records import Records, concatenate
from dpgm.data.writers import record_writers
from dpgm.errors import UsageError
from dpgm.strategy.protocol import Generator, Progress, silent
from dpgm.synthesis.conditioning import Where, condition_generator, parse_where

if TYPE_CHECKING:
    from dpgm.synthesis.release import Release

SAMPLED_AT_ONCE = 16_384
MOST = 10_000_000_000
_GOLDEN = (5**0.5 - 1) / 2  # its multiples modulo 1 are spread evenly over [0, 1)
WARN_FROM = 0.1  # share of draws rejected by constraints from which a warning is given
LOWEST_ACCEPTANCE = 1e-4  # lowest acceptance rate: below it, a hundred records would take a million draws


def sample_chunks(
    generator: Generator, count: int, *, seed: int | None = None, threads: int | None = None
) -> Iterator[Records]:
    """`count` synthetic records, in chunks."""
    validation.whole(records=count, at_least=0, at_most=MOST)
    source = _ChunkSource(generator, count, _root_seed(seed))
    sizes = [min(source.chunk, count - start) for start in range(0, count, source.chunk)]
    threads = min(threads or os.cpu_count() or 1, max(len(sizes), 1))

    def draw(number: int) -> Records:
        return source.draw(sizes[number], number)

    if threads == 1:
        yield from map(draw, range(len(sizes)))
        return
    with ThreadPoolExecutor(threads) as pool:
        pending: deque[Future[Records]] = deque()
        for number in range(len(sizes)):
            pending.append(pool.submit(draw, number))
            if len(pending) > threads:
                yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()


class Sample:
    """Synthetic records that meet the constraints of the domain and a condition, drawn chunk by chunk.

    A mixture of products is conditioned exactly as far as the positions of a record decide. What depends on the values
    drawn within bins, and any other generator, is left to rejection, which is exact as well. Conditions that fewer than
    one draw in ten thousand meets are refused.
    """

    def __init__(
        self,
        generator: Generator,
        domain: Domain,
        count: int,
        *,
        seed: int | None = None,
        where: Where | None = None,
    ) -> None:
        validation.whole(records=count, at_least=0, at_most=MOST)
        self._generator, self._domain, self._count, self._root = generator, domain, count, _root_seed(seed)
        condition = parse_where(where, domain)
        self._conditions = [where] if isinstance(where, str) else [str(one) for one in where or ()]
        self._filter: RecordFilter | None = None
        self._accepted = self._drawn = 0
        if not where and not domain.constraints:
            return
        self._filter = RecordFilter(domain, condition)
        self._generator, self._chance, exact = condition_generator(generator, domain, condition)
        self._certain = exact and not self._filter.acts
        if self._chance == 0:
            raise UsageError(
                f"{self._requirements()} holds for no synthetic record (fewer than {LOWEST_ACCEPTANCE:.2%}); relax it."
            )

    @property
    def rate(self) -> float | None:
        """The share of the generator's records that meet all conditions, estimated so far; None if there are none."""
        if self._filter is None:
            return None
        return self._chance * (self._accepted / self._drawn if self._drawn else 1.0)

    def warn_of_rejection(self) -> None:
        """Warn if the constraints of the domain reject more than a tenth of the generator's records."""
        if self.rate is None or self._conditions or self.rate >= 1 - WARN_FROM:
            return
        mentioned = dict.fromkeys(name for rule in self._domain.constraints for name in rule.fields)
        warnings.warn(
            f"the domain's constraints reject {1 - self.rate:.0%} of the generator's records, so the columns they refer"
            f" to ({', '.join(mentioned)}) may differ from what was fitted; check them with `dpgm evaluate`.",
            UserWarning,
            stacklevel=3,
        )

    def _requirements(self) -> str:
        rules = "the domain's constraints" if self._domain.constraints else ""
        condition = f"the condition {' and '.join(self._conditions)}" if self._conditions else ""
        return " with ".join(text for text in (condition, rules) if text)

    def records(self) -> Records:
        """All records in memory, with the values that were drawn within bins."""
        parts = list(self.chunks())
        return concatenate(parts) if parts else Records.from_lists([], self._domain)

    def chunks(self) -> Iterator[Records]:
        """All records, in chunks."""
        if self._filter is None:
            for number, chunk in enumerate(sample_chunks(self._generator, self._count, seed=self._root)):
                yield self._with_values(chunk, number)
            return
        source = _ChunkSource(self._generator, self._count if self._certain else MOST, self._root)
        left, number = self._count, 0
        while left > 0:
            size = min(source.chunk, left) if self._certain else source.chunk
            chunk = self._with_values(source.draw(size, number), number)
            number += 1
            accepted = self._filter(chunk)
            self._drawn += len(chunk)
            self._accepted += len(accepted)
            if self._drawn >= 10 / LOWEST_ACCEPTANCE and self._accepted < self._drawn * LOWEST_ACCEPTANCE:
                raise UsageError(
                    f"fewer than {LOWEST_ACCEPTANCE:.2%} of synthetic records meet {self._requirements()}"
                    f" ({self._accepted} of {self._drawn}); relax the condition,"
                    " or draw fewer records if they must be unique."
                )
            if len(accepted):
                yield accepted.rows(0, min(len(accepted), left))
            left -= len(accepted)

    def _with_values(self, chunk: Records, number: int) -> Records:
        return with_values(replace(chunk, domain=self._domain), self._root, number)


class RecordFilter:
    """Rejects records that break a rule or the condition, or repeat a unique key; sets numbers that a rule defines."""

    def __init__(self, domain: Domain, where: Condition | None) -> None:
        self._domain, self._where = domain, where
        self._rules = [rule for rule in domain.constraints if isinstance(rule, Rule)]
        self._unique = [rule for rule in domain.constraints if isinstance(rule, Unique)]
        self._seen: list[set[Any]] = [set() for _ in self._unique]
        conditions = [*(rule.condition for rule in self._rules), *([] if where is None else [where])]
        mentioned = dict.fromkeys(name for condition in conditions for name in fields_of(condition))
        self._numbers = [field for field in map(domain.field, mentioned) if not field.has_labels]
        # Whether records may be rejected or changed even if their positions meet all conditions.
        self.acts = bool(self._unique) or any(rule.equation is not None for rule in self._rules)

    def __call__(self, records: Records) -> Records:
        """The accepted records, in order."""
        if not len(records):
            return records
        records = self._with_defined_numbers(records)
        values = self._values(records)
        good = np.ones(len(records), dtype=np.bool_)
        for rule in self._rules:
            good &= ~truth(rule.condition, values)[1]
        if self._where is not None:
            good &= truth(self._where, values)[0]
        for seen, key in zip(self._seen, self._unique, strict=True):
            good &= self._new_keys(records, good, key, seen)
        return records if good.all() else records.take(np.flatnonzero(good))

    def _values(self, records: Records) -> Values:
        numbers = numbers_of(records.decoded, self._numbers) if self._numbers else {}
        return Values(records, numbers)

    def _with_defined_numbers(self, records: Records) -> Records:
        """Set numbers that a rule defines (`total = net + tax`) to that value, where the field allows it."""
        for rule in self._rules:
            equation = rule.equation
            if equation is None:
                continue
            values = self._values(records)
            name = equation.terms[0][1]
            implied = np.full(len(records), -equation.constant)
            for factor, other in equation.terms[1:]:
                implied = implied - factor * values.number(other)
            applies = np.ones(len(records), dtype=np.bool_) if rule.when is None else truth(rule.when, values)[0]
            applies &= ~np.isnan(implied) & ~truth(equation, values)[0] & ~np.isnan(values.number(name))
            applies &= self._domain.field(name).holds_number(implied)
            if applies.any():
                records = self._replaced(records, name, np.where(applies, implied, values.number(name)))
        return records

    def _replaced(self, records: Records, name: str, numbers: Any) -> Records:
        """The records with other numbers in one column, and the positions of these numbers."""
        table = records.decoded
        assert table is not None
        column = self._domain.field(name).cells_of(numbers, table.schema.field(name).type)
        table = table.set_column(table.column_names.index(name), name, column)
        return replace(TableEncoder(self._domain).encode(table), decoded=table)

    def _new_keys(self, records: Records, good: Any, rule: Unique, seen: set[Any]) -> Any:
        """Which of the good records have a new key; adds it to `seen`."""
        table = decode(records, rng=np.random.default_rng(0))
        columns = [table.column(name).to_pylist() for name in rule.fields]
        new = np.zeros(len(records), dtype=np.bool_)
        for row, key in enumerate(zip(*columns, strict=True)):
            if good[row]:
                key = tuple(tuple(part) if isinstance(part, list) else part for part in key)
                new[row] = key not in seen
                seen.add(key)
        return new


def with_values(records: Records, root: int, number: int) -> Records:
    """The records of a chunk with values drawn within their bins, which depend on (seed, chunk number) only."""
    if all(field.has_labels for field in records.domain.fields) and not records.domain.unread:
        return records
    table = decode(records, rng=np.random.default_rng([root, number, 1]))
    return replace(records, decoded=table)


def with_layout(domain: Domain) -> Domain:
    """The domain with the layout in which its samples are written: by default, item sets are one column of lists."""
    field = domain.item_set
    if domain.layout is not None or field is None or not field.lists_values:
        return domain
    return replace(domain, layout=Layout("basket", item=field.name))


def write_sample(
    release: "Release",
    count: int,
    path: Paths,
    *,
    seed: int | None = None,
    where: Where | None = None,
    shape: str | None = None,
    force: bool = True,
    progress: Progress = silent,
    stream: IO[bytes] | None = None,
    format: str | None = None,
    persons: Paths | None = None,
    first: int = 0,
) -> float | None:
    """Write `count` synthetic records to a file chunk by chunk; returns `Sample.rate`.

    With a `stream` (stdout) the records are written there instead, in the given `format`. Attributes of persons with
    events may go to a file of their own, `persons`; persons are numbered from `first` on.
    """
    validation.whole(records=count, at_least=1, at_most=MOST)
    sample = Sample(release.generator, release.domain, count, seed=seed, where=where)
    done = 0
    layout = with_layout(release.domain).layout
    how: dict[str, Any] = {"shape": shape, "force": force, "layout": layout, "stream": stream, "format": format}
    with record_writers(path, release.domain, persons=persons, first=first, **how) as writers:
        for chunk in sample.chunks():
            for writer in writers:
                writer.write(chunk)
            done += len(chunk)
            progress("sample", done, count)
    sample.warn_of_rejection()
    return sample.rate


class _ChunkSource:
    """Draws numbered chunks; a small sample is one chunk, over which the generator balances its records."""

    def __init__(self, generator: Generator, count: int, root: int) -> None:
        self._at_once = generator.samples_whole(count)
        self.chunk = max(count, 1) if self._at_once else SAMPLED_AT_ONCE
        self._generator = generator
        self._root = root
        self._phase = float(np.random.default_rng(root).random())

    def draw(self, count: int, number: int) -> Records:
        """The records of chunk `number`."""
        # SeedSequence spreads (seed, chunk number) over 64 bits, so that neighbouring seeds share nothing.
        mixed = np.random.SeedSequence([self._root, number]).generate_state(1, np.uint64)[0]
        draws = torch.Generator().manual_seed(int(mixed))
        if self._at_once:
            return self._generator.sample(count, generator=draws)
        return self._generator.sample_part(count, (self._phase + number * _GOLDEN) % 1, generator=draws)


def _root_seed(seed: int | None) -> int:
    """The seed that all draws of a sample derive from; a fresh one if none is given."""
    if seed is None:
        return secrets.randbits(62)
    validation.whole(seed=seed, at_least=0)
    return seed
