"""Every tuned number of the products family, with its unit, its reason and where it was measured.

The numbers are public: they depend on no row, are kept in the plan and printed by `dpgm plan --rules`. "Measured" means
chosen on the development sets of docs/fidelity.md (msweb, plants, accidents, retail, Adult, simulated transit) and
checked on fresh seeds and on other data sets (experiments/results/fidelity_fresh.csv, fidelity_other.csv); the
experiments are in experiments/notes/fidelity.md, "What the rules are, and how they were chosen". "By hand" means
without an experiment; results hardly depend on most of these. Errors quoted below are those of docs/fidelity.md at
epsilon 1.

A count "matters" if it is at least `sanity` (of statistics/rules.py) times the number of records.
"""

from dataclasses import asdict, dataclass, field

from dpgm.errors import UsageError
from dpgm.statistics.rules import StatisticRules
from dpgm.strategy.settings import FamilySettings

# Not tuned: a release with more components is refused.
MOST_COMPONENTS = 100_000


@dataclass(frozen=True)
class BudgetRules:
    """Which statistics are measured, and how the budget is shared over lengths, items, pairs and larger sets.

    Shares are parts of mu², where mu is the parameter of Gaussian differential privacy.
    """

    # Positions assumed in a plan without a domain. By hand.
    unknown_width: int = 1000
    # Positions up to which a domain is narrow: quadruples are measured, and the fit takes more steps. Measured.
    narrow: int = 24
    # Most popular positions whose pairs and whose triples are all counted: tens of thousands of numbers each, as many
    # as one fit can match. By hand.
    pair_positions: int = 300
    triple_positions: int = 30
    # More positions for triples, where their noise is below this share of the counts that matter. Measured on transit.
    more_triple_positions: int = 50
    more_triples_below: float = 0.25
    # Share for record lengths: their histogram has sensitivity 1 and one peak, so little is enough. By hand.
    lengths: float = 0.03
    # Share for item counts: a base, plus a part that grows with the number of positions up to `wide`, since popular
    # queries are then spread over more items. Measured.
    items: float = 0.24
    items_wide: float = 0.18
    wide: int = 1000
    # Item sets only: a further share for item counts, since pairs of few items are found easily. It is full up to
    # `few_items` positions and falls to zero at twice as many. Measured with the shares of items.
    items_few: float = 0.21
    few_items: float = 65.0
    # Where noise is large, pairs cannot be learned and items get more: their share is multiplied by
    # (noise / (knowable x counts that matter))^power, at most by `most_items`, since dense records need their pairs.
    # Measured: sets of about 10,000 records have 4 to 9 % less error of items for up to 3 % more of pairs; at epsilon
    # 0.3, pairs of accidents have .20 without the factor, .25 with at most 1.25, .28 with at most 1.6.
    knowable: float = 0.12
    knowable_power: float = 1 / 3
    most_items: float = 1.25
    # With triples: the pairs' part of what lengths and items leave; the rest is for triples. Measured.
    pairs_beside_triples: float = 0.42
    # With quadruples: shares of lengths, items, pairs, triples, quadruples (by hand); the second line where all
    # possible records are enumerated. Measured on nltcs: errors of 1 to 4 items .0010/.0038/.0061/.0076; with
    # .20/.28/.26/.23 for the four .0021/.0042/.0062/.0077.
    quadruples: tuple[float, ...] = (0.03, 0.20, 0.24, 0.27, 0.26)
    quadruples_enumerated: tuple[float, ...] = (0.03, 0.45, 0.21, 0.165, 0.145)
    # Triples are measured if their noise, with `triple_share` of the budget and records of `triple_items` items, is
    # below the counts that matter. Domains of more than `triple_width` positions need less noise; where all records are
    # enumerated, sums are centred and tolerate this many times more. By hand.
    triple_items: int = 6
    triple_share: float = 0.35
    triple_width: float = 350.0
    enumerated_tolerance: float = 4.0
    # Share of the item budget spent on the pilot release, by which the second release is scaled. Measured.
    pilot: float = 0.1
    # Where triples are too expensive: sizes of the groups of most popular items whose number per record is measured,
    # and the share for these histograms. Without them long records come out holding every popular item. Measured:
    # pairs, triples, quadruples of BMS-WebView-2 .105/.023/.0041 without and .081/.013/.0024 with them.
    popular_groups: tuple[int, ...] = (30, 100)
    popular: float = 0.04


