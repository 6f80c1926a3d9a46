"""The web logs of UCI become files that dpgm reads."""

import zipfile
from pathlib import Path

import pytest

from dpgm.data.records import Records
from public_data import DATA, needs

EXPERIMENTS = Path(__file__).parents[2] / "experiments"
LOGS = {
    # records, positions, mean and longest
    "msweb/anonymous-msweb.data.gz": (32_711, 294, 3.02, 35),
    "msweb/anonymous-msweb.test.gz": (5_000, 294, 3.04, 28),
    "msnbc/msnbc990928.zip": (989_818, 17, 1.72, 17),
}


@pytest.fixture
def read_web_log(monkeypatch):
    monkeypatch.syspath_prepend(str(EXPERIMENTS))
    from web_logs import read_web_log

    return read_web_log


def test_lines_of_visitors_and_areas(tmp_path, read_web_log):
    lines = ['I,4,"www.microsoft.com","created by getlog.pl"', 'T,1,"VRoot",0,0,"VRoot"', 'N,0,"0"']
    lines += ['A,1287,1,"International AutoRoute","/autoroute"', 'A,1001,1,"Support","/support"']
    lines += ['C,"10001",10001', "V,1001,1", "V,1287,1", 'C,"10002",10002', 'C,"10003",10003', "V,9999,1"]
    (tmp_path / "msweb.data").write_text("\n".join(lines) + "\n")
    records = read_web_log(tmp_path / "msweb.data")
    assert records.domain.fields[0].items == (1001, 1287)
    assert records.lengths.tolist() == [2, 0, 0]


def test_sequences_in_a_zip(tmp_path, read_web_log):
    head = "% Different categories found in input file:\n\nfrontpage news tech\n\n\n% Sequences:\n\n"
    with zipfile.ZipFile(tmp_path / "m.zip", "w") as archive:
        archive.writestr("m.seq", head + "\n1 1 \n2 \n3 2 2 \n")
        archive.writestr("__MACOSX/._m.seq", "junk")
    records = read_web_log(tmp_path / "m.zip")
    assert records == Records.from_lists([[], [0], [1], [1, 2]], records.domain)
    assert records.domain.fields[0].items == (1, 2, 3)


@needs(*LOGS)
@pytest.mark.parametrize("name", LOGS)
def test_the_public_logs(name, read_web_log):
    records = read_web_log(DATA / name)
    count, width, mean, longest = LOGS[name]
    assert (len(records), records.width, records.lengths.max()) == (count, width, longest)
    assert records.lengths.mean() == pytest.approx(mean, abs=0.006)
