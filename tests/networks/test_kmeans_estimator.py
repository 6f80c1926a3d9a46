"""Private kernel k-means as an estimator: clustering, what it releases, misuse; accuracy of clusters."""

import gzip
from itertools import permutations

import numpy as np
import pytest
import torch
from sklearn.metrics import accuracy_score

import dpgm
from dpgm.data.domain import Domain, Image
from dpgm.data.records import Records
from dpgm.errors import NotFittedError, UsageError
from dpgm.mechanisms.randomness import SeededRandomness
from dpgm.privacy.accountant import cost
from dpgm.privacy.calibration import Spend, calibrate
from dpgm.privacy.events import GaussianRelease, Mechanism
from public_data import DATA, needs

DOMAIN = Domain.of_items(12)
MNIST = DATA / "mnist"


def two_kinds(rows=2000, seed=0):
    rng = np.random.default_rng(seed)
    kind = rng.integers(0, 2, rows)
    likes = np.where(np.arange(12) < 6, 0.6, 0.05)
    chosen = rng.random((rows, 12)) < np.where(kind[:, None] == 0, likes, likes[::-1])
    return Records.from_dense(chosen, DOMAIN), kind


@pytest.mark.parametrize("kernel", ["rbf", "laplacian", "linear"])
@pytest.mark.parametrize("profile_noise", [None, 5.0])
def test_two_kinds_of_record_end_in_two_clusters(kernel, profile_noise):
    records, kind = two_kinds()
    model = dpgm.PrivateKernelKMeans(
        2, count_noise=10.0, sum_noise=10.0, kernel=kernel, profile_noise=profile_noise, features=200
    )
    assert model.fit(records, randomness=SeededRandomness(1)) is model
    assert dpgm.clustering_accuracy(kind, model.predict(records)) > 0.9
    assert abs(float(model.noisy_counts_.sum()) - len(records)) < 100
    assert model.centers_.shape[0] == 2


def test_the_event_is_what_was_released():
    records, _ = two_kinds(50)
    model = dpgm.PrivateKernelKMeans(2, count_noise=9.0, sum_noise=4.0, cluster_steps=3, profile_noise=7.0)
    model.fit(records, randomness=SeededRandomness(0))
    assert model.mechanisms_ == (
        Mechanism("item counts", 7.0),
        Mechanism("cluster counts", 9.0, 3),
        Mechanism("cluster sums", 4.0, 3),
    )
    assert model.event_ == (GaussianRelease(7.0, 1), GaussianRelease(9.0, 3), GaussianRelease(4.0, 3))


def test_public_records_and_profiles_cost_nothing():
    records, _ = two_kinds(50)
    for start in ({"public": two_kinds(20, seed=1)[0]}, {"profile": torch.full((12,), 0.3)}, {}):
        model = dpgm.PrivateKernelKMeans(3, count_noise=9.0, sum_noise=4.0, cluster_steps=2)
        model.fit(records, **start, randomness=SeededRandomness(0))
        assert [each.name for each in model.mechanisms_] == ["cluster counts", "cluster sums"]


def test_the_default_source_of_randomness_is_fresh():
    records, _ = two_kinds(50)
    # Counts far above their noise, so that no cluster is dropped; hundreds of noisy sums are not equal by chance.
    model = dpgm.PrivateKernelKMeans(2, count_noise=0.1, sum_noise=4.0, cluster_steps=1)
    start = {"public": two_kinds(20, seed=1)[0]}
    first = model.fit(records, **start).centers_
    assert not torch.equal(first, model.fit(records, **start).centers_)


def test_fitted_attributes_need_a_fit():
    model = dpgm.PrivateKernelKMeans(2, count_noise=9.0, sum_noise=4.0)
    for use in (lambda: model.centers_, lambda: model.event_, lambda: model.predict(two_kinds(5)[0])):
        with pytest.raises(NotFittedError, match="fit"):
            use()


