"""Progress on the terminal: a bar a stage, or plain lines when nobody is watching. Shows public numbers only."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import typer

from dpgm.cli.app import printable
from dpgm.cli.processes import is_first


def announce(text: str) -> None:
    """One line on stderr, of the first process alone; stdout is for results."""
    if is_first():
        typer.echo(f"dpgm: {printable(text)}", err=True)


def figure(epsilon: float) -> str:
    """An epsilon for people: four decimals, unless those would show a small one as nothing."""
    return f"{epsilon:.4f}" if epsilon >= 0.01 else f"{epsilon:.3g}"


@contextmanager
def bars(quiet: bool) -> Iterator[Callable[[str, int, int], None]]:
    """A progress callback `(stage, done, total)` for as long as the block runs."""
    if quiet or not is_first():
        yield lambda stage, done, total: None
        return
    if not sys.stderr.isatty():
        begun: set[str] = set()

        def line(stage: str, done: int, total: int) -> None:
            if stage not in begun:
                begun.add(stage)
                announce(f"{stage} ...")

        yield line
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    shown: dict[str, int] = {}
    columns = (TextColumn("{task.description:>12}"), BarColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True)) as progress:

        def move(stage: str, done: int, total: int) -> None:
            if stage not in shown:
                shown[stage] = int(progress.add_task(stage, total=total))
            progress.update(progress.tasks[shown[stage]].id, completed=done, total=total)

        yield move
