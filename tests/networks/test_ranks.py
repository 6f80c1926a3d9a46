"""Training on several ranks gives every rank the networks that one process trains."""

import subprocess
import sys

import numpy as np
import pytest
import torch

from dpgm.data.domain import Domain
from dpgm.data.records import Records
from dpgm.kernels import parallel
from dpgm.mechanisms.gateway import Gateway
from dpgm.mechanisms.randomness import SeededRandomness
from dpgm.networks.optimizer import OptimizerSettings
from dpgm.networks.private_sgd import Trainer, TrainingSettings
from dpgm.networks.rbm import RBM
from dpgm.networks.vae import VAE

ROWS, CUT = 400, 150
DOMAIN = Domain.of_items(5)
ALL = Records.from_dense(np.random.default_rng(0).random((ROWS, 5)) < 0.4, DOMAIN)


def train(rows, first, models):
    gateway = Gateway(rows, randomness=SeededRandomness(3), first_row=first)
    gateway.keep("clusters", lambda some: (np.arange(len(some)) + first) % models)
    settings = TrainingSettings(
        steps=1,
        sampling_rate=0.5,
        norm_noise=1.0,
        gradient_noise=100.0,
        records=ROWS,
        norm_bound=1.0,
        optimizer=OptimizerSettings("sgd", 1.0, "constant", 0.0),
    )
    draws = torch.Generator().manual_seed(0)
    trainer = Trainer(gateway, VAE(DOMAIN, (4,), 2), settings, clusters=models, generator=draws)
    trainer.run()
    return trainer.parameters.clone()


def train_in_doubles(rows, first):
    """Parameters of VAEs and RBMs, one and seven, after some steps; latent draws are numbered by the record."""

    def normals(self, some, out):
        for line, row in enumerate(some):
            draws = np.random.default_rng([self._step, first + int(row)])
            out[line] = torch.from_numpy(draws.standard_normal(out.shape[1]))

    results = {}
    for name, model in (("vae", VAE(DOMAIN, (4,), 2)), ("rbm", RBM(DOMAIN, 4))):
        for models in (1, 7):
            gateway = Gateway(rows, randomness=SeededRandomness(3), first_row=first)
            gateway.keep("clusters", lambda some, models=models: (np.arange(len(some)) + first) % models)
            settings = TrainingSettings(
                steps=5, sampling_rate=0.5, norm_noise=1.0, gradient_noise=1.0, records=ROWS
            )
            draws = torch.Generator().manual_seed(0)
            start = model.initial(models, generator=draws).double()
            trainer = Trainer(gateway, model, settings, clusters=models, initial_parameters=start, generator=draws)
            if trainer.chains is not None:
                trainer.chains = trainer.chains.double()
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(Gateway, "_fill_normals", normals)
                trainer.run()
            results[name, models] = trainer.parameters.clone()
    return results


def one_rank(rank, ranks, folder, training):
    """The process of one rank: `training` is "doubles" or the number of models."""
    torch.distributed.init_process_group("gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=ranks)
    with parallel.sharing():
        first, stop = {2: (0, CUT, ROWS), 3: (0, CUT, CUT + 1, ROWS)}[ranks][rank : rank + 2]
        rows = ALL.rows(first, stop)
        result = train_in_doubles(rows, first) if training == "doubles" else train(rows, first, int(training))
        torch.save(result, f"{folder}/{rank}.pt")
    torch.distributed.destroy_process_group()


def results_of(ranks, folder, training):
    """What every rank has trained."""
    commands = [[sys.executable, __file__, str(rank), str(ranks), str(folder), training] for rank in range(ranks)]
    processes = [subprocess.Popen(command) for command in commands]
    assert [process.wait(timeout=300) for process in processes] == [0] * ranks
    return [torch.load(folder / f"{rank}.pt") for rank in range(ranks)]


@pytest.mark.parametrize("models", [1, 3])
def test_two_ranks_hold_the_same_models_with_the_noise_of_one_process(models, tmp_path):
    first, second = results_of(2, tmp_path, str(models))
    assert torch.equal(first, second)
    # Each rank draws the latent variables of its own records, so exact sums differ a little; noise is far larger.
    one_process = train(ALL, 0, models)
    assert (first - one_process).abs().max() < 0.1 * one_process.std()


@pytest.mark.parametrize("ranks", [pytest.param(2, marks=pytest.mark.slow), 3])
def test_in_doubles_several_ranks_train_what_one_process_does(ranks, tmp_path):
    one_process = train_in_doubles(ALL, 0)
    for result in results_of(ranks, tmp_path, "doubles"):
        for case, parameters in result.items():
            assert parameters.dtype == torch.float64
            assert torch.allclose(parameters, one_process[case], rtol=1e-9, atol=1e-9), case


def test_a_coarse_precision_of_the_caller_is_not_used_and_is_restored():
    seen = []
    gateway = Gateway(ALL, randomness=SeededRandomness(0))
    settings = TrainingSettings(steps=1, sampling_rate=0.5, norm_noise=1.0, gradient_noise=1.0, records=ROWS)
    trainer = Trainer(gateway, VAE(DOMAIN, (4,), 2), settings, generator=torch.Generator().manual_seed(0))
    torch.set_float32_matmul_precision("medium")
    try:
        trainer.run(progress=lambda *_: seen.append(torch.get_float32_matmul_precision()))
        assert seen == ["highest"]
        assert torch.get_float32_matmul_precision() == "medium"
    finally:
        torch.set_float32_matmul_precision("highest")


if __name__ == "__main__":
    one_rank(int(sys.argv[1]), int(sys.argv[2]), *sys.argv[3:])
