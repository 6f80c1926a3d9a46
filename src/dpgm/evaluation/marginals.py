"""Distances between low-order marginals: single positions, pairs, record lengths, columns of a table."""

from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from dpgm.data.records import Records
from dpgm.errors import UsageError
from dpgm.evaluation.comparable import check_comparable
from dpgm.evaluation.cooccurrence import most_frequent, pair_counts
from dpgm.evaluation.counting_queries import item_frequencies

MOST_PAIRED = 1500  # pairs are measured among this many of the most frequent positions


@dataclass(frozen=True)
class LengthDistance:
    """Total variation between the histograms of record lengths (0: equal, 1: disjoint)."""

    total_variation: float
    real: NDArray[np.float64]  # share of records of length 0, 1, 2, ...
    synthetic: NDArray[np.float64]
    real_mean: float
    synthetic_mean: float


def record_lengths(real: Records, synthetic: Records) -> LengthDistance:
    """Compare how many items records hold.

    Raises:
        UsageError: the domain has no item set or image, so that every record has the same length.
    """
    check_comparable(real, synthetic)
    if real.domain.is_table:
        raise UsageError("every row of a table has the same length.")
    longest = int(max(real.lengths.max(), synthetic.lengths.max()))
    ours, theirs = (np.bincount(r.lengths, minlength=longest + 1) / len(r) for r in (real, synthetic))
    distance = float(np.abs(ours - theirs).sum() / 2)
    return LengthDistance(distance, ours, theirs, float(real.lengths.mean()), float(synthetic.lengths.mean()))


@dataclass(frozen=True)
class OneWay:
    """Share of records that hold each position, on both sides."""

    real: NDArray[np.float64]
    synthetic: NDArray[np.float64]
    mean_difference: float
    largest_difference: float


def one_way(real: Records, synthetic: Records) -> OneWay:
    """Compare single positions."""
    check_comparable(real, synthetic)
    ours, theirs = item_frequencies(real) / len(real), item_frequencies(synthetic) / len(synthetic)
    gap = np.abs(ours - theirs)
    return OneWay(ours, theirs, float(gap.mean()), float(gap.max()))


@dataclass(frozen=True)
class TwoWay:
    """Total variation of the two-by-two table of every pair of positions; correlations (phi) beside it."""

    positions: int  # among how many of the most frequent positions
    mean_total_variation: float
    largest_total_variation: float
    mean_correlation_difference: float


def two_way(real: Records, synthetic: Records, most: int = MOST_PAIRED) -> TwoWay:
    """Compare pairs among the `most` positions most frequent in the real data."""
    check_comparable(real, synthetic)
    positions = most_frequent(real, most)
    if len(positions) < 2:
        raise UsageError("fewer than two items occur in the real data.")
    ours, theirs = (pair_counts(records, positions) / len(records) for records in (real, synthetic))
    upper = np.triu_indices(len(positions), 1)
    cells = []
    for joint in (ours, theirs):
        single = np.diag(joint)
        both, first, second = joint[upper], single[upper[0]], single[upper[1]]
        cells.append(np.stack([both, first - both, second - both, 1 - first - second + both]))
    variation = np.abs(cells[0] - cells[1]).sum(axis=0) / 2
    gap = np.abs(_phi(ours) - _phi(theirs))[upper]
    return TwoWay(len(positions), float(variation.mean()), float(variation.max()), float(gap.mean()))


def _phi(joint: NDArray[np.float64]) -> NDArray[np.float64]:
    single = np.diag(joint)
    spread = np.sqrt(np.maximum(single * (1 - single), 0))
    scale = np.outer(spread, spread)
    covariance = joint - np.outer(single, single)
    phi: NDArray[np.float64] = np.divide(covariance, scale, out=np.zeros_like(joint), where=scale > 1e-12)
    return phi


@dataclass(frozen=True)
class TablePairs:
    """For every pair of columns of a table: total variation, and association on both sides.

    Association is |Pearson's r| of the bins between two numeric columns and Cramér's V otherwise.
    """

    fields: tuple[str, ...]
    mean_one_way: float  # mean total variation of single columns
    mean_total_variation: float
    largest_total_variation: float
    worst_pair: tuple[str, str]
    total_variation: NDArray[np.float64]  # (fields, fields); the diagonal holds single columns
    real_association: NDArray[np.float64]
    synthetic_association: NDArray[np.float64]
    mean_association_difference: float


