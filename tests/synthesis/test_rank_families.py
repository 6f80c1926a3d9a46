"""Two and three processes fit the same networks as one: VAEs and RBMs, one cluster and seven.

Latent draws are secret and differ between processes, so they are replaced here by draws that belong to records: only
the order in which floats are added can differ then.
"""

import sys
from pathlib import Path

import numpy as np
import pytest
import torch

import dpgm
from dpgm.kernels import parallel
from dpgm.mechanisms.gateway import Gateway
from dpgm.mechanisms.randomness import SeededRandomness
from synthesis_data import SETS, some_records, start_process, tiny_plan

CUTS = {1: (0, 90), 2: (0, 31, 90), 3: (0, 31, 32, 90)}
RECORDS = some_records(SETS, 90)
CASES = [(model, clusters) for model in ("vae", "rbm") for clusters in (1, 7)]


def fits(ranks, rank):
    """The noisy answers and the tensors of every case, as one of several processes computes them."""
    first, last = CUTS[ranks][rank : rank + 2]

    def normals(self, rows, out):
        for line, row in enumerate(rows):
            draws = np.random.default_rng([self._step, first + int(row)])
            out[line] = torch.from_numpy(draws.standard_normal(out.shape[1]))

    answer, results = Gateway._answer, {}
    for model, clusters in CASES:
        answers = []

        def recorded(self, call, query, rows, answers=answers):
            answers.append(answer(self, call, query, rows).clone())
            return answers[-1].clone()

        plan = tiny_plan(model, SETS, 90, clusters=clusters, sampling_rate=0.3)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Gateway, "_fill_normals", normals)
            patch.setattr(Gateway, "_answer", recorded)
            synthesizer = dpgm.Synthesizer(99.0, 1e-5, model=model, randomness=SeededRandomness(3), device="cpu")
            fitted = synthesizer.fit(RECORDS.rows(first, last), plan=plan)
        results[f"{model} {clusters}"] = {"answers": answers, "state": fitted.generator_.state()}
    return results


def one_rank(ranks, rank, folder):
    torch.distributed.init_process_group(
        "gloo", init_method=f"file://{folder}/meet{ranks}", rank=rank, world_size=ranks
    )
    with parallel.sharing():
        torch.save(fits(ranks, rank), folder / f"{ranks}-{rank}.pt")
    torch.distributed.destroy_process_group()


@pytest.fixture(scope="module")
def alone():
    return fits(1, 0)


@pytest.mark.parametrize("ranks", [pytest.param(2, marks=pytest.mark.slow), 3])
def test_several_processes_fit_what_one_does(alone, tmp_path, ranks):
    started = [start_process(__file__, ranks, rank, tmp_path) for rank in range(ranks)]
    assert [process.wait(timeout=300) for process in started] == [0] * ranks
    for rank in range(ranks):
        together = torch.load(tmp_path / f"{ranks}-{rank}.pt")
        for case, one in alone.items():
            assert len(together[case]["answers"]) == len(one["answers"]) > 0
            for ours, theirs in zip(together[case]["answers"], one["answers"], strict=True):
                assert torch.allclose(ours.double(), theirs.double(), rtol=1e-4, atol=1e-4), case
            for name, tensor in one["state"].items():
                assert torch.allclose(together[case]["state"][name], tensor, rtol=1e-4, atol=1e-4), (case, name)


if __name__ == "__main__":
    one_rank(int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]))
