"""Parsing conditions and rules from their text form.

    married = never if age < 15
    start <= end
    total = net + tax
    colour in [red, blue] and age >= 65
    "marital status" != single or children = 0

A word is a field if the domain has one of that name, otherwise a value; a quoted word is a value (or, before an
operator, a field). A minus sign between fields needs spaces around it, because names may contain hyphens. Python's
parser handles precedence and brackets, with placeholders for names and values; nothing is ever run as code.
"""

import ast
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from dpgm.data.conditions import (
    MISSING,
    All,
    AnyOf,
    Condition,
    Constraint,
    Linear,
    Not,
    OneOf,
    Operator,
    Rule,
    Same,
    Terms,
    Unique,
)
from dpgm.data.number_format import plain_number
from dpgm.errors import UsageError
from dpgm.validation import near

_Sum: TypeAlias = tuple[Terms, float]  # terms and a constant
_MAX_LENGTH = 4000  # characters of one condition
_MAX_DEPTH = 40  # nested conditions
_MAX_COMBINATIONS = 10_000
_TOKEN = re.compile(
    r"""(?:
    (?P<date>\d{4}-\d{2}-\d{2}(?:[T ]\d{2}:\d{2}(?::\d{2})?)?)(?![\w-])
  | (?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)(?![\w-])
  | (?P<quoted>"[^"]*"|'[^']*')
  | (?P<word>[^\W][\w./-]*)
  | (?P<operator><=|>=|!=|==|=|<|>|≤|≥|≠)
  | (?P<mark>[\[\](),+*-])
  )\s*""",
    re.VERBOSE,
)
_PYTHON = {"=": "==", "≤": "<=", "≥": ">=", "≠": "!="}
_KEYWORDS = {"and", "or", "not", "in"}
_OPERATORS: dict[type[ast.cmpop], Operator] = {
    ast.Eq: "=", ast.NotEq: "!=", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">="
}  # fmt: skip
_MIRRORED: dict[Operator, Operator] = {"<": ">", ">": "<", "<=": ">=", ">=": "<=", "=": "=", "!=": "!="}


def parse_condition(text: str, fields: Sequence[Any]) -> Condition:
    """A condition on fields of a domain, such as `age >= 65 and sex = female`."""
    return _Parser(text, {field.name: field for field in fields}).parts(1)[0]


def parse_constraint(plain: object, fields: Sequence[Any], others: Collection[str] = ()) -> Constraint:
    """A constraint of a domain file: a text, `{unique: [..]}` or `{fields: [..], allowed: [[..], ..]}`.

    `others` are further columns of samples, such as identifiers.
    """
    by_name = {field.name: field for field in fields}
    if isinstance(plain, str):
        claim, *when = _Parser(plain, by_name).parts(2)
        return Rule(claim, when[0] if when else None, plain)
    if isinstance(plain, dict) and set(plain) == {"unique"}:
        names = [plain["unique"]] if isinstance(plain["unique"], str) else plain["unique"]
        _check_names(names, {*by_name, *others})
        return Unique(tuple(names), plain)
    if isinstance(plain, dict) and set(plain) == {"fields", "allowed"}:
        return _allowed(plain, by_name)
    raise UsageError(
        "a constraint must be a text such as `married = never if age < 15`, `unique: [..]`, or `fields` with `allowed`."
    )


def parse_constraints(
    given: Iterable[object], fields: Sequence[Any], others: Collection[str] = ()
) -> tuple[Constraint, ...]:
    """Parsed constraints; some may be parsed already. Checks that the domain has all their fields."""
    known, parsed = {field.name for field in fields}, []
    for one in given:
        constraint = one if isinstance(one, (Rule, Unique)) else parse_constraint(one, fields, others)
        _check_names(list(constraint.fields), known.union(others) if isinstance(constraint, Unique) else known)
        parsed.append(constraint)
    return tuple(parsed)


def _check_names(names: object, known: Collection[str]) -> None:
    if not isinstance(names, list) or not names or not all(isinstance(name, str) for name in names):
        raise UsageError("a constraint must list the names of its fields.")
    for name in names:
        if name not in known:
            raise UsageError(f"a constraint refers to the field {name!r}, which the domain does not have.")


