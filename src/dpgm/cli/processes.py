"""A command that torchrun started in several processes: which one this is, and who speaks."""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager


def launched() -> tuple[int, int]:
    """Which process this is and out of how many, by what torchrun says; (0, 1) without it.

    Other programs set RANK as well: it counts only where torchrun has left its own mark.
    """
    if "TORCHELASTIC_RUN_ID" not in os.environ:
        return 0, 1
    return int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))


def is_first() -> bool:
    """Whether this process writes and speaks: the only one, or the first of several."""
    return launched()[0] == 0


@contextmanager
def together(arguments: Sequence[str]) -> Iterator[None]:
    """While `dpgm fit` runs in several processes, these can add up their sums."""
    if launched()[1] == 1 or list(arguments[:1]) != ["fit"]:
        yield
        return
    from dpgm.compute.parallel import several_processes

    with several_processes():
        yield
