"""A mixture of networks, stage by stage: the box of the paper's Algorithm 1 with its errata corrected.

Deviations: centres are frozen while records are assigned (E6); all k models are updated in every step on one Poisson
sample of the whole data, instead of one model chosen by its true size (E5); mixture weights are noisy sizes (E10).
"""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dpgm.clustering.centers import centers_from_records, draw_initial_centers
from dpgm.clustering.private_kmeans import COUNTS, STARTS, SUMS, Clustering, cache_limit, private_kmeans
from dpgm.data.domain import Domain
from dpgm.data.records import Records
from dpgm.images.fitting import fit_image_generator
from dpgm.images.layout import ImageLayout
from dpgm.images.measurement import measure_images
from dpgm.mechanisms.gateway import Gateway
from dpgm.networks.mixture import Mixture
from dpgm.networks.optimizer import OptimizerSettings
from dpgm.networks.per_record_gradients import Model
from dpgm.networks.private_sgd import GRADIENTS, NORMS, Trainer, TrainingSettings
from dpgm.networks.rbm import RBM
from dpgm.networks.refinement import calibrate_biases, pretrain, refine_mixture
from dpgm.networks.rules import settings_of, start_frequencies
from dpgm.networks.vae import VAE
from dpgm.products.fitting import Targets, fit_moments
from dpgm.products.measurement import Measurements, Profile, measure, measured_profile, moment_targets
from dpgm.statistics.fourier_features import FourierFeatures
from dpgm.statistics.item_counts import CLUSTERS, ITEMS, PROFILES, ClusterProfiles, ClusterSizes
from dpgm.statistics.statistic import ask
from dpgm.strategy.protocol import FitPlan, RunContext

BLOCKS = 40  # training is charged and saved in this many blocks


def fit_networks(
    gateway: Gateway, plan: FitPlan, domain: Domain, *, draws: torch.Generator, context: RunContext
) -> Mixture:
    """Profile and further statistics, cluster, start from what was measured, train, refine."""
    if settings_of(plan).images is not None:
        return _fit_images(gateway, plan, domain, draws, context)
    k = settings_of(plan).clusters
    measured = _measure(gateway, plan, domain, context) if plan.pays_for(ITEMS) else None
    profile = None if measured is None else measured_profile(measured)
    overall = _overall_frequencies(plan, domain, profile)
    clustering = _cluster(gateway, plan, domain, overall, draws, context) if k > 1 else None
    weights = _mixture_weights(gateway, plan)
    frequencies = _cluster_frequencies(gateway, plan, domain, overall, profile, weights)
    model = _model(plan, domain)
    start = model.warm(model.initial(k, generator=draws), frequencies)
    if measured is None or profile is None:
        return _train(gateway, plan, model, start, weights, draws, context)
    if measured.tuples or measured.centred is not None:
        rules, device = settings_of(plan).products, context.device
        targets = moment_targets(measured, rules, generator=draws, device=device)
        start = _pretrain_on_products(plan, model, start, targets, clustering, draws, context)
        mixture = _train(gateway, plan, model, start, weights, draws, context)
        return _refine(mixture, targets, plan, draws, context)
    mixture = _train(gateway, plan, model, start, weights, draws, context)
    if settings_of(plan).calibrate:
        frequencies = torch.from_numpy(profile.frequencies)
        mixture = calibrate_biases(mixture, frequencies, settings_of(plan).rules, generator=draws)
    return mixture


def _fit_images(
    gateway: Gateway, plan: FitPlan, domain: Domain, draws: torch.Generator, context: RunContext
) -> Mixture:
    """The same for images: statistics of images, and one cluster per value of the label, which costs no budget."""
    settings, layout = settings_of(plan), ImageLayout.of(domain)
    assert settings.images is not None
    context.progress("measure", 0, 1)
    embedded = measure_images(gateway, domain, plan.noises, settings.images, device=context.device)
    context.progress("measure", 1, 1)
    gateway.keep(CLUSTERS, lambda records: _by_label(layout, records))
    generator = fit_image_generator(
        embedded,
        domain,
        settings.images.rules.fit,
        generator=draws,
        device=context.device,
        progress=context.percent("refine"),
    )
    model = _model(plan, domain)
    samples = generator.to(context.device).sample(_free_samples(plan), generator=draws)
    start = model.initial(settings.clusters, generator=draws)
    start = _pretrain(plan, model, start, samples, _by_label(layout, samples), draws, context)
    return _train(gateway, plan, model, start, _floored(embedded.sizes.double(), plan), draws, context)


