"""What a fit tells while it runs, for people who call it from Python."""

import sys

from dpgm.errors import UsageError
from dpgm.strategy.context import Progress, silent


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
