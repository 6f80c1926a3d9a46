"""A fit killed anywhere resumes, charges everything that ran, and never more than the plan."""

import json
import shutil

import pytest
import torch

import dpgm
from dpgm.errors import ArtefactError, BudgetError, UsageError
from dpgm.mechanisms.randomness import SeededRandomness
from dpgm.privacy.ledger import Ledger
from dpgm.strategy.protocol import RunContext
from dpgm.synthesis import checkpoint
from dpgm.synthesis.books import Books
from dpgm.synthesis.checkpoint import Checkpoint
from dpgm.synthesis.fingerprint import rows_fingerprint
from dpgm.synthesis.journal import Journal
from dpgm.synthesis.strategies import fit_generator
from synthesis_data import SETS, KilledError, some_records, tiny_plan

RECORDS = some_records(SETS, 60)
PRODUCTS = tiny_plan("products", SETS, len(RECORDS))
ONE_VAE = tiny_plan("vae", SETS, len(RECORDS), sampling_rate=0.3)
TWO_VAES = tiny_plan("vae", SETS, len(RECORDS), clusters=2, sampling_rate=0.3)


def _fit(plan, saved, seed):
    gateway = Books(plan, RECORDS, None, saved).gateway(SeededRandomness(seed))
    draws = torch.Generator().manual_seed(saved.public_seed)
    generator = fit_generator(gateway, plan, SETS, draws=draws, context=RunContext(checkpoint=saved))
    gateway.assert_complete()
    return generator, gateway


@pytest.mark.parametrize("model", ["products", "vae", "rbm"])
@pytest.mark.parametrize("before", [True, False], ids=["before-the-write", "after-the-write"])
def test_killed_at_every_journal_entry_a_fit_resumes_within_its_plan(tmp_path, monkeypatch, model, before):
    plan = tiny_plan(model, SETS, len(RECORDS), clusters=2 if model == "vae" else 1, sampling_rate=0.3)
    append = Journal.append
    entries = {"products": 6, "vae": 22, "rbm": 9}[model]
    finished = 0
    for fatal in range(entries):
        seen = 0

        def dying(self, entry, fatal=fatal):
            nonlocal seen
            seen += 1
            if seen == fatal + 1 and before:
                raise KilledError
            append(self, entry)
            if seen == fatal + 1:
                raise KilledError

        folder = tmp_path / f"{fatal}-{before}"
        saved = Checkpoint.start(folder, plan, RECORDS)
        monkeypatch.setattr(Journal, "append", dying)
        with pytest.raises(KilledError):
            _fit(plan, saved, seed=fatal)
        monkeypatch.setattr(Journal, "append", append)
        saved.close()
        resumed = Checkpoint.resume(folder, plan, RECORDS)
        lost_for_good = [name for name in resumed.lost if plan.mechanism(name).count == 1]
        if lost_for_good:
            # Charged and its answer lost: the only run of the plan is spent, and the query may not be repeated.
            with pytest.raises(BudgetError):
                _fit(plan, resumed, seed=100 + fatal)
            continue
        _, gateway = _fit(plan, resumed, seed=100 + fatal)
        assert {m.name: m.count for m in gateway.spent} == {m.name: m.count for m in plan.mechanisms}
        finished += 1
    assert finished >= entries // 3


def test_a_resumed_fit_gets_the_same_answers_and_fresh_noise_for_the_rest(tmp_path):
    first = Checkpoint.start(tmp_path / "a", TWO_VAES, RECORDS)
    _fit(TWO_VAES, first, seed=1)
    first.close()
    answers = sorted(path.name for path in (tmp_path / "a").glob("answer-*"))
    assert len(answers) == 9
    again = Checkpoint.resume(tmp_path / "a", TWO_VAES, RECORDS)
    before = {path.name: path.read_bytes() for path in (tmp_path / "a").iterdir()}
    _fit(TWO_VAES, again, seed=1)
    assert {path.name: path.read_bytes() for path in (tmp_path / "a").iterdir()} == before


def test_a_checkpoint_holds_released_values_only(tmp_path):
    _fit(TWO_VAES, Checkpoint.start(tmp_path / "a", TWO_VAES, RECORDS), seed=1)
    names = {path.name.split("-")[0] for path in (tmp_path / "a").iterdir()}
    assert names == {"answer", "trainer", "checkpoint.json", "journal.jsonl"}
    header = json.loads((tmp_path / "a" / "checkpoint.json").read_text())
    assert set(header) == {"format", "plan", "public_seed", "fingerprint", "ledger_entry", "sha256"}


