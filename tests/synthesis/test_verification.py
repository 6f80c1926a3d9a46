"""Forged releases that `verify` refuses, and that `load` and `sample` refuse as well."""

import json
import os
import shutil
from pathlib import Path

import pytest

import dpgm
from dpgm.cli.app import load_commands
from dpgm.cli.app import run as run_command
from dpgm.data.domain import Domain
from dpgm.errors import ArtefactError, PrivacyWarning, UsageError
from dpgm.mechanisms.randomness import PRIVATE_NAMES, SeededRandomness
from dpgm.privacy.attestation import Envelope, read_attestation, statement, why_not_signed
from dpgm.privacy.keys import create_keys, read_private_key, read_public_key
from dpgm.privacy.untrusted_files import ReleaseFolder
from dpgm.strategy.settings import Config
from dpgm.synthesis import verification
from dpgm.synthesis.plan import make_plan
from dpgm.synthesis.release import load, sign
from release_data import (
    edit,
    rehash,
    rewrite_epsilons,
    rewrite_readme,
    some_release,
    tensor_file,
    write_tensor_file,
)
from synthesis_data import IMAGES, SETS, TABLE, small_plan, some_records

load_commands()


def failed(folder):
    return [check.name for check in dpgm.verify(folder).failed if "not tried" not in check.why]


def refused(folder, name, capsys):
    """`verify` names the check and does not say certified; `sample` and `load` refuse; --unverified opens it."""
    assert name in failed(folder)
    assert run_command(["verify", str(folder)]) == 1
    printed = capsys.readouterr()
    assert "certified" not in printed.out
    assert "E-CHECK" in printed.err
    out = folder.parent / "drawn.csv"
    draw = ["sample", str(folder), "--records", "5", "--out", str(out)]
    assert run_command(draw) == 2
    assert "--unverified" in capsys.readouterr().err
    assert not out.exists()
    with pytest.raises(ArtefactError, match="does not verify"):
        load(folder)
    assert run_command([*draw, "--unverified"]) == 0
    assert "was not verified" in capsys.readouterr().err
    out.unlink()


def test_an_untouched_release_is_certified(folder, capsys):
    assert failed(folder) == []
    assert run_command(["verify", str(folder)]) == 0
    printed = capsys.readouterr().out
    assert "certified: epsilon" in printed
    assert "not signed" in printed
    assert load(folder).domain == SETS


@pytest.mark.parametrize("domain", [SETS, TABLE], ids=["sets", "table"])
def test_fitted_releases_verify(domain, tmp_path, short_fits):
    dpgm.Synthesizer(1.0).fit(some_records(domain, 300)).save(tmp_path / "r")
    assert failed(tmp_path / "r") == []


def test_a_fit_planned_without_a_domain_verifies(tmp_path, short_fits):
    plan = make_plan(Config(1.0), 300)
    plan.check_complete(SETS)
    dpgm.Synthesizer(1.0).fit(some_records(SETS, 300), plan=plan).save(tmp_path / "r")
    assert failed(tmp_path / "r") == []


def test_a_delta_above_one_over_n_is_refused(folder, capsys):
    """Delta 0.5 at N = 20,000, with both epsilons and the README changed to match."""
    edit(folder, lambda d: d.update(delta=0.5))
    rewrite_epsilons(folder)
    refused(folder, "budget", capsys)


def test_a_weak_delta_is_warned_of(folder, capsys):
    edit(folder, lambda d: d.update(delta=1 / 30_000))  # between 1/(10 N) and 1/N
    rewrite_epsilons(folder)
    assert run_command(["verify", str(folder)]) == 0
    assert "warning: delta" in capsys.readouterr().out


@pytest.mark.parametrize("value", [None, 0.5, 99.0])
def test_a_false_or_missing_figure_for_replaced_records_is_refused(folder, capsys, value):
    edit(folder, lambda d: d.update(epsilon_replace_one=value))
    rewrite_readme(folder)
    refused(folder, "epsilon if a record is replaced", capsys)


def test_a_readme_that_says_another_epsilon_is_refused(folder, capsys):
    readme = folder / "README.md"
    readme.write_text(readme.read_text().replace("**epsilon = ", "**epsilon = 0.0"))
    rehash(folder)
    refused(folder, "README.md says what the certificate says", capsys)


