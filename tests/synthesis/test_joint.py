"""Several real processes that do not agree: refused by all of them before a charge, each with one sentence.

The processes of a group are started once and go through all cases together, so that one which missed an exchange would
spoil all cases that follow: the last one is a fit that is made.
"""

import json
import os
import platform
import sys
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

import dpgm
from dpgm.data.domain import Domain, ItemSet
from dpgm.data.layouts import Source
from dpgm.data.read.options import ReadOptions
from dpgm.data.read.readers import read_share
from dpgm.data.records import Records
from dpgm.kernels import MEETING, agreement, parallel, process_group
from dpgm.mechanisms.gateway import Gateway
from dpgm.mechanisms.norm_bound import AdaptiveNormBound
from dpgm.mechanisms.query import Query
from dpgm.mechanisms.randomness import SeededRandomness
from dpgm.synthesis import joint, synthesizer
from dpgm.synthesis.plan import make_plan
from synthesis_data import SETS, some_records, start_process, tiny_plan

ROWS = 90
RECORDS = some_records(SETS, ROWS)
CUTS = {2: (0, 31, ROWS), 3: (0, 31, 32, ROWS)}
PLAN = tiny_plan("independent", SETS, ROWS)


class Member:
    """One of the processes; `odd` says whether it is the one that differs: the first of two, the last of three."""

    def __init__(self, folder, rank, ranks):
        self.folder, self.rank, self.ranks = folder, rank, ranks
        first, stop = CUTS[ranks][rank : rank + 2]
        self.mine = RECORDS.rows(first, stop)
        self.odd = False

    def fit(self, records=None, *, made=None, **changes):
        """A fit with a ledger in which the odd process has other arguments."""
        made, changes = (made or {}, changes) if self.odd else ({}, {})
        ledger = dpgm.Ledger.open(self.folder / "people.ledger")
        arguments = {"epsilon": 99.0, "delta": 1e-5, "model": "independent"} | made
        fit = {"plan": PLAN, "together": True} | changes
        return dpgm.Synthesizer(**arguments).fit(self.mine if records is None else records, ledger=ledger, **fit)

    def patched_fit(self, owner, name, value, **more):
        with pytest.MonkeyPatch.context() as patch:
            if self.odd:
                patch.setattr(owner, name, value)
            return self.fit(**more)

    def read(self, path, request=None, **options):
        chosen = ReadOptions(domain=SETS, format="csv", shape="basket", header=False, **options)
        with joint.reading_together(path, chosen, {"epsilon": 1.0} | (request or {} if self.odd else {})):
            return read_share(path, chosen, self.rank, self.ranks)

    # -- the cases: each is a sentence that all processes must say --------------------------------------------

    def epsilon(self):
        self.fit(made={"epsilon": 98.0})

    def delta(self):
        self.fit(made={"delta": 2e-5})

    def model(self):
        self.fit(made={"model": "products"})

    def preset(self):
        self.fit(made={"preset": "paper"})

    def clusters(self):
        self.fit(made={"clusters": 2})

    def mean_length(self):
        self.fit(made={"mean_length": 2.0})

    def memory(self):
        self.fit(made={"memory": "4GB"})

    def seed(self):
        self.fit(made={"randomness": SeededRandomness(1)})

    def device(self):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(synthesizer, "full_precision", lambda device: nullcontext())  # there need not be a GPU
            self.patched_fit(synthesizer, "choose_device", lambda device: "cuda")

    def domain(self):
        others = Domain((ItemSet(SETS.fields[0].name, tuple(f"item {at}" for at in range(SETS.width))),))
        self.fit(Records(others, self.mine.indptr, self.mine.indices) if self.odd else None)

    def a_plan(self):
        louder = tuple(replace(one, noise=2 * one.noise) for one in PLAN.mechanisms)
        self.fit(plan=replace(PLAN, mechanisms=louder))

    def no_plan(self):
        self.fit(plan=None)

    def source(self):
        self.fit(source=Source("person", False, "wide"))

    def public(self):
        self.fit(public=some_records(SETS, 5, seed=self.rank))

    def checkpoint(self):
        self.fit(checkpoint=self.folder / "checkpoint")

    def resume(self):
        self.fit(checkpoint=self.folder / "checkpoint", resume=True)

    def version_of_dpgm(self):
        self.patched_fit(joint, "__version__", "0.0.9")

    def version_of_torch(self):
        self.patched_fit(torch, "__version__", "2.4.0")

    def version_of_numpy(self):
        self.patched_fit(np, "__version__", "2.0.0")

    def version_of_python(self):
        self.patched_fit(platform, "python_version", lambda: "3.11.0")

    def same_records(self):
        self.fit(RECORDS)

    def same_records_in_two(self):
        self.fit(self.mine if self.rank == 1 and self.ranks == 3 else RECORDS)

    def same_records_in_another_order(self):
        self.fit(RECORDS.take(np.random.default_rng(self.rank).permutation(ROWS)))

    def same_frame_unasked(self):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(parallel, "_shares", False)
            frame = pd.DataFrame({"colour": ["red", "blue"] * 45})
            dpgm.Synthesizer(99.0).fit(frame, discover=True)

    def gateway_unasked(self):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(parallel, "_shares", False)
            Gateway(RECORDS, randomness=SeededRandomness(1))

    def another_sensitivity(self):
        gateway = Gateway(self.mine, randomness=SeededRandomness(1), allowance=PLAN.mechanisms)
        bound = float(np.nextafter(1.0, 2.0)) if self.odd else 1.0
        count = Query(lambda view: torch.tensor([len(view.rows)]), bound, (1,), grid=1.0)
        try:
            gateway.release(PLAN.mechanisms[0].name, count, PLAN.mechanisms[0].noise)
        finally:
            assert gateway.spent == ()

    def one_cannot_read(self):
        self.fit(42 if self.odd else None)

    def small_ledger(self):
        small = dpgm.Ledger.open(self.folder / "small.ledger")
        dpgm.Synthesizer(99.0, 1e-5).fit(self.mine, plan=PLAN, together=True, ledger=small)

    def used_checkpoint(self):
        used = self.folder / "used"
        dpgm.Synthesizer(99.0, 1e-5).fit(self.mine, plan=PLAN, together=True, checkpoint=used)

    def no_such_file(self):
        self.read(self.folder / ("missing.csv" if self.odd else "a.csv"))

    def another_file(self):
        self.read(self.folder / ("other" if self.odd else ".") / "a.csv")

    def file_of_another_name(self):
        self.read(self.folder / ("b.csv" if self.odd else "a.csv"))

    def read_with_another_option(self):
        self.read(self.folder / "a.csv", item_separator=";" if self.odd else ",")

    def read_for_another_request(self):
        self.read(self.folder / "a.csv", request={"epsilon": 2.0})

    def changed_while_read(self):
        chosen = ReadOptions(domain=SETS)
        with joint.reading_together(self.folder / "changing.csv", chosen, {}):
            if self.odd:
                (self.folder / "changing.csv").write_text("2\n" * ROWS)

    # -- what goes through ------------------------------------------------------------------------------------

    def copies(self):
        """Another file of the same bytes, as on another machine; a hard link, a listing of options."""
        return len(self.read(self.folder / ("copy" if self.odd else ".") / "a.csv")[0])

    def plan(self):
        """The processes round otherwise; the plan is the first one's."""

        def rounded(*arguments):
            made = make_plan(*arguments)
            up = tuple(replace(one, noise=float(np.nextafter(one.noise, 99))) for one in made.mechanisms)
            return replace(made, mechanisms=up)

        with pytest.MonkeyPatch.context() as patch:
            if self.odd:
                patch.setattr(synthesizer, "make_plan", rounded)
            return dpgm.Synthesizer(1.0, model="independent").fit(self.mine, together=True).plan_.to_json()

    def bound(self):
        """A process finds another clipping bound; all clip to the first one's."""
        used, release = [], Gateway.release

        def seen(gateway, name, query, noise):
            used.append([name, query.sensitivity])
            return release(gateway, name, query, noise)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Gateway, "release", seen)
            if self.odd:
                patch.setattr(AdaptiveNormBound, "update", lambda self, histogram: 3.5)
            rbm = tiny_plan("rbm", SETS, ROWS, clusters=2, sampling_rate=0.3)
            dpgm.Synthesizer(99.0, 1e-5, model="rbm").fit(self.mine, plan=rbm, together=True)
        return used

    def made(self):
        """After all that the processes are still in step."""
        return self.fit().certificate_.records


