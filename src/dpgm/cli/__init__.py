"""The command line: each command parses, calls one library function, prints.

Commands live in the modules of this package, one per group of nouns. Heavy imports (torch, matplotlib, pyarrow)
happen inside commands, so that `dpgm --help` stays fast.
"""

from dpgm.cli.app import app, main

__all__ = ["app", "main"]
