"""Sealed messages: read by their recipient alone, and never changed unseen."""

import pytest

from dpgm.errors import ArtefactError
from dpgm.privacy.keys import create_keys, read_sealing_key, read_unsealing_key
from dpgm.privacy.sealing import OVERHEAD, seal, unseal


def test_a_sealed_message_is_read_by_its_recipient_alone(tmp_path):
    keys = create_keys(tmp_path / "curator", "seal")
    public, private = read_sealing_key(keys[1]), read_unsealing_key(keys[0])
    sealed = seal(b"secret sums", b"heading", public)
    assert len(sealed) == len(b"secret sums") + OVERHEAD
    assert b"secret" not in sealed
    assert unseal(sealed, b"heading", private) == b"secret sums"
    assert seal(b"secret sums", b"heading", public) != sealed
    other = read_unsealing_key(create_keys(tmp_path / "other", "seal")[0])
    wrong = [(sealed, b"Heading", private), (sealed, b"heading", other), (sealed[:20], b"heading", private)]
    wrong += [
        (bytes([*sealed[:at], sealed[at] ^ 1, *sealed[at + 1 :]]), b"heading", private) for at in range(len(sealed))
    ]
    for content, heading, key in wrong:
        with pytest.raises(ArtefactError, match="sealed to another key, or it was changed"):
            unseal(content, heading, key)
