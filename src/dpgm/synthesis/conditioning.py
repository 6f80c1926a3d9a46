"""Constraints of a domain and conditions of a sample, put on generators and on the records they draw.

A mixture of products is conditioned exactly, without any rejection: each component is cut to each box, its weight is
multiplied by the probability of the box, and within the box positions stay independent. So the conditioned mixture is a
mixture of products again. Whatever positions alone cannot tell, `RecordFilter` decides on the records drawn. All of it
is post-processing of public rules: no rule looks at a private row. `parse_where` reads what a user asks of a sample:
text, a list of texts or a mapping.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Tensor

from dpgm.data.condition_text import one_of, parse_condition
from dpgm.data.conditions import (
    LABELLED,
    MISSING,
    All,
    Condition,
    Rule,
    Unique,
    Values,
    check_values,
    fields_of,
    labels_of,
    numbers_of,
    truth,
)
from dpgm.data.domain import Domain
from dpgm.data.records import Records
from dpgm.data.table import TableEncoder, decode
from dpgm.errors import UsageError
from dpgm.products.model import Products
from dpgm.strategy.protocol import Generator, ProductMixture
from dpgm.synthesis.boxes import Box, TooManyBoxesError, common, position_ranges, region_of

Where: TypeAlias = str | Sequence[str] | Mapping[str, Any]
MOST_CELLS = 60_000_000  # components x positions of a conditioned mixture; beyond, memory would be the limit
_NEGLIGIBLE = 1e-12  # weight of a component relative to all that are left


def conditioned(products: ProductMixture, boxes: Sequence[Box]) -> tuple[Products | None, float]:
    """The mixture given that records lie in one of the disjoint boxes, and the probability that they do.

    The mixture is None where that probability is 0, or where the mixture would not fit into memory (then the
    probability is NaN).
    """
    weights, components = [], []
    for box in boxes:
        inside = products.weights * _chance(products, box)
        chosen = torch.nonzero(inside > 0).flatten()
        weights.append(inside[chosen])
        components.append(chosen)
    total = float(sum(float(one.sum()) for one in weights))
    if not total > 0:
        return None, 0.0
    chosen_by_box = []
    for one, chosen in zip(weights, components, strict=True):
        large = one > _NEGLIGIBLE * total
        chosen_by_box.append((one[large], chosen[large]))
    if sum(len(one) for one, _ in chosen_by_box) * products.domain.width > MOST_CELLS:
        return None, math.nan
    parts = [_cut(products, box, chosen) for box, (_, chosen) in zip(boxes, chosen_by_box, strict=True)]
    joined = torch.cat([one for one, _ in chosen_by_box])
    return Products(products.domain, joined / joined.sum(), torch.cat(parts)), total


def _places(products: ProductMixture) -> dict[str, tuple[int, int]]:
    domain = products.domain
    return {
        field.name: (block.start, block.stop) for field, block in zip(domain.fields, domain.blocks, strict=True)
    }


def _chance(products: ProductMixture, box: Box) -> Tensor:
    """The probability of a box in every component."""
    places = _places(products)
    chance = torch.ones(products.components, dtype=torch.float64)
    for (name, item), mask in box.items():
        start, stop = places[name]
        if item < 0:
            block = products.probabilities[:, start:stop].double()
            share = block[:, torch.from_numpy(mask)].sum(dim=1) / block.sum(dim=1)
        else:
            present = products.probabilities[:, start + item].double()
            share = present * float(mask[1]) + (1 - present) * float(mask[0])
        chance = chance * share.clamp(min=0)
    return chance


def _cut(products: ProductMixture, box: Box, chosen: Tensor) -> Tensor:
    """Probabilities of the chosen components within a box."""
    places = _places(products)
    probabilities = products.probabilities[chosen].clone()
    for (name, item), mask in box.items():
        start, stop = places[name]
        if item < 0:
            block = probabilities[:, start:stop].double() * torch.from_numpy(mask).double()
            probabilities[:, start:stop] = (block / block.sum(dim=1, keepdim=True)).float()
        elif not mask.all():
            probabilities[:, start + item] = float(mask[1])
    return probabilities


def with_values(records: Records, root: int, number: int) -> Records:
    """Records of a chunk with the values within their bins drawn once and for all.

    The values depend on the seed and the number of the chunk alone.
    """
    if all(field.kind in LABELLED for field in records.domain.fields) and not getattr(records.domain, "unread", ()):
        return records
    table = decode(records, rng=np.random.default_rng([root, number, 1]))
    return Records(records.domain, records.indptr, records.indices, decoded=table)


def condition_generator(
    generator: Generator, domain: Domain, where: Condition | None
) -> tuple[Generator, float, bool]:
    """The generator conditioned as far as positions tell.

    Returns:
        The generator, the probability of what it was conditioned on, and whether every record it draws is good.
    """
    products = generator.as_products()
    rules = [rule for rule in domain.constraints if isinstance(rule, Rule)]
    if where is None and not rules:
        return generator, 1.0, True
    if products is None:
        return generator, 1.0, False
    regions: list[tuple[Box, ...]] = []
    exact = True
    for condition, unknown in [
        *((rule.condition, True) for rule in rules),
        *([] if where is None else [(where, False)]),
    ]:
        try:
            region = region_of(condition, domain, unknown=unknown)
            common([*regions, region.boxes])
        except TooManyBoxesError:
            exact = False
            continue
        exact = exact and region.exact
        regions.append(region.boxes)
    made, chance = conditioned(products, common(regions))
    if made is None and chance == 0:
        return generator, 0.0, False
    return (generator, 1.0, False) if made is None else (made, chance, exact)


class RecordFilter:
    """Keeps the records that meet everything; computes numbers that a rule states; drops repeated unique keys."""

    def __init__(self, domain: Domain, where: Condition | None) -> None:
        self._domain, self._where = domain, where
        self._rules = [rule for rule in domain.constraints if isinstance(rule, Rule)]
        self._unique = [rule for rule in domain.constraints if isinstance(rule, Unique)]
        self._seen: list[set[Any]] = [set() for _ in self._unique]
        mentioned = [fields_of(rule.condition) for rule in self._rules] + (
            [] if where is None else [fields_of(where)]
        )
        kinds = {field.name: field.kind for field in domain.fields}
        self._numbers = [name for name in dict.fromkeys(sum(mentioned, ())) if kinds[name] not in LABELLED]
        # Whether records may be dropped or changed even if their positions are good.
        self.acts = bool(self._unique) or any(rule.sets is not None for rule in self._rules)

    def __call__(self, records: Records) -> Records:
        """The records that meet everything, in order."""
        if not len(records):
            return records
        records = self._computed(records)
        values = self._values(records)
        good = np.ones(len(records), dtype=np.bool_)
        for rule in self._rules:
            good &= ~truth(rule.condition, values)[1]
        if self._where is not None:
            good &= truth(self._where, values)[0]
        for seen, key in zip(self._seen, self._unique, strict=True):
            good &= self._new_keys(records, good, key, seen)
        return records if good.all() else records.take(np.flatnonzero(good))

    def _values(self, records: Records) -> Values:
        numbers = numbers_of(records.decoded, self._numbers) if self._numbers else {}
        return Values(records, numbers)

    def _computed(self, records: Records) -> Records:
        """Numbers that a rule states (`total = net + tax`) take that value where they can."""
        for rule in self._rules:
            claim = rule.sets
            if claim is None:
                continue
            values = self._values(records)
            name = claim.terms[0][1]
            implied = np.full(len(records), -claim.constant)
            for factor, other in claim.terms[1:]:
                implied = implied - factor * values.number(other)
            applies = np.ones(len(records), dtype=np.bool_) if rule.when is None else truth(rule.when, values)[0]
            applies &= ~np.isnan(implied) & ~truth(claim, values)[0] & ~np.isnan(values.number(name))
            applies &= _fits(self._domain.field(name), implied)
            if applies.any():
                records = self._replaced(records, name, np.where(applies, implied, values.number(name)))
        return records

    def _replaced(self, records: Records, name: str, numbers: Any) -> Records:
        """The same records with other numbers in one column, and the positions that go with them."""
        import pyarrow as pa
        import pyarrow.compute as pc

        table = records.decoded
        assert table is not None
        kind = table.schema.field(name).type
        missing = np.isnan(numbers)
        if pa.types.is_date(kind) or pa.types.is_timestamp(kind):
            seconds = pa.array(
                np.where(missing, 0, np.rint(np.where(missing, 0, numbers) * 86_400)).astype(np.int64), mask=missing
            )
            column = pc.cast(seconds.cast(pa.timestamp("s")), kind, safe=False)
        else:
            integer = pa.types.is_integer(kind)
            plain = np.rint(np.where(missing, 0, numbers)) if integer else np.where(missing, 0, numbers)
            column = pc.cast(pa.array(plain, mask=missing), kind)
        table = table.set_column(table.column_names.index(name), name, column)
        encoded = TableEncoder(self._domain).encode(table)
        return Records(self._domain, encoded.indptr, encoded.indices, decoded=table)

    def _new_keys(self, records: Records, good: Any, rule: Unique, seen: set[Any]) -> Any:
        """Which of the good records have a key that was not seen before."""
        table = decode(records, rng=np.random.default_rng(0))
        columns = [table.column(name).to_pylist() for name in rule.fields]
        new = np.zeros(len(records), dtype=np.bool_)
        for row, key in enumerate(zip(*columns, strict=True)):
            if good[row]:
                key = tuple(tuple(part) if isinstance(part, list) else part for part in key)
                new[row] = key not in seen
                seen.add(key)
        return new


def _fits(field: Any, numbers: Any) -> Any:
    """Which numbers a field can hold."""
    fits = np.isfinite(numbers)
    ranges = position_ranges(field)
    if ranges is not None:
        with np.errstate(invalid="ignore"):
            fits &= (numbers >= ranges[0].min() - 1e-9) & (numbers <= ranges[1].max() + 1e-9)
    form = getattr(field, "format", None)
    if getattr(field, "integer", False) or (form is not None and form.kind in ("integer", "date")):
        fits &= numbers == np.rint(numbers)
    return fits


def parse_where(where: Where | None, domain: Domain) -> Condition | None:
    """All that is asked as one condition; None if nothing is.

    A text is a label alone (`milk`), `field=value` with any label the domain lists, or a condition such as
    `age >= 65 and colour in [red, blue]`. A mapping gives a value or a list of values per field.

    Raises:
        UsageError: it refers to fields or values that the domain does not have, or can be read in two ways.
    """
    if not where:
        return None
    if not isinstance(where, (str, Mapping, Sequence)):
        raise UsageError(
            "`where` must be a text such as 'age >= 65', a list of such texts, or a mapping of fields to values."
        )
    if isinstance(where, Mapping):
        parts = [_entry(domain, name, value) for name, value in where.items()]
    else:
        parts = [_text(domain, one) for one in ([where] if isinstance(where, str) else where)]
    for part in parts:
        check_values(part, domain)
    return parts[0] if len(parts) == 1 else All(tuple(parts))


def _entry(domain: Domain, name: object, value: Any) -> Condition:
    field = domain.field(str(name))
    several = value if isinstance(value, (list, tuple, set, frozenset, range)) else [value]
    texts = [MISSING if one is None else str(one).lower() if isinstance(one, bool) else str(one) for one in several]
    return one_of(field, texts)


def _text(domain: Domain, text: str) -> Condition:
    found = _named(domain, text)
    if len(found) == 1:
        return found[0]
    if found:
        raise UsageError(f"the condition {text!r} can be read in several ways; write field=value.")
    try:
        return parse_condition(text, domain.fields)
    except UsageError as error:
        if any(mark in text for mark in "<>=! "):
            raise
        raise UsageError(
            f"the condition {text!r} names no item or category of the domain; write field=value with a value it"
            " lists, or a range such as age>=65."
        ) from error


def _named(domain: Domain, text: str) -> list[Condition]:
    """Every reading of a text as a label alone or as `field=label`; names and labels may hold `=` themselves."""
    found = []
    for field in domain.fields:
        if field.kind not in LABELLED or field.kind == "image":
            continue
        labels = labels_of(field)
        readings = [text] if field.kind in ("items", "categorical") else []
        if text.startswith(f"{field.name}="):
            readings.append(text[len(field.name) + 1 :])
        for reading in dict.fromkeys(readings):
            may_be_missing = getattr(field, "missing", False) and reading == MISSING
            if reading in labels or may_be_missing:
                found.append(one_of(field, [reading]))
    return found