def _by_label(layout: ImageLayout, records: Records) -> NDArray[np.int64]:
    """The cluster of every image: its label; one without a label goes to the first."""
    return np.maximum(layout.classes_of(records), 0)


def _pretrain_on_products(
    plan: FitPlan,
    model: Model,
    start: Tensor,
    targets: Targets,
    clustering: Clustering | None,
    draws: torch.Generator,
    context: RunContext,
) -> Tensor:
    """Post-processing: networks learn from samples of the mixture of products that shows the measured statistics."""
    products = fit_moments(
        model.domain,
        plan.records,
        targets,
        generator=draws,
        device=context.device,
        progress=context.percent("products"),
    )
    samples = products.sample(_free_samples(plan), generator=draws)
    clusters = np.zeros(len(samples), dtype=np.int64) if clustering is None else clustering.predict(samples)
    return _pretrain(plan, model, start, samples, clusters, draws, context)


def _free_samples(plan: FitPlan) -> int:
    """How many samples networks learn from before they see noisy gradients."""
    least, most = settings_of(plan).rules.pretraining_samples
    return max(least, min(most, plan.records))


def _pretrain(
    plan: FitPlan,
    model: Model,
    start: Tensor,
    samples: Records,
    clusters: NDArray[np.int64],
    draws: torch.Generator,
    context: RunContext,
) -> Tensor:
    assert isinstance(model, VAE)
    rules, percent = settings_of(plan).rules, context.percent("pre-train")
    return pretrain(
        model, start, samples, clusters, rules, generator=draws, device=context.device, progress=percent
    )


def _measure(gateway: Gateway, plan: FitPlan, domain: Domain, context: RunContext) -> Measurements:
    """Every statistic of whole records that the plan pays for, first of all: clustering needs the profile."""
    context.progress("profile", 0, 1)
    measured = measure(
        gateway, domain, plan.records, plan.noises, settings_of(plan).products, device=context.device
    )
    context.progress("profile", 1, 1)
    return measured


def _overall_frequencies(plan: FitPlan, domain: Domain, profile: Profile | None) -> Tensor:
    """Item frequencies of all records, (m,): the noisy profile where the plan pays for one, else a public guess."""
    if profile is not None:
        return torch.from_numpy(profile.frequencies).double()
    return torch.from_numpy(start_frequencies(domain, settings_of(plan).mean_length, settings_of(plan).rules))


def _refine(
    mixture: Mixture, targets: Targets, plan: FitPlan, draws: torch.Generator, context: RunContext
) -> Mixture:
    """Post-processing: decoders, latent points and weights are moved to what was measured."""
    return refine_mixture(
        mixture,
        plan.records,
        targets,
        settings_of(plan).rules,
        generator=draws,
        progress=context.percent("refine"),
    )


def _cluster(
    gateway: Gateway,
    plan: FitPlan,
    domain: Domain,
    frequencies: Tensor,
    draws: torch.Generator,
    context: RunContext,
) -> Clustering:
    """Private kernel k-means; the cluster of every record stays behind the gateway as a private column."""
    settings = settings_of(plan)
    context.progress("cluster", 0, 1)
    features = FourierFeatures.for_domain(domain, settings.features, generator=draws, profile=frequencies)
    paper = plan.settings.preset == "paper"
    count = settings.clusters * (1 if paper else STARTS)
    if context.public is not None:
        centers = centers_from_records(context.public, count, features, generator=draws)
    else:
        centers = draw_initial_centers(frequencies, count, features, domain=domain, generator=draws)
    clustering = private_kmeans(
        gateway,
        centers,
        features,
        context.runs_left({name: plan.mechanism(name).count for name in (COUNTS, SUMS)}),
        plan.noise(COUNTS),
        plan.noise(SUMS),
        generator=draws,
        clusters=settings.clusters,
        merge_after=plan.mechanism(COUNTS).count // 2,  # of the plan: the same after a crash
        shrink=not paper,
        memory_limit=cache_limit(context.memory),
        device=context.device,
    )
    gateway.keep(CLUSTERS, lambda records: clustering.predict(records, context.device))
    context.progress("cluster", 1, 1)
    return clustering


