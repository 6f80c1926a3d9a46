"""Nothing is undocumented: commands, options, public names, kinds of errors, fields of certificate and plan."""

import dataclasses
import importlib.util
import re
import shlex
import shutil
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest
import yaml

import dpgm
from dpgm import errors
from dpgm.privacy.certificate import LedgerMark
from dpgm.privacy.events import Mechanism
from dpgm.privacy.odds import Odds

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PACKAGE = ROOT / "src" / "dpgm"
LOADED = re.compile(
    r"""(?:src|poster)\s*=\s*["']?(?:https?:)?//|<link\b[^>]*href\s*=\s*["']?(?:https?:)?//|@import|url\(["']?https?:"""
)


def _load(path: Path):
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def reference():
    return _load(ROOT / "tools" / "docs_reference.py")


def test_the_page_of_commands_is_what_the_commands_say(reference):
    assert reference.CLI.read_text() == reference.cli_page(), "run `python tools/docs_reference.py`"


def test_every_command_and_option_is_on_that_page(reference):
    page = reference.CLI.read_text()
    for name, command in reference.commands().items():
        section = page.split(f"## dpgm {name}\n")[1].split("\n## ")[0]
        for parameter in command.params:
            for option in parameter.opts if parameter.param_type_name == "option" else ():
                assert f"`{option}`" in section or option in ("--help", "-h"), f"dpgm {name} {option}"
            assert parameter.name == "help" or (parameter.help or "").strip(), f"dpgm {name}: {parameter.name}"


def _told_commands():
    """Every `dpgm ...` line of README and docs: in a code block, or indented."""
    for page in [ROOT / "README.md", *DOCS.rglob("*.md")]:
        for line in re.findall(
            r"^(?: {4}|)(?:torchrun .* -m )?(dpgm [a-z].*)$", page.read_text(), flags=re.MULTILINE
        ):
            yield page.relative_to(ROOT), shlex.split(line, comments=True)[1:]


def test_every_command_line_that_the_documents_show_has_options_that_exist(reference):
    known = reference.commands()
    told = [(page, words) for page, words in _told_commands() if not words[0].startswith("-")]
    assert len(told) > 40
    for page, words in told:
        name = " ".join(words[:2]) if words[0] in ("ledger", "keys") else words[0]
        assert name in known, f"{page}: dpgm {name}"
        options = {one for parameter in known[name].params for one in [*parameter.opts, *parameter.secondary_opts]}
        for word in words:
            option = word.split("=")[0]
            assert not option.startswith("--") or option in options, f"{page}: dpgm {name} {option}"


def test_the_page_of_python_names_has_every_public_name_once(reference):
    assert reference.PYTHON.read_text() == reference.python_page(), "run `python tools/docs_reference.py`"
    named = " ".join(reference.GROUPS.values()).split()
    assert sorted(named) == sorted(name for name in dpgm.__all__ if name != "__version__")


def test_the_keywords_of_readers_are_the_declared_options(reference):
    assert reference.KEYWORDS.read_text() == reference.keywords_module(), "run `python tools/docs_reference.py`"


def test_every_kind_of_error_is_explained():
    page = (DOCS / "reference" / "errors.md").read_text()
    for thing in vars(errors).values():
        if isinstance(thing, type) and issubclass(thing, Exception | Warning):
            assert f"`{thing.__name__}`" in page, thing
            assert f"`{getattr(thing, 'kind', thing.__name__)}`" in page, thing


def test_every_field_of_certificate_plan_and_mechanism_is_explained():
    page = (DOCS / "reference" / "files.md").read_text()
    certificate, plan = page.split("## The certificate")[1].split("## The plan")
    plan = plan.split("## The ledger")[0]
    for kind in (dpgm.Certificate, dpgm.About, Odds, LedgerMark, Mechanism):
        for field in dataclasses.fields(kind):
            assert f"`{field.name}`" in certificate, f"{kind.__name__}.{field.name}"
    written = dpgm.make_plan(dpgm.Config(1.0), 1000, dpgm.Domain.of_items(5)).to_json()
    assert set(re.findall(r"^\| `(\w+)` \|", plan, flags=re.MULTILINE)) == set(written)
    for name in (
        "certificate.json",
        "model.safetensors",
        "domain.json",
        "README.md",
        "certificate.html",
        "certificate.intoto.jsonl",
    ):
        assert f"`{name}`" in page


