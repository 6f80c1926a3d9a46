"""The product in several processes that share the records, over gloo: by `--processes` and by `torchrun -m dpgm`."""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch

import dpgm
from dpgm.cli.app import load_commands
from dpgm.cli.app import run as main
from dpgm.data.domain import Domain, ItemSet
from dpgm.data.domain_file import save_domain
from dpgm.data.records import Records
from dpgm.kernels import process_group
from dpgm.synthesis.tensors import tensors_of_bytes

load_commands()
ITEMS, ROWS = 30, 4000
DOMAIN = Domain((ItemSet("items", tuple(range(ITEMS))),))


def launch(processes, *arguments, torchrun=False, **variables):
    """Start a command in several processes."""
    here = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path), "OMP_NUM_THREADS": "1"} | variables
    starter = [sys.executable]
    if torchrun:
        starter += ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={processes}"]
    elif processes > 1:
        arguments += ("--processes", processes)
    return subprocess.Popen(
        [*starter, "-m", "dpgm", *map(str, arguments)], env=here, stderr=subprocess.PIPE, text=True
    )


def run(processes, *arguments, torchrun=False):
    started = launch(processes, *arguments, torchrun=torchrun)
    _, printed = started.communicate(timeout=400)
    assert started.returncode == 0, printed
    return printed


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder of Parquet parts of several row groups each, and their domain."""
    place = tmp_path_factory.mktemp("parts")
    draws = np.random.default_rng(0)
    dense = draws.random((ROWS, ITEMS)) < draws.random(ITEMS) * 0.4
    whole = Records.from_dense(dense, DOMAIN)
    (place / "data").mkdir()
    for part, (start, stop) in enumerate([(0, 1500), (1500, 1600), (1600, ROWS)]):
        table = whole.rows(start, stop).to_arrow()
        pq.write_table(table, place / "data" / f"{part}.parquet", row_group_size=400)
    save_domain(DOMAIN, place / "domain.yaml")
    return place


def fit_arguments(folder, out, *more):
    return ("fit", folder / "data", "--domain", folder / "domain.yaml", "--epsilon", 2, "--out", out, *more)


@pytest.mark.parametrize("model", ["products", pytest.param("independent", marks=pytest.mark.slow)])
def test_one_two_and_three_processes_make_the_same_release(folder, tmp_path, model):
    for processes in (1, 2, 3):
        by_torchrun = processes == 2
        out = tmp_path / str(processes)
        printed = run(processes, *fit_arguments(folder, out, "--model", model, "--seed", 1), torchrun=by_torchrun)
        assert ("torchrun listens to the whole network" in printed) == by_torchrun
        assert f"fitting {ROWS:,} records" in printed
        assert printed.count("release written") == 1
    expected = tensors_of_bytes((tmp_path / "1" / "model.safetensors").read_bytes())
    for processes in ("2", "3"):
        other = tensors_of_bytes((tmp_path / processes / "model.safetensors").read_bytes())
        assert all(torch.equal(other[name], tensor) for name, tensor in expected.items())


def test_one_and_three_processes_discover_the_same_items(folder, tmp_path):
    for processes in (1, 3):
        more = ("--discover", "--epsilon", 8, "--model", "independent", "--seed", 1, "--memory", "500MB")
        run(processes, "fit", folder / "data", *more, "--out", tmp_path / str(processes))
    releases = [dpgm.load(tmp_path / str(processes), unverified=True) for processes in (1, 3)]
    assert 15 < releases[0].domain.width <= ITEMS
    expected = tensors_of_bytes((tmp_path / "1" / "model.safetensors").read_bytes())
    assert releases[1].domain == releases[0].domain
    other = tensors_of_bytes((tmp_path / "3" / "model.safetensors").read_bytes())
    assert all(torch.equal(other[name], tensor) for name, tensor in expected.items())


def test_one_of_two_killed_processes_ends_the_fit_and_one_process_resumes_it(folder, tmp_path):
    out, checkpoint = tmp_path / "release", tmp_path / "checkpoint"
    ledger = tmp_path / "people.ledger"
    subprocess.run(
        [sys.executable, "-m", "dpgm", "ledger", "create", str(ledger), "--epsilon", "5", "--delta", "1e-4"],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        check=True,
    )
    arguments = fit_arguments(folder, out, "--model", "rbm", "--checkpoint", checkpoint, "--ledger", ledger)
    started = launch(2, *arguments)
    deadline = time.monotonic() + 300
    while not list(checkpoint.glob("trainer-*.safetensors")):
        assert time.monotonic() < deadline
        assert started.poll() is None, started.communicate()[1]
        time.sleep(0.05)
    os.kill(_second_of(started.pid), signal.SIGKILL)
    _, printed = started.communicate(timeout=120)
    assert started.returncode == 2
    assert "process 1 of 2 was killed" in printed
    assert not out.exists()
    run(1, *arguments, "--resume")
    assert dpgm.verify(out).ok
    assert {entry.state for entry in dpgm.Ledger.open(ledger).entries()} == {"committed"}


def _second_of(starter):
    """The process of rank 1 among the children of a launcher."""
    for process in Path("/proc").iterdir():
        if process.name.isdigit():
            try:
                parent = int((process / "stat").read_text().rsplit(")", 1)[1].split()[1])
                ranks = (process / "environ").read_bytes().split(b"\0")
            except (OSError, IndexError):
                continue
            if parent == starter and b"RANK=1" in ranks:
                return int(process.name)
    raise AssertionError("no process of rank 1")


def test_several_processes_write_one_data_set(folder, tmp_path):
    run(1, *fit_arguments(folder, tmp_path / "release", "--model", "independent"))
    run(2, "sample", tmp_path / "release", "--records", 1001, "--out", tmp_path / "synthetic", "--seed", 4)
    parts = sorted(path.name for path in (tmp_path / "synthetic").iterdir())
    assert parts == ["part-00000-of-00002.parquet", "part-00001-of-00002.parquet"]
    synthetic = dpgm.read_records(tmp_path / "synthetic", domain=folder / "domain.yaml")
    assert len(synthetic) == 1001
    halves = [dpgm.read_records(tmp_path / "synthetic" / part, domain=folder / "domain.yaml") for part in parts]
    assert not np.array_equal(halves[0].rows(0, 500).to_dense(), halves[1].rows(0, 500).to_dense())


def start_apart(folder, *commands):
    """Processes that meet as those of `--processes` do, each with a command of its own; codes, and what they said."""
    with tempfile.TemporaryDirectory(dir=folder) as meeting:
        started = [
            launch(
                1,
                *command,
                **{"DPGM_MEETING": meeting, "RANK": str(rank), "LOCAL_RANK": str(rank)},
                **dict.fromkeys(("WORLD_SIZE", "LOCAL_WORLD_SIZE"), str(len(commands))),
            )
            for rank, command in enumerate(commands)
        ]
        said = [process.communicate(timeout=300)[1] for process in started]
        return [process.returncode for process in started], said


@pytest.mark.parametrize(
    ("processes", "odd", "sentence"),
    [
        (2, ("--epsilon", 3), "do not agree on --epsilon"),
        (3, "other", "do not agree on the content of the files"),
    ],
)
def test_processes_started_in_different_ways_end_before_a_charge(folder, tmp_path, processes, odd, sentence):
    """The last process differs: each ends with exit code 2 and one sentence, and the ledger is as it was."""
    ledger, other = dpgm.Ledger.create(tmp_path / "people.ledger", 5.0, 1e-4), tmp_path / "other" / "data"
    shutil.copytree(folder / "data", other)
    table = pq.read_table(other / "1.parquet")
    pq.write_table(table.take(np.arange(len(table))[::-1]), other / "1.parquet", row_group_size=400)
    same = fit_arguments(folder, tmp_path / "release", "--ledger", tmp_path / "people.ledger")
    changed = {"--epsilon": odd[1]} if odd != "other" else {}
    differs = [changed.get(before, word) for before, word in zip((None, *same), same, strict=False)]
    if odd == "other":
        differs[1] = other
    codes, said = start_apart(tmp_path, *[same] * (processes - 1), differs)
    assert codes == [2] * processes
    for one in said:
        assert one.count("error[") == 1
        assert sentence in one
        assert "fitting" not in one
    assert ledger.entries() == ()
    assert not (tmp_path / "release").exists()
    assert not (tmp_path / "release.checkpoint").exists()


def test_a_mistake_ends_all_processes_with_its_exit_code(tmp_path):
    started = launch(2, "fit", tmp_path / "missing.parquet", "--epsilon", 1, "--out", tmp_path / "release")
    _, printed = started.communicate(timeout=300)
    assert started.returncode == 2
    assert "there is no such file" in printed


@pytest.mark.parametrize("processes", [0, 2])
def test_what_cannot_be_started_is_refused(processes, monkeypatch, capsys):
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "none")
    monkeypatch.setenv("WORLD_SIZE", "2")
    arguments = ["sample", "release", "--out", "x.parquet", "--processes", str(processes)]
    assert main(arguments) == 2
    assert ("leave out --processes" if processes else "of at least 1") in capsys.readouterr().err


@pytest.mark.parametrize("fault", ["open to others", "a link"])
def test_a_folder_of_others_is_not_a_place_to_meet(tmp_path, monkeypatch, fault):
    meeting = tmp_path / "meeting"
    if fault == "a link":
        (tmp_path / "real").mkdir(mode=0o700)
        meeting.symlink_to(tmp_path / "real")
    else:
        meeting.mkdir(mode=0o700)
        meeting.chmod(0o711)
    monkeypatch.setenv("DPGM_MEETING", str(meeting))
    with pytest.raises(dpgm.errors.UsageError, match="nobody else can open"):
        process_group._meeting_folder()
