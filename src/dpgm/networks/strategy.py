"""Mixtures of VAEs or RBMs as families: what they cost, what they are refused, how they are read back."""

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from dpgm.data.domain import Domain
from dpgm.errors import PrivacyWarning
from dpgm.images.features import ImageLayout
from dpgm.images.measurement import image_spends
from dpgm.images.rules import ImageSettings
from dpgm.images.strategy import IMAGES, image_seconds
from dpgm.mechanisms.gateway import Gateway
from dpgm.mechanisms.query import Measures
from dpgm.networks.fitting import NetworkFit
from dpgm.networks.kernel_kmeans import COUNTS, KMEANS_WORDS, STARTS, SUMS
from dpgm.networks.mixture import Mixture
from dpgm.networks.model import Model
from dpgm.networks.private_sgd import SGD_WORDS
from dpgm.networks.rbm import RBM
from dpgm.networks.rules import RULES, NetworkSettings, assumed_mean_length, settings_of
from dpgm.networks.vae import VAE
from dpgm.privacy.calibration import Spend, Training
from dpgm.products.measurement import measurement_spends
from dpgm.products.rules import RULES as PRODUCT_RULES
from dpgm.products.rules import ProductRules
from dpgm.products.strategy import PRODUCTS, product_seconds
from dpgm.statistics.item_counts import ITEMS, PROFILES, SIZES, ClusterProfiles, ClusterSizes
from dpgm.statistics.record_lengths import LENGTHS
from dpgm.statistics.statistic import in_words
from dpgm.strategy.protocol import Budget, FitPlan, PublicFacts, RunContext
from dpgm.strategy.rules import CostRules, Sizes, Work, counting_seconds
from dpgm.strategy.settings import Config, FamilySettings


@dataclass(frozen=True)
class NetworkStrategy:
    """Mixtures of one kind of network."""

    network: type[Model]
    products: ProductRules = PRODUCT_RULES  # of the statistics that networks are refined to
    settings_type: type[FamilySettings] = NetworkSettings

    @property
    def name(self) -> str:
        """That of its networks."""
        return self.network.kind

    @property
    def measures(self) -> Mapping[str, Measures]:
        """Every mechanism that a fit may run, in words."""
        return in_words(
            PRODUCTS.measures, IMAGES.measures, KMEANS_WORDS, ClusterSizes.words, ClusterProfiles.words, SGD_WORDS
        )

    def refuses(self, config: Config, domain: Domain | None) -> str | None:
        """Networks can be trained on any domain."""
        return None

    def settings(self, config: Config, facts: PublicFacts) -> FamilySettings:
        """The default, or the paper's own choices (its section 6); where the paper is silent, `RULES`."""
        records = max(facts.records, 1)
        stated = assumed_mean_length(facts.domain) if config.mean_length is None else config.mean_length
        if config.preset == "paper":
            rate = min(1.0, RULES.paper_batch / records)
            clusters = config.clusters or RULES.paper_clusters
            chosen = NetworkSettings(
                clusters=clusters,
                cluster_steps=RULES.paper_cluster_steps,
                latent=RULES.paper_latent,
                sampling_rate=rate,
                steps=min(max(1, round(RULES.paper_epochs / rate)), RULES.paper_most_steps),
                learning_rate=RULES.paper_vae_rate if self.network is VAE else RULES.paper_rbm_rate / clusters,
                schedule="cosine",
                optimizer="adam" if self.network is VAE else "sgd",
                averaged_tail=0.0,
                norm_quantile=None,
                warm_start=False,
                calibrate=False,
                mean_length=stated,
                products=self.products,
            )
        else:
            clusters = config.clusters or default_clusters(facts.records)
            rate = min(1.0, max(RULES.least_rate, RULES.batch / records))
            chosen = NetworkSettings(
                clusters=clusters, sampling_rate=rate, mean_length=stated, products=self.products
            )
            if self._by_label(config, facts.domain):
                assert facts.domain is not None
                chosen = replace(
                    chosen,
                    clusters=ImageLayout.of(facts.domain).classes,
                    latent=RULES.image_latent,
                    images=ImageSettings(large=torch.cuda.is_available()),
                )
        if chosen.clusters > max(1, facts.records / 10):
            warnings.warn(
                f"{chosen.clusters} clusters for {facts.records} records leave fewer than ten records to a cluster; "
                "the noise will drown them. Use fewer clusters.",
                PrivacyWarning,
                stacklevel=3,
            )
        return chosen

    def _by_label(self, config: Config, domain: Domain | None) -> bool:
        """Whether there is one network per label of images: unless a number of clusters is asked for."""
        return self.network is VAE and config.clusters is None and IMAGES.refuses(config, domain) is None

    def refines(self, domain: Domain | None, settings: NetworkSettings) -> bool:
        """Whether trained networks are moved to measured pairs and larger sets, not to item frequencies alone.

        Decoders only, since the moments of an RBM are not known; not of images, whose pixels are too many for pairs.
        """
        images = domain is not None and any(field.kind == "image" for field in domain.fields)
        return self.network is VAE and settings.calibrate and not images

    def budget(self, facts: PublicFacts, settings: FamilySettings) -> Budget:
        """What the networks are refined to gets most of the budget; training gets what is left."""
        assert isinstance(settings, NetworkSettings)
        many, rules = settings.clusters > 1, settings.rules
        training = Training(settings.sampling_rate, settings.steps)
        if settings.images is not None:
            assert facts.domain is not None
            shares = image_spends(facts.domain, settings.images.rules.embedding)
            return Budget(tuple(replace(one, share=one.share * rules.image_statistics) for one in shares), training)
        spends: list[Spend] = []
        refined = self.refines(facts.domain, settings)
        if refined:
            spends += measurement_spends(facts, settings.products, share=rules.refined, enumerate_few=False)
        elif settings.warm_start or settings.calibrate or many:
            spends += [Spend(LENGTHS, rules.lengths), Spend(ITEMS, rules.items)]
        if many:
            counts = rules.cluster_counts_refined if refined else rules.cluster_counts
            sums = rules.cluster_sums_refined if refined else rules.cluster_sums
            spends += [
                Spend(COUNTS, counts, settings.cluster_steps),
                Spend(SUMS, sums, settings.cluster_steps),
                Spend(SIZES, rules.cluster_sizes),
            ]
        if many and settings.warm_start and not refined:  # networks to be refined are pre-trained instead
            spends += [Spend(PROFILES, rules.cluster_profiles)]
        return Budget(tuple(spends), training)

    def architecture(self, settings: FamilySettings) -> dict[str, Any]:
        """The number of the networks, and those of their sizes that are settings."""
        assert isinstance(settings, NetworkSettings)
        sizes = self.network.of(Domain.of_items(1), settings).architecture
        return {"clusters": settings.clusters} | {name: sizes[name] for name in sizes if hasattr(settings, name)}

    def work(self, plan: FitPlan, sizes: Sizes, domain: Domain | None, costs: CostRules) -> Work:
        """Measuring, clusters, learning from samples of what was measured, training and refinement."""
        family = settings_of(plan)
        seconds = _start_seconds(plan, sizes, domain, family, costs) + _training_seconds(
            self.network, sizes, family, costs
        )
        if plan.pays_for(SUMS):
            steps = family.cluster_steps * STARTS * family.clusters * costs.centre_feature
            seconds += sizes.records * family.features * (steps + sizes.items * costs.feature_item)
        batch = family.sampling_rate * sizes.records * (sizes.width + family.hidden[0])
        cached = min(costs.kmeans_cache, sizes.records * family.features * 2) if family.clusters > 1 else 0
        parameters = family.clusters * _parameters(self.network, sizes, family)
        return Work(seconds, max(costs.parameter * parameters + costs.batch_cell * batch, float(cached)))

    def fit(
        self, gateway: Gateway, plan: FitPlan, domain: Domain, *, draws: torch.Generator, context: RunContext
    ) -> Mixture:
        """Algorithm 1 of the paper."""
        return NetworkFit(self.network, gateway, plan, domain, draws, context).run()

    def load(self, architecture: Mapping[str, Any], tensors: Mapping[str, Tensor], domain: Domain) -> Mixture:
        """A mixture from an untrusted release."""
        return Mixture.from_state(architecture, tensors, domain, (self.network,))


