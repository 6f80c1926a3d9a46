"""Every tuned number of the image family, with its unit, its reason and where it was measured.

Unless stated otherwise, chosen on a held-out sixth of MNIST's training digits (docs/fidelity-images.md). The numbers
are public, kept in the plan and printed by `dpgm plan --rules`.
"""

from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from dpgm.strategy.settings import FamilySettings

Transform: TypeAlias = Literal["dct", "gabor"]

# Not tuned: a release with larger parameters is refused.
LARGEST_PARAMETER = 1e6
# Fixed by the format of releases: the dense network's coefficient of frequency f has weight 1 / (1 + f² / this).
OUTPUT_DAMPING = 25


@dataclass(frozen=True)
class MapRules:
    """The transforms of an image whose random Fourier features are taken. Chosen by hand."""

    # Pixels of the images for which bandwidths are stated (28 x 28); for other sizes they are rescaled.
    reference_pixels: int = 784
    # Cosine coefficients of frequency f (half-waves per image side) have weight 1 / (1 + f² / damping); those of a
    # smaller weight than the second number are left out.
    damping: float = 36.0
    least_weight: float = 0.12
    # Strokes: number of directions, windows per image side, waves per image side. Two widths (7 and 3.5 waves), with
    # 36,000 features in all, are no better: .9802 and .9793 (two seeds, on a GPU), where these reach .9800 and .9791.
    directions: int = 6
    places: int = 7
    waves: tuple[float, ...] = (14 / 3,)
    # Factor that makes distances between filtered images comparable to those between cosine coefficients.
    strength: float = 0.35
    # Added to squared strengths of strokes, so that the square root is smooth at 0.
    smoothing: float = 1e-4


@dataclass(frozen=True)
class EmbeddingRules:
    """What is measured: the public feature map."""

    # Share of mu² for the noisy class sizes: counts in the thousands need no more.
    sizes: float = 0.01
    # Bandwidths of the kernels, for 28 x 28 images: from coarse shapes to strokes.
    bandwidths: tuple[float, ...] = (0.01, 0.03, 0.1)
    # Released numbers per class.
    features: int = 12_000
    # Pixels of the shorter image side below which there is no room for strokes: only blurred images are compared.
    stroke_pixels: int = 16
    # Most released numbers in all: classes x features. By hand.
    most_values: int = 1_000_000
    # Fewest frequencies per transform and bandwidth. By hand.
    least_frequencies: int = 50
    map: MapRules = field(default_factory=MapRules)


@dataclass(frozen=True)
class ImageFitRules:
    """How the network is fitted; names in `_cuda` are for a GPU."""

    # Steps of Adam.
    steps: int = 3000
    steps_cuda: int = 4000
    # Images per step over all classes, if they have 28 x 28 pixels; fewer if they are larger.
    images: int = 400
    images_cuda: int = 1000
    # Limits on the images per class and step: enough for a mean, and no more than helps.
    least_images: int = 8
    least_images_cuda: int = 20
    most_images: int = 100
    most_images_cuda: int = 200
    # Parts into which a CPU divides the frequencies; each step compares one part, in turn, which takes less time.
    parts: int = 5
    # Pixels of a 28 x 28 image, for which `images` is stated.
    reference_pixels: int = 784
    # Latent numbers and hidden sizes: of the dense network on a CPU, of the convolutional one on a GPU.
    latent: int = 16
    hidden: tuple[int, int] = (256, 512)
    latent_cuda: int = 32
    channels: tuple[int, int, int] = (128, 64, 32)
    # Largest frequency of the cosine coefficients that the dense network outputs, in half-waves per image side.
    radius: float = 17.0
    # Order of the cosine waves of a warp, and the initial standard deviations of its affine part and of its waves, in
    # half image sides.
    warp_order: int = 3
    warp_affine: float = 0.1
    warp_rest: float = 0.03
    # Initial logit of every pixel: images start mostly dark.
    first_logit: float = -1.5
    # Adam: learning rate, decay rates of the moment estimates, steps of linear warm-up; decay of the averaged
    # parameters. By hand.
    learning_rate: float = 3e-3
    betas: tuple[float, float] = (0.9, 0.99)
    warm_up: int = 50
    average: float = 0.998
    # Batches over which the moments of the hidden layers are computed at the end.
    moment_batches: int = 20


@dataclass(frozen=True)
class ImageRules:
    """All rules of the family."""

    embedding: EmbeddingRules = field(default_factory=EmbeddingRules)
    fit: ImageFitRules = field(default_factory=ImageFitRules)


IMAGE_RULES = ImageRules()


@dataclass(frozen=True)
class ImageSettings(FamilySettings):
    """The tuned numbers, as a plan keeps them: what is measured depends on no machine."""

    rules: ImageRules = IMAGE_RULES