@dataclass(frozen=True)
class DescentRules:
    """How Adam fits the components. All by hand."""

    # Decay rates of Adam's two moment estimates.
    betas: tuple[float, float] = (0.9, 0.99)
    # Steps of linear warm-up of the learning rate.
    warm_up: int = 30
    # Relative errors that are tolerated: from the first, falling to the second when this share of the steps is done.
    first_tolerance: float = 0.3
    tolerance: float = 0.003
    tightened: float = 0.6
    # Steps between two updates of the mean weights of down-weighted records, which change slowly.
    refresh: int = 5
    # Initial weight of the entropy, per record and nat. It follows the misfit: every `entropy_every` steps it changes
    # by a factor of at most exp(pace x most), once this share of the tightening has brought the components into place.
    entropy: float = 0.1
    entropy_every: int = 10
    entropy_pace: float = 0.1
    entropy_most: float = 3.0
    entropy_from: float = 1 / 6
    # Records of up to this many items on average: components start as random sets, mixed with this share of the
    # profile.
    short_records: float = 5.0
    profile_share: float = 0.1
    # Longer records: rounds in which the start of each component is shifted to its length.
    length_rounds: int = 20


@dataclass(frozen=True)
class FitRules:
    """How a mixture of products is fitted to the measured statistics."""

    # Weight of item counts in the loss, since they are few next to tens of thousands of pairs; the second for narrow
    # domains. Measured.
    item_emphasis: float = 30.0
    item_emphasis_narrow: float = 3.0
    # Steps of Adam, in general and for narrow domains; more would fit the noise. Measured: triples of msweb .132 with
    # 800 steps, .127 with 640, .125 with 500, .131 with 400.
    steps: int = 600
    steps_narrow: int = 2000
    # Tables: number of fits from different random starts, which are averaged, and the steps of each. What components
    # make of noise and of triples differs from start to start, and longer fits follow more of the noise. Measured with
    # public bins at epsilon 1, seed 0: 3-way error of bank marketing .0551 with one fit of 1,000 steps, .0544 with one
    # of 400, .0538 with two; Adult .0602, .0588, .0580 (seed 1: .0580 with one of 400, .0571 with two). Pairs hardly
    # change.
    fits_table: int = 2
    steps_table: int = 400
    # Initial learning rate, in general and for narrow domains. Measured.
    learning_rate: float = 0.1
    learning_rate_narrow: float = 0.2
    # Mutual-information penalty between component and record, per record: `penalty`, or `penalty_records` / N if that
    # is less; multiplied by (penalty_length / mean length)², at most by `most_penalty`, since n items make n² / 2 pairs
    # that may depend. Narrow domains: `penalty_narrow` / N. Measured: quadruples of plants .249 without the factor of
    # the mean length and .126 with it, of accidents .450 and .383.
    penalty: float = 0.02
    penalty_records: float = 3000.0
    penalty_narrow: float = 300.0
    penalty_length: float = 5.0
    most_penalty: float = 2.0
    # Components: sqrt(N) / 2, at most `components`, and at least one per `records_per_component` records. That minimum
    # is itself at least `least_components`, and at most `components` (in wide domains as many as there are positions,
    # up to `components_wide`) and `component_cells` / positions, which limits memory (but never below
    # `least_affordable`). Measured: 400 instead of 250 took triples of accidents from .175 to .155; 600 took pairs of
    # BMS-WebView-2, whose items fall into many small groups, from .081 to .070.
    components: int = 400
    components_wide: int = 600
    component_cells: float = 600_000.0
    least_affordable: float = 100.0
    records_per_component: int = 20
    least_components: int = 4
    # Triples are left out where records hold this many of the tracked items on average: the fit does not converge.
    # By hand.
    crowded: float = 15.0
    # Weight of length counts: (counts that matter) / (length_emphasis x noise of pairs), from 1 to the most. Measured.
    length_emphasis: float = 3.0
    most_length_emphasis: float = 5.0
    # Tables are fitted to the noisy pairs without shrinkage, with the largest entropy that leaves this chi-square per
    # pair: a little below 1, since the components follow some of the noise. Measured on Adult and bank marketing: 0.90
    # to 0.95.
    table_misfit: float = 0.95
    # Rounds in which the single values of a fitted table are brought back to their measured shares, from which entropy
    # and noisy pairs move them; later changes are below 1e-4. Measured, seeds 0 and 1: bank marketing 1-way error
    # .0071/.0069 to .0062/.0058, 2-way and 3-way a little better; Adult .0079/.0070 to .0078/.0063, 3-way .0004 worse.
    profile_rounds: int = 50
    # Weight of pairs with the label of a table. Measured as AUC of boosting on bank marketing: .884 with 1, .896 with
    # 4, .901 with 12 (seeds 0 to 2; each seed rises); on Adult .902 with 4, .903 with 12, accuracy 85.2 and 85.4 %
    # (seeds 0 and 1). Distances of columns, pairs and triples are the same or a little smaller.
    label_emphasis: float = 12.0
    descent: DescentRules = field(default_factory=DescentRules)


