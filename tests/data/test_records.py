"""Records: slices, selections, chunks and concatenation agree with the dense matrix."""

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from data_strategies import item_domains, random_records, records_of
from dpgm.data import rows as module
from dpgm.data.domain import Domain
from dpgm.data.records import Records, concatenate
from dpgm.errors import UsageError


@given(records=records_of(item_domains), data=st.data())
@settings(max_examples=60, deadline=None)
def test_slices_and_selections_agree_with_the_dense_matrix(records, data):
    dense = records.to_dense()
    start, stop = data.draw(st.integers(-3, 10)), data.draw(st.integers(-3, 10))
    assert np.array_equal(records.rows(start, stop).to_dense(), dense[start:stop])
    picked = np.array(data.draw(st.lists(st.integers(0, len(records) - 1), max_size=12)), dtype=np.int64)
    assert np.array_equal(records.take(picked).to_dense(), dense[picked])
    mask = np.array(data.draw(st.lists(st.booleans(), min_size=len(records), max_size=len(records))), dtype=bool)
    assert np.array_equal(records.take(mask).to_dense(), dense[mask])
    size = data.draw(st.integers(1, 5))
    assert concatenate(list(records.chunks(size))) == records
    assert Records.from_dense(dense, records.domain) == records


def test_large_selections_are_gathered_in_pieces(monkeypatch):
    records = random_records(300, 50, 6)
    rows = np.random.default_rng(0).permutation(300)
    whole = records.take(rows)
    monkeypatch.setattr(module, "_PIECE", 10)
    assert records.take(rows) == whole
    shuffled = Records.from_flat(records.indices[::-1].copy(), records.lengths[::-1].copy(), records.domain)
    assert np.array_equal(shuffled.to_dense(), records.to_dense()[::-1])


def test_slicing_shares_memory_and_nothing_can_be_changed():
    records = random_records(100, 50, 5)
    part = records.rows(10, 60)
    assert np.shares_memory(part.indices, records.indices)
    assert np.shares_memory(records.rows(0, 50).indptr, records.indptr)
    with pytest.raises(ValueError, match="read-only"):
        records.indices[0] = 1
    assert part.indptr[0] == 0


def test_positions_are_small_integers():
    assert random_records(5, 100, 2).indices.dtype == np.int16
    assert Records.from_lists([[40_000]], Domain.of_items(50_000)).indices.dtype == np.int32
    assert random_records(5, 100, 2).indptr.dtype == np.int64


def test_duplicates_count_once_and_positions_outside_are_refused():
    domain = Domain.of_items(3)
    assert Records.from_lists([[2, 0, 2]], domain).indices.tolist() == [0, 2]
    for bad in ([[3]], [[-1]]):
        with pytest.raises(UsageError, match="positions"):
            Records.from_lists(bad, domain)


def test_concatenation_needs_one_domain():
    one, two = random_records(2, 5, 2), random_records(2, 6, 2)
    with pytest.raises(UsageError, match="different domains"):
        concatenate([one, two])
    with pytest.raises(UsageError, match="at least one"):
        concatenate([])
    assert one != two
    assert one == random_records(2, 5, 2)


def test_domain_and_records_need_numpy_alone():
    program = (
        "import sys\n"
        "class Block:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name.split('.')[0] in ('scipy', 'pyarrow', 'pandas', 'polars', 'yaml', 'torch', 'numba', 'typer'):\n"
        "            raise ImportError(name)\n"
        "sys.meta_path.insert(0, Block())\n"
        "import dpgm.data.domain, dpgm.data.records, dpgm.data.atomic, dpgm.data.simulate\n"
        "records = dpgm.data.simulate.simulate_transit(20, seed=1)\n"
        "assert len(records.take(records.lengths > 2)) > 0\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
