"""Fused kernels on a CUDA device compute what plain tensor operations compute."""

import math

import pytest
import torch

from dpgm.kernels import fused, network_kernels
from dpgm.mechanisms.norm_bound import AdaptiveNormBound, norm_edges, norm_histogram
from dpgm.networks.clipped_gradients_cuda import DeviceNormBound

TILES, PLACES = 3, 5
DEVICE = "cuda"

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]


def lines(width):
    """Random numbers with padding between rows, as in a workspace."""
    return torch.randn(TILES, PLACES + 2, width + 6, device=DEVICE)[:, :PLACES, :width]


def number(value):
    return torch.tensor(value, dtype=torch.float64, device=DEVICE)


def vector():
    return torch.empty(TILES, PLACES, dtype=torch.float64, device=DEVICE)


def squares(values):
    return values.double().square().sum(-1)


@pytest.mark.parametrize("width", [1, 37, 2500])
def test_rows_are_gathered_and_counted(width):
    source = (torch.rand(11, width, device=DEVICE) < 0.3).to(torch.uint8)
    rows, out, squared = torch.randint(0, 11, (TILES, PLACES), device=DEVICE), lines(width), vector()
    fused.gather_rows(source, rows, out, squared)
    assert torch.equal(out, source[rows].float())
    assert torch.equal(squared, out.double().sum(-1) + 1)


@pytest.mark.parametrize("width", [1, 37, 2500])
def test_layers(width):
    values, squared = lines(width), vector()
    before = values.clone()
    fused.rectify(values, width, squared)
    assert torch.equal(values, before.clamp(min=0))
    assert torch.allclose(squared, squares(values) + 1, rtol=1e-12)
    slopes = lines(width)
    before = slopes.clone()
    fused.gate(slopes, values, width, squared)
    assert torch.equal(slopes, before * (values > 0))
    assert torch.allclose(squared, squares(slopes), rtol=1e-12)
    logits, records = lines(width), (lines(width) > 1).float()
    before = logits.clone()
    assert fused.sigmoid_residual(logits, records, squared)
    assert torch.allclose(logits, before.sigmoid() - records, atol=1e-6)
    assert torch.allclose(squared, squares(logits), rtol=1e-12)


@pytest.mark.parametrize("latent", [1, 2, 3, 20])
def test_latent_variables(latent):
    heads, out, squared = lines(2 * latent), lines(latent), vector()
    draws = torch.randn(TILES, PLACES, latent, device=DEVICE)
    fused.reparametrise(heads, draws, latent, out, squared)
    mean, spread = heads[..., :latent], torch.exp(heads[..., latent:] / 2)
    assert torch.allclose(out, mean + spread * draws, atol=1e-5)
    assert torch.allclose(squared, squares(out) + 1, rtol=1e-12)
    slopes, out = lines(latent), lines(2 * latent)
    fused.latent_delta(slopes, heads, draws, latent, out, squared)
    assert torch.allclose(out[..., :latent], slopes + mean, atol=1e-5)
    assert torch.allclose(out[..., latent:], (slopes * draws * spread + spread**2 - 1) / 2, atol=1e-5)
    assert torch.allclose(squared, squares(out), rtol=1e-12)


@pytest.mark.parametrize("bins", [3, 24, 100])
def test_norms_are_binned_and_clipped(bins):
    edges = norm_edges(bins).to(DEVICE)
    squared = 10 ** (torch.rand(40, 50, dtype=torch.float64, device=DEVICE) * 12 - 5)
    squared[0, :6] = torch.tensor([torch.inf, torch.nan, 0.0, 1e12, 1e60, 1e80])
    rows = torch.randint(0, 10, (40, 50), device=DEVICE)
    norms, counts = torch.empty_like(squared), torch.zeros(bins, dtype=torch.int64, device=DEVICE)
    assert fused.bin_norms(squared, rows, 9, edges, norms, counts)
    plain = squared.sqrt().masked_fill(rows == 9, torch.nan)
    assert torch.allclose(norms, plain, rtol=1e-12, equal_nan=True)
    assert torch.equal(counts, norm_histogram(norms, edges))
    weights = torch.empty(40, 50, device=DEVICE)
    fused.clip_weights(norms, number(5.0), weights, 1.25)
    expected = (4 / plain).clamp(max=1).masked_fill(~torch.isfinite(plain) | (plain > 1e38), 0).float()
    assert torch.allclose(weights, expected, rtol=1e-6, atol=0)


