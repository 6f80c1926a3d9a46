"""Images and heat maps that need nothing but the page itself: PNG data URIs and inline SVG."""

import base64
import struct
import zlib
from collections.abc import Sequence
from html import escape

import numpy as np
from numpy.typing import NDArray


def png_uri(pixels: NDArray[np.uint8]) -> str:
    """A grey image (height, width) as a PNG data URI."""
    height, width = pixels.shape

    def part(kind: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    rows = np.zeros((height, width + 1), dtype=np.uint8)  # every row starts with filter type 0
    rows[:, 1:] = pixels
    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    packed = zlib.compress(rows.tobytes(), 9)
    data = b"\x89PNG\r\n\x1a\n" + part(b"IHDR", header) + part(b"IDAT", packed) + part(b"IEND", b"")
    return "data:image/png;base64," + base64.b64encode(data).decode("ascii")


def contact_sheet(images: NDArray[np.floating], columns: int) -> NDArray[np.uint8]:
    """Images (count, height, width) with values in [0, 1], side by side as dark ink on white."""
    count, height, width = images.shape
    gap = max(1, width // 14)
    rows = -(-count // columns)
    sheet = np.full((rows * (height + gap) + gap, columns * (width + gap) + gap), 255, dtype=np.uint8)
    for at, image in enumerate(images):
        top, left = gap + at // columns * (height + gap), gap + at % columns * (width + gap)
        ink = 255 - np.clip(image * 255, 0, 255).astype(np.uint8)
        sheet[top : top + height, left : left + width] = ink
    return sheet


def heat_map(values: NDArray[np.floating], names: Sequence[str], describe: str, full: float) -> str:
    """A square matrix as SVG; the colour's strength is value / full, so light and dark pages both work.

    Args:
        values: (n, n), non-negative.
        names: of rows and columns.
        describe: text for those who cannot see it.
        full: the value drawn with full strength.
    """
    size = len(values)
    cells = []
    for row in range(size):
        for column in range(size):
            strength = min(1.0, float(values[row, column]) / full) if full > 0 else 0.0
            title = f"{names[row]} and {names[column]}: {100 * float(values[row, column]):.1f} %"
            kind = "self" if row == column else "cell"
            opacity = "" if row == column else f' fill-opacity="{strength:.3f}"'
            cells.append(
                f'<rect class="{kind}" x="{column}" y="{row}" width=".94" height=".94" rx=".12"{opacity}>'
                f"<title>{escape(title)}</title></rect>"
            )
    for at in range(size):  # rows and columns carry the numbers of the list of names beside the picture
        cells.append(f'<text x="-.22" y="{at + 0.64:.2f}" text-anchor="end">{at + 1}</text>')
        cells.append(f'<text x="{at + 0.47:.2f}" y="-.2" text-anchor="middle">{at + 1}</text>')
    return (
        f'<svg class="heat" viewBox="-1 -.8 {size + 1:.2f} {size + 0.86:.2f}" role="img" '
        f'aria-label="{escape(describe)}">{"".join(cells)}</svg>'
    )
