"""Every tuned number of the image family, with its unit, its reason and where it was measured.

Chosen on a held-out sixth of MNIST's training digits (docs/fidelity-images.md); kept in the plan and printed by
`dpgm plan --rules`.
"""

from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from dpgm.strategy.settings import FamilySettings

Transform: TypeAlias = Literal["dct", "gabor", "gabor-middle"]

# Not tuned: what a release is refused for. Parameters beyond the first; class shares that miss 1 by the second.
LARGEST_PARAMETER = 1e6
SHARES_OFF = 1e-4
# Fixed by the format of releases: the dense network's coefficient of frequency f has weight 1 / (1 + f² / this).
OUTPUT_DAMPING = 25


@dataclass(frozen=True)
class MapRules:
    """The transforms of an image before its random features are taken. Chosen by hand."""

    # Bandwidths are stated for images of so many pixels (28 x 28) and rescaled to others.
    reference_pixels: int = 784
    # Cosine coefficients of squared frequency f² have weight 1 / (1 + f² / damping); small ones are left out.
    damping: float = 36.0
    least_weight: float = 0.12
    # Strokes: directions, windows per side, waves per image side (two widths, or one between them).
    directions: int = 6
    places: int = 7
    waves: tuple[float, ...] = (7.0, 3.5)
    waves_middle: tuple[float, ...] = (14 / 3,)
    # Brings distances between filtered images to the size of those between cosine coefficients.
    strength: float = 0.35
    # Added to squared strengths, so that the root is smooth at 0.
    smoothing: float = 1e-4


@dataclass(frozen=True)
class EmbeddingRules:
    """What is measured: the public feature map."""

    # Share of mu² for the noisy sizes of the classes: counts in the thousands need no more.
    sizes: float = 0.01
    # Bandwidths of the kernels, for 28 x 28 images: from coarse shape to strokes.
    bandwidths: tuple[float, ...] = (0.01, 0.03, 0.1)
    # Released numbers per class; a GPU can match three times as many in the same time.
    features: int = 12_000
    features_large: int = 36_000
    # Local strokes of one width, or of two where a GPU does the work.
    strokes: Transform = "gabor-middle"
    strokes_large: Transform = "gabor"
    # Images with a shorter side than this have no room for strokes; they get the blurred kind alone.
    stroke_pixels: int = 16
    # Released numbers in all: classes x features.
    most_values: int = 1_000_000
    # Frequencies of each kind, at the least.
    least_frequencies: int = 50
    map: MapRules = field(default_factory=MapRules)


@dataclass(frozen=True)
class ImageFitRules:
    """How the network is fitted; `images` are those of 28 x 28 pixels per step, over all classes."""

    steps: int = 3000
    steps_cuda: int = 4000
    images: int = 400
    images_cuda: int = 1000
    # Images of each class per step: enough for a mean, and no more than helps.
    least_images: int = 8
    least_images_cuda: int = 20
    most_images: int = 100
    most_images_cuda: int = 200
    # A step on a CPU matches every fifth frequency, in turn.
    parts: int = 5
    # Pixels of those images.
    reference_pixels: int = 784
    # The dense network of a CPU, the convolutional one of a GPU.
    latent: int = 16
    hidden: tuple[int, int] = (256, 512)
    latent_cuda: int = 32
    channels: tuple[int, int, int] = (128, 64, 32)
    # Cosine frequencies that the dense network draws with: up to this radius, in half-waves per image.
    radius: float = 17.0
    # Order of the cosine displacements of a warp, and the first deviations of its affine and its other part.
    warp_order: int = 3
    warp_affine: float = 0.1
    warp_rest: float = 0.03
    # Images start mostly dark: the first logit of a pixel.
    first_logit: float = -1.5
    # Adam: rate, decay of its moments, steps over which the rate rises; decay of the averaged weights. By hand.
    learning_rate: float = 3e-3
    betas: tuple[float, float] = (0.9, 0.99)
    warm_up: int = 50
    average: float = 0.998
    # Batches over which the moments of the hidden layers are measured at the end.
    moment_batches: int = 20


@dataclass(frozen=True)
class ImageRules:
    """All rules of the family."""

    embedding: EmbeddingRules = field(default_factory=EmbeddingRules)
    fit: ImageFitRules = field(default_factory=ImageFitRules)


RULES = ImageRules()


@dataclass(frozen=True)
class ImageSettings(FamilySettings):
    """Whether the larger feature map is measured, and the tuned numbers.

    The plan fixes what is measured, so that it does not depend on the device that a fit or its resumption runs on.
    """

    large: bool = False
    rules: ImageRules = RULES
