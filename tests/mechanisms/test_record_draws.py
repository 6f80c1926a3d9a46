"""Secret draws of records: standard normal, fresh, apart from noise and coins, never stored."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from scipy import stats

from dpgm.data.domain import Domain
from dpgm.data.records import Records
from dpgm.errors import DpgmError
from dpgm.mechanisms.gateway import Gateway, TraceGateway
from dpgm.mechanisms.normals import fill_with_normals
from dpgm.mechanisms.query import Query, View
from dpgm.mechanisms.randomness import SeededRandomness, SystemRandomness

RECORDS = Records.from_lists([[0], [1], [0, 1]], Domain.of_items(2))


def drawn(source, shape=(20_000, 5), dtype=torch.float32):
    out = torch.empty(shape, dtype=dtype)
    fill_with_normals(out, source)
    return out


def query(seen, width=4):
    def compute(view):
        out = torch.empty((len(view.records), width))
        view.fill_normals(np.arange(len(view.records)), out)
        seen.append(out)
        return torch.zeros(1)

    return Query(compute, 1.0, (1,))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_they_are_independent_standard_normals(dtype):
    source = SystemRandomness()
    values = drawn(source, dtype=dtype).double().numpy()
    assert stats.kstest(values.ravel(), "norm").pvalue > 1e-6
    assert np.abs(np.corrcoef(values.T) - np.eye(5)).max() < 6 / np.sqrt(len(values))
    again = drawn(source, dtype=dtype).double().numpy()
    assert abs(float((values * again).mean())) < 6 / np.sqrt(values.size)
    assert drawn(source, (0, 5)).shape == (0, 5)


def test_every_call_every_source_and_every_view_draws_afresh():
    source = SystemRandomness()
    assert not torch.equal(drawn(source, (3, 4)), drawn(source, (3, 4)))
    assert not torch.equal(drawn(source, (3, 4)), drawn(SystemRandomness(), (3, 4)))
    seen = []
    gateway = Gateway(RECORDS, randomness=source)
    for _ in range(2):
        gateway.release("anything", query(seen), 1.0)
    assert not torch.equal(*seen)


def test_a_seeded_source_repeats_them_and_noise_does_not_move_them():
    one, other = SeededRandomness(3), SeededRandomness(3)
    other.words(17)
    other.draws()
    other.device_noise("cpu")
    first = drawn(one)
    assert torch.equal(first, drawn(other))
    assert np.array_equal(one.words(17), SeededRandomness(3).words(17))
    assert not torch.equal(first, drawn(SeededRandomness(4)))


def test_on_an_accelerator_they_come_from_a_generator_apart_from_the_noise():
    source, used = SeededRandomness(3), []
    there = SimpleNamespace(device=SimpleNamespace(type="cuda"), normal_=lambda generator: used.append(generator))
    of_records = source.record_generator("cpu")
    fill_with_normals(there, SimpleNamespace(record_generator=lambda device: of_records))
    assert used == [of_records]
    assert source.record_generator("cpu") is of_records
    assert source.device_noise("cpu") is not of_records
    assert not torch.equal(torch.rand(4, generator=source.device_noise("cpu")), torch.rand(4, generator=of_records))


def test_a_view_made_without_a_gateway_has_none():
    with pytest.raises(DpgmError, match="come from a gateway"):
        View(RECORDS).fill_normals(np.arange(3), torch.empty(3, 2))


def test_a_trace_can_be_given_the_draws_of_each_record():
    seen, table = [], np.arange(12.0).reshape(3, 4)
    gateway = TraceGateway(
        RECORDS, randomness=SeededRandomness(0), normals=lambda step, rows, width: table[rows, :width]
    )
    gateway.release("anything", query(seen), 1.0)
    assert torch.equal(seen[0], torch.from_numpy(table).float())
    plain = TraceGateway(RECORDS, randomness=SeededRandomness(0))
    plain.release("anything", query(seen), 1.0)
    assert not torch.equal(seen[0], seen[1])
