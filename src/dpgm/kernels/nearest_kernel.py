"""The nearest centre of int16 rows on the CPU: four rows against sixteen centres at a time.

Processors multiply pairs of 16-bit numbers and add them in one instruction (vpmaddwd, vpdpwssd), but compilers use it
only in the simplest loops, one row against one centre, where the sum over lanes costs as much as the products. Here a
lane is a centre: a pair of numbers of the row is multiplied with the same pair of sixteen centres, and nothing is
summed over lanes. Written as LLVM vector operations, which LLVM maps to the processor at hand; all integers, exact.
"""

# mypy: ignore-errors
import numpy as np
from numpy.typing import NDArray

from dpgm.kernels.compiled import HAS_NUMBA, compiled

if HAS_NUMBA:
    from llvmlite import ir
    from numba import types
    from numba.core import cgutils
    from numba.extending import intrinsic
else:  # the module can be imported, but its kernel cannot run

    def intrinsic(function):
        """Do nothing."""
        return function


LANES = 16  # centres at a time
ROWS = 4  # rows at a time, enough to hide the latency of an instruction
_AHEAD = 2 * ROWS  # distance in rows of prefetching
_NEVER = 1 << 62  # offset of a lane without a centre


@intrinsic
def _best_of_group(typing, features, row, step, packed, offsets, group, best, place):
    """For features[row + i * step], i < ROWS: the largest score in a group of centres, and the first lane with it."""
    signature = types.void(features, types.intp, types.intp, packed, offsets, types.intp, best, place)

    def code(context, builder, signature, arguments):
        word, long = ir.IntType(32), ir.IntType(64)
        pairs = ir.VectorType(ir.IntType(16), 2 * LANES)
        products, scores, exact = (
            ir.VectorType(of, n) for of, n in ((word, 2 * LANES), (word, LANES), (long, LANES))
        )
        evens, odds = (ir.Constant(scores, list(range(first, 2 * LANES, 2))) for first in (0, 1))
        everywhere = ir.Constant(scores, [0] * LANES)  # as indices of a shuffle: the first lane, in every lane

        def number(value):
            return ir.Constant(long, value)

        def memory(argument, index, of):
            array = context.make_array(signature.args[argument])(context, builder, arguments[argument])
            return builder.bitcast(builder.gep(array.data, [index]), of.as_pointer())

        def spread(value, of):
            empty = ir.Constant(of, ir.Undefined)
            return builder.shuffle_vector(
                builder.insert_element(empty, value, ir.Constant(word, 0)), empty, everywhere
            )

        def declared(name, result, *operands):
            return cgutils.get_or_insert_function(builder.module, ir.FunctionType(result, operands), name)

        _, row, step, _, _, group, _, _ = arguments
        array = context.make_array(signature.args[0])(context, builder, arguments[0])
        width = builder.extract_value(array.shape, 1)
        half = builder.lshr(width, number(1))
        rows = [builder.mul(builder.add(row, builder.mul(step, number(i))), width) for i in range(ROWS)]
        next_rows = builder.mul(builder.add(row, builder.mul(step, number(_AHEAD))), width)
        centers = builder.mul(builder.mul(group, width), number(LANES))
        totals = [cgutils.alloca_once(builder, scores) for _ in rows]
        for total in totals:
            builder.store(everywhere, total)
        address = ir.IntType(8).as_pointer()
        fetch = declared("llvm.prefetch.p0", ir.VoidType(), address, word, word, word)
        with cgutils.for_range(builder, half) as loop:
            # Prefetch as much as this iteration reads: two numbers of each row.
            ahead = builder.add(next_rows, builder.mul(loop.index, number(2 * ROWS)))
            builder.call(fetch, [memory(0, ahead, ir.IntType(8)), *(ir.Constant(word, flag) for flag in (0, 3, 1))])
            at = builder.add(centers, builder.mul(loop.index, number(2 * LANES)))
            many = builder.sext(builder.load(memory(3, at, pairs), align=2), products)
            for first, total in zip(rows, totals, strict=True):
                at = builder.add(first, builder.mul(loop.index, number(2)))
                pair = spread(builder.load(memory(0, at, word), align=2), scores)
                product = builder.mul(builder.sext(builder.bitcast(pair, pairs), products), many)
                both = builder.add(
                    builder.shuffle_vector(product, ir.Constant(products, ir.Undefined), evens),
                    builder.shuffle_vector(product, ir.Constant(products, ir.Undefined), odds),
                )
                builder.store(builder.add(builder.load(total), both), total)
        largest = declared(f"llvm.vector.reduce.smax.v{LANES}i64", long, exact)
        offset = builder.load(memory(4, builder.mul(group, number(LANES)), exact), align=8)
        for i, total in enumerate(totals):
            score = builder.sub(builder.sext(builder.load(total), exact), offset)
            top = builder.call(largest, [score])
            there = builder.bitcast(builder.icmp_signed("==", score, spread(top, exact)), ir.IntType(LANES))
            first = builder.cttz(there, ir.Constant(ir.IntType(1), 1))
            builder.store(top, memory(6, number(i), long))
            builder.store(builder.zext(first, long), memory(7, number(i), long))
        return context.get_dummy_value()

    return signature, code


@compiled
def assign_rows(
    features: NDArray[np.int16], centers: NDArray[np.int16], offsets: NDArray[np.int64], chosen: NDArray[np.int64]
) -> None:
    """`feature_kernels.assign` into `chosen` (n,); arrays are contiguous, with an even number of columns."""
    rows, width = features.shape
    groups = (len(centers) + LANES - 1) // LANES
    packed = np.zeros((groups, width // 2, LANES, 2), dtype=np.int16)
    padded_offsets = np.full(groups * LANES, _NEVER, dtype=np.int64)
    for center in range(len(centers)):
        padded_offsets[center] = offsets[center]
        for j in range(width):
            packed[center // LANES, j // 2, center % LANES, j % 2] = centers[center, j]
    best, place, top = np.empty(ROWS, np.int64), np.empty(ROWS, np.int64), np.empty(ROWS, np.int64)
    row = 0
    while row < rows:
        together = ROWS if row + ROWS <= rows else 1  # the last rows one by one, each in all four slots
        step = 1 if together > 1 else 0
        for group in range(groups):
            _best_of_group(features, row, step, packed, padded_offsets, group, best, place)
            for i in range(together):
                if group == 0 or best[i] > top[i]:
                    top[i] = best[i]
                    chosen[row + i] = LANES * group + place[i]
        row += together
