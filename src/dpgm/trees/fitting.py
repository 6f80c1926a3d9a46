"""From released values to a tilted mixture of trees. Post-processing."""

from collections.abc import Callable

import numpy as np
import torch

from dpgm.statistics.column_counts import ColumnCounts
from dpgm.statistics.pair_blocks import PairBlocks
from dpgm.tilting.tilt import Released, tilt
from dpgm.trees.base import fit_base
from dpgm.trees.measurement import Measurements
from dpgm.trees.model import Trees
from dpgm.trees.rules import TreeRules
from dpgm.trees.state import rounded
from dpgm.trees.tilted import TiltedSums, features_of


def fit_trees(
    measured: Measurements,
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
    records, pool = measured.records, rules.pool
    rows = int(np.clip(round(pool.per_record * records), pool.least, pool.most))
    codes = measured.coding.codes(forest.draw(rows, rng))
    statistics: list[ColumnCounts | PairBlocks] = [measured.columns.statistic]
    released = [
        Released(
            features_of(statistics[0], codes),
            torch.from_numpy(records * np.concatenate(measured.shares)),
            measured.columns.std,
            pool.column_ridge,
        )
    ]
    for one in measured.pairs:
        statistics.append(one.statistic)
        ridge = rules.ridge_of(one.statistic.name)
        released.append(Released(features_of(one.statistic, codes), one.value.double(), one.std, ridge))
    base = torch.zeros(rows, dtype=torch.float64)
    found = tilt(released, base, records, rules.tilt, part(0.5))
    weights = records * found.log_weights.exp()
    tilted = [
        TiltedSums(statistic, parameters, one.features.sums(weights), float(one.std), one.ridge)
        for statistic, parameters, one in zip(statistics, found.parameters, released, strict=True)
    ]
    return Trees(forest, tilted, records, found.log_total - float(np.log(rows)))
