"""The adaptive norm bound where it stays on an accelerator, so that no step waits for the last one's histogram."""

from collections.abc import Mapping

import torch
from torch import Tensor

from dpgm.compute import fused
from dpgm.compute.cuda_graphs import Repeated
from dpgm.mechanisms.norm_bound import AdaptiveNormBound


class DeviceNormBound:
    """What an `AdaptiveNormBound` does, by one kernel. It starts from that one's state and goes on from there."""

    def __init__(self, rule: AdaptiveNormBound, edges: Tensor, device: torch.device | str) -> None:
        self._rule, device = rule, torch.device(device)
        self._edges = edges.to(device)
        self._there = torch.empty(len(edges) + 3, dtype=torch.float64, device=device)
        self.bound = self._there[-1]
        self._update = Repeated(self._take_in, device, [self._there])
        self._send()

    @staticmethod
    def fits(parameters: Tensor) -> bool:
        """Whether the kernels run where these parameters are."""
        return fused.usable(parameters)

    @property
    def cap(self) -> float:
        """The public number that the bound never exceeds."""
        return self._rule.cap

    def update(self, noisy_histogram: Tensor) -> Tensor:
        """Take in a step's noisy histogram; returns the bound to use, always the same tensor."""
        self._update(noisy_histogram)
        return self.bound

    def _take_in(self, histogram: Tensor) -> None:
        rule = self._rule
        fused.update_bound(
            histogram,
            self._there,
            self._edges,
            noise=rule.noise,
            decay=rule.decay,
            quantile=None if isinstance(rule.quantile, str) else rule.quantile,
            floor=rule.floor,
            cap=rule.cap,
        )

    def state(self) -> dict[str, Tensor]:
        """As of an `AdaptiveNormBound`."""
        there = self._there.cpu()
        return {"average": there[:-2].clone(), "scalars": there[-2:].clone()}

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """As of an `AdaptiveNormBound`."""
        self._rule.restore(state)
        self._send()

    def _send(self) -> None:
        state = self._rule.state()
        self._there.copy_(torch.cat([state["average"], state["scalars"]]))
