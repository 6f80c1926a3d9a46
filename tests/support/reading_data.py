"""Small files for tests of the readers."""

from pathlib import Path
from typing import Any

from dpgm.data.domain import Domain, ItemSet
from dpgm.data.read.frames import read_frame
from dpgm.data.records import Records


def write_file(path: Path, content: str | bytes, encoding: str = "utf-8") -> Path:
    path.write_bytes(content if isinstance(content, bytes) else content.encode(encoding))
    return path


def write_parquet(path: Path, **columns: Any) -> Path:
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(pa.table(columns), path)
    return path


def with_open_items(records: Records) -> Records:
    """The same sets of items, which are to be found."""
    (field,) = records.domain.fields
    return read_frame(records.to_arrow(), Domain((ItemSet(field.name, discover=True),))).records
