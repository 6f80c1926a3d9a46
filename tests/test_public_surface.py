"""The public list is complete, documented and cheap to import."""

import ast
import importlib
import re
import subprocess
import sys
from pathlib import Path

import pytest

import dpgm

ROOT = Path(__file__).parent.parent
BARE = ["kernels", "mechanisms", "statistics", "products", "trees", "tilting", "images", "networks", "baselines"]


def test_all_is_sorted_and_every_name_exists_and_says_what_it_is():
    assert dpgm.__all__ == sorted(dpgm.__all__)
    for name in dpgm.__all__:
        if name != "__version__":
            assert getattr(dpgm, name).__doc__, f"dpgm.{name} has no docstring"
    assert dir(dpgm) == dpgm.__all__
    with pytest.raises(AttributeError):
        dpgm.nonsense  # noqa: B018


def test_type_checkers_and_the_running_program_see_the_same_names():
    tree = ast.parse(Path(dpgm.__file__).with_suffix(".pyi").read_text())
    typed = {
        alias.asname: (node.module, alias.name)
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert sorted([*typed, "__version__"]) == dpgm.__all__
    for name, (module, there) in typed.items():
        assert getattr(dpgm, name) is getattr(importlib.import_module(module), there)


USERS_SCRIPT = """
import dpgm

records = dpgm.read_records("visits.parquet")
plan = dpgm.make_plan(dpgm.Config(1.0), len(records), records.domain)
try:
    fitted = dpgm.Synthesizer(epsilon=1.0).fit(records, plan=plan)
except dpgm.UsageError as error:
    raise SystemExit(str(error)) from error
fitted.save("release")
spent: float = dpgm.cost(plan.mechanisms, plan.delta).epsilon
good: bool = dpgm.verify("release").ok
drawn = dpgm.load("release").sample(10, seed=1)
draft: dpgm.Domain = dpgm.Domain.draft(drawn.to_pandas(), person="user")
typed: dpgm.Synthesizer = dpgm.Synthesizer(epsilon=1, domain="domain.yaml").fit(
    drawn.to_pandas(), person="user", item="sku", progress=True
)
shown: str = repr(typed.sample(5, seed=1, where="age >= 65"))
"""


def test_a_users_script_is_typed_and_nothing_in_it_is_any(tmp_path):
    names = [name for name in dpgm.__all__ if name != "__version__"]
    script = USERS_SCRIPT + "".join(f"reveal_type(dpgm.{name})\n" for name in names) + "reveal_type(drawn)\n"
    (tmp_path / "script.py").write_text(script)
    command = [sys.executable, "-m", "mypy", "--strict", "--config-file", str(ROOT / "pyproject.toml")]
    command += ["--cache-dir", str(ROOT / ".mypy_cache"), str(tmp_path / "script.py")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stdout
    revealed = re.findall(r'Revealed type is "(.*)"', done.stdout)
    assert len(revealed) == len(names) + 1
    vague = [name for name, kind in zip([*names, "drawn"], revealed, strict=True) if kind == "Any"]
    assert not vague
    (tmp_path / "script.py").write_text("import dpgm\n\ndpgm.nonsense\n")
    assert subprocess.run(command, capture_output=True, check=False, cwd=ROOT).returncode == 1


def _modules_after(code: str) -> set[str]:
    script = f"import sys; {code}; print(' '.join(sys.modules))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return set(done.stdout.splitlines()[-1].split())


def test_help_imports_nothing_heavy():
    loaded = _modules_after("from dpgm.cli.app import load_commands; load_commands()")
    heavy = {"torch", "matplotlib", "scipy", "pyarrow", "pandas", "numba", "dp_accounting", "sklearn", "numpy"}
    assert not loaded & heavy


def test_numerical_packages_import_torch_and_numpy_alone():
    source = ROOT / "src" / "dpgm"
    paths = [path for package in BARE for path in (source / package).glob("*.py") if path.stem != "__init__"]
    loaded = _modules_after("import " + ", ".join(f"dpgm.{path.parent.name}.{path.stem}" for path in paths))
    # numba loads yaml by itself where that is installed
    banned = {"pyarrow", "pandas", "polars", "pydantic", "typer", "dp_accounting", "sklearn", "matplotlib"}
    assert not loaded & banned


def test_every_command_is_in_the_readme_or_the_docs():
    from dpgm.cli.app import app, load_commands

    load_commands()
    text = (ROOT / "README.md").read_text() + "".join(path.read_text() for path in (ROOT / "docs").rglob("*.md"))
    for command in app.registered_commands:
        name = command.name or command.callback.__name__
        assert re.search(rf"dpgm {name}\b", text), f"`dpgm {name}` is not documented"
        assert "Example:" in (command.callback.__doc__ or "") or name in (
            "cost",
            "verify",
            "inspect",
            "simulate",
            "evaluate",
        )


def test_links_in_the_docs_lead_somewhere():
    for page in [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]:
        for target in re.findall(r"\]\(([^)#]+?\.md)\)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name} links to {target}, which is not there"


def test_nothing_refers_to_a_file_that_is_not_here_or_to_one_machine():
    known = {path.name for path in ROOT.glob("*.md")}
    known |= {
        path.name for folder in ("docs", "experiments", "benchmarks") for path in (ROOT / folder).rglob("*.md")
    }
    known |= {"README.md", "nist.md"}  # of a release; a template of the report
    folders = [ROOT / name for name in ("src", "tests", "docs", "experiments", "benchmarks")]
    for path in [ROOT / "README.md", *(path for folder in folders for path in folder.rglob("*.*"))]:
        if path.suffix not in (".py", ".md") or path == Path(__file__):
            continue
        text = path.read_text()
        strangers = {Path(name).name for name in re.findall(r"[\w./-]+\.md\b", text)} - known
        assert not strangers or path.is_relative_to(ROOT / "tests"), f"{path.relative_to(ROOT)} cites {strangers}"
        assert not re.search(r"\b(RELIABILITY|FINDINGS|HOUSE|STYLE)\b", text), path
        assert not re.search(r"[\"'(]/(work|root|home)/", text), (
            f"{path.relative_to(ROOT)} has a path of one machine"
        )


def test_the_version_is_in_the_changelog_or_unreleased():
    changes = (ROOT / "CHANGELOG.md").read_text()
    assert "## Unreleased" in changes or f"## {dpgm.__version__}" in changes


def test_nothing_reads_or_writes_pickles_or_opens_sockets():
    banned = re.compile(
        r"\b(import pickle|from pickle|torch\.load|joblib|cloudpickle|import socket|urllib\.request|import requests)\b"
    )
    for path in (ROOT / "src").rglob("*.py"):
        text = path.read_text()
        if path.parts[-2:] == ("studio", "server.py"):  # it alone listens, on this computer alone (tests/studio)
            text = text.replace("import socket as sockets", "")
        found = banned.search(text)
        assert not found, f"{path}: {found.group() if found else ''}"


def test_every_module_says_what_it_holds():
    for path in (ROOT / "src" / "dpgm").rglob("*.py"):
        name = ".".join(path.relative_to(ROOT / "src").with_suffix("").parts).removesuffix(".__init__")
        if not name.endswith("__main__"):
            assert (importlib.import_module(name).__doc__ or "").strip(), f"{name} has no docstring"
