"""Matrices: scipy's `.npz` and numpy's `.npy` files, and the stream of a matrix that is in memory.

A matrix has a column per position of the domain, or is an array of images (number, height, width). Its shape is taken
as public.
"""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dpgm.data.domain import Domain
from dpgm.data.formats.base import Append, Format, Guess
from dpgm.data.formats.opening import Input, zip_members
from dpgm.data.formats.pictures import cells_at_once, picture_arrays, picture_stream, tensors
from dpgm.data.formats.written import Written
from dpgm.data.kinds.image import WHITE
from dpgm.data.records import Records, concatenate, pixel_values
from dpgm.data.rows import pieces_of
from dpgm.data.stream import POSITION_COLUMN, Chunk, Readers, RowStream
from dpgm.data.values import numbered
from dpgm.errors import InputError, ResourceError

if TYPE_CHECKING:
    from dpgm.data.read.options import ReadOptions

_NPZ_COPIES = 3  # of the arrays of a file: as loaded, as pieces of records, and as records
_MAX_BYTES = 1 << 36
_MAX_LISTED = 5  # names of arrays in a message


class Npy(Format):
    """A plain numpy matrix."""

    has = frozenset[str]()
    only_shape = "wide"
    keeps_order = False
    packed = True
    writes = "file"

    def begins(self, head: bytes) -> bool:
        """By the mark of numpy."""
        return head.startswith(b"\x93NUMPY")

    def stream(self, source: Input, options: "ReadOptions", draft: Guess | None = None) -> RowStream:
        """Positions, or images; read piece by piece."""
        source.refuse_member(".npy files")
        matrix = None
        with suppress(Exception):  # numpy parses the header as Python text, so damage raises many kinds of errors
            matrix = _mapped(source.path)
        if matrix is None:
            raise InputError(f"{source}: is not a plain numpy matrix, or is cut short; write it again.")
        return matrix_stream(matrix, options, str(source))

    def writer(self, target: Path, written: Written) -> Any:
        """Bytes: images as grey values, or zeros and ones."""
        return byte_rows(target, written.domain, _npy_header, grey_only=True)


class Npz(Format):
    """A scipy sparse matrix, one plain array, or the arrays `images` and `labels`; read and written as a whole."""

    has = frozenset[str]()
    only_shape = "wide"
    keeps_order = False
    packed = True
    writes = "file"

    def stream(self, source: Input, options: "ReadOptions", draft: Guess | None = None) -> RowStream:
        """Positions, or images and their labels."""
        source.refuse_member(".npz files")
        members = zip_members(source.path, f"{source}: is damaged or cut short; write it again.")
        unpacked = sum(one.file_size for one in members)
        if unpacked > _MAX_BYTES or (unpacked > 1 << 32 and unpacked > 1000 * source.path.stat().st_size):
            raise ResourceError(f"{source}: would unpack to {unpacked >> 30} GB; split it.")
        options.refuse_beyond_memory(source, _NPZ_COPIES * unpacked, "save the matrix as .npy or Parquet")
        names = [one.filename.removesuffix(".npy") for one in members]
        if {"images", "labels"} <= {*names}:
            return picture_stream(*_labelled_arrays(source), options, str(source))
        return matrix_stream(_matrix(source, names), options, str(source))

    def writer(self, target: Path, written: Written) -> Any:
        """Images and their labels, or a sparse matrix."""
        pictures = written.domain.picture is not None
        return picture_arrays(target, written.domain) if pictures else _sparse_rows(target, written.domain)


def _mapped(path: Path) -> NDArray[Any]:
    """The matrix of a file, mapped into memory; raises anything if it is damaged."""
    with open(path, "rb") as file:
        version = np.lib.format.read_magic(file)
        read = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}[version]
        shape, fortran_order, dtype = read(file)
        if dtype.kind not in "biuf":  # anything else might hold objects
            raise ValueError
        return np.memmap(file, dtype, "r", file.tell(), shape, "F" if fortran_order else "C")


