"""Adam and plain gradient descent on the stacked parameters of k networks. Post-processing of noisy gradients."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from dpgm import validation
from dpgm.errors import ArtefactError
from dpgm.kernels import fused, network_kernels
from dpgm.kernels.compiled import HAS_NUMBA
from dpgm.kernels.devices import Recorded, Upcoming
from dpgm.networks.batch import aligned_copy
from dpgm.networks.rules import RULES

BETAS = RULES.betas
TINY = 1e-8
AHEAD = 256  # steps whose rates are sent to an accelerator at once


@dataclass(frozen=True)
class OptimizerSettings:
    """Adam or plain gradient descent; a constant or cosine rate; weights averaged over the last share of the steps."""

    optimizer: Literal["adam", "sgd"] = "adam"
    learning_rate: float = RULES.learning_rate
    schedule: Literal["cosine", "constant"] = "cosine"
    averaged_tail: float = 0.5

    def __post_init__(self) -> None:
        validation.one_of(("adam", "sgd"), optimizer=self.optimizer)
        validation.one_of(("cosine", "constant"), schedule=self.schedule)
        validation.positive(learning_rate=self.learning_rate)
        if self.averaged_tail:
            validation.fraction(averaged_tail=self.averaged_tail)

    def rate(self, step: int, steps: int) -> float:
        """Learning rate of step 0, 1, ... of `steps`."""
        if self.schedule == "constant":
            return self.learning_rate
        return self.learning_rate * 0.5 * (1 + math.cos(math.pi * min(step / steps, 1.0)))


class Optimizer:
    """Updates (k, P) parameters in place, one gradient step at a time."""

    def __init__(self, settings: OptimizerSettings, parameters: Tensor, steps: int) -> None:
        self.settings = settings
        self.parameters = parameters
        self.steps = steps
        adam = settings.optimizer == "adam"
        copy = aligned_copy if parameters.device.type == "cpu" else torch.clone
        self.first = copy(torch.zeros_like(parameters)) if adam else None
        self.second = copy(torch.zeros_like(parameters)) if adam else None
        self.average = copy(parameters) if settings.averaged_tail else None
        # On an accelerator a step is recorded once and replayed, so whatever changes between steps must be a tensor.
        device = parameters.device
        self._numbers = Upcoming(AHEAD, 3, torch.float32, device)
        self._next = -1  # the step that their next row is for
        self._gradients: Tensor | None = None
        self._scales: Tensor | None = None
        arrays = (parameters, self.first, self.second, self.average, self._numbers.next)
        self._recorded = Recorded(self._fused_step, device, [one for one in arrays if one is not None])

    @property
    def result(self) -> Tensor:
        """The averaged parameters if there is an average, else the last ones."""
        return self.parameters if self.average is None else self.average

    def update(self, gradients: Tensor, scales: Tensor, step: int) -> None:
        """One step along gradients x scales (one scale per model); `step` counts from 0."""
        rate = self.settings.rate(step, self.steps)
        if self.first is None or self.second is None:
            self.parameters.sub_(gradients * (rate * scales).unsqueeze(1).to(gradients))
        elif self.parameters.is_contiguous() and fused.usable(self.parameters, gradients):
            self._update_fused(gradients, scales, step)
            return  # the kernel updates the average too
        elif HAS_NUMBA and self.parameters.device.type == "cpu":
            arrays = (each.numpy() for each in (self.parameters, gradients, self.first, self.second, scales))
            network_kernels.adam(*arrays, rate=rate, beta1=BETAS[0], beta2=BETAS[1], tiny=TINY, step=step + 1)
        else:
            self._update_by_torch(self.first, self.second, gradients, scales, rate, step)
        if self.average is not None:
            self.average.lerp_(self.parameters, self._share(step))

    def _update_by_torch(
        self, first: Tensor, second: Tensor, gradients: Tensor, scales: Tensor, rate: float, step: int
    ) -> None:
        """An Adam step by torch's fused operation."""
        scaled = gradients * scales.unsqueeze(1).to(gradients)
        count = torch.full((), step + 1.0, device=gradients.device)
        # One tensor per network: the operation needs contiguous ones.
        torch._fused_adam_(
            list(self.parameters),
            list(scaled),
            list(first),
            list(second),
            [],
            [count] * len(scaled),
            lr=rate,
            beta1=BETAS[0],
            beta2=BETAS[1],
            weight_decay=0.0,
            eps=TINY,
            amsgrad=False,
            maximize=False,
        )

    def _update_fused(self, gradients: Tensor, scales: Tensor, step: int) -> None:
        # The recorded step reads the tensors of its first call; training passes the same ones in later calls.
        if self._gradients is None or self._scales is None:
            self._gradients, self._scales = gradients.contiguous(), scales.to(self.parameters.dtype)
        if gradients.data_ptr() != self._gradients.data_ptr():
            self._gradients.copy_(gradients)
        if scales.data_ptr() != self._scales.data_ptr():
            self._scales.copy_(scales)
        if self._numbers.left == 0 or step != self._next:
            self._numbers.fill(torch.tensor([self._step_numbers(later) for later in range(step, step + AHEAD)]))
        self._numbers.left -= 1
        self._next = step + 1
        self._recorded()

    def _step_numbers(self, step: int) -> tuple[float, float, float]:
        """Input of the kernel: rate and root with Adam's bias corrections, and the step's weight in the average."""
        rate = self.settings.rate(step, self.steps) / (1 - BETAS[0] ** (step + 1))
        return rate, 1 / math.sqrt(1 - BETAS[1] ** (step + 1)), self._share(step)

    def _fused_step(self) -> None:
        assert self.first is not None
        assert self.second is not None
        assert self._gradients is not None
        assert self._scales is not None
        fused.adam(
            self.parameters,
            self._gradients,
            self.first,
            self.second,
            self.average,
            self._scales,
            self._numbers.take(),
            beta1=BETAS[0],
            beta2=BETAS[1],
            tiny=TINY,
        )

    def _share(self, step: int) -> float:
        """Weight of a step's parameters in the average: 1 until the averaged tail begins."""
        begin = self.steps - max(1, round(self.settings.averaged_tail * self.steps))
        return 1.0 if step <= begin else 1 / (step - begin + 1)

    def state(self) -> dict[str, Tensor]:
        """State for a checkpoint, without the number of steps; functions of noisy values."""
        named = {"parameters": self.parameters, "first": self.first, "second": self.second, "average": self.average}
        return {name: value.detach().cpu().clone() for name, value in named.items() if value is not None}

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Continue from a state; raises ArtefactError if it belongs to other models."""
        for name, current in self.state().items():
            saved = state.get(name)
            if saved is None or saved.shape != current.shape or not bool(torch.isfinite(saved).all()):
                raise ArtefactError(f"the checkpoint's {name} is missing, damaged or of another model.")
            getattr(self, name).copy_(saved)
