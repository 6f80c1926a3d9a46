import hashlib
import json
import os
from dataclasses import replace

import pytest

from dpgm.errors import ArtefactError, UsageError
from dpgm.privacy import certificate as certificates
from dpgm.privacy.accountant import ACCOUNTANT, cost
from dpgm.privacy.certificate import About, Certificate, LedgerMark, read_certificate
from dpgm.privacy.events import Adjacency, Mechanism
from dpgm.privacy.odds import odds
from dpgm.privacy.untrusted_files import ReleaseFolder
from dpgm.synthesis.verification import Verification, accounting_checks, file_checks, promise_checks

MECHANISMS = (
    Mechanism("cluster counts", 84.494, 8),
    Mechanism("norms", 4.8, 500, 0.01, "step"),
    Mechanism("gradients", 1.1, 500, 0.01, "step"),
)


@pytest.fixture(scope="module")
def epsilon():
    return cost(MECHANISMS, 1e-6, cache=False).epsilon


@pytest.fixture(scope="module")
def replaced():
    return cost(MECHANISMS, 1e-6, Adjacency.REPLACE_ONE, cache=False).epsilon


@pytest.fixture
def certificate(epsilon, replaced):
    return Certificate(
        epsilon=epsilon,
        delta=1e-6,
        unit="person",
        records=50_000,
        planned=MECHANISMS,
        mechanisms=MECHANISMS,
        accountant=ACCOUNTANT,
        randomness="operating system",
        private=True,
        software="dpgm 0.1.0",
        model={"kind": "mixture", "clusters": 10, "layers": [200, 2]},
        files={},
        warnings=("a warning",),
        statements=("the items are public knowledge",),
        epsilon_replace_one=replaced,
        odds=odds(MECHANISMS, 1e-6),
        about=About("Visits", "The office", "Visitors of 2025", "2026-01-31"),
        ledger=LedgerMark("0123456789abcdef" * 2, 3, "fedcba98" * 8, 3.0, 1e-6, 2, 0.7, 1.4),
    )


@pytest.fixture
def release(tmp_path, certificate):
    folder = tmp_path / "release"
    folder.mkdir()
    (folder / "model.safetensors").write_bytes(bytes(range(256)) * 10)
    (folder / "domain.json").write_text("{}")
    (folder / "README.md").write_text("# A release\n")
    (folder / "measurements.parquet").write_bytes(b"PAR1")
    write(folder, certificate)
    return folder


def write(folder, certificate):
    contents = {path.name: path.read_bytes() for path in folder.iterdir() if path.name != "certificate.json"}
    files = {name: hashlib.sha256(content).hexdigest() for name, content in contents.items()}
    (folder / "certificate.json").write_text(replace(certificate, files=files).to_json())


def edit(folder, change):
    path = folder / "certificate.json"
    document = json.loads(path.read_text())
    change(document)
    path.write_text(json.dumps(document))


def verify_release(folder):
    """The checks that need no domain and no generator; `dpgm.verify` has those as well."""
    certificate = read_certificate(folder)
    promises, weak = promise_checks(certificate)
    epsilon, accounting = accounting_checks(certificate)
    checks = (*accounting, *promises, *file_checks(ReleaseFolder(folder), certificate))
    return Verification(certificate, checks, epsilon, weak)


def failed(folder):
    return [check.name for check in verify_release(folder).failed]


def test_a_certificate_survives_being_written_and_read(certificate):
    assert Certificate.from_json(certificate.to_json()) == certificate
    bare = replace(
        certificate, ledger=None, epsilon_replace_one=None, odds=None, about=About(), warnings=(), statements=()
    )
    assert Certificate.from_json(bare.to_json()) == bare


def test_an_untouched_release_verifies(release):
    verification = verify_release(release)
    assert verification.ok
    assert verification.failed == ()
    assert verification.epsilon == pytest.approx(verification.certificate.epsilon)
    assert read_certificate(release) == verification.certificate


@pytest.mark.parametrize("name", ["model.safetensors", "domain.json", "README.md"])
def test_a_changed_byte_is_found(release, name):
    content = bytearray((release / name).read_bytes())
    content[1] ^= 1
    (release / name).write_bytes(content)
    assert failed(release) == [f"sha256 of {name}"]


