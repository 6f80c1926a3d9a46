"""Array files, which have a fixed public shape: scipy `.npz`, numpy `.npy` and MNIST idx."""

import struct
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpgm.data.conversion import from_scipy
from dpgm.data.domain import Categorical, Domain, Image
from dpgm.data.formats import Source
from dpgm.data.pictures import WHITE, level_bits, nearest_levels
from dpgm.data.read.gathering import Room, join_records
from dpgm.data.read.opening import Input, locate, open_bytes, read_all, zip_members
from dpgm.data.read.options import ReadOptions
from dpgm.data.records import Records
from dpgm.errors import InputError, ResourceError, UsageError

_CELLS, _FEW_CELLS = 20_000_000, 2_000_000  # per piece; per piece where memory is limited
_MAX_BYTES = 1 << 36
_SHOWN = 5  # names of arrays in a message
ARRAYS = ("npz", "npy", "idx")  # formats read here


def read_array(source: Input, name: str, options: ReadOptions) -> tuple[Records, Source]:
    """Records of a file of one of the formats `ARRAYS`, and how they were read."""
    if name != "idx":
        source.refuse_member(f".{name} files")
    read = {"npz": _read_npz, "npy": _read_npy, "idx": _read_idx}[name]
    return read(source, options), Source("row", items_assumed_public=False, shape="wide")


def _read_npz(source: Input, options: ReadOptions) -> Records:
    """A scipy sparse matrix, of which every stored value other than 0 is present, or one array as in a `.npy` file."""
    import scipy.sparse

    names = _checked_names(source)
    if "format" not in names:
        return _read_matrix(_only_array(source, names), source, options)
    try:
        matrix: Any = scipy.sparse.load_npz(source.path)
        matrix.tocsr().check_format(full_check=True)
    except Exception:  # numpy, scipy, zipfile and zlib raise some fifteen kinds on damaged files
        raise InputError(
            f"{source}: is not a sparse matrix written by scipy.sparse.save_npz, or is damaged; write it again."
        ) from None
    _check_kind(matrix.data.dtype, source)
    if options.threshold is not None:
        matrix = matrix.tocsr()
        matrix.data = matrix.data > options.threshold
    elif matrix.data.dtype.kind in "if" and len(matrix.data) and matrix.data.min() < 0:
        raise InputError(f"{source}: holds negative values; give --threshold if a number above it means present.")
    return _checked(source, lambda: from_scipy(matrix, options.public_domain))


def _only_array(source: Input, names: list[str]) -> Any:
    """The array of a file that holds one."""
    if len(names) != 1:
        raise InputError(
            f"{source}: holds {len(names)} arrays ({', '.join(names[:_SHOWN])}{', ...' if len(names) > _SHOWN else ''})"
            " and no sparse matrix; write the one to read alone, with numpy.save as .npy or scipy.sparse.save_npz."
        )
    try:
        with np.load(source.path, allow_pickle=False) as arrays:
            return arrays[names[0]]
    except Exception:  # as above
        raise InputError(f"{source}: is not a plain numpy matrix, or is damaged; write it again.") from None


def _checked_names(source: Input) -> list[str]:
    """The names of the arrays of a file whose size is sane."""
    members = zip_members(source.path, f"{source}: is damaged or cut short; write it again.")
    unpacked = sum(one.file_size for one in members)
    if unpacked > _MAX_BYTES or (unpacked > 1 << 32 and unpacked > 1000 * source.path.stat().st_size):
        raise ResourceError(f"{source}: would unpack to {unpacked >> 30} GB; split it.")
    return [one.filename.removesuffix(".npy") for one in members]


def _checked(source: Input, make: Any) -> Records:
    """Records that are not empty; errors name the file."""
    try:
        records: Records = make()
    except InputError as error:
        raise InputError(f"{source}: {error}") from None
    if not len(records):
        raise InputError(f"{source}: holds no records; give a file with at least one.")
    return records


def _check_kind(dtype: np.dtype[Any], source: Input) -> None:
    if dtype.kind not in "biuf":
        raise InputError(f"{source}: does not hold numbers; write a matrix of numbers.")


def _read_npy(source: Input, options: ReadOptions) -> Records:
    """A dense (N, m) matrix of 0 and 1, or of numbers with a threshold; (N, height, columns) for images."""
    try:
        matrix = np.load(source.path, mmap_mode="r", allow_pickle=False)
    except Exception:  # numpy parses the header as Python text: damaged ones raise errors of many kinds
        raise InputError(f"{source}: is not a plain numpy matrix, or is cut short; write it again.") from None
    return _read_matrix(matrix, source, options)


def _read_matrix(matrix: Any, source: Input, options: ReadOptions) -> Records:
    """Records of a dense matrix of 2 dimensions, or of 3 for images."""
    if not isinstance(matrix, np.ndarray) or matrix.ndim not in (2, 3) or 0 in matrix.shape[1:]:
        raise InputError(f"{source}: must hold a matrix of 2 dimensions, or of 3 for images.")
    _check_kind(matrix.dtype, source)
    domain = options.public_domain or _natural_domain(matrix.shape)
    flat = matrix.reshape(len(matrix), -1)
    image = domain.item_set
    if isinstance(image, Image) and image.levels > 2 and matrix.shape[1:] == (image.height, image.columns):
        return _checked(source, lambda: _grey_records(flat, domain, image, options))
    if flat.shape[1] != domain.width:
        raise InputError(
            f"{source}: has {flat.shape[1]} columns but the domain has {domain.width} positions; correct the domain."
        )
    return _checked(source, lambda: _binary_records(flat, domain, options.threshold, options.room))


