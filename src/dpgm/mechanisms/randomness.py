"""Where randomness comes from: the operating system by default, a seed only in tests and figures.

A source gives raw 64-bit words for privacy (noise, Poisson coins, secret draws of records) and torch generators for
public draws (initial weights, synthetic records), which are post-processing.

Coins are addressed by (purpose, step, block): the same address gives the same words on every rank, whatever
share of the rows it holds, because the ranks share rank 0's coin key. Noise words are not addressed: each call gives
fresh ones, from the rank's own key (only in seeded runs, where several ranks must give what one gives, noise of floats
is). Secret draws of records (latent variables) are never addressed either, nor stored, nor shared: every rank has its
own key for them, apart from the noise's.

What stands behind `SystemRandomness`:

- CPU: AES-256 in counter mode (package `cryptography`), a fresh 256-bit key per object from `os.urandom`.
- CPU without that package, as on a bare GPU machine: numpy's Philox4x64-10 with a fresh 128-bit key from
  `os.urandom`. A counter generator of good statistical quality, but not a cipher.
- CUDA float noise and latent draws: torch's Philox4x32-10, each seeded with 64 bits from `os.urandom`. Same caveat.

`name` and `names_used` say which; the certificate prints them.
"""

import os
import threading
import weakref
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, NoReturn, Protocol, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray

from dpgm import validation
from dpgm.errors import DpgmError
from dpgm.kernels import parallel

RandomWords: TypeAlias = NDArray[np.uint64]

PIECE = 1 << 19  # bytes enciphered at once
STREAM_BYTES = 1 << 35  # bytes per nonce: GCM's counter of 32 bits reaches twice as far
COINS, PIECES = 1, 2  # purposes of streams: Poisson coins; in seeded runs the noise of a sum's pieces
ALIGNMENT = 4  # addressed words come in multiples of this many
_LIMITS = (2**16, 2**48, 2**32)  # of purpose, step, block
# What a key or seed is for. Those of coins and public draws count on rank 0 only; those of noise and records on each.
_NOISE, _COIN_KEY, _NOISE_ON_DEVICE, _PUBLIC, _RECORDS, _RECORDS_ON_DEVICE = range(6)
_AES_NAME = "AES-256-CTR, key from the operating system"
_PHILOX_NAME = "Philox4x64-10, 128-bit key from the operating system (package cryptography not installed)"
_DEVICE_NAME = "Philox4x32-10 on the accelerator, 64-bit seed from the operating system"
PRIVATE_NAMES = (_AES_NAME, _PHILOX_NAME, _DEVICE_NAME)  # sources that a certificate may call private


# -- generators with a counter: a running stream of words, and words at any address, with separate keys from 64 bytes --


