"""Two ranks hold the same models: the noise of every parameter reaches both."""

import subprocess
import sys

import numpy as np
import pytest
import torch

from dpgm.data.domain import Domain
from dpgm.data.records import Records
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


def one_rank(rank, folder, models):
    torch.distributed.init_process_group("gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=2)
    first, stop = [(0, CUT), (CUT, ROWS)][rank]
    torch.save(train(ALL.rows(first, stop), first, models), f"{folder}/{rank}.pt")
    torch.distributed.destroy_process_group()


def one_rank_in_doubles(rank, folder, ranks):
    torch.distributed.init_process_group("gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=ranks)
    first, stop = {2: (0, CUT, ROWS), 3: (0, CUT, CUT + 1, ROWS)}[ranks][rank : rank + 2]
    torch.save(train_in_doubles(ALL.rows(first, stop), first), f"{folder}/{rank}.pt")
    torch.distributed.destroy_process_group()


@pytest.mark.parametrize("models", [1, 3])
def test_two_ranks_hold_the_same_models_with_the_noise_of_one_process(models, tmp_path):
    command = [sys.executable, __file__]
    ranks = [subprocess.Popen([*command, str(rank), str(tmp_path), str(models)]) for rank in (0, 1)]
    assert [process.wait(timeout=200) for process in ranks] == [0, 0]
    first, second = (torch.load(tmp_path / f"{rank}.pt") for rank in (0, 1))
    assert torch.equal(first, second)
    # Each rank draws its records' latent variables itself, so that exact sums differ a little; noise is far larger.
    alone = train(ALL, 0, models)
    assert (first - alone).abs().max() < 0.1 * alone.std()


@pytest.mark.parametrize("ranks", [2, 3])
def test_in_doubles_several_ranks_train_what_one_process_does(ranks, tmp_path):
    command = [sys.executable, __file__, "doubles"]
    alone = train_in_doubles(ALL, 0)
    started = [subprocess.Popen([*command, str(rank), str(tmp_path), str(ranks)]) for rank in range(ranks)]
    assert [process.wait(timeout=300) for process in started] == [0] * ranks
    for rank in range(ranks):
        for case, parameters in torch.load(tmp_path / f"{rank}.pt").items():
            assert parameters.dtype == torch.float64
            assert torch.allclose(parameters, alone[case], rtol=1e-9, atol=1e-9), case


def test_a_coarse_precision_of_the_caller_is_set_aside_and_given_back():
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
    if sys.argv[1] == "doubles":
        one_rank_in_doubles(int(sys.argv[2]), sys.argv[3], int(sys.argv[4]))
    else:
        one_rank(int(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
