"""Attestations: an in-toto Statement in a DSSE envelope, checked here by the words of the two specifications alone."""

import base64
import hashlib
import json

import pytest
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import load_pem_public_key

import dpgm
from dpgm.cli.app import load_commands, run
from dpgm.errors import ArtefactError
from dpgm.privacy.attestation import MOST_SIGNATURES, Envelope
from dpgm.privacy.keys import create_keys, read_private_key
from dpgm.synthesis.release import sign
from release_data import some_release
from synthesis_data import TABLE

load_commands()
FILE = "certificate.intoto.jsonl"


@pytest.fixture(scope="module")
def keys(tmp_path_factory):
    folder = tmp_path_factory.mktemp("keys")
    return [create_keys(folder / name) for name in ("office", "ministry")]


@pytest.fixture
def signed(tmp_path, keys):
    folder = tmp_path / "release"
    some_release(TABLE).save(folder, key=read_private_key(keys[0][0]))
    return folder


def check_dsse(envelope_text, public_pem):
    """The payload of an envelope, if a key has signed it.

    By the protocol of DSSE 1.0: SIGNATURE = Sign(PAE(UTF8(PAYLOAD_TYPE), SERIALIZED_BODY)) and PAE(type, body) =
    "DSSEv1" + SP + LEN(type) + SP + type + SP + LEN(body) + SP + body, with lengths as ASCII decimals.
    """
    envelope = json.loads(envelope_text)
    kind, body = envelope["payloadType"].encode("utf-8"), base64.b64decode(envelope["payload"])
    encoded = b" ".join([b"DSSEv1", str(len(kind)).encode(), kind, str(len(body)).encode(), body])
    key = load_pem_public_key(public_pem)
    for signature in envelope["signatures"]:
        try:
            key.verify(base64.b64decode(signature["sig"]), encoded)
        except InvalidSignature:
            continue
        return json.loads(body)
    raise InvalidSignature


def test_an_independent_reader_of_the_specifications_agrees(signed, keys):
    text = (signed / FILE).read_text()
    statement = check_dsse(text, keys[0][1].read_bytes())
    assert statement["_type"] == "https://in-toto.io/Statement/v1"
    assert statement["predicateType"].startswith("urn:dpgm:")
    hashed = {one["name"]: one["digest"]["sha256"] for one in statement["subject"]}
    # certificate.html is written again from the certificate and compared whole, so no hash names it.
    files = [path for path in signed.iterdir() if path.name not in (FILE, "certificate.html")]
    assert hashed == {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in files}
    assert statement["predicate"] == json.loads((signed / "certificate.json").read_text())
    assert text.count("\n") == 1
    with pytest.raises(InvalidSignature):
        check_dsse(text, keys[1][1].read_bytes())


def test_several_may_sign_and_each_is_checked(signed, keys, capsys):
    public = [pair[1] for pair in keys]
    assert dpgm.verify(signed, signed_by=public[0]).signature == "valid"
    assert dpgm.verify(signed, signed_by=public).signature == "not valid"
    assert run(["sign", str(signed), "--key", str(keys[1][0])]) == 0
    assert dpgm.verify(signed, signed_by=public).signature == "valid"
    assert len(json.loads((signed / FILE).read_text())["signatures"]) == 2
    for key in public:
        assert check_dsse((signed / FILE).read_text(), key.read_bytes())
    assert run(["verify", str(signed), "--signed-by", str(public[0]), "--signed-by", str(public[1])]) == 0
    assert capsys.readouterr().out.count("ok    signed by") == 2


def test_signing_again_with_the_same_key_changes_nothing(signed, keys):
    before = (signed / FILE).read_bytes()
    sign(signed, read_private_key(keys[0][0]))
    assert (signed / FILE).read_bytes() == before


def test_a_full_envelope_takes_no_more():
    envelope = Envelope(b"{}", {})
    for _ in range(MOST_SIGNATURES):
        envelope = envelope.signed(Ed25519PrivateKey.generate())
    with pytest.raises(ArtefactError, match="takes no more"):
        envelope.signed(Ed25519PrivateKey.generate())


def test_a_file_that_is_no_part_of_a_release_is_named(signed, capsys):
    (signed / "certificate.sig").write_bytes(bytes(64))
    assert run(["verify", str(signed)]) == 1
    assert "'certificate.sig' is not a file of a release" in capsys.readouterr().err


