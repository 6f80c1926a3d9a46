"""MWEM (Hardt, Ligett, McSherry 2012) as the paper compared itself with it.

As in the paper: records are clipped to the average length; 50 iterations; each selects the query that the current
distribution answers worst, measures it with fresh noise and applies multiplicative weights, replaying all earlier
measurements; half of the budget selects, half measures. For up to 12 items this is MWEM over the full domain.

Deviations, and their reasons:

- Selection is report-noisy-max with Gaussian noise on all candidates, accounted as one Gaussian release of the
  whole vector of answers (the accountant knows Gaussian releases only), instead of the exponential mechanism. A
  clipped record of c items is counted in c + c(c-1)/2 candidates, hence the sensitivity and the clipping.
- The average length comes from a noisy histogram (5 % of the budget); the paper read it from the data.
- Candidates are all items and all pairs of items, not the evaluation queries, which would tell the mechanism what
  will be asked.
- The start is independent items with the noisy average length, not the uniform distribution, in which records of
  hundreds of items hold half of them.
- Above 12 items the distribution is a product of groups of at most 12 items; a pair is a candidate only if it fits
  into one group.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dpgm.baselines.independent import CHUNK_CELLS, average, in_chunks, noisy_lengths
from dpgm.baselines.rules import BASELINE_RULES, MOST_GROUPED, MwemSettings, baseline_rules
from dpgm.data.domain import Domain
from dpgm.data.records import Records
from dpgm.data.rows import row_pointers
from dpgm.errors import ArtefactError
from dpgm.mechanisms.gateway import Gateway
from dpgm.mechanisms.query import Measures, Query, View
from dpgm.privacy.calibration import Spend
from dpgm.statistics.item_tuples import ItemTuples
from dpgm.statistics.record_lengths import LENGTHS, RecordLengths
from dpgm.statistics.statistic import FULL_WEIGHT
from dpgm.strategy.memory_rules import MemoryRules, Sizes
from dpgm.strategy.protocol import (
    Budget,
    FitPlan,
    Generator,
    PublicFacts,
    RunContext,
    Strategy,
    check_shares,
    is_size,
)
from dpgm.strategy.settings import Config, FamilySettings, no_settings

SELECT, MEASURE = "select", "measure"
_HOLDING = "clipped records holding"


class FactoredWeights:
    """Multiplicative weights over {0, 1}^m as a product of small groups of items, each with a full table.

    A query about one or two items concerns one group (two groups are merged when a query joins them), so updating that
    group's table is exactly the update of the full table of 2^m cells.

    Args:
        probabilities: (m,) initial probabilities of independent items.
        largest: most items of a group.
    """

    def __init__(self, probabilities: NDArray[np.float64], largest: int = BASELINE_RULES.largest_group) -> None:
        self.largest = largest
        self.width = len(probabilities)
        self.group = np.arange(self.width)
        self.items = {at: [at] for at in range(self.width)}
        self.tables = {at: np.array([1 - p, p]) for at, p in enumerate(probabilities)}
        self.single = probabilities.astype(np.float64)
        self.refresh()

    @classmethod
    def of_groups(
        cls, groups: Sequence[tuple[list[int], NDArray[np.float64]]], largest: int = BASELINE_RULES.largest_group
    ) -> "FactoredWeights":
        """The distribution of given groups: the items of each and their table."""
        weights = cls(np.zeros(sum(len(items) for items, _ in groups)), largest)
        weights.items = {items[0]: items for items, _ in groups}
        weights.tables = {items[0]: table for items, table in groups}
        for items, _ in groups:
            weights.group[items] = items[0]
        weights.refresh()
        return weights

    def representable(self) -> NDArray[np.bool_]:
        """(m, m): whether the pair is in one group, or its two groups are small enough to be merged."""
        sizes = np.array([len(self.items[int(at)]) for at in self.group])
        fits: NDArray[np.bool_] = sizes[:, None] + sizes[None, :] <= self.largest
        fits |= self.group[:, None] == self.group[None, :]
        return fits

    def join(self, i: int, j: int) -> None:
        """Merge the groups of two items; the distribution stays the same."""
        a, b = int(self.group[i]), int(self.group[j])
        if a == b:
            return
        self.tables[a] = np.multiply.outer(self.tables[a], self.tables.pop(b))
        moved = self.items.pop(b)
        self.items[a] = self.items[a] + moved
        self.group[moved] = a

    def update(self, query: tuple[int, ...], measured: float) -> None:
        """One multiplicative-weights step toward the measured share of records holding the query's items."""
        group = int(self.group[query[0]])
        table = self.tables[group]
        cells = tuple(1 if item in query else slice(None) for item in self.items[group])
        answer = table[cells].sum()
        table[cells] *= np.exp((measured - answer) / 2)
        table /= table.sum()

    def refresh(self) -> None:
        """Recompute single and pair probabilities from the tables."""
        for group, items in self.items.items():
            table, axes = self.tables[group], range(len(items))
            for at in axes:
                rest = tuple(axis for axis in axes if axis != at)
                self.single[items[at]] = table.sum(axis=rest)[1]
        self.pairs = np.outer(self.single, self.single)
        np.fill_diagonal(self.pairs, self.single)
        for group, items in self.items.items():
            table, axes = self.tables[group], range(len(items))
            for a in axes:
                for b in range(a + 1, len(items)):
                    rest = tuple(axis for axis in axes if axis not in (a, b))
                    both = table.sum(axis=rest)[1, 1]
                    self.pairs[items[a], items[b]] = self.pairs[items[b], items[a]] = both

    def draw(self, count: int, generator: np.random.Generator) -> NDArray[np.bool_]:
        """`count` records, dense (count, m)."""
        records = np.zeros((count, self.width), dtype=np.bool_)
        for group, items in self.items.items():
            table = self.tables[group]
            edges = np.cumsum(table.ravel())
            cell = np.searchsorted(edges, generator.random(count) * edges[-1], side="right")
            values = np.unravel_index(np.minimum(cell, table.size - 1), table.shape)
            for item, value in zip(items, values, strict=True):
                records[:, item] = value == 1
        return records


