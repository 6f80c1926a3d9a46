"""Every tuned number of the image family, with its unit, its reason and where it was measured.

Chosen on a held-out sixth of MNIST's training digits (docs/fidelity-images.md); kept in the plan and printed by
`dpgm plan --rules`.
"""

from dataclasses import dataclass, field

from dpgm.images.features import Transform


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
    # The dense network of a CPU, the convolutional one of a GPU.
    latent: int = 16
    hidden: tuple[int, int] = (256, 512)
    latent_cuda: int = 32
    channels: tuple[int, int, int] = (128, 64, 32)


@dataclass(frozen=True)
class ImageRules:
    """All rules of the family."""

    embedding: EmbeddingRules = field(default_factory=EmbeddingRules)
    fit: ImageFitRules = field(default_factory=ImageFitRules)


RULES = ImageRules()
