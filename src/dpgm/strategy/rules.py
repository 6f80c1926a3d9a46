"""Time and memory per unit of work of a fit, measured on a reference machine.

The reference is one thread of an Intel Xeon at 2.80 GHz (two shared cores, AVX-512). Its seconds are divided by the
relative speed of the machine at hand (`synthesis/estimate.py`). The numbers were fitted to runs on transit data (342
stations), msweb (294 pages), call records (1303 towers) and images of 28 x 28; benchmarks/large_fit.py compares the
estimates with whole fits.
"""

from dataclasses import dataclass

from dpgm.data.domain import Domain
from dpgm.data.rows import index_dtype
from dpgm.data.stores import PROCESS_BYTES
from dpgm.statistics.fourier_features import expected_profile


@dataclass(frozen=True)
class CostRules:
    """Seconds and bytes per unit of work, each at the speed of the reference machine."""

    # The fixed computation by which a machine is compared with the reference: its seconds there, and how often it is
    # repeated (the fastest run counts).
    probe_seconds: float = 0.0017
    probe_rounds: int = 40

    # -- all fits: planning, checks, bookkeeping and the release; checks and digests per record and per item.
    fixed: float = 0.5
    per_record: float = 1.5e-7
    per_item: float = 1.2e-8

    # -- statistics of item sets and tables: per record; per item of a record; choosing their bounds.
    counted_record: float = 2.0e-7
    counted_item: float = 5.0e-8
    bounds: float = 0.4

    # -- the fit of products: per step; per step, component and position; per step, component and pair of tracked
    #    positions; for triples, per step, component and tracked pair, and per step, component, pair and position.
    step: float = 2.2e-3
    step_position: float = 4.2e-8
    step_pair: float = 8.2e-11
    step_triple_pair: float = 2.2e-8
    step_triple: float = 8.2e-11
    # With triples, steps with pairs only come first: 1.5 times the steps in all.
    steps_with_triples: float = 1.5
    # Tables, whose entropy compares all pairs of components: per step, pair of components and position; and bytes of
    # its gradient per pair of components and column. A table of 40 columns of 20 values: 119 s, 0.77 GB.
    step_overlap: float = 3.0e-10
    overlap_column: float = 12.0
    # All records enumerated (up to 17 items): per iteration and possible record.
    enumerated_record: float = 8.0e-8

    # -- networks: per step; per step and model; per step and parameter (noise, Adam); per sampled record; per sampled
    #    record, position and hidden unit.
    train_step: float = 1.0e-3
    train_model: float = 1.0e-4
    vae_parameter: float = 2.7e-9
    vae_record: float = 1.6e-6
    vae_cell: float = 9.5e-11
    # Pretraining: per sample and pass, position and hidden unit.
    pretraining_cell: float = 4.5e-10
    # RBMs: the cost is dominated by the chains, per step and parameter.
    rbm_parameter: float = 2.1e-8
    rbm_record: float = 7.0e-7
    rbm_cell: float = 2.0e-12
    # k-means: per record, feature and item of the record; per record, iteration, centre and feature.
    feature_item: float = 1.8e-10
    centre_feature: float = 4.5e-11
    # Refinement of decoders: as a step of products, with its cost per position times this factor.
    decoder_factor: float = 3.0

    # -- images: per image and released number of its class; per step, generated image and matched number; per step.
    picture_feature: float = 1.9e-8
    picture_step: float = 4.6e-8
    picture_step_fixed: float = 3.0e-3

    # -- MWEM: per record and item, for sorting the items of every record; per round and pair of items.
    mwem_item: float = 2.0e-7
    mwem_pair: float = 1.1e-7

    # -- memory in bytes: the process with its libraries; of mixtures, their compiled loops and optimiser, and per
    #    number in the components; copies of rows while they are joined, and while they are grouped by person (fits
    #    of 5 million rows x 8: docs/performance.md); per parameter of a network; per cell of a batch; the cache of
    #    k-means.
    process: int = PROCESS_BYTES
    mixture: int = 80_000_000
    component_number: float = 160.0
    joining: float = 1.4
    grouping: float = 1.5
    parameter: float = 24.0
    batch_cell: float = 12.0
    kmeans_cache: int = 512_000_000
    # Images: per pixel, up to a number of pixels (chunks of 8,192 in four copies, batches of 400 in six). Baselines:
    # per position; MWEM: per pair of positions.
    picture_pixel: float = 140_000.0
    picture_pixels: int = 2000
    baseline_position: float = 100.0
    mwem_square: float = 80.0


COST_RULES = CostRules()
SHARES_OFF = 1e-3  # not tuned: a release with shares whose sum is further from 1 is refused


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


@dataclass(frozen=True)
class Work:
    """The cost that a family adds to that of all fits: seconds on the reference machine, bytes besides the rows."""

    seconds: float
    memory: float = 0.0


def counting_seconds(sizes: Sizes, costs: CostRules) -> float:
    """Seconds to measure statistics of item sets and tables, and to choose their bounds."""
    return costs.bounds + sizes.records * (costs.counted_record + costs.counted_item * sizes.items)
