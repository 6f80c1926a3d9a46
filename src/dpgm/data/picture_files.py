"""Writing images with their labels as they are read: an `.npz` file of arrays, or a folder of PNG files."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpgm.data.domain import Domain, Field, Image
from dpgm.data.records import WHITE, Records, pixel_values
from dpgm.errors import UsageError

_DIGITS_OF_NAMES = 8  # of the running number that names an image file


def shows_images(domain: Domain) -> bool:
    """Whether a record is one image and, at most, its label."""
    return domain.picture is not None


@contextmanager
def picture_arrays(path: Path, domain: Domain) -> Iterator[Callable[[Records, int], object]]:
    """An `.npz` file of the arrays `images` (n, height, columns) and `labels`; all are kept in memory until the end."""
    image, _ = _fields(domain)
    binary = image.levels == 2
    images = [_empty(image)]
    labels: list[Any] = []

    def append(records: Records, _: int) -> None:
        images.append(_pixels(records, image, 1 if binary else image.white or WHITE))
        labels.extend(_labels(records))

    yield append
    arrays: dict[str, NDArray[Any]] = {"images": np.concatenate(images)}
    if len(domain.fields) > 1:
        arrays["labels"] = np.array(labels) if labels else np.empty(0, dtype=np.int64)
    with open(path, "wb") as file:
        np.savez_compressed(file, **arrays)  # type: ignore[arg-type]


@contextmanager
def picture_folder(folder: Path, domain: Domain) -> Iterator[Callable[[Records, int], object]]:
    """A PNG file per image, in a sub-folder named for its label."""
    try:
        import PIL.Image
    except ImportError:
        raise UsageError("writing image files needs Pillow; install dpgm[images], or write .npz.") from None
    image, label = _fields(domain)
    for value in () if label is None else label.values:
        if not _is_name(str(value)):
            raise UsageError(f"the label {value!r} cannot be the name of a folder; write .npz.")
        (folder / str(value)).mkdir()

    def append(records: Records, first: int) -> None:
        labels = _labels(records) if label is not None else [None] * len(records)
        for number, (pixels, value) in enumerate(zip(_pixels(records, image, WHITE), labels, strict=True), first):
            place = folder if value is None else folder / str(value)
            PIL.Image.fromarray(pixels).save(place / f"{number:0{_DIGITS_OF_NAMES}d}.png", format="PNG")

    yield append


def _fields(domain: Domain) -> tuple[Image, Field | None]:
    assert domain.picture is not None
    image, label = domain.picture
    if label is not None and label.may_be_missing:
        raise UsageError(
            f"the label {label.name!r} may be missing, which these files cannot say; write .parquet or .csv."
        )
    return image, label


def _empty(image: Image) -> NDArray[Any]:
    return np.empty((0, image.height, image.columns), dtype=np.uint8)


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
