"""A fit that stops says what is spent and how to resume it, and its noisy answers are saved."""

import json
import signal
import subprocess
import sys
import time

import pytest

import dpgm
from dpgm.cli.app import run
from dpgm.errors import DiskError, PrivacyWarning
from dpgm.privacy.ledger import Ledger
from dpgm.strategy.settings import Config
from dpgm.synthesis import certified_fit
from dpgm.synthesis.plan import make_plan
from dpgm.synthesis.release import Release
from synthesis_data import SETS, some_records


@pytest.fixture
def fit(fit, tmp_path):
    return [*fit, "--out", str(tmp_path / "release")]


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_a_disk_that_is_full_at_the_last_step_loses_nothing(capsys, tmp_path, fit, monkeypatch):
    ledger = Ledger.create(tmp_path / "ledger", 1.01, 1.25e-3)
    fit = [*fit, "--ledger", str(tmp_path / "ledger")]

    def full(self, path, **options):
        raise DiskError("release: cannot be written: the disk is full.")

    with monkeypatch.context() as patch:
        patch.setattr(Release, "save", full)
        assert run(fit) == 2
    printed = capsys.readouterr().err
    assert "error[E-DISK]" in printed
    assert "is spent" in printed
    assert "resume with the same command and --resume" in printed
    folder = tmp_path / "release.checkpoint"
    assert folder.stat().st_mode & 0o777 == 0o700
    assert {path.stat().st_mode & 0o777 for path in folder.iterdir()} == {0o600}
    # Without --resume the command would spend again: it is refused with advice.
    assert run(fit) == 2
    assert "what it measured is spent; add --resume" in capsys.readouterr().err
    monkeypatch.setattr(certified_fit, "fit_generator", None)  # nothing runs again
    assert run([*fit, "--resume"]) == 0
    assert names(tmp_path) == ["ledger", "release", "visits.parquet"]
    assert dpgm.verify(tmp_path / "release").ok
    assert [entry.state for entry in ledger.entries()] == ["committed"]


def test_a_fit_that_ends_leaves_its_release_alone(tmp_path, fit):
    assert run(fit) == 0
    assert names(tmp_path) == ["release", "visits.parquet"]


def test_the_next_start_clears_what_a_killed_clean_up_left(capsys, tmp_path, fit):
    folder = tmp_path / "release.checkpoint"
    assert run([*fit, "--checkpoint", str(folder)]) == 0
    (tmp_path / "release.checkpoint.tmp-0123456789ab").mkdir()
    assert run(fit) == 2
    assert "exists already" in capsys.readouterr().err
    assert names(tmp_path) == ["release", "visits.parquet"]


@pytest.mark.parametrize(("error", "code"), [(KeyboardInterrupt, 130), (MemoryError, 2), (ZeroDivisionError, 2)])
def test_a_fit_that_stops_half_way_reports_what_it_spent(capsys, tmp_path, fit, monkeypatch, error, code):
    make = certified_fit.fit_generator

    def stopped(gateway, *args, **named):
        make(gateway, *args, **named)
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(certified_fit, "fit_generator", stopped)
        assert run(fit) == code
    printed = capsys.readouterr().err
    assert "the budget of record lengths, item counts" in printed
    assert "resume with the same command and --resume" in printed
    assert run([*fit, "--resume"]) == 0


def test_a_fit_stopped_before_it_measured_anything_has_spent_nothing(capsys, tmp_path, fit, monkeypatch):
    def stopped(*args, **named):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(certified_fit, "fit_generator", stopped)
        assert run(fit) == 130
    assert "no budget is spent" in capsys.readouterr().err
    assert names(tmp_path) == ["visits.parquet"]
    assert run(fit) == 0


def test_ctrl_c_in_a_real_process_ends_with_130_and_can_be_resumed(tmp_path):
    some_records(SETS, 500).write(tmp_path / "visits.npz")
    plan = make_plan(Config(1.0, model="vae", clusters=1), 500, SETS)
    (tmp_path / "plan.json").write_text(json.dumps(plan.to_json()))
    command = [sys.executable, "-m", "dpgm", "fit", str(tmp_path / "visits.npz"), "--plan"]
    command += [str(tmp_path / "plan.json"), "--out", str(tmp_path / "release")]
    child = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    trained = tmp_path / "release.checkpoint"
    while child.poll() is None and not list(trained.glob("trainer-*")):
        time.sleep(0.01)
    child.send_signal(signal.SIGINT)
    printed = child.communicate(timeout=120)[1]
    assert child.returncode == 130, printed
    assert "training" in printed, printed
    assert "resume with the same command and --resume" in printed
    assert subprocess.run([*command, "--resume", "--quiet"], timeout=300).returncode == 0
    assert dpgm.verify(tmp_path / "release").ok
    assert names(tmp_path) == ["plan.json", "release", "visits.npz"]


def test_a_seed_is_reported_even_with_quiet(capsys, fit):
    assert run([*fit, "--seed", "1"]) == 0
    assert "NOT PRIVATE" in capsys.readouterr().err


def test_three_rows_at_delta_one_in_thirty_are_warned_of():
    with pytest.warns(PrivacyWarning, match="1 in 30.*only 3 records"):
        make_plan(Config(1.0), 3, SETS)


def test_a_refused_fit_does_not_say_that_it_is_fitting(capsys, tmp_path, data):
    Ledger.create(tmp_path / "ledger", 0.5, 1.25e-3)
    fit = ["fit", str(data), "--assume-public-items", "--epsilon", "1", "--out", str(tmp_path / "release")]
    assert run([*fit, "--ledger", str(tmp_path / "ledger")]) == 2
    refused = capsys.readouterr().err
    assert "error[E-BUDGET]" in refused
    assert "fitting" not in refused
    assert run(fit) == 0
    said = capsys.readouterr().err
    assert 0 <= said.index("fitting 80 records") < said.index("measure ...") < said.index("refine ...")
