"""Private k-means: equal to Lloyd's algorithm without noise, and the privacy proof executed on it."""

import warnings
from functools import partial

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.exceptions import ConvergenceWarning

from dpgm.data.domain import Categorical, Domain, ItemSet
from dpgm.data.records import Records
from dpgm.errors import UsageError
from dpgm.mechanisms.gateway import Gateway
from dpgm.mechanisms.randomness import SeededRandomness
from dpgm.networks.kernel_kmeans import (
    CenterUpdate,
    Clustering,
    count_and_sum,
    default_features,
    initial_centers,
    merge_clusters,
    private_kmeans,
)
from dpgm.privacy.events import Mechanism
from dpgm.statistics.fourier_features import FourierFeatures, IdentityFeatures
from dpgm.testing import assert_bounded, assert_noise_law, assert_playback_invariant, sensitivity_ratios

WIDTH = 30
DOMAIN = Domain.of_items(WIDTH)


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def grouped_records(rows=600, seed=0):
    """Three kinds of record, each with its own third of the items."""
    rng = np.random.default_rng(seed)
    kind = rng.integers(0, 3, rows)
    likes = np.full((3, WIDTH), 0.05)
    for each in range(3):
        likes[each, 10 * each : 10 * each + 10] = 0.5
    return Records.from_dense(rng.random((rows, WIDTH)) < likes[kind], DOMAIN)


def fourier(features=40, seed=0, **options):
    return FourierFeatures.draw(WIDTH, features, 0.08, generator=generator(seed), **options)


def start(clusters, feature_map, seed=0):
    profile = torch.full((WIDTH,), 0.2)
    return initial_centers(profile, clusters, feature_map, domain=DOMAIN, generator=generator(seed))


def cluster(gateway, feature_map, clusters=None, steps=4, noise=0.0, initial=None, **options):
    initial = start(clusters or 3, feature_map) if initial is None else initial
    options["clusters"] = clusters
    return private_kmeans(gateway, initial, feature_map, steps, noise, noise, generator=generator(5), **options)


def live(records, seed=0, **options):
    return Gateway(records, randomness=SeededRandomness(seed), **options)


def run_of(feature_map, clusters=3, steps=3, noise=4.0):
    return lambda gateway: cluster(gateway, feature_map, clusters, steps, noise)


# -- Lloyd ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("memory_limit", [0, 1 << 30], ids=["streamed", "cached"])
@pytest.mark.parametrize("feature_map", [fourier(), fourier(phase=True), IdentityFeatures(WIDTH)])
def test_without_noise_it_is_lloyds_algorithm(feature_map, memory_limit):
    from sklearn.cluster import KMeans

    records = grouped_records()
    values = feature_map.quantised(records).numpy() * feature_map.grid
    # Away from the records themselves, so that no record is equally near to two centres.
    nudges = torch.rand(4, values.shape[1], generator=generator(), dtype=torch.float64)
    initial = torch.from_numpy(values[[0, 1, 2, 3]]) * 0.6 + 0.3 * nudges * feature_map.box[1]
    for steps in (1, 3, 30):
        ours = cluster(live(records), feature_map, steps=steps, initial=initial, memory_limit=memory_limit)
        oracle = KMeans(4, init=initial.numpy(), n_init=1, max_iter=steps, tol=0.0, algorithm="lloyd")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            oracle.fit(values)
        assert np.abs(ours.centers.numpy() - oracle.cluster_centers_).max() < 1e-9
        assert np.array_equal(ours.predict(records), oracle.labels_)
    assert np.array_equal(ours.noisy_counts.numpy(), np.bincount(oracle.labels_))  # after convergence


def test_cached_and_streamed_give_the_same_bits():
    records = grouped_records(3000)
    feature_map = fourier(features=400)  # several chunks
    one, other = (cluster(live(records), feature_map, noise=3.0, memory_limit=limit) for limit in (0, 1 << 30))
    assert torch.equal(one.centers, other.centers)
    assert torch.equal(one.noisy_counts, other.noisy_counts)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_a_cuda_device_gives_the_same_bits():
    records = grouped_records(2000)
    for feature_map in (fourier(), fourier(phase=True), IdentityFeatures(WIDTH)):
        for limit in (0, 1 << 30):
            here = cluster(live(records), feature_map, clusters=5, noise=3.0, memory_limit=limit)
            there = cluster(live(records), feature_map, clusters=5, noise=3.0, memory_limit=limit, device="cuda")
            assert torch.equal(here.centers, there.centers)
            assert np.array_equal(here.predict(records), here.predict(records, "cuda"))


