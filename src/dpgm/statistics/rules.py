"""Every tuned number by which statistics are bounded and noisy values are read, with unit, reason and origin.

"Measured" and "by hand" mean what they do in `products/rules.py`, whose rules include these.
"""

from dataclasses import dataclass, field

# Share of the squared distance between strokes a few pixels wide that a blur of one pixel leaves. Measured on digits.
BLURRED_DISTANCE = 0.4


@dataclass(frozen=True)
class BoundRules:
    """How far long records are scaled down: a bound balances the noise against the distortion of long records."""

    # Assumed relative error of the correction for down-weighting, for sets of 1, 2, 3, 4 items; it grows, since records
    # that hold a larger set are less alike. Measured.
    distortion: tuple[float, ...] = (0.3, 0.4, 0.6, 0.6)
    # The same for scaled item counts: rare items occur together, in records that are scaled down more than most.
    # By hand.
    scaled_distortion: float = 0.6
    # Where all records are enumerated: factors on `distortion`, since there the correction is nearly exact, above all
    # for small sets. By hand.
    enumerated_doubt: tuple[float, ...] = (0.03, 0.03, 0.1, 0.1)
    # Numbers of random records and of popular sets by which a bound is judged: enough for two digits. By hand.
    likely_records: int = 4000
    popular_sets: int = 2000
    # Most items for which random records are drawn without repeated items; with more, repetitions are rare and
    # excluding them takes time. By hand.
    distinct_items: int = 500
    # Number of candidate bounds, and the first of the quantiles of record sizes that they are taken from. By hand.
    candidates: int = 60
    first_quantile: float = 0.05
    # Record sizes are cut at this quantile, or where that many records are larger if that is higher: lengths that
    # appear only because of noise can be extreme and would dominate sums of squares. Measured.
    seen: float = 0.98
    unseen_records: float = 150.0
    # Pairs are centred where records hold at least this many items and columns on average, if the expected squared
    # error is below this share of that of plain counts. Measured: below, both are equally good and plain counts are
    # easier to fit. Plants: pairs .060 plain, .039 centred; accidents .122 and .078.
    dense: float = 8.0
    centred_gain: float = 0.7
    # Candidate offsets, from the frequencies (0) to one half (1), where all records have equally long vectors.
    # By hand.
    offset_candidates: tuple[float, ...] = (0.0, 0.5, 1.0)
    # Where all records are enumerated: offsets other than the frequencies must have at most this share of the error,
    # for sets of 1, 2, 3, 4 items. By hand.
    enumerated_gain: tuple[float, ...] = (1.0, 0.5, 0.5, 0.5)
    # Candidate powers by which the scale of an item falls with its count. Measured: a quarter to a third is best for
    # popular queries; or one scale for all items.
    scale_powers: tuple[float, ...] = (0.25, 0.0)
    # Grid points between which the mean weight of records that hold an item is interpolated. By hand.
    grid_points: int = 9
    # Least size (sum of squares) of a record, since bounds divide by it. By hand.
    least_size: float = 1e-3
    # Popularity assumed before any item is measured: the item of rank r has weight 1 / (r + this). By hand.
    zipf_offset: float = 3.0