@dataclass(frozen=True, eq=False)
class WeightedGroups(Generator):
    """The fitted distribution: independent groups of items, each with a full table."""

    kind: ClassVar[str] = "mwem"

    domain: Domain  # item sets or images
    weights: FactoredWeights
    cap: int  # most items of a clipped record

    @property
    def architecture(self) -> dict[str, Any]:
        """Plain values; the sizes of the groups are in a tensor."""
        return {"kind": self.kind, "cap": self.cap}

    def state(self) -> dict[str, Tensor]:
        """The groups one after another: their sizes, their items and their tables."""
        groups = [(items, self.weights.tables[group]) for group, items in sorted(self.weights.items.items())]
        return {
            "sizes": torch.tensor([len(items) for items, _ in groups]),
            "items": torch.tensor([item for items, _ in groups for item in items]),
            "tables": torch.from_numpy(np.concatenate([table.ravel() for _, table in groups])),
        }

    def sample(self, count: int, *, generator: torch.Generator) -> Records:
        """`count` records of the fitted distribution."""
        random = np.random.default_rng(int(torch.randint(2**62, (1,), generator=generator)))
        return in_chunks(self.domain, count, lambda size: self.weights.draw(size, random))


class MwemStrategy(Strategy):
    """Multiplicative weights with report-noisy-max, over item sets."""

    name = WeightedGroups.kind
    settings_type = MwemSettings
    measures: Mapping[str, Measures] = {
        **RecordLengths.words,
        SELECT: Measures(
            "measure", f"{_HOLDING} each item and each pair, to find the worst", "sqrt(sets of a record)"
        ),
        MEASURE: Measures("measure", f"{_HOLDING} the chosen item or pair", "1"),
    }

    def refuses(self, config: Config, domain: Domain | None) -> str | None:
        """Refuses table columns and too many items."""
        if domain is not None and domain.table_columns:
            return "MWEM handles item sets and images only; the domain has table columns."
        if domain is not None and domain.width > BASELINE_RULES.most_items:
            return f"MWEM handles at most {BASELINE_RULES.most_items} items; the domain has {domain.width}."
        return super().refuses(config, domain)

    def settings(self, config: Config, facts: PublicFacts) -> FamilySettings:
        """With as many rounds as in the paper's comparison."""
        no_settings(config)
        return MwemSettings()

    def budget(self, facts: PublicFacts, settings: FamilySettings) -> Budget:
        """A small share for lengths; selecting and measuring get half of the rest each."""
        assert isinstance(settings, MwemSettings)
        lengths = settings.rules.lengths
        half, rounds = (1 - lengths) / 2, settings.iterations
        spends = Spend(LENGTHS, lengths), Spend(SELECT, half, rounds), Spend(MEASURE, half, rounds)
        return Budget(spends)

    def memory(self, plan: FitPlan, sizes: Sizes, domain: Domain | None, rules: MemoryRules) -> float:
        """Of pair matrices and dense chunks."""
        return rules.mwem_square * sizes.width**2 + 8 * 2**14 * sizes.width + 8 * CHUNK_CELLS

    def fit(
        self, gateway: Gateway, plan: FitPlan, domain: Domain, *, draws: torch.Generator, context: RunContext
    ) -> WeightedGroups:
        """Select, measure, update; fewer rounds than planned if a crash has lost some."""
        rules, width, count = baseline_rules(plan.settings.family), domain.width, max(1, plan.records)
        mean = average(noisy_lengths(gateway, domain, plan.noise(LENGTHS)))
        cap = min(width, max(1, round(mean)))
        candidates = _Candidates(domain, cap)
        weights = FactoredWeights(np.full(width, min(0.5, min(mean, cap) / width)), rules.largest_group)
        measured: list[tuple[tuple[int, ...], float]] = []
        rounds = context.runs_left({name: plan.mechanism(name).count for name in (SELECT, MEASURE)})
        for done in range(rounds):
            context.progress("measure", done, rounds)
            noisy = gateway.release(SELECT, candidates.all_answers(), plan.noise(SELECT)).numpy() / count
            chosen = candidates.worst(noisy, weights)
            query = candidates.members(chosen)
            answer = gateway.release(MEASURE, candidates.one_answer(chosen), plan.noise(MEASURE))
            weights.join(query[0], query[-1])
            measured.append((query, float(np.clip(answer.item() / count, 0.0, 1.0))))
            for _ in range(rules.replays):
                for items, share in measured:
                    weights.update(items, share)
            weights.refresh()
        context.progress("measure", rounds, rounds)
        return WeightedGroups(domain, weights, cap)

    def load(
        self,
        architecture: Mapping[str, Any],
        tensors: Mapping[str, Tensor],
        domain: Domain,
        settings: FamilySettings,
    ) -> WeightedGroups:
        """The generator from an untrusted release."""
        cap = architecture.get("cap")
        if set(architecture) != {"kind", "cap"} or set(tensors) != {"sizes", "items", "tables"}:
            raise ArtefactError("the release does not hold an MWEM generator; get it again.")
        if not is_size(cap, domain.width):
            raise ArtefactError("the release's bound on records is not valid; get it again.")
        sizes, items, tables = tensors["sizes"], tensors["items"], tensors["tables"]
        kinds = (sizes.dtype, items.dtype, tables.dtype) == (torch.int64, torch.int64, torch.float64)
        if not kinds or any(tensor.dim() != 1 for tensor in (sizes, items, tables)):
            raise ArtefactError("the groups of the release have another shape or type; get it again.")
        counts = sizes.tolist()
        sound = bool(counts) and all(1 <= size <= MOST_GROUPED for size in counts)
        if not sound or sorted(items.tolist()) != list(range(domain.width)) or sum(counts) != domain.width:
            raise ArtefactError("the groups of the release do not hold every item once; get it again.")
        if len(tables) != sum(2**size for size in counts):
            raise ArtefactError("the tables of the release have another size; get it again.")
        groups = []
        split_tables = torch.split(tables, [2**size for size in counts])
        for members, table in zip(torch.split(items, counts), split_tables, strict=True):
            check_shares(table, 1e-6)
            groups.append((members.tolist(), table.numpy().copy().reshape((2,) * len(members))))
        return WeightedGroups(
            domain, FactoredWeights.of_groups(groups, baseline_rules(settings).largest_group), cap
        )


