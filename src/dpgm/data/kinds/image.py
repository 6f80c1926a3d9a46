"""`Image`: a picture per row."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from dpgm.arrays import Mask
from dpgm.data.arrow import Table, pa
from dpgm.data.kinds.base import CellStyle, Field, FieldReader
from dpgm.data.kinds.items import SetField
from dpgm.data.labels import MAX_WIDTH
from dpgm.data.number_format import is_whole
from dpgm.data.open_columns import SetColumn
from dpgm.data.presence import present_cells
from dpgm.data.rows import row_pointers
from dpgm.data.values import Place, refuse_rows
from dpgm.errors import InputError, UsageError

WHITE = 255  # the largest pixel value in files of bytes
MAX_LEVELS = 256
MAX_WHITE = 65_535  # scanners have up to 16 bits per pixel


@dataclass(frozen=True)
class Image(SetField):
    """An image of public height, width and number of grey levels: an item set with a shape.

    A pixel with L = `levels` grey levels 0 .. L-1 has L-1 positions; position t (from 0) is set if the level exceeds t.
    A binary image has two levels, and its items are the pixel numbers. The positions t = 0 of all pixels come first,
    in row-major order, then those of t = 1, and so on.

    `white` is the value of a white pixel in files of grey images; by default 255, or 1 in files of floats.
    """

    height: int
    columns: int
    levels: int = 2
    white: int | None = None

    kind: ClassVar[str] = "image"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not is_whole(self.height, 1) or not is_whole(self.columns, 1):
            raise self._error("height and columns must be whole numbers of at least 1")
        if not is_whole(self.levels, 2, MAX_LEVELS):
            raise self._error(f"levels must be a whole number from 2 to {MAX_LEVELS}")
        if self.white is not None and not (self.levels > 2 and is_whole(self.white, self.levels - 1, MAX_WHITE)):
            raise self._error(f"white must be a whole number from levels - 1 to {MAX_WHITE:,}, for levels above 2")
        if self.width > MAX_WIDTH:
            raise self._error(f"an image must not exceed {MAX_WIDTH:,} pixels times levels less one")

    @property
    def pixels(self) -> int:
        """Number of pixels."""
        return self.height * self.columns

    @property
    def items(self) -> range:  # type: ignore[override]
        """Position numbers; for a binary image, pixel numbers in row-major order."""
        return range(self.width)

    @property
    def image(self) -> "Image":
        """The field itself."""
        return self

    @property
    def _value_count(self) -> int:
        return self.pixels * (self.levels - 1)

    @property
    def _value_names(self) -> list[str]:
        """Row and column of the pixel, followed by the level it exceeds if there are more than two."""
        names = [f"r{at // self.columns}c{at % self.columns}" for at in range(self.pixels)]
        return names if self.levels == 2 else [f"{name}>{t}" for t in range(self.levels - 1) for name in names]

    def reader(self, style: CellStyle, others: Mapping[str, Field]) -> FieldReader:
        """Reads pixels, or lists of the positions that are filled."""
        read_lists = super().reader(style, others)

        def read(table: Table, place: Place) -> Any:
            column = table.column(self.name)
            if not isinstance(column.type, pa.FixedShapeTensorType):
                return read_lists(table, place)
            pixels = column.combine_chunks().to_numpy_ndarray()
            if pixels.shape[1:] != (self.height, self.columns):
                raise InputError(f"{place(0)}: is no image of {self.height} x {self.columns}; correct the domain.")
            rows, positions = np.nonzero(self._filled(pixels.reshape(len(pixels), -1), style.threshold, place))
            indptr = row_pointers(np.bincount(rows, minlength=len(pixels)))
            return SetColumn(indptr, positions.astype(np.int32))

        return read

    def _filled(self, pixels: NDArray[Any], threshold: float | None, place: Place) -> Mask:
        """(n, width) mask of the positions that are filled."""
        if self.levels == 2:
            return present_cells(pixels, threshold, place)
        if threshold is not None:
            raise UsageError(
                "`threshold` belongs to binary images; this domain states grey levels, so leave it out."
            )
        white = self.white or (WHITE if pixels.dtype.kind in "iu" else 1)
        refuse_rows(
            ~((pixels >= 0) & (pixels <= white)),  # True for NaN
            place,
            f"holds a grey value outside 0 to {white}; correct the file, or state the image's `white` in the domain.",
        )
        return level_bits(nearest_levels(pixels * (WHITE / white), self), self)

    def described(self) -> str:
        """Its size and grey levels."""
        levels = "" if self.levels == 2 else f", {self.levels} grey levels"
        white = "" if self.white is None else f", white {self.white}"
        return f"image of {self.height} x {self.columns}{levels}{white}"


def level_bits(levels: NDArray[Any], image: Image) -> Mask:
    """(n, width) mask: the positions that are set for grey levels (n, pixels)."""
    return np.concatenate([levels > t for t in range(image.levels - 1)], axis=1)


def nearest_levels(values: NDArray[Any], image: Image) -> NDArray[np.int64]:
    """The grey levels nearest to values in 0 .. 255."""
    return np.rint(np.asarray(values, dtype=np.float64) * ((image.levels - 1) / WHITE)).astype(np.int64)