def test_the_order_of_rows_does_not_matter():
    records = grouped_records(1000)
    shuffled = records.take(np.random.default_rng(0).permutation(len(records)))
    one, other = (cluster(live(rows), fourier(), noise=3.0) for rows in (records, shuffled))
    assert torch.equal(one.centers, other.centers)


@pytest.mark.parametrize("clusters", [1, 3, 7])
@pytest.mark.parametrize("feature_map", [fourier(), IdentityFeatures(WIDTH)])
def test_every_record_is_in_exactly_one_cluster(feature_map, clusters):
    records = grouped_records(200)
    centers = start(clusters, feature_map)
    counts, sums = count_and_sum(records, centers, feature_map)
    chosen = Clustering(centers, counts, feature_map).predict(records)
    assert np.array_equal(counts.numpy(), np.bincount(chosen, minlength=clusters))
    assert torch.equal(sums.sum(dim=0), feature_map.quantised(records).long().sum(dim=0))
    values = feature_map.quantised(records).double() * feature_map.grid
    distances = torch.cdist(values, centers)
    assert (distances.gather(1, torch.from_numpy(chosen)[:, None])[:, 0] - distances.min(dim=1).values).max() < 1e-3


def test_scores_stay_exact_on_very_wide_records():
    width = 70_000
    wide = Records.from_lists([list(range(width)), [0, 1], []], Domain((ItemSet("items", tuple(range(width))),)))
    centers = torch.stack([torch.ones(width), torch.zeros(width)]).double()
    clustering = Clustering(centers, torch.ones(2), IdentityFeatures(width))
    assert clustering.predict(wide).tolist() == [0, 1, 1]


# -- privacy -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("feature_map", [fourier(), fourier(phase=True), IdentityFeatures(WIDTH)])
def test_centres_depend_on_noisy_values_only(feature_map):
    run = run_of(feature_map)
    assert_playback_invariant(run, [grouped_records(100), grouped_records(17, seed=1), grouped_records(3, seed=2)])


@settings(max_examples=40, deadline=None)
@given(rows=st.integers(0, 20), extra=st.sets(st.integers(0, WIDTH - 1)), seed=st.integers(0, 99))
def test_one_record_moves_counts_and_sums_by_at_most_their_sensitivity(rows, extra, seed):
    added = Records.from_lists([sorted(extra)], DOMAIN)
    run = run_of(fourier(seed=seed), clusters=1 + seed % 5)
    ratios = sensitivity_ratios(run, grouped_records(rows, seed), added, seed=seed)
    assert ratios["cluster counts"] == 1.0
    assert 0.99 <= ratios["cluster sums"] <= 1.0


def test_a_full_record_reaches_the_bound_of_the_identity_map():
    full = Records.from_lists([list(range(WIDTH))], DOMAIN)
    assert assert_bounded(run_of(IdentityFeatures(WIDTH)), grouped_records(50), full) == 1.0


def test_the_phase_map_keeps_its_bound():
    full = Records.from_lists([list(range(WIDTH))], DOMAIN)
    assert_bounded(run_of(fourier(phase=True)), grouped_records(50), full)


def test_the_noise_has_the_declared_law():
    ratios = assert_noise_law(run_of(fourier(features=100), steps=4, noise=3.0), grouped_records(50), runs=3)
    assert set(ratios) == {"cluster counts", "cluster sums"}


def test_what_ran_is_what_the_plan_paid_for():
    plan = [Mechanism("cluster counts", 2.0, 3), Mechanism("cluster sums", 5.0, 3)]
    gateway = live(grouped_records(50), allowance=plan)
    private_kmeans(gateway, start(3, fourier()), fourier(), 3, 2.0, 5.0, generator=generator())
    assert list(gateway.spent) == plan
    gateway.assert_complete()


