"""The digest by which a resumed fit knows its rows covers the rows of every process."""

import numpy as np

from dpgm.data.domain import Domain
from dpgm.data.records import Records
from dpgm.kernels import parallel
from dpgm.synthesis.fingerprint import rows_fingerprint
from reading_data import with_open_items


def rows_to_discover(rows):
    return with_open_items(Records.from_lists(rows, Domain.of_items(5)))


def test_rows_of_other_processes_are_in_the_digest_of_an_open_domain(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    records = rows_to_discover([[0, 1], [2]])
    alone = rows_fingerprint(records)
    monkeypatch.setattr(parallel, "is_parallel", lambda: True)
    monkeypatch.setattr(parallel, "bytes_from_first", lambda data: data)
    found = []
    for other in (b"x" * 32, b"y" * 32):
        monkeypatch.setattr(parallel, "bytes_of_all", lambda data, other=other: [data, other])
        found.append(rows_fingerprint(records))
    assert len({alone, *found}) == 3
    assert len(np.unique(found)) == 2
