"""Domain files: a domain as YAML or JSON, with the name, kind and constructor arguments of every field.

    label: income            # optional: the field to predict
    pairs: [[age, income]]   # optional: pairs of columns that are measured value by value
    missing_texts: [NA, '-'] # optional: texts that stand for a missing value in the data
    fields:                  # docs/domains.md has one of every kind
      - {name: age, kind: numeric, low: 17, high: 90, integer: true, weight: 2}   # its relations matter more
      - {name: income, kind: categorical, values: [low, high], missing: true}
      - {names: Q1..Q60, kind: numeric, low: 1, high: 5, integer: true, specials: [98, 99]}   # sixty fields
      - {name: patient, kind: identifier}
    constraints:             # optional: public rules that every synthetic record meets
      - income = low if age < 18
    layout: {shape: long, person: user, item: sku}   # optional, for item sets and sequences: how samples are written

In a release, discovered numbers have the kind `shaped`: popular values, edges and weights of fine histogram cells.
Unknown keys, duplicate keys and YAML tags are refused.
"""

import json
import os
import re
from collections.abc import Iterator, Mapping
from itertools import groupby
from pathlib import Path
from typing import Any, TypeAlias

from dpgm.data.atomic import atomic_file
from dpgm.data.conditions import Rule, check_values
from dpgm.data.domain import Column, Domain
from dpgm.data.kinds import kind_named, kinds_stated
from dpgm.data.layouts import Layout
from dpgm.errors import UsageError
from dpgm.validation import near

# Types accepted as `domain=`: a domain, the contents of a domain file, or its path.
DomainLike: TypeAlias = Domain | Mapping[str, Any] | str | os.PathLike[str]
JUDGED = "kinds_judged_by_rows"  # key in drafts of tables: a certificate says so
DRAFTED = "drafted_from_data"  # key in drafts of `inspect`, until the curator removes the line
_MAX_BYTES = 1 << 28
_MAX_DEPTH = 20
_NO_VALUE = (
    "is no date or number, although it looks like one; correct it, or put it in quotation marks if it is a text."
)
# Names such as Q1..Q60 or item01_a..item12_a: a number in otherwise equal names.
_NUMBERED = re.compile(
    r"(?P<head>.*?)(?P<first>[0-9]{1,6})(?P<tail>[^0-9]*)\.\.(?P=head)(?P<last>[0-9]{1,6})(?P=tail)"
)
_NUMBERED_NAME = re.compile(r"(?P<head>.*?)(?P<number>[0-9]{1,6})(?P<tail>[^0-9]*)")
_MOST_NUMBERED = 100_000
_FOLDED = 3  # from so many on, fields that differ in the number in their names alone are written as one
_LAYOUT_KEYS = ("shape", "person", "item", "time")
# Required type of a key's value, and how a message words it; other keys are checked by the field classes.
_TYPES: dict[str, tuple[Any, str]] = {
    "label": (str | None, "the name of a field"),
    "layout": (dict | None, "a mapping with the key 'shape'"),
    "pairs": (list, "a list of pairs of columns, such as [[age, income]]"),
    **dict.fromkeys((DRAFTED, "integer", "missing", "discover", "other"), (bool, "true or false")),
    **dict.fromkeys(("fields", "constraints", "items", "values", "specials", "missing_texts"), (list, "a list")),
    **dict.fromkeys(("atoms", "edges", "weights", "starts", "clock"), (list, "a list")),
}


def domain_to_plain(domain: Domain) -> dict[str, Any]:
    """A domain as plain dictionaries and lists, ready for JSON or YAML."""
    plain: dict[str, Any] = {DRAFTED: True} if domain.origin in ("drafted", "declared") else {}
    if domain.origin == "judged" or (domain.origin == "drafted" and domain.item_set is None):
        plain[JUDGED] = True  # which stays when the curator has corrected a drafted table
    if domain.label is not None:
        plain["label"] = domain.label
    if domain.missing_texts:
        plain["missing_texts"] = list(domain.missing_texts)
    if domain.pairs:
        plain["pairs"] = [list(pair) for pair in domain.pairs]
    weights = {name: {"weight": weight} for name, weight in domain.weights}
    plain["fields"] = [column.to_plain() | weights.get(column.name, {}) for column in domain.columns]
    if domain.constraints:
        plain["constraints"] = [constraint.source for constraint in domain.constraints]
    if domain.layout is not None:
        layout = {key: getattr(domain.layout, key) for key in _LAYOUT_KEYS}
        plain["layout"] = {key: value for key, value in layout.items() if value is not None}
    return plain


