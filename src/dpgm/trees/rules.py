"""Every tuned number of the trees family, with its unit, its reason and where it was measured.

"Measured" means chosen on Adult and bank marketing in public bins, diamonds, and the made survey and clinic of
`experiments/table_data.py`, on seeds from 100. "By hand" means without an experiment.
"""

from dataclasses import dataclass, field, replace

from dpgm.statistics.pair_blocks import SMOOTH
from dpgm.statistics.rules import StatisticRules
from dpgm.strategy.settings import FamilySettings
from dpgm.tilting.rules import TiltRules

# Not tuned: a release with more components, or larger parameters, is rejected.
MOST_TREES = 1000
LARGEST_TILT = 1e6


@dataclass(frozen=True)
class ShareRules:
    """How the budget is shared: parts of mu², where mu is the parameter of Gaussian differential privacy."""

    # Columns; tables of groups of all pairs; full tables of the strongest pairs; ranks.
    columns: float = 0.33
    coarse: float = 0.42
    full: float = 0.20
    ranks: float = 0.05
    # Where tables would drown in noise, columns and ranks only: the share of columns. Measured.
    columns_wide: float = 0.4


@dataclass(frozen=True)
class PairRules:
    """Which tables of pairs are measured, at which resolution."""

    # Rows drawn from independent columns, by whose norms limits are chosen. By hand.
    likely_rows: int = 4000
    # Rows are scaled down to this quantile of their norms: low, since scaling down is modelled and costs no bias.
    # Measured.
    limit_quantile: float = 0.1
    # Groups per column: as many that an average cell of a pair holds this many standard deviations of its noise. Never
    # more than the most. By hand.
    cell_noises: float = 2.0
    most_groups: int = 64
    # With fewer groups no tables are measured, only ranks. Made surveys of 3,000 rows and 20, 30 and 40 questions bear
    # 5.5, 4.5 and 3.9 groups; correlations of .5 came out as .44, .42 and .33 by tables, and as .43, .44 and .43 by
    # ranks alone.
    least_groups: float = 5.0
    # Most values per column in full tables, and of columns without an order beside ranks; the last where ranks are
    # alone. By hand.
    most_values: int = 100
    rank_values: int = 20
    rank_values_alone: int = 6
    # Degree of the polynomials of ranks; the second where ranks are alone. Measured.
    rank_degree: int = 2
    rank_degree_alone: int = 1
    # Emphasis of pairs with the label: how much larger their sums are, next to the noise. Measured.
    label_emphasis: float = 2.0
    # Cells count as this many more rows of average weight, where the mean weight in a cell is taken from drawn rows.
    # By hand.
    mean_prior: float = 5.0
    # A missing value exists in a column if its noisy count exceeds this many standard deviations. By hand: by chance,
    # one column of 700 without any has some.
    missing_noises: float = 3.0
    # Rounds in which the variance of a pair's cells is estimated. By hand.
    strength_rounds: int = 30


@dataclass(frozen=True)
class ListRules:
    """What is measured of lists of items beside table columns."""

    # Part of the budget that goes to lists; and of that the parts of items, items beside groups of all columns, items
    # beside the values of one column, pairs of items. Measured.
    share: float = 0.25
    items: float = 0.10
    by_groups: float = 0.30
    by_values: float = 0.35
    together: float = 0.25
    # Records are scaled down to this quantile of the norms of likely records that hold items. Measured.
    limit_quantile: float = 0.1
    # Commonest items that are counted beside columns, and in pairs. By hand.
    most_items: int = 300
    paired_items: int = 100
    # Least and largest chance of an item in the base. By hand.
    least_chance: float = 1e-5
    most_chance: float = 0.95


