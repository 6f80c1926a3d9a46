"""Runs the notebooks of `examples/` and keeps what they print, show and draw.

    python tools/run_notebooks.py [NOTEBOOK ...]

A notebook is run as a plain program: its code cells in order, in one namespace. So nothing has to be installed for it
beyond what the notebook itself imports. `tests/docs/test_notebooks.py` does the same with fewer people.
"""

import ast
import base64
import contextlib
import io
import json
import sys
from pathlib import Path
from typing import Any

EXAMPLES = Path(__file__).parents[1] / "examples"
_LONGEST_HTML = 6000  # characters of a table that are worth keeping


def run_notebook(path: Path, changes: dict[str, str] | None = None) -> tuple[dict[str, Any], dict[str, Any]]:
    """The notebook with what its cells gave, and the names they left.

    Args:
        path: the notebook.
        changes: texts of the code to replace before it is run, such as the number of people.
    """
    import matplotlib

    matplotlib.use("Agg")
    notebook = json.loads(path.read_text("utf-8"))
    names: dict[str, Any] = {"__name__": "__main__"}
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    for number, cell in enumerate(cells, start=1):
        code = "".join(cell["source"])
        for text, instead in (changes or {}).items():
            code = code.replace(text, instead)
        cell["outputs"] = _run(code, names, f"{path.name}, cell {number}")
        cell["execution_count"] = number
    return notebook, names


def _run(code: str, names: dict[str, Any], place: str) -> list[dict[str, Any]]:
    """What one cell prints, what its last expression is, and the figures that are open after it."""
    import matplotlib.pyplot as plt

    parsed = ast.parse(code, place)
    last = parsed.body.pop() if parsed.body and isinstance(parsed.body[-1], ast.Expr) else None
    printed = io.StringIO()
    value = None
    with contextlib.redirect_stdout(printed):
        exec(compile(parsed, place, "exec"), names)
        if isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), place, "eval"), names)
    outputs: list[dict[str, Any]] = []
    if printed.getvalue():
        outputs.append({"output_type": "stream", "name": "stdout", "text": printed.getvalue().splitlines(True)})
    if value is not None and not plt.get_fignums():
        outputs.append({"output_type": "display_data", "metadata": {}, "data": _shown(value)})
    for figure in map(plt.figure, plt.get_fignums()):
        picture = io.BytesIO()
        figure.savefig(picture, dpi=60, bbox_inches="tight")
        encoded = base64.b64encode(picture.getvalue()).decode()
        outputs.append({"output_type": "display_data", "metadata": {}, "data": {"image/png": encoded}})
    plt.close("all")
    return outputs


def _shown(value: Any) -> dict[str, Any]:
    shown = {"text/plain": repr(value).splitlines(True)}
    page = value._repr_html_() if hasattr(value, "_repr_html_") else None
    return shown | ({"text/html": page.splitlines(True)} if page and len(page) < _LONGEST_HTML else {})


def main() -> None:
    """Run the notebooks named, or all, and write them back with their outputs."""
    for path in map(Path, sys.argv[1:] or sorted(EXAMPLES.glob("*.ipynb"))):
        notebook, _ = run_notebook(path)
        path.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n", "utf-8")
        print(f"{path}: {path.stat().st_size >> 10} kB")


if __name__ == "__main__":
    main()
