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
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor

from dpgm import validation
from dpgm.errors import ArtefactError, DpgmError, UsageError
from dpgm.kernels import parallel
from dpgm.kernels.compiled import HAS_NUMBA
from dpgm.kernels.devices import matrix_precision
from dpgm.mechanisms.gateway import Gateway
from dpgm.mechanisms.norm_bound import AdaptiveNormBound, Rule, norm_edges
from dpgm.mechanisms.query import Measures, Query
from dpgm.networks.batch import aligned_copy
from dpgm.networks.clipped_gradients import GradientPass, SegmentedPass
from dpgm.networks.clipped_gradients_cuda import DeviceNormBound, PaddedPass
from dpgm.networks.mixture import Mixture
from dpgm.networks.model import Model
from dpgm.networks.optimizer import Optimizer, OptimizerSettings
from dpgm.networks.rules import RULES

Progress = Callable[[int, int], None]
NORM_BINS = 24
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
    norm_quantile: Rule = RULES.norm_quantile
    norm_bound: float | None = None
    optimizer: OptimizerSettings = field(default_factory=OptimizerSettings)

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
        if self.device.type == "cpu":
            parameters = aligned_copy(parameters)
        self.optimizer = Optimizer(settings.optimizer, parameters, settings.steps)
        # Gradients are divided by a public number: the expected batch size of each network, at least one record.
        expected = settings.sampling_rate * settings.records * self.weights
        self._scales = (1.0 / expected.clamp(min=1.0)).to(self.device, parameters.dtype)
        self._ones = torch.ones_like(self._scales)
        # Chains have a random generator of their own.
        seed = int(torch.randint(2**62, (1,), generator=generator, device=generator.device))
        self._chain_generator = torch.Generator(self.device).manual_seed(seed)
        self.chains = model.begin(clusters, generator=self._chain_generator)
        edges = norm_edges(NORM_BINS)
        start = settings.norm_bound or math.sqrt(model.domain.width)
        noise = settings.norm_noise or 0.0
        rule = AdaptiveNormBound(edges, noise=noise, quantile=settings.norm_quantile, start=start)
        on_device = DeviceNormBound.fits(parameters)
        self.norm_bound = DeviceNormBound(rule, edges, self.device) if on_device else rule
        if self.device.type == "cpu" and HAS_NUMBA:
            self._pass: GradientPass = SegmentedPass(model, parameters, edges)
        else:  # without compiled kernels dense tensor operations are faster than sparse ones
            self._pass = PaddedPass(model, parameters, edges, settings.sampling_rate * settings.records)
        self._shape = tuple(parameters.shape)
        self.done = 0

    def run(self, steps: int | None = None, *, progress: Progress | None = None) -> None:
        """Take that many more steps; by default all that are left."""
        left = self.settings.steps - self.done
        with matrix_precision("highest"):  # a norm rounded more coarsely could let a record exceed its bound
            for _ in range(left if steps is None else min(steps, left)):
                self._step()
                if progress is not None:
                    progress(self.done, self.settings.steps)
        self._check_finite()

    def _check_finite(self) -> None:
        """Refuse parameters that are not finite; they never recover, so one check after many steps is enough."""
        if self.device.type != "cpu" and not bool(torch.isfinite(self.optimizer.parameters).all()):
            raise DpgmError(
                "a noisy gradient is not finite, so nothing is released (its budget stays spent); "
                "try a smaller learning rate."
            )

    def _step(self) -> None:
        step = self.done
        with self._gateway.poisson("step", self.settings.sampling_rate):
            bound = self._release_bound(step)
            gradients = self._release_gradients(step, bound)
        self._update(gradients.to(self.device), bound, step)
        self.done += 1

    def _release_bound(self, step: int) -> float | Tensor:
        """The clipping bound, from a noisy histogram of gradient norms; on an accelerator a tensor that stays there."""
        settings, gradient_pass = self.settings, self._pass
        if settings.norm_noise is None:
            assert settings.norm_bound is not None
            return settings.norm_bound
        query = Query(lambda view: gradient_pass.histogram(view, step), 1.0, (NORM_BINS,), grid=1.0)
        histogram = self._gateway.release(NORMS, query, settings.norm_noise)
        bound = self.norm_bound.update(histogram)
        # Ranks clip to one bound, to which the noise belongs, even if their machines round differently.
        return parallel.from_first(bound) if isinstance(bound, Tensor) else parallel.number_from_first(bound)

    def _release_gradients(self, step: int, bound: float | Tensor) -> Tensor:
        """The noisy sum of clipped gradients of every network, (k, P)."""
        gradient_pass = self._pass
        query = Query(
            lambda view: gradient_pass.clipped_sum(view, step, bound),
            self.norm_bound.cap if isinstance(bound, Tensor) else bound,
            self._shape,
            check_later=True,
            released_sensitivity=bound if isinstance(bound, Tensor) else None,
        )
        return self._gateway.release(GRADIENTS, query, self.settings.gradient_noise)

    def _update(self, gradients: Tensor, bound: float | Tensor, step: int) -> None:
        """Post-processing: the model phase of networks that have one, then the optimiser."""
        scales = self._scales
        if self.chains is not None:
            # Products round differently by memory layout; the result may depend on the released values alone.
            gradients = gradients.contiguous().mul_(scales.unsqueeze(1).to(gradients))
            self.model.advance(
                self.chains, self.optimizer.parameters, bound, gradients, generator=self._chain_generator
            )
            scales = self._ones
        self.optimizer.update(gradients, scales, step)

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
        self._check_finite()
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
