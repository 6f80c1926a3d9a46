"""Records from data in memory: matrices, and frames of pandas, polars and pyarrow in any shape.

Kinds of columns come from the domain or from the schema of the frame (its dtypes), never from the values: a column of
Python objects is a column of texts, whatever it contains.
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from dpgm.data.domain import Domain
from dpgm.data.domain_file import DomainLike, as_domain
from dpgm.data.formats.connections import is_connection
from dpgm.data.formats.matrices import matrix_stream
from dpgm.data.layouts import Layout, Shape, Source
from dpgm.data.nested import with_members
from dpgm.data.read.options import ReadOptions
from dpgm.data.read.pandas_columns import converted, type_of
from dpgm.data.read.readers import domain_of_schema, warn_of_persons
from dpgm.data.read.shapes import read_stream
from dpgm.data.records import Dtypes, Records
from dpgm.data.stream import Chunk, Readers, RowStream
from dpgm.data.values import numbered
from dpgm.errors import InputError, UsageError

_FRAMES = ("pandas", "polars", "pyarrow")
_CHUNK = 65_536  # rows
# Dtypes that pandas and polars may have inferred from the values; one with a named time zone is taken as stated.
_INFERRED_DTYPE = {
    "pandas": re.compile(
        r"u?int64|UInt64|uint64\[pyarrow\]|float64|complex128|bool|object|str"
        r"|(datetime|timedelta)64\[\w+(, UTC([+-]\d\d:\d\d)?)?\]"
    ),
    "polars": re.compile(
        r"U?Int64|U?Int128|Float64|Boolean|String|Date|Time|Null|Object|(Duration|List|Array|Struct)\b.*"
        r"|Datetime\(time_unit='us', time_zone=(None|'UTC')\)"
    ),
}
_NO_DOMAIN = (
    "a frame needs a public domain: pass `domain=` (`dpgm.Domain.draft` drafts one), or `discover=True` to take"
    " names and types of the columns from the frame and find all values privately."
)


@dataclass(frozen=True)
class FrameRecords:
    """Records of data in memory, what a certificate states about them, and the dtypes of sampled frames."""

    records: Records
    source: Source | None
    dtypes: Dtypes = ()


def as_records(data: object, domain: DomainLike | None = None) -> Records:
    """Records from any object in memory: records, or a matrix or table of numpy, scipy, pandas, polars or pyarrow.

    The domain of a matrix follows from its shape; a table needs a `Domain`, a mapping or the path of a domain file.

    >>> as_records(np.array([[0, 1], [1, 1]])).lengths.tolist()
    [1, 2]
    """
    if isinstance(data, Records):
        return data
    domain, data = as_domain(domain), checked_frame(data)
    if not is_frame(data):
        return _of_matrix(data, domain)
    if domain is None:
        raise UsageError(
            "a table needs a public domain; pass `domain=` (`dpgm.load_domain` reads one from a file)."
        )
    stream = frame_stream(data)
    return read_stream(stream, _with_shape(stream, ReadOptions(domain=domain)))[0]


def read_frame(
    data: object,
    domain: DomainLike | None = None,
    *,
    person: str | None = None,
    item: str | None = None,
    time: str | None = None,
    period: str | None = None,
    persons: object = None,
    rows_per_person: int | None = None,
    discover: bool = False,
    memory: str | int | None = None,
) -> FrameRecords:
    """Records of a frame or a matrix, and how they were read.

    Args:
        data: a frame or a matrix; records stay as they are.
        domain: the public domain; optional for matrices.
        person: a frame's column of persons: with `item`, rows are grouped by it; without, its values must differ.
        item: the column of items: with `person`, one item per row; without, a list of items per row.
        time: the column of times, by which items are a sequence: one time per row, or a list of times where items are.
        period: the public period of the times, such as 2024-03-01..2024-03-31, where no domain has it.
        persons: a frame with the attributes of persons, one row each, if the other frame has their events only.
        rows_per_person: keep at most this many rows per person, chosen at random in secret, instead of one.
        discover: find privately what the domain does not state; names and types of a frame's columns are public.
        memory: a limit on the memory of the process; rows beyond their share are kept on the disk.
    """
    domain, data = as_domain(domain), batches_of(data)
    if not is_frame(data):
        stated = (person, item, time, period, persons, rows_per_person)
        if discover or any(one is not None for one in stated):
            raise UsageError(
                "`person`, `item`, `time`, `period`, `persons`, `rows_per_person` and `discover` are for frames of"
                " pandas, polars or pyarrow; leave them out."
            )
        return FrameRecords(as_records(data, domain), None)
    if domain is None and not discover:
        raise UsageError(_NO_DOMAIN)
    stream, attributes = frame_stream(data), None
    options = ReadOptions(
        domain=domain,
        person=person,
        item=item,
        time=time,
        period=period,
        rows_per_person=rows_per_person,
        discover=discover,
        memory=memory,
    )
    if persons is not None:
        if not options.reads_events:
            raise UsageError("`persons` has attributes of persons for a sequence; give a domain with one.")
        attributes = frame_stream(checked_frame(persons))
        options = replace(options, persons=attributes.name)
    if options.stated_shape != "long" and not options.reads_events:
        options = _with_judged_domain(stream, options)
    records, source = read_stream(stream, _with_shape(stream, options), attributes)
    warn_of_persons(stream, source)
    if source.shape == "long" and item in stream.lists:  # samples hold lists as well
        shape: Shape = "basket" if len(records.domain.fields) == 1 else "wide"
        source = replace(source, layout=Layout(shape, item=item, time=time))
    return FrameRecords(records, source, _dtypes(data))


def _with_judged_domain(stream: RowStream, options: ReadOptions) -> ReadOptions:
    """The options with a domain, by names and types of the columns if none is stated."""
    item = None if options.item is None else stream.required(options.item, "item")
    if options.domain is not None:
        return options
    schema = stream.schema
    if item is not None:  # holds lists, which the dtype of a column of Python objects does not say
        schema = schema.set(schema.get_field_index(item), schema.field(item).with_type(pa.list_(pa.string())))
    domain = domain_of_schema(schema, person=options.person)
    # Whoever made the frame may have inferred dtypes from the values.
    return replace(options, domain=replace(domain, origin="judged"), discover=False)


def _with_shape(stream: RowStream, options: ReadOptions) -> ReadOptions:
    """The options with the shape of a frame: long, a table (which may have one column of lists), or 0/1 columns."""
    field = options.item_set
    if options.stated_shape == "long" or options.reads_events:
        return replace(options, shape=options.stated_shape or "basket")
    if field is None:
        return options
    if field.name in stream.names:
        return replace(options, shape="wide", item=field.name)
    if field.is_open:
        raise InputError(f"{stream.name} has no column {field.name!r}, which the domain names.")
    return replace(options, shape="wide")


def _of_matrix(data: Any, domain: Domain | None) -> Records:
    """Records of a matrix of 0 and 1, or of counts: values other than 0 are present."""
    dense = isinstance(data, np.ndarray)
    if not dense and package_of(data) != "scipy":
        raise UsageError(
            "records must come from dpgm, numpy, scipy, pandas, polars or pyarrow; put lists or dicts into a frame, and"
            f" read a file with `dpgm.read_records`; got {type(data).__name__}."
        )
    values = data if dense else getattr(data, "data", None)
    if data.ndim != 2 or not isinstance(values, np.ndarray) or values.dtype.kind not in "biuf":
        raise InputError("a matrix of numbers with two dimensions is needed.")
    if values.dtype.kind == "f":
        if not np.isfinite(values).all():
            raise InputError("the matrix holds NaN or infinite values; 0 and non-zero are expected.")
        if not ((values == 0) | (values == 1)).all():
            raise InputError(
                "the matrix holds numbers other than 0 and 1; say what is present, such as `matrix > 0`, or give a"
                " frame with a domain that describes its columns."
            )
    data = data != 0
    return read_stream(
        matrix_stream(data, ReadOptions(domain=domain), "the matrix", "row"), ReadOptions(domain=domain)
    )[0]


def long_records(data: object, person: str, item: str) -> Records:
    """Records of a frame with items or lists of items of persons, with all that occur: for evaluation, not for a fit.

    Without a column `person`, as samples that hold lists are, every row is a person.
    """
    data = checked_frame(data)
    if not is_frame(data):
        raise UsageError("`person` and `item` are for frames of pandas, polars or pyarrow, and for files.")
    stream = frame_stream(data)
    if stream.names == (item,) and person != item:
        return read_stream(stream, ReadOptions(shape="basket", item=item, assume_public_items=True))[0]
    return read_stream(stream, ReadOptions(person=person, item=item, assume_public_items=True))[0]


# -- what a frame is -----------------------------------------------------------------------------------------------


def package_of(data: object) -> str:
    """The package that the type of an object comes from, such as `pandas`."""
    return type(data).__module__.partition(".")[0]


def is_frame(data: object) -> bool:
    """Whether this is a table of pandas, polars or pyarrow, or Arrow batches to be read once."""
    has_columns = hasattr(data, "columns") or hasattr(data, "column_names")
    return isinstance(data, pa.RecordBatchReader) or (package_of(data) in _FRAMES and has_columns)


def checked_frame(data: object) -> Any:
    """A frame ready to be read: Arrow batches become a table, a lazy frame is collected, a single column refused."""
    data = batches_of(data)
    return data.read_all() if isinstance(data, pa.RecordBatchReader) else data


def batches_of(data: Any) -> Any:
    """The same, but that Arrow batches of whatever gives them may be read once, one by one."""
    package, kind = package_of(data), type(data).__name__
    if package == "polars" and kind == "LazyFrame":
        return data.collect()
    if is_connection(data):
        raise UsageError(
            "a connection to a database is no frame; fit it as it is, with `table` or `query`, or read rows from it:"
            " `pandas.read_sql('SELECT * FROM visits', connection)`."
        )
    if isinstance(data, pa.RecordBatch):
        return pa.Table.from_batches([data])
    if package == "pyarrow" and hasattr(data, "to_batches") and not hasattr(data, "column_names"):
        scanner = data.scanner() if hasattr(data, "scanner") else data
        return scanner.to_reader()
    if package not in _FRAMES and hasattr(data, "__arrow_c_stream__"):
        return pa.RecordBatchReader.from_stream(data)
    if (package in ("pandas", "polars") and kind == "Series") or isinstance(data, (pa.Array, pa.ChunkedArray)):
        raise UsageError("one column is not a frame; give a frame of one column, such as `df[['age']]`.")
    return data


def column_names(data: Any) -> list[str]:
    """The names of a frame's columns, as texts."""
    if isinstance(data, pa.RecordBatchReader):
        return list(data.schema.names)
    return [str(name) for name in (data.column_names if hasattr(data, "column_names") else data.columns)]