# -- edge cases --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rows", "clusters"),
    [
        ([[0], [1], [0, 1]], 1),
        ([[0, 1], [2], [0, 1], [2]], 5),  # more clusters than distinct records
        ([[3, 4]], 3),  # one record
        ([[], [], []], 2),  # no items
        ([], 2),  # no record
        ([[0]] * 10 + [[]] * 10, 8),  # most clusters are empty at every iteration
    ],
)
@pytest.mark.parametrize("noise", [0.0, 2.0])
@pytest.mark.parametrize("feature_map", [fourier(features=6), IdentityFeatures(WIDTH)])
def test_small_and_odd_data_work(rows, clusters, noise, feature_map):
    records = Records.from_lists(rows, DOMAIN)
    found = cluster(live(records), feature_map, clusters=clusters, steps=3, noise=noise)
    assert 1 <= len(found.centers) <= clusters
    assert len(found.noisy_counts) == len(found.centers)
    assert bool(torch.isfinite(found.centers).all())
    assert bool((found.noisy_counts >= 1).all())
    chosen = found.predict(records)
    assert len(chosen) == len(records)
    assert all(0 <= each < len(found.centers) for each in chosen)


@pytest.mark.parametrize("noise", [0.0, 2.0])
def test_a_domain_of_one_item_works(noise):
    records = Records.from_lists([[0], [], [0], []], Domain.of_items(1))
    for feature_map in (FourierFeatures.draw(1, 2, 1.0, generator=generator()), IdentityFeatures(1)):
        initial = initial_centers(records, 2, feature_map, domain=records.domain, generator=generator())
        found = cluster(live(records), feature_map, noise=noise, initial=initial)
        assert len(found.predict(records)) == 4


def test_without_noise_distinct_records_end_in_clusters_of_their_own():
    records = Records.from_lists([[0, 1]] * 5 + [[20, 21]] * 5, DOMAIN)
    feature_map = fourier()
    initial = start(1, feature_map).repeat(4, 1)  # four equal centres: three clusters are empty and re-seeded
    found = cluster(live(records), feature_map, steps=8, initial=initial)
    chosen = found.predict(records)
    assert len(set(chosen[:5])) == len(set(chosen[5:])) == 1
    assert chosen[0] != chosen[9]
    assert sorted(found.noisy_counts.tolist()) == [5, 5]


def test_shrinking_brings_noisy_centres_nearer_to_the_true_ones():
    records, feature_map, noise = grouped_records(300), fourier(features=100), 12.0
    truth = cluster(live(records), feature_map, steps=1).centers
    errors = {}
    for shrink in (True, False):
        fits = (
            cluster(live(records, seed), feature_map, steps=1, noise=noise, shrink=shrink) for seed in range(20)
        )
        errors[shrink] = np.mean([float((fit.centers - truth).norm()) for fit in fits if len(fit.centers) == 3])
    assert errors[True] < 0.8 * errors[False]


def test_heavy_noise_leaves_at_least_one_cluster():
    found = cluster(live(grouped_records(20)), fourier(), clusters=10, noise=1e6)
    assert len(found.centers) >= 1
    assert bool((found.centers.norm(dim=1) <= 1 + 1e-9).all())


def test_centres_of_another_shape_are_refused():
    with pytest.raises(UsageError, match="initial_centers"):
        cluster(live(grouped_records(5)), fourier(), initial=torch.zeros(3, 7))
    with pytest.raises(UsageError, match="cluster_steps"):
        cluster(live(grouped_records(5)), fourier(), steps=0)


def test_the_number_of_features_falls_with_noise():
    assert default_features(60_000, 10, 30.0) == 400
    assert default_features(60_000, 10, 150.0) == 100
    assert default_features(1_000, 10, 150.0) == 50


# -- initial centres -------------------------------------------------------------------------------------------------


def test_initial_centres_are_spread_out_draws_of_the_profile():
    feature_map = IdentityFeatures(WIDTH)
    profile = torch.zeros(WIDTH)
    profile[:4] = 0.5
    centers = initial_centers(profile, 5, feature_map, domain=DOMAIN, generator=generator())
    assert bool((centers[:, 4:] == 0).all())
    assert len(torch.unique(centers, dim=0)) == 5


def test_initial_centres_respect_fields_that_take_one_value():
    domain = Domain((Categorical("colour", ("red", "green", "blue")), ItemSet("items", (1, 2))))
    profile = torch.tensor([0.2, -0.1, 0.7, 1.4, float("nan")])
    centers = initial_centers(profile, 6, IdentityFeatures(5), domain=domain, generator=generator())
    assert bool((centers[:, :3].sum(dim=1) == 1).all())
    assert bool((centers[:, 1] == 0).all())
    assert bool((centers[:, 3] == 1).all())
    assert bool((centers[:, 4] == 0).all())


