"""`synthesis` knows families through their protocol only."""

import re
from pathlib import Path

import dpgm
from dpgm.cli.options import REQUEST_OPTIONS
from dpgm.synthesis.strategies import AUTO, STRATEGIES

SRC = Path(dpgm.__file__).parent


def test_no_family_is_a_special_case_outside_its_folder():
    names = "|".join(strategy.name for strategy in STRATEGIES)
    special = re.compile(
        rf"""model\s*[!=]=\s*["']({names})["']|isinstance\([^)]*(Products|Mixture|ImageGenerator|VAE|RBM)"""
    )
    for folder in ("synthesis", "strategy", "cli"):
        for path in (SRC / folder).glob("*.py"):
            found = special.search(path.read_text())
            assert not found, f"{path.name}: {found.group() if found else ''}"


def test_families_have_names_of_their_own_and_the_command_line_lists_them():
    names = [strategy.name for strategy in STRATEGIES]
    assert len(set(names)) == len(names)
    assert set(AUTO) <= set(STRATEGIES)
    (help_text,) = (one.default.help for one in REQUEST_OPTIONS if one.name == "model")
    assert set(re.findall(r"\w+", help_text)) - {"or"} == {"auto", *names}
