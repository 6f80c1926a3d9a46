"""Tuned numbers of the mixtures of networks, each with its reason, and the settings of a fit; all of them public."""

from dataclasses import dataclass, field
from typing import Literal

from dpgm import validation
from dpgm.errors import UsageError
from dpgm.images.rules import ImageSettings
from dpgm.products.rules import PRODUCT_RULES as PRODUCT_RULES
from dpgm.products.rules import ProductRules
from dpgm.statistics.rules import BLURRED_DISTANCE
from dpgm.strategy.protocol import FitPlan
from dpgm.strategy.settings import FamilySettings

# Not tuned: limits on what a release may hold. Larger parameters and sizes are refused.
LARGEST_WEIGHT = 1e30
LARGEST_SIZE = 1_000_000
MOST_LAYERS = 16
MOST_CLUSTERS = MOST_LATENT_POINTS = 100_000


@dataclass(frozen=True)
class ClusteringRules:
    """Private k-means: how centres follow noisy counts and sums, and how many features the noise allows."""

    # Initial centres per cluster: with several, the first half of the iterations runs with all of them, and then the
    # nearest are merged, so that the result depends less on the start.
    starts: int = 2
    # A cluster is treated as empty if its noisy count is below this many standard deviations of the noise (and half a
    # record).
    empty_below: float = 2.0
    # A centre that is shrunk toward the mean keeps at least this share of its distance: centres never coincide.
    least_distance: float = 0.1
    # Distance of a re-seeded centre from the one it splits, in units of the norm bound.
    split_distance: float = 0.1
    # Noise of a centre that k-means tolerates, as a share of the length of a feature vector.
    bearable_noise: float = 0.25
    # Records drawn to choose initial centres from: in all at least, and per cluster.
    pool: int = 2000
    pool_per_cluster: int = 10
    # Share of the squared distance between strokes a few pixels wide that a blur of one pixel leaves; kernels of images
    # are rescaled by it.
    blurred_distance: float = BLURRED_DISTANCE
    # Limits on the number of features, however much or little noise there is.
    least_features: float = 50.0
    most_features: float = 400.0


@dataclass(frozen=True)
class NormRules:
    """The histograms of gradient norms from which private SGD takes its clipping bound. By hand."""

    # Bins, as in the paper's Algorithm 3; the edges of the first and of the last one.
    bins: int = 24
    low: float = 2.0**-6
    high: float = 2.0**12
    # Weight of the past in the average of the histograms: about 1 / (1 - decay) steps are averaged.
    decay: float = 0.95
    # Standard deviations of the noise that the fullest bin must reach before the bound moves: below, the histogram may
    # be noise alone.
    clear: float = 4.0


