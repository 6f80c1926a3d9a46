"""Conditions and rules as people write them.

    married = never if age < 15
    start <= end
    total = net + tax
    colour in [red, blue] and age >= 65
    "marital status" != single or children = 0

A word is a field if the domain has one of that name, else a value; quotes make it a value (or, before an operator, a
field). A minus sign between fields needs blanks around it, since names may hold hyphens. Nothing is ever run as code.
"""

import datetime
import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

from dpgm.data.conditions import (
    LABELLED,
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
    Unique,
    fields_of_constraint,
    labels_of,
)
from dpgm.errors import UsageError
from dpgm.validation import near

_MAX_LENGTH = 4000  # characters of one condition
_MAX_DEPTH = 40  # parentheses and "not" within each other
_MAX_COMBINATIONS = 10_000
_TOKENS = re.compile(
    r"""\s*(?:
    (?P<date>\d{4}-\d{2}-\d{2}(?:[T ]\d{2}:\d{2}(?::\d{2})?)?)(?![\w-])
  | (?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)(?![\w-])
  | (?P<quoted>"[^"]*"|'[^']*')
  | (?P<word>[^\W][\w./-]*)
  | (?P<operator><=|>=|!=|==|=|<|>|≤|≥|≠)
  | (?P<mark>[\[\](),+*-])
  )""",
    re.VERBOSE,
)
_SAME: dict[str, Operator] = {"==": "=", "≤": "<=", "≥": ">=", "≠": "!="}
_TURNED: dict[Operator, Operator] = {"<": ">", ">": "<", "<=": ">=", ">=": "<=", "=": "=", "!=": "!="}
_KEYWORDS = {"if", "and", "or", "not", "in"}

Fields: TypeAlias = dict[str, Any]  # fields by name


def parse_condition(text: str, fields: Sequence[Any]) -> Condition:
    """One condition, such as `age >= 65 and sex = female`.

    Args:
        text: the condition.
        fields: the fields of the domain.

    Raises:
        UsageError: the text is not a condition on these fields.
    """
    parser = _Parser(text, {field.name: field for field in fields})
    made = parser.alternatives()
    parser.finish()
    return made


def parse_constraint(plain: object, fields: Sequence[Any], others: Collection[str] = ()) -> Constraint:
    """One constraint of a domain file: a text, `{unique: [..]}` or `{fields: [..], allowed: [[..], ..]}`.

    Args:
        plain: as read from the file.
        fields: the fields of the domain.
        others: further columns that samples hold, such as identifiers.

    Raises:
        UsageError: it is none of these, or refers to other fields.
    """
    by_name = {field.name: field for field in fields}
    if isinstance(plain, str):
        parser = _Parser(plain, by_name)
        claim = parser.alternatives()
        when = parser.alternatives() if parser.take("if") else None
        parser.finish()
        return Rule(claim, when, plain)
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
    """Constraints parsed; those that are parsed already stay as they are, if the fields they refer to are there."""
    known, parsed = {field.name for field in fields}, []
    for one in given:
        constraint = one if isinstance(one, (Rule, Unique)) else parse_constraint(one, fields, others)
        names = known.union(others) if isinstance(constraint, Unique) else known
        _check_names(list(fields_of_constraint(constraint)), names)
        parsed.append(constraint)
    return tuple(parsed)


def _check_names(names: object, known: Collection[str]) -> None:
    if not isinstance(names, list) or not names or not all(isinstance(name, str) for name in names):
        raise UsageError("a constraint must list the names of its fields.")
    for name in names:
        if name not in known:
            raise UsageError(f"a constraint refers to the field {name!r}, which the domain does not have.")


def _allowed(plain: dict[str, Any], fields: Fields) -> Rule:
    names, rows = plain["fields"], plain["allowed"]
    _check_names(names, fields)
    good = isinstance(rows, list) and all(isinstance(row, list) and len(row) == len(names) for row in rows)
    if not good or not rows or len(rows) > _MAX_COMBINATIONS:
        raise UsageError(
            f"`allowed` of a constraint must list 1 to {_MAX_COMBINATIONS:,} rows with one value per field."
        )
    distinct = list(dict.fromkeys(tuple(map(str, row)) for row in rows))
    # Where a row lists `missing`, a missing value is a value like the others; else it matches any value.
    definite = {name for at, name in enumerate(names) if any(row[at] == MISSING for row in distinct)}
    parts = tuple(
        All(tuple(_listed(fields[name], value, name in definite) for name, value in zip(names, row, strict=True)))
        for row in distinct
    )
    return Rule(AnyOf(parts), None, plain)


