"""What a plan of networks says before data is opened: budget shares, and the memory that a fit needs.

Everything here follows from public numbers: the domain, the number of records, and the settings.
"""

from dataclasses import replace

from dpgm.data.domain import Domain
from dpgm.images.measurement import image_spends
from dpgm.networks.kernel_kmeans import COUNTS, SUMS
from dpgm.networks.model import Model
from dpgm.networks.rules import NetworkSettings, settings_of
from dpgm.networks.vae import VAE
from dpgm.privacy.calibration import Spend, Training
from dpgm.products.planning import measurement_spends
from dpgm.statistics.cluster_counts import CLUSTER_PROFILES, CLUSTER_SIZES
from dpgm.statistics.item_counts import ITEMS
from dpgm.statistics.record_lengths import LENGTHS
from dpgm.strategy.memory_rules import MemoryRules, Sizes
from dpgm.strategy.protocol import Budget, FitPlan, PublicFacts


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


def network_memory(network: type[Model], plan: FitPlan, sizes: Sizes, rules: MemoryRules) -> float:
    """Bytes of training (parameters, batch) or of k-means (features), whichever is larger."""
    settings = settings_of(plan)
    batch = settings.sampling_rate * sizes.records * (sizes.width + settings.hidden[0])
    cached = min(rules.kmeans_cache, sizes.records * settings.features * 2) if settings.clusters > 1 else 0.0
    layers = 2 if network is VAE else 1  # the large ones
    parameters = settings.clusters * sizes.width * settings.hidden[0] * layers
    return max(rules.parameter * parameters + rules.batch_cell * batch, cached)
