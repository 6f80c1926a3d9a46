"""The `Synthesizer` as an estimator: parameters, edge cases, certificates, memory."""

import warnings

import numpy as np
import pytest
import torch

import dpgm
from dpgm.data.domain import Domain
from dpgm.data.records import Records
from dpgm.errors import InputError, NotFittedError, PrivacyWarning, UsageError
from dpgm.mechanisms.randomness import SeededRandomness
from dpgm.networks import kernel_kmeans
from synthesis_data import SETS, TABLE, small_plan, some_records, tiny_plan

pytestmark = pytest.mark.usefixtures("short_fits")

RECORDS = some_records(SETS, 300)


def test_the_constructor_stores_and_fit_returns_self():
    synthesizer = dpgm.Synthesizer(epsilon=2.0, clusters=3)
    assert synthesizer.get_params()["clusters"] == 3
    assert synthesizer.set_params(epsilon=1.0) is synthesizer
    assert synthesizer.fit(RECORDS) is synthesizer
    assert synthesizer.epsilon == 1.0
    assert len(synthesizer.sample(40)) == 40


def test_scikit_learn_can_clone_it():
    base = pytest.importorskip("sklearn.base")
    clone = base.clone(dpgm.Synthesizer(epsilon=2.5, model="vae"))
    assert (clone.epsilon, clone.model) == (2.5, "vae")


def test_an_unknown_parameter_is_refused():
    with pytest.raises(UsageError, match="no parameter"):
        dpgm.Synthesizer().set_params(epsilno=1)


def test_unfitted_use_raises_one_clear_error():
    for use in (lambda s: s.sample(1), lambda s: s.save("x"), lambda s: s.release_):
        with pytest.raises(NotFittedError, match="not fitted"):
            use(dpgm.Synthesizer())


def test_the_certificate_lists_what_ran_and_the_release_verifies(tmp_path):
    synthesizer = dpgm.Synthesizer(epsilon=1.0).fit(RECORDS)
    synthesizer.save(tmp_path / "release")
    assert set(synthesizer.certificate_.mechanisms) == set(synthesizer.plan_.mechanisms)
    assert synthesizer.certificate_.epsilon <= 1.0
    assert dpgm.verify(tmp_path / "release").ok
    assert dpgm.load(tmp_path / "release").sample(20, seed=0) == synthesizer.sample(20, seed=0)


def test_wide_sets_pay_for_popular_lengths_and_measure_them(tmp_path):
    wide = Domain.of_items(120)
    records = Records.from_dense(np.random.default_rng(0).random((300, 120)) < 0.05, wide)
    synthesizer = dpgm.Synthesizer(epsilon=1.0).fit(records)
    names = {mechanism.name for mechanism in synthesizer.certificate_.mechanisms}
    assert "popular lengths" in names
    assert "triple counts" not in names
    assert set(synthesizer.certificate_.mechanisms) == set(synthesizer.plan_.mechanisms)
    synthesizer.save(tmp_path / "release")
    assert dpgm.verify(tmp_path / "release").ok


def test_a_seeded_run_is_marked_not_private(tmp_path):
    synthesizer = dpgm.Synthesizer(epsilon=1.0, randomness=SeededRandomness(3)).fit(RECORDS)
    synthesizer.save(tmp_path / "release")
    assert "NOT PRIVATE" in (tmp_path / "release" / "README.md").read_text()
    assert not dpgm.verify(tmp_path / "release").ok


def test_two_fits_share_no_noise():
    first, second = (dpgm.Synthesizer(epsilon=1.0).fit(RECORDS).generator_ for _ in range(2))
    assert not np.array_equal(first.probabilities.numpy(), second.probabilities.numpy())


@pytest.mark.parametrize(
    ("records", "options"),
    [
        pytest.param(some_records(SETS, 1), {"delta": 1e-3}, id="one-record"),
        pytest.param(some_records(SETS, 50), {}, id="fifty-records"),
        pytest.param(Records.from_lists([[0], [], [0]] * 20, Domain.of_items(1)), {}, id="one-item"),
        pytest.param(Records.from_lists([[]] * 60, SETS), {}, id="all-empty"),
        pytest.param(RECORDS, {"epsilon": 0.01}, id="tiny-epsilon"),
        pytest.param(some_records(TABLE, 100), {}, id="mixed-table"),
        pytest.param(some_records(SETS, 80), {"model": "vae", "clusters": 1}, id="one-cluster-vae"),
    ],
)
def test_edge_cases_fit_and_sample(records, options):
    drawn = dpgm.Synthesizer(**({"epsilon": 1.0} | options)).fit(records).sample(30, seed=1)
    assert len(drawn) == 30
    assert drawn.domain == records.domain


def test_a_large_epsilon_is_warned_of_and_works():
    with pytest.warns(PrivacyWarning, match="epsilon"):
        synthesizer = dpgm.Synthesizer(epsilon=100.0).fit(RECORDS)
    assert len(synthesizer.sample(10)) == 10