@pytest.mark.parametrize(("narrow", "wide"), [(1, 2500), (5, 201), (300, 301)])
def test_rows_are_weighted_and_those_of_weight_zero_set_to_zero(narrow, wide):
    thin, thick, out = lines(narrow), lines(wide), lines(narrow)
    weights = torch.rand(TILES, PLACES, device=DEVICE)
    weights[0, 1] = weights[2, 4] = 0
    thin[1, 1] = 1.1e-38  # a product below float32's smallest number with all its digits becomes 0
    thin[0, 1] = torch.nan
    thick[0, 1] = torch.inf
    nothing = (weights == 0).unsqueeze(-1)
    expected = (thin * weights.unsqueeze(-1)).masked_fill(nothing, 0), thick.masked_fill(nothing, 0)
    expected[0][1, 1] = 0
    fused.weigh(thin, thick, weights, out)
    assert torch.equal(out, expected[0])
    assert torch.equal(thick, expected[1])


@pytest.mark.parametrize("sensitivity", [0.25, 0.3, 1.0, 700.0, 1024.0])
def test_noise_is_added_in_doubles_and_rounded(sensitivity):
    exact = torch.randn(2, 3001, device=DEVICE)
    noise = torch.randn(2, 3001, dtype=torch.float64, device=DEVICE)
    large = 1.5 * 2.0**52 * 2.0 ** (math.frexp(sensitivity)[1] - 21)
    sums = exact.double() + noise * sensitivity
    assert fused.add_rounded(exact, noise, number(sensitivity))
    rounded = ((sums + large) - large).float()
    if math.frexp(sensitivity)[0] == 0.5:  # a power of two: the product is exact
        assert torch.equal(exact, rounded)
    # Else one rounding less on the device may move a number to the neighbouring point of the grid, rarely.
    assert (exact == rounded).float().mean() > 0.999
    assert torch.allclose(exact, rounded, rtol=1e-6, atol=2.0**-19 * sensitivity)


@pytest.mark.parametrize("quantile", [0.5, 0.9, "mode"])
@pytest.mark.parametrize("bins", [3, 24, 40])
def test_the_norm_bound_is_that_of_the_cpu(bins, quantile):
    edges, generator = norm_edges(bins), torch.Generator().manual_seed(bins)
    here = AdaptiveNormBound(edges, noise=5.0, quantile=quantile, start=3.0)
    there = DeviceNormBound(AdaptiveNormBound(edges, noise=5.0, quantile=quantile, start=3.0), edges, DEVICE)
    seen = set()
    for step in range(60):
        # Only noise at first; then norms concentrate around a bin that moves.
        level = torch.exp(-0.5 * (torch.arange(bins) - step / 60 * bins).square()) * (300 if step > 5 else 0)
        histogram = (level + 5 * torch.randn(bins, generator=generator)).round().double()
        bound = here.update(histogram)
        seen.add(bound)
        assert float(there.update(histogram.to(DEVICE))) == bound
        for name, value in here.state().items():
            assert torch.allclose(there.state()[name], value, rtol=1e-12, atol=1e-9)
    assert len(seen) > 2 or bins == 3
    state = here.state()
    there.restore(state)
    assert all(torch.equal(there.state()[name], value) for name, value in state.items())
    assert there.cap == float(edges[-1])


def test_adam_is_that_of_the_cpu():
    here = [torch.randn(2, 3001) for _ in range(4)]
    here[3].abs_()
    there = [tensor.to(DEVICE) for tensor in here]
    scales = torch.tensor([0.5, 2.0])
    average = there[0] + 1
    past = average.clone()
    beta1, beta2, tiny, rate, step = 0.9, 0.999, 1e-8, 0.01, 3
    network_kernels.adam(
        *(tensor.numpy() for tensor in here),
        scales.numpy(),
        rate=rate,
        beta1=beta1,
        beta2=beta2,
        tiny=tiny,
        step=step,
    )
    numbers = torch.tensor([rate / (1 - beta1**step), 1 / math.sqrt(1 - beta2**step), 0.25], device=DEVICE)
    assert fused.adam(*there, average, scales.to(DEVICE), numbers, beta1=beta1, beta2=beta2, tiny=tiny)
    for mine, plain in zip(there, here, strict=True):
        assert torch.allclose(mine.cpu(), plain, atol=1e-6)
    assert torch.allclose(average, torch.lerp(past, there[0], 0.25), atol=1e-6)


def test_kernels_refuse_what_they_cannot_do():
    assert not fused.usable(torch.randn(2, 3, 4), torch.empty(2, 3))
    assert not fused.usable(lines(4).double(), vector())
    assert not fused.usable(lines(4).transpose(1, 2), torch.empty(TILES, 4, device=DEVICE))
    assert not fused.sigmoid_residual(torch.randn(2, 3, 4), torch.ones(2, 3, 4), torch.empty(2, 3))
