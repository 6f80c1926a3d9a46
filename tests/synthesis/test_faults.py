"""The fault matrix in small: kills, failing writes, a full disk, damaged and older checkpoints, fits at once.

The long form is `make assure RUNS=faults`; its figures are in tools/figures/faults.json.
"""

import pytest

import faults
from dpgm.privacy.ledger import Ledger
from dpgm.synthesis import books, journal


def sound(figures):
    assert figures["faults"] == 0, figures.told
    return figures


@pytest.fixture(scope="module")
def warm(tmp_path_factory):
    base = tmp_path_factory.mktemp("faults")
    return base, faults.warm_up(base)


def test_a_fit_killed_at_random_moments_is_never_half_written_nor_charged_too_little(warm):
    base, seconds = warm
    figures = sound(faults.kill_fits(base, 8, seconds))
    assert figures["releases"] + figures["refused with a reason"] == figures["fits"]


def test_sampling_killed_at_random_moments_leaves_a_whole_file_or_none(warm):
    sound(faults.kill_samples(warm[0], 3))


def test_a_killed_ledger_holds_what_it_confirmed(tmp_path):
    sound(faults.kill_ledgers(tmp_path, 6))


def test_a_killed_checkpoint_knows_its_charges(tmp_path):
    sound(faults.kill_checkpoints(tmp_path, 5))


def test_a_failing_write_anywhere_in_a_fit_is_told_and_can_be_resumed(warm):
    assert sound(faults.fail_every_write_of_a_fit(warm[0], stride=16))["failed writes"] >= 4


def test_whichever_write_of_a_checkpoint_fails_no_charge_is_forgotten(tmp_path):
    assert sound(faults.fail_every_write_of_a_checkpoint(tmp_path))["failed writes"] > 40


def test_a_disk_that_is_full_loses_nothing():
    if not faults.can_mount():
        pytest.skip("this user may not mount a small disk (unshare -rm mount -t tmpfs)")
    figures = sound(faults.full_disks([8, 28]))
    assert figures["releases"] == figures["full disks"] + figures["disks with room"] == 2


def test_damaged_checkpoints_are_refused_or_forget_nothing(tmp_path):
    assert sound(faults.damaged_checkpoints(tmp_path, stride=29))["bit flips"] > 80


def test_checkpoints_set_back_to_an_older_copy_stay_charged(tmp_path):
    assert sound(faults.older_checkpoints(tmp_path))["set back"] == 9


def test_of_fifty_processes_at_once_exactly_ten_get_a_tenth(tmp_path):
    sound(faults.reservations_at_once(tmp_path, 1))


# -- these checks can fail -----------------------------------------------------------------------------------------


def test_a_journal_without_hashes_would_be_noticed(tmp_path, monkeypatch):
    monkeypatch.setattr(journal, "_digest", lambda previous, entry: "")
    assert faults.damaged_checkpoints(tmp_path, stride=7, files="journal*")["faults"] > 0


def test_a_ledger_that_forgets_charges_would_be_noticed(tmp_path, monkeypatch):
    monkeypatch.setattr(Ledger, "record_progress", lambda *args, **named: None)
    assert faults.older_checkpoints(tmp_path)["faults"] > 0


def test_noise_that_is_charged_only_when_it_is_saved_would_be_noticed(warm, monkeypatch):
    def answer(self, call, query, rows):
        recorded = self._checkpoint.replay(call.name)
        if recorded is not None:
            return recorded
        noisy = self._noisy(call, query, self._exact(query, rows))
        self._checkpoint.answer(call.name, noisy)
        self._checkpoint.charge(call.name)
        return noisy

    monkeypatch.setattr(books.CheckpointedGateway, "_answer", answer)
    assert faults.fail_every_write_of_a_fit(warm[0], stride=7)["faults"] > 0