def _listed(field: Any, value: str, definite: bool) -> Condition:
    made = _equal(field, value)
    if not definite or made == OneOf(field.name, (None,)):
        return made
    return All((made, Not(OneOf(field.name, (None,)))))


def _equal(field: Any, value: str) -> Condition:
    if field.kind in LABELLED:
        return OneOf(field.name, (_label(field, value),))
    if value == MISSING:
        return OneOf(field.name, (None,))
    return _compared(field, "=", value)


def _compared(field: Any, operator: Operator, value: str) -> Linear:
    """A field of numbers or dates compared with one value."""
    number = _number(value)
    if number is None:
        raise UsageError(f"the field {field.name!r} holds numbers or dates, and {value!r} is neither.")
    return Linear(((1.0, field.name),), -number, operator)


def _label(field: Any, value: str) -> str | None:
    return None if value == MISSING and MISSING not in labels_of(field) else value


def _number(text: str) -> float | None:
    """A number, or a date in days since 1970."""
    try:
        return float(text)
    except ValueError:
        pass
    try:
        moment = datetime.datetime.fromisoformat(text)
    except ValueError:
        return None
    if moment.tzinfo is not None:
        return None
    return (moment - datetime.datetime(1970, 1, 1)) / datetime.timedelta(days=1)


class _Token(NamedTuple):
    kind: str
    text: str


@dataclass(frozen=True)
class _Side:
    """One side of a comparison: a sum of numbers of fields, or a value."""

    terms: tuple[tuple[float, str], ...] = ()
    constant: float = 0.0
    value: str | None = None


