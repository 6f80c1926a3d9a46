"""One charge pays for one release: copies of a checkpoint, altered plans, processes that take over a fit."""

import shutil
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
import torch

import dpgm
from dpgm.errors import ArtefactError, BudgetError, UsageError
from dpgm.mechanisms.gateway import Gateway
from dpgm.mechanisms.query import Query
from dpgm.mechanisms.randomness import SeededRandomness
from dpgm.privacy.ledger import Ledger
from dpgm.synthesis import certified_fit
from dpgm.synthesis.books import Books
from dpgm.synthesis.checkpoint import Checkpoint
from synthesis_data import SETS, KilledError, some_records, start_process, stop_at, tiny_plan

RECORDS = some_records(SETS, 60)
VAE = tiny_plan("vae", SETS, len(RECORDS), sampling_rate=0.3)
PRODUCTS = tiny_plan("products", SETS, len(RECORDS))


def fit(plan, folder, ledger, **options):
    fitted = dpgm.Synthesizer(99.0, 1e-5, model=plan.settings.model)
    return fitted.fit(RECORDS, plan=plan, checkpoint=folder, ledger=ledger, **options)


def resume(folder, ledger=None):
    return Books.open(PRODUCTS, RECORDS, ledger=ledger, checkpoint=folder, resume=True)


@pytest.fixture
def ledger(tmp_path):
    return Ledger.create(tmp_path / "ledger", epsilon_cap=50, delta=1e-5)


# -- two processes on two copies of one checkpoint -------------------------------------------------------------


def wait_for(path):
    for _ in range(6000):
        if path.exists():
            return
        time.sleep(0.01)
    raise TimeoutError(path)


def resume_in_this_process(base, name, signal, awaited):
    """Resume the copy `name`; after its first block of steps, create a file and wait for the other process's file."""
    draw = Gateway._noisy

    def counted(self, call, query, exact):
        with (base / f"{name}.drawn").open("a") as drawn:
            drawn.write(f"{call.name}\n")
        return draw(self, call, query, exact)

    Gateway._noisy = counted

    def progress(stage, done, total):
        if stage == "train":
            (base / signal).touch()
            wait_for(base / awaited)

    try:
        fitted = fit(VAE, base / name, Ledger.open(base / "ledger"), resume=True, progress=progress)
        fitted.save(base / f"{name}-release")
    except BudgetError as error:
        (base / f"{name}.refused").write_text(str(error))


def test_two_copies_of_a_checkpoint_resumed_at_once_give_one_release(tmp_path, ledger):
    with pytest.raises(KilledError):
        fit(VAE, tmp_path / "a", ledger, progress=stop_at("train", 2))
    shutil.copytree(tmp_path / "a", tmp_path / "b")
    first = start_process(__file__, tmp_path, "a", "a-runs", "b-runs")
    wait_for(tmp_path / "a-runs")
    # The second need not wait; the first continues when the second has begun.
    second = start_process(__file__, tmp_path, "b", "b-runs", "a-runs")
    assert [first.wait(timeout=120), second.wait(timeout=120)] == [0, 0]
    released = [name for name in "ab" if (tmp_path / f"{name}-release").exists()]
    assert released == ["b"]
    assert "taken it over" in (tmp_path / "a.refused").read_text()
    drawn = [line for name in "ab" for line in (tmp_path / f"{name}.drawn").read_text().split("\n")]
    assert drawn.count("gradients") <= 6 - 2  # the plan's steps less those before the copy
    (entry,) = ledger.entries()
    assert entry.state == "committed"
    certificate = dpgm.load(tmp_path / "b-release").certificate
    assert entry.model == certificate.files["model.safetensors"]


def test_a_process_whose_fit_was_taken_over_cannot_commit(tmp_path, ledger):
    def copy_and_take_over(stage, done, total):
        if stage == "refine" and not (tmp_path / "b").exists():
            shutil.copytree(tmp_path / "a", tmp_path / "b")
            resume(tmp_path / "b", ledger).checkpoint.close()

    with pytest.raises(BudgetError, match="taken it over"):
        fit(PRODUCTS, tmp_path / "a", ledger, progress=copy_and_take_over)
    assert [entry.state for entry in ledger.entries()] == ["started"]
    fit(PRODUCTS, tmp_path / "b", ledger, resume=True)
    assert [entry.state for entry in ledger.entries()] == ["committed"]


def test_an_ended_fit_gives_its_model_again_and_no_other(tmp_path, ledger, monkeypatch):
    with pytest.raises(KilledError):
        fit(PRODUCTS, tmp_path / "a", ledger, progress=stop_at("refine", 1))
    shutil.copytree(tmp_path / "a", tmp_path / "b")
    first = fit(PRODUCTS, tmp_path / "a", ledger, resume=True)
    first.save(tmp_path / "one")
    again = fit(PRODUCTS, tmp_path / "a", ledger, resume=True)
    again.save(tmp_path / "two")
    model = (tmp_path / "one" / "model.safetensors").read_bytes()
    assert (tmp_path / "two" / "model.safetensors").read_bytes() == model
    assert ledger.entries()[0].model == dpgm.load(tmp_path / "one").certificate.files["model.safetensors"]
    # The copy has all the answers, so it may compute the model again; another model is refused.
    make = certified_fit.fit_generator

    def another(*args, **named):
        generator = make(*args, **named)
        generator.probabilities.mul_(0.5)
        return generator

    monkeypatch.setattr(certified_fit, "fit_generator", another)
    with pytest.raises(BudgetError, match="one charge pays for one release"):
        fit(PRODUCTS, tmp_path / "b", ledger, resume=True)


