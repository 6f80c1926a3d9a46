"""Sealed messages: anyone can write one to the holder of a key, and nobody else can read or change it.

A fresh X25519 key is agreed with the recipient's, HKDF-SHA256 makes a key of the secret, and ChaCha20-Poly1305 encrypts
with it and authenticates the message together with a public heading.
"""

from typing import TYPE_CHECKING

from dpgm.errors import ArtefactError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey

_PURPOSE = b"dpgm sealed message 1"
_KEY_BYTES = 32
_NONCE = bytes(12)  # the key is used once
OVERHEAD = _KEY_BYTES + 16  # bytes by which a sealed message is longer


def seal(message: bytes, heading: bytes, recipient: "X25519PublicKey") -> bytes:
    """The message sealed to a recipient; `heading` is public, and cannot be changed either."""
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
    from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

    fresh = X25519PrivateKey.generate()
    sender = fresh.public_key().public_bytes_raw()
    key = _derived(fresh.exchange(recipient), sender, recipient.public_bytes_raw())
    return sender + ChaCha20Poly1305(key).encrypt(_NONCE, message, heading)


def unseal(sealed: bytes, heading: bytes, key: "X25519PrivateKey") -> bytes:
    """The message that was sealed to the holder of `key`.

    Raises:
        ArtefactError: it was sealed to another key, or it or its heading was changed.
    """
    from cryptography.exceptions import InvalidTag
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PublicKey
    from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

    try:
        sender = X25519PublicKey.from_public_bytes(sealed[:_KEY_BYTES])
        secret = _derived(key.exchange(sender), sealed[:_KEY_BYTES], key.public_key().public_bytes_raw())
        return ChaCha20Poly1305(secret).decrypt(_NONCE, sealed[_KEY_BYTES:], heading)
    except (InvalidTag, ValueError):
        raise ArtefactError("it was sealed to another key, or it was changed") from None


def _derived(secret: bytes, sender: bytes, recipient: bytes) -> bytes:
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF

    return HKDF(SHA256(), 32, salt=sender + recipient, info=_PURPOSE).derive(secret)
