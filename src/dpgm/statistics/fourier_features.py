"""Feature maps of bounded norm for kernel k-means: random Fourier features, and the record itself.

A map turns a record of `width` positions into `features` numbers, whole multiples of `grid`. Whatever the record, the
norm of the vector is at most `norm_bound` and every number lies in `box`. Sums over records are exact
(docs/privacy-proof.md 2.1 and 8). The random frequencies, the kernel parameter gamma and the number of features are
public and independent of the rows.
"""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Literal, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dpgm.data.domain import Domain
from dpgm.data.records import Records
from dpgm.errors import UsageError
from dpgm.kernels.feature_kernels import TURN, cosine_table, fourier_features
from dpgm.statistics.rules import BLURRED_DISTANCE
from dpgm.validation import one_of, positive, whole

Kernel: TypeAlias = Literal["rbf", "laplacian"]
UNIT = 1 << 15  # grid steps in a length of one


@dataclass(frozen=True, eq=False)
class FourierFeatures:
    """Random Fourier features of norm at most 1 (docs/privacy-proof.md 2.1); make one with `FourierFeatures.draw`.

    By default the paired map sqrt(2/d) [cos(Wx), sin(Wx)], of norm 1 for every record. With `phase` the paper's
    sqrt(2/d) cos(Wx + b), whose norm can reach sqrt(2): records longer than 1 are scaled down to 1.

    Angles are rounded to 2^-16 of a turn and cosines to a grid of 2^-15, always within the norm bound. On records,
    whose entries are 0 or 1, frequencies only matter modulo a turn.

    >>> records = Records.from_lists([[0, 3], [1], []], Domain.of_items(5))
    >>> features = FourierFeatures.draw(5, 8, gamma=0.5, generator=torch.Generator().manual_seed(0))
    >>> features.transform(records).norm(dim=1).round(decimals=3)
    tensor([1., 1., 1.])

    Attributes:
        gamma: parameter of the kernel.
        kernel: "rbf" or "laplacian", see `draw`.
        angles: (m, f) int16, the frequencies in parts of a turn; f = d/2 for the paired map, d with `phase`.
        offsets: (f,) int16, the phases b in parts of a turn; zero for the paired map.
        phase: whether it is the paper's map.
    """

    grid: ClassVar[float] = 1.0 / UNIT
    norm_bound: ClassVar[float] = 1.0

    gamma: float
    kernel: Kernel
    angles: NDArray[np.int16]
    offsets: NDArray[np.int16]
    phase: bool = False

    @classmethod
    def draw(
        cls,
        width: int,
        features: int,
        gamma: float,
        *,
        generator: torch.Generator,
        kernel: Kernel = "rbf",
        phase: bool = False,
        blurred: Domain | None = None,
        blurred_distance: float = BLURRED_DISTANCE,
    ) -> "FourierFeatures":
        """Draw the public frequencies.

        Args:
            width: m, positions of a record.
            features: d, even.
            gamma: public parameter of the kernel; see `default_gamma`.
            generator: source of the frequencies.
            kernel: "rbf" is exp(-gamma |x - y|^2). "laplacian" is exp(-gamma |x - y|) with the Euclidean distance; with
                the Manhattan distance it would be the RBF kernel again, since entries are 0 or 1.
            phase: the paper's map with random phases instead of cosine and sine pairs.
            blurred: a domain whose images are compared after a blur of one pixel, so that two strokes a pixel apart
                are similar, which a plain distance misses.
            blurred_distance: share of squared distances that the blur leaves; the features are rescaled by it.
        """
        whole(at_least=1, width=width)
        whole(at_least=2, features=features)
        positive(gamma=gamma)
        one_of(("rbf", "laplacian"), kernel=kernel)
        if features % 2:
            raise UsageError(f"`features` must be even (cosines and sines come in pairs); got {features}.")
        count = features if phase else features // 2
        frequencies = _draw_frequencies(width, count, gamma, kernel, generator)
        if blurred is not None:
            _blur_images(frequencies, blurred, blurred_distance)
        offsets = np.zeros(count, dtype=np.int16)
        if phase:
            offsets = _turned(torch.rand(count, generator=generator, dtype=torch.float64) * (2 * math.pi))
        return cls(float(gamma), kernel, _turned(frequencies), offsets, phase)

    @classmethod
    def for_domain(
        cls,
        domain: Domain,
        features: int,
        *,
        generator: torch.Generator,
        gamma: float | None = None,
        profile: Tensor | None = None,
        kernel: Kernel = "rbf",
        phase: bool = False,
        blurred_distance: float = BLURRED_DISTANCE,
    ) -> "FourierFeatures":
        """As `draw`, for a domain: images are blurred, and gamma is by default `default_gamma(domain, profile)`."""
        width = default_gamma(domain, profile) if gamma is None else gamma
        return cls.draw(
            domain.width,
            features,
            width,
            generator=generator,
            kernel=kernel,
            phase=phase,
            blurred=domain,
            blurred_distance=blurred_distance,
        )

    @property
    def width(self) -> int:
        """The number m of positions of a record."""
        return len(self.angles)

    @property
    def features(self) -> int:
        """The number d of features."""
        return int(self.angles.shape[1]) * (1 if self.phase else 2)

    @property
    def box(self) -> tuple[float, float]:
        """The range of every feature, whatever the record."""
        return -math.sqrt(2 / self.features), math.sqrt(2 / self.features)

    @cached_property
    def _tables(self) -> tuple[NDArray[np.int16], ...]:
        cosines, sines = cosine_table(math.sqrt(2 / self.features) * UNIT)
        return (cosines,) if self.phase else (cosines, sines)

    def quantised(self, records: Records, device: str = "cpu") -> Tensor:
        """(n, d) int16 multiples of `grid`; the norm of every row is at most 1."""
        units = fourier_features(records, self.angles, self.offsets, self._tables, device)
        return _shorten(units) if self.phase else units

    def transform(self, records: Records, device: str = "cpu") -> Tensor:
        """(n, d) float32 features; the norm of every row is at most 1."""
        return self.quantised(records, device).float() * self.grid