def test_a_mechanism_missing_from_what_ran_is_found(release):
    edit(release, lambda document: document["mechanisms"].pop(0))
    assert "plan equals run" in failed(release)


def test_a_mechanism_missing_from_both_lists_is_found(release):
    def drop(document):
        for key in ("planned", "mechanisms"):
            document[key] = [entry for entry in document[key] if entry["name"] != "gradients"]

    edit(release, drop)
    assert failed(release) == ["mechanisms complete", "epsilon if a record is replaced", "odds"]


def test_a_mechanism_that_was_not_planned_is_found(release):
    edit(release, lambda document: document["planned"].pop(0))
    assert failed(release) == ["plan equals run"]


def test_more_noise_than_was_planned_is_found(release):
    edit(release, lambda document: document["mechanisms"][0].update(noise=90.0))
    assert "plan equals run" in failed(release)


def test_no_mechanism_at_all_is_found(release):
    edit(release, lambda document: document.update(planned=[], mechanisms=[]))
    assert failed(release) == ["epsilon", "plan equals run"]
    assert verify_release(release).epsilon == float("inf")


@pytest.mark.parametrize("factor", [0.5, 0.99, 0.999])
def test_an_epsilon_lower_than_its_mechanisms_cost_is_found(release, factor, epsilon):
    edit(release, lambda document: document.update(epsilon=epsilon * factor))
    assert failed(release) == ["epsilon"]


@pytest.mark.parametrize("value", [None, 0.1, 50.0])
def test_a_false_or_missing_figure_for_replaced_records_is_found(release, value):
    edit(release, lambda document: document.update(epsilon_replace_one=value))
    assert failed(release) == ["epsilon if a record is replaced"]


@pytest.mark.parametrize("change", [{"accused": -1.0}, {"guesses": -0.3}, {"accused": 0.5}])
def test_odds_that_are_not_those_of_the_mechanisms_are_found(release, change):
    def shift(document):
        document["odds"] = {name: figure + change.get(name, 0.0) for name, figure in document["odds"].items()}

    edit(release, shift)
    assert failed(release) == ["odds"]
    edit(release, lambda document: document.update(odds=None))
    assert failed(release) == ["odds"]


def test_what_a_curator_says_is_one_line_and_a_day():
    with pytest.raises(UsageError, match="`title`"):
        About(title="two\nlines")
    with pytest.raises(UsageError, match="`date`"):
        About(date="tomorrow")


def test_the_rules_of_a_fit_hold_for_a_certificate(release):
    edit(release, lambda document: document.update(delta=1e-4))
    assert "budget" in failed(release)
    edit(release, lambda document: document.update(delta=1e-6, epsilon=150.0))
    assert "budget" in failed(release)
    edit(release, lambda document: document.update(adjacency="replace-one"))
    assert "adjacency" in failed(release)


def test_a_weak_delta_is_warned_of(release):
    edit(release, lambda document: document.update(records=200_000))
    assert any("delta" in warning for warning in verify_release(release).warnings)


def test_an_extra_file_is_found(release):
    (release / "weights.pkl").write_bytes(b"")
    assert failed(release) == ["folder listing"]


def test_a_missing_file_is_found(release):
    (release / "domain.json").unlink()
    assert failed(release) == ["folder listing", "sha256 of domain.json"]


def test_a_link_is_not_followed(release, tmp_path):
    secret = tmp_path / "secret"
    secret.write_text("{}")
    (release / "domain.json").unlink()
    (release / "domain.json").symlink_to(secret)
    assert failed(release) == ["sha256 of domain.json"]


def test_a_device_is_not_read(release):
    (release / "domain.json").unlink()
    os.mkfifo(release / "domain.json")
    assert failed(release) == ["sha256 of domain.json"]


@pytest.mark.parametrize(
    "name", ["../outside.json", "/etc/passwd", "a/b.json", "..", "x..y.json", "certificate.json"]
)
def test_a_name_that_leaves_the_folder_is_never_opened(release, name):
    edit(release, lambda document: document["files"].update({name: "0" * 64}))
    assert failed(release) == ["listed files"]


def test_a_file_that_is_not_listed_is_found(release):
    edit(release, lambda document: document["files"].pop("README.md"))
    assert failed(release) == ["listed files", "sha256 of README.md"]


