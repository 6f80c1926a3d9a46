"""Private kernel k-means with the interface of a scikit-learn estimator, and the accuracy of clusters given labels."""

from dataclasses import KW_ONLY, dataclass
from typing import Literal

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from dpgm.data.domain import Domain
from dpgm.data.records import Records
from dpgm.errors import NotFittedError, UsageError
from dpgm.kernels import parallel
from dpgm.mechanisms.gateway import Gateway
from dpgm.mechanisms.randomness import Randomness, SystemRandomness
from dpgm.networks.kernel_kmeans import (
    MEMORY_LIMIT,
    Clustering,
    default_features,
    initial_centers,
    private_kmeans,
)
from dpgm.networks.rules import CLUSTERING_RULES
from dpgm.privacy.events import Event, Mechanism, events_of
from dpgm.statistics.fourier_features import FeatureMap, FourierFeatures, IdentityFeatures, expected_profile
from dpgm.statistics.item_counts import ItemCounts
from dpgm.validation import one_of, positive, whole

LENGTH_FACTOR = 2.0  # records longer than this multiple of the expected length are weighted down in the profile


@dataclass(eq=False, repr=False)
class PrivateKernelKMeans:
    """Differentially private kernel k-means on random Fourier features (Algorithm 2 of the paper, corrected).

    Args:
        clusters: k.
        count_noise: multiplier of the noise on cluster counts, in each iteration.
        sum_noise: multiplier of the noise on sums of features, in each iteration.
        cluster_steps: iterations.
        features: d, even; more approximate the kernel better and carry more noise. None takes `default_features`.
        gamma: width of the kernel, a public number; None takes `default_gamma` of the domain and profile.
        kernel: "rbf" or "laplacian", or "linear" for the standard private k-means on the records themselves.
        phase: the paper's cos(Wx + b) instead of cosine and sine pairs.
        profile_noise: multiplier of one release of item counts, to draw the initial centres from; None starts
            from public records or a public profile, else from the guess `expected_profile`, which costs nothing.
        starts: initial centres per cluster. With more than one, the first half of the iterations runs with all of them;
            then the nearest are merged, so that the result depends less on the start. 1 is the paper's algorithm.
        shrink: shrink centres by the expected noise; False is the paper's update.
        memory_limit: bytes of features to cache; above it they are recomputed in every iteration.
        device: "cpu" or a CUDA device.

    Attributes:
        centers_: (k, d) released centres; fewer than k if clusters were dropped as too small.
        noisy_counts_: (k,) released sizes.
        mechanisms_: what was released, by name, multiplier and count.
        event_: the same as events for `dpgm.privacy.accountant`.
        clustering_: centres, counts and feature map together.

    Privacy:
        Add/remove one record. Each iteration releases k counts (sensitivity 1) and k sums (sensitivity 1, or
        sqrt(m) with the linear kernel): mu^2 = cluster_steps (1 / count_noise^2 + 1 / sum_noise^2), plus
        1 / profile_noise^2 where a profile is released. The number of records is treated as public. The clusters of
        the private records are not stored.

    >>> from dpgm.mechanisms.randomness import SeededRandomness
    >>> records = Records.from_lists([[0, 1]] * 500 + [[4, 5]] * 500, Domain.of_items(6))
    >>> model = PrivateKernelKMeans(2, count_noise=5.0, sum_noise=5.0, cluster_steps=5, features=20)
    >>> first, *_, last = model.fit(records, randomness=SeededRandomness(0)).predict(records)
    >>> bool(first != last), model.event_
    (True, (GaussianRelease(noise=5.0, count=5), GaussianRelease(noise=5.0, count=5)))
    """

    clusters: int
    _: KW_ONLY
    count_noise: float
    sum_noise: float
    cluster_steps: int = 10
    features: int | None = None
    gamma: float | None = None
    kernel: Literal["rbf", "laplacian", "linear"] = "rbf"
    phase: bool = False
    profile_noise: float | None = None
    starts: int = CLUSTERING_RULES.starts
    shrink: bool = True
    memory_limit: int = MEMORY_LIMIT
    device: str = "cpu"

    def fit(
        self,
        records: Records,
        public: Records | None = None,
        profile: Tensor | None = None,
        randomness: Randomness | None = None,
    ) -> "PrivateKernelKMeans":
        """Cluster private records; initial centres come from `public` records or a public `profile` if given.

        Args:
            records: the private rows (of this rank).
            public: public records of the same domain.
            profile: (m,) public or already released item frequencies.
            randomness: source of noise and public draws; the operating system's by default.
        """
        whole(at_least=1, clusters=self.clusters, cluster_steps=self.cluster_steps, starts=self.starts)
        positive(count_noise=self.count_noise, sum_noise=self.sum_noise)
        one_of(("rbf", "laplacian", "linear"), kernel=self.kernel)
        if public is not None and public.domain != records.domain:
            raise UsageError("the public records have another domain than the private ones; use one domain file.")
        source = SystemRandomness() if randomness is None else randomness
        gateway = Gateway(records, randomness=source)
        generator = source.draws()
        rows = parallel.total_rows(len(records))  # public
        if public is None and profile is None and self.profile_noise is not None:
            profile = _noisy_profile(gateway, records.domain, rows, self.profile_noise)
        feature_map = self._feature_map(records.domain, rows, profile, generator)
        start: Records | Tensor | None = profile if public is None else public
        if start is None:
            start = expected_profile(records.domain)
        count = self.starts * self.clusters
        centers = initial_centers(start, count, feature_map, domain=records.domain, generator=generator)
        self.clustering_ = private_kmeans(
            gateway,
            centers,
            feature_map,
            self.cluster_steps,
            self.count_noise,
            self.sum_noise,
            generator=generator,
            clusters=self.clusters,
            shrink=self.shrink,
            memory_limit=self.memory_limit,
            device=self.device,
        )
        self.mechanisms_: tuple[Mechanism, ...] = gateway.spent
        return self

    def predict(self, records: Records) -> NDArray[np.int64]:
        """The cluster of every record; private if the records are."""
        return self._fitted.predict(records, self.device)

    @property
    def centers_(self) -> Tensor:
        """Released centres, (k, d)."""
        return self._fitted.centers

    @property
    def noisy_counts_(self) -> Tensor:
        """Released sizes, (k,)."""
        return self._fitted.noisy_counts

    @property
    def event_(self) -> tuple[Event, ...]:
        """What the fit released, as events for the accountant."""
        _ = self._fitted  # raises NotFittedError
        return events_of(self.mechanisms_)

    @property
    def _fitted(self) -> Clustering:
        clustering: Clustering | None = self.__dict__.get("clustering_")
        if clustering is None:
            raise NotFittedError("this PrivateKernelKMeans has not been fitted; call `fit` first.")
        return clustering

    def _feature_map(
        self, domain: Domain, rows: int, profile: Tensor | None, generator: torch.Generator
    ) -> FeatureMap:
        if self.kernel == "linear":
            return IdentityFeatures(domain.width)
        allowed = default_features(rows, self.clusters, self.sum_noise)
        return FourierFeatures.for_domain(
            domain,
            allowed if self.features is None else self.features,
            generator=generator,
            gamma=self.gamma,
            profile=profile,
            kernel=self.kernel,
            phase=self.phase,
        )


