"""Records from matrices: numpy and scipy matrices in memory, scipy `.npz` and numpy `.npy` files, and images.

The shape of a matrix is taken as public.
"""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpgm.data.domain import Domain, Image
from dpgm.data.formats.opening import Input, zip_members
from dpgm.data.formats.pictures import (
    Pictures,
    labelled,
    pictures_of_arrays,
    read_idx,
    read_picture_folder,
    with_default_threshold,
)
from dpgm.data.layouts import Source
from dpgm.data.read.options import ReadOptions
from dpgm.data.read.storage import join_records
from dpgm.data.records import (
    WHITE,
    Records,
    level_bits,
    nearest_levels,
)
from dpgm.data.rows import row_pointers, sort_rows
from dpgm.errors import InputError, ResourceError, UsageError

ARRAYS = ("npz", "npy", "idx", "png")  # formats read here
_CELLS, _FEW_CELLS = 20_000_000, 2_000_000  # read at once; the smaller number is for limited memory
_NPZ_COPIES = 3  # of the arrays of a file: as loaded, as pieces of records, and as records
_MAX_BYTES = 1 << 36
_MAX_LISTED = 5  # names of arrays in a message


def read_array(source: Input, name: str, options: ReadOptions) -> tuple[Records, Source]:
    """Records of a file of one of the formats `ARRAYS`, and how they were read."""
    array: Any = None
    if name == "idx":
        array = read_idx(source, options)
    elif name == "png":
        array = read_picture_folder(source, options)
    else:
        source.refuse_member(f".{name} files")
        array = _read_npz(source, options) if name == "npz" else _read_npy(source)
    with _naming(source):
        if isinstance(array, Pictures):
            records = _picture_records(array, options, of_bytes=name != "npz")
        elif isinstance(array, np.ndarray):
            records = _dense_records(array, options)
        else:
            records = _sparse_records(array, options)
        _check_one_value_per_column(records)
    taken = isinstance(array, Pictures) and array.labels is not None and options.public_domain is None
    return records, Source("row", items_assumed_public=taken and options.assume_public_items, shape="wide")


def _picture_records(pictures: Pictures, options: ReadOptions, *, of_bytes: bool) -> Records:
    """Records of images and their labels."""
    domain = pictures.domain(options)
    image = domain.image
    assert image is not None
    if of_bytes:
        options = with_default_threshold(options, image)
    records = _dense_records(pictures.images, replace(options, domain=Domain((image,))))
    if pictures.labels is None:
        return Records(domain, records.indptr, records.indices)
    return labelled(records, pictures.labels, domain, options.memory_limit)


@contextmanager
def _naming(source: Input) -> Iterator[None]:
    """Put the name of the file before the message of errors."""
    try:
        yield
    except InputError as error:
        raise InputError(f"{source}: {error}") from None


def _read_npz(source: Input, options: ReadOptions) -> Any:
    """A scipy sparse matrix, or the only array of a file."""
    import scipy.sparse

    members = zip_members(source.path, f"{source}: is damaged or cut short; write it again.")
    unpacked = sum(one.file_size for one in members)
    if unpacked > _MAX_BYTES or (unpacked > 1 << 32 and unpacked > 1000 * source.path.stat().st_size):
        raise ResourceError(f"{source}: would unpack to {unpacked >> 30} GB; split it.")
    options.refuse_beyond_memory(source, _NPZ_COPIES * unpacked, "save the matrix as .npy or Parquet")
    names = [one.filename.removesuffix(".npy") for one in members]
    if {"images", "labels"} <= {*names}:
        return _labelled_arrays(source)
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


def _labelled_arrays(source: Input) -> Pictures:
    """The arrays `images` and `labels` of an `.npz` file."""
    arrays = None
    # numpy, zipfile and zlib raise many kinds of errors on damaged files
    with suppress(Exception), np.load(source.path, allow_pickle=False) as members:
        arrays = members["images"], members["labels"]
    if arrays is None:
        raise InputError(f"{source}: the arrays `images` and `labels` cannot be read; write them again.")
    with _naming(source):
        return pictures_of_arrays(*arrays)


