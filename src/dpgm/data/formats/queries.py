"""Words in a query by which a row follows from other people's rows.

SQLite and PostgreSQL lend no parser, so this looks at the words outside of texts, quoted names and comments. Where the
two could be confused, a query is refused rather than read.
"""

import re

_DOUBLE = r"""'(?:[^']|'')*'|"(?:[^"]|"")*\""""
_WORD = r"(?P<word>[^\W\d][\w$]*)|(?P<nested>/\*)"
SQLITE = re.compile(rf"{_DOUBLE}|`(?:[^`]|``)*`|\[[^\]]*\]|--[^\n]*|/\*.*?(?:\*/|\Z)|{_WORD}", re.DOTALL)
POSTGRESQL = re.compile(
    r"[eE]'(?:[^'\\]|''|\\.)*'(?:\s*[\n\r]\s*'(?:[^'\\]|''|\\.)*')*"
    rf"|{_DOUBLE}|\$(?P<tag>(?:[^\W\d]\w*)?)\$.*?\$(?P=tag)\$|--[^\n\r]*|/\*(?:(?!/\*|\*/).)*\*/|{_WORD}",
    re.DOTALL,
)
_FROM_OTHERS = {"OVER", "LIMIT", "OFFSET", "FETCH", "TABLESAMPLE", "INTERSECT", "EXCEPT"}


def word_from_others(query: str, language: re.Pattern[str]) -> str | None:
    """The first word by which a row follows from others, if there is one.

    >>> word_from_others("select ward, max(id) over () as n from visits -- all", SQLITE)
    'OVER'
    >>> word_from_others('select "over" from a union all select b.stay from b -- no limit', SQLITE)
    """
    found = [one for one in language.finditer(query) if one["word"] or one["nested"]]
    words = ["" if one["nested"] else one["word"].upper() for one in found]
    for before, word, after in zip(["", *words], words, [*words[1:], ""], strict=False):
        if not word:
            return "a comment within a comment"
        if word in _FROM_OTHERS or (word == "DISTINCT" and before == "SELECT"):
            return word
        if word == "UNION" and after != "ALL":
            return "UNION without ALL"
    return None
