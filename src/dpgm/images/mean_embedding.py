"""Class sizes and class-wise sums of image features: all that the fit of an image generator learns from the data.

A record adds one to the size of its class and a vector of norm at most one to the sum of its class, so both queries
have sensitivity 1 under add/remove (docs/privacy-proof.md 2.1). Contributions are cut to a public grid toward
zero, which never lengthens a vector, and summed exactly.
"""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from dpgm.data.records import Records
from dpgm.images.features import EmbeddingDesign, ImageFeatures
from dpgm.images.layout import ImageLayout
from dpgm.mechanisms.query import Query, View

GRID = 2.0**-26
_SHRINK = 1 - 2.0**-18  # rounding of float32 cosines never carries a vector past norm one
_CHUNK = 512


@dataclass(frozen=True)
class ImageMeasurements:
    """What was released: noisy class sizes and noisy class sums, with the noise they carry."""

    design: EmbeddingDesign
    sizes: Tensor
    size_std: float
    sums: Tensor
    sum_std: float


def class_sizes(layout: ImageLayout) -> Query:
    """How many records each class has.

    Privacy: sensitivity 1 (a record is in one class), integers.
    """

    def compute(view: View) -> Tensor:
        classes = layout.classes_of(view.rows)
        return torch.from_numpy(np.bincount(classes[classes >= 0], minlength=layout.classes).astype(np.int64))

    return Query(compute, sensitivity=1.0, shape=(layout.classes,), grid=1.0)


def mean_embedding(layout: ImageLayout, design: EmbeddingDesign, *, device: torch.device | str = "cpu") -> Query:
    """Class-wise sums of image features.

    Privacy: sensitivity 1: a record's vector has norm at most one and enters the block of one class.
    """

    def compute(view: View) -> Tensor:
        features = ImageFeatures(design, device=device)
        sums = torch.zeros(layout.classes, design.features, dtype=torch.float64, device=device)
        for rows in view.rows.chunks(_CHUNK):
            sums += _chunk_sums(rows, layout, features, device)
        return sums.to(torch.int64).cpu()

    return Query(compute, sensitivity=1.0, shape=(layout.classes, design.features), grid=GRID)


@torch.no_grad()
def _chunk_sums(rows: Records, layout: ImageLayout, features: ImageFeatures, device: torch.device | str) -> Tensor:
    """Sums of one chunk in whole grid units; float64 holds them exactly (they stay far below 2^53)."""
    # Chunks are padded to one size: the features of a record must not depend on how many others share its product.
    images = torch.zeros(_CHUNK, layout.pixels)
    images[: len(rows)] = torch.from_numpy(layout.pixels_of(rows))
    selected = torch.zeros(layout.classes, _CHUNK, dtype=torch.float64)
    classes = torch.from_numpy(layout.classes_of(rows))
    counted = torch.nonzero(classes >= 0).flatten()
    selected[classes[counted], counted] = 1
    units = (features(images.to(device)) * (_SHRINK / GRID)).trunc_()
    return selected.to(device) @ units.double()
