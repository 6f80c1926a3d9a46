"""Messages, progress bars and tables on the terminal; stdin and stdout in place of files.

Progress is a bar per stage, or plain lines if stderr is not a terminal, and shows public numbers only. A fit that stops
early says whether budget is spent, and how to resume it. `-` in place of a file means stdin or stdout, to which nothing
else is written then.
"""

import json
import os
import sys
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, TextIO

import typer

from dpgm.cli.app import STREAM, is_first, printable, rank_and_size
from dpgm.errors import UsageError

if TYPE_CHECKING:
    from pathlib import Path

    from dpgm.data.read.declared import Paths


_EVERY = 0.5  # seconds between two events of one stage


def announce(text: str) -> None:
    """Print a line on stderr, in the first process only; stdout is for results."""
    if is_first():
        typer.echo(f"dpgm: {printable(text)}", err=True)


def figure(epsilon: float) -> str:
    """An epsilon as text: four decimals, or three significant digits if it is small."""
    return f"{epsilon:.4f}" if epsilon >= 0.01 else f"{epsilon:.3g}"


@contextmanager
def bars(quiet: bool, events: "Path | None" = None) -> Iterator[Callable[[str, int, int], None]]:
    """A progress callback `(stage, done, total)` for as long as the block runs; `events` are written to a file, too."""
    with _terminal_bars(quiet) as shown:
        if events is None or not is_first():
            yield shown
            return
        with open(os.open(events, os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o600), "w", encoding="utf-8") as file:
            write = _EventLines(file)

            def both(stage: str, done: int, total: int) -> None:
                write(stage, done, total)
                shown(stage, done, total)

            yield both


class _EventLines:
    """A progress callback that writes lines of JSON: at the start and end of a stage, and every half second between."""

    def __init__(self, file: TextIO) -> None:
        self._file = file
        self._stage, self._last = "", 0.0

    def __call__(self, stage: str, done: int, total: int) -> None:
        now = time.monotonic()
        if stage == self._stage and done < total and now - self._last < _EVERY:
            return
        self._stage, self._last = stage, now
        self._file.write(json.dumps({"stage": stage, "done": done, "total": total}) + "\n")
        self._file.flush()


@contextmanager
def _terminal_bars(quiet: bool) -> Iterator[Callable[[str, int, int], None]]:
    if quiet or not is_first():
        yield lambda stage, done, total: None
        return
    if not sys.stderr.isatty():
        from dpgm.strategy.progress import StageLines

        with StageLines().beating() as lines:
            yield lines
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    tasks: dict[str, int] = {}
    columns = (TextColumn("{task.description:>12}"), BarColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True)) as progress:

        def move(stage: str, done: int, total: int) -> None:
            if stage not in tasks:
                tasks[stage] = int(progress.add_task(stage, total=total))
            progress.update(progress.tasks[tasks[stage]].id, completed=done, total=total)

        yield move


@contextmanager
def reporting_spent_budget(folder: "Path", *, unless: tuple[type[Exception], ...] = ()) -> Iterator[None]:
    """If an error ends the block, print what the checkpoint has spent and how to resume, `unless` its message does."""
    try:
        yield
    except unless:
        raise
    except BaseException:
        announce(_spent_budget(folder))
        raise


def _spent_budget(folder: "Path") -> str:
    from dpgm.synthesis.checkpoint import Checkpoint

    if not folder.exists():
        return "stopped before anything was measured: no budget is spent, and nothing was written"
    names = ["training" if name == "step" else name for name in Checkpoint.charges_in(folder)]
    spent = (
        f"the budget of {', '.join(names)} is spent" if names else "nothing was measured, but the plan is reserved"
    )
    return (
        f"stopped: {spent}. Noisy answers are kept in {folder}: resume with the same command and --resume, which costs "
        "nothing more"
    )


def is_pipe(path: "str | os.PathLike[str] | None") -> bool:
    """Whether a path stands for stdin or stdout."""
    return path is not None and os.fspath(path) == STREAM


def read_stdin(
    *paths: "Paths", detect_format: bool, format: str | None = None, folder: "Paths | None" = None
) -> "tuple[Paths, ...]":
    """The input paths of a command, with `-` replaced by a private copy of stdin in `folder`.

    With `detect_format` the format is guessed from the data, as a curator may; for a fit it must be stated.
    """
    from dpgm.data.formats import ending_of
    from dpgm.data.formats.opening import spooled

    pipes = [path for path in paths if is_pipe(path)]
    if not pipes:
        return paths
    if len(pipes) > 1:
        raise UsageError("`-` stands for stdin and can be given once; name the other file.")
    if not detect_format and format is None:
        raise UsageError("data from stdin have no file ending; state their format, such as --format csv.")
    if rank_and_size()[1] > 1:
        raise UsageError("several processes cannot read one stdin; save the data to a file first.")
    copy = spooled(sys.stdin.buffer, "stdin", folder=folder, ending_of=ending_of if detect_format else None)
    return tuple(copy if is_pipe(path) else path for path in paths)


def refuse_pipe(out: "Paths", what: str) -> None:
    """Refuse `-` where a folder is written."""
    if is_pipe(out):
        raise UsageError(f"{what} is a folder and cannot go to stdout; name a folder with --out.")


def print_table(
    title: str, columns: Sequence[str], rows: Iterable[Sequence[str | float | None]], left: Collection[str] = ()
) -> None:
    """Print a small table; the first column and those in `left` are aligned left, the others right."""
    from rich.console import Console
    from rich.table import Table

    table = Table(title=title, title_justify="left")
    for name in columns:
        table.add_column(name, justify="left" if name in (columns[0], *left) else "right")
    for row in rows:
        table.add_row(*("–" if cell is None else cell if isinstance(cell, str) else f"{cell:.3f}" for cell in row))
    Console().print(table)
