from dataclasses import replace

import numpy as np
import pytest
import torch

from dpgm.data.domain import Domain
from dpgm.products import model as products
from dpgm.products.model import Products
from dpgm.synthesis import sampling
from dpgm.synthesis.sampling import Sample, sample_chunks


def listed(items=10):
    """All sets of a few items, each a component of its own."""
    held = torch.tensor([[float(mask >> item & 1) for item in range(items)] for mask in range(2**items)])
    weights = torch.rand(2**items, generator=torch.Generator().manual_seed(0), dtype=torch.float64) ** 8
    return Products(Domain.of_items(items), weights / weights.sum(), held)


@pytest.fixture
def small_parts(monkeypatch):
    """Samples of more than 1,000 records are drawn in parts of 500."""
    monkeypatch.setattr(sampling, "CHUNK", 500)
    few = replace(products.SAMPLING, balanced_records=1_000, rounded_cells=1_000)
    monkeypatch.setattr(products, "SAMPLING", few)


@pytest.mark.usefixtures("small_parts")
def test_many_records_in_parts_are_as_even_as_in_one():
    model, count = listed(), 100_000
    drawn = Sample(model, model.domain, count, seed=1).records().to_dense(np.int64)
    counts = np.bincount(drawn @ (1 << np.arange(10)), minlength=1024)
    # Rounding each of 200 parts by chance alone would leave deviations of about 4 records, and 15 at most.
    assert np.abs(counts - count * model.weights.numpy()).max() < 5


@pytest.mark.usefixtures("small_parts")
def test_parts_do_not_depend_on_threads():
    alone, together = (list(sample_chunks(listed(), 3_000, seed=2, threads=threads)) for threads in (1, 3))
    assert [len(part) for part in alone] == [500] * 6
    assert all((a.indices == b.indices).all() for a, b in zip(alone, together, strict=True))


def test_items_and_pairs_of_few_items_come_out_right_in_large_samples():
    model, count = listed(), 150_000
    drawn = Sample(model, model.domain, count, seed=1).records().to_dense(np.float64)
    held = model.probabilities.double()
    wanted = count * ((held * model.weights[:, None]).T @ held).numpy()
    assert np.abs(drawn.T @ drawn - wanted).max() < 4


def test_a_billion_empty_records_come_in_parts():
    empty = Products(Domain.of_items(3), torch.ones(1, dtype=torch.float64), torch.zeros(1, 3))
    assert sum(1 for _ in zip(sample_chunks(empty, 10**9, seed=0, threads=1), range(2), strict=False)) == 2
    assert sampling._Source(empty, 10**9, 0).chunk == sampling.CHUNK