def test_a_torn_journal_line_is_dropped(tmp_path):
    saved = Checkpoint.start(tmp_path / "a", PRODUCTS, RECORDS)
    saved.charge("item counts")
    with (tmp_path / "a" / "journal.jsonl").open("ab") as journal:
        journal.write(b'{"charge": "pair cou')
    saved.close()
    resumed = Checkpoint.resume(tmp_path / "a", PRODUCTS, RECORDS)
    assert resumed.lost == {"item counts": 1}
    resumed.charge("pair counts")
    resumed.close()
    assert Checkpoint.resume(tmp_path / "a", PRODUCTS, RECORDS).lost == {"item counts": 1, "pair counts": 1}


@pytest.mark.parametrize("name", ["checkpoint.json", "journal.jsonl", "answer-item-counts-1.safetensors"])
def test_a_damaged_checkpoint_is_refused_in_one_sentence(tmp_path, name):
    saved = Checkpoint.start(tmp_path / "a", PRODUCTS, RECORDS)
    saved.charge("item counts")
    saved.answer("item counts", torch.ones(3))
    saved.close()
    (tmp_path / "a" / name).write_bytes(b'{"charge": 1}\n{\n')
    with pytest.raises(ArtefactError):
        Checkpoint.resume(tmp_path / "a", PRODUCTS, RECORDS).replay("item counts")


@pytest.mark.parametrize(
    "entry",
    [
        *(
            {"charge": "item counts", "runs": runs}
            for runs in (1e400, 1e300, 10**30, 1.5, "5", True, 0, -1, None, [])
        ),
        *({"steps": steps, "file": "x.safetensors", "sha256": ""} for steps in (1e400, 2.0, -1, "3")),
        *(
            {"answer": "item counts", "file": file, "sha256": ""}
            for file in ("..", "a/b", "x\0.safetensors", "x.pt")
        ),
    ],
)
def test_a_forged_entry_that_makes_no_sense_is_refused_in_one_sentence(tmp_path, entry):
    saved = Checkpoint.start(tmp_path / "a", PRODUCTS, RECORDS)
    saved._journal.append(entry)
    saved.close()
    with pytest.raises(ArtefactError, match="damaged"):
        Checkpoint.resume(tmp_path / "a", PRODUCTS, RECORDS)


@pytest.mark.parametrize(
    "change",
    [
        *({"public_seed": value} for value in ("x", -1, 2**62, 1.5, None, True)),
        *({"fingerprint": value} for value in (5, [])),
        *({"ledger_entry": value} for value in (5, [])),
    ],
)
def test_a_forged_header_is_refused_in_one_sentence(tmp_path, change):
    """The hash is correct: these ended in a traceback, some of them after the folder was locked."""
    Checkpoint.start(tmp_path / "a", PRODUCTS, RECORDS).close()
    path = tmp_path / "a" / "checkpoint.json"
    header = {name: value for name, value in json.loads(path.read_text()).items() if name != "sha256"} | change
    path.write_text(json.dumps(header | {"sha256": checkpoint._header_digest(header)}))
    with pytest.raises(ArtefactError, match="damaged"):
        Checkpoint.resume(tmp_path / "a", PRODUCTS, RECORDS)


def test_a_journal_of_a_trillion_runs_and_a_model_in_no_file_are_refused_at_once(tmp_path):
    """The names of all answers that so many runs may have were listed first."""
    saved = Checkpoint.start(tmp_path / "a", PRODUCTS, RECORDS)
    saved.charge("record lengths", 10**12)
    saved._record({"model": "products", "architecture": {}, "file": "elsewhere.safetensors", "sha256": ""})
    saved.save_steps(0, {"value": torch.ones(1)})
    (tmp_path / "a" / "trainer-0.safetensors").rename(tmp_path / "a" / "model.safetensors")
    saved.close()
    resumed = Checkpoint.resume(tmp_path / "a", PRODUCTS, RECORDS)
    assert resumed.lost == {"record lengths": 10**12}
    with pytest.raises(ArtefactError, match=r"model\.safetensors of the checkpoint is damaged"):
        resumed.model()


