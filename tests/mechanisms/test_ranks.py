"""Two ranks give what one process gives: coins shared, noise drawn once and added once."""

import subprocess
import sys

import numpy as np
import torch

from dpgm.data.domain import Domain
from dpgm.data.records import Records
from dpgm.kernels import parallel
from dpgm.mechanisms import randomness
from dpgm.mechanisms.gateway import Gateway
from dpgm.mechanisms.query import Query
from dpgm.mechanisms.randomness import SeededRandomness, SystemRandomness

ROWS = 70_000  # more than a block, so that both ranks share one
CUT = 30_000
RATE = 0.01


def some_rows():
    indptr = np.arange(ROWS + 1, dtype=np.int64)
    return Records(Domain.of_items(7), indptr, (np.arange(ROWS) % 7).astype(np.int16))


def counts(view):
    return torch.bincount(torch.as_tensor(view.rows.indices.astype(np.int64)), minlength=7)


def padded(view):
    """Rows of numbers with room between them, as training lays parameters out."""
    return torch.nn.functional.pad(counts(view).float().expand(3, 7), (0, 9))[:, :7]


def release_all(gateway):
    values = [gateway.release("integers", Query(counts, 1.0, (7,), grid=1.0), 2.0)]
    values += gateway.release("padded", Query(padded, 3.0, (3, 7)), 1.5).clone()
    with gateway.poisson("step", RATE):
        values.append(gateway.release("floats", Query(lambda view: counts(view).float(), 1.0, (7,)), 1.5))
        values.append(gateway.release("sampled", Query(counts, 1.0, (7,), grid=1.0), 3.0))
    return torch.stack([value.double() for value in values])


def one_rank(rank, folder):
    torch.distributed.init_process_group("gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=2)
    with parallel.sharing():
        first, stop = [(0, CUT), (CUT, ROWS)][rank]
        mine = some_rows().rows(first, stop)
        results = {}
        for name, source in (("seeded", SeededRandomness(3)), ("system", SystemRandomness())):
            results[name] = release_all(Gateway(mine, randomness=source, first_row=first))
            results[f"{name} coins"] = torch.from_numpy(source.stream(1, 9, 9).words(4).view(np.int64))
            results[f"{name} words"] = torch.from_numpy(source.words(4).view(np.int64))
            own = np.empty(4, dtype=np.uint64)
            source.record_words().fill(own)
            results[f"{name} record words"] = torch.from_numpy(own.view(np.int64))
            results[f"{name} record generator"] = torch.rand(4, generator=source.record_generator("cpu"))
            results[f"{name} draws"] = torch.rand(4, generator=source.draws())
        torch.save(results, f"{folder}/{rank}.pt")
    torch.distributed.destroy_process_group()


def test_two_ranks_release_what_one_process_does(tmp_path):
    ranks = [subprocess.Popen([sys.executable, __file__, str(rank), str(tmp_path)]) for rank in (0, 1)]
    assert [process.wait(timeout=120) for process in ranks] == [0, 0]
    first, second = (torch.load(tmp_path / f"{rank}.pt") for rank in (0, 1))
    for name in ("seeded", "system", "seeded coins", "system coins", "system draws"):
        assert torch.equal(first[name], second[name]), name
    # Each rank has a noise key of its own; only rank 0's is used.
    assert not torch.equal(first["system words"], second["system words"])
    # The secret draws of records are each rank's own, seeded or not.
    for name in (
        "seeded record words",
        "system record words",
        "seeded record generator",
        "system record generator",
    ):
        assert not torch.equal(first[name], second[name]), name
    alone = release_all(Gateway(some_rows(), randomness=SeededRandomness(3)))
    assert torch.equal(first["seeded"], alone)
    exact = torch.full((7,), ROWS / 7)
    assert (first["system"][0] - exact).abs().max() < 30
    assert (first["system"][1:4] - exact).abs().max() < 100
    assert (first["system"][-1] - exact * RATE).abs().max() < 100


def test_a_secret_is_taken_from_rank_zero(monkeypatch):
    monkeypatch.setattr(parallel, "is_parallel", lambda: True)
    monkeypatch.setattr(parallel, "from_first", lambda value: value.fill_(7))
    assert randomness._from_first(b"secret") == b"\x07" * 6


if __name__ == "__main__":
    one_rank(int(sys.argv[1]), sys.argv[2])
