"""The written-out gradients of the loss are those of its formulae."""

import pytest
import torch

from dpgm.products.fitting import divergences, squared_errors


def drawn(*shape: int) -> torch.Tensor:
    return torch.rand(shape, generator=torch.Generator().manual_seed(len(shape)), dtype=torch.float64) * 0.8 + 0.1


def test_squared_errors_are_those_of_the_formula_and_infinite_variances_count_nothing():
    predicted, values = drawn(4, 5).requires_grad_(), 30 * drawn(5, 4).T
    weights = 1 / torch.where(values > 20, torch.inf, values)
    squared_errors(predicted, values, 40, weights).backward()
    plain = predicted.detach().clone().requires_grad_()
    expected = ((40 * plain - values) ** 2 * weights).sum()
    expected.backward()
    found = squared_errors(predicted.detach(), values, 40, weights)
    assert float(found) == pytest.approx(float(expected.detach()))
    torch.testing.assert_close(predicted.grad, plain.grad)


@pytest.mark.parametrize("columns", [0, 3])
def test_divergences_are_those_of_the_formula_for_items_and_columns(columns):
    profile, chances = drawn(6), drawn(3, 6).requires_grad_()
    free = torch.ones(6, dtype=torch.float64)
    free[:columns] = 0
    logs, rest = profile.log(), (1 - profile).log()
    weights = drawn(3)
    found = divergences(chances, logs, rest, free if columns else None)
    (weights * found).sum().backward()
    plain = chances.detach().clone().requires_grad_()
    bits = plain * (plain.log() - logs)
    others = (1 - plain) * ((1 - plain).log() - rest)
    expected = bits.sum(dim=1) + others[:, columns:].sum(dim=1)
    (weights * expected).sum().backward()
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(chances.grad, plain.grad)


def test_probabilities_of_zero_and_one_have_finite_gradients():
    chances = torch.tensor([[0.0, 1.0]], requires_grad=True)
    half = torch.full((2,), 0.5).log()
    divergences(chances, half, half, None).sum().backward()
    assert bool(torch.isfinite(chances.grad).all())