def test_a_pickle_named_in_the_certificate_is_refused(release, certificate):
    (release / "model.pkl").write_bytes(b"")
    write(release, certificate)
    assert failed(release) == ["listed files", "folder listing"]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda d: d.update(format=1), "format version 1"),
        (lambda d: d.update(format=True), "format version"),
        (lambda d: d.pop("format"), "format version None"),
        (lambda d: d.update(loss=1.0), "unknown key"),
        (lambda d: d.pop("warnings"), "lacks 'warnings'"),
        (lambda d: d.update(epsilon="1"), "epsilon"),
        (lambda d: d.update(epsilon=10**400), "finite"),
        (lambda d: d.update(epsilon=float("inf")), "not a number"),
        (lambda d: d.update(software="a\nb"), "one line"),
        (lambda d: d.update(software="\x1b[31m"), "one line"),
        (lambda d: d.update(statements=["a\u2028b"]), "one line"),
        (lambda d: d.update(warnings=["x" * 2000]), "one line"),
        (lambda d: d.update(plan=None), "plan"),
        (lambda d: d.update(mechanisms=d["mechanisms"] * 40), "more than 100"),
        (lambda d: d.update(epsilon=-1), "out of range"),
        (lambda d: d.update(delta=0), "out of range"),
        (lambda d: d.update(delta=1.0), "out of range"),
        (lambda d: d.update(records=0), "out of range"),
        (lambda d: d.update(records=True), "records"),
        (lambda d: d.update(records=1.5), "records"),
        (lambda d: d.update(unit="family"), "unit"),
        (lambda d: d.update(adjacency="any"), "adjacency"),
        (lambda d: d.update(private=1), "private"),
        (lambda d: d.update(model=[]), "model"),
        (lambda d: d.update(files={"a.json": 1}), "SHA-256"),
        (lambda d: d.update(warnings=[1]), "warnings"),
        (lambda d: d.update(mechanisms=[1]), "mechanisms"),
        (lambda d: d.update(ledger=[]), "ledger"),
        (lambda d: d.update(ledger={"population": "a"}), "lacks"),
        (lambda d: d["ledger"].pop("spent"), "lacks 'spent'"),
        (lambda d: d["ledger"].update(epsilon_cap=0), "totals"),
        (lambda d: d["ledger"].update(delta=1), "totals"),
        (lambda d: d["ledger"].update(spent=-1), "totals"),
        (lambda d: d["ledger"].update(fits=0), "totals"),
        (lambda d: d["ledger"].update(epsilon_if_fixed="1"), "epsilon_if_fixed"),
        (lambda d: d.update(odds=[]), "odds"),
        (lambda d: d["odds"].update(accused=101), "between 0 and 100"),
        (lambda d: d["odds"].update(guesses=-1), "between 0 and 100"),
        (lambda d: d["odds"].update(other=1), "unknown key"),
        (lambda d: d.update(about=None), "about"),
        (lambda d: d["about"].update(title="x" * 161), "at most 160"),
        (lambda d: d["about"].update(owner="a\u202eb"), "one line"),
        (lambda d: d["about"].update(population=1), "one line"),
        (lambda d: d["about"].update(date="31.1.2026"), "such as 2026-01-31"),
        (lambda d: d["about"].update(date="20260131"), "such as 2026-01-31"),
        (lambda d: d["ledger"].update(population="ann, 34"), "32 hexadecimal"),
        (lambda d: d["ledger"].update(population="A" * 32), "32 hexadecimal"),
        (lambda d: d["ledger"].update(population="0" * 31 + "\n"), "one line"),
        (lambda d: d["ledger"].update(head=""), "64 hexadecimal"),
        (lambda d: d["ledger"].update(head="0" * 65), "64 hexadecimal"),
        (lambda d: d["ledger"].update(head="\uff10" * 64), "64 hexadecimal"),
        (lambda d: d["ledger"].update(sequence=0), "at least 1"),
        (lambda d: d["ledger"].update(sequence=10**30), "too large"),
        (lambda d: d["ledger"].update(sequence=True), "sequence"),
        (lambda d: d.update(records=10**400), "too large"),
        (lambda d: d["mechanisms"][0].update(count=10**400), "too large"),
        (lambda d: d["mechanisms"][0].pop("noise"), "lacks 'noise'"),
        (lambda d: d["mechanisms"][0].update(kind="laplace"), "unknown key"),
        (lambda d: d["mechanisms"][0].update(noise=0), "out of range"),
        (lambda d: d["mechanisms"][0].update(noise=1e300), "out of range"),
        (lambda d: d["mechanisms"][0].update(count=0), "out of range"),
        (lambda d: d["mechanisms"][0].update(sampling_rate=2), "out of range"),
        (lambda d: d["mechanisms"][0].update(sample=1), "sample"),
    ],
)
def test_a_certificate_that_is_not_exactly_one_is_refused(release, change, words):
    edit(release, change)
    with pytest.raises(ArtefactError, match=words):
        verify_release(release)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "not valid JSON"),
        ("[]", "not a JSON object"),
        ('{"format": 1, "format": 1}', "twice"),
        ('{"format": NaN}', "not a number"),
        ('{"a": ' * 100_000, "not valid JSON"),
        ('{"format": ' + "9" * 5000 + "}", "not valid JSON"),
        ('{"format": 1e999}', "too large"),
        ('{"format": "\\ud800"}', "not valid JSON"),
        ('{"\\uDFFF": 2}', "not valid JSON"),
        ('{"format": ' + "[" * 300 + "]" * 300 + "}", "nested"),
    ],
)
def test_text_that_is_not_strict_json_is_refused(text, words):
    with pytest.raises(ArtefactError, match=words):
        Certificate.from_json(text)