def test_seeded_noise_called_private_is_refused(folder, capsys):
    edit(folder, lambda d: d.update(randomness="seeded generator, seed 3 (NOT PRIVATE)"))
    rewrite_readme(folder)
    refused(folder, "private randomness", capsys)


def test_a_warning_of_a_seed_beside_private_is_refused(folder, capsys):
    edit(folder, lambda d: d.update(warnings=["NOT PRIVATE: made with a seeded generator."]))
    rewrite_readme(folder)
    refused(folder, "sentences", capsys)


def _with_mechanisms(folder, change):
    """The mechanisms of both lists changed, and both epsilons to match."""
    listed = change(json.loads((folder / "certificate.json").read_text())["mechanisms"])
    edit(folder, lambda d: d.update(planned=listed, mechanisms=listed))
    rewrite_epsilons(folder)


@pytest.mark.parametrize("name", ["item counts", "record lengths", "pair counts"])
def test_mechanisms_dropped_from_both_lists_are_refused(folder, capsys, name):
    _with_mechanisms(folder, lambda listed: [entry for entry in listed if entry["name"] != name])
    refused(folder, "mechanisms of such a fit", capsys)


@pytest.mark.parametrize(
    "entry",
    [
        {"name": "gradients", "noise": 50.0, "count": 10, "sampling_rate": 0.01, "sample": "step"},
        {"name": "cluster sums", "noise": 90.0, "count": 1, "sampling_rate": 1.0, "sample": None},
    ],
    ids=["gradients", "cluster sums"],
)
def test_mechanisms_that_this_model_does_not_run_are_refused(folder, capsys, entry):
    _with_mechanisms(folder, lambda listed: [*({**one, "noise": 2 * one["noise"]} for one in listed), entry])
    refused(folder, "mechanisms of such a fit", capsys)


def test_a_mechanism_said_to_have_run_on_a_sample_is_refused(folder, capsys):
    _with_mechanisms(folder, lambda listed: [{**entry, "sampling_rate": 0.01} for entry in listed])
    refused(folder, "mechanisms of such a fit", capsys)


@pytest.mark.parametrize(
    "change",
    [
        lambda d: d.update(plan={}),
        lambda d: d["plan"].update(target_epsilon=0.1),
        lambda d: d["plan"].update(target_epsilon=1),
        lambda d: d["plan"].update(target_epsilon=1e300),
        lambda d: d["plan"].update(width="12"),
        lambda d: d["plan"].update(width=13),
        lambda d: d["plan"].update(settings=[]),
        lambda d: d["plan"]["settings"].update(family=3),
        lambda d: d["plan"]["settings"].update(model="image"),
        lambda d: d["plan"]["settings"].update(model="vae"),
        lambda d: d["plan"]["settings"].pop("family"),
        lambda d: d["plan"].update(note="hidden"),
        lambda d: d.update(records=10),
    ],
)
def test_a_plan_that_no_such_fit_follows_is_refused(folder, capsys, change):
    edit(folder, change)
    rewrite_readme(folder)
    refused(folder, "mechanisms of such a fit", capsys)


def test_an_extra_listed_file_is_refused(folder, capsys):
    (folder / "extra.json").write_text("{}")
    edit(folder, lambda d: d["files"].update({"extra.json": "0" * 64}))
    rehash(folder)
    refused(folder, "listed files", capsys)
    assert "folder listing" in failed(folder)


def test_an_extra_file_is_refused(folder, capsys):
    (folder / "notes.md").write_text("the epsilon is 0.1")
    refused(folder, "folder listing", capsys)


def _noted(raw):
    return json.dumps({"__metadata__": {"note": "ann: 34"}, **json.loads(raw)}, separators=(",", ":")).encode()


