"""Low-order statistics of real and synthetic records compared: lengths, single positions, pairs, frequent item sets.

For tables: total variation and association of pairs of columns. For images: mean images and variety per label.
"""

import heapq
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from dpgm import validation
from dpgm.data.domain import Domain
from dpgm.data.records import Records
from dpgm.errors import UsageError
from dpgm.evaluation.counting_queries import SANITY, count_queries, item_frequencies, packed_bits
from dpgm.evaluation.inputs import check_comparable, position_names

MOST_PAIRED = 1500  # pairs are compared among this many most frequent positions
_CHUNK = 8192
_DENSE = 0.02  # share of ones above which a dense matrix product is faster than a sparse one
_RARE_VALUE = 20  # records of both data sets together; rarer values of a column are merged for Cramér's V
_NAMED = 10  # how many best, worst and lost positions are listed


def total_variation(first: NDArray[np.float64], second: NDArray[np.float64]) -> float:
    """Half the sum of absolute differences of two distributions: 0 if they are equal, 1 if they are disjoint."""
    return float(np.abs(first - second).sum() / 2)


@dataclass(frozen=True)
class LengthDistance:
    """Record lengths: both histograms, their means and their total variation."""

    total_variation: float
    real: NDArray[np.float64]  # share of records of length 0, 1, 2, ...
    synthetic: NDArray[np.float64]
    real_mean: float
    synthetic_mean: float


def record_lengths(real: Records, synthetic: Records) -> LengthDistance:
    """Compare how many items records hold, without the values of their columns; refuses tables."""
    check_comparable(real, synthetic)
    if real.domain.is_table:
        raise UsageError("every row of a table has the same length.")
    lengths = [_item_counts(records) for records in (real, synthetic)]
    longest = int(max(counts.max() for counts in lengths))
    first, second = (np.bincount(counts, minlength=longest + 1) / len(counts) for counts in lengths)
    means = float(lengths[0].mean()), float(lengths[1].mean())
    return LengthDistance(total_variation(first, second), first, second, *means)


def _item_counts(records: Records) -> NDArray[np.int64]:
    """The number of items of every record; a column's value is no item."""
    columns = [block for block in records.domain.blocks if block.softmax]
    if not columns:
        return records.lengths
    is_item = np.ones(records.width, dtype=bool)
    for block in columns:
        is_item[block.start : block.stop] = False
    rows = np.repeat(np.arange(len(records)), records.lengths)
    return np.bincount(rows[is_item[records.indices]], minlength=len(records))


@dataclass(frozen=True)
class OneWay:
    """Share of real and of synthetic records that hold each position."""

    real: NDArray[np.float64]
    synthetic: NDArray[np.float64]
    mean_difference: float
    largest_difference: float


def one_way(real: Records, synthetic: Records) -> OneWay:
    """Compare single positions."""
    check_comparable(real, synthetic)
    first, second = item_frequencies(real) / len(real), item_frequencies(synthetic) / len(synthetic)
    gap = np.abs(first - second)
    return OneWay(first, second, float(gap.mean()), float(gap.max()))


@dataclass(frozen=True)
class ItemComparison:
    """One position: the share of real and of synthetic records that hold it, and the relative error."""

    name: str
    real: float
    synthetic: float
    error: float


