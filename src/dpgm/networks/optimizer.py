"""Adam or gradient descent of torch on the stacked parameters of k networks. Post-processing of noisy gradients."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from dpgm import validation
from dpgm.errors import ArtefactError
from dpgm.networks.rules import NETWORK_RULES

MOMENTS = {"first": "exp_avg", "second": "exp_avg_sq"}  # our names of Adam's state, and torch's


@dataclass(frozen=True)
class OptimizerSettings:
    """Adam or plain gradient descent; a constant or cosine rate; weights averaged over the last share of the steps."""

    optimizer: Literal["adam", "sgd"] = "adam"
    learning_rate: float = NETWORK_RULES.learning_rate
    schedule: Literal["cosine", "constant"] = "cosine"
    averaged_tail: float = 0.5
    betas: tuple[float, float] = NETWORK_RULES.betas  # of Adam

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
        self.settings, self.parameters, self.steps = settings, parameters, steps
        self.average = parameters.clone() if settings.averaged_tail else None
        self._moments: dict[str, Tensor] = {}
        self._done = torch.zeros(())  # how often torch's Adam thinks it has stepped
        if settings.optimizer == "sgd":
            self._descent: torch.optim.Optimizer = torch.optim.SGD([parameters])
            return
        self._descent = torch.optim.Adam([parameters], betas=settings.betas, fused=True)
        self._done = self._done.to(parameters.device)
        self._moments = {name: torch.zeros_like(parameters) for name in MOMENTS}
        state = {theirs: self._moments[ours] for ours, theirs in MOMENTS.items()}
        self._descent.state[parameters] = state | {"step": self._done}

    @property
    def result(self) -> Tensor:
        """The averaged parameters if there is an average, else the last ones."""
        return self.parameters if self.average is None else self.average

    def update(self, gradients: Tensor, step: int) -> None:
        """One step along the gradients (k, P); `step` counts from 0, also the steps that were lost in a crash."""
        self._descent.param_groups[0]["lr"] = self.settings.rate(step, self.steps)
        self._done.fill_(step)
        self.parameters.grad = gradients
        self._descent.step()
        if self.average is not None:
            self.average.lerp_(self.parameters, self._share(step))

    def _share(self, step: int) -> float:
        """Weight of a step's parameters in the average: 1 until the averaged tail begins."""
        begin = self.steps - max(1, round(self.settings.averaged_tail * self.steps))
        return 1.0 if step <= begin else 1 / (step - begin + 1)

    def _tensors(self) -> dict[str, Tensor]:
        average = {} if self.average is None else {"average": self.average}
        return {"parameters": self.parameters, **self._moments, **average}

    def state(self) -> dict[str, Tensor]:
        """State for a checkpoint, without the number of steps; functions of noisy values."""
        return {name: value.detach().cpu().clone() for name, value in self._tensors().items()}

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Continue from a state; raises ArtefactError if it belongs to other models."""
        for name, current in self._tensors().items():
            saved = state.get(name)
            if saved is None or saved.shape != current.shape or not bool(torch.isfinite(saved).all()):
                raise ArtefactError(f"the checkpoint's {name} is missing, damaged or of another model.")
            current.copy_(saved)
