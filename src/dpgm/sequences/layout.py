"""How a component of the mixture makes a person: where its laws lie, which cells a record has, how records are drawn.

A component has a chain of symbols, and a law of the values of every column. Its laws are groups of cells, one after the
other; given the component, the parts of a person are independent.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from dpgm.arrays import Floats, Ints
from dpgm.data.domain import Domain
from dpgm.data.events import Events
from dpgm.data.kinds import ItemSequence
from dpgm.data.records import Records
from dpgm.data.rows import index_dtype, row_pointers
from dpgm.sequences.chains import chain_sizes, draw_events, drawn_from
from dpgm.sequences.mixture import ChainMixture
from dpgm.sequences.pool import Pool
from dpgm.statistics.attribute_vectors import AttributeCodes
from dpgm.statistics.clipped_vectors import Vectors
from dpgm.statistics.event_vectors import person_events, steps_of


def sequence_of(domain: Domain) -> ItemSequence:
    """The sequence of a domain that has one."""
    assert domain.sequence is not None
    return domain.sequence


@dataclass(frozen=True, eq=False)
class PersonLayout:
    """The laws of a component for persons of a domain."""

    domain: Domain

    @property
    def symbols(self) -> int:
        """The number of symbols of the chain: the items."""
        return len(sequence_of(self.domain).items)

    @cached_property
    def columns(self) -> AttributeCodes:
        """The columns of a person, each value with a code of its own."""
        return AttributeCodes.fine(self.domain)

    @property
    def chain_width(self) -> int:
        """The number of cells of a chain, which come first."""
        return sum(chain_sizes(self.symbols))

    @property
    def sizes(self) -> tuple[int, ...]:
        """The number of cells of every group."""
        return (*chain_sizes(self.symbols), *self.columns.sizes)

    def counts(self, records: Records) -> Vectors:
        """How often every record has each cell."""
        steps = steps_of(person_events(records), self.symbols)
        people, values = self.columns.cells(records)
        rows, cells = np.concatenate([steps[0], people]), np.concatenate([steps[1], values + self.chain_width])
        return Vectors.counted(rows, cells, len(records), sum(self.sizes))

    def single(self, chain: Tensor, columns: Tensor) -> ChainMixture:
        """A mixture of one component."""
        return ChainMixture(torch.ones(1, dtype=torch.float64), torch.cat([chain, columns])[None], self.sizes)

    def draw(self, mixture: ChainMixture, count: int, rng: np.random.Generator) -> Pool:
        """Records drawn from a mixture; the set of their items, which nobody looks at, is left empty."""
        component = mixture.draw_components(count, rng)
        chain, columns = mixture.chances[:, : self.chain_width], mixture.chances[:, self.chain_width :]
        events = draw_events(chain, component, self.symbols, sequence_of(self.domain).max_length, rng)
        return self.pool(events, self._values(columns, component, rng))

    def pool(self, events: Events, codes: Ints) -> Pool:
        """The pool of people with these events, and these values of the columns, (n, columns)."""
        starts = np.array([block.start for block in self.domain.table_columns], dtype=np.int64)
        positions = np.sort(codes + starts, axis=1).ravel().astype(index_dtype(self.domain.width))
        pointers = row_pointers(np.full(len(events), len(starts)))
        return Pool.merged(Records(self.domain, pointers, positions, events=events))

    def even_values(self, shares: list[Floats], count: int, rng: np.random.Generator) -> Ints:
        """(count, columns): values drawn from the shares of every column."""
        drawn = [rng.choice(len(share), count, p=share / share.sum()) for share in shares]
        return np.stack(drawn, axis=1) if drawn else np.empty((count, 0), dtype=np.int64)

    def _values(self, laws: Tensor, component: Ints, rng: np.random.Generator) -> Ints:
        parts = torch.split(laws, list(self.columns.sizes), dim=1)
        drawn = [drawn_from(torch.cumsum(part, dim=1).numpy(), component, rng) for part in parts]
        return np.stack(drawn, axis=1) if drawn else np.empty((len(component), 0), dtype=np.int64)
