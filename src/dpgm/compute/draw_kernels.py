"""CPU kernel of public draws: binary rows from logits."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpgm.compute.compiled import HAS_NUMBA, compiled

Array = NDArray[Any]


@compiled
def _draw_rows(
    logits: Array, starts: Array, stops: Array, chosen: Array, keys: Array, indices: Array, lengths: Array
) -> int:
    width = logits.shape[1]
    bits = np.empty(width, dtype=np.int32)
    powers = bits.view(np.float32)
    present = np.zeros(width, dtype=np.uint8)
    one, limit = np.float32(1), np.float32(125)
    written = 0
    for i in range(len(logits)):
        low, high = np.uint32(keys[i] & 0xFFFFFFFF), np.uint32((keys[i] >> 32) & 0xFFFFFFFF)
        for block in range(len(starts)):
            first = starts[block]
            line, here = logits[i, first : stops[block]], present[first : stops[block]]
            for j in range(len(line)):
                t = line[j] * np.float32(-1.4426950408889634)
                t = limit if t > limit else t
                t = -limit if t < -limit else t
                n = np.floor(t)
                f = t - n
                bits[j] = np.int32((np.int32(n) + np.int32(127)) << np.int32(23))
                line[j] = one + f * (
                    np.float32(6.9314718e-1)
                    + f
                    * (
                        np.float32(2.4022651e-1)
                        + f
                        * (
                            np.float32(5.5504109e-2)
                            + f
                            * (
                                np.float32(9.6181291e-3)
                                + f * (np.float32(1.3333558e-3) + f * np.float32(1.5403530e-4))
                            )
                        )
                    )
                )
            for j in range(len(line)):
                # A counter-based hash (two rounds of 32-bit mixing, 64-bit key per row) gives the uniform word;
                # item j is present when word < 2^32 sigmoid(logit).
                word = np.uint32(np.uint32(first + j) * np.uint32(0x9E3779B9)) ^ low
                word = np.uint32((word ^ (word >> np.uint32(16))) * np.uint32(0x7FEB352D))
                word = np.uint32((word ^ (word >> np.uint32(15))) * np.uint32(0x846CA68B))
                word = np.uint32((word ^ (word >> np.uint32(16))) + high)
                word = np.uint32((word ^ (word >> np.uint32(16))) * np.uint32(0x21F0AAAD))
                word = np.uint32((word ^ (word >> np.uint32(15))) * np.uint32(0xD35A2D97))
                word = np.uint32(word ^ (word >> np.uint32(15)))
                threshold = np.float32(4294967296.0) / (one + line[j] * powers[j])
                here[j] = np.float32(word) < threshold
        for block in range(chosen.shape[1]):
            present[chosen[i, block]] = 1
        before = written
        for j in range(width):
            indices[written] = j
            written += present[j]
        for block in range(chosen.shape[1]):
            present[chosen[i, block]] = 0
        lengths[i] = written - before
    return written


def draw_rows(
    logits: Array, starts: Array, stops: Array, chosen: Array, keys: Array
) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """Binary rows drawn from logits, as CSR indices and row lengths.

    Columns [starts[b], stops[b]) are independent Bernoulli; chosen[i] lists the columns set in row i besides (one
    of each softmax block). `keys` holds 64 random bits per row. Overwrites `logits` (float32).
    """
    lengths = np.empty(len(logits), dtype=np.int64)
    if HAS_NUMBA:
        indices = np.empty(logits.size + 1, dtype=np.int32)
        written = _draw_rows(logits, starts, stops, chosen, keys, indices, lengths)
        return indices[:written].copy(), lengths
    present = np.zeros(logits.shape, dtype=bool)
    uniform = np.random.Generator(np.random.Philox(int(keys[0]) & (2**63 - 1) if len(keys) else 0))
    for start, stop in zip(starts, stops, strict=True):
        odds = np.exp(-np.clip(logits[:, start:stop], -80, 80))
        present[:, start:stop] = uniform.random((len(logits), stop - start)) * (1 + odds) < 1
    np.put_along_axis(present, chosen, True, axis=1)
    where, columns = np.nonzero(present)
    return columns.astype(np.int32), np.bincount(where, minlength=len(logits))
