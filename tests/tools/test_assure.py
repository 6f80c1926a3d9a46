"""The Makefile has the promised targets, and every run of `make assure` names scripts that exist."""

import importlib.util
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]


def assure():
    spec = importlib.util.spec_from_file_location("assure", ROOT / "tools" / "assure.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_makefile_has_eight_targets_and_explains_them():
    text = (ROOT / "Makefile").read_text()
    targets = set(re.findall(r"^([a-z]+):", text, re.M)) - {"help"}
    assert targets == {"install", "demo", "test", "check", "docs", "bench", "assure", "clean"}
    assert all(f"make {name} " in text for name in targets - {"install"})


def test_every_script_of_the_long_runs_exists():
    scripts = {
        part
        for _, commands in assure().RUNS.values()
        for command in commands
        for part in command
        if part.endswith(".py")
    }
    assert scripts
    assert all((ROOT / script).is_file() for script in scripts)
