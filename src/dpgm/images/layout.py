"""Where the image and its label sit in a record."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpgm.data.domain import Domain, Image
from dpgm.data.records import Records, grey_values
from dpgm.errors import UsageError


@dataclass(frozen=True)
class ImageLayout:
    """Where the image and the label sit in a record; without a label there is one class."""

    image: Image
    start: int
    label_start: int
    classes: int
    labelled: bool

    @classmethod
    def of(cls, domain: Domain) -> "ImageLayout":
        """The layout of a domain of one image and, at most, its label.

        Raises:
            UsageError: the domain holds anything else.
        """
        images = [field for field in domain.fields if isinstance(field, Image)]
        if len(images) != 1:
            raise UsageError(f"an image generator needs a domain with one image field; this one has {len(images)}.")
        start = domain.offsets[domain.fields.index(images[0])]
        others = [field for field in domain.fields if field is not images[0]]
        if not others:
            return cls(images[0], start, 0, 1, False)
        block = domain.blocks[domain.fields.index(others[0])]
        if len(others) > 1 or others[0].name != domain.label or not block.softmax:
            raise UsageError("an image generator takes one image and one categorical label; drop the other fields.")
        return cls(images[0], start, block.start, block.width, True)

    @property
    def pixels(self) -> int:
        """Pixels of the image."""
        return self.image.pixels

    def classes_of(self, records: Records) -> NDArray[np.int64]:
        """The class of every record: its first label; -1 (it counts nowhere) for a record without one."""
        if not self.labelled:
            return np.zeros(len(records), dtype=np.int64)
        classes = np.full(len(records), -1, dtype=np.int64)
        positions = records.indices.astype(np.int64) - self.label_start
        marked = np.flatnonzero((positions >= 0) & (positions < self.classes))[
            ::-1
        ]  # the first label is written last
        rows = np.repeat(np.arange(len(records)), records.lengths)
        classes[rows[marked]] = positions[marked]
        return classes

    def pixels_of(self, records: Records) -> NDArray[np.float32]:
        """Dense images (n, pixels) of grey values in [0, 1]."""
        return grey_values(records, self.image).reshape(len(records), self.pixels)
