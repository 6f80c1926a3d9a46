"""Trees as tensors of a release, and back from an untrusted one.

Tables are float32; a fit rounds them before it tilts (`rounded`), so that a release that is opened draws what the
fitted model draws.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from dpgm.arrays import Floats, Ints
from dpgm.data.domain import Domain
from dpgm.errors import ArtefactError
from dpgm.statistics.clipped_vectors import ClippedVectors, VectorMap
from dpgm.statistics.coded_rows import Coding
from dpgm.statistics.column_counts import COLUMNS, ColumnCounts
from dpgm.statistics.list_vectors import (
    ITEMS_BY_GROUPS,
    ITEMS_BY_VALUES,
    ITEMS_TOGETHER,
    LIST_ITEMS,
    ItemsByColumns,
    ItemsTogether,
    ListItems,
)
from dpgm.statistics.pair_blocks import COARSE, FEATURE_STEPS, FULL, SMOOTH, Features, PairBlocks
from dpgm.strategy.protocol import check_shares, is_size
from dpgm.trees.forest import Forest, Leaves, depth_first
from dpgm.trees.rules import LARGEST_TILT, MOST_TREES
from dpgm.trees.tilted import TiltedStatistic, TiltedSums

_LISTS = (LIST_ITEMS, ITEMS_BY_GROUPS, ITEMS_BY_VALUES, ITEMS_TOGETHER)
_MOST_RECORDS = 2**53
_LARGEST_PHI = 4 * FEATURE_STEPS  # features are differences of shares or polynomials in [-1, 1]
_LARGEST_NORM = 2**52  # below, squared norms in steps are exact


def rounded(forest: Forest) -> Forest:
    """The forest with tables as a release holds them."""
    return replace(
        forest,
        tables=tuple(_float32(table) for table in forest.tables),
        leaves=tuple(replace(one, chances=_float32(one.chances)) for one in forest.leaves),
    )


def _float32(table: Floats) -> Floats:
    return table.astype(np.float32).astype(np.float64)


def forest_tensors(forest: Forest) -> dict[str, Tensor]:
    """The tensors of a forest."""
    found = {
        "weights": torch.from_numpy(forest.weights),
        "parents": torch.tensor(forest.parents, dtype=torch.int32),
        "tables": _flat(forest.tables),
    }
    if forest.leaves:
        found["parents of lists"] = torch.tensor([one.parent for one in forest.leaves], dtype=torch.int32)
        found["chances of items"] = _flat([one.chances for one in forest.leaves])
    return found


def _flat(tables: Sequence[Floats]) -> Tensor:
    return torch.from_numpy(np.concatenate([np.empty(0), *(one.ravel() for one in tables)])).float()


def tilted_tensors(tilted: TiltedSums) -> dict[str, Tensor]:
    """The tensors of a tilted statistic; columns need no more than their parameters."""
    statistic = tilted.statistic
    found = {
        "parameters": tilted.parameters.double(),
        "sums": tilted.sums.double(),
        "noise": torch.tensor([tilted.std, tilted.ridge], dtype=torch.float64),
    }
    if isinstance(statistic, PairBlocks):
        features = statistic.features
        found |= {
            "groups": torch.from_numpy(np.concatenate([one.groups for one in features])).int(),
            "widths": torch.tensor([one.phi.shape[1] for one in features], dtype=torch.int32),
            "features": torch.from_numpy(np.concatenate([one.phi.ravel() for one in features])).short(),
            "pairs": torch.from_numpy(statistic.pairs).int(),
            "emphasis": torch.from_numpy(statistic.emphasis).int(),
            "limit": torch.tensor([statistic.limit], dtype=torch.int64),
        }
    if isinstance(statistic, ClippedVectors):
        found |= _map_tensors(statistic.map) | {"limit": torch.tensor([statistic.limit], dtype=torch.int64)}
    return {f"{statistic.name}: {name}": tensor for name, tensor in found.items()}


def _map_tensors(items: VectorMap) -> dict[str, Tensor]:
    """Items, and the groups of the columns that they are counted beside."""
    assert isinstance(items, ListItems | ItemsByColumns | ItemsTogether)
    found = {"items": torch.from_numpy(items.items).int()}
    if isinstance(items, ItemsByColumns):
        used = [(column, own) for column, own in enumerate(items.groups) if own is not None]
        found["columns"] = torch.tensor([column for column, _ in used], dtype=torch.int32)
        found["groups"] = torch.from_numpy(np.concatenate([own for _, own in used])).int()
    return found


# -- from an untrusted release -------------------------------------------------------------------------------------


def read_parts(
    kind: str, architecture: Mapping[str, Any], tensors: Mapping[str, Tensor], domain: Domain
) -> tuple[Forest, list[TiltedSums], int, float]:
    """The forest, the tilted statistics, the number of records and the log of the mean weight.

    Raises:
        ArtefactError: a part is missing, unknown, misshapen, of another type, or out of range.
    """
    components, records, names = (architecture.get(key) for key in ("components", "records", "statistics"))
    known = [COLUMNS, COARSE, FULL, SMOOTH, *_LISTS]
    if set(architecture) != {"kind", "components", "records", "statistics"} or architecture["kind"] != kind:
        raise ArtefactError("the model is not a mixture of trees; get the release again.")
    if not is_size(components, MOST_TREES) or not is_size(records, _MOST_RECORDS):
        raise ArtefactError("the model's number of components or records is not valid; get the release again.")
    if not isinstance(names, list) or names[:1] != [COLUMNS] or names != [one for one in known if one in names]:
        raise ArtefactError("the model's statistics are not valid; get the release again.")
    parts = _Parts(tensors)
    coding = Coding.of(domain)
    forest = _read_forest(parts, domain, components)
    tilted = [_read_tilted(parts, coding, name) for name in names]
    (log_mean,) = parts.take("log mean weight", torch.float64, (1,), LARGEST_TILT).tolist()
    parts.finish()
    return forest, tilted, records, log_mean


class _Parts:
    """Takes tensors one by one, each checked for its type, shape and range."""

    def __init__(self, tensors: Mapping[str, Tensor]) -> None:
        self._left = dict(tensors)

    def take(
        self, name: str, dtype: torch.dtype, shape: tuple[int, ...], most: float, least: float | None = None
    ) -> Any:
        """A tensor as an array, with values in [least, most]; `least` is -most if it is not given."""
        tensor = self._left.pop(name, None)
        if tensor is None or tensor.dtype != dtype or tuple(tensor.shape) != shape:
            raise ArtefactError(f"the tensor {name!r} is missing or misshapen; get the release again.")
        lowest = -most if least is None else least
        if not bool(((tensor >= lowest) & (tensor <= most)).all()):  # false for NaN too
            raise ArtefactError(f"the tensor {name!r} holds values out of range; get the release again.")
        array = tensor.numpy()
        return array.astype(np.float64 if tensor.is_floating_point() else np.int64)

    def length(self, name: str) -> int:
        """The length of the first axis of a tensor; 0 if there is none."""
        tensor = self._left.get(name)
        return 0 if tensor is None or tensor.dim() == 0 else len(tensor)

    def finish(self) -> None:
        """Refuse tensors that nothing asked for."""
        if self._left:
            raise ArtefactError("the model has unknown tensors; get the release again.")


def _read_forest(parts: _Parts, domain: Domain, components: int) -> Forest:
    weights = parts.take("weights", torch.float64, (components,), 1.0, 0.0)
    sizes = [column.stop - column.start for column in domain.table_columns]
    lists = [(block.start, block.width) for block in domain.blocks if not block.softmax]
    parents = parts.take("parents", torch.int32, (len(sizes),), len(sizes) - 1, -1).tolist()
    if len(depth_first(parents)) != len(sizes):
        raise ArtefactError("the columns of the model are no forest; get the release again.")
    shapes = [(components, 1 if up < 0 else sizes[up], own) for up, own in zip(parents, sizes, strict=True)]
    tables = _split(parts, "tables", shapes)
    for shares in (weights, *tables):
        check_shares(torch.from_numpy(shares))
    return Forest(domain, weights, tuple(parents), tuple(tables), _read_leaves(parts, lists, sizes, components))


def _read_leaves(
    parts: _Parts, lists: Sequence[tuple[int, int]], sizes: Sequence[int], components: int
) -> tuple[Leaves, ...]:
    if not lists:
        return ()
    parents = parts.take("parents of lists", torch.int32, (len(lists),), len(sizes) - 1, -1).tolist()
    ups = [1 if up < 0 else sizes[up] for up in parents]
    shapes = [(components, codes, width) for codes, (_, width) in zip(ups, lists, strict=True)]
    chances = _split(parts, "chances of items", shapes)
    return tuple(Leaves(start, up, own) for (start, _), up, own in zip(lists, parents, chances, strict=True))


def _split(parts: _Parts, name: str, shapes: Sequence[tuple[int, ...]]) -> list[Floats]:
    lengths = [int(np.prod(shape)) for shape in shapes]
    flat = parts.take(name, torch.float32, (sum(lengths),), 1.0, 0.0)
    pieces = np.split(flat, np.cumsum(lengths)[:-1]) if lengths else []
    return [piece.reshape(shape) for piece, shape in zip(pieces, shapes, strict=True)]


def _read_tilted(parts: _Parts, coding: Coding, name: str) -> TiltedSums:
    statistic: TiltedStatistic
    if name == COLUMNS:
        statistic, width = ColumnCounts(coding), sum(coding.sizes)
    elif name in _LISTS:
        statistic = _read_items(parts, coding, name)
        width = statistic.map.width
    else:
        statistic = _read_pairs(parts, coding, name)
        width = statistic.width
    parameters = parts.take(f"{name}: parameters", torch.float64, (width,), LARGEST_TILT)
    sums = parts.take(f"{name}: sums", torch.float64, (width,), _MOST_RECORDS)
    std, ridge = parts.take(f"{name}: noise", torch.float64, (2,), _MOST_RECORDS, 0.0).tolist()
    return TiltedSums(statistic, torch.from_numpy(parameters), torch.from_numpy(sums), std, ridge)


def _read_pairs(parts: _Parts, coding: Coding, name: str) -> PairBlocks:
    wrong = ArtefactError(f"the {name} of the model are not valid; get the release again.")
    sizes = np.array(coding.sizes) + 1  # rows without a value have a code of their own
    flat = parts.take(f"{name}: groups", torch.int32, (int(sizes.sum()),), int(sizes.max()), 0)
    groups = _split_groups(flat, sizes.tolist(), wrong)
    counts = [int(own[-1]) for own in groups]
    widths = parts.take(f"{name}: widths", torch.int32, (len(sizes),), int(sizes.max()) + FEATURE_STEPS, 1).tolist()
    lengths = [(count + 1) * width for count, width in zip(counts, widths, strict=True)]
    numbers = parts.take(f"{name}: features", torch.int16, (sum(lengths),), _LARGEST_PHI)
    phis = [
        own.reshape(count + 1, width)
        for own, count, width in zip(np.split(numbers, np.cumsum(lengths)[:-1]), counts, widths, strict=True)
    ]
    if any(phi[-1].any() for phi in phis):
        raise wrong
    number = parts.length(f"{name}: pairs")
    pairs = parts.take(f"{name}: pairs", torch.int32, (number, 2), len(sizes) - 1, 0)
    emphasis = parts.take(f"{name}: emphasis", torch.int32, (number,), 2**15, 0)
    limit = int(parts.take(f"{name}: limit", torch.int64, (1,), _LARGEST_NORM, 1)[0])
    if not number or (pairs[:, 0] >= pairs[:, 1]).any() or len(np.unique(pairs, axis=0)) < number:
        raise wrong
    squares = [int((phi**2).sum(axis=1).max()) for phi in phis]
    if sum(omega**2 for omega in emphasis.tolist()) * max(squares) ** 2 >= _LARGEST_NORM:
        raise wrong
    features = tuple(Features(own, phi) for own, phi in zip(groups, phis, strict=True))
    return PairBlocks(coding, features, pairs, emphasis, limit, name)


def _split_groups(flat: Ints, sizes: Sequence[int], wrong: ArtefactError) -> list[Ints]:
    """The groups of the codes of some columns; the last one of each is the number of groups."""
    groups: list[Ints] = np.split(flat, np.cumsum(sizes)[:-1])
    if any(own[-1] < 1 or own[:-1].max() >= own[-1] for own in groups):
        raise wrong
    return groups


def _read_items(parts: _Parts, coding: Coding, name: str) -> ClippedVectors:
    wrong = ArtefactError(f"the {name} of the model are not valid; get the release again.")
    possible = np.flatnonzero(coding.domain.item_positions)
    items = parts.take(f"{name}: items", torch.int32, (parts.length(f"{name}: items"),), coding.domain.width, 0)
    if not len(items) or (np.diff(items) <= 0).any() or not np.isin(items, possible).all():
        raise wrong
    limit = int(parts.take(f"{name}: limit", torch.int64, (1,), _LARGEST_NORM, 1)[0])
    if name == LIST_ITEMS:
        return ClippedVectors(ListItems(coding, items), limit)
    if name == ITEMS_TOGETHER:
        return ClippedVectors(ItemsTogether(coding, items), limit)
    count = parts.length(f"{name}: columns")
    columns = parts.take(f"{name}: columns", torch.int32, (count,), coding.table_columns - 1, 0)
    if not count or (np.diff(columns) <= 0).any():
        raise wrong
    sizes = [coding.sizes[column] + 1 for column in columns.tolist()]
    flat = parts.take(f"{name}: groups", torch.int32, (sum(sizes),), max(sizes), 0)
    groups: list[Ints | None] = [None] * coding.table_columns
    for column, own in zip(columns.tolist(), _split_groups(flat, sizes, wrong), strict=True):
        groups[column] = own
    return ClippedVectors(ItemsByColumns(coding, items, tuple(groups), name), limit)