class _Candidates:
    """The candidate queries, all items and then all pairs; exact answers on clipped records stay inside the queries."""

    def __init__(self, domain: Domain, cap: int) -> None:
        self.width, self.cap = domain.width, cap
        self.pairs = ItemTuples(domain, tuple(range(domain.width)), 2, cap)
        self._exact: Tensor | None = None

    def __len__(self) -> int:
        return self.width + len(self.pairs.tuples)

    def members(self, number: int) -> tuple[int, ...]:
        """The items of a candidate."""
        return (number,) if number < self.width else tuple(self.pairs.tuples[number - self.width].tolist())

    def worst(self, noisy: NDArray[np.float64], weights: FactoredWeights) -> int:
        """The candidate with the largest error, among those that the factored distribution can represent."""
        gaps = np.abs(noisy - np.concatenate([weights.single, weights.pairs[self.pairs.places]]))
        gaps[self.width :][~weights.representable()[self.pairs.places]] = -1.0
        return int(gaps.argmax())

    def all_answers(self) -> Query:
        """All candidates; a record of at most `cap` items is counted in cap + cap (cap - 1) / 2 of them."""
        counted = self.cap + self.cap * (self.cap - 1) / 2
        return Query(lambda view: self._answers(view).clone(), math.sqrt(counted), (len(self),), grid=1.0)

    def one_answer(self, number: int) -> Query:
        """A single candidate; a record changes it by at most 1."""
        return Query(lambda view: self._answers(view)[number : number + 1].clone(), 1.0, (1,), grid=1.0)

    def _answers(self, view: View) -> Tensor:
        if self._exact is None:
            self._exact = torch.zeros(len(self), dtype=torch.int64)
            for piece in view.rows.pieces():  # clipping a record does not depend on the others
                clipped = clip_records(piece, self.cap)
                items = np.bincount(clipped.indices, minlength=self.width).astype(np.int64)
                pairs = (
                    self.pairs.query().compute(View(clipped)) // FULL_WEIGHT
                )  # no clipped record exceeds the cap
                self._exact += torch.cat([torch.from_numpy(items), pairs])
        return self._exact


def clip_records(records: Records, cap: int) -> Records:
    """Retain at most `cap` items of each record, by a fixed function of that record.

    The function is pseudo-random (a multiplicative hash of item and record), so that no item is favoured; it draws no
    random numbers, so that clipping one record never depends on the others.
    """
    rows = np.repeat(np.arange(len(records)), records.lengths)
    items = records.indices.astype(np.uint64)
    salt = np.bincount(rows, weights=(records.indices.astype(np.float64) + 1) ** 2, minlength=len(records))
    salted = items * np.uint64(2654435761) + salt.astype(np.uint64)[rows] * np.uint64(40503)
    rank = (salted * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(20)
    order = np.lexsort((rank, rows))
    within = np.arange(len(rows)) - records.indptr[:-1][rows]
    retained = np.sort(order[within < cap])
    return Records(records.domain, row_pointers(np.minimum(records.lengths, cap)), records.indices[retained])


MWEM = MwemStrategy()