@pytest.mark.parametrize(
    "change",
    [
        _noted,
        lambda raw: raw + b" " * 80,
        lambda raw: raw.replace(b'{"weights"', b'{ "weights"').replace(b'{"probabilities"', b'{ "probabilities"'),
        lambda raw: raw.replace(b'"dtype":"F32"', b'"dtype":"F64","dtype":"F32"'),
        lambda raw: raw.replace(b'"dtype":"F32"', b'"note":1,"dtype":"F32"'),
        lambda raw: raw.replace(b'"shape":[2,12]', b'"shape":[2,Infinity]'),
    ],
    ids=["metadata", "padding", "white space", "a key twice", "a key too many", "infinity"],
)
def test_anything_but_tensors_in_the_header_is_refused(folder, change):
    header, data = tensor_file(folder)
    assert change(header) != header
    write_tensor_file(folder, change(header), data)
    assert failed(folder) == ["the generator opens"]
    with pytest.raises(ArtefactError):
        load(folder, unverified=True)  # not safe to open at all


@pytest.mark.parametrize("name", ["certificate.json", "domain.json"])
def test_a_file_in_another_form_is_refused(folder, name):
    """White space, order and escapes could hide a message; each file has one canonical form."""
    document = json.loads((folder / name).read_text())
    (folder / name).write_text(json.dumps(document))
    if name != "certificate.json":
        rehash(folder)
    assert failed(folder) == [{"certificate.json": "certificate text"}.get(name, name)]


@pytest.mark.parametrize(
    "sentence", ["The true epsilon is 0.1.", "Approved by the data protection office.", "![](http://x)"]
)
def test_a_sentence_that_dpgm_does_not_write_is_refused(folder, sentence):
    edit(folder, lambda d: d["statements"].append(sentence))
    rewrite_readme(folder)
    assert failed(folder) == ["sentences"]


@pytest.mark.parametrize(
    "change",
    [
        lambda d: d.update(statements=[]),
        lambda d: d.update(unit="person"),
        lambda d: d["statements"].append(d["statements"][0]),
        lambda d: d.update(software="another tool"),
        lambda d: d.update(software="dpgm 0.1.0, approved by the office"),
        lambda d: d.update(accountant="the office"),
    ],
)
def test_sentences_must_suit_the_guarantee(folder, change):
    edit(folder, change)
    rewrite_readme(folder)
    assert failed(folder) == ["sentences"]


def test_a_line_break_in_the_certificate_cannot_write_into_the_readme(folder):
    edit(folder, lambda d: d.update(software="dpgm 0.1\n\n## What is guaranteed\n\nepsilon = 0.01"))
    with pytest.raises(ArtefactError, match="one line"):
        dpgm.verify(folder)


def test_a_field_name_cannot_write_into_the_readme(tmp_path):
    odd = Domain.of_items(12, name="a\n\n## Epsilon is *zero* <script>")
    some_release(odd).save(tmp_path / "r")
    text = (tmp_path / "r" / "README.md").read_text()
    assert "\n## Epsilon" not in text
    assert "<script>" not in text
    assert failed(tmp_path / "r") == []


@pytest.mark.parametrize(
    ("change", "name"),
    [
        (lambda d: d.update(adjacency="replace-one"), "adjacency"),
        (lambda d: d["model"].update(components=3), "the generator opens"),
        (lambda d: d["model"].update(note="hidden"), "the generator opens"),
        (lambda d: d["model"].update(kind="vae"), "mechanisms of such a fit"),
        (lambda d: d.update(epsilon=d["epsilon"] / 2), "epsilon"),
        (lambda d: d["planned"].pop(), "plan equals run"),
        (lambda d: d["files"].pop("README.md"), "listed files"),
    ],
)
def test_other_forgeries_are_refused(folder, change, name):
    edit(folder, change)
    if name != "listed files":
        rewrite_readme(folder)
    assert name in failed(folder)


def test_a_hostile_list_of_mechanisms_is_not_costed(folder):
    """Accounting for many different sampled steps would take hours; the list is refused before."""
    entry = {"noise": 1.0, "count": 10**8, "sample": None}
    many = [{"name": f"m{n}", **entry, "sampling_rate": 0.5 + n / 1000} for n in range(90)]
    edit(folder, lambda d: d.update(planned=many, mechanisms=many))
    assert "mechanisms of such a fit" in failed(folder)
    edit(folder, lambda d: d.update(planned=many * 2, mechanisms=many * 2))
    with pytest.raises(ArtefactError, match="more than 100"):
        dpgm.verify(folder)


