"""The studio is small: what is served and what serves it can be read in an afternoon."""

from pathlib import Path

import dpgm

STUDIO = Path(dpgm.__file__).parent / "studio"
MOST_LINES = 3_000  # Python, templates, styles and scripts together, blank lines included
MOST_SCRIPT = 20_000  # bytes that a browser runs


def test_the_studio_has_at_most_three_thousand_lines():
    files = [path for path in STUDIO.rglob("*") if path.suffix in (".py", ".j2", ".css", ".js", ".svg")]
    assert len(files) > 20
    assert sum(len(path.read_text().splitlines()) for path in files) <= MOST_LINES


def test_the_script_is_small():
    assert sum(path.stat().st_size for path in STUDIO.rglob("*.js")) <= MOST_SCRIPT
