"""k-means on two processes, each with a share of the rows, gives the same bits as on one."""

import subprocess
import sys

import numpy as np
import torch

from dpgm.data.domain import Domain
from dpgm.data.records import Records
from dpgm.kernels import parallel
from dpgm.mechanisms.gateway import Gateway
from dpgm.mechanisms.randomness import SeededRandomness
from dpgm.networks.kernel_kmeans import initial_centers, private_kmeans
from dpgm.networks.kmeans_estimator import PrivateKernelKMeans
from dpgm.statistics.fourier_features import FourierFeatures, IdentityFeatures

ROWS, CUT, WIDTH = 901, 300, 30
DOMAIN = Domain.of_items(WIDTH)


def some_records():
    chosen = np.random.default_rng(0).random((ROWS, WIDTH)) < np.linspace(0.05, 0.5, WIDTH)
    return Records.from_dense(chosen, DOMAIN)


def clusterings(records, first_row=0):
    gateway = Gateway(records, randomness=SeededRandomness(7), first_row=first_row)
    fits = {}
    fourier = FourierFeatures.draw(WIDTH, 40, 0.08, generator=torch.Generator().manual_seed(0))
    for name, feature_map in (("fourier", fourier), ("identity", IdentityFeatures(WIDTH))):
        for noise in (0.0, 3.0):
            for limit in (0, 1 << 30):
                generator = torch.Generator().manual_seed(1)
                initial = initial_centers(
                    torch.full((WIDTH,), 0.2), 4, feature_map, domain=DOMAIN, generator=generator
                )
                found = private_kmeans(
                    gateway, initial, feature_map, 4, noise, noise, generator=generator, memory_limit=limit
                )
                fits[f"{name} {noise} {limit}"] = torch.cat([found.centers.flatten(), found.noisy_counts])
    model = PrivateKernelKMeans(3, count_noise=2.0, sum_noise=2.0, profile_noise=2.0)
    fits["estimator"] = model.fit(records, randomness=SeededRandomness(3)).centers_.flatten()
    return fits


def one_rank(rank, folder):
    torch.distributed.init_process_group("gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=2)
    with parallel.sharing():
        first, stop = [(0, CUT), (CUT, ROWS)][rank]
        torch.save(clusterings(some_records().rows(first, stop), first), f"{folder}/{rank}.pt")
    torch.distributed.destroy_process_group()


def test_two_processes_give_the_same_bits_as_one(tmp_path):
    ranks = [subprocess.Popen([sys.executable, __file__, str(rank), str(tmp_path)]) for rank in (0, 1)]
    assert [process.wait(timeout=120) for process in ranks] == [0, 0]
    one_process = clusterings(some_records())
    for rank in (0, 1):
        fits = torch.load(tmp_path / f"{rank}.pt")
        assert [name for name, value in one_process.items() if not torch.equal(fits[name], value)] == []


if __name__ == "__main__":
    one_rank(int(sys.argv[1]), sys.argv[2])
