"""The generator of sequences: a mixture of chains, and the tilt of what it proposes.

A sample is drawn from proposals of the chains. Each has the weight exp(theta . f), with f what it adds to the released
statistics, and at most the ceiling; proposals are drawn again by weight. Post-processing.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
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
from dpgm.sequences.mixture import Mixture
from dpgm.sequences.pool import Pool, resampled
from dpgm.sequences.rules import (
    LARGEST_PARAMETER,
    MOST_CELLS,
    MOST_COMPONENTS,
    MOST_PROPOSALS,
    SHARES_OFF,
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
from dpgm.strategy.protocol import Generator, check_shares, check_tensors, is_size

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
        proposals: proposals per sequence of a sample.
        least: fewest proposals.
    """

    kind = "sequences"

    def __init__(
        self, domain: Domain, mixture: Mixture, terms: tuple[Term, ...], ceiling: float, proposals: int, least: int
    ) -> None:
        self.domain, self.mixture, self.terms = domain, mixture, terms
        self.ceiling, self.proposals, self.least = ceiling, proposals, least

    @classmethod
    def of(
        cls,
        domain: Domain,
        mixture: Mixture,
        released: Sequence[Measured[ClippedVectors]],
        found: WeightedPool,
        rules: DrawRules,
    ) -> "Sequences":
        """From the pool of a mixture that is tilted to everything released."""
        pairs = zip(released, found.parameters, strict=True)
        terms = tuple(Term(one.statistic, theta.numpy()) for one, theta in pairs)
        made = cls(domain, mixture, terms, 0.0, rules.proposals, rules.least)
        first = made._energies(found.pool.records.rows(0, 1))[0] - np.log(found.weights[0] / found.pool.times[0])
        made.ceiling = float(found.ceiling(rules.ceiling) + first)
        return made

    # -- in a release ------------------------------------------------------------------------------------------

    @property
    def architecture(self) -> dict[str, Any]:
        """Plain values that `from_state` needs besides the tensors and the domain."""
        return {
            "kind": self.kind,
            "components": self.mixture.components,
            "ceiling": self.ceiling,
            "proposals": self.proposals,
            "least": self.least,
            "statistics": {one.statistic.name: described(one.statistic) for one in self.terms},
        }

    def state(self) -> dict[str, Tensor]:
        """All parameters by name."""
        state = {"weights": self.mixture.weights, "chances": self.mixture.chances}
        for one in self.terms:
            state[f"theta: {one.statistic.name}"] = torch.from_numpy(one.theta)
            if isinstance(one.statistic.map, Ngrams):
                state[f"cells: {one.statistic.name}"] = torch.from_numpy(one.statistic.map.chosen)
        return state

    @classmethod
    def from_state(
        cls, architecture: Mapping[str, Any], tensors: Mapping[str, Tensor], domain: Domain
    ) -> "Sequences":
        """Restore a generator from an untrusted file.

        Raises:
            ArtefactError: a value is missing, unknown, misshapen, of another type or out of range.
        """
        expected = {"kind", "components", "ceiling", "proposals", "least", "statistics"}
        if set(architecture) != expected or architecture["kind"] != cls.kind or domain.sequence is None:
            raise ArtefactError("the model is not a generator of sequences; get the release again.")
        components, ceiling = architecture["components"], architecture["ceiling"]
        proposals, least, listed = (architecture[name] for name in ("proposals", "least", "statistics"))
        if not is_size(components, MOST_COMPONENTS) or not isinstance(listed, Mapping):
            raise ArtefactError("the model's number of components is not valid; get the release again.")
        if not is_size(proposals, MOST_PROPOSALS) or not is_size(least, MOST_PROPOSALS**2):
            raise ArtefactError("the model's number of proposals is not valid; get the release again.")
        if not isinstance(ceiling, float) or not abs(ceiling) <= LARGEST_PARAMETER:
            raise ArtefactError("the model's ceiling is not valid; get the release again.")
        items = len(sequence_of(domain).items)
        tensors, sizes = dict(tensors), chain_sizes(items)
        mixture = read_mixture(tensors, components, sizes)
        terms = tuple(read_term(name, plain, tensors, domain) for name, plain in listed.items())
        if tensors:
            raise ArtefactError("the model has unknown tensors; get the release again.")
        return cls(domain, mixture, terms, ceiling, proposals, least)

    # -- samples -----------------------------------------------------------------------------------------------

    def sample(self, count: int, *, generator: torch.Generator) -> Records:
        """`count` synthetic records."""
        rng = np.random.default_rng(int(torch.randint(2**62, (1,), generator=generator)))
        pool = proposed(self.mixture, self.domain, max(self.proposals * count, self.least), rng)
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