def _start_seconds(
    plan: FitPlan, sizes: Sizes, domain: Domain | None, family: NetworkSettings, costs: CostRules
) -> float:
    """Of what is measured before training, learning from samples of it, and meeting it again afterwards."""
    least, most = family.rules.pretraining_samples
    samples = family.rules.pretraining_passes * max(least, min(most, plan.records))
    learning = samples * costs.pretraining_cell * sizes.width * sum(family.hidden)
    if family.images is not None and domain is not None:
        return learning + image_seconds(sizes, domain, family.images, costs)
    if plan.pays_for("pair counts"):
        products = product_seconds(plan, sizes, domain, family.products, costs)
        return (
            learning + products + product_seconds(plan, sizes, domain, family.products, costs, costs.decoder_factor)
        )
    return counting_seconds(sizes, costs) if plan.pays_for(ITEMS) else 0.0


def _training_seconds(network: type[Model], sizes: Sizes, family: NetworkSettings, costs: CostRules) -> float:
    vae = network is VAE
    record, cell = (costs.vae_record, costs.vae_cell) if vae else (costs.rbm_record, costs.rbm_cell)
    parameter = (costs.vae_parameter if vae else costs.rbm_parameter) * _parameters(network, sizes, family)
    step = costs.train_step + family.clusters * (costs.train_model + parameter)
    return family.steps * (
        step + family.sampling_rate * sizes.records * (record + cell * sizes.width * family.hidden[0])
    )


def _parameters(network: type[Model], sizes: Sizes, family: NetworkSettings) -> int:
    """Of one network; the layers beside the widest are small."""
    return sizes.width * family.hidden[0] * (2 if network is VAE else 1)


def default_clusters(records: int) -> int:
    """Networks of a mixture (k): grows with N, since each model only learns from its own cluster."""
    return min(max(round(records / RULES.records_per_network), 1), RULES.most_networks)


VAES = NetworkStrategy(VAE)
RBMS = NetworkStrategy(RBM)