def domain_from_plain(plain: object) -> Domain:
    """A domain from plain dictionaries and lists.

    Raises:
        UsageError: a key is unknown or missing, a value has the wrong type, or the domain breaks a rule.
    """
    if not isinstance(plain, dict):
        raise UsageError("a domain must be a mapping with the key 'fields'.")
    _check_keys(
        plain,
        ("fields",),
        ("label", "pairs", "missing_texts", "constraints", "layout", DRAFTED, JUDGED),
        "the domain",
    )
    listed = [(field, at) for at, listed in enumerate(plain["fields"], start=1) for field in _each_name(listed, at)]
    columns: list[Any] = [_column_from_plain(field, at) for field, at in listed]
    pairs = (tuple(pair) if isinstance(pair, list) else pair for pair in plain.get("pairs", ()))
    layout = plain.get("layout")
    if layout is not None:
        _check_keys(layout, ("shape",), _LAYOUT_KEYS, "the layout of the domain")
    return Domain(
        tuple(columns),
        plain.get("label"),
        constraints=tuple(plain.get("constraints", ())),
        missing_texts=tuple(plain.get("missing_texts", ())),
        weights=tuple((field["name"], field["weight"]) for field, _ in listed if "weight" in field),
        pairs=tuple(pairs),
        origin="drafted" if plain.get(DRAFTED, False) else "judged" if plain.get(JUDGED, False) else "stated",
        layout=None if layout is None else Layout(**layout),
    )


def _check_keys(plain: dict[Any, Any], required: tuple[str, ...], optional: tuple[str, ...], what: str) -> None:
    for key in required:
        if key not in plain:
            raise UsageError(f"{what} lacks the key {key!r}; add it.")
    known = (*required, *optional)
    for key, value in plain.items():
        if key not in known:
            raise UsageError(
                f"{what} has the unknown key {str(key)[:60]!r}{near(key, known)}; remove it, the keys are"
                f" {', '.join(known)}."
            )
        expected_type, rule = _TYPES.get(key, (object, ""))
        if not isinstance(value, expected_type):
            raise UsageError(f"{key!r} of {what} must be {rule}.")


def _each_name(plain: object, at: int) -> list[Any]:
    """A field for each of the `names` of a mapping, such as Q1..Q60; the mapping itself if it has one `name`."""
    if not isinstance(plain, dict) or "names" not in plain:
        return [plain]
    if "name" in plain:
        raise UsageError(f"field {at} of the domain has both 'name' and 'names'; keep one.")
    names = plain["names"]
    others = {key: value for key, value in plain.items() if key != "names"}
    listed = [names] if isinstance(names, str) else names
    if not isinstance(listed, list) or not listed or not all(isinstance(name, str) for name in listed):
        raise UsageError(f"'names' of field {at} of the domain must be like Q1..Q60, or a list of names.")
    return [{"name": name} | others for one in listed for name in _numbered_names(one, at)]


def _numbered_names(text: str, at: int) -> list[str]:
    """The names that a text such as Q1..Q60 stands for; any other text is one name.

    >>> _numbered_names("Q08..Q11", 1), _numbered_names("age", 1)
    (['Q08', 'Q09', 'Q10', 'Q11'], ['age'])
    """
    if ".." not in text:
        return [text]
    match = _NUMBERED.fullmatch(text)
    count = 0 if match is None else int(match["last"]) - int(match["first"]) + 1
    if match is None or not 1 <= count <= _MOST_NUMBERED:
        raise UsageError(
            f"'names' of field {at} of the domain must be like Q1..Q60 (two names that differ in a number, the smaller"
            f" one first, {_MOST_NUMBERED:,} names at most); got {text[:60]!r}."
        )
    first, width = int(match["first"]), len(match["first"])
    return [f"{match['head']}{number:0{width}}{match['tail']}" for number in range(first, first + count)]