@dataclass(frozen=True)
class NetworkRules:
    """How networks start and are trained, and what the paper's preset does where the paper is silent."""

    # Public guesses that output biases start from where the plan pays for no profile (one cluster, paper preset).
    # Networks that start by emitting half of all items need thousands of steps to unlearn that, and under noise they
    # never do.
    items_per_record: float = 5.0  # of every item set; the simulated transit data have 5.3, msweb 3.0, CDR 11.4
    pixels_on: float = 0.15  # share of an image's pixels; MNIST has 0.13
    most_frequent: float = 0.5  # of any item or pixel: a stated mean length may exceed the number of items

    # The paper: batches of about 100 records (q = .0017, 1e-4 and 2.2e-5 on its data) and, on MNIST, 20 epochs.
    paper_batch: int = 100
    paper_epochs: int = 20
    # It states no epochs for its two large sets, and more steps mean more noise in each. Popular queries of one and two
    # items, simulated TRANSIT at epsilon = 1: 12,000 steps .040 and .228, 33,000 steps .054 and .161 (k = 10);
    # 100,000 steps at a constant rate .175 and .307, 33,000 with a cosine .089 and .249 (k = 1).
    paper_most_steps: int = 33_000
    # It names Adam for the VAE and no rate. Errors at epsilon = 1, k = 10: msweb .066/.240 with a cosine from .002,
    # .071/.280 from .001, .086/.223 from .004; constant: .061/.246 at .001, .100/.226 at .002. TRANSIT .054/.161 with a
    # cosine from .002, .035/.216 from .001; .057/.162 constant at .001. MNIST accuracy .650, .636; .653, .586.
    paper_vae_rate: float = 0.002
    # Its RBM learns at 0.01, one network at a time on 100 records. Here all k networks move in every step, each on its
    # own share of those records, so a step of k networks is as long as one of the paper's at 0.01 / k; with a cosine.
    # TRANSIT, k = 10: .249/.992 at .01, .037/.245 at .001; MNIST accuracy .715 and .792.
    paper_rbm_rate: float = 0.01
    # Its networks: ten, two latent numbers, 20 iterations of k-means (its section 6).
    paper_clusters: int = 10
    paper_latent: int = 2
    paper_cluster_steps: int = 20

    # Our own preset. Smallest expected batch and smallest sampling rate: below them gradients are all noise.
    batch: int = 200
    least_rate: float = 0.01
    # Records per network, since each learns from its own cluster only; largest number of networks.
    records_per_network: int = 10_000
    most_networks: int = 30

    # Budget shares (of mu²). Where networks are refined to statistics, these get most of the budget (measured:
    # experiments/notes/fidelity.md, "Is private SGD worth its budget?") and clustering gets less.
    refined: float = 0.84
    lengths: float = 0.01
    items: float = 0.10
    cluster_counts: float = 0.02
    cluster_sums: float = 0.08
    cluster_sizes: float = 0.01
    cluster_profiles: float = 0.09
    cluster_counts_refined: float = 0.01
    cluster_sums_refined: float = 0.04
    # Images, one network per label: budget share of the statistics that a generator of images is fitted to, on whose
    # samples networks are pre-trained (private SGD gets what is left); latent size. Accuracy on held-out digits before
    # and after private SGD, epsilon = 1 and 10: 16 latent numbers .973 to .971 and .971 to .973; 8: .966 to .969 and
    # .965 to .964; 32 with 400 hidden units: .971 to .969 and .972 to .972. Rates of .0005 and .0001 and batches of
    # five times the size give the same.
    image_statistics: float = 0.8
    image_latent: int = 16

    # Pre-training on samples of a generator fitted to the released statistics: least and largest number of samples
    # (fewer leave too few steps, more take too long); passes over them, samples of all networks per step, rate of Adam
    # (with a cosine). Accuracy on 10,000 held-out digits before private SGD, epsilon = 10: 50 passes .971, 133 passes
    # .974.
    pretraining_samples: tuple[int, int] = (10_000, 60_000)
    pretraining_passes: int = 50
    pretraining_batch: int = 1000
    pretraining_rate: float = 2e-3

    # Refinement of trained networks: rates of decoders and latent points as shares of the rate of the fit to moments
    # (which is tuned for logits), and a small first relative tolerance, so that what training has learned beyond the
    # measured statistics survives. Chosen by hand.
    refined_decoder_rate: float = 0.1
    refined_point_rate: float = 0.03
    refined_tolerance: float = 0.05
    # Calibration of output biases: fixed-point steps, records generated per step, and the largest shift of a log-odds
    # per step. Chosen by hand.
    calibration_steps: int = 25
    calibration_draws: int = 4096
    largest_shift: float = 1.0
    # Floor of noisy cluster sizes, as a share of the average size: no network is dropped. Chosen by hand.
    least_cluster: float = 0.001
    # Item frequencies within a cluster stay at least this far below 1, since biases are their logits. Chosen by hand.
    frequency_off_one: float = 1e-3
    # Private SGD: the quantile of the released gradient norms that becomes the clipping bound (the paper takes the
    # mode), and the rate of Adam in our own preset. Chosen by hand.
    norm_quantile: float = 0.9
    learning_rate: float = 0.002
    # Standard deviation of the initial weights of an RBM (Hinton's practical guide).
    rbm_weights: float = 0.01
    # Decay of Adam's two moments: its authors' defaults.
    betas: tuple[float, float] = (0.9, 0.999)
    # Default sizes of networks: the hidden layer, the latent variable of a VAE; chains per RBM and sweeps per record.
    hidden: int = 200
    latent: int = 8
    chains: int = 100
    sweeps: int = 200
    # The clipping bound; and how records are clustered before networks are trained.
    norms: NormRules = field(default_factory=NormRules)
    clustering: ClusteringRules = field(default_factory=ClusteringRules)

    def pretraining_count(self, records: int) -> int:
        """Samples to pre-train on: as many as there are records, within the limits."""
        least, most = self.pretraining_samples
        return max(least, min(most, records))


CLUSTERING_RULES = ClusteringRules()
NORM_RULES = NormRules()
NETWORK_RULES = NetworkRules()


@dataclass(frozen=True)
class NetworkSettings(FamilySettings):
    """Sizes of the networks, and how records are clustered and networks trained."""

    clusters: int = 1
    cluster_steps: int = 8
    features: int = 200
    hidden: tuple[int, ...] = (NETWORK_RULES.hidden,)
    latent: int = NETWORK_RULES.latent
    sampling_rate: float = NETWORK_RULES.least_rate
    steps: int = 2000
    learning_rate: float = NETWORK_RULES.learning_rate
    schedule: Literal["cosine", "constant"] = "cosine"
    optimizer: Literal["adam", "sgd"] = "adam"
    averaged_tail: float = 0.5
    norm_quantile: float | None = NETWORK_RULES.norm_quantile  # None: the mode of the histogram, as in the paper
    warm_start: bool = True
    calibrate: bool = True
    rules: NetworkRules = NETWORK_RULES
    products: ProductRules = PRODUCT_RULES  # for the statistics that networks are pre-trained on and refined to
    images: ImageSettings | None = None  # statistics of images to pre-train on; then there is one network per label
    mean_length: float | None = None  # public; biases start from it where no profile is released

    def check(self) -> None:
        """Every value is in its range; a plan file may hold anything."""
        validation.whole(clusters=self.clusters, cluster_steps=self.cluster_steps, at_least=1, at_most=10_000)
        validation.whole(features=self.features, latent=self.latent, at_least=1, at_most=100_000)
        validation.whole(steps=self.steps, at_least=1, at_most=100_000_000)
        validation.fraction(sampling_rate=self.sampling_rate)
        validation.positive(learning_rate=self.learning_rate)
        validation.non_negative(averaged_tail=self.averaged_tail)
        if not self.hidden or self.averaged_tail > 1:
            raise UsageError(
                "the plan needs a hidden layer and an `averaged_tail` of at most 1; make the plan again."
            )
        for size in self.hidden:
            validation.whole(hidden=size, at_least=1, at_most=100_000)
        if self.norm_quantile is not None:
            validation.probability(norm_quantile=self.norm_quantile)
        if self.mean_length is not None:
            validation.positive(mean_length=self.mean_length)
        self.products.sampling.check()


def settings_of(plan: FitPlan) -> NetworkSettings:
    """The settings of a plan that trains networks."""
    family = plan.settings.family
    if not isinstance(family, NetworkSettings):
        raise UsageError("the plan trains no networks; make it again with model vae or rbm.")
    return family
