"""Domains as small YAML or JSON files.

A domain file lists fields in order, each with its name and kind:

    label: income            # optional: the field to predict
    fields:
      - {name: stations, kind: items, items: [north, south]}
      - {name: scan, kind: image, height: 28, columns: 28}
      - {name: income, kind: categorical, values: [low, high], missing: true}
      - {name: age, kind: numeric, low: 17, high: 90, bins: 37, integer: true}
    constraints:             # optional: public rules that every synthetic record meets
      - income = low if age < 18

Nothing else is accepted: no other keys, no key twice, no YAML tags.
"""

import json
import os
from pathlib import Path
from typing import Any

from dpgm.data.atomic import atomic_file
from dpgm.data.conditions import Rule, check_values
from dpgm.data.domain import Categorical, Domain, Field, Image, ItemSet, Numeric
from dpgm.errors import UsageError

_MAX_BYTES = 1 << 28
_MAX_DEPTH = 20
_KEYS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {  # kind: keys needed, keys allowed as well
    "items": (("items",), ()),
    "image": (("height", "columns"), ()),
    "categorical": (("values",), ("missing",)),
    "numeric": (("low", "high", "bins"), ("integer", "missing")),
}


def domain_to_plain(domain: Domain) -> dict[str, Any]:
    """A domain as plain dictionaries and lists, ready for JSON or YAML."""
    plain: dict[str, Any] = {} if domain.label is None else {"label": domain.label}
    plain["fields"] = [_field_to_plain(field) for field in domain.fields]
    if domain.constraints:
        plain["constraints"] = [constraint.source for constraint in domain.constraints]
    return plain


def _field_to_plain(field: Field) -> dict[str, Any]:
    needed, allowed = _KEYS[field.kind]
    plain: dict[str, Any] = {"name": field.name, "kind": field.kind}
    for key in needed:
        value = getattr(field, key)
        plain[key] = list(value) if isinstance(value, tuple) else value
    plain.update({key: True for key in allowed if getattr(field, key)})
    return plain


def domain_from_plain(plain: object) -> Domain:
    """A domain from plain dictionaries and lists.

    Raises:
        UsageError: a key is unknown or missing, a value has the wrong type, or the domain breaks a rule.
    """
    if not isinstance(plain, dict):
        raise UsageError("a domain must be a mapping with the key `fields`.")
    _check_keys(plain, ("fields",), ("label", "constraints"), "the domain")
    if not isinstance(plain["fields"], list):
        raise UsageError("`fields` of the domain must be a list.")
    label = plain.get("label")
    if label is not None and not isinstance(label, str):
        raise UsageError("`label` of the domain must be the name of a field.")
    rules = plain.get("constraints", [])
    if not isinstance(rules, list):
        raise UsageError("`constraints` of the domain must be a list.")
    fields = tuple(_field_from_plain(field, at) for at, field in enumerate(plain["fields"], start=1))
    return Domain(fields, label, constraints=tuple(rules))


def _check_keys(plain: dict[Any, Any], needed: tuple[str, ...], allowed: tuple[str, ...], what: str) -> None:
    for key in needed:
        if key not in plain:
            raise UsageError(f"{what} lacks the key `{key}`; add it.")
    for key in plain:
        if key not in needed and key not in allowed:
            raise UsageError(f"{what} has the unknown key {str(key)[:60]!r}; remove it.")


def _field_from_plain(plain: object, at: int) -> Field:
    if not isinstance(plain, dict):
        raise UsageError(f"field {at} of the domain must be a mapping with `name` and `kind`.")
    kind = plain.get("kind")
    if not isinstance(kind, str) or kind not in _KEYS:
        raise UsageError(f"field {at} of the domain must have a `kind`: one of {', '.join(_KEYS)}.")
    needed, allowed = _KEYS[kind]
    _check_keys(plain, ("name", "kind", *needed), allowed, f"field {at} of the domain")
    for key in ("integer", "missing"):
        if not isinstance(plain.get(key, False), bool):
            raise UsageError(f"`{key}` of field {at} of the domain must be true or false.")
    for key in ("items", "values"):
        if not isinstance(plain.get(key, []), list):
            raise UsageError(f"`{key}` of field {at} of the domain must be a list.")
    name, missing = plain["name"], plain.get("missing", False)
    if kind == "items":
        return ItemSet(name, tuple(plain["items"]))
    if kind == "image":
        return Image(name, plain["height"], plain["columns"])
    if kind == "categorical":
        return Categorical(name, tuple(plain["values"]), missing)
    return Numeric(name, plain["low"], plain["high"], plain["bins"], plain.get("integer", False), missing)


