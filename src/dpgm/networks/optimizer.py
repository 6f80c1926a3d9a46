"""Adam or gradient descent of torch on the stacked parameters of k networks. Post-processing of noisy gradients."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor
from torch.optim.adam import adam

from dpgm import validation
from dpgm.errors import ArtefactError
from dpgm.networks.rules import NETWORK_RULES

ADAM_EPSILON = 1e-8  # added to the root of the second moment: torch's own choice


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
        moments = ("first", "second") if settings.optimizer == "adam" else ()
        self._moments = {name: torch.zeros_like(parameters) for name in moments}
        self._done = torch.zeros((), device=parameters.device)  # steps before this one, for torch

    @property
    def result(self) -> Tensor:
        """The averaged parameters if there is an average, else the last ones."""
        return self.parameters if self.average is None else self.average

    def update(self, gradients: Tensor, step: int) -> None:
        """One step along the gradients (k, P); `step` counts from 0, also the steps that were lost in a crash."""
        rate = self.settings.rate(step, self.steps)
        if self._moments:
            self._done.fill_(step)
            first, second = ([moment] for moment in self._moments.values())
            beta1, beta2 = self.settings.betas
            adam(
                [self.parameters], [gradients], first, second, [], [self._done], lr=rate, beta1=beta1, beta2=beta2,
                eps=ADAM_EPSILON, weight_decay=0.0, amsgrad=False, maximize=False, fused=True,
            )  # fmt: skip
        else:
            self.parameters.add_(gradients, alpha=-rate)
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