@pytest.mark.parametrize("name", ["certificate.json", "domain.json", "README.md", "model.safetensors"])
def test_a_huge_file_is_refused_without_being_read(folder, name, monkeypatch):
    """A terabyte that takes no room on the disk: hashing it would take hours."""
    with (folder / name).open("r+b") as file:
        file.truncate(2**40)
    monkeypatch.setitem(verification.LARGEST_FILES, "domain.json", 10**6)  # 200 MB of zeros are slow to read
    try:
        assert not dpgm.verify(folder).ok
    except ArtefactError:
        assert name == "certificate.json"
    with pytest.raises(ArtefactError):
        load(folder)


def test_a_seeded_release_opens_with_a_warning_and_never_verifies(tmp_path, capsys, short_fits):
    fitted = dpgm.Synthesizer(1.0, randomness=SeededRandomness(3)).fit(some_records(SETS, 300))
    fitted.save(tmp_path / "r")
    assert failed(tmp_path / "r") == ["private randomness"]
    assert run_command(["verify", str(tmp_path / "r")]) == 1
    assert "certified" not in capsys.readouterr().out
    with pytest.warns(PrivacyWarning, match="NOT PRIVATE"):
        assert len(load(tmp_path / "r").sample(5)) == 5


def test_a_network_must_have_the_sizes_of_its_plan(tmp_path):
    records = some_records(SETS, 100)
    config = Config(1.0, 1e-4, clusters=2, model="rbm")
    plan = small_plan(config, records, steps=3, cluster_steps=1, hidden=(5,), latent=2, features=8)
    dpgm.Synthesizer(1.0, 1e-4, clusters=2, model="rbm").fit(records, plan=plan).save(tmp_path / "r")
    assert failed(tmp_path / "r") == []
    for key, value in (("clusters", 3), ("hidden", 6), ("kind", "vae")):
        shutil.rmtree(tmp_path / "forged", ignore_errors=True)
        shutil.copytree(tmp_path / "r", tmp_path / "forged")
        edit(tmp_path / "forged", lambda d, key=key, value=value: d["model"].update({key: value}))
        assert failed(tmp_path / "forged") == ["mechanisms of such a fit"]


def test_an_image_plan_is_checked_too(tmp_path, folder):
    edit(folder, lambda d: d["plan"].update(width=None))
    edit(folder, lambda d: d["plan"]["settings"].update(model="image"))
    edit(folder, lambda d: d["model"].update(kind="image"))
    assert "mechanisms of such a fit" in failed(folder)
    assert make_plan(Config(1.0), 1000, IMAGES).check_complete(IMAGES) is None


def test_a_plan_that_leaves_a_stage_out_is_refused_before_anything_is_spent(tmp_path, capsys):
    some_records(SETS, 80).write(tmp_path / "d.parquet")
    made = make_plan(Config(1.0), 80, SETS).to_json()
    made["mechanisms"] = [entry for entry in made["mechanisms"] if entry["name"] != "pair counts"]
    (tmp_path / "plan.json").write_text(json.dumps(made))
    (tmp_path / "domain.json").write_text(
        json.dumps({"fields": [{"name": "items", "kind": "items", "items": [*range(12)]}]})
    )
    fit = ["fit", tmp_path / "d.parquet", "--domain", tmp_path / "domain.json", "--out", tmp_path / "r"]
    assert run_command([str(part) for part in [*fit, "--plan", tmp_path / "plan.json"]]) == 2
    assert "leaves out 'pair counts'" in capsys.readouterr().err


# -- signatures -------------------------------------------------------------------------------------------------


@pytest.fixture
def keys(tmp_path):
    return create_keys(tmp_path / "office")


def test_a_signed_release_verifies_with_its_key_alone(folder, keys, tmp_path, capsys):
    private, public = keys
    assert run_command(["sign", str(folder), "--key", str(private)]) == 0
    assert run_command(["verify", str(folder), "--signed-by", str(public)]) == 0
    assert "ok    signed by" in capsys.readouterr().out
    assert dpgm.verify(folder, signed_by=public).signature == "valid"
    assert run_command(["verify", str(folder)]) == 0
    assert "signature not checked" in capsys.readouterr().out
    assert load(folder).domain == SETS
    other = create_keys(tmp_path / "other")[1]
    assert run_command(["verify", str(folder), "--signed-by", str(other)]) == 1
    assert "certified" not in capsys.readouterr().out
    assert dpgm.verify(folder, signed_by=other).signature == "not valid"


