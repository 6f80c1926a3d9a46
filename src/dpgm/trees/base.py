"""The base: a mixture of trees whose expected statistics are near the released ones. Post-processing.

First a single tree: each of its edges is the joint distribution of two columns that was tilted to the statistics of
this pair. Then components start near this tree and move by Adam until the expected sums of all pairs are near the
released ones. The weights of scaled-down rows are taken as their means in each cell, learned from drawn rows.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from dpgm.arrays import Floats, Ints
from dpgm.statistics.column_counts import expected_rows
from dpgm.statistics.pair_blocks import FEATURE_STEPS, FOURTHS, PairBlocks
from dpgm.statistics.statistic import Measured
from dpgm.tilting.tilt import Released, tilt
from dpgm.trees.dependence import ColumnPair, mean_weights, pair_values, rooted
from dpgm.trees.forest import Forest
from dpgm.trees.measurement import TableMeasurements
from dpgm.trees.rules import TreeRules


def fit_base(
    measured: TableMeasurements,
    rules: TreeRules,
    rng: np.random.Generator,
    progress: Callable[[float], None] | None = None,
) -> Forest:
    """The fitted mixture."""
    rows = rules.base.rows
    codes = expected_rows(measured.shares, rows, rng)
    forest = _tree(measured, codes, rules)
    if not measured.pairs:
        return _with_items(measured, forest)
    # Mean weights of independent columns are too large where columns depend on each other: once more with the tree's.
    forest = _tree(measured, measured.coding.codes(forest.draw(rows, rng)), rules)
    means = _means(measured, measured.coding.codes(forest.draw(rows, rng)), rules)
    forest = _Descent(measured, forest, means, rules, rng).run(progress)
    return _with_items(measured, _without_gaps(forest, measured.shares))


def _with_items(measured: TableMeasurements, forest: Forest) -> Forest:
    """The forest with items below the column that says most of them, with the same chances in all components."""
    if measured.lists is None:
        return forest
    leaves = measured.lists.leaves(measured.coding)
    alike = [replace(one, chances=np.repeat(one.chances, forest.components, axis=0)) for one in leaves]
    return replace(forest, leaves=tuple(alike))


def _without_gaps(forest: Forest, shares: Sequence[Floats]) -> Forest:
    """The forest without values of share 0, which steps of Adam never quite leave out."""
    tables = [table * (own > 0) for table, own in zip(forest.tables, shares, strict=False)]
    return replace(forest, tables=tuple(table / table.sum(axis=2, keepdims=True) for table in tables))


def _means(measured: TableMeasurements, codes: Ints, rules: TreeRules) -> list[list[Floats]]:
    return [mean_weights(one.statistic, codes, rules.pairs.mean_prior) for one in measured.pairs]


# -- one tree ------------------------------------------------------------------------------------------------------


def _tree(measured: TableMeasurements, codes: Ints, rules: TreeRules) -> Forest:
    """The tree of the strongest pairs, given rows by which the mean weights of cells are known."""
    means = _means(measured, codes, rules)
    joints = {pair: _joint(measured, pair, means, rules) for pair in measured.tree}
    shares = measured.shares[: measured.coding.table_columns]
    parents = rooted(measured.tree, len(shares), measured.root)
    tables = []
    for column, (parent, own) in enumerate(zip(parents, shares, strict=True)):
        if parent < 0:
            tables.append(own[None, None] / own.sum())
            continue
        joint = joints[min(column, parent), max(column, parent)]
        joint = joint if parent < column else joint.T
        joint = joint + rules.base.floor * np.outer(joint.sum(1), joint.sum(0))
        held = joint.sum(axis=1, keepdims=True)
        tables.append(np.where(held > 0, joint / np.maximum(held, 1e-300), own)[None])
    forest = Forest(measured.coding.domain, np.ones(1), parents, tuple(tables))
    return _with_items(measured, forest)


def _joint(
    measured: TableMeasurements, pair: ColumnPair, means: Sequence[Sequence[Floats]], rules: TreeRules
) -> Floats:
    """The joint distribution of two columns, tilted to the statistics of this pair and to both columns."""
    released = []
    for one, of_pairs in zip(measured.pairs, means, strict=True):
        statistic = one.statistic
        found = np.flatnonzero((statistic.pairs == pair).all(axis=1))
        if len(found):
            at = int(found[0])
            first, second = (statistic.features[column] for column in pair)
            weights = of_pairs[at][np.ix_(first.groups[:-1], second.groups[:-1])]
            features = _CellFeatures(
                code_features(statistic, pair[0]),
                code_features(statistic, pair[1]),
                weights * (statistic.emphasis[at] / FOURTHS),
            )
            values = torch.from_numpy(pair_values(one)[at].ravel())
            released.append(Released(features, values, one.std, rules.ridge_of(statistic.name, alone=False)))
    shares = [measured.shares[column] for column in pair]
    counts = torch.from_numpy(measured.records * np.concatenate(shares))
    sizes = len(shares[0]), len(shares[1])
    released.append(Released(_MarginFeatures(*sizes), counts, measured.columns.std, rules.pool.column_ridge))
    with np.errstate(divide="ignore"):  # a missing value that no one has
        base = torch.from_numpy(np.log(np.outer(*shares)).ravel())
    settings = replace(rules.tilt, iterations=rules.base.edge_iterations)
    joint: Floats = tilt(released, base, measured.records, settings).log_weights.exp().numpy().reshape(sizes)
    return joint


def code_features(statistic: PairBlocks, column: int) -> Floats:
    """(codes, features) of one column."""
    features = statistic.features[column]
    return features.phi[features.groups[:-1]] / FEATURE_STEPS


class _CellFeatures:
    """Products of features, as a pool the cells of the table of two columns, each with its mean weight."""

    def __init__(self, first: Floats, second: Floats, weights: Floats) -> None:
        self._first, self._second, self._weights = first, second, weights

    def energies(self, theta: Tensor) -> Tensor:
        own = theta.numpy().reshape(self._first.shape[1], self._second.shape[1])
        return torch.from_numpy((self._weights * (self._first @ own @ self._second.T)).ravel())

    def sums(self, weights: Tensor) -> Tensor:
        cells = weights.numpy().reshape(self._weights.shape) * self._weights
        return torch.from_numpy((self._first.T @ cells @ self._second).ravel())

    def squares(self, weights: Tensor) -> Tensor:
        cells = weights.numpy().reshape(self._weights.shape) * self._weights**2
        return torch.from_numpy(((self._first**2).T @ cells @ self._second**2).ravel())


class _MarginFeatures:
    """Indicators of the codes of both columns, over the same cells."""

    def __init__(self, rows: int, columns: int) -> None:
        self._sizes = rows, columns

    def energies(self, theta: Tensor) -> Tensor:
        first, second = torch.split(theta, list(self._sizes))
        return (first[:, None] + second).flatten()

    def sums(self, weights: Tensor) -> Tensor:
        cells = weights.reshape(self._sizes)
        return torch.cat([cells.sum(1), cells.sum(0)])

    squares = sums


# -- a mixture -----------------------------------------------------------------------------------------------------


class _Descent:
    """Adam on the logits of all tables. Columns are numbered in the order of the forest, parents first."""

    def __init__(
        self,
        measured: TableMeasurements,
        forest: Forest,
        means: Sequence[Sequence[Floats]],
        rules: TreeRules,
        rng: np.random.Generator,
    ) -> None:
        self._forest, self._records = forest, measured.records
        self._rules = rules.base if any(one >= 0 for one in forest.parents) else rules.base.alone
        self._order = forest.order
        place = {column: at for at, column in enumerate(self._order)}
        self._parents = [place.get(forest.parents[column], -1) for column in self._order]
        self._sizes = [forest.tables[column].shape[2] for column in self._order]
        shares = [measured.shares[column] for column in self._order]
        self._shares = [torch.from_numpy(one).float() for one in shares]
        self._column_scale = measured.records / measured.columns.std
        components = self._rules.components
        self._logits = []
        for column in self._order:
            start = np.log(np.maximum(forest.tables[column], rules.base.floor**2))
            start = start + rules.base.spread * rng.normal(size=(components, *start.shape[1:]))
            self._logits.append(torch.from_numpy(start).float().requires_grad_())
        self._weights = torch.zeros(components, requires_grad=True)
        self._terms = [
            _Term(one, of_pairs, self._order, measured.records)
            for one, of_pairs in zip(measured.pairs, means, strict=True)
        ]

    def run(self, progress: Callable[[float], None] | None) -> Forest:
        """All steps."""
        rules = self._rules
        parameters = [*self._logits, self._weights]
        optimizer = torch.optim.Adam(parameters, lr=rules.learning_rate, betas=rules.betas)
        for step in range(rules.steps):
            cosine = 0.5 * (1 + math.cos(math.pi * step / rules.steps))
            rate = min(1.0, (step + 1) / rules.warm_up) * (rules.last_rate + (1 - rules.last_rate) * cosine)
            optimizer.param_groups[0]["lr"] = rate * rules.learning_rate
            optimizer.zero_grad()
            (self._loss() / self._records).backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            if progress is not None:
                progress((step + 1) / rules.steps)
        tables: list[Floats] = [np.empty(0)] * len(self._order)
        for column, logits in zip(self._order, self._logits, strict=True):
            tables[column] = torch.softmax(logits.detach().double(), 2).numpy()
        weights = torch.softmax(self._weights.detach().double(), 0).numpy()
        return Forest(self._forest.domain, weights, self._forest.parents, tuple(tables))

    def _loss(self) -> Tensor:
        """Half of chi-square, plus the penalty on what the component tells of a row."""
        tables = [torch.softmax(logits, 2) for logits in self._logits]
        weights = torch.softmax(self._weights, 0)
        margins = self._margins(tables)
        joint = self._joint(tables, margins, weights)
        loss = torch.zeros(())
        for term in self._terms:
            loss = loss + 0.5 * (term.residuals(joint) ** 2).sum()
        for margin, shares in zip(margins, self._shares, strict=True):
            loss = loss + 0.5 * ((weights @ margin - shares) * self._column_scale).square().sum()
        return loss + self._rules.penalty * self._records * self._divergence(tables, margins, weights)

    def _margins(self, tables: Sequence[Tensor]) -> list[Tensor]:
        margins: list[Tensor] = []
        for table, parent in zip(tables, self._parents, strict=True):
            margins.append(table[:, 0] if parent < 0 else (margins[parent][:, None] @ table)[:, 0])
        return margins

    def _joint(self, tables: Sequence[Tensor], margins: Sequence[Tensor], weights: Tensor) -> Tensor:
        """(codes, codes): joint shares of all pairs of columns, the earlier column's codes as rows; zero elsewhere."""
        if all(parent < 0 for parent in self._parents):
            every = torch.cat(list(margins), 1)
            return every.T @ (weights[:, None] * every)  # terms read pairs of different columns only
        total, columns = sum(self._sizes), []
        known: list[Tensor] = []  # of every column so far: (K, codes of all so far, own codes)
        for at, (table, parent) in enumerate(zip(tables, self._parents, strict=True)):
            if parent >= 0:
                earlier = known[parent] @ table
            else:
                earlier = torch.cat([*margins[:at], margins[at].new_zeros(len(weights), 0)], 1)[:, :, None]
                earlier = earlier * margins[at][:, None]
            column = torch.einsum("k,kab->ab", weights, earlier)
            columns.append(torch.nn.functional.pad(column, (0, 0, 0, total - len(column))))
            parts = torch.split(earlier, self._sizes[:at], 1)
            needed = set(self._parents[at + 1 :])
            known = [
                torch.cat([one, part.transpose(1, 2)], 1) if number in needed else one
                for number, (one, part) in enumerate(zip(known, parts, strict=True))
            ]
            known.append(torch.cat([earlier, torch.diag_embed(margins[at])], 1))
        return torch.cat(columns, 1)

    def _divergence(self, tables: Sequence[Tensor], margins: Sequence[Tensor], weights: Tensor) -> Tensor:
        """How far the tables of the components are from their common mean, in nats per row."""
        total = torch.zeros(())
        for table, parent in zip(tables, self._parents, strict=True):
            holders = weights[:, None] if parent < 0 else weights[:, None] * margins[parent]
            joint = holders[:, :, None] * table
            mean = joint.sum(0) / joint.sum((0, 2))[:, None].clamp(min=1e-9)
            total = total + (joint * (table.clamp(min=1e-9).log() - mean.clamp(min=1e-9).log())).sum()
        return total


