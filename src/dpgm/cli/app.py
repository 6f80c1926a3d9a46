"""The application object of the command line: common options, error messages and exit codes."""

import importlib
import os
import re
import shlex
import sys
import traceback
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any

import typer

from dpgm import __version__
from dpgm.cli.parsing import App, usage_message
from dpgm.data.urls import without_credentials
from dpgm.errors import CheckFailed, DpgmError, PrivacyWarning, UsageError
from dpgm.kernels import MEETING

# typer carries its own copy of click in some versions; its exceptions are found through what typer exports.
_CommandLineError: Any = next(base for base in typer.BadParameter.__mro__ if base.__name__ == "ClickException")

OUTPUT = "Output"  # a group of options in help
_ARGUMENT = re.compile(r"`(?P<name>[a-z_]+)(?:=(?P<value>[^`]*))?`")  # as messages of the library name them
_QUOTES = "'\""
STREAM = "-"  # the file name that stands for stdin or stdout
_TORCHRUN = "TORCHELASTIC_RUN_ID"  # a variable that torchrun alone sets


def option(
    flags: str, help: str, default: Any = None, *, panel: str | None = None, metavar: str | None = None
) -> Any:
    """An option of a command, used as the default of its parameter; the default `...` makes it required."""
    return typer.Option(default, *flags.split(), help=help, rich_help_panel=panel, metavar=metavar)


def argument(help: str, default: Any = ..., *, metavar: str | None = None) -> Any:
    """A positional argument of a command, used in the same way."""
    return typer.Argument(default, help=help, metavar=metavar)


FORCE = option("--force", "Replace existing outputs.", False, panel=OUTPUT)
QUIET = option("--quiet", "Print nothing but errors.", False, panel=OUTPUT)
AS_JSON = option("--json", "Print JSON.", False)
PROCESSES = option(
    "--processes", "Share the work between N processes of this machine.", 1, panel="Several processes", metavar="N"
)

app = App(
    name="dpgm",
    help="Publish sensitive records safely: differentially private generative mixtures.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",  # options in groups; square brackets in help texts stay as they are
    context_settings={"help_option_names": ["-h", "--help"]},
)


def rank_and_size() -> tuple[int, int]:
    """The rank of this process and the number of processes, as set by `--processes` or torchrun; else (0, 1).

    Other programs set RANK as well: it is ignored unless a variable of these two is set, too.
    """
    if not {_TORCHRUN, MEETING} & set(os.environ):
        return 0, 1
    return int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))


def is_first() -> bool:
    """Whether this process writes files and messages: the only one, or the first of several."""
    return rank_and_size()[0] == 0


def starts_processes(context: typer.Context, count: int) -> bool:
    """Whether the command was run in `count` processes, so that this one has nothing left to do.

    Raises:
        typer.Exit: with the exit code of the processes, if it is not 0.
    """
    if count < 1:
        raise UsageError(f"`processes` must be a whole number of at least 1; got {count}.")
    if count == 1 or MEETING in os.environ:
        return False
    if rank_and_size()[1] > 1:
        raise UsageError("torchrun has started several processes; leave out `processes`.")
    from dpgm.cli.launching import run_processes

    code = run_processes(count, context.obj)
    if code:
        raise typer.Exit(code)
    return True


@contextmanager
def process_group(arguments: Sequence[str]) -> Iterator[None]:
    """Connect the processes of a parallel `dpgm fit`, so that they can add up their sums."""
    if rank_and_size()[1] == 1 or list(arguments[:1]) != ["fit"]:
        yield
        return
    from dpgm.kernels.process_group import on_one_machine, several_processes

    if on_one_machine() and MEETING not in os.environ:
        warnings.warn(
            "torchrun listens to the whole network without a password; on one machine give `dpgm fit` `processes`"
            " instead.",
            PrivacyWarning,
            stacklevel=2,
        )
    with several_processes():
        yield


def _print_version(requested: bool) -> None:
    if requested:
        typer.echo(f"dpgm {__version__}")
        raise typer.Exit


@app.callback()
def common(
    debug: bool = option("--debug", "Show tracebacks (terminal only).", False),
    version: bool = typer.Option(
        False, "--version", callback=_print_version, is_eager=True, help="Print the version."
    ),
) -> None:
    """Publish sensitive records safely: differentially private generative mixtures."""


def printable(text: str) -> str:
    """Untrusted text on one line, without control characters that could affect the terminal, and without passwords."""
    line = without_credentials(" ".join(text.split()))
    return "".join(character if character.isprintable() else "?" for character in line)