def without_column(data: Any, name: str) -> Any:
    """A frame without a column; anything else unchanged."""
    if not is_frame(data) or name not in column_names(data):
        return data
    if package_of(data) == "pandas":
        return data.iloc[:, [at for at, one in enumerate(column_names(data)) if one != name]]
    return data.drop(name) if package_of(data) == "polars" else data.drop_columns([name])


def frame_schema(data: Any) -> pa.Schema:
    """Names and types of a frame's columns by its dtypes; Python objects and categories are texts."""
    if isinstance(data, pa.RecordBatchReader):
        return data.schema
    if package_of(data) != "pandas":
        return arrow_table(data.head(0) if package_of(data) == "polars" else data).schema
    return pa.schema([(str(name), type_of(data.iloc[:, at])) for at, name in enumerate(data.columns)])


def _dtypes(data: Any) -> Dtypes:
    """The dtypes of sampled frames, those of polars as objects; empty for a dtype that packages infer from values.

    One missing value turns whole numbers into floats, and one odd value turns anything into objects: samples of that
    dtype would reveal it. Other dtypes are public: a program that lets values decide even their widths is told so in
    docs/frames.md.
    """
    package = package_of(data)
    if package not in _INFERRED_DTYPE:
        return ()
    return tuple(
        (name, _stated_dtype(dtype, package)) for name, dtype in zip(column_names(data), data.dtypes, strict=True)
    )


