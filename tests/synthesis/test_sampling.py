"""Samples drawn in parts: evenly balanced, independent of threads, in bounded memory."""

from dataclasses import replace
from itertools import islice

import numpy as np
import pytest
import torch

from dpgm.data.domain import Domain
from dpgm.products.model import Products
from dpgm.products.rules import SAMPLING_RULES
from dpgm.synthesis import sampling
from dpgm.synthesis.sampling import Sample, sample_chunks

FEW = replace(SAMPLING_RULES, balanced_records=1_000, rounded_cells=1_000)


def all_sets(items=10, rules=SAMPLING_RULES):
    """A mixture with one component for every set of a few items."""
    present = torch.tensor([[float(mask >> item & 1) for item in range(items)] for mask in range(2**items)])
    weights = torch.rand(2**items, generator=torch.Generator().manual_seed(0), dtype=torch.float64) ** 8
    return Products(Domain.of_items(items), weights / weights.sum(), present, rules)


@pytest.fixture
def small_parts(monkeypatch):
    """Samples of more than 1,000 records are drawn in parts of 500."""
    monkeypatch.setattr(sampling, "SAMPLED_AT_ONCE", 500)


@pytest.mark.usefixtures("small_parts")
def test_many_records_in_parts_are_as_even_as_in_one():
    model, count = all_sets(rules=FEW), 100_000
    drawn = Sample(model, model.domain, count, seed=1).records().to_dense(np.int64)
    counts = np.bincount(drawn @ (1 << np.arange(10)), minlength=1024)
    # Rounding each of 200 parts by chance alone would leave deviations of about 4 records, and 15 at most.
    assert np.abs(counts - count * model.weights.numpy()).max() < 5


@pytest.mark.usefixtures("small_parts")
def test_parts_do_not_depend_on_threads():
    one_thread, three_threads = (
        list(sample_chunks(all_sets(rules=FEW), 3_000, seed=2, threads=threads)) for threads in (1, 3)
    )
    assert [len(part) for part in one_thread] == [500] * 6
    assert all((a.indices == b.indices).all() for a, b in zip(one_thread, three_threads, strict=True))


def test_items_and_pairs_of_few_items_come_out_right_in_large_samples():
    model, count = all_sets(), 150_000
    drawn = Sample(model, model.domain, count, seed=1).records().to_dense(np.float64)
    present = model.probabilities.double()
    expected = count * ((present * model.weights[:, None]).T @ present).numpy()
    assert np.abs(drawn.T @ drawn - expected).max() < 4


def test_a_billion_empty_records_come_in_parts():
    empty = Products(Domain.of_items(3), torch.ones(1, dtype=torch.float64), torch.zeros(1, 3))
    first = islice(sample_chunks(empty, 10**9, seed=0, threads=1), 2)
    assert [len(chunk) for chunk in first] == [sampling.SAMPLED_AT_ONCE] * 2
