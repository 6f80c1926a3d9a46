"""The statistics of a tilt with their parameters, as a release holds them: written, and read from whoever made it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from dpgm.arrays import Floats, Ints
from dpgm.errors import ArtefactError
from dpgm.sequences.layout import PersonLayout, sequence_of
from dpgm.sequences.rules import LARGEST_LIMIT, LARGEST_THETA
from dpgm.statistics.attribute_vectors import (
    ATTRIBUTE_PAIRS,
    ATTRIBUTES,
    ATTRIBUTES_BY_ITEM,
    ATTRIBUTES_BY_LENGTH,
    ATTRIBUTES_BY_STEP,
    AttributeCodes,
    AttributesByEvents,
    AttributeVectors,
)
from dpgm.statistics.clipped_vectors import ClippedVectors, VectorMap
from dpgm.statistics.event_vectors import (
    ITEM_PAIRS,
    NGRAMS,
    SEQUENCE_LENGTHS,
    STEP_COUNTS,
    STEPS_BY_LENGTH,
    ItemPairs,
    Ngrams,
    SequenceLengths,
    StepCounts,
)
from dpgm.statistics.place_vectors import OF_RANKS, OfRanks
from dpgm.statistics.time_vectors import ITEM_HOURS, TIME_STATISTICS, Clock, DaySteps, ItemHours, TimeVectors
from dpgm.strategy.protocol import check_tensors


@dataclass(frozen=True, eq=False)
class Term:
    """A statistic and its parameters."""

    statistic: ClippedVectors
    theta: Floats


def term_state(term: Term) -> dict[str, Tensor]:
    """The tensors of a statistic and its parameters, from which `read_terms` makes it again."""
    name, vectors = term.statistic.name, term.statistic.map
    vectors = vectors.map if isinstance(vectors, OfRanks) else vectors
    state = {f"theta: {name}": torch.from_numpy(term.theta), f"limit: {name}": torch.tensor([term.statistic.limit])}
    if isinstance(vectors, Ngrams | ItemPairs) and vectors.chosen is not None:
        state[f"cells: {name}"] = torch.from_numpy(vectors.chosen)
    elif isinstance(vectors, StepCounts) and vectors.classes is not None:
        state[f"classes: {name}"] = torch.tensor(vectors.classes, dtype=torch.int64)
    elif isinstance(vectors, AttributeVectors | AttributesByEvents):
        state[f"codes: {name}"] = torch.from_numpy(np.concatenate(vectors.codes.codes))
    return state


def read_terms(tensors: dict[str, Tensor], layout: PersonLayout) -> tuple[Term, ...]:
    """The statistics of a tilt, whose tensors are taken out of those of a release."""
    listed = [name.removeprefix("theta: ") for name in tensors if name.startswith("theta: ")]
    return tuple(_read_term(name, tensors, layout) for name in listed)


def _read_term(name: str, tensors: dict[str, Tensor], layout: PersonLayout) -> Term:
    of_ranks = layout.by_rank and name.startswith(OF_RANKS)
    called = name.removeprefix(OF_RANKS) if of_ranks else name
    if called not in _READERS:
        raise ArtefactError(f"the model has an unknown statistic {name[:40]!r}; get the release again.")
    part = _Part(name, called, tensors, layout, layout.symbols if of_ranks else layout.items)
    vectors = _READERS[called](part)
    limit = taken(tensors, f"limit: {name}", torch.int64, LARGEST_LIMIT, least=1, size=1)
    theta = taken(tensors, f"theta: {name}", torch.float64, LARGEST_THETA, size=vectors.width)
    return Term(
        ClippedVectors(OfRanks(vectors, layout.symbols) if of_ranks else vectors, int(limit[0])), theta.numpy()
    )


@dataclass(frozen=True)
class _Part:
    """A statistic that is read: its name in the release, the one without ranks, and how many items it has."""

    name: str
    called: str
    tensors: dict[str, Tensor]
    layout: PersonLayout
    items: int

    @property
    def longest(self) -> int:
        return sequence_of(self.layout.domain).max_length

    def chosen(self, cells: int) -> Ints:
        found = taken(self.tensors, f"cells: {self.name}", torch.int64, cells - 1, least=0)
        _check_rising(found)
        chosen: Ints = found.numpy()
        return chosen

    def codes(self) -> AttributeCodes:
        sizes = self.layout.columns.sizes
        if not sizes:
            raise ArtefactError(f"the model has a statistic {self.name!r} of no columns; get the release again.")
        codes = taken(self.tensors, f"codes: {self.name}", torch.int64, max(sizes) - 1, least=0, size=sum(sizes))
        columns = tuple(part.numpy() for part in torch.split(codes, list(sizes)))
        if any(len(np.unique(own)) != own.max() + 1 for own in columns):
            raise ArtefactError("the model skips a code of a column; get the release again.")
        return AttributeCodes(self.layout.domain, columns)

    def clock(self) -> Clock:
        if self.layout.clock is None:
            raise ArtefactError(f"the model has {self.name!r}, but events have no times; get the release again.")
        return self.layout.clock


def _read_runs(part: _Part) -> VectorMap:
    order = next(order for order, called in NGRAMS.items() if called == part.called)
    return Ngrams(order, part.items, part.chosen(part.items**order))


def _read_steps(part: _Part) -> VectorMap:
    return StepCounts(part.items) if part.layout.clock is None else DaySteps(part.items, part.layout.clock)


def _read_steps_by_length(part: _Part) -> VectorMap:
    classes = taken(part.tensors, f"classes: {part.name}", torch.int64, part.longest, least=1)
    _check_rising(classes)
    return StepCounts(part.items, tuple(classes.tolist()))


def _read_pairs(part: _Part) -> VectorMap:
    return ItemPairs(part.items, part.chosen(part.items * (part.items + 1) // 2) if part.layout.by_rank else None)


_READERS: Mapping[str, Callable[[_Part], VectorMap]] = {
    SEQUENCE_LENGTHS: lambda part: SequenceLengths(part.longest),
    STEP_COUNTS: _read_steps,
    STEPS_BY_LENGTH: _read_steps_by_length,
    ITEM_PAIRS: _read_pairs,
    **dict.fromkeys(NGRAMS.values(), _read_runs),
    **dict.fromkeys(TIME_STATISTICS, lambda part: TimeVectors(part.called, part.clock())),
    ITEM_HOURS: lambda part: ItemHours(part.items, part.clock()),
    **dict.fromkeys(
        (ATTRIBUTES, ATTRIBUTE_PAIRS, ATTRIBUTES_BY_LENGTH),
        lambda part: AttributeVectors(part.called, part.codes()),
    ),
    **dict.fromkeys(
        (ATTRIBUTES_BY_STEP, ATTRIBUTES_BY_ITEM),
        lambda part: AttributesByEvents(part.called, part.codes(), part.items),
    ),
}


def _check_rising(numbers: Tensor) -> None:
    if bool((numbers.diff() <= 0).any()):
        raise ArtefactError("the model lists something twice or out of order; get the release again.")


def taken(
    tensors: dict[str, Tensor],
    name: str,
    dtype: torch.dtype,
    most: float,
    *,
    least: float | None = None,
    size: int | None = None,
) -> Tensor:
    """The one-dimensional tensor of that name, taken out of those of a release, with values in [least, most]."""
    own = {name: tensors.pop(name)} if name in tensors else {}
    size = own[name].numel() if size is None and own else size
    check_tensors(own, {name: ((size or 0,), dtype)}, -most if least is None else least, most)
    return own[name]
