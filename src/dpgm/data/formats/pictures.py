"""Pictures: a folder of PNG files; and the stream of images with their labels that several formats give.

The height and width of the images are taken as public. Labels are those of the domain; without one, the digits 0 to 9,
or with `assume_public_items` the labels that occur.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dpgm.data.domain import Categorical, Domain, Field, Image
from dpgm.data.formats.base import Append, Format, Guess
from dpgm.data.formats.opening import Input, check_regular, listing
from dpgm.data.formats.written import Written
from dpgm.data.kinds.image import WHITE
from dpgm.data.records import Records, pixel_values
from dpgm.data.stream import Chunk, Readers, RowStream
from dpgm.data.values import numbered
from dpgm.errors import InputError, ResourceError, UsageError

if TYPE_CHECKING:
    from dpgm.data.read.options import ReadOptions

MIDDLE = 127  # of images of bytes in black and white: brighter pixels are on
_ENDINGS = (".png", ".jpg", ".jpeg")
_DIGITS = tuple(range(10))
_WHITE_16 = 65_535
_MAX_BYTES = 1 << 36
_CELLS, _FEW_CELLS = 8_000_000, 2_000_000  # read at once; the smaller number is for limited memory
_DIGITS_OF_NAMES = 8  # of the running number that names an image file


class PictureFolder(Format):
    """Images of one size; the sub-folders that they lie in, if there are any, are their labels."""

    has = frozenset[str]()
    only_shape = "wide"
    keeps_order = False
    writes = "folder"

    def holds(self, folder: Path) -> bool:
        """Whether there are images in the folder or its sub-folders."""
        return bool(_files(folder))

    def stream(self, source: Input, options: "ReadOptions", draft: Guess | None = None) -> RowStream:
        """Images and their labels, read as a whole."""
        images, labels = _read(source, options)
        return picture_stream(images, labels, options, str(source), middle=MIDDLE)

    def misfit(self, domain: Domain) -> str | None:
        """Anything but one image and its label."""
        if domain.sequence is not None:
            return super().misfit(domain)
        return None if domain.picture else "a folder holds images only; give a file with an ending."

    @contextmanager
    def writer(self, target: Path, written: Written) -> Iterator[Append]:
        """A PNG file per image, in a sub-folder named for its label."""
        try:
            import PIL.Image
        except ImportError:
            raise UsageError("writing image files needs Pillow; install dpgm[images], or write .npz.") from None
        image, label = _fields(written.domain)
        for value in () if label is None else label.values:
            if not _is_name(str(value)):
                raise UsageError(f"the label {value!r} cannot be the name of a folder; write .npz.")
            (target / str(value)).mkdir()

        def append(records: Records, first: int) -> None:
            labels = _labels(records) if label is not None else [None] * len(records)
            pixels = _pixels(records, image, WHITE)
            for number, (picture, value) in enumerate(zip(pixels, labels, strict=True), first):
                place = target if value is None else target / str(value)
                PIL.Image.fromarray(picture).save(place / f"{number:0{_DIGITS_OF_NAMES}d}.png", format="PNG")

        yield append


# -- the stream of images ----------------------------------------------------------------------------------------------


def picture_stream(
    images: NDArray[Any],
    labels: pa.Array | None,
    options: "ReadOptions",
    name: str,
    place: str | None = None,
    *,
    middle: float | None = None,
) -> RowStream:
    """Images (number, height, width) and the label of each, if there are labels.

    `middle` is the value above which a pixel of black and white images is on, unless a threshold is stated.
    """
    if images.ndim != 3 or 0 in images.shape[1:]:
        raise InputError(f"{name}: `images` must have three dimensions: number, height and width of the images.")
    if labels is not None and len(labels) != len(images):
        raise InputError(f"{name}: there are {len(labels)} labels for {len(images)} images; give one for each.")
    place = f"{name}: row" if place is None else place
    domain = options.public_domain or _domain(images, labels, options, name)
    image, label = _stated_fields(domain, images, labels, name)
    cut = middle if options.threshold is None and image.levels == 2 else None

    def rows(readers: Readers) -> Iterator[Chunk]:
        size = max(1, cells_at_once(options) // image.pixels)
        for start in range(0, len(images), size):
            part = images[start : start + size]
            columns = {image.name: tensors(part if cut is None else part > cut)}
            if label is not None and labels is not None:
                columns[label.name] = labels.slice(start, size)
            yield Chunk(pa.table(columns), numbered(place, range(start + 1, start + 1 + len(part))))

    types = {image.name: tensors(images[:0]).type}
    if label is not None and labels is not None:
        types[label.name] = labels.type
    taken = options.public_domain is None and labels is not None
    return RowStream(name, pa.schema(types), rows, shape="wide", domain=domain, domain_from_rows=taken, noun="file")


def tensors(part: NDArray[Any]) -> pa.Array:
    """Rows of an array as a column of tensors."""
    part = np.ascontiguousarray(part)
    flat = pa.array((part.view(np.uint8) if part.dtype == np.bool_ else part).reshape(-1))
    kind = pa.fixed_shape_tensor(flat.type, part.shape[1:])
    size = int(np.prod(part.shape[1:]))
    return pa.ExtensionArray.from_storage(kind, pa.FixedSizeListArray.from_arrays(flat, size))


def cells_at_once(options: "ReadOptions") -> int:
    """How many cells of a dense matrix are read at once."""
    return _CELLS if options.memory is None else _FEW_CELLS


def _domain(images: NDArray[Any], labels: pa.Array | None, options: "ReadOptions", name: str) -> Domain:
    """The domain of black and white images of this shape and their labels."""
    image = Image("image", *images.shape[1:])
    if labels is None:
        return Domain((image,))
    known = [value for value in labels.unique().to_pylist() if value is not None]
    if options.assume_public_items:
        return Domain((image, Categorical("label", tuple(sorted(known)))), label="label")
    if not {*map(str, known)} <= {*map(str, _DIGITS)}:
        raise InputError(
            f"{name}: the labels are not the digits 0 to 9; state them in a domain file (`dpgm inspect FILE"
            " --draft-domain domain.yaml` drafts one), or declare those that occur public with `assume_public_items`."
        )
    return Domain((image, Categorical("label", _DIGITS)), label="label")


def _stated_fields(
    domain: Domain, images: NDArray[Any], labels: pa.Array | None, name: str
) -> tuple[Image, Field | None]:
    """The image and the label of a domain; refuses images of another size, or other labels."""
    height, columns = images.shape[1:]
    image, label = (None, None) if domain.picture is None or domain.is_open else domain.picture
    if image is None or (image.height, image.columns) != (height, columns) or (label is None) != (labels is None):
        and_label = "" if labels is None else " and a label with its values listed"
        raise InputError(f"{name}: the domain must list an image of {height} x {columns}{and_label}; correct it.")
    return image, label


# -- files -------------------------------------------------------------------------------------------------------------


def _files(folder: Path) -> list[tuple[str | None, Path]]:
    """The image files of a folder with the sub-folder that each lies in, its label; sorted by name."""
    inside = [(None, folder), *((one.name, one) for one in listing(folder) if one.is_dir())]
    return [
        (label, file)
        for label, place in inside
        for file in listing(place)
        if file.suffix.lower() in _ENDINGS and not file.name.startswith(".")
    ]


def _read(source: Input, options: "ReadOptions") -> tuple[NDArray[np.uint8], pa.Array | None]:
    """The images of a folder, and the names of their sub-folders."""
    try:
        import PIL.Image
    except ImportError:
        raise InputError(f"{source}: reading image files needs Pillow; install dpgm[images].") from None
    files = _files(source.path)
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
    if images is None:
        raise InputError(
            f"{source}: holds no image files; give a folder with one sub-folder of PNG files per label."
        )
    return images, pa.array(labels, type=pa.string()) if any(labels) else None


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


# -- writing -----------------------------------------------------------------------------------------------------------


@contextmanager
def picture_arrays(path: Path, domain: Domain) -> Iterator[Append]:
    """An `.npz` file of the arrays `images` (n, height, columns) and `labels`; all are kept in memory until the end."""
    image, _ = _fields(domain)
    images = [np.empty((0, image.height, image.columns), dtype=np.uint8)]
    labels: list[Any] = []

    def append(records: Records, _: int) -> None:
        images.append(_pixels(records, image, 1 if image.levels == 2 else image.white or WHITE))
        labels.extend(_labels(records))

    yield append
    arrays: dict[str, NDArray[Any]] = {"images": np.concatenate(images)}
    if len(domain.fields) > 1:
        arrays["labels"] = np.array(labels) if labels else np.empty(0, dtype=np.int64)
    with open(path, "wb") as file:
        np.savez_compressed(file, **arrays)  # type: ignore[arg-type]


def _fields(domain: Domain) -> tuple[Image, Field | None]:
    assert domain.picture is not None
    image, label = domain.picture
    if label is not None and label.may_be_missing:
        raise UsageError(
            f"the label {label.name!r} may be missing, which these files cannot say; write .parquet or .csv."
        )
    return image, label


def _pixels(records: Records, image: Image, white: int) -> NDArray[Any]:
    return pixel_values(records, image, white).reshape(-1, image.height, image.columns)


def _labels(records: Records) -> list[Any]:
    """The label of every record; none if there is no label."""
    domain = records.domain
    for field, block in zip(domain.fields, domain.blocks, strict=True):
        if field.is_category:
            inside = (records.indices >= block.start) & (records.indices < block.stop)
            return [field.values[code] for code in (records.indices[inside] - block.start).tolist()]
    return []


def _is_name(text: str) -> bool:
    """Whether a text is safe as the name of a folder on any system."""
    plain = all(char.isalnum() or char in "-_ ()" for char in text)
    return bool(text) and plain and text == text.strip() and len(text) <= 100
