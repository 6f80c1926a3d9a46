"""What a plan of networks says before data is opened: budget shares, and estimates of time and memory.

Everything here follows from public numbers: the domain, the number of records, and the settings.
"""

from dataclasses import replace

from dpgm.data.domain import Domain
from dpgm.images.measurement import image_spends
from dpgm.images.strategy import image_seconds
from dpgm.networks.kernel_kmeans import COUNTS, STARTS, SUMS
from dpgm.networks.model import Model
from dpgm.networks.rules import NetworkSettings, settings_of
from dpgm.networks.vae import VAE
from dpgm.privacy.calibration import Spend, Training
from dpgm.products.planning import measurement_spends, product_seconds
from dpgm.statistics.cluster_counts import CLUSTER_PROFILES, CLUSTER_SIZES
from dpgm.statistics.item_counts import ITEMS
from dpgm.statistics.record_lengths import LENGTHS
from dpgm.strategy.protocol import Budget, FitPlan, PublicFacts
from dpgm.strategy.rules import CostRules, Sizes, Work, counting_seconds


def network_budget(network: type[Model], facts: PublicFacts, settings: NetworkSettings) -> Budget:
    """Shares of the releases on all records; private SGD gets what is left."""
    several, rules = settings.clusters > 1, settings.rules
    training = Training(settings.sampling_rate, settings.steps)
    if settings.images is not None:
        assert facts.domain is not None
        whole = image_spends(facts.domain, settings.images.rules.embedding)
        scaled = (replace(spend, share=spend.share * rules.image_statistics) for spend in whole)
        return Budget(tuple(scaled), training)
    refined = refines(network, facts.domain, settings)
    spends: list[Spend] = []
    if refined:
        spends += measurement_spends(facts, settings.products, share=rules.refined, enumerate_few=False)
    elif settings.warm_start or settings.calibrate or several:
        spends += [Spend(LENGTHS, rules.lengths), Spend(ITEMS, rules.items)]
    if several:
        counts = rules.cluster_counts_refined if refined else rules.cluster_counts
        sums = rules.cluster_sums_refined if refined else rules.cluster_sums
        spends += [
            Spend(COUNTS, counts, settings.cluster_steps),
            Spend(SUMS, sums, settings.cluster_steps),
            Spend(CLUSTER_SIZES, rules.cluster_sizes),
        ]
    if several and settings.warm_start and not refined:  # networks to be refined are pre-trained instead
        spends += [Spend(CLUSTER_PROFILES, rules.cluster_profiles)]
    return Budget(tuple(spends), training)


def refines(network: type[Model], domain: Domain | None, settings: NetworkSettings) -> bool:
    """Whether trained networks are fitted to measured pairs and larger sets, not to item frequencies alone.

    VAEs only, since the moments of an RBM are not known; not of images, which have too many pixels for pairs.
    """
    images = domain is not None and domain.image is not None
    return network is VAE and settings.calibrate and not images


def network_work(
    network: type[Model], plan: FitPlan, sizes: Sizes, domain: Domain | None, costs: CostRules
) -> Work:
    """Estimated time of all stages; memory of training (parameters, batch) or of k-means (features), if larger."""
    settings = settings_of(plan)
    seconds = _statistics_seconds(plan, sizes, domain, settings, costs)
    seconds += _training_seconds(network, sizes, settings, costs)
    if plan.pays_for(SUMS):
        seconds += _clustering_seconds(sizes, settings, costs)
    batch = settings.sampling_rate * sizes.records * (sizes.width + settings.hidden[0])
    cached = min(costs.kmeans_cache, sizes.records * settings.features * 2) if settings.clusters > 1 else 0
    parameters = settings.clusters * _parameters(network, sizes, settings)
    return Work(seconds, max(costs.parameter * parameters + costs.batch_cell * batch, float(cached)))


def _statistics_seconds(
    plan: FitPlan, sizes: Sizes, domain: Domain | None, settings: NetworkSettings, costs: CostRules
) -> float:
    """Measuring statistics; and where networks learn from them, pre-training on samples and refinement."""
    samples = settings.rules.pretraining_passes * settings.rules.pretraining_count(plan.records)
    pretraining = samples * costs.pretraining_cell * sizes.width * sum(settings.hidden)
    if settings.images is not None and domain is not None:
        return pretraining + image_seconds(sizes, domain, settings.images, costs)
    if plan.pays_for("pair counts"):
        products = product_seconds(plan, sizes, domain, settings.products, costs)
        refinement = product_seconds(plan, sizes, domain, settings.products, costs, costs.decoder_factor)
        return pretraining + products + refinement
    return counting_seconds(sizes, costs) if plan.pays_for(ITEMS) else 0.0


def _clustering_seconds(sizes: Sizes, settings: NetworkSettings, costs: CostRules) -> float:
    assignment = settings.cluster_steps * STARTS * settings.clusters * costs.centre_feature
    return sizes.records * settings.features * (assignment + sizes.items * costs.feature_item)


def _training_seconds(network: type[Model], sizes: Sizes, settings: NetworkSettings, costs: CostRules) -> float:
    vae = network is VAE
    record, cell = (costs.vae_record, costs.vae_cell) if vae else (costs.rbm_record, costs.rbm_cell)
    parameter = (costs.vae_parameter if vae else costs.rbm_parameter) * _parameters(network, sizes, settings)
    step = costs.train_step + settings.clusters * (costs.train_model + parameter)
    return settings.steps * (
        step + settings.sampling_rate * sizes.records * (record + cell * sizes.width * settings.hidden[0])
    )


def _parameters(network: type[Model], sizes: Sizes, settings: NetworkSettings) -> int:
    """Number of parameters of one network, ignoring its small layers."""
    return sizes.width * settings.hidden[0] * (2 if network is VAE else 1)