@dataclass(frozen=True)
class BaseRules:
    """How the mixture of trees is fitted."""

    # Rows drawn to learn the mean weights of scaled-down rows. By hand.
    rows: int = 40_000
    # L-BFGS iterations for the joint distribution of the two columns of an edge. By hand.
    edge_iterations: int = 60
    # Components, of trees and without any edges, and how far the logits of their tables differ at the start. Measured.
    components: int = 8
    components_alone: int = 60
    spread: float = 0.5
    # Steps of Adam, the learning rate, its warm-up, its decay rates and its last share of the rate.
    steps: int = 250
    learning_rate: float = 0.15
    warm_up: int = 10
    betas: tuple[float, float] = (0.9, 0.99)
    last_rate: float = 0.05
    # Penalty on the mutual information between component and row, per row and nat. Measured.
    penalty: float = 0.1
    # The same and the steps without any edges, where components carry all relations.
    penalty_alone: float = 0.003
    steps_alone: int = 400
    # Least share of a cell, relative to independence, in the tables from which components start. By hand.
    floor: float = 1e-6

    @property
    def alone(self) -> "BaseRules":
        """The same for a mixture without any edges."""
        return replace(self, components=self.components_alone, penalty=self.penalty_alone, steps=self.steps_alone)


@dataclass(frozen=True)
class RowPoolRules:
    """The pools that are tilted."""

    # Rows: a multiple of the records, between the least and the most; many columns have fewer than the least, such that
    # rows x pairs of columns do not exceed `cells`. Measured, the limits by hand.
    least: int = 60_000
    per_record: float = 2.5
    most: int = 400_000
    cells: float = 3e7
    # Ridge of tables, of ranks and of columns: how far sums may stay from their noisy values; of ranks where they are
    # alone. Measured.
    ridge: float = 0.1
    rank_ridge: float = 0.03
    rank_ridge_alone: float = 1.0
    column_ridge: float = 0.1
    list_ridge: float = 0.1


@dataclass(frozen=True)
class TreeSamplingRules:
    """How samples are drawn from a release. All by hand."""

    # Rows of the pool per record of a sample, and the fewest.
    per_record: float = 2.5
    least: int = 20_000
    # Most records whose pool is weighted anew, so that its sums are those of the fit; most iterations, and the residual
    # below which a sum is near enough (`TiltRules.matched`).
    whole: int = 200_000
    iterations: int = 80
    matched: float = 0.2
    # Exchange of rows: sweeps over the sample, most cells that are looked at in all, and the weight of columns next to
    # pairs. Longer columns are cut to so many codes. Adult, 2-way .0211 to .0199 and 3-way .0534 to .0524 with ten
    # sweeps, and no better with thirty.
    sweeps: int = 10
    tried_cells: int = 400_000_000
    column_penalty: float = 8.0
    most_codes: int = 100
    # Most numbers in the tables of a conditioned mixture, a limit on memory.
    most_numbers: int = 60_000_000
    # Rows by which the probability of a condition is estimated.
    chance_rows: int = 20_000


@dataclass(frozen=True)
class TreeRules(StatisticRules):
    """All rules of the family, those of its statistics included."""

    shares: ShareRules = field(default_factory=ShareRules)
    pairs: PairRules = field(default_factory=PairRules)
    lists: ListRules = field(default_factory=ListRules)
    base: BaseRules = field(default_factory=BaseRules)
    pool: RowPoolRules = field(default_factory=RowPoolRules)
    sampling: TreeSamplingRules = field(default_factory=TreeSamplingRules)
    tilt: TiltRules = field(default_factory=lambda: TiltRules(iterations=100))

    def ridge_of(self, name: str, *, alone: bool) -> float:
        """The ridge of a statistic of pairs; `alone` if it is the only one."""
        if name != SMOOTH:
            return self.pool.ridge
        return self.pool.rank_ridge_alone if alone else self.pool.rank_ridge


TREE_RULES = TreeRules()


@dataclass(frozen=True)
class TreeSettings(FamilySettings):
    """The tuned numbers, as a plan keeps them."""

    rules: TreeRules = TREE_RULES