def _matrix(source: Input, names: list[str]) -> Any:
    """A scipy sparse matrix, or the only array of a file."""
    import scipy.sparse

    if "format" not in names and len(names) != 1:
        listed = ", ".join(names[:_MAX_LISTED]) + (", ..." if len(names) > _MAX_LISTED else "")
        raise InputError(
            f"{source}: holds {len(names)} arrays ({listed}), neither a sparse matrix nor `images` and"
            " `labels`; save the one to read in a file of its own, with numpy.save as .npy or scipy.sparse.save_npz."
        )
    kind = "a sparse matrix written by scipy.sparse.save_npz" if "format" in names else "a plain numpy matrix"
    try:
        if "format" not in names:
            with np.load(source.path, allow_pickle=False) as arrays:
                return arrays[names[0]]
        matrix: Any = scipy.sparse.load_npz(source.path)
        matrix.tocsr().check_format(full_check=True)
        return matrix
    except Exception:  # numpy, scipy, zipfile and zlib raise many kinds of errors on damaged files
        raise InputError(f"{source}: is not {kind}, or is damaged; write it again.") from None


def _labelled_arrays(source: Input) -> tuple[NDArray[Any], pa.Array]:
    """The arrays `images` and `labels` of a file."""
    arrays = None
    # numpy, zipfile and zlib raise many kinds of errors on damaged files
    with suppress(Exception), np.load(source.path, allow_pickle=False) as members:
        arrays = members["images"], members["labels"]
    if arrays is None:
        raise InputError(f"{source}: the arrays `images` and `labels` cannot be read; write them again.")
    images, labels = arrays
    if images.ndim == 4 and images.shape[3] == 1:
        images = images[..., 0]
    if labels.ndim != 1 or labels.dtype.kind not in "biuU":
        raise InputError(f"{source}: `labels` must be one whole number or text for each image.")
    return images, pa.array(labels.tolist(), type=pa.string() if labels.dtype.kind == "U" else pa.int64())


# -- streams -----------------------------------------------------------------------------------------------------------


