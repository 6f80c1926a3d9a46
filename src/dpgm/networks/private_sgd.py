"""Private SGD (the paper's Algorithm 4, corrected as in docs/privacy-proof.md 2.3): k networks at once, in lock step.

    for t in steps:
        draw one Poisson sample of all records; route each record to the model of its cluster
        norms     <- histogram of per-record gradient norms, pooled over models     (release, noise)
        C_t       <- bound read off the noisy histograms                            (post-processing)
        gradients <- sum of gradients clipped to C_t, for every model               (release, noise on every model)
        parameters move along gradients / (q x noisy cluster size)                  (post-processing)

Nothing else computed from the sample leaves a step: no loss, no batch size, no clipped share.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor

from dpgm import validation
from dpgm.errors import ArtefactError, DpgmError, UsageError
from dpgm.kernels.compiled import HAS_NUMBA
from dpgm.kernels.devices import matrix_precision
from dpgm.mechanisms.gateway import Gateway
from dpgm.mechanisms.norm_bound import AdaptiveNormBound, Rule, norm_edges
from dpgm.mechanisms.query import Measures, Query
from dpgm.networks.batch import on_lines
from dpgm.networks.clipped_gradients import Pass, SegmentedPass
from dpgm.networks.clipped_gradients_cuda import DeviceNormBound, PaddedPass
from dpgm.networks.mixture import Mixture
from dpgm.networks.model import Model
from dpgm.networks.optimizer import Optimizer, OptimizerSettings
from dpgm.networks.rules import RULES

Progress = Callable[[int, int], None]
NORMS, GRADIENTS = "norms", "gradients"
SGD_WORDS = {
    NORMS: Measures("train", "histogram of gradient norms of a Poisson sample", "1"),
    GRADIENTS: Measures("train", "sum of clipped gradients of a Poisson sample", "norm bound"),
}


@dataclass(frozen=True)
class TrainingSettings:
    """Public numbers that steer training, all fixed before any record is seen.

    `records` is the public N. `norm_noise` None means no norm histogram: then `norm_bound` is the bound throughout.
    """

    steps: int
    sampling_rate: float
    norm_noise: float | None
    gradient_noise: float
    records: int
    norm_quantile: Rule = RULES.norm_quantile
    norm_bins: int = 24
    norm_bound: float | None = None
    optimizer: OptimizerSettings = field(default_factory=OptimizerSettings)

    def __post_init__(self) -> None:
        validation.whole(at_least=1, steps=self.steps)
        validation.whole(at_least=0, records=self.records)
        validation.fraction(sampling_rate=self.sampling_rate)
        if self.norm_noise is None and self.norm_bound is None:
            raise UsageError("`norm_bound` must be given when `norm_noise` is None: one of them sets the bound.")


class Trainer:
    """Training that can be stopped, saved and taken up again.

    Args:
        gateway: the door to the records; a kept column "clusters" routes them when there is more than one model.
        model: what to train.
        settings: public numbers.
        clusters: k, the number of models.
        cluster_weights: noisy, public shares of the clusters, (k,); equal by default.
        initial_parameters: (k, P); random by default.
        generator: public randomness (initial parameters, chains). Latent draws are secret: the gateway draws them.
        device: where to compute.

    Privacy:
        Each step makes the releases "norms" (sensitivity 1) and "gradients" (sensitivity C_t) on one Poisson sample
        "step"; adjacency add/remove. Everything else the trainer holds is post-processing.
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
        parameters = initial_parameters.to(self.device, copy=True).contiguous()
        if self.device.type == "cpu":
            parameters = on_lines(parameters)
        self.optimizer = Optimizer(settings.optimizer, parameters, settings.steps)
        # Division by a public number: the expected batch of each model, at least one record.
        expected = settings.sampling_rate * settings.records * self.weights
        self._scales = (1.0 / expected.clamp(min=1.0)).to(self.device, parameters.dtype)
        self._ones = torch.ones_like(self._scales)
        # The chains draw from a generator of their own.
        seed = int(torch.randint(2**62, (1,), generator=generator, device=generator.device))
        self._draws = torch.Generator(self.device).manual_seed(seed)
        self.chains = model.begin(clusters, generator=self._draws)
        edges = norm_edges(settings.norm_bins)
        start = min(max(math.sqrt(model.domain.width), float(edges[0])), float(edges[-1]))
        rule = AdaptiveNormBound(
            edges,
            noise=settings.norm_noise or 0.0,
            quantile=settings.norm_quantile,
            start=settings.norm_bound or start,
        )
        on_device = DeviceNormBound.fits(parameters)
        self.norm_bound = DeviceNormBound(rule, edges, self.device) if on_device else rule
        self._bins = settings.norm_bins
        if self.device.type == "cpu" and HAS_NUMBA:
            self._pass: Pass = SegmentedPass(model, parameters, edges)
        else:  # without compiled kernels dense tensor operations are quicker than sparse ones
            batch = settings.sampling_rate * settings.records
            self._pass = PaddedPass(model, parameters, edges, batch)
        self._shape = tuple(parameters.shape)
        self.done = 0

    def run(self, steps: int | None = None, *, progress: Progress | None = None) -> None:
        """Take that many further steps; all that are left by default."""
        left = self.settings.steps - self.done
        with matrix_precision("highest"):  # a norm rounded more coarsely could let a record exceed its bound
            for _ in range(left if steps is None else min(steps, left)):
                self._step()
                if progress is not None:
                    progress(self.done, self.settings.steps)
        self._check()

    def _check(self) -> None:
        """A gradient that is not finite leaves parameters that never are again, so looking once is enough."""
        if self.device.type != "cpu" and not bool(torch.isfinite(self.optimizer.parameters).all()):
            raise DpgmError(
                "a noisy gradient is not finite, so nothing is released (its budget stays spent); "
                "try a smaller learning rate."
            )

    def _step(self) -> None:
        settings, step, gradient_pass = self.settings, self.done, self._pass
        with self._gateway.poisson("step", settings.sampling_rate):
            bound = self.norm_bound.bound if settings.norm_bound is None else settings.norm_bound
            if settings.norm_noise is not None:
                norms = Query(lambda view: gradient_pass.histogram(view, step), 1.0, (self._bins,), grid=1.0)
                histogram = self._gateway.release(NORMS, norms, settings.norm_noise)
                bound = self.norm_bound.update(histogram)
            gradients = self._gateway.release(GRADIENTS, self._gradients(step, bound), settings.gradient_noise)
        self._move(gradients.to(self.device), bound, step)
        self.done += 1

    def _gradients(self, step: int, bound: float | Tensor) -> Query:
        """The sum of gradients clipped to a bound, which on an accelerator stays there."""
        gradient_pass = self._pass
        return Query(
            lambda view: gradient_pass.clipped_sum(view, step, bound),
            self.norm_bound.cap if isinstance(bound, Tensor) else bound,
            self._shape,
            check_later=True,
            released_sensitivity=bound if isinstance(bound, Tensor) else None,
        )

    def _move(self, gradients: Tensor, bound: float | Tensor, step: int) -> None:
        """Post-processing: the model phase of models that have one, then the optimiser."""
        scales = self._scales
        if self.chains is not None:
            # One layout, whoever made the tensor: products round by it, and released values are all that may count.
            gradients = gradients.contiguous().mul_(scales.unsqueeze(1).to(gradients))
            self.model.advance(self.chains, self.optimizer.parameters, bound, gradients, generator=self._draws)
            scales = self._ones
        self.optimizer.move(gradients, scales, step)

    @property
    def parameters(self) -> Tensor:
        """The trained parameters, (k, P): averaged over the tail where the settings say so."""
        return self.optimizer.result

    def mixture(self) -> Mixture:
        """The generator as it stands, on the CPU."""
        chains = None if self.chains is None else self.chains.cpu()
        return Mixture(self.model, self.parameters.detach().cpu().float().clone(), self.weights.float(), chains)

    def state(self) -> dict[str, Tensor]:
        """Released values and functions of them; what a checkpoint holds."""
        self._check()
        state = self.optimizer.state() | {"done": torch.tensor(self.done)}
        if self.chains is not None:
            state["chains"] = self.chains.cpu().clone()
        return state | {f"norm_bound.{name}": value for name, value in self.norm_bound.state().items()}

    def load_state(self, state: Mapping[str, Tensor], *, done: int | None = None) -> None:
        """Take up where `state` was taken; `done` counts steps spent since as well, lost or not.

        Raises:
            ArtefactError: the state is damaged or of another model.
        """
        self.optimizer.restore(state)
        self.norm_bound.restore({name: state.get(f"norm_bound.{name}") for name in ("average", "scalars")})  # type: ignore[misc]
        if "done" not in state or state["done"].numel() != 1:
            raise ArtefactError("the checkpoint does not say how many steps were done.")
        self.done = int(state["done"]) if done is None else done
        if self.chains is not None:
            saved = state.get("chains")
            if saved is None or saved.shape != self.chains.shape or not bool(((saved == 0) | (saved == 1)).all()):
                raise ArtefactError("the checkpoint's chains are missing, damaged or of another model.")
            self.chains.copy_(saved)


def _shares(weights: Tensor | None, clusters: int) -> Tensor:
    """Non-negative shares that sum to one, in float64."""
    if weights is None:
        return torch.full((clusters,), 1.0 / clusters, dtype=torch.float64)
    if weights.shape != (clusters,):
        raise UsageError(f"`cluster_weights` must hold one number per cluster ({clusters}).")
    shares = weights.double().cpu().clamp(min=0)
    total = float(shares.sum())
    if not math.isfinite(total) or total <= 0:
        raise UsageError("`cluster_weights` must be finite numbers, at least one above 0.")
    return shares / total
