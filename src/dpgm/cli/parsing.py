"""What dpgm adds to typer: an option is given once, flags show no type in help, errors are in the words of dpgm."""

from collections import Counter
from collections.abc import Callable
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from dpgm.errors import UsageError

_NUMBERS = {"integer": "a whole number", "number": "a number", "float": "a number"}  # by a word of typer's message


class _Parsing:
    """Refuses an option given twice, where typer would take the last value without a word."""

    def get_params(self, ctx: Any) -> list[Any]:
        """The options and arguments; flags have no type to show in help."""
        parameters: list[Any] = super().get_params(ctx)  # type: ignore[misc]
        for one in parameters:
            if getattr(one, "is_flag", False):
                one.metavar = ""
        return parameters

    def make_parser(self, ctx: Any) -> Any:
        """The parser of the command line, which counts how often each option is given."""
        parser: Any = super().make_parser(ctx)  # type: ignore[misc]
        parse = parser.parse_args

        def parse_once(args: list[str]) -> Any:
            parsed = parse(args=args)
            if not ctx.resilient_parsing:  # completing a line that is not finished
                _refuse_repeated(parsed[2])
            return parsed

        parser.parse_args = parse_once
        return parser


class _Command(_Parsing, TyperCommand):
    pass


class _Group(_Parsing, TyperGroup):
    pass


class App(typer.Typer):
    """A group of commands that are parsed in this way."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(cls=_Group, **settings)

    def command(self, name: str | None = None, **settings: Any) -> Callable[..., Any]:  # type: ignore[override]
        """The decorator of a command."""
        return super().command(name, cls=_Command, **settings)


def _refuse_repeated(given: list[Any]) -> None:
    """Raise if an option of one value occurs twice; `given` has an entry per occurrence, whatever its spelling."""
    counts = Counter(one.name for one in given if one.param_type_name == "option" and not one.multiple)
    for one in given:
        if counts[one.name] > 1:
            names = " or ".join((*one.opts, *one.secondary_opts))
            raise UsageError(f"{names} is given {counts[one.name]} times; give it once.")


def usage_message(error: Any) -> str:
    """What typer found wrong with a command line, as a sentence of dpgm."""
    message, parameter = str(error.format_message()), getattr(error, "param", None)
    if parameter is None:
        return message
    name = parameter.opts[0] if parameter.param_type_name == "option" else (parameter.metavar or parameter.name)
    if message.startswith("Missing"):
        return f"{name} is missing; `--help` after the command says what it is."
    rule = next((words for kind, words in _NUMBERS.items() if kind in error.message), None)
    if rule is None:
        return message.replace("Value error, ", "")
    errors = getattr(error.__cause__, "errors", None)  # of pydantic, with the text that was given
    got = "" if errors is None else f"; got {errors()[0]['input']!r}"
    return f"{name} must be {rule}{got}."
