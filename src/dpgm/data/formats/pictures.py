"""Images and their labels: MNIST idx files, `.npz` files with the arrays `images` and `labels`, folders of PNG files.

The height and width of the images are taken as public. Labels are those of the domain; without one, the digits 0 to 9,
or with `assume_public_items` the labels that occur.
"""

import os
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dpgm.data.domain import Categorical, Domain, Image
from dpgm.data.encoding import TableEncoder
from dpgm.data.formats.opening import Input, check_regular, locate, open_bytes, picture_files, read_all
from dpgm.data.read.options import ReadOptions
from dpgm.data.read.storage import join_records
from dpgm.data.records import WHITE, Records
from dpgm.data.rows import index_dtype
from dpgm.data.stores import MemoryLimit
from dpgm.errors import InputError, ResourceError

_DIGITS = tuple(range(10))
_THRESHOLD = 127  # of images of bytes in black and white: brighter pixels are on
_WHITE_16 = 65_535
_MAX_BYTES = 1 << 36


@dataclass(frozen=True)
class Pictures:
    """Images (n, height, columns) and the label of each, if there are labels."""

    images: NDArray[Any]
    labels: pa.Array | None = None

    def __post_init__(self) -> None:
        if self.images.ndim != 3 or 0 in self.images.shape[1:]:
            raise InputError("`images` must have three dimensions: number, height and width of the images.")
        if self.labels is not None and len(self.labels) != len(self.images):
            raise InputError(
                f"there are {len(self.labels)} labels for {len(self.images)} images; give one for each."
            )

    def domain(self, options: ReadOptions) -> Domain:
        """The stated domain, or that of black and white images of this shape and their labels."""
        stated = options.public_domain
        if stated is not None:
            self._check(stated)
            return stated
        image = Image("image", *self.images.shape[1:])
        if self.labels is None:
            return Domain((image,))
        values = _labels_that_occur(self.labels) if options.assume_public_items else _DIGITS
        if values is _DIGITS and not _are_digits(self.labels):
            raise InputError(
                "the labels are not the digits 0 to 9; state them in a domain file (`dpgm inspect FILE --draft-domain"
                " domain.yaml` drafts one), or declare those that occur public with `assume_public_items`."
            )
        return Domain((image, Categorical("label", values)), label="label")

    def _check(self, domain: Domain) -> None:
        height, columns = self.images.shape[1:]
        image, label = (None, None) if domain.picture is None or domain.is_open else domain.picture
        good = image is not None and (image.height, image.columns) == (height, columns)
        if not good or (label is None) != (self.labels is None):
            and_label = "" if self.labels is None else " and a label with its values listed"
            raise InputError(f"the domain must list an image of {height} x {columns}{and_label}; correct it.")


def labelled(images: Records, labels: pa.Array, domain: Domain, memory_limit: MemoryLimit) -> Records:
    """Records of an image and its label, in the order of the domain's fields."""
    field = next(field for field in domain.fields if field.is_category)
    try:
        codes: NDArray[Any] = TableEncoder(Domain((field,))).encode(pa.table({field.name: labels})).indices
    except InputError as error:
        raise InputError(f"the labels of the images: {error}") from None
    at = domain.fields.index(field)
    dtype = index_dtype(domain.width)
    codes = codes.astype(np.int64) + domain.offsets[at]

    def pieces() -> Iterator[Records]:
        first = 0
        for piece in images.pieces():
            pixels: NDArray[Any] = piece.indices.astype(dtype)
            pixels += dtype(domain.offsets[1 - at])
            ends = piece.indptr[1:] if at else piece.indptr[:-1]
            indices = np.insert(pixels, ends, codes[first : first + len(piece)])
            yield Records(domain, piece.indptr + np.arange(len(piece) + 1), indices)
            first += len(piece)

    return join_records(pieces(), domain, memory_limit)


def _are_digits(labels: pa.Array) -> bool:
    return {str(value) for value in labels.unique().to_pylist()} <= {str(digit) for digit in _DIGITS}


def _labels_that_occur(labels: pa.Array) -> tuple[Any, ...]:
    return tuple(sorted(value for value in labels.unique().to_pylist() if value is not None))