def _stated_dtype(dtype: Any, package: str) -> Any:
    if _INFERRED_DTYPE[package].fullmatch(str(dtype)):
        return ""
    if package == "pandas":
        return str(dtype)
    # Of decimals as polars infers them, the places after the point are those of the longest value: the type alone.
    return type(dtype) if str(dtype).startswith("Decimal(precision=38,") else dtype


# -- its columns as Arrow ------------------------------------------------------------------------------------------


def arrow_table(frame: Any, names: Sequence[str] | None = None) -> pa.Table:
    """A frame of polars or pyarrow, or the named columns of it, as an Arrow table."""
    if package_of(frame) != "polars":
        return frame if names is None else frame.select(names)
    chosen = frame.columns if names is None else names
    try:  # column by column, because polars takes some names for patterns of names
        return pa.table({name: frame.get_column(name).to_arrow() for name in chosen})
    except Exception:  # polars raises errors of its own for types that Arrow does not have
        raise InputError("a column of the frame has a type that Arrow does not have; convert it first.") from None


def frame_stream(data: Any) -> RowStream:
    """The rows of a frame, categories decoded; objects of pandas become columns by the readers that are asked for."""
    known = column_names(data)
    for name, count in Counter(known).items():
        if count > 1:
            raise InputError(f"two columns of the frame are named {name!r}; names must differ.")

    def tables(readers: Readers, names: list[str]) -> Iterator[pa.Table]:
        if isinstance(data, pa.RecordBatchReader):
            for batch in _batches(data):
                yield pa.Table.from_batches([batch]).select(names)
        elif package_of(data) == "pandas":
            yield pa.table(
                {name: converted(data.iloc[:, known.index(name)], name, readers[name]) for name in names}
            )
        else:
            yield arrow_table(data, names)

    def rows(readers: Readers) -> Iterator[Chunk]:
        names = [name for name in readers if name in known]
        first = 1
        for table in tables(readers, names):
            table = pa.table({name: _decoded(table.column(name)) for name in names})
            for start in range(0, table.num_rows, _CHUNK):
                piece = table.slice(start, _CHUNK)
                numbers = range(first + start, first + start + piece.num_rows + 1)
                yield Chunk(piece, numbered("row", numbers))
            first += table.num_rows

    return with_members(RowStream("the frame", frame_schema(data), rows, typed=True, noun="frame"))


def _batches(reader: pa.RecordBatchReader) -> Iterator[pa.RecordBatch]:
    """The batches; the words of whoever gives them might repeat a value."""
    while True:
        try:
            yield reader.read_next_batch()
        except StopIteration:
            return
        except (pa.ArrowException, OSError, ValueError):
            raise InputError(
                "the frame cannot be read to its end; check the query that gives it, and give a new one."
            ) from None


def _decoded(column: Any) -> Any:
    """A column with its categories decoded, and its texts as Arrow has them elsewhere."""
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    return column.cast(pa.string()) if pa.types.is_string_view(column.type) else column
