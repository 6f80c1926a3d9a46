"""MNIST's idx files: images of bytes, and the file of their labels."""

import struct
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dpgm.data.domain import Domain
from dpgm.data.formats.base import Format, Guess
from dpgm.data.formats.matrices import byte_rows
from dpgm.data.formats.opening import Input, locate, open_bytes, read_all
from dpgm.data.formats.pictures import MIDDLE, picture_stream
from dpgm.data.formats.written import Written
from dpgm.data.stream import RowStream
from dpgm.errors import InputError, ResourceError

if TYPE_CHECKING:
    from dpgm.data.read.options import ReadOptions

_MAX_BYTES = 1 << 36


class Idx(Format):
    """Images, with the labels of a second file."""

    has = frozenset({"labels"})
    only_shape = "wide"
    keeps_order = False
    writes = "file"

    def stream(self, source: Input, options: "ReadOptions", draft: Guess | None = None) -> RowStream:
        """Images and their labels, read as a whole."""
        images = _array(source, 3, options)
        if options.labels is None:
            return picture_stream(images, None, options, str(source), middle=MIDDLE)
        file = locate(options.labels)
        labels = _array(file, 1, options)
        if len(labels) != len(images):
            raise InputError(f"{file}: holds {len(labels)} labels for {len(images)} images of {source}.")
        return picture_stream(images, pa.array(labels), options, str(source), middle=MIDDLE)

    def misfit(self, domain: Domain) -> str | None:
        """Anything but images without labels."""
        if domain.sequence is not None:
            return super().misfit(domain)
        if domain.item_set is None or domain.image is None:
            return "idx files hold images only; write .csv, .jsonl or .parquet."
        return None

    def writer(self, target: Path, written: Written) -> Any:
        """Grey values."""
        return byte_rows(target, written.domain, _header, grey_only=False)


def _header(file: IO[bytes], white: int, shape: tuple[int, ...]) -> None:
    file.write(struct.pack(">IIII", 0x0803, *shape))


def _array(source: Input, dimensions: int, options: "ReadOptions") -> NDArray[np.uint8]:
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
        body = read_all(stream, source, limit=size + (1 << 20))
    if len(body) != size:
        raise InputError(f"{source}: holds less or more than its header says; get it again.")
    return np.frombuffer(body, dtype=np.uint8).reshape(shape)