def load_domain(path: str | os.PathLike[str]) -> Domain:
    """The domain of a YAML or JSON file.

    Raises:
        UsageError: the file is not there, is not a domain, or the domain breaks a rule.
    """
    file = Path(path)
    parse = _parser(file)
    try:
        if not file.is_file():
            raise UsageError(f"{file}: there is no such domain file; check the path.")
        if file.stat().st_size > _MAX_BYTES:
            raise UsageError(f"{file}: is too large for a domain file (over {_MAX_BYTES >> 20} MB).")
        text = file.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise UsageError(f"{file}: is not UTF-8 text; save it as UTF-8.") from None
    except OSError as error:
        raise UsageError(f"{file}: cannot be read ({(error.strerror or 'fault').lower()}).") from None
    try:
        domain = domain_from_plain(parse(text))
        for constraint in domain.constraints:
            if isinstance(constraint, Rule):
                check_values(constraint.condition, domain)
        return domain
    except UsageError as error:
        raise type(error)(f"{file}: {error}") from None


def save_domain(domain: Domain, path: str | os.PathLike[str], *, note: str = "", force: bool = True) -> None:
    """Write a domain as YAML or JSON, after the file's ending; a `note` goes into YAML comments at the top.

    With `force=False` an existing file is refused.
    """
    file = Path(path)
    _parser(file)
    plain = domain_to_plain(domain)
    if file.suffix == ".json":
        text = json.dumps(plain, indent=1, ensure_ascii=False) + "\n"
    else:
        comment = "".join(f"# {line}\n" for line in note.splitlines())
        text = comment + _yaml_text(plain)
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


def _parser(file: Path) -> Any:
    if file.suffix == ".json":
        return _parse_json
    if file.suffix in (".yaml", ".yml"):
        return _parse_yaml
    raise UsageError(f"{file}: a domain file must end in .yaml, .yml or .json.")


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    plain = dict(pairs)
    if len(plain) < len(pairs):
        raise UsageError("a key occurs twice in one mapping; keep one.")
    return plain


def _refuse_constant(_: str) -> None:
    raise UsageError("numbers must be finite.")


def _parse_json(text: str) -> object:
    try:
        return json.loads(text, object_pairs_hook=_without_repeats, parse_constant=_refuse_constant)
    except json.JSONDecodeError as error:
        raise UsageError(f"line {error.lineno}: is not JSON; correct it.") from None
    except RecursionError:
        raise UsageError("is nested too deeply for a domain.") from None


def _parse_yaml(text: str) -> object:
    import yaml

    class Strict(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
        """Plain values only, no key twice."""

        def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
            keys = [key.value for key, _ in node.value]
            if len(set(map(str, keys))) < len(keys):
                raise UsageError(f"line {node.start_mark.line + 1}: a key occurs twice in one mapping; keep one.")
            mapping: dict[Any, Any] = super().construct_mapping(node, deep)
            return mapping

    try:
        # Composing nested nodes recurses in C and would end the process: look at the depth first.
        depth = 0
        for event in yaml.parse(text, Loader=Strict):
            depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
            if depth > _MAX_DEPTH:
                raise UsageError("is nested too deeply for a domain.")
        return yaml.load(text, Loader=Strict)
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark is not None else 1
        raise UsageError(
            f"line {line}: is not plain YAML (tags such as !!python are refused); correct it."
        ) from None
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        if isinstance(error, UsageError):
            raise
        raise UsageError("is not plain YAML; correct it.") from None