def _allowed(plain: dict[str, Any], fields: Mapping[str, Any]) -> Rule:
    names, rows = plain["fields"], plain["allowed"]
    _check_names(names, fields)
    good = isinstance(rows, list) and all(isinstance(row, list) and len(row) == len(names) for row in rows)
    if not good or not rows or len(rows) > _MAX_COMBINATIONS:
        raise UsageError(
            f"`allowed` of a constraint must list 1 to {_MAX_COMBINATIONS:,} rows with one value per field."
        )
    distinct = list(dict.fromkeys(tuple(map(value_text, row)) for row in rows))
    # If a row lists `missing` for a field, a missing value is a value like any other; otherwise it matches any value.
    lists_missing = {name for at, name in enumerate(names) if any(row[at] == MISSING for row in distinct)}

    def equals(name: str, value: str) -> Condition:
        condition, missing = has_one_of(fields[name], [value]), OneOf(name, (None,))
        if name in lists_missing and condition != missing:
            return All((condition, Not(missing)))
        return condition

    parts = (All(tuple(equals(name, value) for name, value in zip(names, row, strict=True))) for row in distinct)
    return Rule(AnyOf(tuple(parts)), None, plain)


def value_text(value: object) -> str:
    """A Python or YAML value in the text form of a condition.

    >>> value_text(True), value_text(None), value_text(5)
    ('true', 'missing', '5')
    """
    return MISSING if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def has_one_of(field: Any, values: Sequence[str]) -> Condition:
    """The condition that a field has one of the values, given as texts; `missing` is a missing value or a label."""
    if not values:
        raise UsageError(f"a condition on the field {field.name!r} lists no value; list at least one.")
    if field.has_labels:
        is_label = MISSING not in values or MISSING in field.labels
        return OneOf(field.name, tuple(None if value == MISSING and not is_label else value for value in values))
    missing = OneOf(field.name, (None,))
    parts = tuple(missing if value == MISSING else _compared(field, "=", value) for value in values)
    return parts[0] if len(parts) == 1 else AnyOf(parts)


def _compared(field: Any, operator: Operator, value: str) -> Linear:
    """A number or date field compared with a value."""
    number = field.number_of(value)
    if number is None:
        raise UsageError(
            f"the field {field.name!r} holds numbers or dates, and {value!r} is neither; write them like 60.5 or"
            " 2020-01-31, whatever the file has."
        )
    return Linear(((1.0, field.name),), -number, operator)


