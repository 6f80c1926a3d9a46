"""The commands cost, verify and ledger, through the same door as the terminal."""

import json
from dataclasses import replace

import pytest

import dpgm.cli.privacy
from dpgm.cli.app import run
from dpgm.privacy.accountant import gaussian_epsilon
from dpgm.privacy.events import Mechanism
from dpgm.privacy.ledger import Ledger
from release_data import edit as change_certificate
from release_data import rewrite_readme, some_release


@pytest.fixture
def dpgm(capsys):
    def call(*arguments):
        code = run([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return call


STEPS = ("--sampling-rate", "0.01", "--steps", "500")


def test_cost_prints_the_documented_figures(dpgm):
    code, out, err = dpgm(
        *("cost", "--sampling-rate", "0.0017", "--noise", "0.9701425", "--steps", "11780"),
        *("--delta", "1e-5", "--release", "28.284271:20", "--json"),
    )
    figures = json.loads(out)
    assert (code, err) == (0, "")
    assert figures["epsilon"] == pytest.approx(1.1561, abs=5e-4)
    assert figures["epsilon_rdp"] == pytest.approx(1.33867, abs=1e-3)
    assert figures["adjacency"] == "add-remove"
    assert figures["delta"] == 1e-5
    assert figures["epsilon_replace_one"] > figures["epsilon"]


def test_cost_is_readable_too(dpgm):
    code, out, _ = dpgm("cost", *STEPS, "--noise", "1.1", "--delta", "1e-5", "--release", "30:8")
    assert code == 0
    assert out.startswith("epsilon ")
    assert all(words in out for words in ("500 steps", "8 releases", "Renyi"))


def test_a_rate_of_one_is_every_record_every_step(dpgm):
    _, out, _ = dpgm("cost", "--sampling-rate", "1", "--noise", "40", "--steps", "20", "--delta", "1e-5", "--json")
    assert json.loads(out)["epsilon"] == pytest.approx(0.3846923540510611, rel=1e-9)


def test_cost_solves_for_the_noise(dpgm):
    _, out, _ = dpgm("cost", *STEPS, "--epsilon", "2", "--delta", "1e-5", "--release", "30", "--json")
    figures = json.loads(out)
    assert 1.99 <= figures["epsilon"] <= 2
    assert figures["noise"] > 0.5
    _, out, _ = dpgm("cost", "--steps", "20", "--epsilon", "1", "--delta", "1e-5", "--json")
    assert json.loads(out)["noise"] == pytest.approx(3.730631634815946 * 20**0.5, rel=1e-3)


def test_cost_solves_for_delta(dpgm):
    _, out, _ = dpgm("cost", *STEPS, "--noise", "1.1", "--epsilon", "1.5", "--json")
    figures = json.loads(out)
    assert figures["epsilon"] == pytest.approx(1.5, rel=1e-3)
    assert 0 < figures["delta"] < 1e-3
    _, out, _ = dpgm("cost", "--release", "5:1", "--epsilon", "1", "--json")
    assert gaussian_epsilon(0.2, json.loads(out)["delta"]) == pytest.approx(1.0, rel=1e-6)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--noise", "1", "--steps", "5"], "give --delta"),
        (["--steps", "5", "--delta", "1e-5"], "both --epsilon and --delta"),
        (["--noise", "1", "--delta", "1e-5"], "how many with --steps"),
        (["--noise", "1", "--steps", "-5", "--delta", "1e-5"], "at least 0"),
        (["--noise", "1", "--steps", "5", "--delta", "1e-5", "--epsilon", "1"], "leave one of the three out"),
        (["--delta", "1e-5"], "no mechanism"),
        (["--release", "5:x", "--delta", "1e-5"], "z:n"),
        (["--release", "-5:1", "--delta", "1e-5"], "noise"),
        (["--release", "5:0", "--delta", "1e-5"], "count"),
        (["--release", "5:1", "--delta", "1.5"], "delta"),
        (["--release", "5:1", "--delta", "nan"], "delta"),
        (["--release", "5:1", "--epsilon", "-1"], "epsilon"),
        (["--noise", "nan", "--steps", "5", "--delta", "1e-5"], "noise"),
        (["--noise", "inf", "--steps", "5", "--delta", "1e-5"], "noise"),
        (["--noise", "1", "--steps", "5", "--sampling-rate", "1.5", "--delta", "1e-5"], "--sampling-rate"),
        (["--noise", "1", "--steps", "5", "--sampling-rate", "0", "--delta", "1e-5"], "--sampling-rate"),
        (["--noise", "1", "--steps", "5", "--sampling-rate", "9e-13", "--delta", "1e-5"], "at least 1e-12"),
        (["--steps", "5", "--sampling-rate", "9e-13", "--delta", "1e-5", "--epsilon", "1"], "at least 1e-12"),
        (["--steps", "5", "--epsilon", "0", "--delta", "1e-5"], "epsilon"),
        (["--steps", "5", "--epsilon", "1", "--delta", "1e-5", "--release", "1:1"], "nothing left"),
        (["--steps", "5.5", "--noise", "1", "--delta", "1e-5"], "steps"),
        (["--release", "0.001:1", "--epsilon", "1"], "no delta below 1"),
    ],
)
def test_bad_input_is_one_sentence_and_exit_code_two(dpgm, arguments, words):
    code, out, err = dpgm("cost", *arguments)
    assert (code, out) == (2, "")
    assert err.startswith("dpgm: error[E-USAGE]: ")
    assert words in err
    assert err.count("\n") == 1


