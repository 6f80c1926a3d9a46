"""Two collections of records can be compared only if they describe the same positions."""

from itertools import pairwise

from dpgm.data.domain import Domain, Field
from dpgm.data.records import Records
from dpgm.errors import UsageError


def check_comparable(real: Records, synthetic: Records) -> None:
    """Refuse empty data and data of different domains, saying which and why.

    Raises:
        UsageError: one side has no records, or the domains differ.
    """
    for name, records in (("real", real), ("synthetic", synthetic)):
        if len(records) == 0:
            raise UsageError(f"the {name} data holds no records; there is nothing to compare.")
    if real.width != synthetic.width:
        raise UsageError(
            f"the synthetic data is {synthetic.width} positions wide and the real data {real.width}; "
            "read both with the same domain."
        )
    if real.domain != synthetic.domain:
        ours = [field.name for field in real.domain.fields]
        theirs = [field.name for field in synthetic.domain.fields]
        detail = "their items or values differ" if ours == theirs else f"fields {ours} against {theirs}"
        raise UsageError(
            f"real and synthetic data have different domains ({detail}); read both with the same domain."
        )


def position_names(domain: Domain) -> tuple[str, ...]:
    """A readable name for every position: an item's label, `field=value`, a bin's range or a pixel.

    >>> position_names(Domain.of_items(["bread", "milk"]))
    ('bread', 'milk')
    """
    return tuple(name for field in domain.fields for name in _names(field))


def _names(field: Field) -> list[str]:
    if field.kind == "items":
        return [str(item) for item in field.items]
    if field.kind == "image":
        return [f"r{at // field.columns}c{at % field.columns}" for at in range(field.width)]
    if field.kind == "categorical":
        names = [f"{field.name}={value}" for value in field.values]
    else:
        step = (field.high - field.low) / field.bins
        edges = [field.low + step * at for at in range(field.bins + 1)]
        names = [f"{field.name} {low:g} to {high:g}" for low, high in pairwise(edges)]
    return [*names, f"{field.name} missing"] if field.missing else names
