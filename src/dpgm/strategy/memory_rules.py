"""Memory per unit of work of a fit, and the sizes it is computed from.

The numbers were measured on fits of transit data (342 stations), msweb (294 pages), call records (1303 towers), tables
and images of 28 x 28; benchmarks/large_fit.py compares them with whole fits.
"""

from dataclasses import dataclass

from dpgm.data.domain import Domain
from dpgm.data.rows import index_dtype
from dpgm.data.stores import PROCESS_BYTES
from dpgm.statistics.fourier_features import expected_profile


@dataclass(frozen=True)
class MemoryRules:
    """Bytes per unit of work."""

    # The process with its libraries; copies of rows while they are joined, and while they are grouped by person (fits
    # of 5 million rows x 8: docs/performance.md).
    process: int = PROCESS_BYTES
    joining: float = 1.4
    grouping: float = 1.5
    # Mixtures of products: compiled loops and the optimiser; per number in the components; for tables, whose entropy
    # compares all pairs of components, per pair of components and column (40 columns of 20 values: 0.77 GB).
    mixture: int = 80_000_000
    component_number: float = 160.0
    overlap_column: float = 12.0
    # Trees: per component and pair of codes; per row and column of the pool.
    joint_number: float = 40.0
    pool_code: float = 60.0
    # Networks: per parameter; per cell of a batch; the cache of k-means.
    parameter: float = 24.0
    batch_cell: float = 12.0
    kmeans_cache: int = 512_000_000
    # Images: per pixel, up to a number of pixels (chunks of 8,192 in four copies, batches of 400 in six).
    picture_pixel: float = 140_000.0
    picture_pixels: int = 2000
    # Baselines: per position; MWEM: per pair of positions.
    baseline_position: float = 100.0
    mwem_square: float = 80.0

    # Sequences: per proposal of a pool, with what it adds to all statistics.
    proposal: float = 500.0
    small_proposal: float = 6000.0


MEMORY_RULES = MemoryRules()


@dataclass(frozen=True)
class Sizes:
    """The public sizes of a fit: records of one process, positions, guessed items per record."""

    records: float
    width: int
    items: float

    @classmethod
    def of(cls, records: int, domain: Domain, processes: int = 1) -> "Sizes":
        """The sizes of a fit of `records` records, shared by some processes."""
        return cls(records / processes, domain.width, float(expected_profile(domain).sum()))

    @property
    def row_bytes(self) -> float:
        """Bytes of all rows in memory: 8 per record and 2 or 4 per item."""
        return self.records * (8 + self.items * index_dtype(self.width)().itemsize)


def open_domain_bytes(sizes: Sizes, domain: Domain) -> float:
    """Bytes of all rows of an open domain, besides those of its closed records: 8 per number, 4 per item of a set."""
    sets = sum(field.is_set and field.lists_values for field in domain.fields)
    singles = len(domain.fields) - sets
    return sizes.records * (8 * len(domain.fields) + 4 * max(sizes.items - singles, 0.0) * (sets > 0))