@dataclass(frozen=True)
class ShrinkRules:
    """Empirical Bayes: the grids on which the distribution of the true counts is estimated. All by hand."""

    # Grid of lifts (true count over expected count): 0, and this many between the two, evenly in logarithms.
    least_lift: float = 0.05
    most_lift: float = 60.0
    lifts: int = 24
    # Standard deviation around each lift, a constant plus a share of the lift: neighbours overlap.
    lift_width: float = 0.05
    lift_width_share: float = 0.16
    # In the prior distribution, lifts below this are as likely as this one.
    lift_floor: float = 0.02
    # Edges between groups of counts by their expectation, in standard deviations of the noise; each group has its own
    # distribution of lifts.
    group_edges: tuple[float, ...] = (0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
    # Number of counts that the prior is worth; the second for counts without expectations.
    prior_counts: float = 20.0
    prior_counts_alone: float = 5.0
    # Counts without expectations: number of grid points, the least as a share of the noise, the largest as a multiple
    # of the largest noisy count.
    sizes: int = 60
    least_size: float = 0.05
    largest_size: float = 1.05
    # Numbers of either sign: grid of standard deviations around the expectation, as shares of the scale.
    spreads: int = 12
    least_spread: float = 0.003
    most_spread: float = 1.0
    # Rounds of expectation maximisation.
    rounds: int = 60


@dataclass(frozen=True)
class ReadRules:
    """How noisy lengths and counts are read. By hand, unless an experiment is named."""

    # Lengths: neighbouring bins are joined until their count exceeds `stands_out` standard deviations of its noise,
    # but only after `half` of the records have been counted. A group below `visible` standard deviations ends the
    # histogram, once `nearly_all` of the records have been counted.
    stands_out: float = 3.0
    visible: float = 2.0
    half: float = 0.5
    nearly_all: float = 0.9
    # Standard deviations above which the rest of a histogram is not noise: there are more lengths after a gap.
    after_gap: float = 4.0
    # Number of lengths after the last visible one whose counts are taken as zero by the fit.
    beyond: int = 16
    # Shares of the records are at least this multiple of the noise and this number of records (over N), but never more
    # than `largest_floor`; they are at most `largest_share`.
    floor_noise: float = 0.2
    floor_records: float = 0.01
    largest_floor: float = 0.5
    largest_share: float = 0.999
    # Values of a table column above which its counts are shrunk like those of items: most of them are below the noise.
    # Simulated columns of 300 and 5,000 values: errors fall by a fifth to two thirds; of 100 and fewer: hardly.
    many_values: int = 100
    # Least mean weight of down-weighted records, since counts are divided by it.
    least_weight: float = 1e-3
    # Tolerated error of length counts, as a share of the records; without it a length that nobody has would cost more
    # than all others.
    length_tolerance: float = 0.0003
    # Relative standard deviation of the total of all sets, as computed from the lengths.
    total_doubt: float = 0.1
    # Least total of all sets, since expectations are scaled to it.
    least_total: float = 1e-3
    # Room beyond the longest record seen, in items: the longest record that the fit allows for.
    room: int = 16
    shrink: ShrinkRules = field(default_factory=ShrinkRules)


@dataclass(frozen=True)
class TimeBins:
    """How the times of events are put into bins. By hand: finer where most of the events of cards are."""

    # Minutes at which bins of elapsed times start.
    elapsed: tuple[int, ...] = (
        *(0, 5, 10, 15, 20, 25, 30, 45, 60, 75, 90, 105, 120, 150, 180, 210, 240, 270, 300, 330, 360, 390, 420),
        *(450, 480, 510, 540, 570, 600, 660, 720, 780, 840, 960),
    )
    # Deviations from the usual hour, in minutes, at which all but the first class start, and the one drawn in each.
    deviations: tuple[int, ...] = (15, 30, 60, 120)
    deviations_drawn: tuple[int, ...] = (8, 22, 44, 86, 170)
    # Numbers of active days at which all but the first bin start.
    day_counts: tuple[int, ...] = (
        *range(1, 17), 18, 20, 22, 24, 26, 28, 32, 36, 42, 50, 60, 80, 100, 130, 170, 220, 300,
    )  # fmt: skip
    # Days between active days at which all but the first bin start.
    gaps: tuple[int, ...] = (2, 3, 4, 5, 6, 7, 8, 14, 28)
    # Ranks of places that are told apart: with hours, and otherwise.
    ranks: int = 7
    rank_classes: int = 3
    # Most events of a day that are counted, and hours of a block in which items are counted.
    day_events: int = 12
    item_hours: int = 4


@dataclass(frozen=True)
class StatisticRules:
    """How statistics are bounded, and how their noisy values are read."""

    # Counts below this share of the records matter little: errors are relative to at least this many records, as in the
    # query errors of docs/evaluation.md.
    sanity: float = 0.001
    bound: BoundRules = field(default_factory=BoundRules)
    read: ReadRules = field(default_factory=ReadRules)


SHRINK_RULES = ShrinkRules()
STATISTIC_RULES = StatisticRules()
