"""A mixture of networks, stage by stage: the box of the paper's Algorithm 1 with its errata corrected.

    statistics <- noisy counts of whole records, as far as the plan pays for them         (`products/measurement.py`)
    centres    <- private kernel k-means on Fourier features of the records               (Algorithm 2)
    weights    <- noisy sizes of the clusters
    start      <- k networks at the item frequencies of their clusters; VAEs learn from samples of the statistics
    networks   <- private SGD, each network on the records of its own cluster             (Algorithm 4)
    mixture    <- decoders, latent points and weights moved to the statistics             (post-processing)

The paper's preset has no refinement and, with one network, nothing but private SGD. Deviations: centres are frozen
while records are assigned (E6); all k models are updated in every step on one Poisson sample of the whole data, instead
of one model chosen by its true size (E5); mixture weights are noisy sizes (E10).
"""

from dataclasses import dataclass
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
    STARTS,
    SUMS,
    Clustering,
    cache_limit,
    initial_centers,
    private_kmeans,
)
from dpgm.networks.mixture import Mixture
from dpgm.networks.model import Model
from dpgm.networks.optimizer import OptimizerSettings
from dpgm.networks.private_sgd import GRADIENTS, NORMS, Trainer, TrainingSettings
from dpgm.networks.refinement import calibrate_biases, pretrain, refine_mixture
from dpgm.networks.rules import NetworkSettings, settings_of, start_frequencies
from dpgm.networks.vae import VAE
from dpgm.products.fitting import Targets, fit_moments
from dpgm.products.measurement import Measurements, measure, moment_targets
from dpgm.statistics.fourier_features import FourierFeatures
from dpgm.statistics.item_counts import CLUSTERS, ITEMS, PROFILES, ClusterProfiles, ClusterSizes, mean_weight
from dpgm.statistics.statistic import ask
from dpgm.strategy.protocol import FitPlan, RunContext

BLOCKS = 40  # training is charged and saved in this many blocks


