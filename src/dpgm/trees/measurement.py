"""What is measured of a table: columns, then pairs of columns at three resolutions. Spends the whole privacy budget."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np

from dpgm.arrays import Floats, Ints
from dpgm.data.domain import Domain
from dpgm.mechanisms.gateway import Gateway
from dpgm.statistics.coded_rows import Coding
from dpgm.statistics.column_counts import COLUMNS, ColumnCounts, column_shares, expected_rows
from dpgm.statistics.list_vectors import LIST_ITEMS
from dpgm.statistics.pair_blocks import (
    COARSE,
    FOURTHS,
    FULL,
    SMOOTH,
    Features,
    PairBlocks,
    group_features,
    limit_at,
    mid_ranks,
    rank_features,
)
from dpgm.statistics.statistic import GRID, Measured, release
from dpgm.trees.dependence import ColumnPair, mean_weights, pair_strengths, spanning_pairs
from dpgm.trees.groups import code_orders, equal_groups
from dpgm.trees.lists import ListMeasurements, measure_lists
from dpgm.trees.rules import PairRules, TreeRules


@dataclass(frozen=True)
class TableMeasurements:
    """Everything that was released, and what follows from it at once.

    Attributes:
        coding: how records become codes.
        records: the public number of records.
        columns: the noisy counts of all columns.
        shares: the shares of the codes of every column, by these.
        pairs: the noisy statistics of pairs that were measured.
        tree: the pairs of columns along which rows are drawn.
        root: the column from which they are drawn.
        lists: what was released of lists of items.
    """

    coding: Coding
    records: int
    columns: Measured[ColumnCounts]
    shares: tuple[Floats, ...]
    pairs: tuple[Measured[PairBlocks], ...]
    tree: tuple[ColumnPair, ...]
    root: int
    lists: ListMeasurements | None = None


def measure_table(
    gateway: Gateway, domain: Domain, records: int, noises: Mapping[str, float], rules: TreeRules
) -> TableMeasurements:
    """Release every statistic that the plan pays for; values released earlier decide what later ones look at."""
    coding = Coding.of(domain)
    columns = release(gateway, ColumnCounts(coding), noises[COLUMNS])
    shares = without_gaps(columns, column_shares(columns, records, rules.read), records, rules.pairs)
    chooser = _Chooser(coding, records, shares, rules)
    measured: list[Measured[PairBlocks]] = []
    tree: list[ColumnPair] = []
    if COARSE in noises:
        coarse = release(gateway, chooser.coarse(noises[COARSE]), noises[COARSE])
        measured.append(coarse)
        tree = chooser.tree(coarse)
    if FULL in noises:
        measured.append(release(gateway, chooser.full(tree, wide=COARSE not in noises), noises[FULL]))
    if SMOOTH in noises:
        measured.append(release(gateway, chooser.ranks(alone=COARSE not in noises), noises[SMOOTH]))
    lists = chooser.lists(gateway, measured, noises) if LIST_ITEMS in noises else None
    return TableMeasurements(
        coding, records, columns, shares, tuple(measured), tuple(tree), max(0, chooser.label), lists
    )


def without_gaps(
    measured: Measured[ColumnCounts], shares: Sequence[Floats], records: int, rules: PairRules
) -> tuple[Floats, ...]:
    """The shares, with none for a missing value whose noisy count does not stand out: no row of a sample has it."""
    coding, start = measured.statistic.coding, 0
    found: list[Floats] = []
    fields = [field for field in coding.domain.fields if not field.is_set]
    for field, own in zip(fields, shares, strict=False):  # lengths of lists come after the columns
        start += len(own)
        count = float(measured.value[start - 1]) + records * GRID * int(measured.statistic.offsets[len(found)])
        kept = own.copy()
        if field.may_be_missing and field.width > 1 and count <= rules.missing_noises * measured.std:
            kept[-1] = 0.0
        found.append(kept / kept.sum())
    return (*found, *shares[len(fields) :])


class _Chooser:
    """Chooses features, pairs, emphasis and limits from released shares."""

    def __init__(self, coding: Coding, records: int, shares: Sequence[Floats], rules: TreeRules) -> None:
        self._coding, self._records, self._shares, self._rules = coding, records, shares, rules
        self._orders = code_orders(coding)
        self._pairs = list(combinations(range(len(coding.sizes)), 2))
        self._likely = expected_rows(shares, rules.pairs.likely_rows, np.random.default_rng(0))
        names = [field.name for field in coding.domain.fields if not field.is_set]
        label = coding.domain.label
        self.label = names.index(label) if label in names else -1
        numbers = ((names.index(first), names.index(second)) for first, second in coding.domain.pairs)
        self._stated = {(min(pair), max(pair)) for pair in numbers}
        weights = dict(coding.domain.weights)
        lists = len(coding.sizes) - len(names)
        self._weights = [float(weights.get(name, 1)) for name in names] + [1.0] * lists

    def coarse(self, noise: float) -> PairBlocks:
        """Tables of groups, as many as the noise bears: a cell of two average groups stands out of its noise."""
        for most in range(self._rules.pairs.most_groups, 2, -1):
            blocks = self._grouped(most)
            bearable = self._records / (self._rules.pairs.cell_noises * noise * blocks.query().sensitivity)
            if most**2 <= bearable:
                return blocks
        return self._grouped(2)

    def _grouped(self, most: int) -> PairBlocks:
        pairs = zip(self._orders, self._shares, strict=True)
        features = [group_features(equal_groups(order, own, most), own) for order, own in pairs]
        return self._limited(features, self._pairs, COARSE)

    def full(self, tree: Sequence[ColumnPair], *, wide: bool) -> PairBlocks:
        """Tables of all values, for the pairs that the domain states and, unless wide, those of tree and label."""
        labelled = set() if wide else {pair for pair in self._pairs if self.label in pair}
        chosen = sorted({*tree, *labelled, *self._stated}) or self._pairs[:1]
        most = self._rules.pairs.most_values
        pairs = zip(self._orders, self._shares, strict=True)
        features = [group_features(equal_groups(order, own, most), own) for order, own in pairs]
        return self._limited(features, chosen, FULL)

    def ranks(self, *, alone: bool) -> PairBlocks:
        """Products of ranks, for pairs with an ordered column; `alone`: for all pairs, as there are no tables."""
        ordered = [bool((~np.isnan(order)).any()) for order in self._orders]
        rules = self._rules.pairs
        degree = rules.rank_degree_alone if alone else rules.rank_degree
        most = rules.rank_values_alone if alone else rules.rank_values
        features = [
            rank_features(mid_ranks(order, own), own, degree)
            if has_ranks
            else group_features(equal_groups(order, own, most), own)
            for order, own, has_ranks in zip(self._orders, self._shares, ordered, strict=True)
        ]
        chosen = [pair for pair in self._pairs if alone or ordered[pair[0]] or ordered[pair[1]]] or self._pairs
        return self._limited(features, chosen, SMOOTH)

    def lists(
        self, gateway: Gateway, measured: Sequence[Measured[PairBlocks]], noises: Mapping[str, float]
    ) -> ListMeasurements:
        """Items beside columns, in the groups that pairs of columns were measured in."""
        columns = range(self._coding.table_columns)
        coarse = [one.statistic.features for one in measured if one.statistic.name == COARSE]
        if coarse:
            groups = [coarse[0][column].groups for column in columns]
        else:
            groups = [self._groups(column, self._rules.pairs.rank_values_alone) for column in columns]
        fine = [self._groups(column, self._rules.pairs.most_values) for column in columns]
        return measure_lists(
            gateway, self._coding, self._records, self._shares, groups, fine, self._likely, noises, self._rules
        )

    def _groups(self, column: int, most: int) -> Ints:
        own = equal_groups(self._orders[column], self._shares[column], most)
        return np.append(own, own.max() + 1)

    def _limited(self, features: Sequence[Features], pairs: Sequence[ColumnPair], name: str) -> PairBlocks:
        """The statistic, with the limit at a low quantile of the norms of likely rows."""
        emphasis = self._rules.pairs.label_emphasis if name != SMOOTH else 1.0
        fourths = [
            round(FOURTHS * (emphasis if self.label in pair else 1.0) * max(self._weights[at] for at in pair))
            for pair in pairs
        ]
        blocks = PairBlocks(
            self._coding, tuple(features), np.array(pairs, dtype=np.int64), np.array(fourths), 1, name
        )
        return replace(blocks, limit=limit_at(blocks, self._likely, self._rules.pairs.limit_quantile))

    def tree(self, coarse: Measured[PairBlocks]) -> list[ColumnPair]:
        """The spanning tree of the strongest pairs of table columns: lengths of lists follow from items."""
        rules = self._rules.pairs
        means = mean_weights(coarse.statistic, self._likely, rules.mean_prior)
        strength = pair_strengths(coarse, means, self._shares, self._records, rules.strength_rounds)
        columns = self._coding.table_columns
        strength[[last >= columns for _, last in self._pairs]] = 0.0
        return spanning_pairs(self._pairs, strength, columns)
