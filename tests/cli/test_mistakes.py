"""Mistakes that a hurried person makes: nothing is lost, nothing is spent, and one sentence says what to do."""

import json
import resource
import signal

import numpy as np
import pytest
import torch

from dpgm.cli.app import printable, run
from dpgm.data.domain import Categorical, Domain, Image, ItemSet, Numeric
from dpgm.errors import DiskError, UsageError
from dpgm.images.model import ImageArchitecture, ImageGenerator
from dpgm.privacy.ledger import Ledger
from dpgm.synthesis.conditioning import parse_where
from dpgm.synthesis.strategies import rebuild
from release_data import some_release


def refused(capsys, arguments, *words):
    capsys.readouterr()
    assert run([str(argument) for argument in arguments]) == 2
    lines = capsys.readouterr().err.strip().splitlines()
    assert len(lines) == 1, lines
    assert lines[0].startswith("dpgm: error[E-")
    assert "E-INTERNAL" not in lines[0]
    for word in words:
        assert word in lines[0], lines[0]


# -- nothing of the user's is destroyed --------------------------------------------------------------------------


def test_force_replaces_releases_and_nothing_else(capsys, tmp_path, data, fit):
    before = data.read_bytes()
    refused(capsys, [*fit, "--out", data, "--force"], "not a release")
    refused(capsys, [*fit, "--out", tmp_path, "--force"], "not a release")
    assert data.read_bytes() == before
    (tmp_path / "empty").mkdir()
    assert run([*fit, "--out", str(tmp_path / "empty"), "--force"]) == 0
    assert run([*fit, "--out", str(tmp_path / "empty"), "--force"]) == 0


def test_outputs_do_not_replace_inputs_or_existing_files(capsys, tmp_path, data):
    before = data.read_bytes()
    refused(capsys, ["evaluate", data, data, "--out", data, "--force"], "input")
    refused(capsys, ["evaluate", data, data, "--out", data], "input")
    refused(capsys, ["plan", "--epsilon", "1", "--records", "80", "--out", data], "--force")
    assert data.read_bytes() == before


