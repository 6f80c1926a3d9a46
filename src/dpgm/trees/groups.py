"""How the codes of a column are ordered, and how they are joined to groups of about equal weight."""

import numpy as np

from dpgm.arrays import Floats, Ints
from dpgm.statistics.coded_rows import Coding


def code_orders(coding: Coding) -> list[Floats]:
    """For every column a number per code, by which codes are ordered; NaN for a code, or all of a column, without.

    Ordered are numbers, dates, columns of two values, and the lengths of lists.
    """
    domain = coding.domain
    orders = []
    for field in (field for field in domain.fields if not field.is_set):
        order, ranges = np.full(field.width, np.nan), field.position_ranges()
        if ranges is not None:
            order[: len(ranges[0])] = (ranges[0] + ranges[1]) / 2
        elif field.width - field.may_be_missing == 2:
            order[:2] = (0, 1)
        orders.append(order)
    return orders + [np.arange(size, dtype=np.float64) for size in coding.sizes[coding.table_columns :]]


def equal_groups(order: Floats, shares: Floats, most: int) -> Ints:
    """The group of every code: about `most` groups, neighbours joined as long as their share is at most 1 / `most`.

    Codes without an order are joined by their share, the rarest together, and never with those that have one.

    >>> equal_groups(np.arange(5.0), np.array([0.4, 0.1, 0.1, 0.2, 0.2]), 3).tolist()
    [0, 1, 1, 2, 3]
    """
    if len(shares) <= most:
        return np.arange(len(shares))
    groups, number = np.empty(len(shares), dtype=np.int64), 0
    ordered = ~np.isnan(order)
    known, others = np.flatnonzero(ordered), np.flatnonzero(~ordered)
    for part in (
        known[np.argsort(order[known], kind="stable")],
        others[np.argsort(-shares[others], kind="stable")],
    ):
        held = 0.0
        for code in part.tolist():
            if held > 0 and held + shares[code] > 1 / most:
                number, held = number + 1, 0.0
            groups[code] = number
            held += shares[code]
        number += len(part) > 0
    return groups
