"""Private SGD: equal to plain training without noise, and the privacy proof executed on it."""

import numpy as np
import pytest
import torch

from dpgm.data.domain import Domain
from dpgm.data.records import Records, concatenate
from dpgm.errors import ArtefactError, UsageError
from dpgm.mechanisms.gateway import Gateway, PlaybackGateway, TraceGateway
from dpgm.mechanisms.norm_bound import norm_edges
from dpgm.mechanisms.query import View
from dpgm.mechanisms.randomness import SeededRandomness, SystemRandomness
from dpgm.networks.batch import Factor
from dpgm.networks.optimizer import OptimizerSettings
from dpgm.networks.private_sgd import GradientPass, Trainer, TrainingSettings
from dpgm.networks.rbm import RBM
from dpgm.networks.sampled_batches import SegmentedBatches, TiledBatches, arrange
from dpgm.networks.vae import VAE
from dpgm.testing import (
    assert_bounded,
    assert_coin_off,
    assert_noise_law,
    assert_playback_invariant,
    sensitivity_ratios,
)
from model_references import MIXED, SETS, random_records, vae_loss
from toy_network import Logits
from training_on_cuda import clipped_norms

PLAIN = OptimizerSettings(learning_rate=0.01, schedule="constant", averaged_tail=0.0)


class Poisoned(Logits):
    """Records with item 0 have a gradient that is not a number, those with item 1 an infinite one."""

    def factors(self, batch):
        (factor,) = super().factors(batch)
        records = batch.dense()
        factor.delta[records[..., 0] > 0] = torch.nan
        factor.delta[records[..., 1] > 0] = torch.inf
        return [Factor(factor.block, factor.activation, factor.delta)]


MODELS = {
    "vae": lambda domain: VAE(domain, (9, 5), 2),
    "rbm": lambda domain: RBM(domain, 7, chains=3),
    "toy": Logits,
}


def pass_of(kind, model, parameters, **options):
    return GradientPass(model, parameters, norm_edges(24), kind(model, parameters, **options))


def settings(**changes):
    values = {"steps": 4, "sampling_rate": 0.5, "norm_noise": 1.0, "gradient_noise": 1.0, "records": 60}
    return TrainingSettings(**(values | {"optimizer": OptimizerSettings()} | changes))


def trainer_of(gateway, model, plan, clusters=1, **options):
    generator = torch.Generator().manual_seed(0)
    return Trainer(gateway, model, plan, clusters=clusters, generator=generator, **options)


def train(gateway, model, plan, clusters=1):
    """A whole training."""
    trainer = trainer_of(gateway, model, plan, clusters)
    trainer.run()
    return trainer.mixture()


def by_length(records: Records) -> np.ndarray:
    """A routing of records to three models, of which the last is never used."""
    return (records.lengths % 2).astype(np.int64)


def latent_of(step, rows, width):
    """Latent draws that depend on the step and the row number only."""
    return np.random.default_rng([3, step]).standard_normal((1000, width))[rows]


def of_rows(rows, out):
    out.copy_(torch.from_numpy(latent_of(0, rows, out.shape[1])))


def run_of(make, domain, *, clusters=3, seed=5, **changes):
    """A function of the gateway that trains and returns all of its results, including internal state."""

    def run(gateway):
        gateway.keep("clusters", by_length)
        generator = torch.Generator().manual_seed(seed)
        trainer = Trainer(gateway, make(domain), settings(**changes), clusters=clusters, generator=generator)
        # A few sweeps may forget where chains started, so the start is part of the results.
        start = None if trainer.chains is None else trainer.chains.clone()
        trainer.run()
        return {"chains at the start": start, "state": trainer.state(), "parameters": trainer.parameters,
                "generator": generator, "chain generator": trainer._chain_generator}  # fmt: skip

    return run


# -- the proof, executed ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("domain", [SETS, MIXED], ids=["sets", "every field type"])
def test_everything_trained_is_a_function_of_the_noisy_values(name, domain):
    data = [random_records(domain, n, seed=n) for n in (60, 5, 200)]
    assert_playback_invariant(run_of(MODELS[name], domain), data, tapes=2)


@pytest.mark.parametrize("name", MODELS)
def test_one_record_moves_every_release_by_at_most_its_sensitivity(name):
    records = random_records(SETS, 40)
    full = Records.from_lists([list(range(23))], SETS)
    empty = Records.from_lists([[]], SETS)
    run = run_of(MODELS[name], SETS)
    for extra in (full, empty, random_records(SETS, 2, seed=9).rows(1, 2)):
        assert_bounded(run, records, extra, rounding=1e-6)
        assert_coin_off(run, records, extra)


