"""Two processes fit the same generator as one: global row numbers, one Poisson sample, noise added once, all records."""

import json
import sys
from pathlib import Path

import pandas as pd
import pytest
import torch

import dpgm
from dpgm.data.layouts import Source
from dpgm.errors import UsageError
from dpgm.kernels import parallel
from dpgm.mechanisms.gateway import Gateway
from dpgm.mechanisms.randomness import SeededRandomness, SystemRandomness
from dpgm.synthesis import books
from synthesis_data import SETS, some_records, start_process, tiny_plan

ROWS, CUT = 90, 31
SEED = 4  # with it, no float32 sum is rounded to another grid point if its terms are added in another order
RECORDS = some_records(SETS, ROWS)
PLAN = tiny_plan("rbm", SETS, ROWS, clusters=2, sampling_rate=0.3)
SOURCES = {"seeded": lambda: SeededRandomness(SEED), "system": SystemRandomness}


def traced_fit(records, randomness):
    """The samples of all steps, the noisy answers and the tensors of one fit."""
    samples, answers = [], []
    coins, answer = Gateway._coins, Gateway._answer

    def recorded_coins(self, rate):
        samples.append(torch.from_numpy(coins(self, rate)).clone())
        return samples[-1].numpy()

    def recorded_answer(self, call, query, rows):
        answers.append(answer(self, call, query, rows).clone())
        return answers[-1].clone()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Gateway, "_coins", recorded_coins)
        patch.setattr(Gateway, "_answer", recorded_answer)
        fitted = dpgm.Synthesizer(99.0, 1e-5, model="rbm", randomness=randomness).fit(records, plan=PLAN)
    return {"samples": samples, "answers": answers, "state": fitted.generator_.state()}


def one_rank(rank, folder):
    torch.distributed.init_process_group("gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=2)
    with parallel.sharing():
        mine = RECORDS.rows(*[(0, CUT), (CUT, ROWS)][rank])
        results = {name: traced_fit(mine, source()) for name, source in SOURCES.items()}
        results["planned"] = dpgm.Synthesizer(1.0).fit(mine, together=True).certificate_.records
        fitted = dpgm.Synthesizer(99.0, 1e-5, model="rbm").fit(mine, plan=PLAN, checkpoint=folder / "c")
        results["checkpointed"] = fitted.generator_.state()
        again = dpgm.Synthesizer(99.0, 1e-5, model="rbm").fit(mine, plan=PLAN, checkpoint=folder / "c", resume=True)
        results["resumed"] = again.generator_.state()
        torch.save(results, folder / f"{rank}.pt")
    torch.distributed.destroy_process_group()


@pytest.fixture(scope="module")
def ranks(tmp_path_factory):
    folder = tmp_path_factory.mktemp("ranks")
    started = [start_process(__file__, rank, folder) for rank in (0, 1)]
    assert [process.wait(timeout=300) for process in started] == [0, 0]
    return [torch.load(folder / f"{rank}.pt") for rank in (0, 1)]


def test_the_coins_of_two_ranks_are_those_of_one_process(ranks):
    alone = traced_fit(RECORDS, SeededRandomness(SEED))["samples"]
    first, second = (rank["seeded"]["samples"] for rank in ranks)
    assert len(alone) == 6
    for whole, left, right in zip(alone, first, second, strict=True):
        assert torch.equal(torch.cat([left, right + CUT]), whole)


def test_under_system_randomness_the_ranks_do_not_sample_the_same_rows(ranks):
    """31 rows each at a rate of 0.3 in 6 steps: equal coins by chance have a probability below 1e-30."""
    first, second = ([sample[sample < CUT].tolist() for sample in rank["system"]["samples"]] for rank in ranks)
    assert first != second


def test_noise_is_added_once_and_every_rank_has_the_same_answers(ranks):
    alone = traced_fit(RECORDS, SeededRandomness(SEED))
    for answers in (rank["seeded"]["answers"] for rank in ranks):
        assert len(answers) == len(alone["answers"])
        for ours, theirs in zip(answers, alone["answers"], strict=True):
            assert torch.allclose(ours.double(), theirs.double(), rtol=1e-4, atol=1e-4)
    for ours, theirs in zip(ranks[0]["system"]["answers"], ranks[1]["system"]["answers"], strict=True):
        assert torch.equal(ours, theirs)
    for name, tensor in ranks[0]["system"]["state"].items():
        assert torch.equal(tensor, ranks[1]["system"]["state"][name]), name


def test_a_certificate_names_the_sources_of_all_ranks(monkeypatch):
    """Each rank draws noise: that one of them lacks the cipher must not be hidden by the first one, which has it."""
    others = [[["Philox"], True]]
    monkeypatch.setattr(
        books.parallel, "bytes_of_all", lambda mine: [mine, *(json.dumps(one).encode() for one in others)]
    )
    assert books._sources_of_all({"AES"}, True) == ({"AES", "Philox"}, True)
    others[:] = [[["seeded"], False]]
    with pytest.raises(UsageError, match="fixed seed"):
        books._sources_of_all({"AES"}, True)


def test_the_plan_is_for_the_records_of_all_ranks(ranks):
    assert [rank["planned"] for rank in ranks] == [ROWS, ROWS]


def test_the_first_process_keeps_the_checkpoint_and_the_others_follow_it(ranks):
    assert ranks[0]["checkpointed"]
    for rank in ranks:
        for name, tensor in ranks[0]["checkpointed"].items():
            assert torch.equal(rank["checkpointed"][name], tensor), name
            assert torch.equal(rank["resumed"][name], tensor), name


@pytest.fixture
def group_of_one(tmp_path):
    torch.distributed.init_process_group("gloo", init_method=f"file://{tmp_path}/meet", rank=0, world_size=1)
    yield
    torch.distributed.destroy_process_group()


def test_what_several_processes_cannot_do_is_refused_before_any_query(group_of_one):
    """Each would use its own rows of a person, and the guarantee would not be per person."""
    frame = pd.DataFrame({"who": ["a", "a", "b"], "what": ["x", "y", "x"]})
    for options in ({"item": "what"}, {}, {"rows_per_person": 1}):
        with pytest.raises(UsageError, match="one process"):
            dpgm.Synthesizer().fit(frame, person="who", discover=True, together=True, **options)
    several = Source("person", False, "wide", rows_per_person=2)
    with pytest.raises(UsageError, match="one process"):
        dpgm.Synthesizer().fit(some_records(SETS, 20), source=several, together=True)


if __name__ == "__main__":
    one_rank(int(sys.argv[1]), Path(sys.argv[2]))