@pytest.fixture
def release(tmp_path):
    ledger = Ledger.create(tmp_path / "ledger", 3.0, 1e-6)
    made = some_release()
    mechanisms = made.certificate.mechanisms
    ledger.commit(ledger.start(ledger.reserve(mechanisms, 1e-6)), mechanisms)
    replace(made, certificate=replace(made.certificate, ledger=ledger.mark)).save(tmp_path / "release")
    return tmp_path / "release"


def edit(release, **changes):
    change_certificate(release, lambda document: document.update(changes))


def test_verify_passes_a_good_release(dpgm, release):
    code, out, err = dpgm("verify", release)
    assert (code, err) == (0, "")
    assert all(words in out for words in ("ok    epsilon", "certified: ", "per row", "not signed"))
    code, out, _ = dpgm("verify", release, "--json")
    assert (code, json.loads(out)["ok"]) == (0, True)
    assert json.loads(out)["signature"] == "none"


def test_verify_names_the_check_that_failed(dpgm, release):
    edit(release, epsilon=0.1)
    rewrite_readme(release)
    code, out, err = dpgm("verify", release)
    assert code == 1
    assert "FAIL  epsilon" in out
    assert "certified" not in out
    assert err.startswith("dpgm: error[E-CHECK]: epsilon: it states 0.1")
    code, out, _ = dpgm("verify", release, "--json")
    assert (code, json.loads(out)["ok"]) == (1, False)


def test_verify_fails_a_generator_that_does_not_open(dpgm, release):
    edit(release, model={"kind": "products", "components": 3})
    code, _, err = dpgm("verify", release)
    assert code == 1
    assert "the generator opens: the tensor" in err


def test_text_from_a_certificate_is_shown_escaped(dpgm, release):
    (release / "\x1b[31mred").write_text("")
    code, out, err = dpgm("verify", release)
    assert code == 1
    assert "red" in out + err
    assert "\x1b" not in out + err


def test_verify_fails_a_release_it_cannot_read(dpgm, release):
    edit(release, format=99)
    code, out, err = dpgm("verify", release, "--json")
    assert (code, json.loads(out)["ok"]) == (1, False)
    assert "certificate: the certificate has format version 99" in err
    assert dpgm("verify", release)[0] == 1
    code, _, err = dpgm("verify", release / "nowhere")
    assert code == 2
    assert "E-USAGE" in err


def test_a_ledger_is_made_shown_checked_and_voided(dpgm, tmp_path):
    path = tmp_path / "people.ledger"
    assert dpgm("ledger", "create", path, "--epsilon", "3", "--delta", "1e-6")[0] == 0
    entry = Ledger.open(path).reserve((Mechanism("counts", 20.0),), 1e-6)
    code, out, _ = dpgm("ledger", "show", path)
    assert code == 0
    assert all(words in out for words in (entry.name, "reserved", "fixed in advance"))
    assert dpgm("ledger", "void", path, entry.name)[0] == 0
    code, out, _ = dpgm("ledger", "show", path, "--json")
    figures = json.loads(out)
    assert figures["spent"] == 0
    assert figures["entries"][0]["state"] == "void"
    code, out, _ = dpgm("ledger", "check", path)
    assert code == 0
    assert "1 entry, and the chain of 3 lines about them holds" in out


def test_ledger_check_compares_releases(dpgm, release, tmp_path):
    assert dpgm("ledger", "check", tmp_path / "ledger", release)[0] == 0
    ledger = json.loads((release / "certificate.json").read_text())["ledger"]
    edit(release, ledger=ledger | {"spent": 0.1})
    assert "other totals" in dpgm("ledger", "check", tmp_path / "ledger", release)[2]
    edit(release, ledger=ledger | {"population": "0" * 32, "sequence": 1, "head": "0" * 64})
    code, _, err = dpgm("ledger", "check", tmp_path / "ledger", release)
    assert code == 1
    assert "another population" in err
    edit(release, ledger=None)
    assert dpgm("ledger", "check", tmp_path / "ledger", release)[0] == 1
    assert dpgm("ledger", "check", tmp_path / "absent")[0] == 2