@pytest.mark.parametrize("name", MODELS)
def test_the_bound_on_one_record_is_reached(name):
    run = run_of(MODELS[name], SETS, norm_noise=None, norm_bound=0.01, clusters=1)
    ratios = sensitivity_ratios(run, random_records(SETS, 5), Records.from_lists([[1, 2, 3]], SETS), rounding=1e-6)
    assert 0.99 <= ratios["gradients"] <= 1 + 1e-6
    run = run_of(MODELS[name], SETS)
    ratios = sensitivity_ratios(run, random_records(SETS, 5), Records.from_lists([[1, 2, 3]], SETS))
    assert ratios["norms"] == 1.0


def test_noise_is_on_every_model_also_on_those_without_records():
    records = random_records(SETS, 50)
    run = run_of(MODELS["vae"], SETS, steps=6)
    ratios = assert_noise_law(run, records, blocks={"gradients": 3}, least=1000)
    assert abs(ratios["gradients"] - 1) < 0.05
    gateway = TraceGateway(records.rows(0, 0), randomness=SeededRandomness(1))
    before = run_of(MODELS["vae"], SETS, steps=1)(gateway)["parameters"]
    assert torch.all(gateway.exact[1] == 0)
    assert torch.all(gateway.tape[1].abs().sum(1) > 0)
    assert torch.isfinite(before).all()


def test_records_with_a_gradient_that_is_not_finite_contribute_nothing():
    domain = Domain.of_items(5)
    good = random_records(domain, 30, seed=2)
    good = good.take(np.flatnonzero(good.to_dense()[:, :2].sum(1) == 0))
    bad = Records.from_lists([[0, 3], [1], [0, 1, 2]], domain)
    sums = []
    for records in (good, concatenate([good, bad])):
        gateway = TraceGateway(records, randomness=SeededRandomness(0))
        run_of(Poisoned, domain, clusters=1, sampling_rate=1.0, steps=1)(gateway)
        sums.append(gateway.exact)
    assert torch.equal(sums[0][0], sums[1][0])
    assert torch.allclose(sums[0][1], sums[1][1], atol=1e-6)
    assert float(sums[0][1].abs().sum()) > 0
    assert_bounded(run_of(Poisoned, domain, clusters=1), good, bad.rows(0, 1), rounding=1e-6)


@pytest.mark.parametrize("kind", [SegmentedBatches, TiledBatches])
@pytest.mark.parametrize("clusters", [1, 2])
def test_a_record_that_is_not_finite_leaves_the_others_as_they_are(kind, clusters):
    model = VAE(Domain.of_items(5), (4,), 2)
    parameters = model.initial(clusters, generator=torch.Generator().manual_seed(0))
    model.layout.weight(parameters, model.layout.blocks[0])[:, 0] = 3e38  # records with item 0 overflow
    records = Records.from_lists([[i % 4 + 1] if i % 3 else [0, 2] for i in range(30)], model.domain)
    routed = {"clusters": np.arange(30) % clusters}
    usable = np.flatnonzero(records.to_dense()[:, 0] == 0)
    options = {"expected": 30.0} if kind is TiledBatches else {}
    reference, gradient_pass = (pass_of(kind, model, parameters, **options) for _ in range(2))
    # The same records at the same steps, with and without those that overflow; then other records in their places.
    for step, sample in enumerate((np.arange(30), usable, np.arange(30))):
        without = View(records, routed, np.intersect1d(sample, usable), of_rows)
        histogram, total = (value.clone() for value in (
            reference.histogram(without, step), reference.clipped_sum(without, step, 1.0),
        ))  # fmt: skip
        view = View(records, routed, sample, of_rows)
        assert torch.equal(gradient_pass.histogram(view, step), histogram)
        assert int(histogram.sum()) == len(usable)
        assert torch.allclose(gradient_pass.clipped_sum(view, step, 1.0), total, atol=1e-6)
        assert float(total.abs().sum()) > 0


@pytest.mark.parametrize("kind", [SegmentedBatches, TiledBatches])
def test_no_gradient_exceeds_its_bound_at_any_scale(kind):
    """In float32 the square of 1e-22 has two digits and that of 1e25 is infinite: norms would be too small."""
    found = list(clipped_norms(kind, "cpu"))
    assert max(found) <= 1
    assert sum(norm > 0.9999 for norm in found) > 100  # most are clipped


# -- equal to plain training --------------------------------------------------------------------------------------