def test_a_huge_certificate_is_refused_before_it_is_parsed(release, monkeypatch):
    monkeypatch.setattr(certificates, "LARGEST_CERTIFICATE", 1000)
    with pytest.raises(ArtefactError, match="larger than"):
        verify_release(release)


def test_a_certificate_that_is_not_text_is_refused(release):
    (release / "certificate.json").write_bytes(b"\xff\xfe")
    with pytest.raises(ArtefactError, match="UTF-8"):
        verify_release(release)


def test_a_certificate_that_is_a_link_is_refused(release, tmp_path):
    (release / "certificate.json").rename(tmp_path / "elsewhere.json")
    (release / "certificate.json").symlink_to(tmp_path / "elsewhere.json")
    with pytest.raises(ArtefactError, match="cannot be read"):
        verify_release(release)


def test_a_folder_that_is_none_is_refused(tmp_path):
    with pytest.raises(ArtefactError, match="not a release folder"):
        verify_release(tmp_path / "nothing")
    with pytest.raises(ArtefactError, match="not a release folder"):
        verify_release(tmp_path / ("x" * 5000))
    with pytest.raises(ArtefactError, match="cannot be read"):
        verify_release(tmp_path)


def test_json_beyond_its_limit_is_refused_before_it_is_read():
    from dpgm.privacy.strict_json import strict_json

    assert strict_json("[1, 2]", "the plan", at_most=6) == [1, 2]
    with pytest.raises(ArtefactError, match="the plan is larger than 5 bytes"):
        strict_json("[1, 2]", "the plan", at_most=5)


def test_a_certificate_shows_what_it_protects(certificate):
    assert repr(certificate).startswith("Certificate(epsilon=")
    assert "NOT PRIVATE" in repr(replace(certificate, private=False))
    assert "one person of 50,000" in certificate._repr_html_()
    several = replace(certificate, plan={**certificate.plan, "rows_per_person": 3})
    assert "one person with up to 3 of 50,000 rows" in several._repr_html_()


def test_a_folder_or_file_that_cannot_be_read_is_refused_in_a_sentence(tmp_path, monkeypatch):
    (tmp_path / "x.json").write_text("{}")

    def fails(*_):
        raise PermissionError(13, "Permission denied")

    def too_large(*_, **__):
        raise MemoryError

    folder = ReleaseFolder(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(os, "scandir", fails)
        with pytest.raises(ArtefactError, match="cannot be read: Permission denied"):
            ReleaseFolder(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(os, "fdopen", too_large)
        with pytest.raises(ArtefactError, match="larger than the memory"):
            folder.read("x.json", 100)