# -- the plan is the reservation -------------------------------------------------------------------------------


def test_a_plan_that_is_not_the_reservation_is_refused_before_anything_is_asked(tmp_path, ledger, monkeypatch):
    with pytest.raises(KilledError):
        fit(PRODUCTS, tmp_path / "a", ledger, progress=stop_at("measure", 0))
    (entry,) = ledger.entries()
    louder = replace(PRODUCTS, mechanisms=tuple(replace(m, noise=m.noise / 9) for m in PRODUCTS.mechanisms))
    Checkpoint.start(tmp_path / "b", louder, RECORDS, entry.name).close()
    queries = []
    monkeypatch.setattr(Gateway, "_exact", lambda *arguments: queries.append(arguments))
    with pytest.raises(ArtefactError, match="not the one that the ledger has reserved"):
        fit(louder, tmp_path / "b", ledger, resume=True)
    assert queries == []


def test_a_reservation_is_made_on_resume_if_the_process_died_before_it(tmp_path, ledger):
    Checkpoint.start(tmp_path / "a", PRODUCTS, RECORDS, "the name").close()
    with resume(tmp_path / "a", ledger):
        assert [(entry.name, entry.state) for entry in ledger.entries()] == [("the name", "started")]


def test_a_fit_that_the_ledger_does_not_know_is_refused(tmp_path, ledger):
    saved = Checkpoint.start(tmp_path / "a", PRODUCTS, RECORDS, "the name")
    saved.charge("item counts")
    saved.close()
    with pytest.raises(ArtefactError, match="does not know this fit"):
        resume(tmp_path / "a", ledger)
    with pytest.raises(UsageError, match="started with a ledger"):
        resume(tmp_path / "a")
    Checkpoint.start(tmp_path / "b", PRODUCTS, RECORDS).close()
    with pytest.raises(UsageError, match="started without a ledger"):
        resume(tmp_path / "b", ledger)
    assert ledger.entries() == ()


def test_a_refused_reservation_leaves_no_checkpoint(tmp_path):
    small = Ledger.create(tmp_path / "small", epsilon_cap=0.01, delta=1e-5)
    with pytest.raises(BudgetError):
        Books.open(PRODUCTS, RECORDS, ledger=small, checkpoint=tmp_path / "a")
    assert [path.name for path in tmp_path.iterdir()] == ["small"]


def test_without_a_checkpoint_a_failed_fit_is_abandoned_and_stays_charged(tmp_path, ledger):
    with pytest.raises(KilledError):
        fit(PRODUCTS, None, ledger, progress=stop_at("measure", 0))
    (entry,) = ledger.entries()
    assert entry.state == "abandoned"
    assert entry.charged == PRODUCTS.mechanisms


def test_a_fit_that_cannot_go_on_is_not_taken_from_the_one_that_can(tmp_path, ledger):
    saved = Checkpoint.start(tmp_path / "a", PRODUCTS, RECORDS, "the name")
    saved.close()
    shutil.copytree(tmp_path / "a", tmp_path / "old")
    with resume(tmp_path / "a", ledger) as books:
        books.checkpoint.charge("item counts")
        with pytest.raises(BudgetError, match="item counts were lost"):
            resume(tmp_path / "old", ledger)
        books.checkpoint.charge("record lengths")  # still the owner
    assert ledger.entry("the name").progress == {"item counts": 1, "record lengths": 1}


def test_the_folder_and_its_files_are_for_the_owner_alone(tmp_path):
    with Books.open(PRODUCTS, RECORDS, checkpoint=tmp_path / "a") as books:
        query = Query(lambda view: torch.zeros(3), 1.0, (3,))
        books.gateway(SeededRandomness(1)).release("item counts", query, PRODUCTS.noise("item counts"))
        modes = {path.name: path.stat().st_mode & 0o777 for path in (tmp_path / "a").iterdir()}
    assert (tmp_path / "a").stat().st_mode & 0o777 == 0o700
    assert set(modes.values()) == {0o600}
    assert len(modes) == 3


def test_a_folder_whose_fit_was_killed_before_it_had_a_checkpoint_is_as_good_as_new(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "checkpoint.json.tmp-0123456789ab").write_text("{")
    Books.open(PRODUCTS, RECORDS, checkpoint=tmp_path / "a").checkpoint.close()
    assert [path.name for path in (tmp_path / "a").iterdir()] == ["checkpoint.json"]


if __name__ == "__main__":
    resume_in_this_process(Path(sys.argv[1]), *sys.argv[2:])
