"""Every tuned number of the discovery of a domain, with its reason; passed as an argument."""

from dataclasses import dataclass


@dataclass(frozen=True)
class DiscoveryRules:
    """How much of the budget discovery takes, and what becomes of what it finds.

    Attributes:
        bounds_share: for powers of two that numbers lie between. 200 counts per column, of which few matter; at
            epsilon 1 and 30,000 records what 0.5 % of the records hold is still seen.
        items_share: for items to be discovered. On msweb and retail at epsilon 1 it finds items that 0.3 % of the
            records hold; twice as much would find few more items that any statistic could tell from noise.
        values_share: for categories and exact numbers to be discovered, and `more_values` for each further field, up
            to `most_values`: one value per record and field, so that the weight of each falls with their number.
            Ten fields of 30,000 records at epsilon 1: values that 0.8 % of the records hold are found.
        histogram_share: for the histograms of the first number, and `more_histograms` for each further one, up to
            `most_histograms`. Bins are measured again with the rest of the budget; histograms only have to find
            borders and the shape within bins.
        delta_share: of delta, for all lists of values that passed a threshold: a tenth costs 1 % of epsilon.
        items_cap: values of an item set that a record adds at most. The threshold grows with its logarithm, so
            that cutting long records shorter than this loses more than it gains.
        bins: positions for what is not popular, at most (and `least_bin`). Pairs of columns are measured over all pairs
            of positions, so that many more drown in noise and many less blur dependence. What popular values leave gets
            as many, however little it is, since it is what most tells people apart. Distances of columns, pairs and
            triples at epsilon 1 (experiments/tables.py): bank marketing, where 82 % of pdays are -1, .0064 / .0250 /
            .0615 to .0056 / .0236 / .0598 (seeds 0, 1); Adult .0074 / .0264 / .0621 to .0072 / .0258 / .0610 (0 to 2).
        few_values: a number that can take no more values than this has a position for each.
        few_clear_values: the same where the mean number of records per value is at least `least_bin`. So days of the
            month have positions at 45,000 records and epsilon 1, not at 2,000: bank marketing, seed 1, 3-way .0581
            with 20 (one fit of 400 steps), .0557 with 32 (mean of two fits); of its first 2,000 rows, seed 0, .111 with
            20 and .119 with 32. Its other numbers, and all of Adult's, have more values. 30 bins instead of 20: .0566.
        atom_share: of the records, from which a value is popular enough for a position of its own, if it has besides
            `stands_out` times as many records as the values around it (ages are all popular, and 40 hours stand out).
        most_atoms: popular values of a number, besides special ones.
        tail: of the records, in the first and in the last bin: what far values weigh is measured with the bins, and
            only their places come from the histogram.
        rare: how much more likely a count is to be nothing than any given number of noise deviations, before it is
            seen. Noise alone would leave a third of a deviation in every empty group of cells, far out, too. The ends
            of the range, 0 and special values are less likely to be nothing (`rare_apart`); but where the noise is more
            than `apart_noise` of the records, they must stand out by `apart_seen` deviations: people at the very
            bound of a range catch the eye. 2,000 records at epsilon 1, nobody at the ends: 19 to 56 there before, 0
            to 6 now. (Adult has 0.5 % at its highest gain, three deviations, and they carry its mean.) So must ends
            that were found, which are powers of two: of 58,788 films 72 were of the year 1024.
        far: standard deviations that the outermost group of cells with anything in it must stand out by. With 2 the
            spread of 2,000 lengths of stay came out 3 times too wide in one fit of ten, with 2.5 1.4 times. Where the
            noise is at most `apart_noise` of the records it is `far_many`: people who are there stand out then, and
            of 16 groups one passes 2.5 by chance in ten columns (of 264 columns of other tables, 9 came out over 1.5
            times too wide, and 7 do; 17 before ends had to stand out).
        unexplained: standard deviations (per group) that the groups in sight may lack of all records. 600 shares
            between 0 and 1 at epsilon 1 all came out between 0.125 and 0.149, where noise had made one group stand out.
            Of 2,500 counts of visits, a few of them large, the mean was off by 0.08 standard deviations and is by 0.06.
            (With 1.0 by 0.04, but numbers far below a stated range then spread 1.45 times too wide instead of 1.35.)
        tails: the same for up to `together` groups beside it, one after the other: 2,000 values around a mean at
            epsilon 1 ended where 10 % to 20 % of them were still to come. (1.5 finds more, and once in 100 fits a
            tail that is none and ten times as wide.)
        least_bin: records per bin at least, in standard deviations of the noise of a count.
        missing: standard deviations above 0 that make missing values believed where the domain does not tell.
        others: standard deviations that the values found of a category must lack, for the rest to stand as `(other)`
            rather than to count as missing: a column of two values shall not get a third.
        seen: standard deviations above 0 that make a power of two believed. With 4, noise alone made one far away
            believed in one column of 150, and values of that size came out.
        far_fetched: where no power of two is believed, the range starts from the one with the most records, less so
            many standard deviations per power of two away from 1, and less `negative` for numbers below 0. Twelve ages
            at epsilon 1 were numbers of sixteen digits.
        near: the same for powers of two next to one that is believed, alone or several in a row together.
        together: how many powers of two in a row may be believed together: money spreads over several of them, none of
            which stands out (3,000 bills at epsilon 1: 16 % lay above the range before).
        rows_seen: standard deviations that neighbouring powers of two or years must stand out by together, to be
            believed beyond a gap; where no years do, all from 1900 to 2099 are kept. 20,000 such rows stand out by
            up to 4 by chance, and once in some hundred columns by 5. (4,000 births over eighty years with noise of
            40: 98 % of them in the range; 5,000 amounts, nine in ten 0: the others were all taken for 0 or 1.)
        other_sign: the same for numbers of the sizes that are believed, with the other sign: so few rows stand out by
            chance once in seventy columns. 2,000 balances around 2,500 at epsilon 1, a sixth of them negative: in nine
            fits of ten these all stood at the least positive number, now in one of six (200 fits).
        beside: standard deviations above 0 that make one more power of two, or year, at either end believed. Too
            wide a range costs a little of its resolution, and too narrow a one moves all beyond to its end (2,500
            sales at epsilon 1: 7 % stood at the highest value in one fit of six, and the current year was often lost).
        spike: standard deviations that a cell must stand out by, to be kept whatever its neighbours say: of 4,000
            empty cells one in seventy does.
        doubt: standard deviations of the mean square of noise beyond which cells of a group are told apart at all.
    """

    bounds_share: float = 0.03
    items_share: float = 0.12
    values_share: float = 0.03
    more_values: float = 0.005
    most_values: float = 0.08
    histogram_share: float = 0.03
    more_histograms: float = 0.01
    most_histograms: float = 0.10
    delta_share: float = 0.1
    items_cap: int = 64
    bins: int = 20
    few_values: int = 20
    few_clear_values: int = 32
    atom_share: float = 0.015
    stands_out: float = 2.0
    most_atoms: int = 12
    tail: float = 0.01
    rare: float = 6.0
    rare_apart: float = 3.0
    apart_seen: float = 3.0
    apart_noise: float = 0.005
    far: float = 2.5
    far_many: float = 3.5
    unexplained: float = 1.5
    tails: float = 2.0
    least_bin: float = 4.0
    missing: float = 3.0
    others: float = 3.0
    seen: float = 5.0
    far_fetched: float = 0.1
    negative: float = 1.0
    near: float = 3.0
    together: int = 4
    rows_seen: float = 5.5
    other_sign: float = 3.0
    beside: float = 1.0
    spike: float = 4.5
    doubt: float = 2.0


RULES = DiscoveryRules()
