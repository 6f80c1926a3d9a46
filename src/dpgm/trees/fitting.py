"""From released values to a tilted mixture of trees. Post-processing."""

from collections.abc import Callable

import numpy as np
import torch

from dpgm.statistics.pair_blocks import COARSE
from dpgm.statistics.statistic import Measured
from dpgm.tilting.tilt import Released, tilt
from dpgm.trees.base import fit_base
from dpgm.trees.measurement import TableMeasurements
from dpgm.trees.model import Trees
from dpgm.trees.planning import pool_rows
from dpgm.trees.rules import TreeRules
from dpgm.trees.state import rounded
from dpgm.trees.tilted import RowPool, TiltedStatistic, TiltedSums


def fit_trees(
    measured: TableMeasurements,
    rules: TreeRules,
    *,
    generator: torch.Generator,
    progress: Callable[[float], None] | None = None,
) -> Trees:
    """Fit the base, draw a pool from it, tilt the pool to all released sums."""
    rng = np.random.default_rng(int(torch.randint(2**62, (1,), generator=generator)))

    def part(start: float) -> Callable[[float], None]:
        return lambda done: progress(start + 0.5 * done) if progress is not None else None

    forest = rounded(fit_base(measured, rules, rng, part(0.0)))
    records = measured.records
    rows = pool_rows(records, len(measured.shares), rules.pool)
    pool = RowPool(measured.coding, forest.draw(rows, rng))
    wanted = _wanted(measured, rules)
    released = [Released(pool.features(one.statistic), one.value.double(), one.std, ridge) for one, ridge in wanted]
    base = torch.zeros(rows, dtype=torch.float64)
    found = tilt(released, base, records, rules.tilt, part(0.5))
    weights = records * found.log_weights.exp()
    tilted = [
        TiltedSums(one.statistic, parameters, own.features.sums(weights), one.std, ridge)
        for (one, ridge), parameters, own in zip(wanted, found.parameters, released, strict=True)
    ]
    return Trees(forest, tilted, records, found.log_total - float(np.log(rows)), rules.sampling)


def _wanted(measured: TableMeasurements, rules: TreeRules) -> list[tuple[Measured[TiltedStatistic], float]]:
    """All statistics with the values that the pool shall have, and their ridges."""
    counts = torch.from_numpy(measured.records * np.concatenate(measured.shares))
    columns = Measured[TiltedStatistic](measured.columns.statistic, counts, measured.columns.std)
    wanted: list[tuple[Measured[TiltedStatistic], float]] = [(columns, rules.pool.column_ridge)]
    alone = all(one.statistic.name != COARSE for one in measured.pairs)
    for pairs in measured.pairs:
        own = Measured[TiltedStatistic](pairs.statistic, pairs.value, pairs.std)
        wanted.append((own, rules.ridge_of(pairs.statistic.name, alone=alone)))
    for items in () if measured.lists is None else measured.lists.measured:
        wanted.append((Measured[TiltedStatistic](items.statistic, items.value, items.std), rules.pool.list_ridge))
    return wanted