def matrix_stream(matrix: Any, options: "ReadOptions", name: str, place: str | None = None) -> RowStream:
    """A dense or sparse matrix, which `name` names in messages; `place` is what the number of a row follows there."""
    values = matrix if isinstance(matrix, np.ndarray) else matrix.data
    if values.dtype.kind not in "biuf":
        raise InputError(f"{name}: does not hold numbers; write a matrix of numbers.")
    place = f"{name}: row" if place is None else place
    if not isinstance(matrix, np.ndarray):
        return _sparse_stream(matrix, options, name, place)
    if matrix.ndim not in (2, 3) or (0 in matrix.shape[1:] and matrix.shape[1:] != (0,)):
        raise InputError(f"{name}: must hold a matrix of 2 dimensions, or of 3 for images.")
    stated = options.public_domain
    field = None if stated is None or stated.item_set is None else stated.image
    if matrix.ndim == 3 and (stated is None or (field is not None and field.pixels == matrix[0].size)):
        return picture_stream(matrix, None, options, name, place)
    flat = matrix.reshape(len(matrix), int(np.prod(matrix.shape[1:])))

    def rows(readers: Readers) -> Iterator[Chunk]:
        size = max(1, cells_at_once(options) // flat.shape[1])
        for start in range(0, len(flat), size):
            part = tensors(flat[start : start + size])
            yield Chunk(pa.table({POSITION_COLUMN: part}), numbered(place, range(start + 1, start + 1 + len(part))))

    kind = pa.fixed_shape_tensor(pa.from_numpy_dtype(_stored(flat.dtype)), flat.shape[1:])
    return _positions(rows, kind, flat.shape[1], options, name)


def _sparse_stream(matrix: Any, options: "ReadOptions", name: str, place: str) -> RowStream:
    """Stored values other than 0 are present, or those above a threshold."""
    values = matrix.data
    if options.threshold is None and values.dtype.kind in "if" and len(values) and values.min() < 0:
        raise InputError(f"{name}: holds negative values; give `threshold` if a number above it means present.")
    if not np.isfinite(values).all():
        raise InputError(f"{name}: the sparse matrix holds NaN or infinite values; 0 and non-zero are expected.")
    csr = matrix.tocsr()
    present = csr.data != 0 if options.threshold is None else csr.data > options.threshold
    if not present.all():
        csr = csr.copy()
        csr.data = present
        csr.eliminate_zeros()

    def rows(readers: Readers) -> Iterator[Chunk]:
        for first, last in pieces_of(csr.indptr):
            ends = csr.indptr[first : last + 1]
            items = pa.array(csr.indices[ends[0] : ends[-1]])
            lists = pa.LargeListArray.from_arrays(pa.array((ends - ends[0]).astype(np.int64)), items)
            yield Chunk(pa.table({POSITION_COLUMN: lists}), numbered(place, range(first + 1, last + 1)))

    return _positions(rows, pa.large_list(pa.int64()), csr.shape[1], options, name)


def _positions(rows: Any, kind: pa.DataType, width: int, options: "ReadOptions", name: str) -> RowStream:
    """A stream of the positions of a domain: the one that is stated, or as many items."""
    if width < 1:
        raise InputError(f"{name}: the matrix has no columns; a record needs at least one position.")
    domain = options.public_domain or Domain.of_items(width)
    if domain.is_open:
        raise InputError(
            f"{name}: a matrix needs a domain that leaves nothing open; give a frame with one column per field."
        )
    if domain.width != width:
        raise InputError(
            f"{name}: the matrix has {width} columns but the domain has {domain.width} positions; correct the domain."
        )
    return RowStream(name, pa.schema([(POSITION_COLUMN, kind)]), rows, domain=domain, noun="matrix")


def _stored(dtype: Any) -> Any:
    return np.dtype(np.uint8) if dtype.kind == "b" else dtype


# -- writing -----------------------------------------------------------------------------------------------------------


@contextmanager
def _sparse_rows(path: Path, domain: Domain) -> Iterator[Append]:
    """Scipy's sparse format; all records are kept in memory until the end."""
    import scipy.sparse

    parts = [Records.from_lists([], domain)]
    yield lambda records, _: parts.append(records)
    with open(path, "wb") as file:
        scipy.sparse.save_npz(file, concatenate(parts).to_scipy())


@contextmanager
def byte_rows(path: Path, domain: Domain, header: Any, *, grey_only: bool) -> Iterator[Append]:
    """Rows of numbers below a `header` of their type, shape and count: images as grey values, or zeros and ones.

    The header has the number of rows, so it is written again at the end. With `grey_only`, black and white images are
    written as zeros and ones.
    """
    field = domain.item_set
    image = None if field is None else field.image
    image = image if image is not None and (not grey_only or image.levels > 2) else None
    white = WHITE if image is None or image.white is None else image.white
    white = white if grey_only else min(white, WHITE)  # those that take all images hold bytes
    shape = (domain.width,) if image is None else (image.height, image.columns)
    count = 0

    def append(records: Records, first: int) -> None:
        nonlocal count
        rows = records.to_dense(np.uint8) if image is None else pixel_values(records, image, white)
        file.write(rows.tobytes())
        count = first + len(records)

    with open(path, "wb") as file:
        header(file, white, (count, *shape))
        yield append
        file.seek(0)
        header(file, white, (count, *shape))


def _npy_header(file: Any, white: int, shape: tuple[int, ...]) -> None:
    """Numpy pads the header, so a longer count still fits."""
    kind = {"descr": "|u1" if white <= WHITE else "<u2", "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(file, kind)
