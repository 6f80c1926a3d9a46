"""The k-marginal score of SDNist: how close the joint distributions of k columns are, from 0 to 1000."""

from itertools import combinations
from math import comb

import numpy as np
from numpy.typing import NDArray

from dpgm import validation
from dpgm.data.records import Records
from dpgm.errors import UsageError
from dpgm.evaluation.inputs import check_comparable
from dpgm.evaluation.marginals import field_codes

MOST_SETS = 1000  # sets of columns that are compared; of more, as many are drawn at random
_SCALE = 1000  # of the score
_DENSE = 4  # cells per row up to which cells are counted one by one; more are mostly empty


def k_marginal_score(
    real: Records, synthetic: Records, k: int, *, most: int | None = MOST_SETS, seed: int = 0
) -> float:
    """1000 times 1 minus the mean total variation of the joint distributions of k columns: 1000 if all are equal.

    >>> from dpgm.data.domain import Boolean, Domain
    >>> rows = Records.from_lists([[0, 2], [1, 3]], Domain((Boolean("a"), Boolean("b"))))
    >>> k_marginal_score(rows, rows.take(np.array([0])), 1), k_marginal_score(rows, rows, 2)
    (500.0, 1000.0)

    Args:
        real: real records.
        synthetic: synthetic records over the same domain.
        k: the number of columns in a set.
        most: how many sets of columns are compared; None for all of them.
        seed: of the choice of sets, if there are more.
    """
    check_comparable(real, synthetic)
    validation.whole(at_least=1, k=k)
    columns = [at for at, block in enumerate(real.domain.blocks) if block.softmax]
    if len(columns) < k:
        raise UsageError(f"the domain has fewer than {k} columns with one value per row.")
    widths = [real.domain.blocks[at].width + 1 for at in columns]  # one more for rows without a value
    sides = [[field_codes(records, at) for at in columns] for records in (real, synthetic)]
    distances = [_distance(sides, widths, chosen) for chosen in _sets(len(columns), k, most, seed)]
    return _SCALE * (1 - float(np.mean(distances)))


def _sets(columns: int, k: int, most: int | None, seed: int) -> list[tuple[int, ...]]:
    if most is None or comb(columns, k) <= most:
        return list(combinations(range(columns), k))
    generator = np.random.default_rng([seed, k])
    return [tuple(generator.choice(columns, k, replace=False).tolist()) for _ in range(most)]


def _distance(sides: list[list[NDArray[np.int64]]], widths: list[int], chosen: tuple[int, ...]) -> float:
    """Total variation of the joint distributions of the chosen columns."""
    sizes = [len(codes[0]) for codes in sides]
    cell, cells = np.zeros(sum(sizes), dtype=np.int64), 1
    for at in chosen:
        cell = cell * widths[at] + np.concatenate([codes[at] for codes in sides])
        cells *= widths[at]
        if cells > _DENSE * len(cell):
            names, cell = np.unique(cell, return_inverse=True)
            cells = len(names)
    shares = [np.bincount(side, minlength=cells) / len(side) for side in np.split(cell, sizes[:1])]
    return float(np.abs(shares[0] - shares[1]).sum() / 2)
