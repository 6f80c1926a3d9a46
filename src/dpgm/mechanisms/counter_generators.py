"""Two generators with a counter: a running stream of words, and words at any address.

Both take 64 bytes of key material and use separate keys for the two, so that they never meet.
"""

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Words: TypeAlias = NDArray[np.uint64]


class AesWords:
    """AES-256 as a counter generator: one running stream, and words at any address."""

    def __init__(self, key: bytes) -> None:
        from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

        self._running = Cipher(algorithms.AES(key[:32]), modes.CTR(bytes(16))).encryptor()
        self._addressed = Cipher(algorithms.AES(key[32:64]), modes.ECB()).encryptor()
        self._zeros = memoryview(bytes(1 << 18))

    def fill(self, out: Words) -> None:
        """The next words of the running stream."""
        # Straight into `out`, but for the last block: OpenSSL wants a block of room to spare.
        if not len(out):
            return
        memory = out.data.cast("B")
        direct = max(0, len(memory) - 16)
        for start in range(0, direct, len(self._zeros)):
            plain = self._zeros[: min(len(self._zeros), direct - start)]
            self._running.update_into(plain, memory[start:])
        memory[direct:] = self._running.update(bytes(len(memory) - direct))

    def at(self, purpose: int, step: int | Sequence[int], blocks: Sequence[int], count: int, skip: int) -> Words:
        """Words [skip, skip + count) of (purpose, step, block), one row a block; multiples of four."""
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
        """Words [skip, skip + count) of (purpose, step, block), one row a block; multiples of four."""
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