@pytest.mark.parametrize("optimizer", ["adam", "sgd"])
@pytest.mark.parametrize("clusters", [1, 3])
def test_without_noise_and_clipping_it_is_a_plain_training_loop(optimizer, clusters):
    records = random_records(MIXED, 40)
    model = VAE(MIXED, (9,), 2)
    start = model.initial(clusters, generator=torch.Generator().manual_seed(3)).double()
    rate = 0.01 if optimizer == "adam" else 0.001
    plan = settings(
        steps=8,
        sampling_rate=1.0,
        norm_noise=None,
        norm_bound=1e12,
        gradient_noise=0.0,
        records=40,
        optimizer=OptimizerSettings(optimizer, rate, "constant", 0.0),
    )
    gateway = TraceGateway(records, randomness=SeededRandomness(0), normals=latent_of)
    routed = by_length(records) if clusters == 3 else np.zeros(40, dtype=np.int64)
    gateway.keep("clusters", lambda _: routed)
    trainer = trainer_of(gateway, model, plan, clusters, initial_parameters=start)
    trainer.run()

    plain = start.clone().requires_grad_()
    kind = torch.optim.Adam if optimizer == "adam" else torch.optim.SGD
    descent = kind([plain], lr=rate)
    dense = torch.from_numpy(records.to_dense(np.float64))
    for step in range(8):
        draws = torch.from_numpy(latent_of(step + 1, np.arange(40), 2))
        losses = [vae_loss(model, plain[s], x, n) for s, x, n in zip(routed, dense, draws, strict=True)]
        descent.zero_grad()
        (sum(losses) / (40 / clusters)).backward()
        descent.step()
    assert torch.allclose(trainer.parameters, plain.detach(), rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("clusters", [1, 3])
def test_tiles_give_what_segments_give(name, clusters, monkeypatch):
    records = random_records(MIXED, 50)
    model = MODELS[name](MIXED)
    parameters = model.initial(clusters, generator=torch.Generator().manual_seed(1))
    segmented, resident, travelling = (
        pass_of(kind, model, parameters) for kind in (SegmentedBatches, TiledBatches, TiledBatches)
    )
    monkeypatch.setattr(travelling._batches, "_make_resident", lambda _: None)  # as if they did not fit
    for step, sample in enumerate(([3, 8, 9, 30], [], list(range(50)))):
        view = View(records, {"clusters": by_length(records)}, np.array(sample, dtype=np.int64), of_rows)
        expected = segmented.histogram(view, step).clone(), segmented.clipped_sum(view, step, 2.0).clone()
        for tiled in (resident, travelling):
            assert torch.equal(tiled.histogram(view, step), expected[0])
            assert torch.allclose(tiled.clipped_sum(view, step, 2.0), expected[1], atol=1e-5)
    assert resident._batches._resident is not None
    assert travelling._batches._resident is None


@pytest.mark.parametrize("clusters", [1, 7])
def test_buffers_of_tiles_follow_public_numbers(clusters):
    model = VAE(Domain.of_items(5), (4,), 2)
    records = Records.from_lists([[i % 5] for i in range(300)], model.domain)
    parameters = model.initial(clusters, generator=torch.Generator().manual_seed(0))
    segmented, tiled = (
        pass_of(SegmentedBatches, model, parameters),
        pass_of(TiledBatches, model, parameters, expected=20.0),
    )
    together, spread = np.zeros(300, dtype=np.int64), np.arange(300) % clusters
    cases = [(routed, size) for routed in (together, spread) for size in (0, 1, 20, 45)]
    for step, (routed, size) in enumerate([*cases, (spread, 300)]):  # the last batch exceeds the buffers
        view = View(records, {"clusters": routed}, np.arange(size, dtype=np.int64), of_rows)
        assert torch.equal(tiled.histogram(view, step), segmented.histogram(view, step))
        expected = segmented.clipped_sum(view, step, 0.5)
        assert torch.allclose(tiled.clipped_sum(view, step, 0.5), expected, atol=1e-5)
        buffers = (tiled._batches._tiles, tiled._batches._places)
        assert (buffers == arrange(20.0, clusters)) == (size < 300)


# -- edge cases -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [MODELS["vae"], MODELS["rbm"], lambda domain: VAE(domain, (3,), 1)])
@pytest.mark.parametrize(
    ("rows", "width"), [([], 5), ([[]], 5), ([[0]], 1), ([[], [0]], 1), ([[0, 1, 2, 3, 4]] * 3, 5)]
)
@pytest.mark.parametrize("clusters", [1, 3])
def test_small_data_trains_and_samples(make, rows, width, clusters):
    domain = Domain.of_items(width)
    records = Records.from_lists(rows, domain)
    gateway = Gateway(records, randomness=SystemRandomness())
    gateway.keep("clusters", by_length)
    for rate in (0.01, 1.0):
        plan = settings(steps=2, sampling_rate=rate, records=len(rows))
        made = train(gateway, make(domain), plan, clusters)
        assert torch.isfinite(made.parameters).all()
        assert len(made.sample(7, generator=torch.Generator().manual_seed(0))) == 7


def test_two_hundred_models_train_at_once():
    records = random_records(SETS, 300)
    gateway = Gateway(records, randomness=SystemRandomness())
    gateway.keep("clusters", lambda rows: np.arange(len(rows)) % 200)
    made = train(gateway, VAE(SETS, (6,), 2), settings(records=300), clusters=200)
    assert made.parameters.shape[0] == 200
    assert torch.isfinite(made.parameters).all()


# -- stopping and resuming --------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", MODELS)
def test_a_saved_trainer_goes_on_where_it_stopped(name):
    records, model = random_records(SETS, 60), MODELS[name](SETS)
    plan = settings(steps=10, optimizer=OptimizerSettings(averaged_tail=0.6))
    gateway = TraceGateway(records, randomness=SeededRandomness(1))
    whole = trainer_of(gateway, model, plan)
    whole.run(5)
    saved, chain_state = whole.state(), whole._chain_generator.get_state()
    whole.run()
    assert whole.done == 10

    again = PlaybackGateway(gateway.tape[10:], randomness=SeededRandomness(1))
    resumed = Trainer(again, model, plan, generator=torch.Generator().manual_seed(99))
    resumed.load_state(saved)
    resumed._chain_generator.set_state(chain_state)
    assert resumed.done == 5
    resumed.run()
    for key, value in whole.state().items():
        assert torch.equal(value, resumed.state()[key]), key
    assert torch.equal(whole.parameters, resumed.parameters)


def test_steps_lost_in_a_crash_come_out_of_the_plan():
    gateway = Gateway(random_records(SETS, 20), randomness=SeededRandomness(0))
    trainer = trainer_of(gateway, Logits(SETS), settings(steps=10))
    trainer.run(2)
    trainer.load_state(trainer.state())
    trainer.done = 7
    calls = []
    trainer.run(progress=lambda done, steps: calls.append((done, steps)))
    assert calls == [(8, 10), (9, 10), (10, 10)]


def test_a_damaged_state_is_refused():
    gateway = Gateway(random_records(SETS, 5), randomness=SeededRandomness(0))
    trainer = trainer_of(gateway, RBM(SETS, 4, chains=2), settings())
    good = trainer.state()
    for name, value in {
        "parameters": good["parameters"][:, 1:],
        "first": torch.full_like(good["first"], torch.nan),
        "chains": good["chains"] + 2,
        "norm_bound.average": torch.zeros(3),
    }.items():
        with pytest.raises(ArtefactError):
            trainer.load_state(good | {name: value})
    for name in good:
        with pytest.raises(ArtefactError):
            trainer.load_state({key: value for key, value in good.items() if key != name})
    trainer.load_state(good)


# -- arguments and results ------------------------------------------------------------------------------------------


def test_wrong_arguments_are_refused():
    gateway = Gateway(random_records(SETS, 5), randomness=SeededRandomness(0))
    with pytest.raises(UsageError, match="norm_bound"):
        settings(norm_noise=None)
    with pytest.raises(UsageError, match="initial_parameters"):
        trainer_of(gateway, Logits(SETS), settings(), initial_parameters=torch.zeros(2, 2))
    for weights in (torch.ones(2), torch.tensor([torch.nan]), torch.tensor([-1.0])):
        with pytest.raises(UsageError, match="cluster_weights"):
            trainer_of(gateway, Logits(SETS), settings(), cluster_weights=weights)


def test_private_training_learns_the_item_frequencies():
    rng = np.random.default_rng(0)
    domain = Domain.of_items(12)
    level = rng.random(12) * 0.8 + 0.1
    records = Records.from_dense(rng.random((4000, 12)) < level, domain)
    for model in (VAE(domain, (16,), 2), RBM(domain, 8, chains=50, sweeps=30)):
        gateway = Gateway(records, randomness=SeededRandomness(3))
        plan = settings(steps=300, sampling_rate=0.1, records=4000, optimizer=OptimizerSettings(learning_rate=0.02))
        made = train(gateway, model, plan)
        drawn = made.sample(4000, generator=torch.Generator().manual_seed(1)).to_dense().mean(0)
        assert np.abs(drawn - level).mean() < 0.06


@pytest.mark.parametrize("kind", [SegmentedBatches, TiledBatches])
def test_a_new_sample_is_never_answered_from_an_older_pass(kind):
    """A trainer reset to an earlier step draws a new sample; its histogram must be that of the new rows."""
    model = VAE(Domain.of_items(5), (4,), 2)
    records = Records.from_lists([[i % 5] for i in range(40)], model.domain)
    parameters = model.initial(1, generator=torch.Generator().manual_seed(0))
    gradient_pass = pass_of(kind, model, parameters)
    sizes = [
        int(gradient_pass.histogram(View(records, {}, np.arange(count, dtype=np.int64), of_rows), step=0).sum())
        for count in (10, 30)
    ]
    assert sizes == [10, 30]
