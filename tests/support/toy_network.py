"""A minimal network: one logit per position, gradients by torch.func."""

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import torch

from dpgm.networks.batch import autograd_factor
from dpgm.networks.model import Model, ParameterLayout, WeightMatrix
from dpgm.networks.strategy import NetworkStrategy
from dpgm.synthesis import strategies


@dataclass(frozen=True)
class Logits(Model):
    """A network without layers: items and columns are independent."""

    kind: ClassVar[str] = "logits"

    @classmethod
    def of(cls, domain, settings):
        return cls(domain)

    @cached_property
    def layout(self):
        return ParameterLayout((WeightMatrix("logits", 0, self.domain.width),))

    def initial(self, clusters, rules=None, *, generator):
        return torch.zeros((clusters, self.layout.size))

    def warm(self, parameters, frequencies):
        return self.outputs.log_odds(frequencies.to(parameters))

    def factors(self, batch):
        def loss(parameters, record, draws):
            return self.outputs.cross_entropy(parameters, record)

        return [autograd_factor(self.layout.blocks[0], loss, batch)]

    def generate(self, parameters, state, count, *, generator):
        return parameters.repeat(count, 1)


def add() -> None:
    """Register the family, which takes one line in `strategies.py`."""
    strategies.STRATEGIES = (*strategies.STRATEGIES, NetworkStrategy(Logits))
