"""Progress of a fit: lines where stderr is no terminal, bars where it is one."""

import os
import pty
import subprocess
import sys

from dpgm.strategy.progress import StageLines


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


def lines_of(events):
    """The lines written while (seconds, stage, done, total) pass; `None` for the stage is a beat without a report."""
    clock, written = Clock(), []
    lines = StageLines(written.append, clock)
    for clock.now, *report in events:
        lines.beat() if report == [None] else lines(*report)
    return "".join(written).splitlines()


def test_a_long_stage_says_every_ten_seconds_how_far_it_is():
    refine = [(second, "refine", 10 * second, 1000) for second in range(0, 36)]
    assert lines_of(refine) == [
        "dpgm: refine ...",
        "dpgm: refine 10%, 0:10 passed, about 1:30 left",
        "dpgm: refine 20%, 0:20 passed, about 1:20 left",
        "dpgm: refine 30%, 0:30 passed, about 1:10 left",
    ]


def test_a_stage_that_reports_nothing_is_seen_to_run():
    events = [(0, "measure", 0, 1), *((second, None) for second in range(1, 22)), (22, "measure", 1, 1), (40, None)]
    assert lines_of(events) == ["dpgm: measure ...", "dpgm: measure 0:10 passed", "dpgm: measure 0:20 passed"]


def test_quick_stages_write_one_line_each():
    assert lines_of([(0, "measure", 0, 1), (1, "measure", 1, 1), (1, "refine", 1, 9), (8, "refine", 9, 9)]) == [
        "dpgm: measure ...",
        "dpgm: refine ...",
    ]


def test_beats_end_with_the_block(monkeypatch):
    monkeypatch.setattr("dpgm.strategy.progress._BEAT", 0.001)
    clock, written = Clock(), []
    with StageLines(written.append, clock).beating() as lines:
        lines("measure", 0, 1)
        clock.now = 10.5
        while len(written) < 2:
            pass
    assert written[1:] == ["dpgm: measure 0:10 passed\n"]


def test_a_terminal_shows_bars_with_the_time(data, tmp_path):
    """On a pseudo terminal the stage of a fit is a bar with two times: elapsed, and left."""
    control, terminal = pty.openpty()
    command = [sys.executable, "-m", "dpgm", "fit", str(data), "--assume-public-items", "--epsilon", "1"]
    with subprocess.Popen([*command, "--out", str(tmp_path / "release")], stdout=terminal, stderr=terminal) as fit:
        os.close(terminal)
        shown = b""
        while True:
            try:
                part = os.read(control, 1 << 16)
            except OSError:  # the other end is closed
                break
            if not part:
                break
            shown += part
    os.close(control)
    assert fit.returncode == 0
    bar = next(line for line in shown.decode().splitlines() if "refine" in line)
    assert bar.count(":") >= 4  # 0:00:01 0:00:05
