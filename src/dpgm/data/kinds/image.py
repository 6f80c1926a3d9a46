"""`Image`: a picture per row."""

from dataclasses import dataclass
from typing import ClassVar

from dpgm.data.kinds.items import SetField
from dpgm.data.labels import MAX_WIDTH
from dpgm.data.number_format import is_whole

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

    def described(self) -> str:
        """Its size and grey levels."""
        levels = "" if self.levels == 2 else f", {self.levels} grey levels"
        white = "" if self.white is None else f", white {self.white}"
        return f"image of {self.height} x {self.columns}{levels}{white}"