# -- nothing is spent on a fit that cannot end -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "word"),
    [
        (["--out", "nowhere/release"], "folder does not exist"),
        (["--out", "visits.parquet/release"], "not a folder"),
        (["--out", "x" * 300], "too long"),
        (["--out", "release", "--device", "tpu"], "device"),
        (["--out", "release", "--checkpoint", "full"], "not empty"),
        (["--out", "release", "--checkpoint", "visits.parquet"], "checkpoint"),
        (["--out", "release", "--delta", "1e-300"], "noise"),
    ],
)
def test_a_fit_that_cannot_end_is_refused_before_the_ledger_is_charged(
    capsys, tmp_path, fit, monkeypatch, options, word
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").touch()
    ledger = Ledger.create(tmp_path / "people.ledger", 3.0, 1e-3)
    refused(capsys, [*fit, "--ledger", "people.ledger", *options], word)
    assert ledger.entries() == ()
    assert not list(tmp_path.glob("*.tmp-*"))


def test_a_fit_that_ended_can_be_written_again_and_never_run_again(capsys, tmp_path, fit):
    ledger = Ledger.create(tmp_path / "people.ledger", 3.0, 1e-3)
    folder = tmp_path / "progress"
    fit = [*fit, "--ledger", str(tmp_path / "people.ledger"), "--checkpoint", str(folder)]
    assert run([*fit, "--out", str(tmp_path / "a")]) == 0
    assert run([*fit, "--resume", "--out", str(tmp_path / "b")]) == 0
    assert (tmp_path / "a/model.safetensors").read_bytes() == (tmp_path / "b/model.safetensors").read_bytes()
    assert [entry.state for entry in ledger.entries()] == ["committed"]
    journal = folder / "journal.jsonl"
    journal.write_bytes(b"".join(journal.read_bytes().splitlines(keepends=True)[:2]))  # an older copy of it
    refused(capsys, [*fit, "--resume", "--out", tmp_path / "c"], "older than the results")
    for answer in folder.glob("answer-*"):
        if answer.name not in journal.read_text():
            answer.unlink()  # all of the folder is an older copy
    refused(capsys, [*fit, "--resume", "--out", tmp_path / "c"], "older copy")


# -- plans of another hand ---------------------------------------------------------------------------------------


def _set(part, **values):
    return lambda plan: (plan if part is None else plan[part]).update(values)


@pytest.mark.parametrize(
    "spoil",
    [
        _set(None, delta=0.9),
        _set(None, adjacency="replace-one"),
        _set(None, epsilon=float("nan")),
        _set(None, target_epsilon=1e9),
        _set(None, mechanisms=[]),
        _set("settings", model="gan"),
        _set("settings", clusters="many"),
        _set("settings", hidden=[]),
        _set("settings", sampling_rate=7),
        lambda plan: plan["mechanisms"].append(plan["mechanisms"][0] | {"name": "odd", "noise": 1e6}),
        lambda plan: plan["mechanisms"][0].update(sampling_rate=0.01),
    ],
)
def test_an_altered_plan_is_refused_before_the_ledger_is_charged(capsys, tmp_path, data, spoil):
    path = tmp_path / "plan.json"
    assert run(["plan", "--epsilon", "1", "--records", "80", "--items", "12", "--out", str(path)]) == 0
    plan = json.loads(path.read_text())
    spoil(plan)
    path.write_text(json.dumps(plan))
    ledger = Ledger.create(tmp_path / "people.ledger", 3.0, 1e-3)
    arguments = ["fit", data, "--assume-public-items", "--plan", path, "--out", tmp_path / "r", "--quiet"]
    refused(capsys, [*arguments, "--ledger", tmp_path / "people.ledger"])
    assert ledger.entries() == ()


def test_a_plan_with_a_number_of_thousands_of_digits_is_no_fault_of_ours(capsys, tmp_path, data):
    (tmp_path / "plan.json").write_text("1" + "0" * 5000)
    arguments = ["fit", data, "--assume-public-items", "--plan", tmp_path / "plan.json", "--out", tmp_path / "r"]
    refused(capsys, arguments, "plan")


# -- conditions --------------------------------------------------------------------------------------------------

MIXED = Domain(
    (
        ItemSet("places", ("a=b", "=x", "north")),
        Categorical("pay=x", ("low", "a=b"), missing=True),
        Numeric("age", 0, 9, 3),
    )
)


@pytest.mark.parametrize(
    ("condition", "position"),
    [
        ("places=a=b", 0),
        ("=x", 1),
        ("places==x", 1),
        ("north", 2),
        ("pay=x=low", 3),
        ("pay=x=a=b", 4),
        ("pay=x=missing", 5),
    ],
)
def test_names_and_labels_of_conditions_may_hold_the_equals_sign(condition, position):
    found = parse_where(condition, MIXED)
    offset = MIXED.offsets[[field.name for field in MIXED.fields].index(found.field)]
    assert (offset + np.flatnonzero(MIXED.field(found.field).positions_with(found.values))).tolist() == [position]


@pytest.mark.parametrize(("condition", "words"), [("a=b", "several ways"), ("age", "names no"), ("", "names no")])
def test_a_condition_that_names_nothing_or_two_things_is_refused(condition, words):
    with pytest.raises(UsageError, match=words):
        parse_where([condition], MIXED)


def test_odd_requests_for_samples_are_one_sentence(capsys, tmp_path, fit):
    release, out = tmp_path / "release", tmp_path / "s.csv"
    assert run([*fit, "--out", str(release)]) == 0
    sample = ["sample", release, "--out", out]
    refused(capsys, [*sample, "--records", "5", "--seed", "-1"], "seed")
    refused(capsys, [*sample, "--records", "9" * 20], "records")
    refused(capsys, ["sample", release, "--records", "5", "--out", tmp_path / "no/s.csv"], "folder does not exist")
    assert not out.exists()


# -- what is printed ---------------------------------------------------------------------------------------------


def test_names_cannot_drive_the_terminal(capsys, tmp_path):
    assert printable("a\x1b[31m\nb\udc80") == "a?[31m b?"
    refused(capsys, ["fit", tmp_path / "\x1b[2Jx.csv", "--epsilon", "1", "--out", tmp_path / "r"], "?[2Jx.csv")


def test_a_small_epsilon_is_not_shown_as_none(capsys, data, tmp_path):
    fit = ["fit", str(data), "--assume-public-items", "--epsilon", "1e-5", "--out", str(tmp_path / "r")]
    assert run(fit) == 0
    assert "epsilon = 0.0000," not in capsys.readouterr().err


def test_an_image_release_can_be_opened():
    domain = Domain((Image("scan", 6, 6),))
    sizes = {"network": "dct", "height": 6, "columns": 6, "classes": 1, "latent": 2, "hidden": [4, 4]}
    sizes |= {"radius": 5.0, "warp_order": 1}
    shapes = ImageArchitecture("dct", 6, 6, 1, 2, (4, 4), radius=5.0, warp_order=1).shapes
    tensors = {name: torch.zeros(shape) for name, shape in shapes.items()} | {"class.shares": torch.ones(1)}
    made = ImageGenerator.from_state(sizes, tensors, domain)
    opened = rebuild("image", {"kind": made.kind} | made.architecture, made.state(), domain)
    assert len(opened.sample(3, generator=torch.Generator().manual_seed(1))) == 3


def test_a_resumed_fit_keeps_its_options_its_ledger_and_its_results(capsys, tmp_path, fit):
    Ledger.create(tmp_path / "a#b %41.ledger", 3.0, 1e-3)
    folder, ledger = tmp_path / "progress", ["--ledger", str(tmp_path / "a#b %41.ledger")]
    fit = [*fit, "--checkpoint", str(folder)]
    assert run([*fit, *ledger, "--out", str(tmp_path / "a")]) == 0
    resumed = [*fit, "--resume", "--out", tmp_path / "b"]
    refused(capsys, resumed, "--ledger")
    refused(capsys, [*resumed, *ledger, "--delta", "1e-5"], "same options")
    (folder / "model.safetensors").write_bytes(next(iter(folder.glob("answer-*"))).read_bytes())
    refused(capsys, [*resumed, *ledger], "E-ARTEFACT", "damaged")
    (folder / "journal.jsonl").unlink()
    refused(capsys, [*resumed, *ledger], "E-ARTEFACT", "older")


def test_no_arguments_print_the_help_as_a_page(capsys):
    assert run([]) == 2
    printed = capsys.readouterr()
    assert len((printed.out + printed.err).splitlines()) > 5


def test_a_full_disk_is_reported(tmp_path):
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, before[1]))
    try:
        with pytest.raises(DiskError):
            some_release().save(tmp_path / "release")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)
    assert list(tmp_path.iterdir()) == []