@pytest.mark.parametrize(
    "wrong", [{"clusters": 0}, {"count_noise": 0.0}, {"sum_noise": -1.0}, {"kernel": "rbg"}, {"cluster_steps": 0}]
)
def test_senseless_settings_are_refused(wrong):
    settings = {"clusters": 2, "count_noise": 1.0, "sum_noise": 1.0} | wrong
    with pytest.raises(UsageError):
        dpgm.PrivateKernelKMeans(**settings).fit(two_kinds(5)[0])


def test_public_records_of_another_domain_are_refused():
    other = Records.from_lists([[0]], Domain.of_items(3))
    with pytest.raises(UsageError, match="domain"):
        dpgm.PrivateKernelKMeans(2, count_noise=1.0, sum_noise=1.0).fit(two_kinds(5)[0], public=other)


def test_clusters_of_the_private_records_are_not_stored():
    records, _ = two_kinds(300)
    model = dpgm.PrivateKernelKMeans(2, count_noise=9.0, sum_noise=4.0).fit(records, randomness=SeededRandomness(0))
    sizes = [
        np.size(value) for value in vars(model).values() if isinstance(value, (np.ndarray, torch.Tensor, list))
    ]
    assert all(size < 300 for size in sizes)
    assert not hasattr(model, "labels_")


@pytest.mark.slow
@needs("mnist")
def test_mnist_digits_are_clustered_at_epsilon_one_half():
    images = np.frombuffer(
        gzip.decompress((MNIST / "train-images-idx3-ubyte.gz").read_bytes()), np.uint8, offset=16
    )
    labels = np.frombuffer(gzip.decompress((MNIST / "train-labels-idx1-ubyte.gz").read_bytes()), np.uint8, offset=8)
    records = Records.from_dense(images.reshape(-1, 784) > 127, Domain((Image("image", 28, 28),)))
    shares = [Spend("item counts", 0.05), Spend("cluster counts", 0.19, 20), Spend("cluster sums", 0.76, 20)]
    mechanisms = calibrate(0.5, 1e-5, shares)
    profile_noise, count_noise, sum_noise = (each.noise for each in mechanisms)
    scores = []
    for seed in range(3):
        model = dpgm.PrivateKernelKMeans(
            10, count_noise=count_noise, sum_noise=sum_noise, cluster_steps=20, profile_noise=profile_noise
        )
        model.fit(records, randomness=SeededRandomness(seed))
        assert cost(model.mechanisms_, 1e-5).epsilon <= 0.5
        scores.append(dpgm.clustering_accuracy(labels, model.predict(records)))
    assert np.mean(scores) >= 0.40


# -- accuracy of clusters given labels ---------------------------------------------------------------------------------


def test_names_of_clusters_do_not_matter():
    labels = np.array([3, 3, 5, 5, 9])
    assert dpgm.clustering_accuracy(labels, np.array([9, 9, 3, 3, 5])) == 1.0


def test_the_matching_is_one_to_one():
    assert dpgm.clustering_accuracy([0, 0, 1, 1], [7, 7, 7, 7]) == 0.5
    assert dpgm.clustering_accuracy([0, 0, 0, 0], [1, 2, 3, 3]) == 0.5


def test_the_best_matching_is_found_among_all_of_them():
    rng = np.random.default_rng(0)
    labels, clusters = rng.integers(0, 4, 200), rng.integers(0, 4, 200)
    best = max(accuracy_score(labels, np.array(order)[clusters]) for order in permutations(range(4)))
    assert dpgm.clustering_accuracy(labels, clusters) == pytest.approx(best)


@pytest.mark.parametrize(("labels", "clusters"), [([], []), ([1, 2], [1]), ([[1], [2]], [[1], [2]])])
def test_unequal_or_empty_lists_are_refused(labels, clusters):
    with pytest.raises(UsageError):
        dpgm.clustering_accuracy(labels, clusters)
