"""Writes what follows from declarations: docs/reference/cli.md, docs/reference/python.md and the keywords of readers.

    python tools/docs_reference.py

The files are committed; `tests/docs/test_documents.py` fails when they differ from what the commands and the public names
say today. Reads the commands themselves, not their printed help, so that the page does not depend on a terminal.
"""

import ast
import inspect
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
CLI = ROOT / "docs" / "reference" / "cli.md"
PYTHON = ROOT / "docs" / "reference" / "python.md"
READING = ROOT / "src" / "dpgm" / "data" / "read"
KEYWORDS = READING / "keywords.py"

# Headings of the Python page and the names below each; a public name that is in none of them fails a test.
GROUPS = {
    "Fit, release, sample": (
        "Synthesizer Config Plan make_plan read_plan Release load verify Verification Certificate About Mechanism"
    ),
    "Data": (
        "Records Domain load_domain save_domain ReadOptions read_records read_source Source as_records RecordWriter "
        "write_records inspect_file simulate_transit simulate_cdr simulate_trips "
        "Events"
    ),
    "Fields of a domain": "ItemSet ItemSequence Categorical Numeric Date DateTime Boolean Image Identifier Ignored",
    "Rows in several places": "measure_part fit_parts MeasuredPart PartRequest",
    "Budget": "cost Ledger",
    "Evaluation": "evaluate Evaluation read_workload write_report clustering_accuracy",
    "Baselines and parts": "AnswerZero IndependentMarginals Mwem PrivateKernelKMeans FourierFeatures",
    "Errors": (
        "DpgmError UsageError NotFittedError InputError BudgetError DiskError ArtefactError ResourceError CheckFailed "
        "PrivacyWarning"
    ),
}


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")


def _default(parameter: Any) -> str:
    value = parameter.default
    if callable(value) or value is None or value is False or value == "" or value == ():
        return "required" if parameter.required else ""
    return f"`{value}`"


def _names(parameter: Any) -> str:
    if parameter.param_type_name == "argument":
        return (
            f"`{parameter.make_metavar_name()}`"
            if hasattr(parameter, "make_metavar_name")
            else (f"`{(parameter.metavar or parameter.name).upper()}`")
        )
    return ", ".join(f"`{name}`" for name in [*parameter.opts, *parameter.secondary_opts])


def _command(name: str, command: Any) -> list[str]:
    help_text = inspect.cleandoc(command.help or "").replace("\f", "")
    lines = [f"## dpgm {name}", "", help_text.replace("\nExample: ", "\n\nExample:\n\n    "), ""]
    shown = [one for one in command.params if not getattr(one, "hidden", False) and one.name != "help"]
    if shown:
        lines += ["| argument or option | what it is | default |", "|---|---|---|"]
        lines += [f"| {_names(one)} | {_cell(one.help or '')} | {_default(one)} |" for one in shown]
        lines.append("")
    return lines


def commands() -> dict[str, Any]:
    """Every command by what follows `dpgm` on the command line; groups are taken apart."""
    import typer

    from dpgm.cli.app import app, load_commands

    load_commands()
    found: dict[str, Any] = {}

    def walk(prefix: str, group: Any) -> None:
        for name, command in group.commands.items():
            full = f"{prefix} {name}".strip()
            if hasattr(command, "commands"):
                walk(full, command)
            else:
                found[full] = command

    walk("", typer.main.get_command(app))
    return dict(sorted(found.items()))


def cli_page() -> str:
    """The page of commands."""
    lines = [
        "# Commands",
        "",
        "Generated from the commands by `python tools/docs_reference.py`; `dpgm COMMAND --help` says the same.",
        "",
        "Before the command: `--debug` shows where an error came from, `--version` prints the version. Exit codes: 0 done;",
        "1 a check of `verify` or `audit` did not hold; 2 an error, one sentence on stderr ([errors](errors.md)); 130",
        "interrupted.",
        "",
    ]
    for name, command in commands().items():
        lines += _command(name, command)
    return "\n".join(lines).rstrip() + "\n"


def _reading_options() -> list[str]:
    from dpgm.data.read.declared import declared

    lines = ["| option | what it says | default |", "|---|---|---|"]
    return [*lines, *(f"| `{one.name}` | {_cell(one.option.help)} | `{one.default!r}` |" for one in declared()), ""]


def keywords_module() -> str:
    """The module of the keywords that readers take, which type checkers and editors understand."""
    from dpgm.data.read.declared import declared

    in_memory = {one.name for one in declared() if one.option.in_memory}
    tree = ast.parse((READING / "declared.py").read_text())
    (options,) = (one for one in tree.body if isinstance(one, ast.ClassDef) and one.name == "DeclaredOptions")
    fields: dict[str, str] = {}
    for field in options.body:
        if isinstance(field, ast.AnnAssign) and isinstance(field.annotation, ast.Subscript):
            kind = field.annotation.slice.elts[0]
            fields[field.target.id] = kind.value if isinstance(kind, ast.Constant) else ast.unparse(kind)
    for_files = [f"    {name}: {kind}" for name, kind in fields.items() if name not in in_memory]
    for_both = [f"    {name}: {kind}" for name, kind in fields.items() if name in in_memory]
    return "\n".join(
        [
            '"""The keywords of functions that read files. Written by `tools/docs_reference.py` from `declared`."""',
            "",
            "from collections.abc import Sequence",
            "from typing import TypedDict",
            "",
            "from dpgm.data.domain_file import DomainLike",
            "from dpgm.data.read.declared import Paths",
            "",
            "",
            "class FileKeywords(TypedDict, total=False):",
            '    """What `Synthesizer.fit` takes for a file, besides its own arguments."""',
            "",
            *for_files,
            "",
            "",
            "class ReadKeywords(FileKeywords, total=False):",
            '    """What `read_records`, `read_source` and `inspect_file` take."""',
            "",
            *for_both,
            "",
        ]
    )


def python_page() -> str:
    """The page of public names, which mkdocstrings fills when the site is built."""
    lines = [
        "# Python",
        "",
        "Every public name is imported from `dpgm` itself. Names are loaded on first use, so `import dpgm` is fast.",
        "Generated by `python tools/docs_reference.py`; the site shows signatures and docstrings.",
        "",
    ]
    for title, names in GROUPS.items():
        lines += [f"## {title}", ""]
        for name in names.split():
            lines += [f"::: dpgm.{name}", "", *(_reading_options() if name == "ReadOptions" else [])]
    return "\n".join(lines).rstrip() + "\n"


def main() -> None:
    CLI.parent.mkdir(parents=True, exist_ok=True)
    CLI.write_text(cli_page())
    PYTHON.write_text(python_page())
    KEYWORDS.write_text(keywords_module())


if __name__ == "__main__":
    main()
