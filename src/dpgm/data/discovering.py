"""Reading with values still to be found: item sets without a list of items, tables of which only the schema is known.

Kinds and names of columns come from the user, from the domain file or from the schema of a Parquet file or frame: never
from the values.
"""

import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from dpgm.data.domain import (
    Boolean,
    Categorical,
    Date,
    DateTime,
    Domain,
    Field,
    Ignored,
    ItemSet,
    Numeric,
    Unread,
)
from dpgm.data.formats import set_field
from dpgm.data.number_fields import DISCOVER
from dpgm.data.open_records import OpenRecords
from dpgm.data.options import ReadOptions
from dpgm.data.records import Records
from dpgm.data.source import Source
from dpgm.errors import UsageError

if TYPE_CHECKING:
    import pyarrow


def without_list(options: ReadOptions) -> ReadOptions | None:
    """The options that read the items as they occur, where they are to be discovered; else None."""
    domain = options.public_domain
    if domain is not None:
        field = set_field(domain)
        if options.discover and not domain.is_open:
            raise UsageError(
                "the domain leaves nothing to discover; leave out --discover, or say `discover: true` in it."
            )
        if not isinstance(field, ItemSet) or not field.discover:
            return None
        return replace(options, domain=None, discover=False, assume_public_items=True)
    if not options.discover:
        return None
    if options.assume_public_items:
        raise UsageError("items are discovered or assumed public, not both; leave out one of the two options.")
    return replace(options, discover=False, assume_public_items=True)


def with_private_items(records: Records, source: Source, options: ReadOptions) -> tuple[Records, Source]:
    """Records over the items that occur, as records whose items are still to be discovered.

    Where the list of items did not come from the rows (0/1 columns, array files), it is public by nature and stays,
    unless the domain says otherwise.
    """
    domain = options.public_domain
    if not source.items_assumed_public and domain is None:
        return records, source
    if domain is None:
        domain = Domain((ItemSet(records.domain.fields[0].name, discover=True),))
    return OpenRecords.of_sets(records, domain), replace(source, items_assumed_public=False)


def domain_of_schema(schema: "pyarrow.Schema", *, leave_out: Sequence[str] = ()) -> Domain:
    """An open domain from the names and types of columns alone; types that cannot be modelled are left out and told.

    >>> import pyarrow as pa
    >>> [field.kind for field in domain_of_schema(pa.schema({"age": pa.int64(), "ward": pa.string()})).fields]
    ['numeric', 'categorical']
    """
    fields: list[Field | Unread] = [
        Ignored(entry.name) if entry.name in leave_out else _field_of(entry.name, entry.type) for entry in schema
    ]
    if all(isinstance(field, Ignored) for field in fields):
        raise UsageError("no column has a type that can be modelled; state a domain.")
    lost = [repr(one.name) for one in fields if isinstance(one, Ignored) and one.name not in leave_out]
    if lost:
        warnings.warn(
            f"{', '.join(lost)}: of a type that cannot be modelled, so samples do not have it; turn it into numbers,"
            " texts or dates (a duration into seconds) to keep it.",
            UserWarning,
            stacklevel=3,
        )
    return Domain(tuple(fields))  # type: ignore[arg-type]


def _field_of(name: str, kind: Any) -> Field | Unread:
    import pyarrow as pa

    types = pa.types
    if types.is_dictionary(kind):
        kind = kind.value_type
    if types.is_boolean(kind):
        return Boolean(name, missing=True)
    if types.is_integer(kind):
        return Numeric(name, "discover", "discover", integer=True)
    if types.is_decimal(kind):
        return Numeric(name, "discover", "discover", decimals=max(0, min(int(kind.scale), 12)))
    if types.is_floating(kind):
        return Numeric(name, "discover", "discover")
    if types.is_date(kind):
        return Date(name, DISCOVER, DISCOVER)
    if types.is_timestamp(kind):
        return DateTime(name, DISCOVER, DISCOVER, unit=DISCOVER)
    if types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind):
        return Categorical(name, discover=True)
    if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        return ItemSet(name, discover=True)
    return Ignored(name)
