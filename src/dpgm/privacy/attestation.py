"""Signed attestations: an in-toto Statement about a release in a DSSE envelope, which any number of keys may sign.

The statement names the files of a release by their SHA-256 and repeats its certificate as the predicate. It follows
from the certificate byte for byte, so nothing can be hidden in it, and tools that know in-toto read the guarantee
without knowing dpgm. The envelope is one line of JSON, which makes the file a bundle of in-toto attestations as well.
"""

import base64
import binascii
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dpgm.errors import ArtefactError
from dpgm.privacy.certificate import CERTIFICATE_FORMAT, CERTIFICATE_NAME, LARGEST_CERTIFICATE, Certificate
from dpgm.privacy.strict_json import strict_json
from dpgm.privacy.untrusted_files import ReleaseFolder

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

ATTESTATION_NAME = "certificate.intoto.jsonl"
STATEMENT_TYPE = "https://in-toto.io/Statement/v1"
PREDICATE_TYPE = f"urn:dpgm:privacy-certificate:{CERTIFICATE_FORMAT}"
PAYLOAD_TYPE = "application/vnd.in-toto+json"
SIGNATURE_BYTES = 64  # of Ed25519
MOST_SIGNATURES = 20
LARGEST_ATTESTATION = 2 * LARGEST_CERTIFICATE  # base64 makes a text a third longer


def key_id(key: "Ed25519PublicKey") -> str:
    """The name of a public key in envelopes: the SHA-256 of its 32 bytes."""
    return hashlib.sha256(key.public_bytes_raw()).hexdigest()


def statement(certificate_text: bytes) -> bytes:
    """The in-toto Statement about the release with this certificate.json: its files, and the certificate."""
    certificate = Certificate.from_json(certificate_text.decode("utf-8"))
    hashes = {CERTIFICATE_NAME: hashlib.sha256(certificate_text).hexdigest(), **certificate.files}
    document = {
        "_type": STATEMENT_TYPE,
        "subject": [{"name": name, "digest": {"sha256": digest}} for name, digest in sorted(hashes.items())],
        "predicateType": PREDICATE_TYPE,
        "predicate": json.loads(certificate_text),
    }
    return _compact(document).encode()


def signed_bytes(payload: bytes) -> bytes:
    """What a signature signs: DSSE's encoding of the payload and its type before authentication."""
    kind = PAYLOAD_TYPE.encode()
    return b"DSSEv1 %d %s %d %s" % (len(kind), kind, len(payload), payload)


@dataclass(frozen=True)
class Envelope:
    """A payload and its signatures, by the names of the keys."""

    payload: bytes
    signatures: Mapping[str, bytes]

    def signed(self, key: "Ed25519PrivateKey") -> "Envelope":
        """The envelope with one more signature; one by the same key is replaced.

        Raises:
            ArtefactError: it is full.
        """
        name = key_id(key.public_key())
        signatures = {**self.signatures, name: key.sign(signed_bytes(self.payload))}
        if len(signatures) > MOST_SIGNATURES:
            raise ArtefactError(f"the release has {MOST_SIGNATURES} signatures already, and takes no more.")
        return Envelope(self.payload, signatures)

    def to_json(self) -> str:
        """The envelope as one line of JSON, with the signatures in the order of their keys."""
        listed = [{"keyid": name, "sig": _base64(self.signatures[name])} for name in sorted(self.signatures)]
        return (
            _compact({"payload": _base64(self.payload), "payloadType": PAYLOAD_TYPE, "signatures": listed}) + "\n"
        )


def attest(certificate_text: bytes, key: "Ed25519PrivateKey") -> str:
    """The attestation of a new release, signed by one key."""
    return Envelope(statement(certificate_text), {}).signed(key).to_json()


def read_attestation(folder: ReleaseFolder) -> Envelope | None:
    """The attestation of a release folder; None if it has none.

    Raises:
        ArtefactError: it is not one of this very certificate, as dpgm writes it.
    """
    if ATTESTATION_NAME not in folder.names:
        return None
    text = folder.text(ATTESTATION_NAME, LARGEST_ATTESTATION)
    document = strict_json(text, ATTESTATION_NAME, LARGEST_ATTESTATION)
    try:
        signatures = {one["keyid"]: _bytes(one["sig"]) for one in document["signatures"]}
        envelope = Envelope(_bytes(document["payload"]), signatures)
        written = envelope.to_json() == text
    except (TypeError, KeyError, AttributeError, ValueError):
        raise ArtefactError(
            f"{ATTESTATION_NAME} is not an envelope as dpgm writes it; get the release again."
        ) from None
    if not written or not 1 <= len(signatures) <= MOST_SIGNATURES or not all(map(_is_entry, signatures.items())):
        raise ArtefactError(f"{ATTESTATION_NAME} is not an envelope as dpgm writes it; get the release again.")
    if envelope.payload != statement(folder.read(CERTIFICATE_NAME, LARGEST_CERTIFICATE)):
        raise ArtefactError(f"{ATTESTATION_NAME} is about another certificate; get the release again.")
    return envelope


def why_no_attestation(folder: ReleaseFolder) -> str | None:
    """Why what lies in the attestation's place is none of this certificate; None if it is, or if nothing is there."""
    try:
        read_attestation(folder)
    except ArtefactError as error:
        return str(error)
    return None


def why_not_signed(folder: ReleaseFolder, key: "Ed25519PublicKey") -> str | None:
    """Why the folder's certificate does not count as signed with the private half of `key`; None if it does."""
    from cryptography.exceptions import InvalidSignature

    try:
        envelope = read_attestation(folder)
    except ArtefactError as error:
        return str(error)
    if envelope is None:
        return "the release is not signed"
    name = key_id(key)
    if name not in envelope.signatures:
        return "none of its signatures is by this key"
    try:
        key.verify(envelope.signatures[name], signed_bytes(envelope.payload))
    except InvalidSignature:
        return "the signature that names this key is not by it"
    return None


def _is_entry(entry: tuple[Any, bytes]) -> bool:
    """Whether a signature has the right size, and its key a name as `key_id` makes them."""
    name, signature = entry
    return len(signature) == SIGNATURE_BYTES and len(name) == 64 and set(name) <= set("0123456789abcdef")


def _compact(document: Mapping[str, Any]) -> str:
    return json.dumps(document, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def _base64(content: bytes) -> str:
    return base64.b64encode(content).decode("ascii")


def _bytes(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error:
        raise ValueError("not base64") from None
