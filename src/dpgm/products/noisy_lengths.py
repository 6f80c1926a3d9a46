"""Denoises a histogram of record lengths: joins rare lengths, cuts a tail that is only noise. Post-processing."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpgm.products.rules import ReadRules
from dpgm.products.shrinkage import shrink_alone

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Lengths:
    """Groups of lengths with their noisy counts, and the smoothed law they suggest.

    `law[n]` is the share of records with n items, n = 0 .. longest; `groups[n]` numbers the group n belongs to.
    """

    law: Floats
    groups: NDArray[np.int64]
    counts: Floats
    stds: Floats

    @property
    def mean(self) -> float:
        """Mean number of items."""
        return float(self.law @ np.arange(len(self.law)))


def read_lengths(noisy: Floats, std: float, records: int, rules: ReadRules, *, few: bool = False) -> Lengths:
    """Join neighbouring lengths until each group stands out of the noise; what never does is left out.

    Where counts are far above the noise a group is one length. In the tail groups grow (at most doubling), so that
    500 noisy empty bins do not add up to a crowd of very long records.

    Args:
        noisy: records of 0, 1, ... items.
        std: standard deviation of the noise.
        records: the public number of records.
        rules: tuned numbers.
        few: there are few lengths, and after a gap there may be others that many records have.
    """
    groups = np.zeros(len(noisy), dtype=np.int64)
    counts: list[float] = []
    widths: list[int] = []
    at = 0
    while at < len(noisy):
        width = 1
        limit = max(2, at // 2) if sum(counts) > rules.half * records else 1
        while (
            noisy[at : at + width].sum() < rules.stands_out * std * np.sqrt(width)
            and width < limit
            and at + width < len(noisy)
        ):
            width += 1
        total = float(noisy[at : at + width].sum())
        rest = noisy[at:]
        gap = few and rest.sum() >= rules.after_gap * std * np.sqrt(
            len(rest)
        )  # noise alone is hardly ever so large
        if total < rules.visible * std * np.sqrt(width) and sum(counts) > rules.nearly_all * records and not gap:
            break  # nothing visible here, and nearly everybody has been seen
        groups[at : at + width] = len(counts)
        counts.append(total)
        widths.append(width)
        at += width
    if at < len(noisy):  # one last group, so that the model is told that there is nothing beyond
        width = min(len(noisy) - at, max(rules.beyond, at))
        groups[at : at + width] = len(counts)
        counts.append(0.0)
        widths.append(width)
        at += width
    kept = np.array(counts)
    single = np.array(widths) == 1
    # A length that nobody has shows noise half of the time, and together such lengths would be a crowd as well.
    kept[single] = shrink_alone(kept[single], std, rules.shrink)[0]
    kept = np.maximum(kept, 0.0)
    if kept.sum() <= 0:
        kept = np.ones(len(kept))
    density = kept / np.array(widths)
    law = density[groups[:at]]
    kept *= records / kept.sum()
    return Lengths(law / law.sum(), groups[:at], kept, std * np.sqrt(np.array(widths, dtype=np.float64)))


def thinned(law: Floats, share: float, always: int = 0) -> Floats:
    """Law of the number of items in a subset that holds `share` of all occurrences, plus `always` fixed ones."""
    share = min(max(share, 0.0), 1.0)
    within = np.zeros(len(law) + always)
    binomial = np.zeros(len(law))
    binomial[0] = 1.0
    for n in range(len(law)):
        if n > 0:
            binomial[1:] = binomial[1:] * (1 - share) + binomial[:-1] * share
            binomial[0] *= 1 - share
        within[always:] += law[n] * binomial
    return within
