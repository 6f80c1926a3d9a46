"""Tuned numbers of the mixtures of networks, each with its reason; all of them public."""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from dpgm import validation
from dpgm.data.domain import Domain
from dpgm.errors import UsageError
from dpgm.images.rules import ImageSettings
from dpgm.products.rules import RULES as PRODUCT_RULES
from dpgm.products.rules import ProductRules
from dpgm.strategy.protocol import FitPlan
from dpgm.strategy.settings import FamilySettings

# Not tuned. Parameters and sizes of a release beyond these are refused; shares may miss 1 by so much, as float32 sums
# do.
LARGEST_PARAMETER = 1e30
LARGEST_SIZE = 1_000_000
MOST_LAYERS = 16
MOST_CLUSTERS = MOST_POINTS = 100_000
SHARES_OFF = 1e-3
MOST_FREQUENT = 0.5  # of the start frequencies: a stated mean length may exceed the number of items


@dataclass(frozen=True)
class NetworkRules:
    """What a network starts from, and what the paper's preset does where the paper is silent."""

    # Public guesses that the output biases start from where the plan pays for no profile (one cluster, paper preset).
    # Networks that start by emitting half of all items need thousands of steps to forget them, and noise never
    # lets them.
    items_per_record: float = 5.0  # for every item set; the simulated transit data have 5.3, msweb 3.0, CDR 11.4
    pixels_on: float = 0.15  # share of an image's pixels; MNIST has 0.13

    # The paper: batches of about 100 records (q = .0017, 1e-4 and 2.2e-5 on its data) and, on MNIST, 20 epochs.
    paper_batch: int = 100
    paper_epochs: int = 20
    # It gives no epochs for its two large sets, and more steps mean more noise in each. Popular queries of one and two
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

    # Our own preset. Batches of at least so many records, and at least this sampling rate: smaller ones are all noise.
    batch: int = 200
    least_rate: float = 0.01
    # One network per so many records, since each learns from its own cluster only; at most so many networks.
    records_per_network: int = 10_000
    most_networks: int = 30

    # Shares of mu². What networks are refined to gets most of the budget (measured: experiments/notes/fidelity.md, "Is
    # private SGD worth its budget?"); then clusters get less.
    refined: float = 0.84
    lengths: float = 0.01
    items: float = 0.10
    cluster_counts: float = 0.02
    cluster_sums: float = 0.08
    cluster_sizes: float = 0.01
    cluster_profiles: float = 0.09
    cluster_counts_refined: float = 0.01
    cluster_sums_refined: float = 0.04
    # Of images, one network per label: statistics that a generator of images is fitted to, whose samples networks
    # start from; private SGD gets what is left. Accuracy on held-out digits before and after private SGD, epsilon = 1
    # and 10: 16 latent numbers .973 to .971 and .971 to .973; 8: .966 to .969 and .965 to .964; 32 with 400 hidden
    # units: .971 to .969 and .972 to .972. Rates of .0005 and .0001 and batches of five times the size give the same.
    image_statistics: float = 0.8
    image_latent: int = 16

    # Pre-training on samples of a generator of the released statistics: as many as there are records, but within
    # these limits (fewer leave too few steps, more take too long); passes over them, samples of all networks per step,
    # rate of Adam (with a cosine). Accuracy on 10,000 held-out digits before private SGD, epsilon = 10: 50 passes
    # .971, 133 passes .974.
    pretraining_samples: tuple[int, int] = (10_000, 60_000)
    pretraining_passes: int = 50
    pretraining_batch: int = 1000
    pretraining_rate: float = 2e-3

    # Refinement of trained networks: rates of decoders and latent points as shares of the one of the fit to moments
    # (which is made for logits), and a relative tolerance that starts small, so that what training has found beyond
    # the measured statistics survives. Chosen by hand.
    refined_decoder_rate: float = 0.1
    refined_point_rate: float = 0.03
    refined_tolerance: float = 0.05
    # Calibration of output biases: fixed-point steps, records generated in each, and the largest shift of a log-odds in
    # one of them. Chosen by hand.
    calibration_steps: int = 25
    calibration_draws: int = 4096
    largest_shift: float = 1.0
    # Noisy cluster sizes are taken as at least this share of an equal one: no network is given up. Chosen by hand.
    least_cluster: float = 0.001
    # Item frequencies within a cluster are kept off 1 by this, since biases are their logits. Chosen by hand.
    frequency_off_one: float = 1e-3
    # Private SGD: the quantile of the released gradient norms that becomes the clipping bound; our own rate of Adam.
    # Chosen by hand; the paper takes the mode instead.
    norm_quantile: float = 0.9
    learning_rate: float = 0.002
    # Deviation of the first weights of an RBM (Hinton's practical guide).
    rbm_weights: float = 0.01
    # Decay of Adam's two moments: its authors' own.
    betas: tuple[float, float] = (0.9, 0.999)
    # Default sizes of networks: the hidden layer, the latent variable of a VAE; chains per RBM and sweeps per record.
    hidden: int = 200
    latent: int = 8
    chains: int = 100
    sweeps: int = 200


