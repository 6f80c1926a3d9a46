"""Mixtures of VAEs or RBMs as families of generators: their settings, budget, fit, and reading of a release."""

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from dpgm.data.domain import Domain
from dpgm.errors import PrivacyWarning
from dpgm.images.strategy import IMAGES
from dpgm.mechanisms.gateway import Gateway
from dpgm.mechanisms.query import Measures
from dpgm.networks.fitting import NetworkFit
from dpgm.networks.kernel_kmeans import KMEANS_WORDS
from dpgm.networks.mixture import Mixture
from dpgm.networks.model import Model
from dpgm.networks.planning import network_budget, network_memory
from dpgm.networks.presets import preset_settings
from dpgm.networks.private_sgd import SGD_WORDS
from dpgm.networks.rbm import RBM
from dpgm.networks.rules import NetworkSettings
from dpgm.networks.vae import VAE
from dpgm.products.rules import PRODUCT_RULES as PRODUCT_RULES
from dpgm.products.rules import ProductRules
from dpgm.products.strategy import PRODUCTS
from dpgm.statistics.cluster_counts import ClusterProfiles, ClusterSizes
from dpgm.statistics.statistic import plan_descriptions
from dpgm.strategy.memory_rules import MemoryRules, Sizes
from dpgm.strategy.protocol import Budget, FitPlan, PublicFacts, RunContext
from dpgm.strategy.settings import Config, FamilySettings


@dataclass(frozen=True)
class NetworkStrategy:
    """Mixtures of one kind of network; `products` are the rules of the statistics that networks are refined to."""

    network: type[Model]
    products: ProductRules = PRODUCT_RULES
    settings_type: type[FamilySettings] = NetworkSettings
    models_order: bool = False

    @property
    def name(self) -> str:
        """The name of the network kind."""
        return self.network.kind

    @property
    def measures(self) -> Mapping[str, Measures]:
        """Every mechanism that a fit may run, in words."""
        return plan_descriptions(
            PRODUCTS.measures, IMAGES.measures, KMEANS_WORDS, ClusterSizes.words, ClusterProfiles.words, SGD_WORDS
        )

    def refuses(self, config: Config, domain: Domain | None) -> str | None:
        """Networks can be trained on any domain."""
        return None

    def settings(self, config: Config, facts: PublicFacts) -> FamilySettings:
        """Those of the requested preset."""
        chosen = preset_settings(self.network, config, facts, self.products)
        if chosen.clusters > max(1, facts.records / 10):
            warnings.warn(
                f"{chosen.clusters} clusters for {facts.records} records leave fewer than ten records to a cluster; "
                "the noise will drown them. Use fewer clusters.",
                PrivacyWarning,
                stacklevel=3,
            )
        return chosen

    def budget(self, facts: PublicFacts, settings: FamilySettings) -> Budget:
        """Statistics that networks are refined to get most of the budget; training gets what is left."""
        assert isinstance(settings, NetworkSettings)
        return network_budget(self.network, facts, settings)

    def architecture(self, settings: FamilySettings) -> dict[str, Any]:
        """The number of networks, and those of their sizes that are settings."""
        assert isinstance(settings, NetworkSettings)
        sizes = self.network.of(Domain.of_items(1), settings).architecture
        return {"clusters": settings.clusters} | {name: sizes[name] for name in sizes if hasattr(settings, name)}

    def expectations(self, plan: FitPlan, domain: Domain) -> tuple[str, ...]:
        """Nothing is known of the errors of networks beforehand."""
        return ()

    def memory(self, plan: FitPlan, sizes: Sizes, domain: Domain | None, rules: MemoryRules) -> float:
        """Of training (parameters, batch) or of k-means (features), whichever is larger."""
        return network_memory(self.network, plan, sizes, rules)

    def fit(
        self, gateway: Gateway, plan: FitPlan, domain: Domain, *, draws: torch.Generator, context: RunContext
    ) -> Mixture:
        """Algorithm 1 of the paper."""
        return NetworkFit(self.network, gateway, plan, domain, draws, context).run()

    def load(
        self,
        architecture: Mapping[str, Any],
        tensors: Mapping[str, Tensor],
        domain: Domain,
        settings: FamilySettings,
    ) -> Mixture:
        """A mixture from an untrusted release."""
        assert isinstance(settings, NetworkSettings)
        sampling = settings.products.sampling
        return Mixture.from_state(architecture, tensors, domain, (self.network,), sampling)


VAES = NetworkStrategy(VAE)
RBMS = NetworkStrategy(RBM)
