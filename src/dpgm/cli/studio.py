"""The command `serve`: the web studio."""

import sys
from pathlib import Path

import typer

from dpgm.cli.app import app, argument, option
from dpgm.errors import UsageError


@app.command()
def serve(
    folder: Path = argument("The folder with your data; the studio writes into its folder dpgm-studio."),
    max_upload: int = option("--max-upload", "Largest file that may be dropped on a page, in megabytes.", 2048),
) -> None:
    """Open a web studio on this computer alone: from a file to a release, without a line of code.

    Example: dpgm serve .
    """
    try:
        from dpgm.studio.server import serve_folder
    except ImportError:
        raise UsageError("the studio needs a few more packages; run `pip install 'dpgm[studio]'`.") from None
    if max_upload < 1:
        raise UsageError(f"`max_upload` must be a whole number of at least 1; got {max_upload}.")
    serve_folder(folder, debug="--debug" in sys.argv, largest=max_upload * 2**20, say=_say)


def _say(text: str) -> None:
    typer.echo(f"dpgm: {text}", err=True)