class _Term:
    """The residuals of one statistic of pairs, in standard deviations, given the joint shares of all codes."""

    def __init__(
        self, measured: Measured[PairBlocks], means: Sequence[Floats], order: Sequence[int], records: int
    ) -> None:
        statistic = measured.statistic
        features = [code_features(statistic, column) for column in order]
        self._features = [torch.from_numpy(one).float() for one in features]
        self._sizes = [len(one) for one in features]
        starts = np.cumsum([0, *self._sizes])
        places = np.cumsum([0, *(one.shape[1] for one in features)])
        at = {column: number for number, column in enumerate(order)}
        scale = np.zeros((starts[-1], starts[-1]), dtype=np.float32)
        wanted = np.zeros((places[-1], places[-1]), dtype=np.float32)
        kept = np.zeros(wanted.shape, dtype=np.bool_)
        pairs = zip(statistic.pairs.tolist(), pair_values(measured), means, strict=True)
        for number, ((i, j), values, mean) in enumerate(pairs):
            if i not in at or j not in at:  # the length of a list is no column of the forest
                continue
            own = mean[np.ix_(statistic.features[i].groups[:-1], statistic.features[j].groups[:-1])]
            first, second = at[i], at[j]
            if first > second:
                first, second, own, values = second, first, own.T, values.T
            rows, columns = slice(*starts[first : first + 2]), slice(*starts[second : second + 2])
            scale[rows, columns] = own * (records * statistic.emphasis[number] / FOURTHS / measured.std)
            rows, columns = slice(*places[first : first + 2]), slice(*places[second : second + 2])
            wanted[rows, columns], kept[rows, columns] = values / measured.std, True
        self._scale, self._wanted = torch.from_numpy(scale), torch.from_numpy(wanted)
        self._kept = torch.from_numpy(kept)

    def residuals(self, joint: Tensor) -> Tensor:
        """(features, features), zero for pairs that were not measured."""
        scaled = torch.split(joint * self._scale, self._sizes)
        rows = torch.cat([one.T @ part for one, part in zip(self._features, scaled, strict=True)])
        parts = torch.split(rows, self._sizes, 1)
        sums = torch.cat([part @ one for one, part in zip(self._features, parts, strict=True)], 1)
        return (sums - self._wanted) * self._kept