def _folded(listed: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Fields as a person would write them: those that differ in the number in their names alone as one, Q1..Q60."""

    def family(numbered: tuple[int, dict[str, Any]]) -> object:
        at, field = numbered
        match = _NUMBERED_NAME.fullmatch(field["name"])
        others = [(key, value) for key, value in field.items() if key != "name"]
        if match is None or ".." in field["name"]:
            return at
        return match["head"], match["tail"], int(match["number"]) - at, repr(others)

    for _, group in groupby(enumerate(listed), family):
        fields = [field for _, field in group]
        names = f"{fields[0]['name']}..{fields[-1]['name']}"
        whole = len(fields) >= _FOLDED and _numbered_names(names, 0) == [field["name"] for field in fields]
        if whole:
            fields = [{"names": names} | {key: value for key, value in fields[0].items() if key != "name"}]
        yield from fields


def _column_from_plain(plain: object, at: int) -> Column:
    where = f"field {at} of the domain"
    if not isinstance(plain, dict):
        raise UsageError(f"{where} must be a mapping with 'name' and 'kind'.")
    kind = kind_named(plain.get("kind"))
    if kind is None:
        kinds = kinds_stated()
        got = f"; got {str(plain['kind'])[:60]!r}{near(str(plain['kind']), kinds)}" if "kind" in plain else ""
        raise UsageError(f"{where} must have a 'kind': one of {', '.join(kinds)}{got}.")
    required, optional = kind.keys()
    _check_keys(plain, ("name", "kind", *required), (*optional, "weight"), where)
    if kind.list_key is not None and kind.list_key not in plain and not plain.get("discover"):
        raise UsageError(f"{where} lacks the key {kind.list_key!r}; add it, or say `discover: true`.")
    return kind.from_plain({key: value for key, value in plain.items() if key not in ("kind", "weight")})


def load_domain(path: str | os.PathLike[str]) -> Domain:
    """The domain of a YAML or JSON file.

    Raises:
        UsageError: the file is not there, is not a domain, or the domain breaks a rule.
    """
    plain = read_plain(path, "domain file")
    try:
        domain = domain_from_plain(plain)
        for constraint in domain.constraints:
            if isinstance(constraint, Rule):
                check_values(constraint.condition, domain)
        return domain
    except UsageError as error:
        raise type(error)(f"{path}: {error}") from None


def read_plain(path: str | os.PathLike[str], what: str) -> object:
    """The plain values of a YAML or JSON file, such as a domain file; raises UsageError."""
    file = Path(path)
    _check_ending(file, what)
    parse = _parse_json if file.suffix == ".json" else _parse_yaml
    try:
        if not file.is_file():
            raise UsageError(f"{file}: there is no such {what}; check the path.")
        if file.stat().st_size > _MAX_BYTES:
            raise UsageError(f"{file}: is too large for a {what} (over {_MAX_BYTES >> 20} MB).")
        text = file.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise UsageError(f"{file}: is not UTF-8 text; save it as UTF-8.") from None
    except OSError as error:
        raise UsageError(f"{file}: cannot be read ({(error.strerror or 'fault').lower()}).") from None
    try:
        return parse(text)
    except UsageError as error:
        raise type(error)(f"{file}: {error}") from None


def _check_ending(file: Path, what: str) -> None:
    if file.suffix not in (".yaml", ".yml", ".json"):
        raise UsageError(f"{file}: a {what} must end in .yaml, .yml or .json.")


def as_domain(domain: DomainLike | None) -> Domain | None:
    """The domain given as a `Domain`, a mapping, or the path of a YAML or JSON file.

    >>> as_domain({"fields": [{"name": "insured", "kind": "boolean"}]}).width
    2
    """
    if domain is None or isinstance(domain, Domain):
        return domain
    if isinstance(domain, Mapping):
        return domain_from_plain(dict(domain))
    if not isinstance(domain, (str, os.PathLike)):
        raise UsageError(
            f"`domain` must be a Domain, a mapping or the path of a domain file; got {type(domain).__name__}."
        )
    return load_domain(domain)


def save_domain(domain: Domain, path: str | os.PathLike[str], *, note: str = "", force: bool = True) -> None:
    """Write a domain as YAML or JSON, depending on the file's ending; `note` becomes YAML comments at the top.

    With `force=False` an existing file is refused.
    """
    file = Path(path)
    _check_ending(file, "domain file")
    plain = domain_to_plain(domain)
    if file.suffix == ".json":
        text = json.dumps(plain, indent=1, ensure_ascii=False) + "\n"
    else:
        comment = "".join(f"# {line}\n" for line in note.splitlines())
        text = comment + _yaml_text(plain | {"fields": list(_folded(plain["fields"]))})
    with atomic_file(file, force=force) as temporary:
        temporary.write_text(text, encoding="utf-8")


def _yaml_text(plain: dict[str, Any]) -> str:
    import yaml

    def dump(unicode: bool) -> str:
        text: str = yaml.safe_dump(
            plain, sort_keys=False, allow_unicode=unicode, default_flow_style=None, width=110
        )
        return text

    # A few rare characters (other line breaks) do not read back unless they are written as escapes.
    readable = dump(True)
    return readable if _parse_yaml(readable) == plain else dump(False)


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    plain = dict(pairs)
    if len(plain) < len(pairs):
        raise UsageError("a key occurs twice in one mapping; keep one.")
    return plain


def _refuse_constant(_: str) -> None:
    raise UsageError("numbers must be finite.")


def _parse_json(text: str) -> object:
    try:
        return json.loads(text, object_pairs_hook=_unique_keys, parse_constant=_refuse_constant)
    except json.JSONDecodeError as error:
        raise UsageError(f"line {error.lineno}: is not JSON; correct it.") from None
    except RecursionError:
        raise UsageError("is nested too deeply.") from None


def _parse_yaml(text: str) -> object:
    import yaml

    class Strict(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
        """Safe YAML loader that refuses duplicate keys."""

        def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
            keys = [key.value for key, _ in node.value]
            if len(set(map(str, keys))) < len(keys):
                raise UsageError(f"line {node.start_mark.line + 1}: a key occurs twice in one mapping; keep one.")
            mapping: dict[Any, Any] = super().construct_mapping(node, deep)
            return mapping

        def construct_object(self, node: Any, deep: bool = False) -> Any:
            try:
                return super().construct_object(node, deep)
            except ValueError:  # such as the date 2020-13-45
                raise UsageError(f"line {node.start_mark.line + 1}: {_NO_VALUE}") from None

    try:
        # Composing deeply nested nodes overflows the C stack and kills the process, so check the depth first.
        depth = 0
        for event in yaml.parse(text, Loader=Strict):
            depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
            if depth > _MAX_DEPTH:
                raise UsageError("is nested too deeply.")
        return yaml.load(text, Loader=Strict)
    except UsageError:
        raise
    except yaml.MarkedYAMLError as error:
        raise UsageError(_yaml_fault(error)) from None
    except yaml.reader.ReaderError:
        found = yaml.reader.Reader.NON_PRINTABLE.search(text)
        line = text[: found.start() if found else 0].count("\n") + 1
        raise UsageError(f"line {line}: holds a character that YAML does not allow; remove it.") from None
    except (yaml.YAMLError, RecursionError, ValueError):
        raise UsageError("is not plain YAML; correct it.") from None


def _yaml_fault(error: Any) -> str:
    """What is wrong with a YAML text: the line where it is seen, and the line of the part that it belongs to.

    A bracket that is not closed is seen lines after the one to correct.
    """
    marks = [mark.line + 1 for mark in (error.context_mark, error.problem_mark) if mark is not None]
    lines = " to ".join(map(str, dict.fromkeys(marks)))
    if "tag" in (error.problem or "") or "constructor" in (error.problem or ""):
        return f"line {lines}: is not plain YAML (tags such as !!python are refused); correct it."
    problem = (error.problem or "the text ends too early").removeprefix("but ")
    problem = problem.replace("did not find expected", "found no")
    return f"line{'s' if len(set(marks)) > 1 else ''} {lines}: is not YAML: {problem}; correct it."
