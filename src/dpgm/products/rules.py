"""Every tuned number of the products family, with its unit, its reason and where it was measured.

The numbers are public: they depend on no row, are kept in the plan and printed by `dpgm plan --rules`. "Measured" means
chosen on the development sets of docs/fidelity.md (msweb, plants, accidents, retail, Adult, simulated transit) and
judged on fresh seeds and on sets of other origin (experiments/results/fidelity_fresh.csv, fidelity_other.csv). Where no
experiment is named the number was chosen by hand; results hardly depend on most of these.
"""

from dataclasses import dataclass, field

from dpgm.statistics.rules import StatisticRules
from dpgm.strategy.settings import FamilySettings

# Not tuned: what a release is refused for. More components; shares that miss 1 by more than float32 sums of many do.
MOST_COMPONENTS = 100_000
SHARES_OFF = 1e-3


@dataclass(frozen=True)
class BudgetRules:
    """How the budget is shared over lengths, items, pairs and larger sets, and which of them are measured."""

    # Positions assumed in a plan without a domain.
    unknown_width: int = 1000
    # Up to so many positions quadruples are measured, and the fit takes its time. Measured.
    narrow: int = 24
    # Most popular positions out of which all pairs, triples and quadruples are counted: a few tens of thousands of
    # numbers each, which is what one fit can be matched to.
    pair_positions: int = 300
    triple_positions: int = 30
    # Positions for triples where their noise is below this share of what matters. Measured on transit data.
    more_triple_positions: int = 50
    more_triples_below: float = 0.25
    # Shares of mu² for record lengths; the histogram has sensitivity 1 and one peak, so little is enough.
    lengths: float = 0.03
    # Share for item counts: a base, more the wider the domain is (up to `wide` positions), since popular queries are
    # then spread over more items. Measured.
    items: float = 0.24
    items_wide: float = 0.18
    wide: int = 1000
    # Item sets of up to about a hundred items: more for items, since pairs are easily found. The bonus falls to zero
    # between 1 and 2 times `few_items` positions.
    items_few: float = 0.21
    few_items: float = 65.0
    # Where noise is large beside what matters pairs cannot be known, and items get up to a quarter more: the share is
    # multiplied by (noise / (knowable x what matters))^power. Dense records need their pairs, hence the limit.
    knowable: float = 0.12
    knowable_power: float = 1 / 3
    most_items: float = 1.25
    # Of what lengths and items leave: share of pairs where triples are measured as well.
    pairs_beside_triples: float = 0.42
    # All shares where quadruples are measured: lengths, items, pairs, triples, quadruples.
    quadruples: tuple[float, ...] = (0.03, 0.20, 0.24, 0.27, 0.26)
    quadruples_enumerated: tuple[float, ...] = (0.03, 0.45, 0.21, 0.165, 0.145)
    # Triples are measured if their noise, with `triple_share` of the budget and records of so many items, is below
    # what matters; domains wider than `triple_width` need less noise. All records enumerated: centred sums have less
    # noise, and four times as much is borne.
    triple_items: int = 6
    triple_share: float = 0.35
    triple_width: float = 350.0
    enumerated_tolerance: float = 4.0
    # Share of the item budget spent on the pilot release, by which the second one is scaled. Measured.
    pilot: float = 0.1
    # Where triples cannot be afforded: sizes of the groups of most popular items of which records hold so and so
    # many, and the share for their histograms. Without them long records come out holding everything. Measured.
    popular_groups: tuple[int, ...] = (30, 100)
    popular: float = 0.04


@dataclass(frozen=True)
class DescentRules:
    """How the components are moved by Adam. Chosen by hand."""

    # Decay of the two moments.
    betas: tuple[float, float] = (0.9, 0.99)
    # Steps over which the rate rises.
    warm_up: int = 30
    # Relative errors that do not matter: the first, shrinking to the second until this share of the steps is done.
    first_tolerance: float = 0.3
    tolerance: float = 0.003
    tightened: float = 0.6
    # Every so many steps the weights of down-weighted records are computed anew.
    refresh: int = 5
    # First weight of the entropy, per record and nat. It follows the misfit: every so many steps, by at most
    # exp(pace x most), once this share of the tightening has brought the components into place.
    entropy: float = 0.1
    entropy_every: int = 10
    entropy_pace: float = 0.1
    entropy_most: float = 3.0
    entropy_from: float = 1 / 6
    # Records of up to so many items on average: components start as random sets, mixed with this share of the profile.
    short_records: float = 5.0
    profile_share: float = 0.1
    # Else rounds in which the start of each component is shifted to its length.
    length_rounds: int = 20


