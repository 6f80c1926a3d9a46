"""Two collections of records can be compared only if they describe the same positions."""

import numpy as np

from dpgm.data.domain import Domain
from dpgm.data.items import escape_formula
from dpgm.data.records import Records, sort_rows
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
    return tuple(name for field in domain.fields for name in field.position_names)


def shown_names(domain: Domain) -> tuple[str, ...]:
    """A name for every position that tells its field as well, where there are several."""
    if len(domain.fields) == 1:
        return position_names(domain)
    return tuple(
        f"{field.name}={name}" if field.kind == "items" else name
        for field in domain.fields
        for name in field.position_names
    )


def with_domain(records: Records, domain: Domain) -> Records:
    """The same item sets over a wider or reordered list of items.

    >>> records = Records.from_lists([[0, 1]], Domain.of_items(["milk", "bread"]))
    >>> with_domain(records, Domain.of_items(["bread", "jam", "milk"])).indices.tolist()
    [0, 2]
    """
    place = {name: at for at, name in enumerate(position_names(domain))}
    # CSV protects spreadsheets from items that look like formulas.
    place = {escape_formula(name): at for name, at in place.items()} | place
    labels = position_names(records.domain)
    unknown = [name for name in labels if name not in place]
    if unknown:
        raise UsageError(
            f"the synthetic data holds {len(unknown)} items that the real data's domain does not have, so they have "
            "different domains; evaluate it against the data it was made from."
        )
    moved = np.array([place[name] for name in labels], dtype=np.int64)[records.indices]
    return Records(domain, *sort_rows(records.indptr, moved, domain.width))