def _mixture_weights(gateway: Gateway, plan: FitPlan) -> Tensor:
    """Shares of the clusters from their noisy sizes; never the true sizes."""
    k = settings_of(plan).clusters
    if k == 1:
        return torch.ones(1, dtype=torch.float64)
    sizes = ClusterSizes(k)
    noisy = gateway.release(sizes.name, sizes.query(), plan.noise(sizes.name)).double()
    return _floored(noisy, plan)


def _floored(noisy: Tensor, plan: FitPlan) -> Tensor:
    """Shares of clusters by their noisy sizes, none near zero."""
    least = settings_of(plan).rules.least_cluster * plan.records / len(noisy)
    floored = noisy.clamp(min=max(1.0, least))
    return floored / floored.sum()


def _cluster_frequencies(
    gateway: Gateway, plan: FitPlan, domain: Domain, overall: Tensor, profile: Profile | None, weights: Tensor
) -> Tensor:
    """Item frequencies of each cluster, (k, m), noisy counts shrunk toward the whole profile where noise rules."""
    settings = settings_of(plan)
    k = settings.clusters
    if profile is None or not plan.pays_for(PROFILES):
        return overall.expand(k, -1)
    statistic = ClusterProfiles(domain, k, profile.cap)
    released = ask(gateway, statistic, plan.noise(statistic.name))
    noisy = released.value.double() / profile.mean_weight
    sizes = (weights * plan.records).unsqueeze(1)
    # Precision weighting: the profile as prior with its own size as standard deviation, the noise as measurement.
    prior = sizes * overall
    std = released.std / profile.mean_weight
    trust = prior**2 / (prior**2 + std**2)
    counts = (trust * noisy + (1 - trust) * prior).clamp(min=0)
    return (counts / sizes).clamp(1e-6, 1 - settings.rules.frequency_off_one)


def _model(plan: FitPlan, domain: Domain) -> Model:
    settings = settings_of(plan)
    if plan.settings.model == RBM.kind:
        return RBM(domain, hidden=settings.hidden[0])
    return VAE(domain, settings.hidden, settings.latent)


def _train(
    gateway: Gateway,
    plan: FitPlan,
    model: Model,
    start: Tensor,
    weights: Tensor,
    draws: torch.Generator,
    context: RunContext,
) -> Mixture:
    """Private SGD in blocks; a block is charged before it runs and saved after it."""
    settings = settings_of(plan)
    trainer = Trainer(
        gateway,
        model,
        TrainingSettings(
            steps=settings.steps,
            sampling_rate=settings.sampling_rate,
            norm_noise=plan.noise(NORMS),
            gradient_noise=plan.noise(GRADIENTS),
            records=plan.records,
            norm_quantile="mode" if settings.norm_quantile is None else settings.norm_quantile,
            optimizer=OptimizerSettings(
                settings.optimizer, settings.learning_rate, settings.schedule, settings.averaged_tail
            ),
        ),
        clusters=settings.clusters,
        cluster_weights=weights,
        initial_parameters=start,
        generator=draws,
        device=context.device,
    )
    saved = context.checkpoint
    if saved is None:
        trainer.run(progress=lambda done, total: context.progress("train", done, total))
        return trainer.mixture()
    state = saved.trainer_state()
    if state is not None:
        trainer.load_state(state)
    trainer.done = saved.steps_charged  # steps lost in a crash are spent: they come out of the planned ones
    block = max(1, settings.steps // BLOCKS)
    while trainer.done < settings.steps:
        ahead = min(block, settings.steps - trainer.done)
        saved.charge("step", ahead)
        trainer.run(ahead)
        saved.save_steps(trainer.done, trainer.state())
        context.progress("train", trainer.done, settings.steps)
    return trainer.mixture()