def test_public_records_must_exist_and_profiles_must_fit():
    with pytest.raises(UsageError):
        initial_centers(grouped_records(5).rows(0, 0), 2, fourier(), domain=DOMAIN, generator=generator())
    with pytest.raises(UsageError):
        initial_centers(torch.ones(3), 2, fourier(), domain=DOMAIN, generator=generator())


# -- more centres than clusters ----------------------------------------------------------------------------------------


def objective(clustering, records):
    """Mean squared distance of the records from their centres."""
    values = clustering.feature_map.quantised(records).double() * clustering.feature_map.grid
    return float((torch.cdist(values, clustering.centers).min(dim=1).values ** 2).mean())


def test_merging_agrees_with_wards_linkage():
    from scipy.cluster.hierarchy import fcluster, ward

    points = np.random.default_rng(0).normal(size=(40, 3))
    for clusters in (1, 2, 7, 40, 50):
        merged, sizes = merge_clusters(torch.from_numpy(points), torch.ones(40, dtype=torch.float64), clusters)
        label = fcluster(ward(points), clusters, "maxclust")
        means = np.stack([points[label == each].mean(axis=0) for each in np.unique(label)])
        order = merged[:, 0].argsort()
        assert np.allclose(merged[order].numpy(), means[means[:, 0].argsort()])
        assert sizes[order].tolist() == np.unique(label, return_counts=True)[1][means[:, 0].argsort()].tolist()


def test_small_clusters_are_merged_first_and_hardly_count():
    centers = torch.tensor([[0.0], [10.0], [13.0], [30.0]], dtype=torch.float64)
    update = CenterUpdate(IdentityFeatures(1), count_noise=20.0, sum_noise=1.0)
    sizes = update.sizes(torch.tensor([1000.0, -30.0, 1000.0, 1000.0], dtype=torch.float64))
    assert sizes.tolist() == [1000, 1, 1000, 1000]
    assert merge_clusters(centers, sizes, 3)[0].flatten().tolist() == pytest.approx([0, 13, 30], abs=0.01)


def test_starting_with_more_centres_finds_a_better_optimum():
    records, feature_map = grouped_records(900), fourier(features=60)
    plain, merged = [], []
    for seed in range(12):
        initial = start(6, feature_map, seed)
        plain.append(objective(cluster(live(records), feature_map, initial=initial[:3], steps=10), records))
        found = cluster(live(records), feature_map, initial=initial, clusters=3, steps=10)
        assert len(found.centers) == 3
        merged.append(objective(found, records))
    assert np.mean(merged) < np.mean(plain)
    assert max(merged) < min(merged) * 1.02  # the same optimum from every start


@pytest.mark.parametrize(
    ("steps", "merge_after", "sizes"),
    [(1, None, [6]), (2, None, [6, 3]), (5, None, [6, 6, 3, 3, 3]), (4, 3, [6, 6, 6, 3]), (2, 3, [6, 6])],
)
def test_the_first_half_of_the_iterations_has_every_centre(steps, merge_after, sizes, monkeypatch):
    seen = []
    original = Gateway.release

    def release(gateway, name, query, noise):
        if name == "cluster counts":
            seen.append(query.shape[0])
        return original(gateway, name, query, noise)

    monkeypatch.setattr(Gateway, "release", release)
    initial = start(6, fourier())
    options = {"clusters": 3, "merge_after": merge_after, "noise": 3.0}
    found = cluster(live(grouped_records()), fourier(), initial=initial, steps=steps, **options)
    assert seen == sizes
    assert len(found.centers) == len(found.noisy_counts) == 3
    assert abs(float(found.noisy_counts.sum()) - 600) < 60  # merging loses no records


def test_merged_centres_depend_on_noisy_values_only():
    initial = start(8, fourier())
    run = partial(cluster, feature_map=fourier(), initial=initial, clusters=4, steps=4, noise=4.0)
    assert_playback_invariant(run, [grouped_records(100), grouped_records(17, seed=1), grouped_records(3, seed=2)])
