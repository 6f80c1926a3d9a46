"""What makes a fake of a held-out sample: one thing is wrong, all else stays as it was."""

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import TypeAlias

import numpy as np
import pandas as pd

Frame: TypeAlias = pd.DataFrame
Random: TypeAlias = np.random.Generator
Make: TypeAlias = Callable[[Frame, Random], Frame]
Rows: TypeAlias = Callable[[Frame], object]  # which rows
Values: TypeAlias = Callable[[Frame, Random], object]  # new values for these rows


def permuted(*names: str, where: Rows | None = None) -> Make:
    """Columns permuted together, over all rows or those of a group."""

    def make(f: Frame, rng: Random) -> Frame:
        rows = np.arange(len(f)) if where is None else np.flatnonzero(np.asarray(where(f), dtype=bool))
        order = np.arange(len(f))
        order[rows] = rng.permutation(rows)
        return f.assign(**{name: f[name].to_numpy()[order] for name in names})

    return make


def weakened(name: str, share: float = 0.5) -> Make:
    """The values of a share of the rows, permuted among these rows: a relation keeps the rest of its strength."""

    def make(f: Frame, rng: Random) -> Frame:
        chosen = rng.random(len(f)) < share
        return permuted(name, where=lambda frame: chosen)(f, rng)

    return make


def reversed_ranks(name: str) -> Make:
    """The largest value goes to the row of the smallest, and so on."""

    def make(f: Frame, rng: Random) -> Frame:
        values = f[name].to_numpy()
        turned = np.empty_like(values)
        turned[np.lexsort((rng.random(len(f)), values))] = np.sort(values)[::-1]
        return f.assign(**{name: turned})

    return make


def exchanged(name: str | Sequence[str], by: str, first: str, last: str) -> Make:
    """Values of columns of two groups of rows, exchanged at random between these groups."""
    names = [name] if isinstance(name, str) else list(name)

    def make(f: Frame, rng: Random) -> Frame:
        source = np.arange(len(f))
        rows = [np.flatnonzero(f[by] == group) for group in (first, last)]
        for at in (0, 1):
            source[rows[at]] = rng.choice(rows[1 - at], len(rows[at]))
        return f.assign(**{one: f[one].to_numpy()[source] for one in names})

    return make


def changed(name: str, new: Values, where: Rows | None = None, share: float = 1.0) -> Make:
    """New values of a column in the rows of a group, or in a share of them."""

    def make(f: Frame, rng: Random) -> Frame:
        chosen = np.ones(len(f), dtype=bool) if where is None else np.asarray(where(f), dtype=bool)
        chosen = chosen & (rng.random(len(f)) < share)
        values = f[name].to_numpy().copy()
        if chosen.any():
            new_values = np.asarray(new(f[chosen], rng))
            if values.dtype != new_values.dtype and values.dtype.kind in "iub":
                values = values.astype(np.result_type(values.dtype, new_values.dtype))
            values[chosen] = new_values
        return f.assign(**{name: values})

    return make


def constant(value: object) -> Values:
    return lambda rows, rng: np.full(len(rows), value, dtype=object if isinstance(value, str) else None)


def all_permuted(f: Frame, rng: Random) -> Frame:
    """Every column by itself: nothing is related to anything."""
    return f.assign(**{name: f[name].to_numpy()[rng.permutation(len(f))] for name in f.columns})


def contaminated(share: float) -> Make:
    """A share of the rows is drawn column by column."""

    def make(f: Frame, rng: Random) -> Frame:
        rows = rng.random(len(f)) < share
        mixed = all_permuted(f, rng)
        return pd.concat([f[~rows], mixed[rows]], ignore_index=True)

    return make


def repeated(distinct: float, share: float = 1.0) -> Make:
    """A share of the rows repeats a few of them."""

    def make(f: Frame, rng: Random) -> Frame:
        count = max(int(distinct * len(f)), 1)
        rows = np.where(rng.random(len(f)) < share, rng.integers(0, count, len(f)), np.arange(len(f)))
        return f.iloc[rows].reset_index(drop=True)

    return make


def along_a_chain(names: Sequence[str], bins: int = 12) -> Make:
    """Every column drawn given the one before it alone: pairs of neighbours are right, the rest only as far as that."""

    def make(f: Frame, rng: Random) -> Frame:
        codes = {name: _groups(f[name], bins) for name in names}
        source = {names[0]: rng.integers(0, len(f), len(f))}
        for before, name in pairwise(names):
            given = codes[before][source[before]]
            rows = np.empty(len(f), dtype=int)
            for group in np.unique(given):
                at = np.flatnonzero(given == group)
                rows[at] = rng.choice(np.flatnonzero(codes[before] == group), len(at))
            source[name] = rows
        return f[list(names)].assign(**{name: f[name].to_numpy()[source[name]] for name in names})

    return make


def _groups(column: pd.Series, bins: int) -> np.ndarray:
    if column.dtype.kind in "if" and column.nunique() > bins:
        return np.asarray(pd.qcut(column.rank(method="first"), bins, labels=False).fillna(-1)).astype(int)
    return np.asarray(pd.factorize(column)[0])