@dataclass(frozen=True, eq=False)
class NetworkFit:
    """Algorithm 1: what all of its stages need, and the stages."""

    network: type[Model]
    gateway: Gateway
    plan: FitPlan
    domain: Domain
    draws: torch.Generator
    context: RunContext

    @cached_property
    def settings(self) -> NetworkSettings:
        """Those of the plan."""
        return settings_of(self.plan)

    @cached_property
    def model(self) -> Model:
        """The network, of the planned sizes."""
        return self.network.of(self.domain, self.settings)

    def run(self) -> Mixture:
        """All stages."""
        return self._of_records() if self.settings.images is None else self._of_images()

    def _of_records(self) -> Mixture:
        plan, settings, context = self.plan, self.settings, self.context
        measured = None
        overall = torch.from_numpy(start_frequencies(self.domain, settings.mean_length, settings.rules))
        if plan.pays_for(ITEMS):  # every statistic of whole records, first of all: clustering needs the profile
            context.progress("profile", 0, 1)
            measured = measure(
                self.gateway, self.domain, plan.records, plan.noises, settings.products, device=context.device
            )
            context.progress("profile", 1, 1)
            overall = torch.from_numpy(measured.profile).double()
        clustering = self._cluster(overall) if settings.clusters > 1 else None
        weights = self._mixture_weights()
        frequencies = self._cluster_frequencies(overall, measured, weights)
        start = self.model.warm(self.model.initial(settings.clusters, generator=self.draws), frequencies)
        if measured is None:
            return self._train(start, weights)
        if not measured.tuples and measured.centred is None:
            mixture = self._train(start, weights)
            if not settings.calibrate:
                return mixture
            frequencies = torch.from_numpy(measured.profile)
            return calibrate_biases(mixture, frequencies, settings.rules, generator=self.draws)
        targets = moment_targets(measured, settings.products, generator=self.draws, device=context.device)
        mixture = self._train(self._pretrained_on_products(start, targets, clustering), weights)
        # Post-processing: decoders, latent points and weights are moved to what was measured.
        return refine_mixture(
            mixture, plan.records, targets, settings.rules, generator=self.draws, progress=context.percent("refine")
        )

    def _of_images(self) -> Mixture:
        """Statistics of images, and one cluster per value of the label, which costs no budget."""
        settings, context, layout = self.settings, self.context, ImageLayout.of(self.domain)
        assert settings.images is not None
        context.progress("measure", 0, 1)
        embedded = measure_images(
            self.gateway, self.domain, self.plan.noises, settings.images, device=context.device
        )
        context.progress("measure", 1, 1)
        self.gateway.keep(CLUSTERS, lambda records: _by_label(layout, records))
        generator = fit_images(
            embedded,
            self.domain,
            ImageFitSettings.of(self.domain, context.device, settings.images.rules.fit),
            generator=self.draws,
            device=context.device,
            progress=context.percent("refine"),
        )
        samples = generator.to(context.device).sample(self._free_samples, generator=self.draws)
        start = self.model.initial(settings.clusters, generator=self.draws)
        start = self._pretrained(start, samples, _by_label(layout, samples))
        return self._train(start, self._floored(embedded.sizes.double()))

    @property
    def _free_samples(self) -> int:
        """How many samples networks learn from before they see noisy gradients."""
        least, most = self.settings.rules.pretraining_samples
        return max(least, min(most, self.plan.records))

    def _pretrained_on_products(self, start: Tensor, targets: Targets, clustering: Clustering | None) -> Tensor:
        """Post-processing: networks learn from samples of the mixture of products that shows the statistics."""
        products = fit_moments(
            self.domain,
            self.plan.records,
            targets,
            generator=self.draws,
            device=self.context.device,
            progress=self.context.percent("products"),
        )
        samples = products.sample(self._free_samples, generator=self.draws)
        clusters = np.zeros(len(samples), dtype=np.int64) if clustering is None else clustering.predict(samples)
        return self._pretrained(start, samples, clusters)

    def _pretrained(self, start: Tensor, samples: Records, clusters: NDArray[np.int64]) -> Tensor:
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

    def _cluster(self, frequencies: Tensor) -> Clustering:
        """Private kernel k-means; the cluster of every record stays behind the gateway as a private column."""
        plan, settings, context, draws = self.plan, self.settings, self.context, self.draws
        context.progress("cluster", 0, 1)
        features = FourierFeatures.for_domain(self.domain, settings.features, generator=draws, profile=frequencies)
        paper = plan.settings.preset == "paper"
        count = settings.clusters * (1 if paper else STARTS)
        start = frequencies if context.public is None else context.public
        centers = initial_centers(start, count, features, domain=self.domain, generator=draws)
        clustering = private_kmeans(
            self.gateway,
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
        self.gateway.keep(CLUSTERS, lambda records: clustering.predict(records, context.device))
        context.progress("cluster", 1, 1)
        return clustering

    def _mixture_weights(self) -> Tensor:
        """Shares of the clusters from their noisy sizes; never the true sizes."""
        if self.settings.clusters == 1:
            return torch.ones(1, dtype=torch.float64)
        sizes = ClusterSizes(self.settings.clusters)
        noisy = ask(self.gateway, sizes, self.plan.noise(sizes.name)).value.double()
        return self._floored(noisy)

    def _floored(self, noisy: Tensor) -> Tensor:
        """Shares of clusters by their noisy sizes, none near zero."""
        least = self.settings.rules.least_cluster * self.plan.records / len(noisy)
        floored = noisy.clamp(min=max(1.0, least))
        return floored / floored.sum()

    def _cluster_frequencies(self, overall: Tensor, measured: Measurements | None, weights: Tensor) -> Tensor:
        """Item frequencies of each cluster, (k, m), noisy counts shrunk toward the whole profile where noise rules."""
        k = self.settings.clusters
        if measured is None or measured.items is None or not self.plan.pays_for(PROFILES):
            return overall.expand(k, -1)
        weight = mean_weight(measured.items, measured.known)
        statistic = ClusterProfiles(self.domain, k, measured.items.statistic.cap)
        released = ask(self.gateway, statistic, self.plan.noise(statistic.name))
        noisy = released.value.double() / weight
        sizes = (weights * self.plan.records).unsqueeze(1)
        # Precision weighting: the profile as prior with its own size as standard deviation, the noise as measurement.
        prior = sizes * overall
        std = released.std / weight
        trust = prior**2 / (prior**2 + std**2)
        counts = (trust * noisy + (1 - trust) * prior).clamp(min=0)
        return (counts / sizes).clamp(1e-6, 1 - self.settings.rules.frequency_off_one)

    def _train(self, start: Tensor, weights: Tensor) -> Mixture:
        """Private SGD in blocks; a block is charged before it runs and saved after it."""
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
                    settings.optimizer, settings.learning_rate, settings.schedule, settings.averaged_tail
                ),
            ),
            clusters=settings.clusters,
            cluster_weights=weights,
            initial_parameters=start,
            generator=self.draws,
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


def _by_label(layout: ImageLayout, records: Records) -> NDArray[np.int64]:
    """The cluster of every image: its label; one without a label goes to the first."""
    return np.maximum(layout.classes_of(records), 0)