def with_flags(message: str) -> str:
    """A message of the library, whose arguments in backticks become the options of the command line.

    >>> with_flags("say `shape='basket'`, or `header=False` with `item_separator=';'`; leave out `person`.")
    "say --shape basket, or --no-header with --item-separator ';'; leave out --person."
    """
    return _ARGUMENT.sub(_flag, message)


def _flag(argument: re.Match[str]) -> str:
    if argument["name"] not in _flags():
        return argument[0]
    flag, negated = _flags()[argument["name"]]
    value = argument["value"]
    if value in (None, "True"):
        return flag
    return negated if value == "False" else f"{flag} {shlex.quote(value.strip(_QUOTES))}"


@cache
def _flags() -> dict[str, tuple[str, str]]:
    """The option of each argument over all commands, and the option that says no to it."""
    load_commands()
    commands, flags = [typer.main.get_command(app)], {"kinds": ("--kind", "--kind")}
    for command in commands:
        commands += getattr(command, "commands", {}).values()
        for one in command.params:
            if one.param_type_name == "option" and one.name:
                flags[one.name] = (one.opts[0], [*one.secondary_opts, *one.opts][0])
    return flags


def _show_warning(message: Warning | str, *_: object, **__: object) -> None:
    if is_first():
        typer.echo(f"dpgm: warning: {printable(with_flags(str(message)))}", err=True)


def _with_json_target(arguments: list[str]) -> list[str]:
    """The arguments with `-` (stdout) after an `evaluate --json` that is not followed by a name ending in .json.

    >>> _with_json_target(["evaluate", "--json", "a.csv", "b.csv"])
    ['evaluate', '--json', '-', 'a.csv', 'b.csv']
    """
    if not arguments or arguments[0] != "evaluate":
        return arguments
    filled = []
    for at, argument in enumerate(arguments):
        filled.append(argument)
        following = arguments[at + 1] if at + 1 < len(arguments) else ""
        if argument == "--json" and following != STREAM and not following.endswith(".json"):
            filled.append(STREAM)
    return filled


def run(arguments: list[str]) -> int:
    """Run one command; returns the exit code and never raises for a user's mistake."""
    debug = "--debug" in arguments
    arguments = _with_json_target([argument for argument in arguments if argument != "--debug"])
    warnings.showwarning = _show_warning  # type: ignore[assignment]
    try:
        with process_group(arguments):
            result = typer.main.get_command(app).main(
                args=arguments, prog_name="dpgm", standalone_mode=False, obj=arguments
            )
    except (KeyboardInterrupt, typer.Abort):
        typer.echo("dpgm: interrupted", err=True)
        return 130
    except Exception as error:
        code = _explain(error)
        if debug and not isinstance(error, _CommandLineError):
            typer.echo(without_credentials(traceback.format_exc()), err=True)
        return code
    return int(result) if isinstance(result, int) else 0


def _explain(error: Exception) -> int:
    """Print in one line what ended a command; returns its exit code."""
    kind, message = "E-INTERNAL", f"{type(error).__name__}; a fault of dpgm: run again with --debug to see where."
    if isinstance(error, _CommandLineError):
        if type(error).__name__ == "NoArgsIsHelpError":  # prints the help page, without an error
            typer.echo(error.format_message(), err=True)
            return 2
        kind, message = "E-USAGE", usage_message(error)
    elif isinstance(error, DpgmError):
        kind, message = error.kind, with_flags(str(error))
    elif isinstance(error, BrokenPipeError):  # the reader of stdout stopped; discard the rest of its buffer
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 2
    elif isinstance(error, MemoryError):
        kind, message = "E-RESOURCE", "not enough memory; use a smaller input or a larger machine."
    elif isinstance(error, OSError):
        # Errors that libraries made have no such parts, and their words might repeat a value.
        said = error.strerror or "reading or writing failed; check the disk, or run again with --debug to see where"
        kind, message = "E-DISK", f"{error.filename or 'the disk'}: {said}."
    elif isinstance(error, RuntimeError) and rank_and_size()[1] > 1:  # torch raises it when another process stops
        if not is_first():
            return 2
        kind, message = "E-RESOURCE", "another process of this fit stopped; see its message, then add --resume."
    typer.echo(f"dpgm: error[{kind}]: {printable(message)}", err=True)
    return 1 if isinstance(error, CheckFailed) else 2


def load_commands() -> None:
    """Import the modules with commands, which register themselves, in the order of the help page."""
    for name in ("data", "fitting", "parts", "synthetic", "privacy", "studio"):
        importlib.import_module(f"dpgm.cli.{name}")


def main() -> None:
    """Entry point of the `dpgm` command."""
    load_commands()
    sys.exit(run(sys.argv[1:]))
