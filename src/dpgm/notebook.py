"""The HTML by which notebooks display an object: a small table of public facts, never a row of the data."""

from collections.abc import Iterable
from html import escape


def html_table(title: str, rows: Iterable[tuple[str, object]]) -> str:
    """An HTML table with a caption and rows of (name, value), without rows whose value is None; all text is escaped.

    >>> html_table("Plan", [("epsilon", 1.0), ("model", "<b>")])
    '<table><caption>Plan</caption><tr><th>epsilon</th><td>1.0</td></tr><tr><th>model</th><td>&lt;b&gt;</td></tr></table>'
    """
    body = "".join(
        f"<tr><th>{escape(name)}</th><td>{escape(str(value))}</td></tr>"
        for name, value in rows
        if value is not None
    )
    return f"<table><caption>{escape(title)}</caption>{body}</table>"
