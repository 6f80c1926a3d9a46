"""What the user asks for. Nothing here ever sees a record.

Settings that cannot alter the guarantee (device, progress, memory) live in `RunContext`.
"""

from dataclasses import dataclass
from typing import Literal, get_args

from dpgm import validation

Preset = Literal["default", "paper"]


@dataclass(frozen=True)
class Config:
    """A request for a fit; None means: let the family choose from public numbers.

    Attributes:
        epsilon: the privacy budget.
        delta: the other half of the budget.
        clusters: components of a mixture of networks; other families have none.
        model: the name of a family, or `auto`.
        preset: `default`, or `paper` for the paper's own choices under corrected mechanisms.
        mean_length: public mean number of items per record; networks start from it, other families refuse it.
        rows_per_person: records that a person has at most; the guarantee is for all of them together.
    """

    epsilon: float
    delta: float | None = None
    clusters: int | None = None
    model: str = "auto"
    preset: Preset = "default"
    mean_length: float | None = None
    rows_per_person: int = 1

    def __post_init__(self) -> None:
        validation.positive(epsilon=self.epsilon, advice="A usual choice is 1.")
        if self.delta is not None:
            validation.probability(delta=self.delta, advice="A usual choice is 1 / (10 x number of records).")
        if self.clusters is not None:
            validation.whole(clusters=self.clusters, at_least=1, at_most=10_000)
        validation.one_of(get_args(Preset), preset=self.preset)
        if self.mean_length is not None:
            validation.positive(mean_length=self.mean_length)
        validation.whole(rows_per_person=self.rows_per_person, at_least=1)


def default_delta(records: int) -> float:
    """1 / (10 N): ten times smaller than what publishing one random record would satisfy."""
    return 1.0 / (10 * max(records, 1))