# -- forgeries ----------------------------------------------------------------------------------------------------


def _changed(text, **changes):
    """The envelope with other entries, written as dpgm writes envelopes."""
    document = {**json.loads(text), **changes}
    return json.dumps(document, separators=(",", ":")) + "\n"


def _restated(text, change):
    """The envelope with a changed statement and the old signatures."""
    document = json.loads(text)
    payload = json.loads(base64.b64decode(document["payload"]))
    change(payload)
    body = json.dumps(payload, separators=(",", ":"), ensure_ascii=False).encode()
    return _changed(text, payload=base64.b64encode(body).decode())


def _signature(text, **changes):
    return _changed(text, signatures=[{**json.loads(text)["signatures"][0], **changes}])


def _of_another_key(text, keep_name):
    """The statement signed by a key that nobody knows, under its own name or under that of the office."""
    document = json.loads(text)
    envelope = Envelope(base64.b64decode(document["payload"]), {}).signed(Ed25519PrivateKey.generate())
    signature = next(iter(envelope.signatures.values()))
    name = document["signatures"][0]["keyid"] if keep_name else next(iter(envelope.signatures))
    return Envelope(envelope.payload, {name: signature}).to_json()


FORGERIES = {
    "epsilon halved": lambda t: _restated(t, lambda p: p["predicate"].update(epsilon=0.5)),
    "another number of records": lambda t: _restated(t, lambda p: p["predicate"].update(records=7)),
    "a mechanism left out": lambda t: _restated(t, lambda p: p["predicate"]["mechanisms"].pop()),
    "another file": lambda t: _restated(t, lambda p: p["subject"][2]["digest"].update(sha256="0" * 64)),
    "a file more": lambda t: _restated(t, lambda p: p["subject"].append({"name": "x", "digest": {}})),
    "a file less": lambda t: _restated(t, lambda p: p["subject"].pop()),
    "another predicate type": lambda t: _restated(t, lambda p: p.update(predicateType="urn:other")),
    "another statement type": lambda t: _restated(t, lambda p: p.update(_type="https://in-toto.io/Statement/v0.1")),
    "a note in the statement": lambda t: _restated(t, lambda p: p.update(note="ann,34")),
    "another payload type": lambda t: _changed(t, payloadType="text/plain"),
    "no signatures": lambda t: _changed(t, signatures=[]),
    "signatures no list": lambda t: _changed(t, signatures={}),
    "a note in the envelope": lambda t: _changed(t, note="ann,34"),
    "the same signature twice": lambda t: _changed(t, signatures=json.loads(t)["signatures"] * 2),
    "a signature of zeros": lambda t: _signature(t, sig=base64.b64encode(bytes(64)).decode()),
    "a short signature": lambda t: _signature(t, sig=base64.b64encode(bytes(63)).decode()),
    "a signature that is no base64": lambda t: _signature(t, sig="*" * 88),
    "another key's name": lambda t: _signature(t, keyid="0" * 64),
    "a name that is no key's": lambda t: _signature(t, keyid="office"),
    "an unknown key": lambda t: _of_another_key(t, keep_name=False),
    "an unknown key under the name of the office": lambda t: _of_another_key(t, keep_name=True),
    "blanks": lambda t: t.replace(",", ", "),
    "a second line": lambda t: t * 2,
    "no JSON": lambda t: "signed",
    "a list": lambda t: "[]\n",
    "empty": lambda t: "",
}


@pytest.mark.parametrize("name", FORGERIES)
def test_a_forged_attestation_is_refused(signed, keys, name):
    text = (signed / FILE).read_text()
    forged = FORGERIES[name](text)
    assert forged != text
    (signed / FILE).write_text(forged)
    verification = dpgm.verify(signed, signed_by=keys[0][1])
    assert not verification.ok
    assert verification.signature == "not valid"
    key_alone = {"a signature of zeros", "another key's name"} | {one for one in FORGERIES if "unknown key" in one}
    assert dpgm.verify(signed).ok == (name in key_alone)  # only the key tells these from real ones


def test_an_attestation_of_another_release_is_refused(signed, tmp_path, keys):
    other = tmp_path / "other"
    some_release(TABLE, epsilon=0.5).save(other, key=read_private_key(keys[0][0]))
    (other / FILE).replace(signed / FILE)
    failed = dpgm.verify(signed, signed_by=keys[0][1]).failed
    assert any("about another certificate" in check.why for check in failed)
