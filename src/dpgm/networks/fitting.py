"""Fit a mixture of networks, stage by stage: the paper's Algorithm 1 with its errata corrected.

    statistics <- noisy counts of whole records, where the plan pays for them             (`products/strategy.py`)
    centres    <- private kernel k-means on Fourier features of the records               (Algorithm 2)
    weights    <- noisy sizes of the clusters
    start      <- k networks at the item frequencies of their clusters; VAEs are pre-trained on samples of a
                  generator that is fitted to the statistics                              (post-processing)
    networks   <- private SGD, each network on the records of its own cluster             (Algorithm 4)
    mixture    <- decoders, latent points and weights fitted to the statistics            (post-processing)

The paper's preset has no refinement and, with one network, nothing but private SGD. Deviations: centres are frozen
while records are assigned (E6); all k networks are updated in every step on one Poisson sample of the whole data,
instead of one network chosen by its true size (E5); mixture weights are noisy sizes (E10).
"""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dpgm.data.domain import Domain
from dpgm.data.records import Records
from dpgm.images.features import ImageLayout
from dpgm.images.fitting import ImageFitSettings, fit_images
from dpgm.images.measurement import measure_images
from dpgm.mechanisms.gateway import Gateway
from dpgm.networks.kernel_kmeans import (
    COUNTS,
    SUMS,
    Clustering,
    cache_limit,
    initial_centers,
    private_kmeans,
)
from dpgm.networks.mixture import Mixture
from dpgm.networks.model import Model
from dpgm.networks.optimizer import OptimizerSettings
from dpgm.networks.presets import start_frequencies
from dpgm.networks.private_sgd import GRADIENTS, NORMS, Trainer, TrainingSettings
from dpgm.networks.refinement import calibrate_biases, pretrain, refine_mixture
from dpgm.networks.rules import NetworkSettings, settings_of
from dpgm.networks.vae import VAE
from dpgm.products.fitting import Targets, fit_moments
from dpgm.products.strategy import measure
from dpgm.products.targets import Measurements, moment_targets
from dpgm.statistics.cluster_counts import CLUSTER_PROFILES, CLUSTERS, ClusterProfiles, ClusterSizes
from dpgm.statistics.fourier_features import FourierFeatures
from dpgm.statistics.item_counts import ITEMS, mean_weight
from dpgm.statistics.statistic import release
from dpgm.strategy.protocol import FitPlan, RunContext

BLOCKS = 40  # with a checkpoint, training is charged and saved in this many blocks