def best_and_worst(
    singles: OneWay, domain: Domain
) -> tuple[tuple[ItemComparison, ...], tuple[ItemComparison, ...]]:
    """The positions with the smallest and the largest errors, among those in at least 0.1 % of the real records."""
    names = position_names(domain)
    errors = np.abs(singles.synthetic - singles.real) / np.maximum(singles.real, SANITY)
    common = np.flatnonzero(singles.real >= SANITY)
    order = common[np.argsort(errors[common], kind="stable")]
    half = min(_NAMED, len(order) // 2 if len(order) > 1 else 1)
    # Of the quarter with the smallest errors, the most frequent positions are the interesting ones.
    best = sorted(order[: max(half, len(order) // 4)], key=lambda at: -singles.real[at])[:half]

    def compared(at: int) -> ItemComparison:
        return ItemComparison(names[at], float(singles.real[at]), float(singles.synthetic[at]), float(errors[at]))

    return tuple(map(compared, best)), tuple(map(compared, order[::-1][:half]))


_EXPECTED = 20  # synthetic records with a position: of a thousand positions, hardly one is ever lost by chance


@dataclass(frozen=True)
class LostItems:
    """Positions in at least 0.1 % of the real records, with less than a tenth of that share in synthetic records."""

    count: int
    of: int  # number of positions in at least 0.1 % of the real records
    largest: float  # the largest real share of a lost position
    names: tuple[str, ...]  # of the most frequent lost positions


def lost_items(singles: OneWay, domain: Domain, synthetic_records: int) -> LostItems:
    """Find lost positions; those expected fewer times in the synthetic data may be absent by chance."""
    common = (singles.real >= SANITY) & (singles.real * synthetic_records >= _EXPECTED)
    lost = np.flatnonzero(common & (singles.synthetic < singles.real / 10))
    order = lost[np.argsort(-singles.real[lost], kind="stable")][:_NAMED]
    names = position_names(domain, with_fields=True)
    largest = float(singles.real[lost].max(initial=0.0))
    return LostItems(len(lost), int(common.sum()), largest, tuple(names[at] for at in order))


def most_frequent(records: Records, most: int) -> NDArray[np.int64]:
    """The `most` most frequent positions that occur at all, in descending order (ties by position)."""
    counts = item_frequencies(records)
    order = np.argsort(-counts, kind="stable")[:most]
    return order[counts[order] > 0].astype(np.int64)


def _paired_positions(real: Records, synthetic: Records, most: int) -> NDArray[np.int64]:
    check_comparable(real, synthetic)
    positions = most_frequent(real, most)
    if len(positions) < 2:
        raise UsageError("fewer than two items occur in the real data.")
    return positions


def pair_counts(records: Records, positions: NDArray[np.int64]) -> NDArray[np.int64]:
    """How many records hold both of two positions, (n, n) for n positions; the diagonal holds single counts."""
    total = np.zeros((len(positions), len(positions)), dtype=np.int64)
    for chunk in records.chunks(_CHUNK):
        matrix = chunk.to_scipy().astype(np.float32)[:, positions]
        if matrix.nnz > _DENSE * len(chunk) * len(positions):
            dense = matrix.toarray()
            total += (dense.T @ dense).astype(np.int64)  # exact: a chunk is far below 2^24 records
        else:
            total += (matrix.T @ matrix).toarray().astype(np.int64)
    return total


@dataclass(frozen=True)
class TwoWay:
    """Pairs of positions: total variation of their two-by-two tables, and differences of correlations (phi)."""

    positions: int  # number of most frequent positions that were paired
    mean_total_variation: float
    largest_total_variation: float
    mean_correlation_difference: float


def two_way(real: Records, synthetic: Records, most: int = MOST_PAIRED) -> TwoWay:
    """Compare pairs among the `most` positions most frequent in the real data."""
    positions = _paired_positions(real, synthetic, most)
    joints = [pair_counts(records, positions) / len(records) for records in (real, synthetic)]
    upper = np.triu_indices(len(positions), 1)
    cells = []
    for joint in joints:
        single = np.diag(joint)
        both, first, second = joint[upper], single[upper[0]], single[upper[1]]
        cells.append(np.stack([both, first - both, second - both, 1 - first - second + both]))
    variation = np.abs(cells[0] - cells[1]).sum(axis=0) / 2
    gap = np.abs(_phi(joints[0]) - _phi(joints[1]))[upper]
    return TwoWay(len(positions), float(variation.mean()), float(variation.max()), float(gap.mean()))


def _phi(joint: NDArray[np.float64]) -> NDArray[np.float64]:
    single = np.diag(joint)
    spread = np.sqrt(np.maximum(single * (1 - single), 0))
    scale = np.outer(spread, spread)
    covariance = joint - np.outer(single, single)
    phi: NDArray[np.float64] = np.divide(covariance, scale, out=np.zeros_like(joint), where=scale > 1e-12)
    return phi


@dataclass(frozen=True)
class CoOccurrence:
    """For the most frequent items: the share of records with the row's item that also hold the column's item."""

    positions: tuple[int, ...]
    real: NDArray[np.float64]
    synthetic: NDArray[np.float64]
    mean_difference: float


def co_occurrence(real: Records, synthetic: Records, most: int = 20) -> CoOccurrence:
    """Compare conditional shares among the `most` items most frequent in the real data."""
    positions = _paired_positions(real, synthetic, most)
    shares = []
    for records in (real, synthetic):
        counts = pair_counts(records, positions).astype(np.float64)
        shares.append(counts / np.maximum(np.diag(counts), 1.0)[:, None])
    off = ~np.eye(len(positions), dtype=bool)
    difference = float(np.abs(shares[0] - shares[1])[off].mean())
    return CoOccurrence(tuple(positions.tolist()), shares[0], shares[1], difference)


@dataclass(frozen=True)
class FrequentSets:
    """The most frequent item sets of both sides; precision and recall of the synthetic data's."""

    precision: float
    recall: float
    real: tuple[tuple[tuple[int, ...], float], ...]  # item sets, each with the share of records that hold it
    synthetic: tuple[tuple[tuple[int, ...], float], ...]


def frequent_sets(real: Records, synthetic: Records, top: int = 100) -> FrequentSets:
    """Precision and recall of the synthetic data's `top` most frequent item sets.

    A set counts as right if it is at least as frequent in the real data as the least frequent of the real `top`, so
    ties at the border cost nothing.
    """
    check_comparable(real, synthetic)
    validation.whole(at_least=1, top=top)
    real_top, synthetic_top = top_sets(real, top), top_sets(synthetic, top)
    if not real_top:
        raise UsageError("the real data holds no items.")
    real_border, synthetic_border = real_top[-1][1], synthetic_top[-1][1] if synthetic_top else np.inf
    right = count_queries(real, [items for items, _ in synthetic_top]) >= real_border
    found = count_queries(synthetic, [items for items, _ in real_top]) >= synthetic_border
    return FrequentSets(
        precision=float(right.mean()) if synthetic_top else 0.0,
        recall=float(found.mean()),
        real=tuple((items, count / len(real)) for items, count in real_top),
        synthetic=tuple((items, count / len(synthetic)) for items, count in synthetic_top),
    )


def top_sets(records: Records, top: int) -> list[tuple[tuple[int, ...], int]]:
    """The `top` most frequent non-empty item sets with their counts.

    A best-first search: a set is never more frequent than the set without its last item, so taking the most frequent
    candidate and adding its extensions to the queue finds them in order. Only the `top` most frequent items can occur.
    """
    items = most_frequent(records, top)
    row_of = np.full(records.width, len(items), dtype=np.int64)
    row_of[items] = np.arange(len(items))
    blocks = [packed_bits(chunk, row_of, len(items))[:-1] for chunk in records.chunks(65536)]
    bits = np.concatenate(blocks, axis=1)
    queue: list[tuple[int, tuple[int, ...]]]
    queue = [(-int(np.bitwise_count(row).sum()), (at,)) for at, row in enumerate(bits)]
    heapq.heapify(queue)
    found: list[tuple[tuple[int, ...], int]] = []
    while queue and len(found) < top:
        negative, members = heapq.heappop(queue)
        found.append((tuple(sorted(int(items[at]) for at in members)), -negative))
        holders = np.bitwise_and.reduce(bits[list(members)], axis=0)
        for at in range(members[-1] + 1, len(items)):
            count = int(np.bitwise_count(holders & bits[at]).sum())
            if count:
                heapq.heappush(queue, (-count, (*members, at)))
    return found


@dataclass(frozen=True)
class TablePairs:
    """Pairs of columns of a table: total variation, and association in the real and in the synthetic data.

    Association is |Pearson's r| of the bin numbers for two numeric columns, and Cramér's V otherwise, for
    which rare values are merged.
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
    association_error: NDArray[np.float64]  # standard error of the difference of two associations near 0
    association_bias: NDArray[np.float64]  # difference of Cramér's V that unequal numbers of records cause


def table_pairs(real: Records, synthetic: Records) -> TablePairs:
    """Compare every pair of categorical and numeric columns; refuses domains with fewer than two."""
    check_comparable(real, synthetic)
    columns = [at for at, block in enumerate(real.domain.blocks) if block.softmax]
    if len(columns) < 2:
        raise UsageError("the domain has fewer than two categorical or numeric columns.")
    fields = [real.domain.fields[at] for at in columns]
    names = tuple(field.name for field in fields)
    bins = [field.equal_bins for field in fields]
    widths = [real.domain.blocks[at].width + 1 for at in columns]  # one more for rows without a value
    sides = [[field_codes(r, at) for at in columns] for r in (real, synthetic)]
    size = len(columns)
    variation, first, second = np.zeros((size, size)), np.eye(size), np.eye(size)
    error, bias = np.zeros((size, size)), np.zeros((size, size))
    for a in range(size):
        shares = [np.bincount(codes[a], minlength=widths[a]) / len(codes[a]) for codes in sides]
        variation[a, a] = total_variation(*shares)
    for a, b in combinations(range(size), 2):
        tables = []
        for codes in sides:
            joint = np.bincount(codes[a] * widths[b] + codes[b], minlength=widths[a] * widths[b])
            tables.append(joint.reshape(widths[a], widths[b]) / len(codes[a]))
        variation[a, b] = variation[b, a] = total_variation(*tables)
        if bins[a] and bins[b]:  # missing values, which come after the bins, have no place on the numeric scale
            inner = [table[: bins[a], : bins[b]] for table in tables]
            associations = [_absolute_correlation(table) for table in inner]
            rows = [table.sum() * len(r) for table, r in zip(inner, (real, synthetic), strict=True)]
        else:
            tables = _without_rare_values(tables, [len(real), len(synthetic)])
            associations = [_cramers_v(table) for table in tables]
            rows = [len(real), len(synthetic)]
            # V^2 of independent columns is about (larger number of values - 1) / rows
            values = [max((table.sum(axis=axis) > 0).sum() for axis in (0, 1)) - 1 for table in tables]
            expected = [np.sqrt(more / count) for more, count in zip(values, rows, strict=True)]
            bias[a, b] = bias[b, a] = abs(expected[0] - expected[1])
        error[a, b] = error[b, a] = np.sqrt(sum(1 / max(count, 1) for count in rows))
        first[a, b] = first[b, a] = associations[0]
        second[a, b] = second[b, a] = associations[1]
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
        association_error=error,
        association_bias=bias,
    )


def field_codes(records: Records, field: int) -> NDArray[np.int64]:
    """For every record, the code of its value in a field of one value per record; the field's width if it has none."""
    block = records.domain.blocks[field]
    codes = np.full(len(records), block.width, dtype=np.int64)
    inside = (records.indices >= block.start) & (records.indices < block.stop)
    rows = np.repeat(np.arange(len(records)), records.lengths)[inside]
    codes[rows] = records.indices[inside].astype(np.int64) - block.start
    return codes


def categorical_label(domain: Domain) -> int | None:
    """Index of the domain's label field; None if the domain names none, or one that is not categorical."""
    labels = (at for at, field in enumerate(domain.fields) if field.name == domain.label and field.is_category)
    return next(labels, None)


@dataclass(frozen=True)
class ImageFigures:
    """Differences between real and synthetic images, label by label."""

    variety: float  # how much images of one label differ from each other, relative to the real images
    pixel_difference: float  # mean absolute difference of the mean images
    label_gap: float | None  # largest difference in the share of a label


def image_figures(
    real: Records, synthetic: Records, means: tuple[NDArray[np.float64], NDArray[np.float64]]
) -> ImageFigures:
    """Compare images; variety is the chance that two images of a label differ in a pixel: 2 p (1 - p), summed."""
    real_variety, synthetic_variety = (float((2 * mean * (1 - mean)).sum()) for mean in means)
    label, gap = categorical_label(real.domain), None
    if label is not None:
        width = real.domain.fields[label].width + 1
        shares = [np.bincount(field_codes(r, label), minlength=width) / len(r) for r in (real, synthetic)]
        gap = float(np.abs(shares[0] - shares[1]).max())
    variety = synthetic_variety / real_variety if real_variety > 0 else 1.0
    return ImageFigures(variety, float(np.abs(means[0] - means[1]).mean()), gap)


def mean_images(records: Records) -> NDArray[np.float64]:
    """The mean image of every label, (labels, height, columns), or of all records where there is no label."""
    domain = records.domain
    picture, label = domain.image, categorical_label(domain)
    assert picture is not None
    start = domain.offsets[domain.fields.index(picture)]
    count = 1 if label is None else domain.fields[label].width
    groups = np.zeros(len(records), dtype=np.int64) if label is None else field_codes(records, label)
    inside = (records.indices >= start) & (records.indices < start + picture.width)
    pixels = (records.indices[inside].astype(np.int64) - start) % picture.pixels
    cells = np.repeat(groups, records.lengths)[inside] * picture.pixels + pixels
    sums = np.bincount(cells, minlength=(count + 1) * picture.pixels)[: count * picture.pixels]
    sizes = np.maximum(np.bincount(groups, minlength=count + 1)[:count], 1) * (picture.levels - 1)
    means: NDArray[np.float64] = sums.reshape(count, picture.height, picture.columns) / sizes[:, None, None]
    return means


def _without_rare_values(
    tables: Sequence[NDArray[np.float64]], records: Sequence[int]
) -> list[NDArray[np.float64]]:
    """Two tables of joint shares in which the rarest values of each column are merged, so that no value is rare.

    A few records with rare values in both columns would otherwise decide Cramér's V.
    """
    enough = min(_RARE_VALUE, sum(records) / 4)
    counts = tables[0] * records[0] + tables[1] * records[1]
    for axis in (0, 1):
        margin = counts.sum(axis=1 - axis)
        order = np.argsort(margin, kind="stable")
        merged = order[: max((margin < enough).sum(), np.searchsorted(np.cumsum(margin[order]), enough) + 1)]
        rest = [table.take(merged, axis).sum(axis=axis, keepdims=True) for table in tables]
        tables = [np.concatenate([np.delete(t, merged, axis), r], axis) for t, r in zip(tables, rest, strict=True)]
    return list(tables)


def _cramers_v(joint: NDArray[np.float64]) -> float:
    rows, columns = joint.sum(axis=1), joint.sum(axis=0)
    joint = joint[rows > 0][:, columns > 0]
    expected = np.outer(rows[rows > 0], columns[columns > 0])
    least = min(joint.shape) - 1
    if least < 1:
        return 0.0
    return float(min(1.0, np.sqrt(max(0.0, ((joint - expected) ** 2 / expected).sum()) / least)))


def _absolute_correlation(joint: NDArray[np.float64]) -> float:
    total = joint.sum()
    if total <= 0:
        return 0.0
    x, y = np.arange(joint.shape[0]), np.arange(joint.shape[1])
    across, down = joint.sum(axis=1) / total, joint.sum(axis=0) / total
    mean_x, mean_y = across @ x, down @ y
    spread = np.sqrt((across @ (x - mean_x) ** 2) * (down @ (y - mean_y) ** 2))
    return float(abs((x - mean_x) @ (joint / total) @ (y - mean_y)) / spread) if spread > 1e-12 else 0.0
