"""Pairs of traits as pictures: how often each group of the one has each group of the other, real beside synthetic."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dpgm.arrays import Codes, Floats
from dpgm.evaluation.traits import Trait, TraitPart

_MOST_GROUPS = 12  # rows and columns of a picture; the rarest groups are left out
MOST_PICTURES = 6


@dataclass(frozen=True)
class RelationPicture:
    """Shares of the values of one trait among the rows of every group of another.

    Attributes:
        names: the trait whose groups are the rows of the picture, and the one whose shares are shown.
        groups: the rows of the picture.
        values: its columns.
        real: shares of the real rows of each group; a row adds up to 1 unless values are left out.
        synthetic: the same of the synthetic rows.
    """

    names: tuple[str, str]
    groups: tuple[TraitPart, ...]
    values: tuple[TraitPart, ...]
    real: Floats
    synthetic: Floats


def relation_pictures(traits: Sequence[Trait], pairs: Sequence[tuple[str, str]]) -> tuple[RelationPicture, ...]:
    """Pictures of the first few different pairs of traits, given by name."""
    by_name = {trait.name: trait for trait in traits}
    chosen: dict[frozenset[str], tuple[str, str]] = {}
    for pair in pairs:
        if pair[0] in by_name and pair[1] in by_name:
            chosen.setdefault(frozenset(pair), pair)
    few = list(chosen.values())[:MOST_PICTURES]
    return tuple(_picture(by_name[first], by_name[last]) for first, last in few)


def _picture(first: Trait, last: Trait) -> RelationPicture:
    rows, columns = _largest_groups(first), _largest_groups(last)
    shares = []
    for x, y in zip(first.cells, last.cells, strict=True):
        step = np.bincount(first.group_of[x] * last.groups + last.group_of[y], minlength=first.groups * last.groups)
        joint = step.reshape(first.groups, last.groups).astype(np.float64)
        shares.append((joint / np.maximum(joint.sum(axis=1, keepdims=True), 1))[np.ix_(rows, columns)])
    groups = tuple(first.group(int(at)) for at in rows)
    values = tuple(last.group(int(at)) for at in columns)
    return RelationPicture((first.name, last.name), groups, values, shares[0], shares[1])


def _largest_groups(trait: Trait) -> Codes:
    """The groups with the most rows, in the order of the trait."""
    counts = np.bincount(trait.group_of, weights=trait.counts[0] + trait.counts[1], minlength=trait.groups)
    top = np.sort(np.argsort(-counts, kind="stable")[:_MOST_GROUPS])
    return top[counts[top] > 0]
