"""What a fit may use that cannot alter its guarantee: device, progress, checkpoint, public records, released sums."""

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from dpgm.data.records import Records
from dpgm.errors import BudgetError, UsageError

# Called with the stage, how much of it is done and how much there is in all: public numbers only.
Progress: TypeAlias = Callable[[str, int, int], None]


def silent(stage: str, done: int, total: int) -> None:
    """Say nothing."""


class SavedProgress(Protocol):
    """What a family may ask of the checkpoint of its fit."""

    @property
    def lost(self) -> dict[str, int]:
        """Releases that were charged but whose answer never reached the disk."""
        ...

    @property
    def steps_charged(self) -> int:
        """Training steps spent, whether or not their result survived."""
        ...

    def trainer_state(self) -> dict[str, Tensor] | None:
        """The state of the last completed block of steps."""
        ...

    def charge(self, name: str, runs: int = 1) -> None:
        """Write down a spending before it happens."""
        ...

    def save_steps(self, steps: int, state: Mapping[str, Tensor]) -> None:
        """Save the trainer after `steps` steps."""
        ...


@dataclass(frozen=True)
class RunContext:
    """Settings beside the plan."""

    device: str = "cpu"
    progress: Progress = silent
    checkpoint: SavedProgress | None = None
    public: Records | None = None
    # Of every position, the noisy sum that was released with it while the domain was discovered; None if any has none.
    pilot: NDArray[np.float64] | None = None
    # Bytes that the process should keep to; None: all there is.
    memory: int | None = None

    def percent(self, stage: str) -> Callable[[float], None]:
        """A callback for the share of a stage that is done."""
        return lambda share: self.progress(stage, round(1000 * share), 1000)

    def runs_left(self, planned: Mapping[str, int]) -> int:
        """Rounds that can still be made of mechanisms that run together, given how often each is planned.

        Runs that were charged but lost in a crash come out of the planned ones.
        """
        lost = {} if self.checkpoint is None else self.checkpoint.lost
        left = min(count - lost.get(name, 0) for name, count in planned.items())
        if left < 1:
            raise BudgetError(
                f"crashes have used up every run of {next(iter(planned))!r}; start again with a new budget."
            )
        return left


def reporting(progress: Progress | bool) -> Progress:
    """A progress callback: nothing, a line on stderr as each stage begins, or the caller's own."""
    if progress is True:
        return _Stages()
    if progress is False or progress is None:
        return silent
    if not callable(progress):
        raise UsageError("`progress` must be True, False or a function of (stage, done, total).")
    return progress


class _Stages:
    """One line per stage."""

    def __init__(self) -> None:
        self._begun: set[str] = set()

    def __call__(self, stage: str, done: int, total: int) -> None:
        if stage not in self._begun:
            self._begun.add(stage)
            sys.stderr.write(f"dpgm: {stage} ...\n")
