"""Feature maps of bounded norm: random Fourier features, and the record itself.

A map makes `features` whole multiples of `grid` of a record of `width` positions; no feature vector is longer than
`norm_bound`, and no feature lies outside `box`, whatever the record. Sums over records are exact
(docs/privacy-proof.md 2.1 and 8). The random frequencies are public and independent of the rows; so are the kernel's
width gamma and the number of features.
"""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Literal, TypeAlias

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
        gamma: width of the kernel.
        kernel: "rbf" or "laplacian", see `draw`.
        angles: (m, f) int16, the frequencies in parts of a turn; f = d/2 for the paired map, d with `phase`.
        offsets: (f,) int16, the phases b in parts of a turn; zero for the paired map.
        phase: which of the two maps.
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
    ) -> "FourierFeatures":
        """Draw the public frequencies.

        Args:
            width: m, positions of a record.
            features: d, even.
            gamma: a public number; `default_gamma` gives one that suits the domain.
            generator: source of the frequencies.
            kernel: "rbf" is exp(-gamma |x - y|^2). "laplacian" is exp(-gamma |x - y|), with the Euclidean distance:
                with that of Manhattan it would be the RBF kernel again, since entries are 0 or 1.
            phase: the paper's map with random phases instead of cosine and sine pairs.
            blurred: a domain whose images are compared after a blur of one pixel. Neighbouring pixels nearly say the
                same, and two strokes a pixel apart are alike; a plain distance sees neither.
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
            _blur_images(frequencies, blurred)
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
    ) -> "FourierFeatures":
        """As `draw`, suited to a domain: images are blurred, and gamma is `default_gamma` unless it is given.

        `profile` has released or public frequencies for that default.
        """
        width = default_gamma(domain, profile) if gamma is None else gamma
        return cls.draw(
            domain.width, features, width, generator=generator, kernel=kernel, phase=phase, blurred=domain
        )

    @property
    def width(self) -> int:
        """m: positions of a record."""
        return len(self.angles)

    @property
    def features(self) -> int:
        """d: numbers a record becomes."""
        return int(self.angles.shape[1]) * (1 if self.phase else 2)

    @property
    def box(self) -> tuple[float, float]:
        """Every feature lies in here, whatever the record."""
        return -math.sqrt(2 / self.features), math.sqrt(2 / self.features)

    @property
    def frequencies(self) -> NDArray[np.float64]:
        """W, (f, m), in radians and modulo a turn."""
        return self.angles.T.astype(np.float64) * (2 * math.pi / TURN)

    @cached_property
    def _tables(self) -> tuple[NDArray[np.int16], ...]:
        cosines, sines = cosine_table(math.sqrt(2 / self.features) * UNIT)
        return (cosines,) if self.phase else (cosines, sines)

    def quantised(self, records: Records, device: str = "cpu") -> Tensor:
        """(n, d) int16 multiples of `grid`; no row is longer than 1."""
        units = fourier_features(records, self.angles, self.offsets, self._tables, device)
        return _shorten(units) if self.phase else units

    def transform(self, records: Records, device: str = "cpu") -> Tensor:
        """(n, d) float32 features; no row is longer than 1."""
        return self.quantised(records, device).float() * self.grid

    def state(self) -> dict[str, Tensor]:
        """The tensors of the map: with `architecture`, all there is to it."""
        return {"angles": torch.from_numpy(self.angles), "offsets": torch.from_numpy(self.offsets)}

    @property
    def architecture(self) -> dict[str, Any]:
        """The plain values of the map."""
        return {"kind": "fourier", "gamma": self.gamma, "kernel": self.kernel, "phase": self.phase}


@dataclass(frozen=True)
class IdentityFeatures:
    """The record itself, of norm at most sqrt(m): the standard private k-means of Blum et al."""

    grid: ClassVar[float] = 1.0
    box: ClassVar[tuple[float, float]] = (0.0, 1.0)

    width: int

    @property
    def features(self) -> int:
        """Numbers a record becomes: m."""
        return self.width

    @property
    def norm_bound(self) -> float:
        """A record with every item has this norm."""
        return math.sqrt(self.width)

    def quantised(self, records: Records, device: str = "cpu") -> Tensor:
        """(n, m) int16 zeros and ones."""
        return torch.from_numpy(records.to_dense(np.int16)).to(device)


FeatureMap: TypeAlias = FourierFeatures | IdentityFeatures


def expected_profile(domain: Domain) -> Tensor:
    """How often each position is filled, guessed from the public domain alone, (m,) float64.

    An eighth of an image's pixels; a third of the square root of an item set's size, at least one item; exactly one
    value of a categorical or numeric field; all positions of a field alike.
    """
    parts = []
    for field in domain.fields:
        if field.kind == "image":
            filled = field.width / 8
        elif field.kind == "items":
            filled = math.sqrt(field.width) / 3
        else:
            filled = 1.0
        share = min(1.0, max(1.0, filled) / field.width)
        parts.append(torch.full((field.width,), share, dtype=torch.float64))
    return torch.cat(parts)


def default_gamma(domain: Domain, profile: Tensor | None = None) -> float:
    """A kernel width that is not read off the rows: one over twice the number of ones expected of a record.

    The squared distance of two records is the number of positions in which they differ, at most the ones of both
    together. How many ones to expect follows from a released or public `profile` where there is one (frequencies,
    (m,)), else from `expected_profile`.

    >>> round(1 / default_gamma(Domain.of_items(900)), 6)
    20.0
    """
    expected = expected_profile(domain) if profile is None else profile
    return 1.0 / (2.0 * max(1.0, float(expected.sum())))


def _draw_frequencies(width: int, count: int, gamma: float, kernel: Kernel, generator: torch.Generator) -> Tensor:
    """Frequencies (m, f) in radians from the spectral density of the kernel."""
    normals = torch.randn(width, count, generator=generator, dtype=torch.float64)
    if kernel == "rbf":
        return normals * math.sqrt(2 * gamma)
    # multivariate Cauchy: one common denominator a frequency
    return normals * (gamma / torch.randn(count, generator=generator, dtype=torch.float64).abs())


def _blur_images(frequencies: Tensor, domain: Domain) -> None:
    """Frequencies (m, f) blurred over every image, in place, which gives the kernel of blurred images.

    In a scale that keeps distances: a blur of one pixel takes away about six tenths of the squared distance between
    strokes a few pixels wide.
    """
    for field, start in zip(domain.fields, domain.offsets, strict=True):
        if field.kind == "image":
            for plane in range(start, start + field.width, field.pixels):  # one per grey level but the first
                image = frequencies[plane : plane + field.pixels].view(field.height, field.columns, -1)
                across = torch.einsum("ba,bcf,cd->adf", _blurring(field.height), image, _blurring(field.columns))
                image.copy_(across * math.sqrt(1 / BLURRED_DISTANCE))


def _blurring(size: int) -> Tensor:
    """The matrix (size, size) that blurs a line of pixels by a Gaussian of one pixel."""
    places = torch.arange(size, dtype=torch.float64)
    weights = torch.exp(-((places[:, None] - places) ** 2) / 2)
    return weights / weights.sum(dim=1, keepdim=True)


def _turned(radians: Tensor) -> NDArray[np.int16]:
    """Radians as int16 parts of a turn; whole turns drop out."""
    turned = torch.remainder(torch.round(radians * (TURN / (2 * math.pi))), TURN).to(torch.int64).numpy()
    return turned.astype(np.uint16).view(np.int16)


def _shorten(units: Tensor) -> Tensor:
    """Rows longer than `UNIT` scaled down to it; rounding towards zero keeps the bound."""
    norms = (units.double() ** 2).sum(dim=1, keepdim=True).sqrt()  # whole numbers below 2^53: exact before the root
    return torch.where(norms > UNIT, torch.trunc(units.double() * (UNIT / norms)), units.double()).to(torch.int16)
