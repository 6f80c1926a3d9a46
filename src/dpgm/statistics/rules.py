"""Every tuned number by which statistics are bounded and noisy values are read, with unit, reason and origin.

"Measured" means what it does in `products/rules.py`, whose numbers these are a part of.
"""

from dataclasses import dataclass, field

# A blur of one pixel leaves this share of the squared distance between strokes a few pixels wide. Measured on digits.
BLURRED_DISTANCE = 0.4


@dataclass(frozen=True)
class BoundRules:
    """How far long records are scaled down: noise against what scaling down distorts."""

    # How wrong the correction for down-weighting may be, as a share of what was cut, for sets of 1, 2, 3, 4 items.
    # Records that hold a larger set are less alike. Measured.
    distortion: tuple[float, ...] = (0.3, 0.4, 0.6, 0.6)
    # The same for scaled item counts: rare items are found together, in records that are scaled down more than most.
    scaled_distortion: float = 0.6
    # All records enumerated: the correction is exact, or nearly; the more so the smaller the sets.
    enumerated_doubt: tuple[float, ...] = (0.03, 0.03, 0.1, 0.1)
    # Draws of likely records, and of popular sets, by which a bound is judged; enough for two digits.
    likely_records: int = 4000
    popular_sets: int = 2000
    # Up to so many items, draws of likely records hold none twice; beyond, that is rare and costs time.
    distinct_items: int = 500
    # Bounds that are tried: quantiles of the sizes of likely records, from the first one on.
    candidates: int = 60
    first_quantile: float = 0.05
    # Sizes are cut at this quantile, since lengths that appear only because of noise can be extreme and would dominate
    # sums of squares; of many records only so many are beyond what is seen. Measured.
    seen: float = 0.98
    unseen_records: float = 150.0
    # Pairs are centred where records hold so many items and columns, if that promises this share of the error or less.
    # Measured: below, the two are equally good and plain counts are easier to fit.
    dense: float = 8.0
    centred_gain: float = 0.7
    # Offsets that are tried lie between the frequencies (0) and one half (1), where all records weigh alike.
    offset_candidates: tuple[float, ...] = (0.0, 0.5, 1.0)
    # All records enumerated: other offsets than the frequencies must promise this share of the error, by order.
    enumerated_gain: tuple[float, ...] = (1.0, 0.5, 0.5, 0.5)
    # The scale of an item falls with one of these powers of its count. Measured: a quarter, or all alike.
    scale_powers: tuple[float, ...] = (0.25, 0.0)
    # Grid points between which the weight of records that hold an item is interpolated.
    grid_points: int = 9
    # Sizes of records (sums of squares) are taken as at least this, since bounds divide by them. Chosen by hand.
    least_size: float = 1e-3
    # Popularity assumed before anything is known: the item of rank r has weight 1 / (r + this).
    zipf_offset: float = 3.0


@dataclass(frozen=True)
class ShrinkRules:
    """Empirical Bayes: the grids on which the distribution of the true counts is estimated. All chosen by hand."""

    # Lifts (a count over its expectation): 0, and so many between the two, evenly in logarithms.
    least_lift: float = 0.05
    most_lift: float = 60.0
    lifts: int = 24
    # Width of the normal distribution around each lift, a constant and a share of the lift: neighbours overlap.
    lift_width: float = 0.05
    lift_width_share: float = 0.16
    # In the first guess at their distribution lifts below this are as likely as this one.
    lift_floor: float = 0.02
    # Counts are grouped by their expectation, in standard deviations of the noise, each group with its own estimate.
    group_edges: tuple[float, ...] = (0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
    # The first guess counts as much as so many noisy counts; fewer where nothing is expected of them.
    prior_counts: float = 20.0
    prior_counts_alone: float = 5.0
    # Counts of which nothing is expected: grid points, from a share of the noise to a little above the largest.
    sizes: int = 60
    least_size: float = 0.05
    largest_size: float = 1.05
    # Deviations to both sides: grid of their standard deviations, as shares of the scale.
    spreads: int = 12
    least_spread: float = 0.003
    most_spread: float = 1.0
    # Rounds of expectation maximisation.
    rounds: int = 60


@dataclass(frozen=True)
class ReadRules:
    """How noisy lengths and counts are read."""

    # Lengths: neighbouring ones are joined until a group is above so many standard deviations; one below `visible`
    # ends the histogram once `nearly_all` of the records are seen. `half`: before so many are seen nothing is joined.
    stands_out: float = 3.0
    visible: float = 2.0
    half: float = 0.5
    nearly_all: float = 0.9
    # After a gap there may be more lengths: noise alone is hardly ever so large, in standard deviations.
    after_gap: float = 4.0
    # Lengths beyond the last visible one whose counts the fit takes to be zero.
    beyond: int = 16
    # Shares of the records are kept above this part of the noise and this number of records, and off 1.
    floor_noise: float = 0.2
    floor_records: float = 0.01
    largest_floor: float = 0.5
    largest_share: float = 0.999
    # Counts of a table column of more values than this are shrunk like those of items: most of them are below the
    # noise. Simulated columns of 300 and 5,000 values: errors fall by a fifth to two thirds; of 100 and less: hardly.
    many_values: int = 100
    # Mean weights of down-weighted records are taken as at least this, since counts are divided by them. By hand.
    least_weight: float = 1e-3
    # Counts of lengths may be off by this share of the records; else an empty length would cost more than all others.
    length_tolerance: float = 0.0003
    # How far the total of all sets may be off what the lengths say, as a share.
    total_doubt: float = 0.1
    # The total of all sets is taken as at least this, since expectations are scaled to it. Chosen by hand.
    least_total: float = 1e-3
    # Longest record that the fit expects: what was seen, and so much room.
    room: int = 16
    shrink: ShrinkRules = field(default_factory=ShrinkRules)


@dataclass(frozen=True)
class StatisticRules:
    """How statistics are bounded, and how their noisy values are read."""

    # Counts below this share of the records matter little: errors are measured relative to at least so many records,
    # as in the query errors of docs/evaluation.md.
    sanity: float = 0.001
    bound: BoundRules = field(default_factory=BoundRules)
    read: ReadRules = field(default_factory=ReadRules)


RULES = StatisticRules()
