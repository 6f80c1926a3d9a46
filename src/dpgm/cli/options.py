"""Groups of options that several commands share: reading a data file, and requesting a generator.

A command receives a group as one value; its decorator replaces that parameter by the single options:

    @app.command()
    @takes_read_options
    def inspect(data: str = DATA, *, options: "ReadOptions", ...) -> None:
        found = dpgm.inspect_file(data, options, ...)
"""

import functools
import inspect
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ForwardRef, TypeAlias

from dpgm.cli.app import argument, option
from dpgm.data.read.declared import Declared, Paths, declared
from dpgm.strategy.settings import Config

if TYPE_CHECKING:
    from dpgm.data.read.options import ReadOptions

PRIVACY, GENERATOR, _READING = "Privacy", "The generator", "Reading the data"  # groups in help
_CERTIFICATE = "The certificate"
Command: TypeAlias = Callable[..., None]

EPSILON = ("--epsilon", "Privacy budget; 1 is a usual choice.")
DATA = argument("The data file (archive.zip::member for one in a zip, - for stdin).", metavar="DATA")


def _parameter(
    name: str, kind: Any, help: str, metavar: str | None = None, default: Any = None, panel: str = _READING
) -> inspect.Parameter:
    flag = f"--{name.replace('_', '-')}"
    flags = f"{flag}/--no-{name}" if kind == bool | None else flag
    declared = option(flags, help, False if kind is bool else default, panel=panel, metavar=metavar)
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=declared, annotation=kind)


def _takes(
    parameter: str, options: list[inspect.Parameter], made: Callable[..., Any]
) -> Callable[[Command], Command]:
    """A decorator for commands whose `parameter` is made from single options."""

    def decorate(command: Command) -> Command:
        @functools.wraps(command)
        def with_single_options(**arguments: Any) -> None:
            chosen = {one.name: arguments.pop(one.name) for one in options}
            command(**arguments, **{parameter: made(**chosen)})

        expanded: list[inspect.Parameter] = []
        for name, one in inspect.signature(command).parameters.items():
            expanded += options if name == parameter else [one.replace(kind=inspect.Parameter.KEYWORD_ONLY)]
        with_single_options.__signature__ = inspect.Signature(expanded)  # type: ignore[attr-defined]
        with_single_options.__annotations__ = {one.name: one.annotation for one in expanded} | {"return": None}
        del with_single_options.__wrapped__  # type: ignore[attr-defined]
        return with_single_options

    return decorate


# How the command line takes what Python takes in more ways.
_COMMAND_TYPES: dict[Any, Any] = {
    Paths | None: Path | None,
    Sequence[str]: list[str] | None,
    str | int | None: str | None,
    ForwardRef("DomainLike | None"): Path | None,
}


def _read_parameter(one: Declared) -> inspect.Parameter:
    """A reading option as an option of a command."""
    default = None if one.default == () else one.default
    kind = _COMMAND_TYPES.get(one.type, one.type)
    return _parameter(one.name, kind, one.option.help, one.option.metavar, default)


READ_OPTIONS = [_read_parameter(one) for one in declared()]


def read_options(**chosen: Any) -> "ReadOptions":
    """The `ReadOptions` of the options of a command."""
    from dpgm.data.read.options import ReadOptions

    for name in ("separator", "item_separator"):
        if chosen[name] in ("\\t", "tab"):
            chosen[name] = "\t"
    lists = {one.name: chosen[one.name] or () for one in declared() if one.default == ()}
    return ReadOptions(**chosen | lists)


# The options of `plan` and `fit` that request a generator, besides epsilon.
REQUEST_OPTIONS = [
    _parameter("delta", float | None, "By default 1 / (10 x number of records).", panel=PRIVACY),
    _parameter("clusters", int | None, "Number of networks in a mixture of vae or rbm.", panel=GENERATOR),
    _parameter(
        "model",
        str,
        "auto, trees, products, image, sequences, vae, rbm, independent or mwem.",
        default="auto",
        panel=GENERATOR,
    ),
    _parameter("preset", str, "default, or paper for the paper's own choices.", default="default", panel=GENERATOR),
    _parameter(
        "mean_length",
        float | None,
        "Public mean number of items per record, from which a vae or rbm starts.",
        panel=GENERATOR,
    ),
]

# What the curator says on the certificate.
ABOUT_OPTIONS = [
    _parameter("title", str | None, "A name for the release, on its certificate.", panel=_CERTIFICATE),
    _parameter("owner", str | None, "Who answers for it.", panel=_CERTIFICATE),
    _parameter("population", str | None, "Whom the data are about, and from when.", panel=_CERTIFICATE),
    _parameter("date", str | None, "The day of the release, as 2026-01-31.", panel=_CERTIFICATE),
    _parameter(
        "about", Path | None, "A YAML or JSON file with any of these four.", metavar="FILE", panel=_CERTIFICATE
    ),
]


def about(**chosen: Any) -> Any:
    """The `About` of these options: those of the command line win over those of the file."""
    from dpgm.data.domain_file import read_plain
    from dpgm.errors import UsageError
    from dpgm.privacy.certificate import About

    file = chosen.pop("about")
    written = {} if file is None else read_plain(file, "file for `about`")
    if not isinstance(written, dict) or not set(written) <= set(chosen):
        raise UsageError(f"{file} may hold {', '.join(chosen)} and nothing else, each with a text.")
    return About(**{name: str(text) for name, text in (written | _given(chosen)).items()})


def _given(chosen: dict[str, Any]) -> dict[str, Any]:
    return {name: text for name, text in chosen.items() if text is not None}


takes_about = _takes("about", ABOUT_OPTIONS, about)
takes_read_options = _takes("options", READ_OPTIONS, read_options)
# The command calls `request(epsilon)` to get a Config.
takes_request = _takes("request", REQUEST_OPTIONS, lambda **chosen: functools.partial(Config, **chosen))