def proposed(mixture: Mixture, domain: Domain, count: int, rng: np.random.Generator) -> Pool:
    """Sequences drawn from a mixture of chains."""
    sequence = sequence_of(domain)
    components = mixture.draw_components(count, rng)
    events = draw_events(mixture, components, len(sequence.items), sequence.max_length, rng)
    return Pool.of_events(events, domain)


# -- parts of a release, which nobody trusts ---------------------------------------------------------------------


def read_mixture(tensors: dict[str, Tensor], components: int, sizes: tuple[int, ...]) -> Mixture:
    """Takes the tensors of a mixture out of those of a release."""
    expected = {
        "weights": ((components,), torch.float64),
        "chances": ((components, sum(sizes)), torch.float32),
    }
    own = {name: tensors.pop(name) for name in expected if name in tensors}
    check_tensors(own, expected, 0, 1)
    for shares in (own["weights"], *torch.split(own["chances"], list(sizes), dim=1)):
        check_shares(shares, SHARES_OFF)
    return Mixture(own["weights"], own["chances"], sizes)


def described(statistic: ClippedVectors) -> dict[str, Any]:
    """Plain values of a statistic, from which `read_term` makes it again."""
    plain: dict[str, Any] = {"limit": statistic.limit}
    if isinstance(statistic.map, StepCounts) and statistic.map.classes is not None:
        plain["classes"] = list(statistic.map.classes)
    if isinstance(statistic.map, Ngrams):
        plain["cells"] = statistic.map.width
    return plain


def read_term(name: object, plain: object, tensors: dict[str, Tensor], domain: Domain) -> Term:
    """A statistic and its parameters, taken out of the tensors of a release."""
    sequence, damaged = (
        sequence_of(domain),
        ArtefactError("the model's statistics are not valid; get the release again."),
    )
    items, orders = len(sequence.items), {called: order for order, called in NGRAMS.items()}
    plain = dict(plain) if isinstance(plain, Mapping) else {}
    limit = plain.pop("limit", None)
    if not is_size(limit, MOST_CELLS):
        raise damaged
    vectors: VectorMap
    if name in orders:
        cells, order = plain.pop("cells", None), orders[str(name)]
        if not (cells == 0 or is_size(cells, MOST_CELLS)):
            raise damaged
        key = f"cells: {name}"
        own = {key: tensors.pop(key)} if key in tensors else {}
        check_tensors(own, {key: ((cells,), torch.int64)}, 0, items**order - 1)
        if bool((own[key].diff() <= 0).any()):
            raise damaged
        vectors = Ngrams(order, items, own[key].numpy())
    elif name == STEPS_BY_LENGTH:
        classes = plain.pop("classes", None)
        if not isinstance(classes, list) or not all(is_size(one, sequence.max_length) for one in classes):
            raise damaged
        if any(one >= other for one, other in pairwise(classes)):
            raise damaged
        vectors = StepCounts(items, tuple(classes))
    else:
        known: dict[object, VectorMap] = {
            SEQUENCE_LENGTHS: SequenceLengths(sequence.max_length),
            STEP_COUNTS: StepCounts(items),
            ITEM_PAIRS: ItemPairs(items),
        }
        if name not in known:
            raise damaged
        vectors = known[name]
    if plain:
        raise damaged
    key = f"theta: {name}"
    own = {key: tensors.pop(key)} if key in tensors else {}
    check_tensors(own, {key: ((vectors.width,), torch.float64)}, -LARGEST_PARAMETER, LARGEST_PARAMETER)
    return Term(ClippedVectors(vectors, limit), own[key].numpy())
