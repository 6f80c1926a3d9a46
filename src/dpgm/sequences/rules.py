"""Every tuned number of the sequences family, with its unit, its reason and where it was measured.

The numbers are public: they depend on no row, are kept in the plan and printed by `dpgm plan --rules`. "Measured" means
chosen on subsets of msnbc (30,000 and all people) and on simulated cards, and checked on fresh seeds
(docs/how/sequences.md). "By hand" means without an experiment.
"""

from dataclasses import dataclass, field

from dpgm.statistics.rules import TimeBins
from dpgm.strategy.settings import FamilySettings
from dpgm.tilting.rules import TILT_RULES, TiltRules

# Not tuned: limits on what an untrusted release may hold.
MOST_CHAINS = 10_000
LARGEST_LIMIT = 100_000_000

LARGEST_THETA = 1e6


@dataclass(frozen=True)
class MeasureRules:
    """What is measured, with which share of the budget (parts of mu²)."""

    # Shares of the statistics of chains. Measured.
    lengths: float = 0.05
    steps: float = 0.30
    steps_by_length: float = 0.15
    pairs: float = 0.08
    runs: tuple[float, ...] = (0.20, 0.11, 0.11)  # of 3, 4, 5 items
    # Share of all statistics of the columns of persons, if there are any, and its parts: values, pairs of columns,
    # values by length, by step and by item. Values have at most so many codes in all but the first one. By hand.
    attributes: float = 0.25
    attribute_parts: tuple[float, ...] = (0.15, 0.2, 0.15, 0.35, 0.15)
    attribute_codes: int = 8
    # Share of all statistics of times, if events have them, and its parts: habits, active days, hours, elapsed times,
    # hours in a row, first hours, gaps, activity, hours by rank, events of days, items by hour. By hand, after a
    # prototype on simulated cards.
    times: float = 0.25
    time_parts: tuple[float, ...] = (0.15, 0.12, 0.18, 0.2, 0.1, 0.06, 0.05, 0.05, 0.07, 0.04, 0.08)
    # Classes of lengths, which have about equally many events: short, usual and long sequences differ. Measured.
    length_classes: int = 3
    # Runs are counted if the pool has more of them than this many standard deviations of the noise; at most so many.
    # Measured.
    run_noise: float = 0.5
    most_runs: int = 4000
    # People are scaled down so that this share of all events is theirs: (this / (N mu))^power, at most `most_scaled`.
    # Many people allow little noise, so that long sequences can count in full. Measured: the best bounds for 30,000 and
    # for a million people.
    scaled: float = 2200.0
    scaled_power: float = 2 / 3
    most_scaled: float = 0.5


@dataclass(frozen=True)
class MixtureRules:
    """How components are fitted to a weighted pool."""

    # Number of components, and iterations of EM. Measured: more than 100 did not help.
    components: int = 80
    iterations: int = 15
    # Random records that a component starts from.
    seeds: int = 5
    # Where events have times: levels of activity, on weekdays and at weekends, of the first components. By hand.
    levels: int = 6
    # A chain's first rows: no item has less than this share of an equal one. By hand.
    floor: float = 0.001
    # The law of all people counts in each component as much as so many draws in each group.
    shrink: float = 5.0


@dataclass(frozen=True)
class PlaceRules:
    """Sequences of many items, such as stations: a chain of ranks, and a mixture of products for their places."""

    # Items above which this is done: tables of steps would hold more noise than steps. Measured on simulated cards of
    # 342 stations, and on msnbc with 17 pages; in between by hand.
    most_items: int = 60
    # Ranks of places; all places from the last one on share it.
    ranks: int = 7
    # Shares of all statistics: of the ranks, of places, and of items in a row and beside each other. Measured.
    shares: tuple[float, float, float] = (0.15, 0.45, 0.40)
    # Parts of those of places: the first two together, each rank, new places after others. By hand.
    place_parts: tuple[float, float, float] = (0.5, 0.2, 0.3)
    # Parts of those of items: items and pairs, and 2, 3, 4 in a row. By hand.
    item_parts: tuple[float, float, float, float] = (0.3, 0.35, 0.25, 0.1)
    # The mixture of products: components, iterations and rate of Adam, standard deviation of its start, weight of
    # squared logarithms, and least share of a place against an equal one. By hand.
    components: int = 80
    iterations: int = 250
    rate: float = 0.05
    start: float = 0.5
    ridge: float = 0.05
    floor: float = 0.01
    # Draws of a place that is not one of those before.
    attempts: int = 8


@dataclass(frozen=True)
class PoolRules:
    """How many sequences are drawn, and how they are reweighted."""

    # Sequences with equally likely items, on which the first bound is chosen. By hand.
    first: int = 20_000
    # Sequences of the last pool, and of earlier ones: this multiple of the number of people, within limits.
    proposals: float = 3.0
    proposals_before: float = 1.0
    least: int = 1_000_000
    least_before: int = 300_000
    most: int = 3_000_000
    # The draws of a weighted pool must say as much as this share of their number: before the last tilt, and after it.
    # By hand.
    least_effective: float = 0.03
    least_effective_last: float = 0.02
    # The same where events have times or ranks: a person adds to many more statistics. By hand, for the memory.
    small: float = 5.0
    small_least: int = 40_000
    small_most: int = 400_000
    # And of a last pool of ranks without times, whose weights are those of many items.
    ranked_least: int = 600_000
    # More rounds of tilts and components with times or ranks, before anything else is counted.
    more_rounds: int = 1
    # Parameters have a normal prior of precision `precision` (1 + people / proposals), since a pool is random as well,
    # and another one of standard deviation `spread` per share of the people. Measured.
    precision: float = 30.0
    # Statistics of sequences alone. The precision grows with this power of their number where there are more, so that
    # noise spreads the weights no more. Measured on simulated cards.
    usual_statistics: int = 7
    more_power: float = 2.0
    spread: float = 1.0
    least_variance: float = 0.01
    tilt: TiltRules = TILT_RULES


@dataclass(frozen=True)
class DrawRules:
    """How samples are drawn."""

    # Proposals per sequence of a sample, and the fewest.
    proposals: int = 4
    small_proposals: int = 12  # with times or ranks, whose weights differ more
    least: int = 4096
    # No proposal weighs more than the sequence of the pool at this quantile of the total weight. Measured.
    ceiling: float = 0.999


@dataclass(frozen=True)
class SequenceRules:
    """All rules of the family."""

    measure: MeasureRules = field(default_factory=MeasureRules)
    mixture: MixtureRules = field(default_factory=MixtureRules)
    pool: PoolRules = field(default_factory=PoolRules)
    draw: DrawRules = field(default_factory=DrawRules)
    places: PlaceRules = field(default_factory=PlaceRules)
    bins: TimeBins = field(default_factory=TimeBins)


SEQUENCE_RULES = SequenceRules()


@dataclass(frozen=True)
class SequenceSettings(FamilySettings):
    """The tuned numbers."""

    rules: SequenceRules = SEQUENCE_RULES
