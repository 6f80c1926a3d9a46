"""README and quickstart are run as they stand, at a smaller size: every block that is marked `<!-- run -->`."""

import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
RUN_OR_FILE = re.compile(r"<!-- (run|file: (?P<name>[\w.-]+)) -->\n```(?P<kind>\w+)\n(?P<text>.*?)```", re.DOTALL)
SMALLER = {"50000": "5000", "50_000": "5_000"}  # records; epsilon and everything else stay


def steps(page: Path):
    """What the page tells a reader to do, in order: (kind, text) or ("file", name, text)."""
    for block in RUN_OR_FILE.finditer(page.read_text()):
        text = block["text"]
        for large, small in SMALLER.items():
            text = re.sub(rf"\b{large}\b", small, text)
        yield block["name"] or block["kind"], text


def commands(text: str) -> list[list[str]]:
    """The command lines of a shell block; every one of them starts with `dpgm`."""
    lines = [shlex.split(line, comments=True) for line in text.replace("\\\n", " ").splitlines()]
    found = [line for line in lines if line]
    assert all(line[0] == "dpgm" for line in found), "only dpgm commands are run"
    return [line[1:] for line in found]


def run_page(page: Path, folder: Path) -> None:
    """Do what the page says in an empty folder; every command must end well."""
    done = list(steps(page))
    assert sum(len(text.splitlines()) for _, text in done) >= 3, "a page that says nothing"
    for kind, text in done:
        if kind == "sh":
            for arguments in commands(text):
                said = subprocess.run(
                    [sys.executable, "-m", "dpgm", *arguments],
                    cwd=folder,
                    capture_output=True,
                    text=True,
                    check=False,
                )
                assert said.returncode == 0, f"{page.name}: dpgm {shlex.join(arguments)}\n{said.stderr}"
        elif kind == "python":
            said = subprocess.run(
                [sys.executable, "-c", text], cwd=folder, capture_output=True, text=True, check=False
            )
            assert said.returncode == 0, f"{page.name}: {said.stderr}"
        else:
            (folder / kind).write_text(text)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["README.md", "docs/quickstart.md"])
def test_a_newcomer_can_follow_the_page(name, tmp_path):
    run_page(ROOT / name, tmp_path)
    assert any(path.suffix == ".html" for path in tmp_path.iterdir())


@pytest.mark.slow
@pytest.mark.parametrize("page", sorted((ROOT / "docs" / "recipes").glob("*.md")), ids=lambda page: page.stem)
def test_a_recipe_runs(page, tmp_path):
    run_page(page, tmp_path)
    assert (tmp_path / "release" / "certificate.json").exists()


@pytest.mark.slow
def test_the_wheel_installs_in_an_empty_environment_and_the_demo_runs(tmp_path):
    if shutil.which("make") is None:
        pytest.skip("make is not here")
    subprocess.run(["make", "-s", "wheel", f"DIST={tmp_path / 'dist'}"], cwd=ROOT, check=True, timeout=3600)