@dataclass(frozen=True)
class EnumeratedRules:
    """Few items: all possible records are enumerated."""

    # Most items: 2^17 records are enumerated in seconds. By hand.
    widest: int = 17
    # Most records that a release holds, and the least expected number of copies of each: all that are at all likely.
    # By hand.
    most_records: int = 50_000
    least_share: float = 1e-3
    # Set sizes whose releases also count short records whole. Measured.
    whole_orders: tuple[int, ...] = (3, 4)
    # Penalty on the divergence from independent items, for sets of 1, 2, 3, 4 items: noise over the counts that matter,
    # between these two. The larger it is, the more the counts yield to what the others imply. Measured.
    least_penalty: tuple[float, ...] = (0.03, 0.03, 0.03, 0.03)
    most_penalty: tuple[float, ...] = (0.03, 0.03, 0.1, 0.2)
    # The same penalty for records counted whole (measured), and for counts of lengths (by hand).
    whole_penalty: float = 0.2
    length_penalty: float = 0.03
    # Item frequencies assumed before any item is measured are at least this far from 0 and 1. By hand.
    least_frequency: float = 0.001
    # L-BFGS: iterations before and after the parameters are rescaled, length of its history, most halvings of a step,
    # the share of the predicted decrease that a step must reach (Armijo's usual one), and the largest slope at which it
    # stops. By hand.
    rounds: tuple[int, int] = (250, 450)
    history: int = 40
    halvings: int = 30
    sufficient_decrease: float = 1e-4
    flat: float = 1e-5


@dataclass(frozen=True)
class SamplingRules:
    """How samples are drawn from a release. All by hand."""

    # Errors are relative to the expected count, or to this share of the records if that is more.
    sanity: float = 0.001
    # Most records of a sample that is balanced; in larger ones chance errors are small anyway.
    balanced_records: int = 100_000
    # Components are sorted by this many most frequent items, so that neighbours are similar.
    sorted_by: int = 32
    # Most positions for which a mixture of single records is rounded as a whole.
    certain_positions: int = 24
    # Most frequent positions whose pairs and whose triples are balanced, and sweeps over all records.
    pairs: int = 1000
    triples: int = 60
    sweeps: int = 50
    # Rounding as a whole: most records plus items of a sample, most moves, candidates per draw, and draws without
    # improvement after which it stops.
    rounded_cells: int = 3_000_000
    moves: int = 1500
    candidates: int = 4000
    stale_draws: int = 3
    # Most components x positions of a conditioned mixture, a limit on memory.
    conditioned_cells: int = 60_000_000

    def check(self) -> None:
        """Raise UsageError for numbers with which a sample would take far longer, or more memory, than usual."""
        for name, usual in asdict(SamplingRules()).items():
            if not 0 <= getattr(self, name) <= 2 * usual:
                raise UsageError(f"the plan's rule of sampling {name!r} is out of range; make the plan again.")


@dataclass(frozen=True)
class ProductRules(StatisticRules):
    """All rules of the family, those of its statistics included."""

    budget: BudgetRules = field(default_factory=BudgetRules)
    fit: FitRules = field(default_factory=FitRules)
    enumerated: EnumeratedRules = field(default_factory=EnumeratedRules)
    sampling: SamplingRules = field(default_factory=SamplingRules)


SAMPLING_RULES = SamplingRules()
PRODUCT_RULES = ProductRules()


@dataclass(frozen=True)
class ProductSettings(FamilySettings):
    """The tuned numbers, as a plan keeps them."""

    rules: ProductRules = PRODUCT_RULES

    def check(self) -> None:
        """Sampling that takes a reasonable time; a release may say anything."""
        self.rules.sampling.check()