def _grey_records(matrix: NDArray[Any], domain: Domain, image: Image, options: ReadOptions) -> Records:
    """Images of more than two levels: whole numbers are grey values of 0 .. 255, others of 0 .. 1."""
    if options.threshold is not None:
        raise UsageError("--threshold belongs to binary images; this domain states grey levels, so leave it out.")

    def bits(piece: NDArray[Any], first: int) -> NDArray[np.bool_]:
        white = WHITE if piece.dtype.kind in "iu" else 1
        inside = (piece >= 0) & (piece <= white)  # False for NaN
        _refuse_rows(inside, first, f"holds a grey value outside 0 to {white}; correct the file.")
        return level_bits(nearest_levels(piece * (WHITE / white), image), image)

    return _records_of(matrix, domain, bits, options.room)


def _natural_domain(shape: tuple[int, ...]) -> Domain:
    if len(shape) == 3:
        return Domain((Image("image", shape[1], shape[2]),))
    return Domain.of_items(shape[1])


def _binary_records(matrix: NDArray[Any], domain: Domain, threshold: float | None, room: Room) -> Records:
    """Matrices of 0 and 1, or of numbers that are present above a threshold."""

    def bits(piece: NDArray[Any], first: int) -> NDArray[np.bool_]:
        if piece.dtype.kind == "f":
            _refuse_rows(np.isfinite(piece), first, "holds NaN or an infinite value; correct the file.")
        if threshold is not None:
            return piece > threshold
        present: NDArray[np.bool_] = piece == 1
        fault = (
            "holds a value that is neither 0 nor 1; say which are present with --threshold, or state grey images in a"
            " domain (kind: image, levels: 8)."
        )
        _refuse_rows(present | (piece == 0), first, fault)
        return present

    return _records_of(matrix, domain, bits, room)


def _refuse_rows(good: NDArray[np.bool_], first: int, fault: str) -> None:
    """Refuse a piece of a matrix, whose first row has this number, at the first row that is not all good."""
    if not good.all():
        raise InputError(f"row {first + int(np.argmin(good.all(axis=1))) + 1}: {fault}")


def _records_of(
    matrix: NDArray[Any], domain: Domain, bits: Callable[[NDArray[Any], int], NDArray[np.bool_]], room: Room
) -> Records:
    """Rows of a matrix, which may be mapped from its file, a piece at a time; `bits` are the positions they fill."""
    size = max(1, (_CELLS if room.limit is None else _FEW_CELLS) // domain.width)
    starts = range(0, max(len(matrix), 1), size)
    pieces = ((np.asarray(matrix[start : start + size]), start) for start in starts)
    return join_records((Records.from_dense(bits(*one), domain) for one in pieces), domain, room)


def _read_idx(source: Input, options: ReadOptions) -> Records:
    """MNIST's idx images (bytes): a pixel is present above the threshold (127); labels become a label field.

    Where the domain states more grey levels than two, a pixel takes the level nearest to its value.
    """
    images = _idx(source, 3)
    given = options.public_domain
    stated = [] if given is None else [field.levels for field in given.fields if isinstance(field, Image)]
    image = Image("image", images.shape[1], images.shape[2], stated[0] if stated else 2)
    domain = Domain((image,))
    if not len(images):
        raise InputError(f"{source}: holds no images.")
    flat = images.reshape(len(images), -1)
    if image.levels > 2:
        records = _grey_records(flat, domain, image, options)
    else:
        threshold = 127 if options.threshold is None else options.threshold
        records = _binary_records(flat, domain, threshold, options.room)
    if options.labels is not None:
        records = _with_labels(records, locate(options.labels), source)
    if given is not None:
        same = given.width == records.width and len(given.fields) == len(records.domain.fields)
        if not same:
            raise InputError(
                f"{source}: the domain does not match images of {images.shape[1]} x {images.shape[2]}."
            )
        records = Records(given, records.indptr, records.indices)
    return records


def _with_labels(records: Records, labels_file: Input, source: Input) -> Records:
    """Image and label side by side, the label as a field of the ten digits (0 .. 9)."""
    labels = _idx(labels_file, 1)
    if len(labels) != len(records):
        raise InputError(f"{labels_file}: holds {len(labels)} labels for {len(records)} images of {source}.")
    if len(labels) and labels.max() > 9:
        raise InputError(f"{labels_file}: image {int(np.argmax(labels > 9)) + 1}: the label is not 0 to 9.")
    image = records.domain.fields[0]
    domain = Domain((image, Categorical("label", tuple(range(10)))), label="label")
    at = records.indptr[1:]
    indices = np.insert(records.indices, at, labels.astype(records.indices.dtype) + image.width)
    return Records(domain, records.indptr + np.arange(len(records) + 1), indices)


def _idx(source: Input, dimensions: int) -> NDArray[np.uint8]:
    with open_bytes(source) as stream:
        head = stream.read(4 + 4 * dimensions)
    if len(head) < 4 + 4 * dimensions or head[:4] != bytes((0, 0, 8, dimensions)):
        what = "images" if dimensions == 3 else "labels"
        raise InputError(f"{source}: is not an idx file of {what}; get it again.")
    shape = struct.unpack(f">{dimensions}I", head[4:])
    size = int(np.prod([int(side) for side in shape], dtype=object))
    if size > _MAX_BYTES:
        raise ResourceError(f"{source}: claims {size >> 30} GB of pixels; split it.")
    if dimensions == 3 and 0 in shape[1:]:
        raise InputError(f"{source}: claims images without pixels; get it again.")
    body = read_all(source, limit=size + len(head) + (1 << 20))
    if len(body) != len(head) + size:
        raise InputError(f"{source}: holds less or more than its header says; get it again.")
    return np.frombuffer(body, dtype=np.uint8, offset=len(head)).reshape(shape)
