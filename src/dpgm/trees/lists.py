"""What is measured of lists of items beside table columns, and the chances of items in the base."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from dpgm.arrays import Floats, Ints
from dpgm.mechanisms.gateway import Gateway
from dpgm.statistics.clipped_vectors import ClippedVectors, VectorMap
from dpgm.statistics.coded_rows import Coding
from dpgm.statistics.list_vectors import (
    ITEMS_BY_GROUPS,
    ITEMS_BY_VALUES,
    ITEMS_TOGETHER,
    LIST_ITEMS,
    ItemsByColumns,
    ItemsTogether,
    ListItems,
)
from dpgm.statistics.shrinkage import shrink, shrink_alone
from dpgm.statistics.statistic import FULL_WEIGHT, STEPS, Measured, release
from dpgm.trees.dependence import information
from dpgm.trees.forest import Leaves
from dpgm.trees.rules import ListRules, TreeRules


@dataclass(frozen=True)
class ListMeasurements:
    """Released sums of lists.

    Attributes:
        measured: all of them.
        column: the column that says most of items.
        chances: (codes of that column, items) the chance that a record holds each item.
    """

    measured: tuple[Measured[ClippedVectors], ...]
    column: int
    chances: Floats

    def leaves(self, coding: Coding) -> tuple[Leaves, ...]:
        """The items of every list below the column, in a forest of one component."""
        found, at = [], 0
        for start, stop in coding.lists:
            found.append(Leaves(start, self.column, self.chances[None, :, at : at + stop - start]))
            at += stop - start
        return tuple(found)


def measure_lists(
    gateway: Gateway,
    coding: Coding,
    records: int,
    shares: Sequence[Floats],
    groups: Sequence[Ints],
    fine: Sequence[Ints],
    likely: Ints,
    noises: Mapping[str, float],
    rules: TreeRules,
) -> ListMeasurements:
    """Release items, items beside groups of all columns, items beside the values of one column, pairs of items.

    Args:
        gateway: the door to the rows.
        coding: how records become codes.
        records: the public number of records.
        shares: released shares of the codes of every column, lengths of lists included.
        groups: the group of every code of the table columns, and of rows without a value.
        fine: the same with a group per value.
        likely: (n, columns) codes of rows drawn from the shares.
        noises: the noise multipliers of the plan.
        rules: the tuned numbers.
    """
    held = _items_held(coding, likely)
    every = np.flatnonzero(coding.domain.item_positions)
    counted = _release(gateway, ListItems(coding, every), np.sqrt(held), noises[LIST_ITEMS], rules.lists)
    weight = _mean_weight(counted.statistic, np.sqrt(held), held)
    noisy = counted.value.double().numpy()
    counts = shrink_alone(noisy, counted.std, rules.read.shrink)[0] / weight
    rate = np.clip(counts / records, rules.lists.least_chance, rules.lists.most_chance)
    order = np.argsort(-noisy, kind="stable")
    popular = np.sort(order[: rules.lists.most_items])

    columns = coding.table_columns
    norms = np.sqrt(held * columns)
    by_groups = ItemsByColumns(coding, every[popular], tuple(groups))
    beside = _release(gateway, by_groups, norms, noises[ITEMS_BY_GROUPS], rules.lists)
    scale = records * _mean_weight(beside.statistic, norms, held)
    column = _best_column(beside, by_groups, shares, rate[popular], scale, rules.pairs.strength_rounds)

    chosen = [own if number == column else None for number, own in enumerate(fine)]
    by_values = ItemsByColumns(coding, every[popular], tuple(chosen), ITEMS_BY_VALUES)
    one = _release(gateway, by_values, np.sqrt(held), noises[ITEMS_BY_VALUES], rules.lists)
    weight = _mean_weight(one.statistic, np.sqrt(held), held)
    joined = np.bincount(fine[column][:-1], shares[column])
    expected = records * weight * np.outer(joined, rate[popular])
    table = by_values.table(one.value.double().numpy(), column)
    means = shrink(table.ravel(), one.std, expected.ravel(), rules.read.shrink)[0].reshape(table.shape)
    chances = np.broadcast_to(rate, (len(joined), len(every))).copy()
    chances[:, popular] = means / np.maximum(records * weight * joined[:, None], 1e-9)
    chances = np.clip(chances, rules.lists.least_chance, rules.lists.most_chance)[fine[column][:-1]]

    measured = [counted, beside, one]
    commonest = np.sort(order[: rules.lists.paired_items])
    if ITEMS_TOGETHER in noises:
        pairs = held * (held - 1) / 2
        together = ItemsTogether(coding, every[commonest])
        measured.append(_release(gateway, together, np.sqrt(pairs), noises[ITEMS_TOGETHER], rules.lists))
    return ListMeasurements(tuple(measured), column, chances)


def _items_held(coding: Coding, likely: Ints) -> Floats:
    """How many items likely rows hold, at least."""
    held = np.zeros(len(likely))
    for number, codes in enumerate(coding.lengths):
        fewest = np.searchsorted(codes, np.arange(int(codes[-1]) + 1))
        held += fewest[likely[:, coding.table_columns + number]]
    return held


def _release(
    gateway: Gateway, vectors: VectorMap, norms: Floats, noise: float, rules: ListRules
) -> Measured[ClippedVectors]:
    """Release the sums of a map, scaled down to a low quantile of the norms of likely records that have any."""
    present = norms[norms > 0]
    quantile = float(np.quantile(present, rules.limit_quantile)) if len(present) else 1.0
    return release(gateway, ClippedVectors(vectors, max(1, int(STEPS * quantile))), noise)


def _mean_weight(statistic: ClippedVectors, norms: Floats, held: Floats) -> float:
    """The mean weight of the records that hold an item."""
    weights = np.minimum(1.0, statistic.limit / (STEPS * np.maximum(norms, 1 / STEPS)))
    return float(max((weights * held).sum() / max(held.sum(), 1e-9), 1 / FULL_WEIGHT))


def _best_column(
    measured: Measured[ClippedVectors],
    by_groups: ItemsByColumns,
    shares: Sequence[Floats],
    rate: Floats,
    scale: float,
    rounds: int,
) -> int:
    """The column whose groups say most of items; `scale` times a share of the records is the expected sum."""
    values, found = measured.value.double().numpy(), []
    for column, groups in enumerate(by_groups.groups):
        assert groups is not None
        expected = np.outer(np.bincount(groups[:-1], shares[column]), rate)
        deviations = by_groups.table(values, column) / scale - expected
        found.append(information(deviations, (measured.std / scale) ** 2, expected, rounds))
    return int(np.argmax(found))
