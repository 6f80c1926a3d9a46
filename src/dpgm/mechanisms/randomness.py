"""Where randomness comes from: the operating system by default, a seed only in tests and figures.

A source gives raw 64-bit words for privacy (noise and Poisson coins), addressed by stream so that a sample does
not depend on how blocks of rows are spread over processes, and a torch generator for public draws (initial
weights, latent draws, synthetic records), which is post-processing.
"""

import secrets
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray


class Randomness(Protocol):
    """A source of random words and of public draws."""

    name: str
    private: bool

    def words(self, count: int) -> NDArray[np.uint64]:
        """`count` fresh 64-bit words, never repeated."""
        ...

    def stream(self, *address: int) -> "WordStream":
        """An independent stream of words for an address such as (purpose, step, block)."""
        ...

    def draws(self, device: torch.device | str = "cpu") -> torch.Generator:
        """A generator for public draws (post-processing)."""
        ...


class WordStream(Protocol):
    """An endless stream of 64-bit words."""

    def words(self, count: int) -> NDArray[np.uint64]:
        """The next `count` words."""
        ...


class _NumpyStream:
    def __init__(self, seed: list[int]) -> None:
        self._bits = np.random.Philox(np.random.SeedSequence(seed))

    def words(self, count: int) -> NDArray[np.uint64]:
        return self._bits.random_raw(count)


class SeededRandomness:
    """Reproducible; for tests and figures. Voids the guarantee: whatever it touches is NOT PRIVATE."""

    private = False

    def __init__(self, seed: int) -> None:
        self.name = f"seeded generator, seed {seed} (NOT PRIVATE)"
        self._seed = seed
        self._main = _NumpyStream([seed, 0])

    def words(self, count: int) -> NDArray[np.uint64]:
        """`count` fresh words."""
        return self._main.words(count)

    def stream(self, *address: int) -> WordStream:
        """An independent stream for an address."""
        return _NumpyStream([self._seed, 1, *address])

    def draws(self, device: torch.device | str = "cpu") -> torch.Generator:
        """A generator for public draws."""
        return torch.Generator(device).manual_seed(self._seed)


class SystemRandomness(SeededRandomness):
    """TEMPORARY stand-in, to be replaced by AES-CTR keyed by the operating system."""

    private = True

    def __init__(self) -> None:
        super().__init__(secrets.randbits(62))
        self.name = "operating system"
