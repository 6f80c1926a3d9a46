"""Items and values that one record alone has: what a curator must know before a list taken from data is published."""

import numpy as np

from dpgm.data.domain import Categorical, ItemSet
from dpgm.data.records import Records


def held_by_one(records: Records) -> int:
    """How many items and category values occur in exactly one record. For the curator's eyes; not to be stored."""
    counts = np.zeros(records.width, dtype=np.int64)
    for chunk in records.pieces():
        counts += np.bincount(chunk.indices, minlength=records.width)
    total = 0
    for field, start in zip(records.domain.fields, records.domain.offsets, strict=True):
        if isinstance(field, (ItemSet, Categorical)):
            named = len(field.items) if isinstance(field, ItemSet) else len(field.values)
            total += int(np.count_nonzero(counts[start : start + named] == 1))
    return total


def rarity_warning(records: Records) -> str | None:
    """A sentence for the curator's screen, if the domain came from the data and some of it is one person's alone."""
    alone = held_by_one(records)
    if not alone:
        return None
    return (
        f"{alone:,} of the {records.width:,} items or values of the domain are held by one person only, and the domain"
        " is published: make sure that all of them are public knowledge (curator only: this number is stored nowhere)"
    )