def _pages(entry):
    if isinstance(entry, str):
        yield entry
    else:
        for value in entry.values() if isinstance(entry, dict) else entry:
            yield from _pages(value)


def test_the_site_has_every_page_and_loads_nothing_from_elsewhere():
    settings = yaml.safe_load((ROOT / "mkdocs.yml").read_text())
    listed = list(_pages(settings["nav"]))
    assert sorted(listed) == sorted(str(path.relative_to(DOCS)) for path in DOCS.rglob("*.md"))
    assert settings["theme"]["font"] is False
    assert settings["theme"].get("custom_dir") is None
    assert settings["extra"] == {"generator": False}
    assert not {"extra_javascript", "hooks"} & set(settings)
    for path in settings["extra_css"]:
        assert not LOADED.search((DOCS / path).read_text()), path
    for path in DOCS.rglob("*.md"):
        text = path.read_text()
        assert not LOADED.search(text), path
        assert "```mermaid" not in text, f"{path}: the theme would fetch mermaid from elsewhere"
        assert not re.search(r"!\[[^\]]*\]\(https?:", text), path


def test_links_between_pages_lead_somewhere():
    for page in DOCS.rglob("*.md"):
        for target in re.findall(r"\]\(([^)#:]+?)(?:#[^)]*)?\)", page.read_text()):
            assert (page.parent / target).exists(), (
                f"{page.relative_to(ROOT)} links to {target}, which is not there"
            )


def test_no_document_holds_a_merge_conflict():
    for path in [*ROOT.glob("*.md"), *DOCS.rglob("*.md"), *(ROOT / "experiments").rglob("*.md")]:
        assert not re.search(r"^(<{7} |>{7} )", path.read_text(), flags=re.MULTILINE), path


def test_versions_agree():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert citation["version"] == dpgm.__version__


@pytest.mark.slow
def test_the_site_builds_without_a_warning_and_loads_nothing_from_elsewhere(tmp_path):
    if importlib.util.find_spec("mkdocs") is None:
        pytest.skip("the extra `docs` is not installed")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path / "site")]
    built = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stderr
    pages = list((tmp_path / "site").rglob("*.html"))
    assert len(pages) > 20
    for path in pages:
        assert not LOADED.search(path.read_text()), path
    shutil.rmtree(tmp_path / "site")


def code_named_in(text):
    """(module, name or None) of what a page names as `folder/module.py` or `folder/module.name`, of the package alone."""
    for path in re.findall(r"`(?:src/)?(?:dpgm/)?([a-z_]+(?:/[a-z_]+)*)\.py`", text):
        yield path, None
    for path, name in re.findall(r"`([a-z_]+(?:/[a-z_]+)*/[a-z_]+)\.([A-Za-z_.]+)`", text):
        if not re.fullmatch(r"py|md|csv|json|html|yaml|ipynb|png|parquet|txt", name):
            yield path, name


def is_code_there(path, name):
    if not (PACKAGE / f"{path}.py").is_file():
        elsewhere = (ROOT / f"{path}.py").is_file() or (ROOT / "tests" / f"{path}.py").is_file()
        return elsewhere or ("/" not in path and any(PACKAGE.rglob(f"{path}.py")))
    found = import_module("dpgm." + path.replace("/", "."))
    for part in (name or "").split(".") if name else ():
        found = getattr(found, part, None)
    return found is not None


@pytest.mark.parametrize("page", [*sorted(DOCS.glob("*.md")), ROOT / "README.md"], ids=lambda page: page.name)
def test_the_code_that_a_page_names_is_there(page):
    assert [named for named in code_named_in(page.read_text()) if not is_code_there(*named)] == []


def test_code_that_is_gone_is_seen():
    named = list(code_named_in("`statistics/gone.py` and `privacy/accountant.cost` and `privacy/accountant.gone`"))
    assert [pair for pair in named if not is_code_there(*pair)] == [
        ("statistics/gone", None),
        ("privacy/accountant", "gone"),
    ]
