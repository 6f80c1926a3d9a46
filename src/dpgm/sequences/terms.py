"""The statistics of a tilt with their parameters, as a release holds them: written, and read from whoever made it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from dpgm.arrays import Floats
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
from dpgm.statistics.time_vectors import ITEM_HOURS, TIME_STATISTICS, ItemHours, TimeVectors
from dpgm.strategy.protocol import check_tensors


@dataclass(frozen=True, eq=False)
class Term:
    """A statistic and its parameters."""

    statistic: ClippedVectors
    theta: Floats


def term_state(term: Term) -> dict[str, Tensor]:
    """The tensors of a statistic and its parameters, from which `read_terms` makes it again."""
    name, vectors = term.statistic.name, term.statistic.map
    state = {f"theta: {name}": torch.from_numpy(term.theta), f"limit: {name}": torch.tensor([term.statistic.limit])}
    if isinstance(vectors, Ngrams):
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
    if name not in _READERS:
        raise ArtefactError(f"the model has an unknown statistic {name[:40]!r}; get the release again.")
    vectors = _READERS[name](name, tensors, layout)
    limit = taken(tensors, f"limit: {name}", torch.int64, LARGEST_LIMIT, least=1, size=1)
    theta = taken(tensors, f"theta: {name}", torch.float64, LARGEST_THETA, size=vectors.width)
    return Term(ClippedVectors(vectors, int(limit[0])), theta.numpy())


def _read_runs(name: str, tensors: dict[str, Tensor], layout: PersonLayout) -> VectorMap:
    order = next(order for order, called in NGRAMS.items() if called == name)
    cells = taken(tensors, f"cells: {name}", torch.int64, layout.symbols**order - 1, least=0)
    _check_rising(cells)
    return Ngrams(order, layout.symbols, cells.numpy())


def _read_steps_by_length(name: str, tensors: dict[str, Tensor], layout: PersonLayout) -> VectorMap:
    classes = taken(tensors, f"classes: {name}", torch.int64, sequence_of(layout.domain).max_length, least=1)
    _check_rising(classes)
    return StepCounts(layout.symbols, tuple(classes.tolist()))


def _read_codes(name: str, tensors: dict[str, Tensor], layout: PersonLayout) -> AttributeCodes:
    sizes = layout.columns.sizes
    if not sizes:
        raise ArtefactError(f"the model has a statistic {name!r} of no columns; get the release again.")
    codes = taken(tensors, f"codes: {name}", torch.int64, max(sizes) - 1, least=0, size=sum(sizes))
    columns = tuple(part.numpy() for part in torch.split(codes, list(sizes)))
    if any(len(np.unique(own)) != own.max() + 1 for own in columns):
        raise ArtefactError("the model skips a code of a column; get the release again.")
    return AttributeCodes(layout.domain, columns)


def _read_attributes(name: str, tensors: dict[str, Tensor], layout: PersonLayout) -> VectorMap:
    return AttributeVectors(name, _read_codes(name, tensors, layout))


def _read_attributes_by_events(name: str, tensors: dict[str, Tensor], layout: PersonLayout) -> VectorMap:
    return AttributesByEvents(name, _read_codes(name, tensors, layout), layout.symbols)


def _read_times(name: str, _: dict[str, Tensor], layout: PersonLayout) -> VectorMap:
    if layout.clock is None:
        raise ArtefactError(f"the model has a statistic {name!r}, but events have no times; get the release again.")
    return ItemHours(layout.symbols, layout.clock) if name == ITEM_HOURS else TimeVectors(name, layout.clock)


_READERS: Mapping[str, Callable[[str, dict[str, Tensor], PersonLayout], VectorMap]] = {
    SEQUENCE_LENGTHS: lambda _, __, layout: SequenceLengths(sequence_of(layout.domain).max_length),
    STEP_COUNTS: lambda _, __, layout: layout.steps,
    ITEM_PAIRS: lambda _, __, layout: ItemPairs(layout.symbols),
    STEPS_BY_LENGTH: _read_steps_by_length,
    **dict.fromkeys((*TIME_STATISTICS, ITEM_HOURS), _read_times),
    **dict.fromkeys(NGRAMS.values(), _read_runs),
    **dict.fromkeys((ATTRIBUTES, ATTRIBUTE_PAIRS, ATTRIBUTES_BY_LENGTH), _read_attributes),
    **dict.fromkeys((ATTRIBUTES_BY_STEP, ATTRIBUTES_BY_ITEM), _read_attributes_by_events),
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