def table_pairs(real: Records, synthetic: Records) -> TablePairs:
    """Compare every pair of categorical and numeric columns.

    Raises:
        UsageError: the domain has fewer than two such columns.
    """
    check_comparable(real, synthetic)
    columns = [at for at, block in enumerate(real.domain.blocks) if block.softmax]
    if len(columns) < 2:
        raise UsageError("the domain has fewer than two categorical or numeric columns.")
    names = tuple(real.domain.fields[at].name for at in columns)
    fields = [real.domain.fields[at] for at in columns]
    bins = [field.bins or 0 if field.kind == "numeric" else 0 for field in fields]
    widths = [real.domain.blocks[at].width + 1 for at in columns]  # one more for rows without a value
    ours, theirs = ([field_codes(r, at) for at in columns] for r in (real, synthetic))
    size = len(columns)
    variation, first, second = np.zeros((size, size)), np.eye(size), np.eye(size)
    for a in range(size):
        shares = [np.bincount(c[a], minlength=widths[a]) / len(c[a]) for c in (ours, theirs)]
        variation[a, a] = np.abs(shares[0] - shares[1]).sum() / 2
    for a, b in combinations(range(size), 2):
        tables = []
        for codes in (ours, theirs):
            joint = np.bincount(codes[a] * widths[b] + codes[b], minlength=widths[a] * widths[b])
            tables.append(joint.reshape(widths[a], widths[b]) / len(codes[a]))
        variation[a, b] = variation[b, a] = np.abs(tables[0] - tables[1]).sum() / 2
        if bins[a] and bins[b]:  # a missing value has no place on the scale
            measured = [_pearson(table[: bins[a], : bins[b]]) for table in tables]
        else:
            measured = [_cramer(table) for table in tables]
        first[a, b] = first[b, a] = measured[0]
        second[a, b] = second[b, a] = measured[1]
    upper = np.triu_indices(size, 1)
    pairs = variation[upper]
    worst = int(pairs.argmax())
    return TablePairs(
        fields=names,
        mean_one_way=float(np.diag(variation).mean()),
        mean_total_variation=float(pairs.mean()),
        largest_total_variation=float(pairs.max()),
        worst_pair=(names[upper[0][worst]], names[upper[1][worst]]),
        total_variation=variation,
        real_association=first,
        synthetic_association=second,
        mean_association_difference=float(np.abs(first - second)[upper].mean()),
    )


def field_codes(records: Records, field: int) -> NDArray[np.int64]:
    """The value number of a softmax field for every record; one past the last where there is none."""
    block = records.domain.blocks[field]
    codes = np.full(len(records), block.width, dtype=np.int64)
    held = (records.indices >= block.start) & (records.indices < block.stop)
    rows = np.repeat(np.arange(len(records)), records.lengths)[held]
    codes[rows] = records.indices[held].astype(np.int64) - block.start
    return codes


def _cramer(joint: NDArray[np.float64]) -> float:
    rows, columns = joint.sum(axis=1), joint.sum(axis=0)
    joint = joint[rows > 0][:, columns > 0]
    expected = np.outer(rows[rows > 0], columns[columns > 0])
    least = min(joint.shape) - 1
    if least < 1:
        return 0.0
    return float(min(1.0, np.sqrt(max(0.0, ((joint - expected) ** 2 / expected).sum()) / least)))


def _pearson(joint: NDArray[np.float64]) -> float:
    total = joint.sum()
    if total <= 0:
        return 0.0
    x, y = np.arange(joint.shape[0]), np.arange(joint.shape[1])
    across, down = joint.sum(axis=1) / total, joint.sum(axis=0) / total
    mean_x, mean_y = across @ x, down @ y
    spread = np.sqrt((across @ (x - mean_x) ** 2) * (down @ (y - mean_y) ** 2))
    return float(abs((x - mean_x) @ (joint / total) @ (y - mean_y)) / spread) if spread > 1e-12 else 0.0
