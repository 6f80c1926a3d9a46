"""From where on a difference counts: every limit of the verdict, with its reason."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Limits:
    """Up to `close` a figure is good, up to `useful` it is usable with care, beyond that it is bad."""

    close: float
    useful: float

    def level(self, value: float) -> int:
        """0, 1 or 2.

        >>> [Limits(0.05, 0.2).level(value) for value in (0.05, 0.1, 0.3)]
        [0, 1, 2]
        """
        return 0 if value <= self.close else 1 if value <= self.useful else 2


@dataclass(frozen=True)
class VerdictRules:
    """Limits of the verdict.

    Relative errors and shares are fractions (0.05 = 5 %, or 5 points for a difference of shares).
    """

    # Mean relative error of popular counts: 5 % is what a survey of a few thousand people has by chance alone.
    single_counts: Limits = Limits(0.05, 0.15)
    # Pairs are rarer than single values, so the same survey is off by about three times as much.
    pair_counts: Limits = Limits(0.15, 0.35)
    # Share of the rows that would have to change for a pair of columns to match, averaged over pairs.
    column_pairs: Limits = Limits(0.08, 0.2)
    # Share of what a model can learn beyond guessing that is lost by learning from synthetic records.
    learning_lost: Limits = Limits(0.1, 0.35)
    # Share of the records that would have to change their length.
    lengths: Limits = Limits(0.1, 0.3)
    # A difference of 5 points in the share of one value, or of missing values, changes what a reader concludes.
    share_gap: float = 0.05
    # A tenth of a standard deviation: what is called a negligible effect in statistics.
    median_shift: float = 0.1
    mean_shift: float = 0.1
    # Kolmogorov distance (or total variation of categories): a tenth of the rows is on the wrong side of some value.
    column_distance: float = 0.1
    # Standard deviation of a column relative to the real one: tails that are cut off or invented.
    deviation_ratio: tuple[float, float] = (2 / 3, 1.5)
    # Share of columns that may be off before the whole is no more than an outline.
    columns_off: float = 1 / 3
    # Difference of association (0 to 1) of one pair of columns: a tie that is lost or invented.
    association_gap: Limits = Limits(0.15, 0.4)
    # Items or values of at least 0.1 % of the records that hardly ever occur, as a share of all such items.
    lost_items: Limits = Limits(0.05, 0.3)
    # Share of what real records hold that the domain does not list, so that it is missing from every synthetic record.
    outside: Limits = Limits(0.05, 0.2)
    # More copies of unique real records than twice what chance gives, 2 % of all and five records: made from the rows.
    copies_factor: float = 2.0
    copies_share: float = 0.02
    copies_records: int = 5
    # Distinct records relative to the real data: below, the same records come again and again.
    distinct_ratio: Limits = Limits(0.2, 0.5)  # of the missing part: 1 - ratio
    # Images: how much the pixels of one label vary, relative to the real images; and mean difference of a pixel.
    image_variety: Limits = Limits(0.3, 0.6)  # of |1 - ratio|
    pixel_difference: Limits = Limits(0.03, 0.08)


RULES = VerdictRules()
