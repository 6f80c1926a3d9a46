"""The generator of sequences: a mixture of chains, and the tilt of what it proposes.

A sample is drawn from proposals of the chains. Each has the weight exp(theta . f), with f what it adds to the released
statistics, and at most the ceiling; proposals are drawn again by weight. Post-processing.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from dpgm.arrays import Floats
from dpgm.data.domain import Domain
from dpgm.data.records import Records
from dpgm.errors import ArtefactError
from dpgm.sequences.evidence import WeightedPool
from dpgm.sequences.layout import PersonLayout
from dpgm.sequences.mixture import ChainMixture
from dpgm.sequences.places import PlaceMixture
from dpgm.sequences.pool import resampled
from dpgm.sequences.rules import LARGEST_THETA, MOST_CHAINS, SequenceRules
from dpgm.sequences.terms import Term, read_terms, taken, term_state
from dpgm.statistics.clipped_vectors import ClippedVectors
from dpgm.statistics.event_vectors import person_events
from dpgm.statistics.statistic import Measured
from dpgm.strategy.protocol import SHARES_OFF, Generator, check_shares, check_tensors, is_size

_PROPOSED = 1 << 16  # sequences whose statistics are held at once


class Sequences(Generator):
    """Chains, the tilt of their proposals, and how proposals are drawn.

    Args:
        layout: how a component makes a person of the domain.
        mixture: the components.
        places: the places of ranks, if the chains are those of ranks.
        terms: the statistics of the tilt.
        ceiling: the largest logarithm of a weight.
    """

    kind = "sequences"

    def __init__(
        self,
        layout: PersonLayout,
        mixture: ChainMixture,
        places: PlaceMixture | None,
        terms: tuple[Term, ...],
        ceiling: float,
    ) -> None:
        self.layout, self.mixture, self.places, self.terms = layout, mixture, places, terms
        self.ceiling = ceiling

    @classmethod
    def of(
        cls,
        layout: PersonLayout,
        mixture: ChainMixture,
        places: PlaceMixture | None,
        released: Sequence[Measured[ClippedVectors]],
        found: WeightedPool,
    ) -> "Sequences":
        """From the pool of a mixture that is tilted to everything released."""
        pairs = zip(released, found.parameters, strict=True)
        terms = tuple(Term(one.statistic, theta.numpy()) for one, theta in pairs)
        made = cls(layout, mixture, places, terms, 0.0)
        first = made._energies(found.pool.records.rows(0, 1))[0] - np.log(found.weights[0] / found.pool.times[0])
        made.ceiling = float(found.ceiling(layout.rules.draw.ceiling) + first)
        return made

    # -- in a release ------------------------------------------------------------------------------------------

    @property
    def architecture(self) -> dict[str, Any]:
        """Plain values that `from_state` needs besides the tensors and the domain."""
        return {"kind": self.kind, "components": self.mixture.components}

    def state(self) -> dict[str, Tensor]:
        """All parameters by name."""
        state = {"weights": self.mixture.weights, "chances": self.mixture.chances}
        if self.places is not None:
            state |= {"place weights": self.places.weights, "place laws": self.places.laws}
        state["ceiling"] = torch.tensor([self.ceiling], dtype=torch.float64)
        for one in self.terms:
            state |= term_state(one)
        return state

    @classmethod
    def from_state(
        cls, architecture: Mapping[str, Any], tensors: Mapping[str, Tensor], domain: Domain, rules: SequenceRules
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
        layout = PersonLayout(domain, rules)
        mixture = read_mixture(left, components, layout.sizes)
        places = read_places(left, layout) if layout.by_rank else None
        ceiling = taken(left, "ceiling", torch.float64, LARGEST_THETA, size=1)
        terms = read_terms(left, layout)
        if left:
            raise ArtefactError("the model has missing or unknown tensors; get the release again.")
        return cls(layout, mixture, places, terms, float(ceiling[0]))

    # -- samples -----------------------------------------------------------------------------------------------

    def sample(self, count: int, *, generator: torch.Generator) -> Records:
        """`count` synthetic records."""
        rng = np.random.default_rng(int(torch.randint(2**62, (1,), generator=generator)))
        rules = self.layout.rules.draw
        small = self.layout.by_rank or self.layout.clock is not None
        proposals = count * (rules.small_proposals if small else rules.proposals)
        pool = self.layout.draw(self.mixture, max(proposals, rules.least), rng, self.places)
        logs = np.minimum(self._energies(pool.records), self.ceiling) + pool.log_base.numpy()
        chosen = pool.records.take(resampled(np.exp(logs - logs.max()), count, rng))
        return Records.of_events(person_events(chosen), self.layout.domain, chosen)

    def _energies(self, records: Records) -> Floats:
        total = np.zeros(len(records))
        for first in range(0, len(records), _PROPOSED):
            part = records.rows(first, first + _PROPOSED)
            total[first : first + _PROPOSED] = sum(one.statistic.energies(part, one.theta) for one in self.terms)
        return total


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


def read_places(tensors: dict[str, Tensor], layout: PersonLayout) -> PlaceMixture:
    """The places of ranks, whose tensors are taken out of those of a release."""
    components = layout.rules.places.components
    expected = {
        "place weights": ((components,), torch.float64),
        "place laws": ((components, layout.symbols, layout.items), torch.float32),
    }
    own = {name: tensors.pop(name) for name in expected if name in tensors}
    check_tensors(own, expected, 0, 1)
    check_shares(own["place weights"], SHARES_OFF)
    check_shares(own["place laws"].reshape(-1, layout.items), SHARES_OFF)
    return PlaceMixture(own["place weights"], own["place laws"])
