"""Secret draws of records inside a query: standard normals from entropy that is never stored.

They are part of the mechanism: independent from record to record, unknown to everybody, drawn afresh whenever a sample
is looked at, after a crash as well. Words and generator are apart from those of the noise, and every rank has its own.
"""

from torch import Tensor

from dpgm.mechanisms.normals import add_normals
from dpgm.mechanisms.randomness import Randomness

GRID = 2.0**-24  # what the normals are rounded to: the precision of float32 at 1


def fill_with_normals(out: Tensor, randomness: Randomness) -> None:
    """Independent standard normals into a contiguous tensor of floats, on the CPU or an accelerator."""
    if out.device.type == "cpu":
        add_normals(out.zero_().view(-1).numpy(), 1.0, GRID, randomness.record_words())
    else:
        out.normal_(generator=randomness.record_generator(out.device))
