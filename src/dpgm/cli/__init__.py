"""The `dpgm` command line: each command parses its options, calls one library function and prints the result.

The modules `data`, `fitting`, `synthetic` and `privacy` have the commands. Heavy imports (torch, pyarrow, rich) happen
inside commands, so that `dpgm --help` stays fast.
"""

from dpgm.cli.app import app, main

__all__ = ["app", "main"]