def _a_folder(path):
    path.mkdir()
    (path / "rows.csv").write_text("ann,34\n")


def _a_link(path):
    rows = path.parent.parent / "rows.csv"
    rows.write_bytes(bytes(64))
    path.symlink_to(rows)


def _a_second_name(path):
    path.write_bytes(bytes(64))
    os.link(path, path.parent / "rows.csv")


@pytest.mark.parametrize(
    "put",
    [
        lambda path: path.write_bytes(b"ann,34\n" * 800_000),
        lambda path: path.write_bytes(bytes(64)),
        lambda path: path.write_bytes(b""),
        _a_folder,
        _a_link,
        _a_second_name,
        lambda path: path.symlink_to(path.parent / "nowhere"),
        os.mkfifo,
    ],
    ids=["rows", "64 bytes", "empty", "folder", "link", "hard link", "dangling link", "pipe"],
)
def test_what_lies_in_the_place_of_a_signature_must_be_one(folder, keys, capsys, put):
    put(folder / "certificate.intoto.jsonl")
    assert failed(folder)
    assert run_command(["verify", str(folder)]) == 1
    printed = capsys.readouterr()
    assert "certified" not in printed.out
    assert printed.err.count("\n") == 1
    with pytest.raises(ArtefactError, match="does not verify"):
        load(folder)
    with pytest.raises(ArtefactError, match="was not signed"):
        sign(folder, read_private_key(keys[0]))