@dataclass(frozen=True)
class ClusteringRules:
    """How centres follow noisy counts and sums, and how many features the noise allows."""

    # Shrunk toward the mean, a centre keeps at least this share of its distance from it: centres never fall together.
    least_distance: float = 0.1
    # A re-seeded centre starts so far from the one it splits, in units of the norm bound.
    split_distance: float = 0.1
    # Noise of a centre that k-means bears, as a share of the length of a feature vector.
    bearable_noise: float = 0.25
    # Records drawn to choose initial centres from, at the least, and per cluster.
    pool: int = 2000
    pool_per_cluster: int = 10
    # Features, however much or little noise there is.
    least_features: float = 50.0
    most_features: float = 400.0


RULES = NetworkRules()
KMEANS = ClusteringRules()


def assumed_mean_length(domain: Domain | None) -> float | None:
    """Items and pixels per record that are assumed if the user states nothing; None for tables, which have none."""
    if domain is None:
        return RULES.items_per_record
    return round(float(_guess(domain, RULES).sum()), 6) or None


def start_frequencies(
    domain: Domain, mean_length: float | None, rules: NetworkRules = RULES
) -> NDArray[np.float64]:
    """Public frequencies of all positions that add up to a stated mean length; equal ones within a column."""
    frequencies = _guess(domain, rules)
    if mean_length is not None:
        frequencies *= mean_length / max(float(frequencies.sum()), 1e-12)
    for column in domain.table_columns:
        frequencies[column] = 1 / (column.stop - column.start)
    return np.minimum(frequencies, MOST_FREQUENT)


def _guess(domain: Domain, rules: NetworkRules) -> NDArray[np.float64]:
    """Frequency of every item and pixel before anything is known; 0 in columns."""
    guess = np.zeros(domain.width)
    for field, start in zip(domain.fields, domain.offsets, strict=True):
        if field.kind == "image":
            guess[start : start + field.width] = rules.pixels_on
        elif field.kind == "items":
            guess[start : start + field.width] = min(rules.items_per_record / field.width, MOST_FREQUENT)
    return guess


@dataclass(frozen=True)
class NetworkSettings(FamilySettings):
    """Sizes of the networks, and how they are clustered and trained."""

    clusters: int = 1
    cluster_steps: int = 8
    features: int = 200
    hidden: tuple[int, ...] = (RULES.hidden,)
    latent: int = RULES.latent
    sampling_rate: float = RULES.least_rate
    steps: int = 2000
    learning_rate: float = RULES.learning_rate
    schedule: Literal["cosine", "constant"] = "cosine"
    optimizer: Literal["adam", "sgd"] = "adam"
    averaged_tail: float = 0.5
    norm_quantile: float | None = RULES.norm_quantile  # None: the mode of the histogram, as in the paper
    warm_start: bool = True
    calibrate: bool = True
    rules: NetworkRules = RULES
    products: ProductRules = PRODUCT_RULES  # of the statistics that networks start from and are refined to
    images: ImageSettings | None = None  # statistics of images that networks start from; one network per label then
    mean_length: float | None = None  # stated, public; biases start from it where no profile is released

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


def settings_of(plan: FitPlan) -> NetworkSettings:
    """The settings of a plan that trains networks."""
    family = plan.settings.family
    if not isinstance(family, NetworkSettings):
        raise UsageError("the plan trains no networks; make it again with model vae or rbm.")
    return family
