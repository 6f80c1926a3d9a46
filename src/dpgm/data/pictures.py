"""Images as grey values: what the positions of an image field stand for, in both directions."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpgm.data.domain import Image
from dpgm.data.records import Records

WHITE = 255  # the largest value of a pixel in files of bytes


def grey_levels(records: Records, image: Image) -> NDArray[np.int64]:
    """(n, pixels): the grey level of every pixel, 0 .. levels - 1: how many of its positions are filled."""
    start = records.domain.offsets[records.domain.fields.index(image)]
    positions = records.indices.astype(np.int64) - start
    inside = (positions >= 0) & (positions < image.width)
    rows = np.repeat(np.arange(len(records)), records.lengths)[inside]
    cells = rows * image.pixels + positions[inside] % image.pixels
    return np.bincount(cells, minlength=len(records) * image.pixels).reshape(len(records), image.pixels)


def grey_values(records: Records, image: Image) -> NDArray[np.float32]:
    """(n, height, columns): grey values in [0, 1]; of a binary image zeros and ones."""
    values = (grey_levels(records, image) / (image.levels - 1)).astype(np.float32)
    return values.reshape(-1, image.height, image.columns)


def level_bits(levels: NDArray[Any], image: Image) -> NDArray[np.bool_]:
    """(n, width): the positions that grey levels (n, pixels) fill."""
    return np.concatenate([levels > t for t in range(image.levels - 1)], axis=1)


def nearest_levels(values: NDArray[Any], image: Image) -> NDArray[np.int64]:
    """The grey level nearest to each value of 0 .. 255."""
    return np.rint(np.asarray(values, dtype=np.float64) * ((image.levels - 1) / WHITE)).astype(np.int64)


def byte_values(records: Records, image: Image) -> NDArray[np.uint8]:
    """(n, pixels): grey values as bytes, 255 for the highest level."""
    values: NDArray[np.float64] = np.rint(grey_levels(records, image) * (WHITE / (image.levels - 1)))
    return values.astype(np.uint8)
