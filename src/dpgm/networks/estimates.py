"""Estimated time and memory of a fit of networks, shown before it starts; `strategy/rules.py` has the unit costs."""

from dpgm.data.domain import Domain
from dpgm.images.strategy import image_seconds
from dpgm.networks.kernel_kmeans import STARTS, SUMS
from dpgm.networks.model import Model
from dpgm.networks.rules import NetworkSettings, settings_of
from dpgm.networks.vae import VAE
from dpgm.products.planning import product_seconds
from dpgm.statistics.item_counts import ITEMS
from dpgm.strategy.protocol import FitPlan
from dpgm.strategy.rules import CostRules, Sizes, Work, counting_seconds


def estimated_work(
    network: type[Model], plan: FitPlan, sizes: Sizes, domain: Domain | None, costs: CostRules
) -> Work:
    """Time of all stages; memory of the largest: parameters and batches of training, or cached features of k-means."""
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