@pytest.mark.parametrize(
    "name", ["answer-item-counts-2", "answer-item-counts-x", "answer-pair-counts-1", "trainer-3"]
)
def test_a_result_that_the_journal_does_not_know_is_noticed(tmp_path, name):
    saved = Checkpoint.start(tmp_path / "a", PRODUCTS, RECORDS)
    saved.charge("item counts")
    saved.charge("step", 2)
    saved.close()
    for known in ("answer-item-counts-1", "trainer-2"):
        (tmp_path / "a" / f"{known}.safetensors").touch()
    Checkpoint.resume(tmp_path / "a", PRODUCTS, RECORDS).close()
    (tmp_path / "a" / f"{name}.safetensors").touch()
    with pytest.raises(ArtefactError, match="older than the results beside it"):
        Checkpoint.resume(tmp_path / "a", PRODUCTS, RECORDS)


def test_other_data_or_another_plan_is_refused(tmp_path):
    Checkpoint.start(tmp_path / "a", PRODUCTS, RECORDS).close()
    with pytest.raises(ArtefactError, match="other data"):
        Checkpoint.resume(tmp_path / "a", PRODUCTS, some_records(SETS, 60, seed=3))
    with pytest.raises(ArtefactError, match="another plan"):
        Checkpoint.resume(tmp_path / "a", tiny_plan("products", SETS, 61), RECORDS)
    with pytest.raises(ArtefactError, match="no checkpoint"):
        Checkpoint.resume(tmp_path / "b", PRODUCTS, RECORDS)
    with pytest.raises(UsageError, match="an earlier fit stopped"):
        Checkpoint.start(tmp_path / "a", PRODUCTS, RECORDS)
    assert Checkpoint.saved_plan(tmp_path / "a") == PRODUCTS


def test_the_fingerprint_tells_rows_apart_and_its_key_is_not_in_the_checkpoint(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    digest = rows_fingerprint(RECORDS)
    assert digest == rows_fingerprint(RECORDS)
    assert digest != rows_fingerprint(RECORDS.rows(0, 59))
    key = (tmp_path / "state" / "dpgm" / "fingerprint.key").read_bytes()
    Checkpoint.start(tmp_path / "a", PRODUCTS, RECORDS).close()
    for path in (tmp_path / "a").iterdir():
        assert key not in path.read_bytes()
        assert key.hex().encode() not in path.read_bytes()
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "other"))
    assert rows_fingerprint(RECORDS) != digest
    monkeypatch.setenv("XDG_STATE_HOME", "/proc/nowhere")
    assert rows_fingerprint(RECORDS) is None


def test_one_process_at_a_time(tmp_path):
    first = Checkpoint.start(tmp_path / "a", PRODUCTS, RECORDS)
    with pytest.raises(UsageError, match="another fit is running"):
        Checkpoint.resume(tmp_path / "a", PRODUCTS, RECORDS)
    first.close()
    Checkpoint.resume(tmp_path / "a", PRODUCTS, RECORDS).close()


def _vae(seed=None):
    return dpgm.Synthesizer(1.0, 1e-3, model="vae", randomness=None if seed is None else SeededRandomness(seed))


def test_a_fit_begun_with_a_seed_is_never_certified_private(tmp_path):
    _vae(seed=3).fit(RECORDS, plan=ONE_VAE, checkpoint=tmp_path / "a")
    certificate = _vae().fit(RECORDS, plan=ONE_VAE, checkpoint=tmp_path / "a", resume=True).certificate_
    assert not certificate.private
    assert "seed" in certificate.randomness
    assert any("NOT PRIVATE" in warning for warning in certificate.warnings)


def test_a_checkpoint_set_back_to_an_older_copy_cannot_spend_again(tmp_path):
    """Copied after 2 of 6 steps, the original run to 5, the copy resumed with the ledger: one step is left."""
    ledger = Ledger.create(tmp_path / "ledger", epsilon_cap=50, delta=1e-5)
    steps = []

    def stop_after(count):
        def progress(stage, done, total):
            if stage == "train":
                steps.append(done)
                if done == count:
                    raise KilledError

        return progress

    with pytest.raises(KilledError):
        _vae().fit(RECORDS, plan=ONE_VAE, checkpoint=tmp_path / "a", ledger=ledger, progress=stop_after(2))
    shutil.copytree(tmp_path / "a", tmp_path / "copy")
    with pytest.raises(KilledError):
        _vae().fit(
            RECORDS, plan=ONE_VAE, checkpoint=tmp_path / "a", resume=True, ledger=ledger, progress=stop_after(5)
        )
    steps.clear()
    fitted = _vae().fit(
        RECORDS, plan=ONE_VAE, checkpoint=tmp_path / "copy", resume=True, ledger=ledger, progress=stop_after(99)
    )
    assert steps == [6]
    assert {m.name: m.count for m in fitted.certificate_.mechanisms} == {
        m.name: m.count for m in ONE_VAE.mechanisms
    }
