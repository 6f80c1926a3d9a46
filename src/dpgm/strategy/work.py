"""How much work a fit is: the public sizes that it depends on, and what a family answers for itself."""

from dataclasses import dataclass

from dpgm.data.domain import Domain
from dpgm.data.records import index_dtype
from dpgm.statistics.fourier_features import expected_profile
from dpgm.strategy.rules import CostRules


@dataclass(frozen=True)
class Sizes:
    """The public sizes of a fit: records of one process, positions, guessed items per record."""

    records: float
    width: int
    items: float

    @classmethod
    def of(cls, records: int, domain: Domain, processes: int = 1) -> "Sizes":
        """Those of so many records over a domain, shared by some processes."""
        return cls(records / processes, domain.width, float(expected_profile(domain).sum()))

    @property
    def row_bytes(self) -> float:
        """Of all rows in memory: 8 per record and 2 or 4 per item."""
        return self.records * (8 + self.items * index_dtype(self.width)().itemsize)


@dataclass(frozen=True)
class Work:
    """What a family adds to what all fits cost: seconds on the reference machine, bytes beside the rows."""

    seconds: float
    memory: float = 0.0


def counting_seconds(sizes: Sizes, costs: CostRules) -> float:
    """Of statistics of item sets and tables, and of choosing their bounds."""
    return costs.bounds + sizes.records * (costs.counted_record + costs.counted_item * sizes.items)
