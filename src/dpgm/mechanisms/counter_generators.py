"""Two generators with a counter: a running stream of words, and words at any address.

Both take 64 bytes of key material and use separate keys for the two, so that they never meet.
"""

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Words: TypeAlias = NDArray[np.uint64]


PIECE = 1 << 19  # bytes enciphered at once
LONGEST = 1 << 35  # bytes a nonce: GCM's counter of 32 bits reaches twice as far


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

    def fill(self, out: Words) -> None:
        """The next words of the running stream."""
        if not len(out):
            return
        memory = out.data.cast("B")
        for start in range(0, len(memory), PIECE):
            self._fill_piece(memory[start : start + PIECE])

    def _fill_piece(self, memory: memoryview) -> None:
        if self._left < len(memory):
            self._nonce += 1
            self._running, self._left = self._stream(self._nonce.to_bytes(12, "big")), LONGEST
        self._left -= len(memory)
        # Straight into `memory`, but for the last block: the package wants a block of room to spare.
        direct = max(0, len(memory) - 16)
        self._running.update_into(self._zeros[:direct], memory)
        memory[direct:] = self._running.update(self._zeros[: len(memory) - direct])

    def at(self, purpose: int, step: int | Sequence[int], blocks: Sequence[int], count: int, skip: int) -> Words:
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

    def fill(self, out: Words) -> None:
        """The next words of the running stream."""
        out[:] = self._running.random_raw(len(out))

    def at(self, purpose: int, step: int | Sequence[int], blocks: Sequence[int], count: int, skip: int) -> Words:
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
