"""Real beside synthetic records: lengths, positions, pairs, frequent item sets, columns of a table, mean images."""

import heapq
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from dpgm import validation
from dpgm.data.domain import Domain, Image
from dpgm.data.records import Records
from dpgm.errors import UsageError
from dpgm.evaluation.counting_queries import SANITY, count_queries, item_frequencies, packed_bits
from dpgm.evaluation.inputs import check_comparable, position_names

MOST_PAIRED = 1500  # pairs are measured among this many of the most frequent positions
_CHUNK = 8192
_DENSE = 0.02  # share of ones from which one dense product is faster than a sparse one
_NAMED = 10  # best, worst and lost positions that are listed


@dataclass(frozen=True)
class LengthDistance:
    """Total variation between the histograms of record lengths (0: equal, 1: disjoint)."""

    total_variation: float
    real: NDArray[np.float64]  # share of records of length 0, 1, 2, ...
    synthetic: NDArray[np.float64]
    real_mean: float
    synthetic_mean: float


def record_lengths(real: Records, synthetic: Records) -> LengthDistance:
    """Compare how many items records hold; refuses tables."""
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
class ItemComparison:
    """One position: the share of records that hold it on both sides."""

    name: str
    real: float
    synthetic: float
    error: float


def best_and_worst(
    singles: OneWay, domain: Domain
) -> tuple[tuple[ItemComparison, ...], tuple[ItemComparison, ...]]:
    """Of the positions that at least 0.1 % of the real records hold, those with the smallest and largest errors."""
    names = position_names(domain)
    errors = np.abs(singles.synthetic - singles.real) / np.maximum(singles.real, SANITY)
    common = np.flatnonzero(singles.real >= SANITY)
    order = common[np.argsort(errors[common], kind="stable")]
    half = min(_NAMED, len(order) // 2 if len(order) > 1 else 1)
    # among equally well preserved items the most frequent ones are the interesting ones
    best = sorted(order[: max(half, len(order) // 4)], key=lambda at: -singles.real[at])[:half]
    listed = [
        [
            ItemComparison(names[at], float(singles.real[at]), float(singles.synthetic[at]), float(errors[at]))
            for at in positions
        ]
        for positions in (best, order[::-1][:half])
    ]
    return tuple(listed[0]), tuple(listed[1])


@dataclass(frozen=True)
class LostItems:
    """Positions held by at least 0.1 % of the real records that occur less than a tenth as often as they should."""

    count: int
    of: int
    largest: float  # the largest real share among them
    names: tuple[str, ...]  # the most frequent of them


def lost_items(singles: OneWay, domain: Domain, synthetic_records: int) -> LostItems:
    """What hardly ever occurs, among positions frequent enough to be missed."""
    common = (singles.real >= SANITY) & (singles.real * synthetic_records >= 10)
    lost = np.flatnonzero(common & (singles.synthetic < singles.real / 10))
    order = lost[np.argsort(-singles.real[lost], kind="stable")][:_NAMED]
    names = position_names(domain, with_fields=True)
    largest = float(singles.real[lost].max(initial=0.0))
    return LostItems(len(lost), int(common.sum()), largest, tuple(names[at] for at in order))


def most_frequent(records: Records, most: int) -> NDArray[np.int64]:
    """Positions that occur, the most frequent first (ties by position), at most `most` of them."""
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
    """Records that hold both positions, (n, n) for the n positions asked; the diagonal holds single counts."""
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
    """Total variation of the two-by-two table of every pair of positions; correlations (phi) beside it."""

    positions: int  # among how many of the most frequent positions
    mean_total_variation: float
    largest_total_variation: float
    mean_correlation_difference: float


def two_way(real: Records, synthetic: Records, most: int = MOST_PAIRED) -> TwoWay:
    """Compare pairs among the `most` positions most frequent in the real data."""
    positions = _paired_positions(real, synthetic, most)
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
class CoOccurrence:
    """For the most frequent items: of the records with the row's item, the share that hold the column's."""

    positions: tuple[int, ...]
    real: NDArray[np.float64]
    synthetic: NDArray[np.float64]
    mean_difference: float


def co_occurrence(real: Records, synthetic: Records, most: int = 20) -> CoOccurrence:
    """Conditional shares of the `most` items most frequent in the real data."""
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
    """The most frequent item sets of both sides, and how many the synthetic data gets right."""

    precision: float
    recall: float
    real: tuple[tuple[tuple[int, ...], float], ...]  # item set and the share of records holding it
    synthetic: tuple[tuple[tuple[int, ...], float], ...]


def frequent_sets(real: Records, synthetic: Records, top: int = 100) -> FrequentSets:
    """Precision and recall of the synthetic data's `top` most frequent item sets.

    A set counts as right if it is at least as frequent in the real data as the real top's last one, so ties at
    the border cost nothing.
    """
    check_comparable(real, synthetic)
    validation.whole(at_least=1, top=top)
    ours, theirs = top_sets(real, top), top_sets(synthetic, top)
    if not ours:
        raise UsageError("the real data holds no items.")
    border_real, border_synthetic = ours[-1][1], theirs[-1][1] if theirs else np.inf
    right = count_queries(real, [items for items, _ in theirs]) >= border_real
    found = count_queries(synthetic, [items for items, _ in ours]) >= border_synthetic
    return FrequentSets(
        precision=float(right.mean()) if theirs else 0.0,
        recall=float(found.mean()),
        real=tuple((items, count / len(real)) for items, count in ours),
        synthetic=tuple((items, count / len(synthetic)) for items, count in theirs),
    )


def top_sets(records: Records, top: int) -> list[tuple[tuple[int, ...], int]]:
    """The `top` most frequent non-empty item sets with their counts.

    Best first: a set is never more frequent than the set without its last item, so taking the most frequent
    candidate and adding its extensions finds them in order. Only the `top` most frequent items can take part.
    """
    items = most_frequent(records, top)
    place = np.full(records.width, len(items), dtype=np.int64)
    place[items] = np.arange(len(items))
    blocks = [packed_bits(chunk, place, len(items))[:-1] for chunk in records.chunks(65536)]
    bits = np.concatenate(blocks, axis=1)
    queue: list[tuple[int, tuple[int, ...]]] = []
    queue += [(-int(np.bitwise_count(row).sum()), (at,)) for at, row in enumerate(bits)]
    heapq.heapify(queue)
    found: list[tuple[tuple[int, ...], int]] = []
    while queue and len(found) < top:
        negative, members = heapq.heappop(queue)
        found.append((tuple(sorted(int(items[at]) for at in members)), -negative))
        both = np.bitwise_and.reduce(bits[list(members)], axis=0)
        for at in range(members[-1] + 1, len(items)):
            count = int(np.bitwise_count(both & bits[at]).sum())
            if count:
                heapq.heappush(queue, (-count, (*members, at)))
    return found


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
    """Compare every pair of categorical and numeric columns; refuses domains with fewer than two."""
    check_comparable(real, synthetic)
    columns = [at for at, block in enumerate(real.domain.blocks) if block.softmax]
    if len(columns) < 2:
        raise UsageError("the domain has fewer than two categorical or numeric columns.")
    fields = [real.domain.fields[at] for at in columns]
    names = tuple(field.name for field in fields)
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
    inside = (records.indices >= block.start) & (records.indices < block.stop)
    rows = np.repeat(np.arange(len(records)), records.lengths)[inside]
    codes[rows] = records.indices[inside].astype(np.int64) - block.start
    return codes


def categorical_label(domain: Domain) -> int | None:
    """The number of the categorical field that the domain names as its label, if it does."""
    wanted = (domain.label, "categorical")
    return next((at for at, field in enumerate(domain.fields) if (field.name, field.kind) == wanted), None)


@dataclass(frozen=True)
class ImageFigures:
    """Images by label: how much they vary relative to real ones, how far mean images and label shares are off."""

    variety: float
    pixel_difference: float
    label_gap: float | None


def image_figures(
    real: Records, synthetic: Records, means: tuple[NDArray[np.float64], NDArray[np.float64]]
) -> ImageFigures:
    """Variety within a label is the chance that two of its images differ in a pixel: 2 p (1 - p), summed."""
    ours, theirs = (float((2 * mean * (1 - mean)).sum()) for mean in means)
    label, gap = categorical_label(real.domain), None
    if label is not None:
        width = real.domain.fields[label].width + 1
        shares = [np.bincount(field_codes(r, label), minlength=width) / len(r) for r in (real, synthetic)]
        gap = float(np.abs(shares[0] - shares[1]).max())
    return ImageFigures(theirs / ours if ours > 0 else 1.0, float(np.abs(means[0] - means[1]).mean()), gap)


def mean_images(records: Records) -> NDArray[np.float64]:
    """The mean image of every label, (labels, height, columns), or of all records where there is no label."""
    domain = records.domain
    at, picture = next((at, field) for at, field in enumerate(domain.fields) if isinstance(field, Image))
    start, label = domain.offsets[at], categorical_label(domain)
    count = 1 if label is None else domain.fields[label].width
    groups = np.zeros(len(records), dtype=np.int64) if label is None else field_codes(records, label)
    inside = (records.indices >= start) & (records.indices < start + picture.width)
    pixels = (records.indices[inside].astype(np.int64) - start) % picture.pixels
    cells = np.repeat(groups, records.lengths)[inside] * picture.pixels + pixels
    sums = np.bincount(cells, minlength=(count + 1) * picture.pixels)[: count * picture.pixels]
    sizes = np.maximum(np.bincount(groups, minlength=count + 1)[:count], 1) * (picture.levels - 1)
    means: NDArray[np.float64] = sums.reshape(count, picture.height, picture.columns) / sizes[:, None, None]
    return means


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
