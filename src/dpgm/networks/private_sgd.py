"""Private SGD: the paper's Algorithm 4, corrected as in docs/privacy-proof.md 2.3. Trains k networks in lock step.

    for t in steps:
        draw one Poisson sample of all records; route each record to the network of its cluster
        norms      <- histogram of per-record gradient norms, pooled over networks    (release, noise)
        C_t        <- clipping bound read off the noisy histograms                    (post-processing)
        gradients  <- sum of gradients clipped to C_t, for every network              (release, noise on every network)
        parameters <- optimiser step along gradients / (q x noisy cluster size)       (post-processing)

Nothing else that is computed from the sample leaves a step: no loss, no batch size, no share of clipped records.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dpgm import validation
from dpgm.errors import ArtefactError, UsageError
from dpgm.kernels import parallel
from dpgm.kernels.devices import Recorded, matrix_precision
from dpgm.mechanisms.gateway import Gateway
from dpgm.mechanisms.norm_bound import AdaptiveNormBound, BoundRule, norm_edges, norm_histogram
from dpgm.mechanisms.query import Measures, Query, View
from dpgm.networks.batch import SMALLEST, Batch, Factor
from dpgm.networks.mixture import Mixture
from dpgm.networks.model import Model, Views
from dpgm.networks.optimizer import Optimizer, OptimizerSettings
from dpgm.networks.rules import NETWORK_RULES, NORM_RULES, NormRules
from dpgm.networks.sampled_batches import SampledBatches, SegmentedBatches, TiledBatches

StepProgress = Callable[[int, int], None]
SLACK = 1 + 1e-5  # norms are rounded: clip slightly below the bound rather than slightly above
NORMS, GRADIENTS = "norms", "gradients"
SGD_WORDS = {
    NORMS: Measures("train", "histogram of gradient norms of a Poisson sample", "1"),
    GRADIENTS: Measures("train", "sum of clipped gradients of a Poisson sample", "norm bound"),
}


@dataclass(frozen=True)
class TrainingSettings:
    """Public numbers that steer training, all fixed before any record is read.

    `records` is the public N. Without `norm_noise` there is no norm histogram and `norm_bound` is the bound throughout.
    """

    steps: int
    sampling_rate: float
    norm_noise: float | None
    gradient_noise: float
    records: int
    norm_quantile: BoundRule = NETWORK_RULES.norm_quantile
    norm_bound: float | None = None
    optimizer: OptimizerSettings = field(default_factory=OptimizerSettings)
    norms: NormRules = NORM_RULES

    def __post_init__(self) -> None:
        validation.whole(at_least=1, steps=self.steps)
        validation.whole(at_least=0, records=self.records)
        validation.fraction(sampling_rate=self.sampling_rate)
        if self.norm_noise is None and self.norm_bound is None:
            raise UsageError("`norm_bound` must be given when `norm_noise` is None: one of them sets the bound.")


class Trainer:
    """Private training that can be stopped, saved and resumed.

    Args:
        gateway: access to the records; its private column "clusters" routes them when there are several networks.
        model: the kind and sizes of the networks.
        settings: public numbers.
        clusters: k, the number of networks.
        cluster_weights: noisy, public shares of the clusters, (k,); equal by default.
        initial_parameters: (k, P); random by default.
        generator: public randomness (initial parameters, chains). Latent draws are secret: the gateway draws them.
        device: where to compute.

    Privacy:
        Each step makes the releases "norms" (sensitivity 1) and "gradients" (sensitivity C_t) on one Poisson sample
        "step"; adjacency add/remove. All other state of the trainer is post-processing.
    """

    def __init__(
        self,
        gateway: Gateway,
        model: Model,
        settings: TrainingSettings,
        *,
        clusters: int = 1,
        cluster_weights: Tensor | None = None,
        initial_parameters: Tensor | None = None,
        generator: torch.Generator,
        device: torch.device | str = "cpu",
    ) -> None:
        validation.whole(at_least=1, clusters=clusters)
        self._gateway, self.model, self.settings = gateway, model, settings
        self.device = torch.device(device)
        if initial_parameters is None:
            initial_parameters = model.initial(clusters, generator=generator)
        if initial_parameters.shape != (clusters, model.layout.size):
            raise UsageError(
                f"`initial_parameters` must have shape {(clusters, model.layout.size)}; "
                f"got {tuple(initial_parameters.shape)}."
            )
        self.weights = _shares(cluster_weights, clusters)
        parameters = parallel.from_first(initial_parameters.to(self.device, copy=True).contiguous())
        self.optimizer = Optimizer(settings.optimizer, parameters, settings.steps)
        # Gradients are divided by a public number: the expected batch size of each network, at least one record.
        expected = settings.sampling_rate * settings.records * self.weights
        self._scales = (1.0 / expected.clamp(min=1.0)).to(self.device, parameters.dtype)
        # Chains have a random generator of their own.
        seed = int(torch.randint(2**62, (1,), generator=generator, device=generator.device))
        self._chain_generator = torch.Generator(self.device).manual_seed(seed)
        self.chains = model.begin(clusters, generator=self._chain_generator)
        rules = settings.norms
        edges = norm_edges(rules.bins, rules.low, rules.high)
        self.norm_bound = AdaptiveNormBound(
            edges,
            noise=settings.norm_noise or 0.0,
            quantile=settings.norm_quantile,
            decay=rules.decay,
            start=settings.norm_bound or math.sqrt(model.domain.width),
            clear=rules.clear,
        )
        batches: SampledBatches = SegmentedBatches(model, parameters)
        if self.device.type != "cpu":
            batches = TiledBatches(model, parameters, settings.sampling_rate * settings.records)
        self._pass = GradientPass(model, parameters, edges, batches)
        self._shape = tuple(parameters.shape)
        self.done = 0

    def run(self, steps: int | None = None, *, progress: StepProgress | None = None) -> None:
        """Take that many more steps; by default all that are left."""
        left = self.settings.steps - self.done
        with matrix_precision("highest"):  # a norm rounded more coarsely could let a record exceed its bound
            for _ in range(left if steps is None else min(steps, left)):
                self._step()
                if progress is not None:
                    progress(self.done, self.settings.steps)

    def _step(self) -> None:
        step = self.done
        with self._gateway.poisson("step", self.settings.sampling_rate):
            bound = self._release_bound(step)
            gradients = self._release_gradients(step, bound)
        self._update(gradients.to(self.device).contiguous(), bound, step)
        self.done += 1

    def _release_bound(self, step: int) -> float:
        """The clipping bound, from a noisy histogram of gradient norms."""
        settings, gradient_pass = self.settings, self._pass
        if settings.norm_noise is None:
            assert settings.norm_bound is not None
            return settings.norm_bound
        query = Query(lambda view: gradient_pass.histogram(view, step), 1.0, (self.settings.norms.bins,), grid=1.0)
        histogram = self._gateway.release(NORMS, query, settings.norm_noise)
        bound = self.norm_bound.update(histogram)
        # Ranks clip to one bound, to which the noise belongs, even if their machines round differently.
        return parallel.number_from_first(bound)

    def _release_gradients(self, step: int, bound: float) -> Tensor:
        """The noisy sum of clipped gradients of every network, (k, P)."""
        gradient_pass = self._pass
        query = Query(lambda view: gradient_pass.clipped_sum(view, step, bound), bound, self._shape)
        return self._gateway.release(GRADIENTS, query, self.settings.gradient_noise)

    def _update(self, gradients: Tensor, bound: float, step: int) -> None:
        """Post-processing: the model phase of networks that have one, then the optimiser."""
        gradients.mul_(self._scales.unsqueeze(1))
        if self.chains is not None:
            self.model.advance(
                self.chains, self.optimizer.parameters, bound, gradients, generator=self._chain_generator
            )
        self.optimizer.update(gradients, step)

    @property
    def parameters(self) -> Tensor:
        """The trained parameters, (k, P): averaged over the last steps where the settings say so."""
        return self.optimizer.result

    def mixture(self) -> Mixture:
        """The networks trained so far, on the CPU."""
        chains = None if self.chains is None else self.chains.cpu()
        return Mixture(self.model, self.parameters.detach().cpu().float().clone(), self.weights.float(), chains)

    def state(self) -> dict[str, Tensor]:
        """State for a checkpoint: released values and functions of them."""
        state = self.optimizer.state() | {"done": torch.tensor(self.done)}
        if self.chains is not None:
            state["chains"] = self.chains.cpu().clone()
        return state | {f"norm_bound.{name}": value for name, value in self.norm_bound.state().items()}

    def load_state(self, state: Mapping[str, Tensor]) -> None:
        """Resume from a `state`.

        Raises:
            ArtefactError: the state is damaged or of another model.
        """
        self.optimizer.restore(state)
        self.norm_bound.restore({name: state.get(f"norm_bound.{name}") for name in ("average", "scalars")})  # type: ignore[misc]
        if "done" not in state or state["done"].numel() != 1:
            raise ArtefactError("the checkpoint does not say how many steps were done.")
        self.done = int(state["done"])
        if self.chains is not None:
            saved = state.get("chains")
            if saved is None or saved.shape != self.chains.shape or not bool(((saved == 0) | (saved == 1)).all()):
                raise ArtefactError("the checkpoint's chains are missing, damaged or of another model.")
            self.chains.copy_(saved)


class GradientPass:
    """The exact values of a step's two queries, from one pass over its sample.

    It stores private values between the two queries of a step, and is called from inside queries only. A record whose
    gradient is not finite contributes nothing to either. On an accelerator both halves are recorded as CUDA graphs.
    """

    def __init__(self, model: Model, parameters: Tensor, edges: Tensor, batches: SampledBatches) -> None:
        self._model, self._edges, self._batches = model, edges.to(parameters.device), batches
        self._sum = Views(model.layout, torch.zeros_like(parameters))
        self._counts = torch.zeros(len(edges) + 1, dtype=torch.int64, device=parameters.device)
        self._bound = torch.ones((), dtype=torch.float64, device=parameters.device)
        self._step = -1
        self._sample: NDArray[np.int64] | None = None

    def histogram(self, view: View, step: int) -> Tensor:
        """Counts of gradient norms by bin, int64; one bin per record."""
        self._pass_over(view, step)
        return self._counts

    def clipped_sum(self, view: View, step: int, bound: float) -> Tensor:
        """Sum of gradients, each scaled to a norm of at most `bound`, for every network: (k, P)."""
        self._pass_over(view, step)
        self._bound.fill_(bound)
        self._clip_and_sum()
        return self._sum.flat

    def _pass_over(self, view: View, step: int) -> None:
        # The two releases of a step share one sample; a new sample is never answered from an older pass.
        if step == self._step and view.sample is self._sample:
            return
        if self._batches.load(view) or self._step < 0:
            self._measure_norms = Recorded(self._norms_of_batch, self._bound.device)
            self._clip_and_sum = Recorded(self._sum_of_batch, self._bound.device)
        self._measure_norms()
        self._step, self._sample = step, view.sample

    def _norms_of_batch(self) -> None:
        """Norms of all gradients, NaN at unused places, and how many there are in every bin."""
        self._batch: Batch = self._batches.batch()
        self._factors: Sequence[Factor] = self._model.factors(self._batch)
        self._norms = self._batch.squared_norms(self._factors).sqrt_()
        if self._batch.unused is not None:
            self._norms.masked_fill_(self._batch.unused, torch.nan)
        self._counts.copy_(norm_histogram(self._norms, self._edges))

    def _sum_of_batch(self) -> None:
        """The sum of clipped gradients; also 0 is the weight of a norm so large that float32 cannot hold its weight."""
        weights = torch.div(self._bound, self._norms * SLACK).clamp_(max=1.0)
        weights.masked_fill_(~(weights >= SMALLEST), 0.0)  # a norm that is not finite gives 0 or NaN
        self._batch.weighted_sum(self._factors, weights.to(self._sum.flat.dtype), self._sum)


def _shares(weights: Tensor | None, clusters: int) -> Tensor:
    """Weights as shares: non-negative, with sum 1, in float64."""
    if weights is None:
        return torch.full((clusters,), 1.0 / clusters, dtype=torch.float64)
    if weights.shape != (clusters,):
        raise UsageError(f"`cluster_weights` must hold one number per cluster ({clusters}).")
    shares = weights.double().cpu().clamp(min=0)
    total = float(shares.sum())
    if not math.isfinite(total) or total <= 0:
        raise UsageError("`cluster_weights` must be finite numbers, at least one above 0.")
    return shares / total