@dataclass(frozen=True, eq=False)
class NetworkFit:
    """Algorithm 1: one fit of a plan, with what all of its stages need."""

    network: type[Model]
    gateway: Gateway
    plan: FitPlan
    domain: Domain
    draws: torch.Generator
    context: RunContext

    @cached_property
    def settings(self) -> NetworkSettings:
        """The settings of the plan."""
        return settings_of(self.plan)

    @cached_property
    def model(self) -> Model:
        """The network, with the sizes of the plan."""
        return self.network.of(self.domain, self.settings)

    def run(self) -> Mixture:
        """All stages."""
        mixture = self._fit_records() if self.settings.images is None else self._fit_images()
        return replace(mixture, sampling=self.settings.products.sampling)

    def _fit_records(self) -> Mixture:
        """Item sets and tables: the stages as listed at the top of this module."""
        settings = self.settings
        measured = self._measure() if self.plan.pays_for(ITEMS) else None
        if measured is None:
            profile = torch.from_numpy(start_frequencies(self.domain, settings.mean_length, settings.rules))
        else:
            profile = torch.from_numpy(measured.profile).double()
        clustering = self._cluster(profile) if settings.clusters > 1 else None
        weights = self._mixture_weights()
        frequencies = self._cluster_frequencies(profile, measured, weights)
        start = self.model.warm(self._initial(), frequencies)
        targets = self._targets(measured)
        if targets is not None:
            start = self._pretrain_on_products(start, targets, clustering)
        mixture = self._train(start, weights)
        if targets is not None:
            progress = self.context.percent("refine")
            return refine_mixture(
                mixture, self.plan.records, targets, settings.rules, generator=self.draws, progress=progress
            )
        if measured is not None and settings.calibrate:
            return calibrate_biases(mixture, profile, settings.rules, generator=self.draws)
        return mixture

    def _fit_images(self) -> Mixture:
        """Images: their own statistics, and one cluster per label value, which costs no budget."""
        settings, context, layout = self.settings, self.context, ImageLayout.of(self.domain)
        assert settings.images is not None
        context.progress("measure", 0, 1)
        embedded = measure_images(
            self.gateway, self.domain, self.plan.noises, settings.images, device=context.device
        )
        context.progress("measure", 1, 1)
        self.gateway.keep(CLUSTERS, lambda records: _clusters_by_label(layout, records))
        generator = fit_images(
            embedded,
            self.domain,
            ImageFitSettings.of(self.domain, context.device, settings.images.rules.fit),
            generator=self.draws,
            device=context.device,
            progress=context.percent("refine"),
        )
        count = settings.rules.pretraining_count(self.plan.records)
        samples = generator.to(context.device).sample(count, generator=self.draws)
        start = self._pretrain(self._initial(), samples, _clusters_by_label(layout, samples))
        return self._train(start, self._shares(embedded.sizes.double()))

    def _initial(self) -> Tensor:
        """Random parameters of all networks."""
        return self.model.initial(self.settings.clusters, self.settings.rules, generator=self.draws)

    def _measure(self) -> Measurements:
        """Every statistic of whole records; this comes first, since clustering needs the item frequencies."""
        plan, context = self.plan, self.context
        context.progress("profile", 0, 1)
        measured = measure(
            self.gateway, self.domain, plan.records, plan.noises, self.settings.products, device=context.device
        )
        context.progress("profile", 1, 1)
        return measured

    def _targets(self, measured: Measurements | None) -> Targets | None:
        """Pairs and larger sets to fit networks to; None where at most item frequencies were measured."""
        if measured is None or (not measured.tuples and measured.centred is None):
            return None
        return moment_targets(measured, self.settings.products, generator=self.draws, device=self.context.device)

    def _cluster(self, profile: Tensor) -> Clustering:
        """Private kernel k-means; the cluster of every record stays behind the gateway as a private column."""
        plan, settings, context, draws = self.plan, self.settings, self.context, self.draws
        context.progress("cluster", 0, 1)
        paper = plan.settings.preset == "paper"
        rules = settings.rules.clustering
        features = FourierFeatures.for_domain(
            self.domain,
            settings.features,
            generator=draws,
            profile=profile,
            blurred_distance=rules.blurred_distance,
        )
        count = settings.clusters * (1 if paper else rules.starts)
        start = profile if context.public is None else context.public
        centers = initial_centers(start, count, features, domain=self.domain, generator=draws, rules=rules)
        clustering = private_kmeans(
            self.gateway,
            centers,
            features,
            context.runs_left({name: plan.mechanism(name).count for name in (COUNTS, SUMS)}),
            plan.noise(COUNTS),
            plan.noise(SUMS),
            generator=draws,
            clusters=settings.clusters,
            merge_after=plan.mechanism(COUNTS).count // 2,  # of the planned iterations, also after a crash
            shrink=not paper,
            memory_limit=cache_limit(context.memory),
            device=context.device,
            rules=rules,
        )
        self.gateway.keep(CLUSTERS, lambda records: clustering.predict(records, context.device))
        context.progress("cluster", 1, 1)
        return clustering

    def _mixture_weights(self) -> Tensor:
        """Shares of the clusters by their noisy sizes; never by the true sizes."""
        if self.settings.clusters == 1:
            return torch.ones(1, dtype=torch.float64)
        sizes = ClusterSizes(self.settings.clusters)
        noisy = release(self.gateway, sizes, self.plan.noise(sizes.name)).value.double()
        return self._shares(noisy)

    def _shares(self, noisy_sizes: Tensor) -> Tensor:
        """Noisy cluster sizes as shares, none of them near zero."""
        least = self.settings.rules.least_cluster * self.plan.records / len(noisy_sizes)
        floored = noisy_sizes.clamp(min=max(1.0, least))
        return floored / floored.sum()

    def _cluster_frequencies(self, profile: Tensor, measured: Measurements | None, weights: Tensor) -> Tensor:
        """Item frequencies of each cluster, (k, m): noisy counts, shrunk toward the profile where noise dominates."""
        k = self.settings.clusters
        if measured is None or measured.items is None or not self.plan.pays_for(CLUSTER_PROFILES):
            return profile.expand(k, -1)
        weight = mean_weight(measured.items, measured.known)
        statistic = ClusterProfiles(self.domain, k, measured.items.statistic.cap)
        released = release(self.gateway, statistic, self.plan.noise(statistic.name))
        noisy = released.value.double() / weight
        sizes = (weights * self.plan.records).unsqueeze(1)
        # Posterior mean: the prior is the profile with its own size as standard deviation.
        prior = sizes * profile
        std = released.std / weight
        trust = prior**2 / (prior**2 + std**2)
        counts = (trust * noisy + (1 - trust) * prior).clamp(min=0)
        return (counts / sizes).clamp(1e-6, 1 - self.settings.rules.frequency_off_one)

    def _pretrain_on_products(self, start: Tensor, targets: Targets, clustering: Clustering | None) -> Tensor:
        """Pre-train on samples of a mixture of products that is fitted to the statistics."""
        products = fit_moments(
            self.domain,
            self.plan.records,
            targets,
            generator=self.draws,
            device=self.context.device,
            progress=self.context.percent("products"),
        )
        count = self.settings.rules.pretraining_count(self.plan.records)
        samples = products.sample(count, generator=self.draws)
        clusters = np.zeros(len(samples), dtype=np.int64) if clustering is None else clustering.predict(samples)
        return self._pretrain(start, samples, clusters)

    def _pretrain(self, start: Tensor, samples: Records, clusters: NDArray[np.int64]) -> Tensor:
        assert isinstance(self.model, VAE)
        return pretrain(
            self.model,
            start,
            samples,
            clusters,
            self.settings.rules,
            generator=self.draws,
            device=self.context.device,
            progress=self.context.percent("pre-train"),
        )

    def _train(self, start: Tensor, weights: Tensor) -> Mixture:
        """Private SGD; with a checkpoint in blocks, each charged before it runs and saved afterwards."""
        settings, plan, context = self.settings, self.plan, self.context
        trainer = Trainer(
            self.gateway,
            self.model,
            TrainingSettings(
                steps=settings.steps,
                sampling_rate=settings.sampling_rate,
                norm_noise=plan.noise(NORMS),
                gradient_noise=plan.noise(GRADIENTS),
                records=plan.records,
                norm_quantile="mode" if settings.norm_quantile is None else settings.norm_quantile,
                optimizer=OptimizerSettings(
                    settings.optimizer,
                    settings.learning_rate,
                    settings.schedule,
                    settings.averaged_tail,
                    settings.rules.betas,
                ),
                norms=settings.rules.norms,
            ),
            clusters=settings.clusters,
            cluster_weights=weights,
            initial_parameters=start,
            generator=self.draws,
            device=context.device,
        )
        checkpoint = context.checkpoint
        if checkpoint is None:
            trainer.run(progress=lambda done, total: context.progress("train", done, total))
            return trainer.mixture()
        state = checkpoint.trainer_state()
        if state is not None:
            trainer.load_state(state)
        trainer.done = (
            checkpoint.steps_charged
        )  # steps lost in a crash are spent: they come out of the planned ones
        block = max(1, settings.steps // BLOCKS)
        while trainer.done < settings.steps:
            steps = min(block, settings.steps - trainer.done)
            checkpoint.charge("step", steps)
            trainer.run(steps)
            checkpoint.save_steps(trainer.done, trainer.state())
            context.progress("train", trainer.done, settings.steps)
        return trainer.mixture()


def _clusters_by_label(layout: ImageLayout, records: Records) -> NDArray[np.int64]:
    """The label of every image as its cluster; an image without a label is in the first."""
    return np.maximum(layout.classes_of(records), 0)