def _read_npy(source: Input) -> Any:
    matrix = None
    with suppress(Exception):  # numpy parses the header as Python text, so damage raises many kinds of errors
        matrix = np.load(source.path, mmap_mode="r", allow_pickle=False)
    if not isinstance(matrix, np.ndarray):
        raise InputError(f"{source}: is not a plain numpy matrix, or is cut short; write it again.")
    return matrix


def _sparse_records(matrix: Any, options: ReadOptions) -> Records:
    """Records of a sparse matrix: stored values other than 0 are present, or those above a threshold."""
    _check_kind(matrix.data.dtype)
    if options.threshold is not None:
        matrix = matrix.tocsr()
        matrix.data = matrix.data > options.threshold
    elif matrix.data.dtype.kind in "if" and len(matrix.data) and matrix.data.min() < 0:
        raise InputError("holds negative values; give `threshold` if a number above it means present.")
    _refuse_empty(matrix.shape[0])
    return _from_scipy(matrix, options.public_domain)


def _dense_records(matrix: NDArray[Any], options: ReadOptions) -> Records:
    """Records of a dense matrix: (N, m) of 0 and 1, or of numbers with a threshold; (N, height, columns) for images.

    Images with more than two levels hold grey values from 0 to the domain's `white`; if that is not stated, to 255 if
    they are integers and to 1 if they are floats. The matrix may be memory-mapped; it is read in pieces.
    """
    if matrix.ndim not in (2, 3) or 0 in matrix.shape[1:]:
        raise InputError("must hold a matrix of 2 dimensions, or of 3 for images.")
    _check_kind(matrix.dtype)
    _refuse_empty(len(matrix))
    domain, threshold, flat = options.public_domain, options.threshold, matrix.reshape(len(matrix), -1)
    if domain is None and matrix.ndim == 3:
        domain = Domain((Image("image", *matrix.shape[1:]),))
    image = None if domain is None or domain.item_set is None else domain.image
    if matrix.ndim == 3 and image is not None and flat.shape[1] == image.pixels:
        _refuse_other_shape(image, matrix.shape)
    grey = image if image is not None and image.levels > 2 else None
    if domain is None or grey is None or matrix.shape[1:] != (grey.height, grey.columns):
        domain, grey = _columns_domain(flat.shape[1], domain), None
    elif threshold is not None:
        raise UsageError("`threshold` belongs to binary images; this domain states grey levels, so leave it out.")

    def records_of(start: int) -> Records:
        piece = np.asarray(flat[start : start + size])
        bits = _bits(piece, start, threshold) if grey is None else _grey_bits(piece, start, grey)
        return Records.from_dense(bits, domain)

    size = max(1, (_CELLS if options.memory is None else _FEW_CELLS) // domain.width)
    return join_records((records_of(start) for start in range(0, len(flat), size)), domain, options.memory_limit)


def _refuse_other_shape(image: Image, shape: tuple[int, ...]) -> None:
    """Refuse images whose height and width differ from those of the domain."""
    if (image.height, image.columns) != shape[1:]:
        raise InputError(
            f"holds images of {shape[1]} x {shape[2]}, but the domain states {image.height} x {image.columns}; correct"
            " the domain."
        )


def _grey_bits(piece: NDArray[Any], first: int, image: Image) -> NDArray[np.bool_]:
    """The positions that are present in images of grey values; `first` is the number of the first row."""
    white = image.white or (WHITE if piece.dtype.kind in "iu" else 1)
    in_range = (piece >= 0) & (piece <= white)  # False for NaN
    fault = (
        f"holds a grey value outside 0 to {white}; correct the file, or state the image's `white` in the domain."
    )
    _check_rows(in_range, first, fault)
    return level_bits(nearest_levels(piece * (WHITE / white), image), image)


def _bits(piece: NDArray[Any], first: int, threshold: float | None) -> NDArray[np.bool_]:
    """The positions that are present: those with 1, or with a number above the threshold."""
    if piece.dtype.kind == "f":
        _check_rows(np.isfinite(piece), first, "holds NaN or an infinite value; correct the file.")
    present: NDArray[np.bool_] = piece == 1 if threshold is None else piece > threshold
    if threshold is None:
        fault = (
            "holds a value that is neither 0 nor 1; say which are present with `threshold`, or state grey images in a"
            " domain (kind: image, levels: 8), with the value of white pixels (white: 16) unless that is 255, or 1.0"
            " for floats."
        )
        _check_rows(present | (piece == 0), first, fault)
    return present


def _check_kind(dtype: np.dtype[Any]) -> None:
    if dtype.kind not in "biuf":
        raise InputError("does not hold numbers; write a matrix of numbers.")


def _refuse_empty(rows: int) -> None:
    if not rows:
        raise InputError("holds no records; give a file with at least one.")


def _check_rows(valid: NDArray[np.bool_], first: int, fault: str) -> None:
    """Refuse the first row with an invalid value; `first` is the number of the first row."""
    if not valid.all():
        raise InputError(f"row {first + int(np.argmin(valid.all(axis=1))) + 1}: {fault}")


# -- matrices in memory --------------------------------------------------------------------------------------------


def from_matrix(matrix: Any, domain: Domain | None = None) -> Records:
    """Records from a numpy or scipy matrix of 0 and 1, or of counts: values other than 0 are present."""
    dense = isinstance(matrix, np.ndarray)
    values = matrix if dense else getattr(matrix, "data", None)
    if isinstance(values, np.ndarray) and values.dtype.kind == "f":
        binary = ~np.isfinite(values) | (values == 0) | (values == 1)  # NaN and infinity are refused later
        if not binary.all():
            raise InputError(
                "the matrix holds numbers other than 0 and 1; say what is present, such as `matrix > 0`, or give a"
                " frame with a domain that describes its columns."
            )
    records = _from_numpy(matrix, domain) if dense else _from_scipy(matrix, domain)
    _check_one_value_per_column(records)
    return records


def _from_scipy(matrix: Any, domain: Domain | None = None) -> Records:
    """Records from a scipy sparse matrix; stored values other than 0 are present."""
    import scipy.sparse

    sparse: bool = scipy.sparse.issparse(matrix)
    if not sparse or matrix.ndim != 2:
        raise InputError("a sparse matrix of two dimensions is needed.")
    csr: Any = matrix.tocsr()
    domain = _columns_domain(csr.shape[1], domain)
    if not np.isfinite(csr.data).all():
        raise InputError("the sparse matrix holds NaN or infinite values; 0 and non-zero are expected.")
    indptr, indices = csr.indptr.astype(np.int64), csr.indices
    if not csr.data.all():
        keep = csr.data != 0
        indptr, indices = row_pointers(keep)[indptr], indices[keep]
    if len(indices) and (indices.min() < 0 or indices.max() >= domain.width):
        raise InputError("the sparse matrix is damaged: a column lies outside its shape.")
    return Records(domain, *sort_rows(indptr, indices, domain.width))


def _from_numpy(matrix: NDArray[Any], domain: Domain | None) -> Records:
    if matrix.ndim != 2 or matrix.dtype.kind not in "biuf":
        raise InputError("a matrix of numbers with two dimensions is needed.")
    domain = _columns_domain(matrix.shape[1], domain)
    if matrix.dtype.kind == "f" and not np.isfinite(matrix).all():
        raise InputError("the matrix holds NaN or infinite values; 0 and non-zero are expected.")
    return Records.from_dense(matrix, domain)


def _columns_domain(columns: int, domain: Domain | None) -> Domain:
    if domain is None:
        if columns < 1:
            raise InputError("the matrix has no columns; a record needs at least one position.")
        return Domain.of_items(columns)
    if domain.is_open:
        raise InputError(
            "a matrix needs a domain that leaves nothing open; give a frame with one column per field."
        )
    if domain.width != columns:
        raise InputError(
            f"the matrix has {columns} columns but the domain has {domain.width} positions; correct the domain."
        )
    return domain


def _check_one_value_per_column(records: Records) -> None:
    """Refuse rows without exactly one value per table column: sensitivities assume one."""
    first = 0
    for piece in records.pieces() if records.domain.table_columns else ():
        rows = np.repeat(np.arange(len(piece)), piece.lengths)
        for column in records.domain.table_columns:
            inside = (piece.indices >= column.start) & (piece.indices < column.stop)
            wrong = np.bincount(rows[inside], minlength=len(piece)) != 1
            if wrong.any():
                raise InputError(
                    f"row {first + int(np.argmax(wrong)) + 1}: positions {column.start} to {column.stop - 1} are one"
                    " column of the domain, so exactly one of them must be 1; correct the matrix."
                )
        first += len(piece)
