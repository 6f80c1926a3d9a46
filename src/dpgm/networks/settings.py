"""The public numbers that steer private SGD on a mixture of networks."""

from dataclasses import dataclass
from typing import Literal

from dpgm import validation
from dpgm.errors import UsageError
from dpgm.networks.rules import RULES, NetworkRules
from dpgm.products.rules import RULES as PRODUCT_RULES
from dpgm.products.rules import ProductRules
from dpgm.strategy.protocol import FitPlan
from dpgm.strategy.settings import FamilySettings


@dataclass(frozen=True)
class NetworkSettings(FamilySettings):
    """Sizes of the networks, and how they are clustered and trained."""

    clusters: int = 1
    cluster_steps: int = 8
    features: int = 200
    hidden: tuple[int, ...] = (200,)
    latent: int = 8
    sampling_rate: float = RULES.least_rate
    steps: int = 2000
    learning_rate: float = RULES.learning_rate
    schedule: Literal["cosine", "constant"] = "cosine"
    optimizer: Literal["adam", "sgd"] = "adam"
    averaged_tail: float = 0.5
    norm_quantile: float | None = RULES.norm_quantile  # None: the mode of the histogram, as in the paper
    warm_start: bool = True
    calibrate: bool = True
    rules: NetworkRules = RULES
    products: ProductRules = PRODUCT_RULES  # of the statistics that networks start from and are refined to
    mean_length: float | None = None  # stated, public; biases start from it where no profile is released

    def check(self) -> None:
        """Every value is in its range; a plan file may hold anything."""
        validation.whole(clusters=self.clusters, cluster_steps=self.cluster_steps, at_least=1, at_most=10_000)
        validation.whole(features=self.features, latent=self.latent, at_least=1, at_most=100_000)
        validation.whole(steps=self.steps, at_least=1, at_most=100_000_000)
        validation.fraction(sampling_rate=self.sampling_rate)
        validation.positive(learning_rate=self.learning_rate)
        validation.non_negative(averaged_tail=self.averaged_tail)
        if not self.hidden or self.averaged_tail > 1:
            raise UsageError(
                "the plan needs a hidden layer and an `averaged_tail` of at most 1; make the plan again."
            )
        for size in self.hidden:
            validation.whole(hidden=size, at_least=1, at_most=100_000)
        if self.norm_quantile is not None:
            validation.probability(norm_quantile=self.norm_quantile)
        if self.mean_length is not None:
            validation.positive(mean_length=self.mean_length)


def settings_of(plan: FitPlan) -> NetworkSettings:
    """The settings of a plan that trains networks."""
    family = plan.settings.family
    if not isinstance(family, NetworkSettings):
        raise UsageError("the plan trains no networks; make it again with model vae or rbm.")
    return family