@dataclass(frozen=True)
class FitRules:
    """How a mixture of products is fitted to what was measured."""

    # Weight of item counts in the loss: there are few of them beside tens of thousands of pairs. Measured.
    item_emphasis: float = 30.0
    item_emphasis_narrow: float = 3.0
    # Steps of Adam and their first rate; more steps would fit noise. Measured.
    steps: int = 600
    steps_narrow: int = 2000
    # Tables: fits from different random starts, whose mean is taken, and the steps of each. What the components make
    # of noise and of triples differs from start to start, and longer fits follow more of the noise. Public bins at
    # epsilon 1, seed 0: 3-way of bank marketing .0551 with one fit of 1,000 steps, .0544 with one of 400, .0538 with
    # two; Adult .0602, .0588, .0580 (seed 1: .0580 with one of 400, .0571 with two). Pairs hardly change.
    fits_table: int = 2
    steps_table: int = 400
    learning_rate: float = 0.1
    learning_rate_narrow: float = 0.2
    # Mutual-information penalty between component and record, per record: at most the first, and the second divided
    # by N; lower where records are long, since n items make n² / 2 pairs that may depend. Measured.
    penalty: float = 0.02
    penalty_records: float = 3000.0
    penalty_narrow: float = 300.0
    penalty_length: float = 5.0
    most_penalty: float = 2.0
    # Components: sqrt(N) / 2, at least one per 20 records up to what a wide domain affords, at most 400 (600 where
    # the domain is that wide). Measured.
    components: int = 400
    components_wide: int = 600
    component_cells: float = 600_000.0
    least_affordable: float = 100.0
    records_per_component: int = 20
    least_components: int = 4
    # Skip triples where records hold so many of the tracked items on average: the fit does not converge.
    crowded: float = 15.0
    # Counts of lengths weigh up to `most` times more, the smaller the noise of pairs is beside what matters.
    length_emphasis: float = 3.0
    most_length_emphasis: float = 5.0
    # Tables are fitted to the noisy pairs as they are, with the largest entropy that leaves this chi-square per
    # number: a little below 1, since the components follow some of the noise. Adult and bank marketing: 0.90 to 0.95.
    table_misfit: float = 0.95
    # Rounds in which a fitted table is brought to the measured shares of single values, off which entropy and noisy
    # pairs move it. Seeds 0 and 1: bank marketing 1-way .0071/.0069 to .0062/.0058, 2-way and 3-way a little better;
    # Adult .0079/.0070 to .0078/.0063, 3-way .0004 worse. Differences are below 1e-4 after these.
    profile_rounds: int = 50
    # Weight of pairs with the label of a table. AUC of boosting on bank marketing: .884 with 1, .896 with 4, .901 with
    # 12 (seeds 0 to 2; each seed rises); on Adult .902 with 4, .903 with 12, accuracy 85.2 and 85.4 % (seeds 0 and 1).
    # Distances of columns, pairs and triples are the same or a little smaller.
    label_emphasis: float = 12.0
    descent: DescentRules = field(default_factory=DescentRules)


@dataclass(frozen=True)
class EnumeratedRules:
    """Few items: all possible records are enumerated."""

    # Items, so that 2^17 records are enumerated in seconds.
    widest: int = 17
    # Records that a release keeps: all that are at all likely.
    most_records: int = 50_000
    least_share: float = 1e-3  # of one record
    # Orders whose releases count short records whole. Measured.
    whole_orders: tuple[int, ...] = (3, 4)
    # How readily counts give way to what the others imply: least and most, for sets of 1, 2, 3, 4 items; between them
    # it is the noise beside what matters. Measured.
    least_penalty: tuple[float, ...] = (0.03, 0.03, 0.03, 0.03)
    most_penalty: tuple[float, ...] = (0.03, 0.03, 0.1, 0.2)
    whole_penalty: float = 0.2
    # The same for counts of lengths.
    length_penalty: float = 0.03
    # Frequencies assumed before anything is known are kept off 0 and 1.
    least_frequency: float = 0.001
    # L-BFGS: iterations before and after the parameters are scaled anew, pairs it remembers, halvings of a step, the
    # share of the promised decrease that a step must bring (Armijo's usual one), and a slope not worth following.
    rounds: tuple[int, int] = (250, 450)
    history: int = 40
    halvings: int = 30
    sufficient_decrease: float = 1e-4
    flat: float = 1e-5


@dataclass(frozen=True)
class SamplingRules:
    """How samples are drawn from a release, which no plan comes with. Chosen by hand."""

    # Counts below this share of the records matter little.
    sanity: float = 0.001
    # Samples of up to so many records are balanced; beyond, chance errors are small anyway.
    balanced_records: int = 100_000
    # Components are gone through in the order of so many most frequent items, so that neighbours are alike.
    sorted_by: int = 32
    # Up to so many positions, components that leave nothing to chance are rounded as a whole.
    certain_positions: int = 24
    # The most frequent positions whose pairs and triples are looked at, and how often all records are gone through.
    pairs: int = 1000
    triples: int = 60
    sweeps: int = 50
    # Records and items of a sample that is rounded as a whole; moves, candidates per draw, and draws without success.
    rounded_cells: int = 3_000_000
    moves: int = 1500
    candidates: int = 4000
    stale_draws: int = 3


@dataclass(frozen=True)
class ProductRules(StatisticRules):
    """All rules of the family, those of its statistics included."""

    budget: BudgetRules = field(default_factory=BudgetRules)
    fit: FitRules = field(default_factory=FitRules)
    enumerated: EnumeratedRules = field(default_factory=EnumeratedRules)


RULES = ProductRules()


@dataclass(frozen=True)
class ProductSettings(FamilySettings):
    """The tuned numbers, as a plan keeps them."""

    rules: ProductRules = RULES


SAMPLING = SamplingRules()