SENTENCES = {
    **{name: f"do not agree on `{name}`" for name in ("epsilon", "delta", "model", "preset", "clusters", "memory")},
    **{name: f"do not agree on `{name}`" for name in ("mean_length", "seed", "device", "domain", "public")},
    "a_plan": "do not agree on `plan`",
    "no_plan": "do not agree on `plan`",
    "source": "do not agree on how the records were read",
    "checkpoint": "do not agree on `checkpoint`",
    "resume": "do not agree on `checkpoint`, `resume`",
    **{f"version_of_{name.lower()}": f"the version of {name}" for name in ("dpgm", "torch", "numpy", "Python")},
    "same_records": "have the same records",
    "same_records_in_two": "have the same records",
    "same_records_in_another_order": "have the same records",
    "same_frame_unasked": "may all have the same rows",
    "gateway_unasked": "may all have the same rows",
    "another_sensitivity": "do not agree on how to measure",
    "one_cannot_read": "records must come from",
    "small_ledger": "the plan needs",
    "used_checkpoint": "checkpoint",
    "no_such_file": "there is no such file",
    "another_file": "do not agree on the content of the files",
    "file_of_another_name": "do not agree on the names of the files",
    "read_with_another_option": "do not agree on `item_separator`",
    "read_for_another_request": "do not agree on `epsilon`",
    "changed_while_read": "was changed while it was read",
}
THROUGH = ("copies", "plan", "bound", "made")


