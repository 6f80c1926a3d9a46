"""Triton kernels of training on an accelerator, called by `fused.py`: one program per record, or per block of numbers.

A matrix of records is (tiles, places, width); record number `at` is in row at % places of tile at // places; `row` and
`tile` are the strides. Constants are written out, since a compiled kernel cannot see globals of another module.
"""

# mypy: ignore-errors
# ruff: noqa: D103
try:
    import triton
    import triton.language as tl

    HAS_TRITON = True
except ImportError:  # the module can be imported, but its kernels cannot run
    from types import SimpleNamespace

    triton, tl = SimpleNamespace(jit=lambda kernel: kernel), SimpleNamespace(constexpr=None)
    HAS_TRITON = False


@triton.jit
def gather_rows(source, rows, out, squared, places, width, tile, row, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64)
    number = tl.load(rows + at)
    target = out + (at // places) * tile + (at % places) * row
    total = tl.zeros([BLOCK], tl.float32)
    for start in range(0, width, BLOCK):
        column = start + tl.arange(0, BLOCK)
        ones = tl.load(source + number * width + column, mask=column < width, other=0).to(tl.float32)
        tl.store(target + column, ones, mask=column < width)
        total += ones
    tl.store(squared + at, tl.sum(total, 0) + 1)


@triton.jit
def rectify(values, squared, places, width, tile, row, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64)
    target = values + (at // places) * tile + (at % places) * row
    total = tl.zeros([BLOCK], tl.float64)
    for start in range(0, width, BLOCK):
        column = start + tl.arange(0, BLOCK)
        x = tl.load(target + column, mask=column < width, other=0)
        x = tl.where(x > 0, x, x * 0)  # NaN stays NaN
        tl.store(target + column, x, mask=column < width)
        total += x.to(tl.float64) * x.to(tl.float64)
    tl.store(squared + at, tl.sum(total, 0) + 1)


@triton.jit
def gate(slopes, values, squared, places, width, tile, row, values_tile, values_row, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64)
    target = slopes + (at // places) * tile + (at % places) * row
    source = values + (at // places) * values_tile + (at % places) * values_row
    total = tl.zeros([BLOCK], tl.float64)
    for start in range(0, width, BLOCK):
        column = start + tl.arange(0, BLOCK)
        slope = tl.load(target + column, mask=column < width, other=0)
        slope = tl.where(tl.load(source + column, mask=column < width, other=0) > 0, slope, slope * 0)
        tl.store(target + column, slope, mask=column < width)
        total += slope.to(tl.float64) * slope.to(tl.float64)
    tl.store(squared + at, tl.sum(total, 0))


@triton.jit
def residual(logits, records, squared, places, width, tile, row, records_tile, records_row, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64)
    target = logits + (at // places) * tile + (at % places) * row
    source = records + (at // places) * records_tile + (at % places) * records_row
    total = tl.zeros([BLOCK], tl.float64)
    for start in range(0, width, BLOCK):
        column = start + tl.arange(0, BLOCK)
        x = tl.load(target + column, mask=column < width, other=0)
        x = 1 / (1 + tl.exp(-x)) - tl.load(source + column, mask=column < width, other=0)
        x = tl.where(column < width, x, 0)
        tl.store(target + column, x, mask=column < width)
        total += x.to(tl.float64) * x.to(tl.float64)
    tl.store(squared + at, tl.sum(total, 0))


@triton.jit
def reparametrise(heads, draws, out, squared, places, latent, tile, row, out_tile, out_row, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64)
    source = heads + (at // places) * tile + (at % places) * row
    target = out + (at // places) * out_tile + (at % places) * out_row
    column = tl.arange(0, BLOCK)
    inside = column < latent
    spread = tl.exp(0.5 * tl.load(source + latent + column, mask=inside, other=0))
    value = tl.load(source + column, mask=inside, other=0) + spread * tl.load(
        draws + at * latent + column, mask=inside, other=0
    )
    tl.store(target + column, value, mask=inside)
    tl.store(squared + at, tl.sum(value.to(tl.float64) * value.to(tl.float64), 0) + 1)


@triton.jit
def latent_delta(
    slopes,
    heads,
    draws,
    out,
    squared,
    places,
    latent,
    tile,
    row,
    heads_tile,
    heads_row,
    out_tile,
    out_row,
    BLOCK: tl.constexpr,
):
    at = tl.program_id(0).to(tl.int64)
    source = heads + (at // places) * heads_tile + (at % places) * heads_row
    target = out + (at // places) * out_tile + (at % places) * out_row
    column = tl.arange(0, BLOCK)
    inside = column < latent
    slope = tl.load(slopes + (at // places) * tile + (at % places) * row + column, mask=inside, other=0)
    spread = tl.exp(0.5 * tl.load(source + latent + column, mask=inside, other=0))
    draw = tl.load(draws + at * latent + column, mask=inside, other=0)
    mean = slope + tl.load(source + column, mask=inside, other=0)
    variance = 0.5 * (slope * draw * spread + spread * spread - 1)
    tl.store(target + column, mean, mask=inside)
    tl.store(target + latent + column, variance, mask=inside)
    mean, variance = mean.to(tl.float64), variance.to(tl.float64)
    tl.store(squared + at, tl.sum(mean * mean + variance * variance, 0))


@triton.jit
def bin_norms(
    squares, rows, padding, edges, norms, counts, count, number, EDGES: tl.constexpr, BLOCK: tl.constexpr
):
    place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = place < count
    norm = tl.sqrt(tl.load(squares + place, mask=inside, other=0))
    taken = inside & (tl.load(rows + place, mask=inside, other=0) != padding)
    norm = tl.where(taken, norm, float("nan"))
    tl.store(norms + place, norm, mask=inside)
    # EDGES is the next power of two above the number of edges; the bin of a norm is the number of edges below it.
    column = tl.arange(0, EDGES)
    edge = tl.load(edges + column, mask=column < number, other=float("inf"))
    found = tl.sum((edge[None, :] < norm[:, None]).to(tl.int32), 1)
    found = tl.where(norm - norm == 0, found, -1)
    here = tl.sum((found[:, None] == column[None, :]).to(tl.int64), 0)
    tl.atomic_add(counts + column, here, mask=column <= number)


@triton.jit
def clip_weights(norms, bound, weights, count, SLACK: tl.constexpr, BLOCK: tl.constexpr):
    place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    norm = tl.load(norms + place, mask=place < count, other=1)
    weight = tl.minimum(tl.load(bound) / SLACK / norm, 1)
    # Below float32's smallest number with all its digits (2^-126) the weight would be rounded coarsely.
    kept = (norm - norm == 0) & (weight >= 1.1754943508222875e-38)
    tl.store(weights + place, tl.where(kept, weight, 0).to(tl.float32), mask=place < count)


@triton.jit
def weigh(
    narrow,
    wide,
    weights,
    out,
    places,
    width,
    wide_width,
    tile,
    row,
    wide_tile,
    wide_row,
    out_tile,
    out_row,
    BLOCK: tl.constexpr,
):
    at = tl.program_id(0).to(tl.int64)
    weight = tl.load(weights + at)
    source = narrow + (at // places) * tile + (at % places) * row
    target = out + (at // places) * out_tile + (at % places) * out_row
    for start in range(0, width, BLOCK):
        column = start + tl.arange(0, BLOCK)
        x = tl.load(source + column, mask=column < width, other=0)
        weighted = x * weight
        # 2^-126 again; false, too, for what is not finite, whose weight is 0.
        weighted = tl.where(tl.abs(weighted) >= 1.1754943508222875e-38, weighted, 0)
        tl.store(target + column, weighted, mask=column < width)
    if weight == 0:
        emptied = wide + (at // places) * wide_tile + (at % places) * wide_row
        for start in range(0, wide_width, BLOCK):
            column = start + tl.arange(0, BLOCK)
            tl.store(emptied + column, tl.zeros([BLOCK], wide.dtype.element_ty), mask=column < wide_width)


@triton.jit
def update_bound(
    histogram,
    state,
    edges,
    bins,
    NOISE: tl.constexpr,
    DECAY: tl.constexpr,
    QUANTILE: tl.constexpr,
    MODE: tl.constexpr,
    FLOOR: tl.constexpr,
    CAP: tl.constexpr,
    BINS: tl.constexpr,
):
    # AdaptiveNormBound.update with running sums instead of loops; the state is the average, the sum of squared weights
    # and the bound.
    column = tl.arange(0, BINS)
    inside = column < bins
    count = tl.load(histogram + column, mask=inside, other=0)
    average = DECAY * tl.load(state + column, mask=inside, other=0) + (1 - DECAY) * count
    squares = DECAY * DECAY * tl.load(state + bins) + (1 - DECAY) * (1 - DECAY)
    spread = NOISE * tl.sqrt(squares)
    most = tl.max(tl.where(inside, average, float("-inf")), 0)
    if MODE:
        found = tl.min(tl.where(inside & (average == most), column, BINS), 0)
    else:
        # The run of bins with the largest sum ends where the running sum is furthest above its earlier minimum.
        lowered = tl.where(inside, average - spread, 0)
        upto = tl.cumsum(lowered, 0)
        before = upto - lowered
        above = upto[None, :] - before[:, None]
        above = tl.where(column[:, None] <= column[None, :], above, float("-inf"))
        height = tl.where(inside, tl.max(above, 0), float("-inf"))
        last = tl.min(tl.where(height == tl.max(height, 0), column, BINS), 0)
        least = tl.min(tl.where(column <= last, before, float("inf")), 0)
        first = tl.max(tl.where((column <= last) & (before == least), column, 0), 0)
        within = (column >= first) & (column <= last)
        # The bin with the least pinball loss.
        part = tl.where(within, average, 0)
        slope = tl.where(within, tl.cumsum(part, 0) - QUANTILE * tl.sum(part, 0), 0)
        loss = tl.where(within, tl.cumsum(slope, 0) - slope, float("inf"))
        found = tl.min(tl.where(loss == tl.min(loss, 0), column, BINS), 0)
    upper = tl.load(edges + tl.minimum(found, bins - 2))
    upper = tl.minimum(tl.maximum(upper, FLOOR), CAP)
    bound = tl.where(most > 4 * spread, upper, tl.load(state + bins + 1))
    tl.store(state + column, average, mask=inside)
    tl.store(state + bins, squares)
    tl.store(state + bins + 1, bound)


@triton.jit
def add_rounded(exact, noise, sensitivity, count, BLOCK: tl.constexpr):
    place = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    reach = tl.load(sensitivity)
    # 1.5 x 2^52 grid steps, made from exponent bits; a step is 2^-21 of the power of two above the sensitivity.
    large = ((((reach.to(tl.int64, bitcast=True) >> 52) + 32) << 52) | (1 << 51)).to(tl.float64, bitcast=True)
    total = tl.load(exact + place, mask=place < count, other=0).to(tl.float64)
    total += tl.load(noise + place, mask=place < count, other=0) * reach
    tl.store(exact + place, ((total + large) - large).to(exact.dtype.element_ty), mask=place < count)


@triton.jit
def adam(
    parameters,
    gradients,
    first,
    second,
    average,
    scales,
    numbers,
    size,
    BETA1: tl.constexpr,
    BETA2: tl.constexpr,
    TINY: tl.constexpr,
    AVERAGED: tl.constexpr,
    BLOCK: tl.constexpr,
):
    model = tl.program_id(1).to(tl.int64)
    column = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = column < size
    place = model * size + column
    rate, root = tl.load(numbers), tl.load(numbers + 1)
    slope = tl.load(gradients + place, mask=inside, other=0) * tl.load(scales + model)
    m = BETA1 * tl.load(first + place, mask=inside, other=0) + (1 - BETA1) * slope
    v = BETA2 * tl.load(second + place, mask=inside, other=0) + (1 - BETA2) * slope * slope
    tl.store(first + place, m, mask=inside)
    tl.store(second + place, v, mask=inside)
    p = tl.load(parameters + place, mask=inside, other=0) - rate * m / (tl.sqrt(v) * root + TINY)
    tl.store(parameters + place, p, mask=inside)
    if AVERAGED:
        share = tl.load(numbers + 2)
        past = tl.load(average + place, mask=inside, other=0)
        tl.store(average + place, p - (p - past) * (1 - share), mask=inside)