@dataclass(frozen=True)
class IdentityFeatures:
    """The record itself, of norm at most sqrt(m): the standard private k-means of Blum et al."""

    grid: ClassVar[float] = 1.0
    box: ClassVar[tuple[float, float]] = (0.0, 1.0)

    width: int

    @property
    def features(self) -> int:
        """The number of features: m."""
        return self.width

    @property
    def norm_bound(self) -> float:
        """The norm of a record that holds every item."""
        return math.sqrt(self.width)

    def quantised(self, records: Records, device: str = "cpu") -> Tensor:
        """(n, m) int16 zeros and ones."""
        return torch.from_numpy(records.to_dense(np.int16)).to(device)


FeatureMap: TypeAlias = FourierFeatures | IdentityFeatures


def expected_profile(domain: Domain) -> Tensor:
    """(m,) share of the records that hold each position, guessed from the public domain alone.

    An eighth of an image's pixels; a third of the square root of an item set's size, at least one item; one value of a
    categorical or numeric field; the same for all positions of a field.
    """
    parts = []
    for field in domain.fields:
        if field.image is not None:
            filled = field.width / 8
        elif field.is_set:
            filled = math.sqrt(field.width) / 3
        else:
            filled = 1.0
        share = min(1.0, max(1.0, filled) / field.width)
        parts.append(torch.full((field.width,), share, dtype=torch.float64))
    return torch.cat(parts)


def default_gamma(domain: Domain, profile: Tensor | None = None) -> float:
    """A kernel parameter that does not depend on the rows: 1 / (2 x expected length of a record).

    The squared distance of two records is the number of positions in which they differ, at most their lengths together.
    The expected length follows from a released or public `profile` (m,) of frequencies, by default `expected_profile`.

    >>> round(1 / default_gamma(Domain.of_items(900)), 6)
    20.0
    """
    expected = expected_profile(domain) if profile is None else profile
    return 1.0 / (2.0 * max(1.0, float(expected.sum())))


def _draw_frequencies(width: int, count: int, gamma: float, kernel: Kernel, generator: torch.Generator) -> Tensor:
    """Frequencies (m, f) in radians, drawn from the spectral density of the kernel."""
    normals = torch.randn(width, count, generator=generator, dtype=torch.float64)
    if kernel == "rbf":
        return normals * math.sqrt(2 * gamma)
    # multivariate Cauchy: one common denominator per frequency
    return normals * (gamma / torch.randn(count, generator=generator, dtype=torch.float64).abs())


def _blur_images(frequencies: Tensor, domain: Domain, blurred_distance: float) -> None:
    """Blur frequencies (m, f) over every image, in place, which gives the kernel of blurred images.

    They are rescaled to preserve distances: a blur of one pixel removes about six tenths of the squared distance
    between strokes a few pixels wide.
    """
    for field, start in zip(domain.fields, domain.offsets, strict=True):
        if (shape := field.image) is not None:
            for plane in range(start, start + field.width, shape.pixels):  # one per grey level but the first
                image = frequencies[plane : plane + shape.pixels].view(shape.height, shape.columns, -1)
                across = torch.einsum("ba,bcf,cd->adf", _blurring(shape.height), image, _blurring(shape.columns))
                image.copy_(across * math.sqrt(1 / blurred_distance))


def _blurring(size: int) -> Tensor:
    """The matrix (size, size) that blurs a line of pixels by a Gaussian of one pixel."""
    places = torch.arange(size, dtype=torch.float64)
    weights = torch.exp(-((places[:, None] - places) ** 2) / 2)
    return weights / weights.sum(dim=1, keepdim=True)


def _turned(radians: Tensor) -> NDArray[np.int16]:
    """Radians modulo a turn, in int16 parts of a turn."""
    turned = torch.remainder(torch.round(radians * (TURN / (2 * math.pi))), TURN).to(torch.int64).numpy()
    return turned.astype(np.uint16).view(np.int16)


def _shorten(units: Tensor) -> Tensor:
    """Scale rows of a norm above `UNIT` down to it; rounding toward zero preserves the bound."""
    norms = (units.double() ** 2).sum(dim=1, keepdim=True).sqrt()  # whole numbers below 2^53: exact before the root
    return torch.where(norms > UNIT, torch.trunc(units.double() * (UNIT / norms)), units.double()).to(torch.int16)
