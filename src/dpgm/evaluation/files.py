"""Two files to compare: as records where they are sets or images or have a domain, and as raw columns."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from dpgm.data.domain import Domain
from dpgm.data.formats import format_of
from dpgm.data.opening import locate
from dpgm.data.readers import columns_of, read_source, reading_from
from dpgm.errors import DpgmError, UsageError
from dpgm.evaluation.inputs import AnyDomain, Inputs, as_domain, inputs_of
from dpgm.evaluation.raw_columns import RawColumns, raw_columns
from dpgm.evaluation.reading import read_alike

if TYPE_CHECKING:
    import pyarrow

MOST_ROWS = 1_000_000  # raw rows kept of a longer file, evenly spread: enough for every figure in the report
_COLUMNAR = ("csv", "tsv", "parquet", "jsonl")
_OPTIONS = (
    "assume_public_items",
    "format",
    "shape",
    "person",
    "item",
    "count",
    "threshold",
    "labels",
    "member",
    "separator",
    "header",
    "missing",
    "comment",
    "strip_suffix",
)
_DEFAULTS: dict[str, Any] = {"assume_public_items": True, "missing": (), "strip_suffix": ""}


def file_inputs(
    real: str, synthetic: str, options: Mapping[str, Any], *, domain: AnyDomain | None = None, labels: Any = None
) -> Inputs:
    """Both files made comparable.

    Args:
        real: the real file; `options` (those of `read_records`) say how it is read.
        synthetic: as `dpgm sample` wrote it, or like the real file.
        options: how the real file is read.
        domain: of both; a table without one is compared column by column as it stands.
        labels: the idx labels of idx images.
    """
    given = as_domain(domain)
    try:
        # Nothing is released here, so the items may be taken from the file.
        first, _ = read_source(real, domain=given, assume_public_items=given is None, labels=labels, **options)
    except UsageError:
        if given is not None or not _may_be_table(real, options):
            raise
        return _raw_tables(real, synthetic, options)
    second, used = read_alike(first.domain, synthetic, {}, options)
    return Inputs(first, second, _raw(real, synthetic, options, used, first.domain))


def _may_be_table(path: str, options: Mapping[str, Any]) -> bool:
    columnar = format_of(path.split("::")[0], options.get("format")).name in _COLUMNAR
    return columnar and options.get("shape") in (None, "wide") and options.get("item") is None


def _raw_tables(real: str, synthetic: str, options: Mapping[str, Any]) -> Inputs:
    first = read_raw(real, options, None)
    try:
        second = read_raw(synthetic, {}, None)
    except DpgmError:
        second = read_raw(synthetic, options, None)
    if not set(first.column_names) & set(second.column_names):
        second = read_raw(synthetic, options, None)
    texts = {"missing": options.get("missing", ()), "strip_suffix": options.get("strip_suffix", "")}
    return inputs_of(first, second, missing=texts["missing"], strip_suffix=texts["strip_suffix"])


def _raw(
    real: str, synthetic: str, options: Mapping[str, Any], used: Mapping[str, Any], domain: Domain
) -> RawColumns | None:
    columnar = all(
        format_of(path.split("::")[0], said.get("format")).name in _COLUMNAR
        for path, said in ((real, options), (synthetic, used))
    )
    if not columnar or not any(block.softmax for block in domain.blocks):
        return None
    tables = [read_raw(path, said, domain) for path, said in ((real, options), (synthetic, used))]
    missing = (*options.get("missing", ()), *used.get("missing", ()))
    return raw_columns(
        tables[0], tables[1], domain=domain, missing=missing, strip_suffix=options.get("strip_suffix", "")
    )


def read_raw(path: str, options: Mapping[str, Any], domain: Domain | None) -> "pyarrow.Table":
    """The columns of a file as they stand in it; at most a million rows, evenly spread over the file."""
    said = {name: options.get(name, _DEFAULTS.get(name)) for name in _OPTIONS}
    reading = reading_from(domain=domain, **said)
    file = columns_of(locate(path, said["member"]), reading)
    return _thinned(chunk.table for chunk in file.chunks)


def _thinned(tables: Iterable["pyarrow.Table"]) -> "pyarrow.Table":
    """All rows, or every second, fourth, ... of them where there are too many."""
    import pyarrow as pa

    parts: list[Any] = []
    step, seen, kept = 1, 0, 0
    for table in tables:
        first = -seen % step
        seen += table.num_rows
        part = table if step == 1 else table.take(np.arange(first, table.num_rows, step))
        parts.append(part)
        kept += part.num_rows
        if kept > MOST_ROWS:
            whole = pa.concat_tables(parts, promote_options="permissive")
            parts = [whole.take(np.arange(0, whole.num_rows, 2))]
            step, kept = 2 * step, parts[0].num_rows
    if not parts:
        raise UsageError("a file holds no records; there is nothing to compare.")
    return pa.concat_tables(parts, promote_options="permissive")
