"""Whether two fits saw the same rows, told by a keyed digest whose key stays on this machine.

The key lies in the user's own state folder, never beside the digest: whoever gets hold of a checkpoint cannot test
guesses about its rows. Where no such place can be written there is no digest, and the check is left out.
"""

import hashlib
import hmac
import os
import secrets
from pathlib import Path

import numpy as np

from dpgm.data.records import Records


def fingerprint(records: Records) -> str | None:
    """A digest of the rows under this machine's key; None where no key can be kept."""
    key = _key()
    if key is None:
        return None
    digest = hmac.new(key, digestmod=hashlib.sha256)
    digest.update(str(records.width).encode())
    for buffer in records.buffers():
        digest.update(np.ascontiguousarray(buffer).data)
    return digest.hexdigest()


def _key() -> bytes | None:
    base = os.environ.get("XDG_STATE_HOME") or os.path.expanduser("~/.local/state")
    path = Path(base) / "dpgm" / "fingerprint.key"
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        try:
            handle = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
            with os.fdopen(handle, "wb") as file:
                file.write(secrets.token_bytes(32))
        except FileExistsError:
            pass
        key = path.read_bytes()
    except OSError:
        return None
    return key if len(key) == 32 else None
