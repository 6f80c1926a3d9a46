"""`-` in the place of a file: data from stdin, results to stdout (and then nothing else goes there)."""

import os
import sys
from typing import TYPE_CHECKING

from dpgm.cli.processes import launched

if TYPE_CHECKING:
    from pathlib import Path

    from dpgm.data.options import Paths

PIPE = "-"


def is_pipe(path: "str | os.PathLike[str] | None") -> bool:
    """Whether a path stands for stdin or stdout."""
    return path is not None and os.fspath(path) == PIPE


def read_stdin(
    *paths: "Paths", look: bool, format: str | None = None, folder: "Paths | None" = None
) -> "tuple[Paths, ...]":
    """The paths as they are, with a private copy of stdin in the place of `-`.

    Args:
        paths: inputs of a command; one of them may be `-`.
        look: find out the format from the data, as a curator who looks at them may; a fit is told it.
        format: what `--format` says.
        folder: where the copy is kept.
    """
    from dpgm.data.opening import spooled
    from dpgm.errors import UsageError

    asked = [path for path in paths if is_pipe(path)]
    if not asked:
        return paths
    if len(asked) > 1:
        raise UsageError("`-` stands for stdin and can be given once; name the other file.")
    if not look and format is None:
        raise UsageError("data from stdin have no name that tells their format; say it, such as --format csv.")
    if launched()[1] > 1:
        raise UsageError("several processes cannot read one stdin; save the data to a file first.")
    copy = spooled(sys.stdin.buffer, "stdin", look=look, folder=folder)
    return tuple(copy if is_pipe(path) else path for path in paths)


def refuse_pipe(out: "Path", what: str) -> None:
    """Refuse `-` where a folder is written."""
    from dpgm.errors import UsageError

    if is_pipe(out):
        raise UsageError(f"{what} is a folder and cannot go to stdout; name a folder with --out.")