def _noisy_profile(gateway: Gateway, domain: Domain, rows: int, profile_noise: float) -> Tensor:
    """Item frequencies from one noisy release "item counts"; `rows` is the public number of records."""
    expected = float(expected_profile(domain).sum())
    length_bound = max(1, min(domain.width, round(LENGTH_FACTOR * expected)))
    counts = gateway.release("item counts", ItemCounts(domain, length_bound).query(), profile_noise)
    return counts.double() / max(1, rows)


def clustering_accuracy(labels: ArrayLike, clusters: ArrayLike) -> float:
    """The share of records whose cluster is matched to their label, under the best one-to-one matching.

    Computed on true labels, hence not private.

    >>> clustering_accuracy([0, 0, 1, 1, 2], [1, 1, 0, 0, 0])
    0.8

    Args:
        labels: (N,) true label of every record.
        clusters: (N,) cluster of every record; may have more or fewer values than labels.
    """
    from scipy.optimize import linear_sum_assignment

    label_names, label_numbers = np.unique(np.asarray(labels), return_inverse=True)
    cluster_names, cluster_numbers = np.unique(np.asarray(clusters), return_inverse=True)
    if label_numbers.shape != cluster_numbers.shape or label_numbers.ndim != 1:
        raise UsageError("`labels` and `clusters` must be lists of equal length, one entry per record.")
    if len(label_numbers) == 0:
        raise UsageError("there are no records to match; `labels` is empty.")
    table = np.zeros((len(cluster_names), len(label_names)), dtype=np.int64)
    np.add.at(table, (cluster_numbers, label_numbers), 1)
    matched = linear_sum_assignment(table, maximize=True)
    return float(table[matched].sum() / len(label_numbers))
