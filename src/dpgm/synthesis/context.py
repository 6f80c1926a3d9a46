"""What a fit may use that cannot alter its guarantee: device, progress, checkpoint, public records."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from dpgm.data.records import Records

if TYPE_CHECKING:
    from dpgm.synthesis.checkpoint import Checkpoint

# Called with the stage, how much of it is done and how much there is in all: public numbers only.
Progress: TypeAlias = Callable[[str, int, int], None]


def silent(stage: str, done: int, total: int) -> None:
    """Say nothing."""


@dataclass(frozen=True)
class RunContext:
    """Settings beside the plan."""

    device: str = "cpu"
    progress: Progress = silent
    checkpoint: "Checkpoint | None" = None
    public: Records | None = None

    def percent(self, stage: str) -> Callable[[float], None]:
        """A callback for the share of a stage that is done."""
        return lambda share: self.progress(stage, round(1000 * share), 1000)
