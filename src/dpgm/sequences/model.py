"""The generator of sequences: a mixture of chains, and the tilt of what it proposes.

A sample is drawn from proposals of the chains. Each has the weight exp(theta . f), with f what it adds to the released
statistics, and at most the ceiling; proposals are drawn again by weight. Post-processing.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from dpgm.arrays import Floats
from dpgm.data.domain import Domain
from dpgm.data.kinds import ItemSequence
from dpgm.data.records import Records
from dpgm.errors import ArtefactError
from dpgm.sequences.chains import chain_sizes, draw_events
from dpgm.sequences.evidence import WeightedPool
from dpgm.sequences.mixture import ChainMixture
from dpgm.sequences.pool import Pool, resampled
from dpgm.sequences.rules import (
    LARGEST_LIMIT,
    LARGEST_THETA,
    MOST_CHAINS,
    DrawRules,
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
from dpgm.statistics.statistic import Measured
from dpgm.strategy.protocol import SHARES_OFF, Generator, check_shares, check_tensors, is_size

_PROPOSED = 1 << 16  # sequences whose statistics are held at once


def sequence_of(domain: Domain) -> ItemSequence:
    """The sequence of a domain that has one."""
    assert domain.sequence is not None
    return domain.sequence


@dataclass(frozen=True, eq=False)
class Term:
    """A statistic and its parameters."""

    statistic: ClippedVectors
    theta: Floats


class Sequences(Generator):
    """Chains, the tilt of their proposals, and how proposals are drawn.

    Args:
        domain: the public domain, with a sequence.
        mixture: the chains.
        terms: the statistics of the tilt.
        ceiling: the largest logarithm of a weight.
        draw: how many sequences are proposed for a sample.
    """

    kind = "sequences"

    def __init__(
        self,
        domain: Domain,
        mixture: ChainMixture,
        terms: tuple[Term, ...],
        ceiling: float,
        draw: DrawRules,
    ) -> None:
        self.domain, self.mixture, self.terms = domain, mixture, terms
        self.ceiling, self.draw = ceiling, draw

    @classmethod
    def of(
        cls,
        domain: Domain,
        mixture: ChainMixture,
        released: Sequence[Measured[ClippedVectors]],
        found: WeightedPool,
        rules: DrawRules,
    ) -> "Sequences":
        """From the pool of a mixture that is tilted to everything released."""
        pairs = zip(released, found.parameters, strict=True)
        terms = tuple(Term(one.statistic, theta.numpy()) for one, theta in pairs)
        made = cls(domain, mixture, terms, 0.0, rules)
        first = made._energies(found.pool.records.rows(0, 1))[0] - np.log(found.weights[0] / found.pool.times[0])
        made.ceiling = float(found.ceiling(rules.ceiling) + first)
        return made

    # -- in a release ------------------------------------------------------------------------------------------

    @property
    def architecture(self) -> dict[str, Any]:
        """Plain values that `from_state` needs besides the tensors and the domain."""
        return {"kind": self.kind, "components": self.mixture.components}

    def state(self) -> dict[str, Tensor]:
        """All parameters by name."""
        state = {"weights": self.mixture.weights, "chances": self.mixture.chances}
        state["ceiling"] = torch.tensor([self.ceiling], dtype=torch.float64)
        for one in self.terms:
            state |= term_state(one)
        return state

    @classmethod
    def from_state(
        cls, architecture: Mapping[str, Any], tensors: Mapping[str, Tensor], domain: Domain, draw: DrawRules
    ) -> "Sequences":
        """Restore a generator from an untrusted file.

        Raises:
            ArtefactError: a value is missing, unknown, misshapen, of another type or out of range.
        """
        if (
            set(architecture) != {"kind", "components"}
            or architecture["kind"] != cls.kind
            or domain.sequence is None
        ):
            raise ArtefactError("the model is not a generator of sequences; get the release again.")
        components = architecture["components"]
        if not is_size(components, MOST_CHAINS):
            raise ArtefactError("the model's number of components is not valid; get the release again.")

        left = dict(tensors)
        mixture = read_mixture(left, components, chain_sizes(len(domain.sequence.items)))
        ceiling = taken(left, "ceiling", torch.float64, LARGEST_THETA, size=1)
        terms = read_terms(left, domain)
        if left:
            raise ArtefactError("the model has missing or unknown tensors; get the release again.")
        return cls(domain, mixture, terms, float(ceiling[0]), draw)

    # -- samples -----------------------------------------------------------------------------------------------

    def sample(self, count: int, *, generator: torch.Generator) -> Records:
        """`count` synthetic records."""
        rng = np.random.default_rng(int(torch.randint(2**62, (1,), generator=generator)))
        pool = proposed(self.mixture, self.domain, max(self.draw.proposals * count, self.draw.least), rng)
        logs = np.minimum(self._energies(pool.records), self.ceiling) + pool.log_base.numpy()
        chosen = resampled(np.exp(logs - logs.max()), count, rng)
        events = pool.records.take(chosen).events
        assert events is not None
        return Records.of_events(events, self.domain)

    def _energies(self, records: Records) -> Floats:
        total = np.zeros(len(records))
        for first in range(0, len(records), _PROPOSED):
            part = records.rows(first, first + _PROPOSED)
            total[first : first + _PROPOSED] = sum(one.statistic.energies(part, one.theta) for one in self.terms)
        return total


def proposed(mixture: ChainMixture, domain: Domain, count: int, rng: np.random.Generator) -> Pool:
    """Sequences drawn from a mixture of chains."""
    sequence = sequence_of(domain)
    components = mixture.draw_components(count, rng)
    events = draw_events(mixture, components, len(sequence.items), sequence.max_length, rng)
    return Pool.of_events(events, domain)


# -- parts of a release, which nobody trusts ---------------------------------------------------------------------


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


def read_mixture(tensors: dict[str, Tensor], components: int, sizes: tuple[int, ...]) -> ChainMixture:
    """The mixture whose tensors are taken out of those of a release."""
    expected = {
        "weights": ((components,), torch.float64),
        "chances": ((components, sum(sizes)), torch.float32),
    }
    own = {name: tensors.pop(name) for name in expected if name in tensors}
    check_tensors(own, expected, 0, 1)
    for shares in (own["weights"], *torch.split(own["chances"], list(sizes), dim=1)):
        check_shares(shares, SHARES_OFF)
    return ChainMixture(own["weights"], own["chances"], sizes)


def term_state(term: Term) -> dict[str, Tensor]:
    """The tensors of a statistic and its parameters, from which `read_terms` makes it again."""
    name, vectors = term.statistic.name, term.statistic.map
    state = {f"theta: {name}": torch.from_numpy(term.theta), f"limit: {name}": torch.tensor([term.statistic.limit])}
    if isinstance(vectors, Ngrams):
        state[f"cells: {name}"] = torch.from_numpy(vectors.chosen)
    if isinstance(vectors, StepCounts) and vectors.classes is not None:
        state[f"classes: {name}"] = torch.tensor(vectors.classes, dtype=torch.int64)
    return state


def read_terms(tensors: dict[str, Tensor], domain: Domain) -> tuple[Term, ...]:
    """The statistics of a tilt, whose tensors are taken out of those of a release."""
    listed = [name.removeprefix("theta: ") for name in tensors if name.startswith("theta: ")]
    return tuple(_read_term(name, tensors, sequence_of(domain)) for name in listed)


def _read_term(name: str, tensors: dict[str, Tensor], sequence: ItemSequence) -> Term:
    items, orders = len(sequence.items), {called: order for order, called in NGRAMS.items()}
    vectors: VectorMap
    if name in orders:
        cells = taken(tensors, f"cells: {name}", torch.int64, items ** orders[name] - 1, least=0)
        _check_rising(cells)
        vectors = Ngrams(orders[name], items, cells.numpy())
    elif name == STEPS_BY_LENGTH:
        classes = taken(tensors, f"classes: {name}", torch.int64, sequence.max_length, least=1)
        _check_rising(classes)
        vectors = StepCounts(items, tuple(classes.tolist()))
    elif name in _PLAIN:
        vectors = _PLAIN[name](sequence)
    else:
        raise ArtefactError(f"the model has an unknown statistic {name[:40]!r}; get the release again.")
    limit = taken(tensors, f"limit: {name}", torch.int64, LARGEST_LIMIT, least=1, size=1)
    theta = taken(tensors, f"theta: {name}", torch.float64, LARGEST_THETA, size=vectors.width)
    return Term(ClippedVectors(vectors, int(limit[0])), theta.numpy())


_PLAIN: Mapping[str, Callable[[ItemSequence], VectorMap]] = {
    SEQUENCE_LENGTHS: lambda sequence: SequenceLengths(sequence.max_length),
    STEP_COUNTS: lambda sequence: StepCounts(len(sequence.items)),
    ITEM_PAIRS: lambda sequence: ItemPairs(len(sequence.items)),
}


def _check_rising(numbers: Tensor) -> None:
    if bool((numbers.diff() <= 0).any()):
        raise ArtefactError("the model lists something twice or out of order; get the release again.")
