"""A keyed digest of the rows, by which a resumed fit checks that it reads the same data.

The digest is a sum over records, so neither their order nor the number of processes that share them matters.
The key is stored in the user's own state folder, never next to the digest: whoever obtains a checkpoint cannot test
guesses about its rows. If the key cannot be stored there is no digest, and the check is left out.
"""

import hashlib
import hmac
import os
import secrets
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from dpgm.data.open_records import OpenRecords
from dpgm.data.records import Records
from dpgm.kernels import parallel


def rows_fingerprint(records: Records) -> str | None:
    """The digest of the rows of all processes under this machine's key; None if no key can be stored.

    Collective in a parallel run, with the key of rank 0.
    """
    key = parallel.bytes_from_first(_key() or b"")
    if not key:
        return None
    if isinstance(records, OpenRecords):
        mine = digest_of_rows(records, key)
        if not parallel.is_parallel():
            return mine.hex()
        return hmac.new(key, b"".join(parallel.bytes_of_all(mine)), hashlib.sha256).hexdigest()
    total = parallel.all_sum(torch.from_numpy(_sums(records, key).view(np.int64)))
    count = parallel.total_rows(len(records))
    return _summary(records, count, total.numpy(), key).hex()


def digest_of_rows(records: Records, key: bytes) -> bytes:
    """The digest of the rows of this process alone."""
    if isinstance(records, OpenRecords):
        digest = hmac.new(key, str(records.width).encode(), hashlib.sha256)
        for buffer in records.buffers():
            digest.update(np.ascontiguousarray(buffer).data)
        return digest.digest()
    return _summary(records, len(records), _sums(records, key).view(np.int64), key)


def _summary(records: Records, count: int, sums: NDArray[np.int64], key: bytes) -> bytes:
    return hmac.new(key, f"{records.width} {count} {sums.tolist()}".encode(), hashlib.sha256).digest()


def _sums(records: Records, key: bytes) -> NDArray[np.uint64]:
    sums = np.zeros(2, dtype=np.uint64)
    for chunk in records.pieces():
        sums += _digests(chunk, key).sum(axis=1, dtype=np.uint64)
    return sums


def _digests(records: Records, key: bytes) -> NDArray[np.uint64]:
    """(2, records): two keyed 64-bit digests of the set of items of every record."""
    secret = np.frombuffer(hashlib.sha512(key).digest(), dtype=np.uint64)
    row = np.repeat(np.arange(len(records)), records.lengths)
    mixed = np.zeros((2, len(records)), dtype=np.uint64)
    for lane in range(2):
        items = _mix(records.indices.astype(np.uint64) + secret[lane])
        np.add.at(mixed[lane], row, items)
        mixed[lane] = _mix(mixed[lane] ^ secret[2 + lane])
    return mixed


def _mix(words: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Mix the bits of 64-bit words by a bijection (the finaliser of splitmix64)."""
    words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    mixed: NDArray[np.uint64] = words ^ (words >> np.uint64(31))
    return mixed


def _key() -> bytes | None:
    """This machine's key, made at its first use; None if it cannot be stored."""
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