class AesWords:
    """AES-256 as a counter generator: one running stream, and words at any address.

    The running stream is what GCM enciphers zeros to: AES of (nonce, counter), two nonces never being equal. Its tag
    is never asked for. OpenSSL's GCM uses wide vectors where its plain counter mode does not, and takes two thirds of
    the time.
    """

    def __init__(self, key: bytes) -> None:
        from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

        def stream(nonce: bytes) -> Any:
            return Cipher(algorithms.AES(key[:32]), modes.GCM(nonce)).encryptor()

        self._stream = stream
        self._addressed = Cipher(algorithms.AES(key[32:64]), modes.ECB()).encryptor()
        self._zeros = memoryview(bytes(PIECE))
        self._nonce = -1
        self._left = 0

    def fill(self, out: RandomWords) -> None:
        """The next words of the running stream."""
        if not len(out):
            return
        memory = out.data.cast("B")
        for start in range(0, len(memory), PIECE):
            self._fill_piece(memory[start : start + PIECE])

    def _fill_piece(self, memory: memoryview) -> None:
        if self._left < len(memory):
            self._nonce += 1
            self._running, self._left = self._stream(self._nonce.to_bytes(12, "big")), STREAM_BYTES
        self._left -= len(memory)
        # Straight into `memory`, but for the last block: the package wants a block of room to spare.
        direct = max(0, len(memory) - 16)
        self._running.update_into(self._zeros[:direct], memory)
        memory[direct:] = self._running.update(self._zeros[: len(memory) - direct])

    def at(
        self, purpose: int, step: int | Sequence[int], blocks: Sequence[int], count: int, skip: int
    ) -> RandomWords:
        """Words [skip, skip + count) of (purpose, step, block), one row per block; multiples of four."""
        counters = np.empty((len(blocks), count // 2, 2), dtype="<u8")
        counters[:, :, 0] = np.asarray(step, dtype=np.uint64).reshape(-1, 1) | np.uint64(purpose << 48)
        counters[:, :, 1] = np.asarray(blocks, dtype=np.uint64)[:, None] << np.uint64(32)
        counters[:, :, 1] += np.arange(skip // 2, (skip + count) // 2, dtype=np.uint64)
        cipher = self._addressed.update(counters.tobytes())
        return np.frombuffer(cipher, dtype="<u8").astype(np.uint64, copy=False).reshape(len(blocks), count)


class PhiloxWords:
    """Philox4x64-10 with the same two faces: its 256-bit counter holds the address."""

    def __init__(self, key: bytes) -> None:
        self._running = np.random.Philox(key=np.frombuffer(key[:16], dtype=np.uint64))
        self._addressed = np.random.Philox(key=np.frombuffer(key[16:32], dtype=np.uint64))
        self._place = 0  # its counter

    def fill(self, out: RandomWords) -> None:
        """The next words of the running stream."""
        out[:] = self._running.random_raw(len(out))

    def at(
        self, purpose: int, step: int | Sequence[int], blocks: Sequence[int], count: int, skip: int
    ) -> RandomWords:
        """Words [skip, skip + count) of (purpose, step, block), one row per block; multiples of four."""
        out = np.empty((len(blocks), count), dtype=np.uint64)
        for row, (number, block) in enumerate(
            zip(np.broadcast_to(step, len(blocks)).tolist(), blocks, strict=True)
        ):
            # Going there by `advance` is quicker than by setting the state.
            address = ((purpose * 2**64 + number) * 2**64 + block) * 2**64 + skip // 4
            self._addressed.advance((address - self._place) % 2**256)
            out[row] = self._addressed.random_raw(count)
            self._place = address + count // 4
        return out


# -- sources -------------------------------------------------------------------------------------------------------


class WordFiller(Protocol):
    """Something that fills an array with fresh words."""

    def fill(self, out: RandomWords) -> None:
        """Fresh words into a contiguous array; nothing is allocated."""
        ...


class Stream:
    """The words of one address, in order."""

    def __init__(self, source: "Randomness", address: Sequence[int]) -> None:
        self._source = source
        self._address = address
        self._left = np.empty(0, dtype=np.uint64)
        self._next = 0

    def words(self, count: int) -> RandomWords:
        """The next words."""
        if count > len(self._left):
            more = -(-(count - len(self._left)) // ALIGNMENT) * ALIGNMENT
            purpose, step, block = self._address
            drawn = self._source.block_words(purpose, step, [block], more, self._next)[0]
            self._next += more
            self._left = np.concatenate([self._left, drawn])
        taken, self._left = self._left[:count], self._left[count:]
        return taken

    def fill(self, out: RandomWords) -> None:
        """The next words into an array."""
        out[:] = self.words(len(out))


class _RecordWords:
    """The running words of a source that belong to one rank's records."""

    def __init__(self, source: "Randomness") -> None:
        self._source = source

    def fill(self, out: RandomWords) -> None:
        self._source._fill_for_records(out)


class Randomness(ABC):
    """A source of words and public draws: thread-safe, re-keyed in a forked child, never pickled or copied."""

    name: str
    private: bool

    def __init__(self) -> None:
        self.names_used: set[str] = set()
        self._lock = threading.RLock()
        self._runs = 0
        self._reset()
        _sources.add(self)

    def _reset(self) -> None:
        self._process = this_process()
        self._noise: AesWords | PhiloxWords = self._generator(self._entropy(_NOISE, 64))
        self._coins: AesWords | PhiloxWords | None = None
        self._of_records: AesWords | PhiloxWords | None = None
        self._on_device: dict[tuple[int, torch.device], torch.Generator] = {}

    @abstractmethod
    def _entropy(self, purpose: int, count: int) -> bytes:
        """Bytes for a new key or seed."""

    @abstractmethod
    def _generator(self, key: bytes) -> AesWords | PhiloxWords:
        """What gives words from a key."""

    def _fresh(self) -> None:
        # A forked child must not repeat its parent's noise.
        if this_process() != self._process:
            self._reset()

    def words(self, count: int) -> RandomWords:
        """`count` fresh words, never repeated."""
        out = np.empty(count, dtype=np.uint64)
        self.fill(out)
        return out

    def fill(self, out: RandomWords) -> None:
        """Fresh words into a contiguous array; nothing is allocated."""
        with self._lock:
            self._fresh()
            self.names_used.add(self.name)
            self._noise.fill(out)

    def words_of_pieces(self, count: int) -> Sequence[WordFiller]:
        """Fresh words for the noise of each piece of one sum: the running ones, since a rank has its own key.

        Ranks share the pieces, and no two draw for the same.
        """
        return [self] * count

    def stream(self, *address: int) -> Stream:
        """An independent stream for an address (purpose, step, block); the same on every rank."""
        return Stream(self, (*address, *(0,) * (3 - len(address))))

    def block_words(
        self, purpose: int, step: int | Sequence[int], blocks: Sequence[int], count: int, skip: int = 0
    ) -> RandomWords:
        """Words [skip, skip + count) of streams (purpose, step, block), one row per block; one step, or one each.

        The first use in a parallel run is collective (rank 0's key).
        """
        address = ([purpose], [step] if isinstance(step, int) else step, blocks)
        for values, limit in zip(address, _LIMITS, strict=True):
            for value in (min(values, default=0), max(values, default=0)):
                if not 0 <= value < limit:
                    raise DpgmError(f"a stream's address is out of range: {value} is not in [0, {limit}).")
        if count % ALIGNMENT or skip % ALIGNMENT or skip + count >= 2**32:
            raise DpgmError(f"addressed words come in multiples of {ALIGNMENT}, up to 2^32 per stream.")
        with self._lock:
            self._fresh()
            self.names_used.add(self.name)
            return self._addressed().at(purpose, step, blocks, count, skip)

    def _addressed(self) -> AesWords | PhiloxWords:
        """What gives words at addresses: with the key of rank 0 on every rank."""
        if self._coins is None:
            self._coins = self._generator(_from_first(self._entropy(_COIN_KEY, 64)))
        return self._coins

    def new_run(self) -> int:
        """A number no other gateway of this source has, so that two fits never share coins: 0, 1, 2, ..."""
        with self._lock:
            self._runs += 1
            return self._runs - 1

    def device_noise(self, device: torch.device | str) -> torch.Generator:
        """The generator for privacy noise of tensors on an accelerator, kept as long as this object."""
        return self._generator_on(_NOISE_ON_DEVICE, torch.device(device))

    def record_words(self) -> WordFiller:
        """Secret words for draws of this rank's records, never stored; their key is not that of the noise."""
        return _RecordWords(self)

    def record_generator(self, device: torch.device | str) -> torch.Generator:
        """The same on an accelerator: a generator, kept as long as this object; another one on every rank."""
        return self._generator_on(_RECORDS_ON_DEVICE, torch.device(device))

    def _fill_for_records(self, out: RandomWords) -> None:
        with self._lock:
            self._fresh()
            self.names_used.add(self.name)
            if self._of_records is None:
                self._of_records = self._generator(self._entropy(_RECORDS, 64))
            self._of_records.fill(out)

    def _generator_on(self, purpose: int, device: torch.device) -> torch.Generator:
        with self._lock:
            self._fresh()
            self.names_used.add(_DEVICE_NAME if self.private else self.name)
            key = (purpose, device)
            if key not in self._on_device:
                seed = int.from_bytes(self._entropy(purpose, 8), "little")
                self._on_device[key] = torch.Generator(device).manual_seed(seed)
            return self._on_device[key]

    def draws(self, device: torch.device | str = "cpu") -> torch.Generator:
        """A new generator for public draws (post-processing), equal on every rank (collective in a parallel run)."""
        with self._lock:
            self._fresh()
            seed = int.from_bytes(_from_first(self._entropy(_PUBLIC, 8)), "little")
        return torch.Generator(device).manual_seed(seed)

    def __reduce__(self) -> NoReturn:
        raise DpgmError("a source of randomness cannot be copied or stored: its state must never leave it.")

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self.name}>"


class SystemRandomness(Randomness):
    """The default: keyed by the operating system, a fresh key per object and per process."""

    private = True

    def __init__(self) -> None:
        self._aes = _has_cryptography()
        self.name = _AES_NAME if self._aes else _PHILOX_NAME
        super().__init__()

    def _entropy(self, purpose: int, count: int) -> bytes:
        return os.urandom(count)

    def _generator(self, key: bytes) -> AesWords | PhiloxWords:
        return AesWords(key) if self._aes else PhiloxWords(key)


class SeededRandomness(Randomness):
    """Reproducible; for tests and figures. Voids the guarantee: whatever it touches is NOT PRIVATE.

    The words need numpy alone and are the same on every machine; the coins and integer noise too.
    """

    private = False

    def __init__(self, seed: int) -> None:
        validation.whole(seed=seed, at_least=0)
        self.name = f"seeded generator, seed {seed} (NOT PRIVATE)"
        self._seed = seed
        self._requests: dict[int, int] = {}
        self._sums = 0
        super().__init__()

    def _entropy(self, purpose: int, count: int) -> bytes:
        # Every request is another one, so that two generators for public draws differ.
        request = self._requests[purpose] = self._requests.get(purpose, -1) + 1
        rank = [parallel.rank()] if purpose in (_RECORDS, _RECORDS_ON_DEVICE) else []
        words = np.random.SeedSequence([self._seed, purpose, request, *rank]).generate_state(count // 8, np.uint64)
        return words.tobytes()

    def words_of_pieces(self, count: int) -> Sequence[WordFiller]:
        """Addressed, so that a piece has the same noise whichever rank draws it."""
        self._sums += 1
        self._addressed()  # on every rank, also on one that owns no piece
        return [self.stream(PIECES, self._sums, piece) for piece in range(count)]

    def _generator(self, key: bytes) -> PhiloxWords:
        return PhiloxWords(key)

    def _fresh(self) -> None:
        """Reproducible in a child as well."""


_sources: "weakref.WeakSet[Randomness]" = weakref.WeakSet()


_forks = 0  # before this process became one of its own


def this_process() -> tuple[int, int]:
    """What tells a forked child from its parent: whatever was keyed or drawn before must not be used in it again.

    The number of the process alone would not do: a child in a process namespace of its own can have its parent's.
    """
    return _forks, os.getpid()


def _begin_child() -> None:
    """A child of a fork is another process; a lock that another thread held at the fork would never open in it."""
    global _forks
    _forks += 1
    for source in _sources:
        source._lock = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_begin_child)


def _has_cryptography() -> bool:
    try:
        import cryptography.hazmat.primitives.ciphers  # noqa: F401
    except ImportError:
        return False
    return True


def _from_first(secret: bytes) -> bytes:
    """Rank 0's bytes on every rank."""
    if not parallel.is_parallel():
        return secret
    shared = parallel.from_first(torch.tensor(list(secret), dtype=torch.int64))
    return bytes(shared.tolist())