# -- files ---------------------------------------------------------------------------------------------------------


def read_idx(source: Input, options: ReadOptions) -> Pictures:
    """The images of an idx file, with those of the file of labels that the options name."""
    images = _idx(source, 3, options)
    if options.labels is None:
        return Pictures(images)
    file = locate(options.labels)
    labels = _idx(file, 1, options)
    if len(labels) != len(images):
        raise InputError(f"{file}: holds {len(labels)} labels for {len(images)} images of {source}.")
    return Pictures(images, pa.array(labels))


def _idx(source: Input, dimensions: int, options: ReadOptions) -> NDArray[np.uint8]:
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
    # While it is read, its pieces and the whole are in memory.
    options.refuse_beyond_memory(source, 2 * size, "save the images as .npy")
    body = read_all(source, limit=size + len(head) + (1 << 20))
    if len(body) != len(head) + size:
        raise InputError(f"{source}: holds less or more than its header says; get it again.")
    return np.frombuffer(body, dtype=np.uint8, offset=len(head)).reshape(shape)


def pictures_of_arrays(images: NDArray[Any], labels: NDArray[Any]) -> Pictures:
    """Images and labels of an `.npz` file."""
    if images.ndim == 4 and images.shape[3] == 1:
        images = images[..., 0]
    if labels.ndim != 1 or labels.dtype.kind not in "biuU":
        raise InputError("`labels` must be one whole number or text for each image.")
    kind = pa.string() if labels.dtype.kind == "U" else pa.int64()
    return Pictures(images, pa.array(labels.tolist(), type=kind))


def read_picture_folder(source: Input, options: ReadOptions) -> Pictures:
    """The images of a folder; the names of its sub-folders, if there are any, are their labels."""
    try:
        import PIL.Image
    except ImportError:
        raise InputError(f"{source}: reading image files needs Pillow; install dpgm[images].") from None
    files = picture_files(source.path)
    if not files:
        raise InputError(
            f"{source}: holds no image files; give a folder with one sub-folder of PNG files per label."
        )
    labels = [label for label, _ in files]
    if None in labels and any(labels):
        raise InputError(
            f"{source}: holds image files beside sub-folders; put every one into a folder of its label."
        )
    images: NDArray[np.uint8] | None = None
    for number, (_, file) in enumerate(files):
        check_regular(file)
        with _decoding(file), PIL.Image.open(file) as picture:
            size = (picture.height, picture.width)  # known before pixels are decoded
            if images is None:
                if size[0] * size[1] * len(files) > _MAX_BYTES:
                    raise ResourceError(
                        f"{source}: holds {len(files):,} images of {size[0]} x {size[1]}; split it."
                    )
                options.refuse_beyond_memory(source, size[0] * size[1] * len(files), "save the images as .npy")
                images = np.empty((len(files), *size), dtype=np.uint8)
            if size != images.shape[1:]:
                raise InputError(
                    f"{file}: is {size[0]} x {size[1]} pixels and others are {images.shape[1]} x {images.shape[2]};"
                    " bring all images to one size."
                )
            images[number] = _grey(picture)
    assert images is not None
    return Pictures(images, pa.array(labels, type=pa.string()) if any(labels) else None)


def _grey(picture: Any) -> NDArray[np.uint8]:
    """The grey values of an image from 0 to 255."""
    if picture.mode.startswith("I"):  # 16 bits, which `convert` would cut off
        values: NDArray[np.uint8] = np.rint(np.clip(np.asarray(picture), 0, _WHITE_16) * (WHITE / _WHITE_16))
        return values.astype(np.uint8)
    return np.asarray(picture.convert("L"))


@contextmanager
def _decoding(file: Path) -> Iterator[None]:
    try:
        yield
    except (InputError, ResourceError):
        raise
    except Exception:  # Pillow raises many kinds of errors on damaged files
        raise InputError(f"{os.fspath(file)}: is not an image that can be read; write it again as PNG.") from None


def with_default_threshold(options: ReadOptions, image: Image) -> ReadOptions:
    """The options, for images of bytes: black and white ones are cut at the middle grey unless a threshold is given."""
    if options.threshold is None and image.levels == 2:
        return replace(options, threshold=_THRESHOLD)
    return options