class _Parser:
    def __init__(self, text: str, fields: Fields) -> None:
        if len(text) > _MAX_LENGTH:
            raise UsageError(f"a condition must not exceed {_MAX_LENGTH:,} characters.")
        self._text, self._fields, self._at, self._depth = text, fields, 0, 0
        self._tokens = self._split(text)

    def _split(self, text: str) -> list[_Token]:
        tokens, at = [], 0
        while text[at:].strip():
            match = _TOKENS.match(text, at)
            if match is None:
                raise self._wrong()
            kind = str(match.lastgroup)
            word = match.group(kind)
            if kind == "quoted":
                word = word[1:-1]
            elif kind == "word" and word in _KEYWORDS:
                kind = "keyword"
            tokens.append(_Token(kind, word))
            at = match.end()
        return tokens

    def _wrong(self) -> UsageError:
        return UsageError(
            f"the condition {self._text[:80]!r} cannot be read; write it like `age >= 65`, `colour in [red, blue]` or"
            " `married = never if age < 15`, with quotes around names and values of several words."
        )

    def _peek(self) -> _Token:
        return self._tokens[self._at] if self._at < len(self._tokens) else _Token("end", "")

    def _next(self) -> _Token:
        token = self._peek()
        if token.kind == "end":
            raise self._wrong()
        self._at += 1
        return token

    def take(self, text: str) -> bool:
        """Step over a keyword or mark, if it comes next."""
        token = self._peek()
        if token.kind in ("keyword", "mark") and token.text == text:
            self._at += 1
            return True
        return False

    def finish(self) -> None:
        """Refuse what is left over."""
        if self._peek().kind != "end":
            raise self._wrong()

    def alternatives(self) -> Condition:
        """Conditions joined by `or`, each of them of parts joined by `and`."""
        parts = [self._conjunction()]
        while self.take("or"):
            parts.append(self._conjunction())
        return _any_of(parts)

    def _conjunction(self) -> Condition:
        parts = [self._part()]
        while self.take("and"):
            parts.append(self._part())
        return parts[0] if len(parts) == 1 else All(tuple(parts))

    def _part(self) -> Condition:
        self._depth += 1
        if self._depth > _MAX_DEPTH:
            raise UsageError(f"a condition must not nest more than {_MAX_DEPTH} deep; write it in parts.")
        made = self._inner_part()
        self._depth -= 1
        return made

    def _inner_part(self) -> Condition:
        if self.take("not"):
            return Not(self._part())
        if self.take("("):
            inner = self.alternatives()
            if not self.take(")"):
                raise self._wrong()
            return inner
        left = self._side(left=True)
        if self._peek().kind == "keyword" and self._peek().text in ("in", "not"):
            negated = self.take("not")
            if not self.take("in"):
                raise self._wrong()
            return _negated_if(negated, self._list(self._only_field(left)))
        token = self._next()
        if token.kind != "operator":
            raise self._wrong()
        operator: Operator = _SAME.get(token.text, token.text)  # type: ignore[assignment,arg-type]
        return self._comparison(left, operator, self._side(left=False))

    def _side(self, *, left: bool) -> _Side:
        """A sum such as `net + 2 * tax - 5`; on the right also one value, be it quoted or no field's name."""
        terms: list[tuple[float, str]] = []
        constant, values = 0.0, []
        while True:
            sign = 1.0
            while self._peek() in (("mark", "+"), ("mark", "-")):
                sign = -sign if self._next().text == "-" else sign
            token = self._next()
            if token.kind == "number" and self.take("*"):
                terms.append((sign * float(token.text), self._field(self._next())))
            elif token.kind in ("number", "date"):
                constant += sign * (_number(token.text) or 0.0)
            elif token.kind not in ("word", "quoted"):
                raise self._wrong()
            elif left or (token.kind == "word" and token.text in self._fields):
                terms.append((sign, self._field(token)))
            else:
                values.append(token.text)
            if self._peek() not in (("mark", "+"), ("mark", "-")):
                break
        if not values:
            return _Side(tuple(terms), constant)
        if terms or len(values) > 1 or constant:
            raise self._wrong()
        return _Side(value=values[0])

    def _field(self, token: _Token) -> str:
        if token.kind not in ("word", "quoted") or token.text not in self._fields:
            raise UsageError(
                f"the condition {self._text[:80]!r} refers to {token.text[:60]!r}, which is not a field of the"
                f" domain{near(token.text, self._fields)}."
            )
        return token.text

    def _only_field(self, side: _Side) -> Any:
        if len(side.terms) != 1 or side.constant or side.terms[0][0] != 1:
            raise self._wrong()
        return self._fields[side.terms[0][1]]

    def _list(self, field: Any) -> Condition:
        if not self.take("["):
            raise self._wrong()
        values = []
        while True:
            sign = "-" if self.take("-") else ""
            token = self._next()
            if token.kind not in ("word", "quoted", "number", "date"):
                raise self._wrong()
            values.append(sign + token.text)
            if self.take("]"):
                break
            if not self.take(","):
                raise self._wrong()
        if field.kind in LABELLED:
            return OneOf(field.name, tuple(_label(field, value) for value in values))
        return _any_of([_equal(field, value) for value in values])

    def _comparison(self, left: _Side, operator: Operator, right: _Side) -> Condition:
        if left.terms and all(self._fields[name].kind in LABELLED for _, name in left.terms):
            return self._labels(self._only_field(left), operator, right)
        if right.value in self._fields and _number(str(right.value)) is None:
            # A quoted name: numbers and dates have no values of that kind, so it is the other field.
            right = _Side(((1.0, str(right.value)),))
        if right.value is not None:
            field = self._only_field(left)
            if operator in ("=", "!="):
                return _negated_if(operator == "!=", _equal(field, right.value))
            return _compared(field, operator, right.value)
        terms = [*left.terms, *((-factor, name) for factor, name in right.terms)]
        constant = left.constant - right.constant
        for _, name in terms:
            if self._fields[name].kind in LABELLED:
                raise UsageError(f"the field {name!r} holds labels, not numbers; compare it with = or in.")
        if not terms:
            raise self._wrong()
        if terms[0][0] < 0:
            terms = [(-factor, name) for factor, name in terms]
            constant, operator = -constant, _TURNED[operator]
        return Linear(tuple(terms), constant, operator)

    def _labels(self, field: Any, operator: Operator, right: _Side) -> Condition:
        if operator not in ("=", "!="):
            raise UsageError(f"the field {field.name!r} holds labels, which have no order; use = or in.")
        if len(right.terms) == 1 and not right.constant and right.terms[0][0] == 1:
            other = self._fields[right.terms[0][1]]
            if other.kind not in LABELLED:
                raise UsageError(
                    f"{field.name!r} holds labels and {other.name!r} numbers; they cannot be compared."
                )
            return _negated_if(operator == "!=", Same(field.name, other.name))
        if right.terms:
            raise self._wrong()
        value = right.value if right.value is not None else f"{right.constant:g}"
        return _negated_if(operator == "!=", OneOf(field.name, (_label(field, value),)))


def _any_of(parts: Sequence[Condition]) -> Condition:
    return parts[0] if len(parts) == 1 else AnyOf(tuple(parts))


def _negated_if(negated: bool, condition: Condition) -> Condition:
    return Not(condition) if negated else condition