def test_too_many_clusters_are_warned_of():
    with pytest.warns(PrivacyWarning, match="fewer than ten records"):
        dpgm.make_plan(dpgm.Config(1.0, model="vae", clusters=12), 60, SETS)


def test_memory_objects_of_every_kind_are_accepted():
    dense = RECORDS.to_dense(np.uint8)
    scipy_sparse = pytest.importorskip("scipy.sparse")
    for data in (dense, scipy_sparse.csr_array(dense)):
        assert len(dpgm.Synthesizer(epsilon=1.0).fit(data).sample(5)) == 5
    table = some_records(TABLE, 40)
    for frame in (table.to_pandas(), table.to_polars(), table.to_arrow()):
        assert len(dpgm.Synthesizer(epsilon=1.0, domain=TABLE).fit(frame).sample(5)) == 5
        with pytest.raises(UsageError, match="domain"):
            dpgm.Synthesizer(epsilon=1.0).fit(frame)
    with pytest.raises(UsageError, match="must come from"):
        dpgm.Synthesizer(epsilon=1.0).fit([{"a": 1}])
    with pytest.raises(InputError, match="no such file"):
        dpgm.Synthesizer(epsilon=1.0).fit("a string")


def test_nothing_is_warned_of_in_an_ordinary_fit():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        dpgm.Synthesizer(epsilon=1.0).fit(RECORDS)


def test_a_memory_limit_sizes_the_cache_of_features_and_a_bad_one_is_refused_at_once(monkeypatch):
    limits = []
    cache_features = kernel_kmeans.cache_features

    def watched(records, feature_map, memory_limit, device):
        limits.append(memory_limit)
        return cache_features(records, feature_map, memory_limit, device)

    monkeypatch.setattr(kernel_kmeans, "cache_features", watched)
    records = some_records(SETS, 300)
    plan = tiny_plan("vae", SETS, 300, clusters=2)
    for memory in (None, "8MB"):
        dpgm.Synthesizer(99.0, model="vae", clusters=2, memory=memory, device="cpu").fit(records, plan=plan)
    assert limits == [kernel_kmeans.MEMORY_LIMIT, 2_000_000]
    with pytest.raises(UsageError, match="memory"):
        dpgm.Synthesizer(1.0, memory="plenty")


# -- how torch multiplies matrices ------------------------------------------------------------------------------------


def _precision():
    products = torch.backends.cuda.matmul, torch.backends.mkldnn.matmul
    return [product.fp32_precision for product in products]


@pytest.fixture
def torchs_own_precision():
    yield
    torch.set_float32_matmul_precision("highest")
    for place in (torch.backends, torch.backends.cuda.matmul, torch.backends.mkldnn.matmul):
        place.fp32_precision = "none"


@pytest.mark.parametrize(
    "change",
    [
        lambda: torch.set_float32_matmul_precision("medium"),
        lambda: setattr(torch.backends.cuda.matmul, "allow_tf32", True),
        lambda: setattr(torch.backends, "fp32_precision", "tf32"),
        lambda: setattr(torch.backends.cuda.matmul, "fp32_precision", "tf32"),
        lambda: setattr(torch.backends.mkldnn.matmul, "fp32_precision", "bf16"),
    ],
    ids=["one name", "allow_tf32", "everywhere", "cuda", "cpu"],
)
def test_a_callers_coarse_products_are_not_used_and_come_back(change, torchs_own_precision):
    """A mixture of torch's older and newer settings made a fit fail after it had charged its budget."""
    change()
    before, seen = _precision(), []
    fit = dpgm.Synthesizer(1.0, 1e-4, clusters=1, model="rbm")
    plan = small_plan(fit._config(), RECORDS, steps=2, cluster_steps=1, hidden=(5,), latent=2, features=8)
    fit.fit(RECORDS, plan=plan, progress=lambda *_: seen.append(_precision()))
    assert seen
    assert all(precision == ["ieee", "ieee"] for precision in seen)
    assert _precision() == before


def test_a_fit_whose_products_are_coarse_all_the_same_is_refused_before_it_charges(tmp_path, monkeypatch):
    """As with the variable NVIDIA_TF32_OVERRIDE, which torch cannot undo: TF32 keeps 10 bits."""
    real = torch.mm

    def coarse(left, right, **more):
        return real(*((matrix * 2**13).round() / 2**13 for matrix in (left, right)), **more)

    monkeypatch.setattr(torch, "mm", coarse)
    ledger = dpgm.Ledger.create(tmp_path / "ledger", 3.0, 1e-4)
    with pytest.raises(UsageError, match="more coarsely than float32"):
        dpgm.Synthesizer(1.0, 1e-4).fit(RECORDS, ledger=ledger, checkpoint=tmp_path / "saved")
    assert ledger.entries() == ()
    assert not (tmp_path / "saved").exists()
