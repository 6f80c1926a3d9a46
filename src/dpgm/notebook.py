"""What notebooks show of an object: a small table of public facts, never a row of anybody's data."""

from collections.abc import Iterable
from html import escape


def html_table(title: str, rows: Iterable[tuple[str, object]]) -> str:
    """A caption and rows of a name and a value; everything is escaped.

    >>> html_table("Plan", [("epsilon", 1.0), ("model", "<b>")])
    '<table><caption>Plan</caption><tr><th>epsilon</th><td>1.0</td></tr><tr><th>model</th><td>&lt;b&gt;</td></tr></table>'
    """
    body = "".join(
        f"<tr><th>{escape(name)}</th><td>{escape(str(value))}</td></tr>"
        for name, value in rows
        if value is not None
    )
    return f"<table><caption>{escape(title)}</caption>{body}</table>"
