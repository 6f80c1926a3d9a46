"""Ranks refuse together: before anything is charged all of them say what they were started with.

A rank that goes on alone would wait for the others for ever, and one that does another fit than they do would spoil a
guarantee that is stated for all. So ranks compare what steers a fit, and an error in one of them ends all.
"""

import hashlib
import hmac
import json
import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from dpgm.errors import DpgmError, UsageError
from dpgm.kernels import parallel


def agree(facts: Mapping[str, object]) -> None:
    """Refuse, on every rank alike, unless all that state a fact state the same (collective).

    What travels are digests under a key that rank 0 draws afresh and nobody stores: the facts may be about rows.

    Args:
        facts: plain values by their names in the message.
    """
    if not parallel.is_parallel():
        return
    key = shared_key()
    mine = {name: _digest(key, json.dumps(value, sort_keys=True).encode()) for name, value in facts.items()}
    everyone = [json.loads(one) for one in parallel.bytes_of_all(json.dumps(mine).encode())]
    names = dict.fromkeys(name for one in everyone for name in one)
    differing = [name for name in names if len({one[name] for one in everyone if name in one}) > 1]
    if differing:
        raise UsageError(
            f"the processes of this fit do not agree on {', '.join(differing)}; start all of them with the same"
            " command, files and versions."
        )


def shared_key() -> bytes:
    """A key that rank 0 draws, for digests that are compared and forgotten (collective)."""
    return parallel.bytes_from_first(secrets.token_bytes(32))


@contextmanager
def all_or_none() -> Iterator[None]:
    """Within the block, in which ranks exchange nothing, an error on one rank ends all of them."""
    mine: Exception | None = None
    try:
        yield
    except Exception as error:
        if not parallel.is_parallel():
            raise
        mine = error
    if not parallel.is_parallel():
        return
    told = None if mine is None else str(mine) if isinstance(mine, DpgmError) else type(mine).__name__
    everyone = [json.loads(one) for one in parallel.bytes_of_all(json.dumps(told).encode())]
    if mine is not None:
        raise mine
    for rank, message in enumerate(everyone):
        if message is not None:
            raise UsageError(f"process {rank} of this fit stopped before it began: {message}")


def _digest(key: bytes, data: bytes) -> str:
    return hmac.new(key, data, hashlib.sha256).hexdigest()
