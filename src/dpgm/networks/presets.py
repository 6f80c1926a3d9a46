"""Settings of a fit of networks, chosen from public numbers: our own preset, and the paper's (its section 6)."""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from dpgm.data.domain import Domain
from dpgm.images.features import ImageLayout
from dpgm.images.rules import ImageSettings
from dpgm.images.strategy import IMAGES
from dpgm.networks.model import Model
from dpgm.networks.rules import NETWORK_RULES, NetworkRules, NetworkSettings
from dpgm.networks.vae import VAE
from dpgm.products.rules import ProductRules
from dpgm.strategy.protocol import PublicFacts
from dpgm.strategy.settings import Config


def preset_settings(
    network: type[Model], config: Config, facts: PublicFacts, products: ProductRules
) -> NetworkSettings:
    """The settings of the requested preset."""
    preset = paper_settings if config.preset == "paper" else default_settings
    mean_length = assumed_mean_length(facts.domain) if config.mean_length is None else config.mean_length
    return replace(preset(network, config, facts), mean_length=mean_length, products=products)


def paper_settings(network: type[Model], config: Config, facts: PublicFacts) -> NetworkSettings:
    """The paper's own choices; where the paper is silent, those of `NETWORK_RULES`."""
    rate = min(1.0, NETWORK_RULES.paper_batch / max(facts.records, 1))
    clusters = config.clusters or NETWORK_RULES.paper_clusters
    return NetworkSettings(
        clusters=clusters,
        cluster_steps=NETWORK_RULES.paper_cluster_steps,
        latent=NETWORK_RULES.paper_latent,
        sampling_rate=rate,
        steps=min(max(1, round(NETWORK_RULES.paper_epochs / rate)), NETWORK_RULES.paper_most_steps),
        learning_rate=NETWORK_RULES.paper_vae_rate if network is VAE else NETWORK_RULES.paper_rbm_rate / clusters,
        optimizer="adam" if network is VAE else "sgd",
        averaged_tail=0.0,
        norm_quantile=None,
        warm_start=False,
        calibrate=False,
    )


def default_settings(network: type[Model], config: Config, facts: PublicFacts) -> NetworkSettings:
    """Our own choices; VAEs of images get one network per label unless a number of clusters is requested."""
    domain = facts.domain
    rate = min(1.0, max(NETWORK_RULES.least_rate, NETWORK_RULES.batch / max(facts.records, 1)))
    by_label = network is VAE and config.clusters is None and IMAGES.refuses(config, domain) is None
    if by_label and domain is not None:
        return NetworkSettings(
            clusters=ImageLayout.of(domain).classes,
            sampling_rate=rate,
            latent=NETWORK_RULES.image_latent,
            images=ImageSettings(),
        )
    return NetworkSettings(clusters=config.clusters or default_clusters(facts.records), sampling_rate=rate)


def default_clusters(records: int) -> int:
    """Number of networks (k): grows with N, since each network learns from its own cluster only."""
    return min(max(round(records / NETWORK_RULES.records_per_network), 1), NETWORK_RULES.most_networks)


def assumed_mean_length(domain: Domain | None) -> float | None:
    """Items and pixels per record, assumed where the user states nothing; None for tables, which have neither."""
    if domain is None:
        return NETWORK_RULES.items_per_record
    return round(float(_assumed_frequencies(domain, NETWORK_RULES).sum()), 6) or None


def start_frequencies(
    domain: Domain, mean_length: float | None, rules: NetworkRules = NETWORK_RULES
) -> NDArray[np.float64]:
    """Public frequencies of all positions: items add up to the mean length, values of a column are uniform."""
    frequencies = _assumed_frequencies(domain, rules)
    if mean_length is not None:
        frequencies *= mean_length / max(float(frequencies.sum()), 1e-12)
    for column in domain.table_columns:
        frequencies[column] = 1 / (column.stop - column.start)
    return np.minimum(frequencies, rules.most_frequent)


def _assumed_frequencies(domain: Domain, rules: NetworkRules) -> NDArray[np.float64]:
    """Prior frequency of every item and pixel; 0 in table columns."""
    assumed = np.zeros(domain.width)
    for field, start in zip(domain.fields, domain.offsets, strict=True):
        if field.image is not None:
            assumed[start : start + field.width] = rules.pixels_on
        elif field.is_set:
            assumed[start : start + field.width] = min(rules.items_per_record / field.width, rules.most_frequent)
    return assumed
