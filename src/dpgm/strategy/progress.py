"""Progress as lines of text: every stage says that it begins and, every ten seconds, how far it is."""

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_EVERY = 10.0  # seconds between the lines of a stage
_BEAT = 1.0  # seconds after which a stage that reports nothing itself is looked at


class StageLines:
    """A progress callback `(stage, done, total)` that writes lines to stderr; all of them hold public numbers only.

    Args:
        write: where lines go; by default stderr.
        clock: seconds that never go back.
    """

    def __init__(
        self, write: Callable[[str], object] | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._write, self._clock = write, clock
        self._lock = threading.Lock()
        self._begun: set[str] = set()
        self._stage, self._share, self._start, self._last = "", 1.0, 0.0, 0.0

    def __call__(self, stage: str, done: int, total: int) -> None:
        """Take note of how far a stage is."""
        with self._lock:
            if stage != self._stage:
                self._stage, self._start = stage, self._clock()
                self._last = self._start
                if stage not in self._begun:
                    self._say(f"{stage} ...")
                self._begun.add(stage)
            self._share = done / max(total, 1)
            self._say_if_due()

    def beat(self) -> None:
        """Write how far the stage is, if its last line is ten seconds old."""
        with self._lock:
            self._say_if_due()

    @contextmanager
    def beating(self) -> Iterator["StageLines"]:
        """Write lines also while a stage reports nothing, as long as the block runs."""
        ended = threading.Event()

        def run() -> None:
            while not ended.wait(_BEAT):
                self.beat()

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        try:
            yield self
        finally:
            ended.set()
            thread.join()

    def _say_if_due(self) -> None:
        now = self._clock()
        if self._share >= 1 or now - self._last < _EVERY:
            return
        self._last, passed = now, now - self._start
        left = f", about {_minutes(passed / self._share - passed)} left" if self._share > 0 else ""
        done = f" {self._share:.0%}," if self._share > 0 else ""
        self._say(f"{self._stage}{done} {_minutes(passed)} passed{left}")

    def _say(self, line: str) -> None:
        (self._write or sys.stderr.write)(f"dpgm: {line}\n")


def _minutes(seconds: float) -> str:
    """A time as minutes and seconds.

    >>> _minutes(75.4)
    '1:15'
    """
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d}"