def test_a_signature_that_nobody_checked_is_called_not_checked(folder, capsys):
    """Of any key or of none: a signature proves nothing until a key is named."""
    certificate = (folder / "certificate.json").read_bytes()
    unchecked = Envelope(statement(certificate), {"0" * 64: bytes(64)}).to_json()
    (folder / "certificate.intoto.jsonl").write_text(unchecked)
    assert dpgm.verify(folder).signature == "not checked"
    assert run_command(["verify", str(folder)]) == 0
    printed = capsys.readouterr().out
    assert "signature not checked" in printed
    assert "is signed" not in printed
    assert run_command(["verify", str(folder), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["signature"] == "not checked"
    assert "are not checked" in (folder / "README.md").read_text()
    (folder / "certificate.intoto.jsonl").unlink()
    assert dpgm.verify(folder).signature == "none"


# -- who writes into the folder while it is checked ---------------------------------------------------------------


@pytest.fixture
def switched(folder, tmp_path, monkeypatch):
    """Every file of the release is replaced by that of another, well-formed one as soon as it was opened once."""
    other = tmp_path / "other"
    some_release(TABLE).save(other)
    opened, real = [], os.open

    def switch(path, *rest, **more):
        handle = real(path, *rest, **more)
        place = Path(os.fsdecode(path)) if isinstance(path, str | bytes | os.PathLike) else Path()
        if place.parent == folder and (other / place.name).is_file():
            opened.append(place.name)
            shutil.copy(other / place.name, tmp_path / "copy")
            (tmp_path / "copy").replace(place)
        return handle

    monkeypatch.setattr(os, "open", switch)
    return opened


@pytest.mark.parametrize("unverified", [False, True])
def test_what_was_checked_is_what_is_opened(folder, original, switched, unverified):
    release = load(folder, unverified=unverified)
    assert release.domain == SETS
    assert release.certificate == load(original).certificate
    before, now = load(original).generator.state(), release.generator.state()
    assert all(bool((before[name] == now[name]).all()) for name in before)
    needed = {"certificate.json", "domain.json", "measurements.parquet", "model.safetensors"}
    needed |= set() if unverified else {"README.md", "certificate.html"}
    assert sorted(switched) == sorted(needed)  # each once


def test_what_was_checked_is_what_is_signed(folder, original, keys, switched, tmp_path):
    sign(folder, read_private_key(keys[0]))
    checked = tmp_path / "as it was checked"
    shutil.copytree(original, checked)
    (folder / "certificate.intoto.jsonl").rename(checked / "certificate.intoto.jsonl")
    assert why_not_signed(ReleaseFolder(checked), read_public_key(keys[1])) is None


# -- other forgeries ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("change", ["{0}; {0}", "{0}; {1}", "{0};", "{0}; ", " {0}", ""])
def test_sources_of_noise_are_listed_once_and_in_order(folder, capsys, change):
    first, second = sorted(PRIVATE_NAMES, reverse=True)[:2]
    edit(folder, lambda d: d.update(randomness=change.format(first, second)))
    rewrite_readme(folder)
    refused(folder, "private randomness", capsys)


def _doubled(listed):
    return [{**entry, "noise": 2 * entry["noise"]} for entry in listed]


def _rotated(listed):
    return [
        {**entry, "noise": other["noise"]} for entry, other in zip(listed, listed[1:] + listed[:1], strict=True)
    ]


@pytest.mark.parametrize("change", [_doubled, _rotated])
def test_a_forgery_that_is_consistent_fails_the_signature(folder, keys, change):
    """Half the epsilon with double the noise, or noises in another order: every other check holds."""
    sign(folder, read_private_key(keys[0]))
    signed = read_attestation(ReleaseFolder(folder))
    _with_mechanisms(folder, change)
    assert failed(folder) == ["attestation, if any"]  # it is about the certificate as it was
    restated = Envelope(statement((folder / "certificate.json").read_bytes()), signed.signatures)
    (folder / "certificate.intoto.jsonl").write_text(restated.to_json())
    assert failed(folder) == []
    verification = dpgm.verify(folder, signed_by=keys[1])
    assert [check.name.split()[0] for check in verification.failed if "not tried" not in check.why] == ["signed"]


def test_an_unsigned_release_fails_where_a_signature_is_asked_for(folder, keys, capsys):
    assert run_command(["verify", str(folder), "--signed-by", str(keys[1])]) == 1
    assert "is not signed" in capsys.readouterr().err


def test_what_does_not_verify_is_not_signed(folder, keys):
    edit(folder, lambda d: d.update(delta=0.5))
    with pytest.raises(ArtefactError, match="was not signed"):
        sign(folder, read_private_key(keys[0]))
    assert not (folder / "certificate.intoto.jsonl").exists()


def test_fit_signs(tmp_path, keys, capsys, short_fits):
    some_records(SETS, 80).write(tmp_path / "d.parquet")
    data, out = str(tmp_path / "d.parquet"), str(tmp_path / "r")
    fit = ["fit", data, "--assume-public-items", "--epsilon", "1", "--out", out]
    assert run_command([*fit, "--sign", str(keys[1])]) == 2  # the public key: refused before anything is spent
    assert run_command([*fit, "--sign", str(keys[0]), "--seed", "1"]) == 2
    assert not (tmp_path / "r").exists()
    assert run_command([*fit, "--sign", str(keys[0])]) == 0, capsys.readouterr().err
    assert dpgm.verify(tmp_path / "r", signed_by=keys[1]).ok


def test_a_seeded_fit_is_not_signed(tmp_path, keys):
    with pytest.raises(UsageError, match="not signed"):
        some_release(private=False).save(tmp_path / "r", key=read_private_key(keys[0]))


@pytest.mark.parametrize("value", [[0.3], 10**400, [10**400] * 4, []], ids=["short", "huge", "huge list", "empty"])
def test_rules_that_make_no_sense_are_refused_in_a_sentence(folder, value):
    certificate = json.loads((folder / "certificate.json").read_text())
    rules = certificate["plan"]["settings"]["family"]["rules"]
    places = [(group, name) for group, part in rules.items() if isinstance(part, dict) for name in part]
    assert len(places) > 20
    for group, name in places:
        changed = json.loads(json.dumps(certificate))
        changed["plan"]["settings"]["family"]["rules"][group][name] = value
        (folder / "certificate.json").write_text(json.dumps(changed))
        with pytest.raises(dpgm.DpgmError):
            load(folder)


def test_a_check_whose_reason_is_an_empty_text_has_failed(folder, monkeypatch):
    def odd(certificate):
        raise UsageError("; what is before the semicolon is the reason")

    monkeypatch.setattr(verification, "plan_of", odd)
    assert {"certificate text", "mechanisms of such a fit"} <= set(failed(folder))
