"""A mixture of networks, stage by stage: the box of the paper's Algorithm 1 with its errata corrected.

Deviations: centres are frozen while records are assigned (E6); all k models are updated in every step on one Poisson
sample of the whole data, instead of one model chosen by its true size (E5); mixture weights are noisy sizes (E10).
"""

import torch
from torch import Tensor

from dpgm.clustering.centers import centers_from_records, draw_initial_centers
from dpgm.clustering.private_kmeans import COUNTS, STARTS, SUMS, cache_limit, private_kmeans
from dpgm.data.domain import Domain
from dpgm.mechanisms.gateway import Gateway
from dpgm.networks.mixture import Mixture
from dpgm.networks.optimizer import OptimizerSettings
from dpgm.networks.per_record_gradients import Model
from dpgm.networks.private_sgd import GRADIENTS, NORMS, Trainer, TrainingSettings
from dpgm.networks.rbm import RBM
from dpgm.networks.refinement import calibrate_biases, refine_mixture
from dpgm.networks.rules import settings_of, start_frequencies
from dpgm.networks.vae import VAE
from dpgm.products.measurement import Measurements, Profile, measure, measured_profile
from dpgm.products.targets import moment_targets
from dpgm.statistics.cluster_profiles import CLUSTERS, PROFILES, ClusterProfiles, ClusterSizes
from dpgm.statistics.fourier_features import FourierFeatures
from dpgm.statistics.item_counts import ITEMS
from dpgm.strategy.context import RunContext
from dpgm.strategy.protocol import FitPlan

BLOCKS = 40  # training is charged and saved in this many blocks


def fit_networks(
    gateway: Gateway, plan: FitPlan, domain: Domain, *, draws: torch.Generator, context: RunContext
) -> Mixture:
    """Profile and further statistics, cluster, cluster profiles, train, refine."""
    k = settings_of(plan).clusters
    measured = _measure(gateway, plan, domain, context) if plan.pays_for(ITEMS) else None
    profile = (
        None
        if measured is None
        else measured_profile(measured, domain, plan.records, settings_of(plan).products.read)
    )
    overall = _overall_frequencies(plan, domain, profile)
    if k > 1:
        _cluster(gateway, plan, domain, overall, draws, context)
    weights = _mixture_weights(gateway, plan)
    frequencies = _cluster_frequencies(gateway, plan, domain, overall, profile, weights)
    model = _model(plan, domain)
    start = model.warm(model.initial(k, generator=draws), frequencies)
    mixture = _train(gateway, plan, model, start, weights, draws, context)
    if measured is None or profile is None:
        return mixture
    if measured.tuples or measured.centred is not None:
        return _refine(mixture, measured, plan, draws, context)
    if settings_of(plan).calibrate:
        frequencies = torch.from_numpy(profile.frequencies)
        mixture = calibrate_biases(mixture, frequencies, settings_of(plan).rules, generator=draws)
    return mixture


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
    mixture: Mixture, measured: Measurements, plan: FitPlan, draws: torch.Generator, context: RunContext
) -> Mixture:
    """Post-processing: decoders, latent points and weights are moved to what was measured."""
    rules, device = settings_of(plan).products, context.device
    targets = moment_targets(measured, mixture.domain, plan.records, rules, generator=draws, device=device)
    return refine_mixture(
        mixture,
        plan.records,
        targets.profile,
        targets.moments,
        targets.lengths,
        targets.rule,
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
) -> None:
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


def _mixture_weights(gateway: Gateway, plan: FitPlan) -> Tensor:
    """Shares of the clusters from their noisy sizes, none near zero; never the true sizes."""
    settings = settings_of(plan)
    k = settings.clusters
    if k == 1:
        return torch.ones(1, dtype=torch.float64)
    sizes = ClusterSizes(k)
    noisy = gateway.release(sizes.name, sizes.query(), plan.noise(sizes.name)).double()
    floored = noisy.clamp(min=max(1.0, settings.rules.least_cluster * plan.records / k))
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
    noise = plan.noise(statistic.name)
    noisy = gateway.release(statistic.name, statistic.query(), noise).double() / profile.mean_weight
    sizes = (weights * plan.records).unsqueeze(1)
    # Precision weighting: the profile as prior with its own size as standard deviation, the noise as measurement.
    prior = sizes * overall
    std = noise * statistic.sensitivity / profile.mean_weight
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