class _Parser:
    """Parses one text. In Python's syntax tree, the name `_3` stands for the fourth field, value or number."""

    def __init__(self, text: str, fields: Mapping[str, Any]) -> None:
        if len(text) > _MAX_LENGTH:
            raise UsageError(f"a condition must not exceed {_MAX_LENGTH:,} characters.")
        self._text, self._fields = text, fields
        self._words: list[tuple[str, str]] = []  # kind of token and text, by number of the placeholder

    def _error(self) -> UsageError:
        if re.match(r"\s*unique\b", self._text):
            return UsageError(
                f"the condition {self._text[:80]!r} cannot be read, because uniqueness is not a comparison; write"
                " `unique: [a, b]`, with the names of the fields, among the constraints of the domain."
            )
        if re.search(r"\d,\d|\d[./]\d+[./]\d", self._text):
            return UsageError(
                f"the condition {self._text[:80]!r} cannot be read; whatever the file has, write dates like 2020-01-31"
                " and numbers with a point, like 60.5."
            )
        return UsageError(
            f"the condition {self._text[:80]!r} cannot be read; write it like `age >= 65`, `colour in [red, blue]` or"
            " `married = never if age < 15`, with quotes around names and values of several words."
        )

    def parts(self, most: int) -> list[Condition]:
        """The conditions before and after `if`; raises if there are more than `most`."""
        sources: list[list[str]] = [[]]
        text, at = self._text.strip(), 0
        while at < len(text):
            token = _TOKEN.match(text, at)
            if token is None:
                raise self._error()
            kind, word, at = str(token.lastgroup), token[str(token.lastgroup)], token.end()
            if word == "if":
                sources.append([])
            elif kind in ("operator", "mark") or word in _KEYWORDS:
                sources[-1].append(_PYTHON.get(word, word))
            else:
                sources[-1].append(f"_{len(self._words)}")
                self._words.append((kind, word[1:-1] if kind == "quoted" else word))
        if len(sources) > most:
            raise self._error()
        try:
            return [self._condition(ast.parse(" ".join(one), mode="eval").body, 1) for one in sources]
        except (SyntaxError, RecursionError, MemoryError):
            raise self._error() from None

    def _condition(self, node: ast.expr, depth: int) -> Condition:
        if depth > _MAX_DEPTH:
            raise UsageError(f"a condition must not nest more than {_MAX_DEPTH} deep; write it in parts.")
        match node:
            case ast.BoolOp(op, parts):
                made = tuple(self._condition(part, depth + 1) for part in parts)
                return All(made) if isinstance(op, ast.And) else AnyOf(made)
            case ast.UnaryOp(ast.Not(), part):
                return Not(self._condition(part, depth + 1))
            case ast.Compare(left, [ast.In() | ast.NotIn() as op], [ast.List(listed)]) if listed:
                field = self._only_field(*self._sum(left))
                return _negated_if(
                    isinstance(op, ast.NotIn), has_one_of(field, [self._literal(one) for one in listed])
                )
            case ast.Compare(left, [op], [right]) if type(op) in _OPERATORS:
                return self._comparison(self._sum(left), _OPERATORS[type(op)], right)
        raise self._error()

    def _word(self, node: ast.expr) -> tuple[str, str]:
        """Kind of token and text of a placeholder."""
        if not isinstance(node, ast.Name):
            raise self._error()
        return self._words[int(node.id[1:])]

    def _literal(self, node: ast.expr) -> str:
        """The text of a value, with its sign."""
        match node:
            case ast.UnaryOp(ast.USub(), inner):
                return f"-{self._word(inner)[1]}"
        return self._word(node)[1]

    def _sum(self, node: ast.expr) -> _Sum:
        """A sum such as `net + 2 * tax - 5`."""
        match node:
            case ast.BinOp(left, ast.Add(), right):
                return _added(self._sum(left), self._sum(right))
            case ast.BinOp(left, ast.Sub(), right):
                return _added(self._sum(left), _scaled(self._sum(right), -1.0))
            case ast.BinOp(left, ast.Mult(), right):
                terms, factor = self._sum(left)
                if terms:
                    raise self._error()
                return _scaled(self._sum(right), factor)
            case ast.UnaryOp(ast.UAdd(), inner):
                return self._sum(inner)
            case ast.UnaryOp(ast.USub(), inner):
                return _scaled(self._sum(inner), -1.0)
        kind, text = self._word(node)
        if kind in ("number", "date"):
            number = plain_number(text)
            if number is None:  # a day that does not exist, or an infinite number
                raise self._error()
            return (), number
        if text not in self._fields:
            raise UsageError(
                f"the condition {self._text[:80]!r} refers to {text[:60]!r}, which is not a field of the"
                f" domain{near(text, self._fields)}."
            )
        return ((1.0, text),), 0.0

    def _only_field(self, terms: Terms, constant: float) -> Any:
        if len(terms) != 1 or constant or terms[0][0] != 1:
            raise self._error()
        return self._fields[terms[0][1]]

    def _comparison(self, left: _Sum, operator: Operator, right: ast.expr) -> Condition:
        kind, text = self._word(right) if isinstance(right, ast.Name) else ("", "")
        names_field = kind == "word" and text in self._fields
        if left[0] and all(self._fields[name].has_labels for _, name in left[0]):
            field = self._only_field(*left)
            if operator not in ("=", "!="):
                raise UsageError(f"the field {field.name!r} holds labels, which have no order; use = or in.")
            if names_field and not self._fields[text].has_labels:
                raise UsageError(f"{field.name!r} holds labels and {text!r} numbers; they cannot be compared.")
            made = Same(field.name, text) if names_field else has_one_of(field, [self._literal(right)])
            return _negated_if(operator == "!=", made)
        # Number and date fields have no text values, so a quoted field name means the field.
        quoted_field = text in self._fields and plain_number(text) is None
        if kind in ("word", "quoted") and not names_field and not quoted_field:
            field = self._only_field(*left)
            if operator in ("=", "!="):
                return _negated_if(operator == "!=", has_one_of(field, [text]))
            return _compared(field, operator, text)
        terms, constant = _added(left, _scaled(self._sum(right), -1.0))
        for _, name in terms:
            if self._fields[name].has_labels:
                raise UsageError(f"the field {name!r} holds labels, not numbers; compare it with = or in.")
        if not terms:
            raise self._error()
        if terms[0][0] < 0:
            (terms, constant), operator = _scaled((terms, constant), -1.0), _MIRRORED[operator]
        return Linear(terms, constant, operator)


def _added(first: _Sum, second: _Sum) -> _Sum:
    return (*first[0], *second[0]), first[1] + second[1]


def _scaled(one: _Sum, factor: float) -> _Sum:
    return tuple((factor * weight, name) for weight, name in one[0]), factor * one[1]


def _negated_if(negated: bool, condition: Condition) -> Condition:
    return Not(condition) if negated else condition