def one_process(folder, rank, ranks):
    member, told = Member(folder, rank, ranks), {}
    with process_group.several_processes():
        told["listens"] = listening()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(os, "geteuid", lambda: 12345)
            with pytest.raises(dpgm.errors.UsageError, match="another user of this machine"):
                process_group.refuse_strangers()
        for name in (*SENTENCES, *THROUGH):
            member.odd = rank == (0 if ranks == 2 else ranks - 1)
            try:
                told[name] = ["went through", getattr(member, name)()]
            except dpgm.errors.DpgmError as error:
                told[name] = [type(error).__name__, str(error)]
            if name not in THROUGH:
                assert dpgm.Ledger.open(folder / "people.ledger").entries() == (), name
    (folder / f"{rank}.json").write_text(json.dumps(told))


def listening():
    """The addresses at which this process waits for connections."""
    mine = [os.readlink(f"/proc/self/fd/{one}") for one in os.listdir("/proc/self/fd") if _is_socket(one)]
    lines = [
        line.split() for file in ("tcp", "tcp6") for line in Path(f"/proc/net/{file}").read_text().splitlines()
    ]
    return [line[1].split(":")[0] for line in lines if line[3] == "0A" and f"socket:[{line[9]}]" in mine]


def _is_socket(descriptor):
    try:
        return os.readlink(f"/proc/self/fd/{descriptor}").startswith("socket:")
    except OSError:
        return False


@pytest.fixture(scope="module", params=[2, 3])
def told(request, tmp_path_factory):
    """What every process said in every case."""
    folder, ranks = tmp_path_factory.mktemp("joint"), request.param
    lines = "".join(f"{row % 7},{7 + row % 3}\n" for row in range(ROWS))
    for place in (".", "copy", "other"):
        (folder / place).mkdir(exist_ok=True)
        (folder / place / "a.csv").write_text(lines if place != "other" else lines.replace("6,", "5,"))
    (folder / "b.csv").write_text(lines)
    (folder / "changing.csv").write_text("1\n" * ROWS)
    (folder / "used").mkdir()
    (folder / "used" / "something").write_text("of somebody")
    dpgm.Ledger.create(folder / "people.ledger", 500.0, 1e-2)
    dpgm.Ledger.create(folder / "small.ledger", 0.1, 1e-9)
    meeting = folder / "meeting"
    meeting.mkdir(mode=0o700)
    started = []
    for rank in range(ranks):
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv(MEETING, str(meeting))
            for name, value in (("RANK", rank), ("LOCAL_RANK", rank), ("WORLD_SIZE", ranks)):
                patch.setenv(name, str(value))
            patch.setenv("LOCAL_WORLD_SIZE", str(ranks))
            started.append(start_process(__file__, folder, rank, ranks))
    assert [process.wait(timeout=300) for process in started] == [0] * ranks
    assert dpgm.Ledger.open(folder / "small.ledger").entries() == ()
    return [json.loads((folder / f"{rank}.json").read_text()) for rank in range(ranks)]


@pytest.mark.parametrize("case", SENTENCES)
def test_all_processes_refuse_before_a_charge_and_say_why(told, case):
    for said in told:
        kind, sentence = said[case]
        assert kind != "went through", sentence
        assert SENTENCES[case] in sentence
        assert sentence.endswith(".")
        if "do not agree" in sentence:
            assert ". " not in sentence, "more than one sentence"
            assert not set("0123456789") & set(sentence), "a value"


def test_copies_of_a_file_are_one_file(told):
    assert sum(said["copies"][1] for said in told) == ROWS


def test_the_first_process_plans_for_all(told):
    plans = [said["plan"] for said in told]
    assert plans[0][0] == "went through"
    assert all(plan == plans[0] for plan in plans)


def test_all_clip_to_the_bound_of_the_first(told):
    bounds = [said["bound"] for said in told]
    assert bounds[0][0] == "went through"
    assert len([name for name, _ in bounds[0][1] if name == "gradients"]) == 6
    assert all(one == bounds[0] for one in bounds)


def test_processes_that_agree_fit_the_records_of_all(told):
    assert [said["made"] for said in told] == [["went through", ROWS]] * len(told)


def test_on_one_machine_processes_wait_for_each_other_on_the_loopback_interface(told):
    for said in told:
        assert said["listens"]
        assert set(said["listens"]) == {"0100007F"}


def test_one_process_states_nothing_and_is_not_asked():
    agreement.agree({"anything": object})
    with agreement.all_or_none():
        pass
    with pytest.raises(ZeroDivisionError), agreement.all_or_none():
        1 / 0  # noqa: B018
    with pytest.raises(dpgm.errors.UsageError, match="one of several processes"):
        dpgm.Synthesizer().fit(RECORDS, together=True)


if __name__ == "__main__":
    one_process(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
