"""Every tuned number of domain discovery, with its reason; part of the settings of a plan whose domain is open."""

from dataclasses import astuple, dataclass

from dpgm.errors import UsageError


@dataclass(frozen=True)
class DiscoveryRules:
    """Budget shares of discovery, and how its noisy counts are read.

    A `threshold` is a number of standard deviations of the noise; a count (or a sum of counts) above it is significant.

    Attributes:
        bounds_share: budget share of the powers of two that numbers lie between. 200 counts per column, of which few
            matter; at epsilon 1 and 30,000 records, values of 0.5 % of the records are still detected.
        items_share: budget share of discovering items. On msweb and retail at epsilon 1 it finds items that 0.3 % of
            the records contain; twice the share would find few more items that any statistic could tell from noise.
        values_share: budget share of discovering categories and exact numbers, plus `values_share_extra` for each
            further field, up to `values_share_limit`: a record adds one value per field, so that the weight of each
            falls with their number. Ten fields of 30,000 records at epsilon 1: values of 0.8 % of the records are
            found.
        histogram_share: budget share of the histogram of the first number, plus `histogram_share_extra` for each
            further one, up to `histogram_share_limit`. Bins are measured again with the rest of the budget; histograms
            only have to find bin edges and the shape within bins.
        delta_share: share of delta for all lists of values that passed a threshold: a tenth costs 1 % of epsilon.
        items_cap: most values of an item set that a record contributes. The threshold grows with its logarithm, so that
            truncating records further loses more than it gains.
        max_bins: most bins for values that are not popular (see `least_bin`). Trees join bins to groups as the noise
            asks; bins bound how sharp a rule can be, since a number is drawn within its bin without regard to other
            columns. Values that are not popular get this many bins however few they are, because they tell people
            apart best. The made tables at epsilon 1, seed 100, with 20, 40 and 60 bins: rows that an age rule forbids
            2.9, 1.6 and 0.8 %; worst median bill by ward off by 24, 6 and 10 %, worst mean stay by 19, 18 and 29 %.
        few_values: a number with at most this many possible values has a position for each.
        few_clear_values: the same if the mean number of records per value is at least `least_bin`. So days of the month
            have positions at 45,000 records and epsilon 1, not at 2,000: bank marketing, seed 1, 3-way .0581 with 20
            (one fit of 400 steps), .0557 with 32 (mean of two fits); its first 2,000 rows, seed 0, .111 with 20 and
            .119 with 32. Its other numbers, and all of Adult's, have more values. 30 bins instead of 20: .0566.
        atom_share: share of the records from which a value may have a position of its own (an atom), if it also has
            `atom_contrast` times as many records as neighbouring values (all ages are popular, but 40 hours stand out).
        most_atoms: most popular values of a number, not counting special ones.
        tail_share: share of the records in the first and in the last bin. The weight of extreme values is measured with
            the bins; the histogram only places them.
        empty_odds: prior odds that a count is 0 rather than within any given noise deviation. Noise alone would leave a
            third of a deviation in every empty group of cells, even far out. For cells counted separately (the ends of
            the range, 0, special values) the odds are `empty_odds_separate`; but where the noise exceeds `noisy_share`
            of the records, these cells must pass `separate_threshold`: people at the very end of a range catch the eye.
            2,000 records at epsilon 1, nobody at the ends: 19 to 56 there before, 0 to 6 now. (Adult has 0.5 % at its
            highest gain, three deviations, and they carry its mean.) The same threshold holds for ends that were
            discovered, which are powers of two: without it, 72 of 58,788 films were of the year 1024.
        outer_threshold: for the outermost non-empty group of cells. With 2 the spread of 2,000 lengths of stay came out
            3 times too wide in one fit of ten, with 2.5 1.4 times. Where the noise is at most `noisy_share` of the
            records it is `outer_threshold_clear`: people who are there stand out then, and in one of ten columns one of
            16 groups passes 2.5 by chance (of 264 columns of other tables, 9 came out over 1.5 times too wide, and 7 do
            now; 17 before ends had to pass a threshold).
        unexplained_threshold: deviations (per group) by which the visible groups may fall short of all records. Without
            it, 600 shares between 0 and 1 at epsilon 1 all came out between 0.125 and 0.149, where noise had made one
            group stand out. The mean of 2,500 counts of visits, a few of them large, was off by 0.08 standard
            deviations and now is by 0.06. (With 1.0 by 0.04, but numbers far below a stated range then spread 1.45
            times too wide instead of 1.35.)
        tail_threshold: for runs of up to `max_run` groups next to the outermost one. Without it, 2,000 values around a
            mean at epsilon 1 were cut off where 10 % to 20 % of them were still to come. (1.5 finds more, and once in
            100 fits a tail that does not exist and is ten times as wide.)
        value_tail_threshold: for runs of single values, of any length, at the end of a discovered range of few values:
            values beyond become the outermost one. At epsilon 1, the hours of the day went up to 31 in 1 % to 3 % of
            2,000 records; now they end at 23, or once in some fits at 24.
        value_shortfall: deviations by which these values may fall short of all records; beyond, all values of the range
            are kept. Without it the mean of 2,500 counts of visits, a few of them large, was off by 0.10 standard
            deviations instead of 0.09.
        least_bin: fewest records per bin, in standard deviations of the noise of a count.
        missing_threshold: for the count of missing values, if the domain does not say whether there are any.
        other_threshold: deviations by which the discovered values of a category must fall short of all records for the
            rest to become `(other)`. Below, unpublished values count as the commonest one, so that a column of two
            values does not get a third; an `(other)` that does not exist costs less than one that is lost, because its
            share is measured again. With 3, up to 50 % of 200 records at epsilon 1 came out as missing.
        few_categories: where two to this many values of a category were found, what is short of all records, up to the
            share `most_gaps` of them, is taken for missing cells and not for rare values: of 1,500 patients, a column
            of yes, no and 15 % missing got a third value in one fit of eight. (68 % of the products of a shop, two of
            them popular, are rare ones.)
        range_threshold: for a single power of two. With 4, noise alone made a distant one significant in one column of
            150, and values of that size came out.
        size_penalty: if no power of two is significant, the range starts from the one with the largest count, in
            deviations, minus this penalty per power of two away from 1, and minus `negative_penalty` for numbers below
            0. Without it, twelve ages at epsilon 1 were numbers of sixteen digits.
        adjacent_threshold: for runs of up to `max_run` powers of two next to a significant one.
        max_run: longest such run: amounts of money spread over several powers of two, none of which stands out (3,000
            bills at epsilon 1: 16 % lay above the range before).
        run_threshold: for a run of neighbouring powers of two or years beyond a gap; if no years pass, all from 1900 to
            2099 are used. By chance, 20,000 such runs reach up to 4, and 5 in one of some hundred columns. (4,000
            births over eighty years with noise of 40: 98 % of them in the range; 5,000 amounts, nine in ten 0: before,
            the others were all taken for 0 or 1.)
        shortfall_threshold: deviations by which the years found may fall short of all records, before they are widened
            by runs of any length next to them that pass `long_tail_threshold`, or by distant runs that pass
            `distant_threshold`; `outside_threshold` is what the sum of all other years must pass, too, because records
            without a date also fall short. Without it, the range shrank to a peak: of 2,000 dates over 55 years at
            epsilon 1, a fifth on one day, 76 % became the first of four years found. Ten kinds of dates, with and
            without missing ones, 600 to 20,000 records: 14 % of the dates lay beyond the range, now 6 %, and the ranges
            are 4 % wider.
        other_sign_threshold: for runs of the significant sizes with the other sign: with so few runs, one passes by
            chance in one of seventy columns. 2,000 balances around 2,500 at epsilon 1, a sixth of them negative: in
            nine fits of ten these all became the least positive number, now in one of six (200 fits).
        one_more_threshold: for one more power of two, or year, at either end. Too wide a range costs a little
            resolution; too narrow a one moves all values beyond to its end (2,500 sales at epsilon 1: 7 % became the
            highest value in one fit of six, and the current year was often lost).
        spike_threshold: for a cell that is kept regardless of its neighbours: one in seventy of 4,000 empty cells
            passes.
        signal_threshold: standard deviations of the mean square of noise beyond which cells of a group are
            distinguished at all.
    """

    bounds_share: float = 0.03
    items_share: float = 0.12
    values_share: float = 0.03
    values_share_extra: float = 0.005
    values_share_limit: float = 0.08
    histogram_share: float = 0.03
    histogram_share_extra: float = 0.01
    histogram_share_limit: float = 0.10
    delta_share: float = 0.1
    items_cap: int = 64
    max_bins: int = 40
    few_values: int = 20
    few_clear_values: int = 32
    atom_share: float = 0.015
    atom_contrast: float = 2.0
    most_atoms: int = 12
    tail_share: float = 0.01
    empty_odds: float = 6.0
    empty_odds_separate: float = 3.0
    separate_threshold: float = 3.0
    noisy_share: float = 0.005
    outer_threshold: float = 2.5
    outer_threshold_clear: float = 3.5
    unexplained_threshold: float = 1.5
    tail_threshold: float = 2.0
    value_tail_threshold: float = 1.5
    value_shortfall: float = 1.25
    least_bin: float = 4.0
    missing_threshold: float = 3.0
    other_threshold: float = 1.5
    few_categories: int = 3
    most_gaps: float = 0.4
    range_threshold: float = 5.0
    size_penalty: float = 0.1
    negative_penalty: float = 1.0
    adjacent_threshold: float = 3.0
    max_run: int = 4
    run_threshold: float = 5.5
    shortfall_threshold: float = 2.0
    outside_threshold: float = 1.0
    long_tail_threshold: float = 3.5
    distant_threshold: float = 4.5
    other_sign_threshold: float = 3.0
    one_more_threshold: float = 1.0
    spike_threshold: float = 4.5
    signal_threshold: float = 2.0

    def check(self) -> None:
        """Raise UsageError for a negative rule; a plan file may hold anything."""
        if min(astuple(self)) < 0:
            raise UsageError("the plan has a negative rule of discovery; make the plan again.")
