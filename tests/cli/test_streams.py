"""`-` for stdin and stdout: pipes work, stdout has data only, and the copy of stdin is private."""

import io
import os
import stat
import subprocess
import sys

import numpy as np
import pyarrow.parquet as pq
import pytest

from dpgm.cli.app import run
from dpgm.data.formats import ending_of
from dpgm.data.formats.opening import locate, open_bytes, spooled
from dpgm.errors import InputError

PEOPLE = 300


def table_text(rows=PEOPLE):
    draws = np.random.default_rng(1)
    lines = [
        f"{age},{sex}"
        for age, sex in zip(draws.integers(18, 90, rows), draws.choice(["f", "m"], rows), strict=True)
    ]
    return "\n".join(["age,sex", *lines]) + "\n"


@pytest.fixture
def piped(monkeypatch):
    """Puts bytes on stdin."""

    def put(data):
        content = data if isinstance(data, bytes) else data.encode()
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))

    return put


@pytest.fixture(scope="module")
def release(tmp_path_factory):
    folder = tmp_path_factory.mktemp("piped")
    (folder / "people.csv").write_text(table_text())
    draft = str(folder / "domain.yaml")
    assert run(["inspect", str(folder / "people.csv"), "--draft-domain", draft]) == 0
    fitted = ("--domain", draft, "--epsilon", "1", "--model", "independent", "--quiet")
    assert run(["fit", str(folder / "people.csv"), *fitted, "--out", str(folder / "release")]) == 0
    return folder


def test_a_spooled_stream_is_private_has_no_name_and_goes_with_its_value(tmp_path):
    copy = spooled(io.BytesIO(b"a,b\n1,2\n"), "stdin", folder=tmp_path)
    assert not list(tmp_path.iterdir())  # no name to open it by
    assert stat.S_IMODE(os.stat(copy).st_mode) == 0o600
    source = locate(copy)
    assert str(source) == "stdin"
    for _ in range(2):  # readers open it again and again
        with open_bytes(source) as stream:
            assert stream.read() == b"a,b\n1,2\n"
    handle = os.fspath(copy)
    del copy, source, stream
    assert not os.path.exists(handle)


def test_an_empty_or_compressed_stdin_is_said_in_a_sentence():
    with pytest.raises(InputError, match="holds nothing"):
        spooled(io.BytesIO(b""), "stdin")
    with pytest.raises(InputError, match="gunzip"):
        spooled(io.BytesIO(b"\x1f\x8b\x08rest"), "stdin", ending_of=ending_of)


def test_inspect_tells_the_format_of_stdin_itself(piped, capsys, tmp_path):
    piped(table_text())
    assert run(["inspect", "-"]) == 0
    assert capsys.readouterr().out.startswith("stdin (curator only")
    piped('{"age": 5, "sex": "f"}\n{"age": 7, "sex": "m"}\n')
    assert run(["inspect", "-"]) == 0
    assert "records    2" in capsys.readouterr().out


def test_fit_from_stdin_needs_the_format_and_reads_twice(release, piped, capsys):
    fitted = ("--domain", str(release / "domain.yaml"), "--epsilon", "1", "--model", "independent", "--quiet")
    piped(table_text())
    assert run(["fit", "-", *fitted, "--out", str(release / "untold")]) == 2
    assert "--format csv" in capsys.readouterr().err
    piped(table_text())
    assert run(["fit", "-", "--format", "csv", *fitted, "--out", str(release / "from-stdin")]) == 0
    assert run(["fit", "-", "--format", "csv", *fitted, "--out", "-"]) == 2
    assert "folder" in capsys.readouterr().err


def test_sample_to_stdout_is_data_and_nothing_else(release, capfdbinary):
    assert run(["sample", str(release / "release"), "-o", "-", "--seed", "1"]) == 0
    printed = capfdbinary.readouterr()
    lines = printed.out.decode().splitlines()
    assert lines[0] == "age,sex"
    assert len(lines) == PEOPLE + 1  # by default as many as were fitted
    assert b"written to stdout" in printed.err
    assert run(["sample", str(release / "release"), "-o", "-", "--format", "parquet", "--records", "7"]) == 0
    assert pq.read_table(io.BytesIO(capfdbinary.readouterr().out)).num_rows == 7
    assert run(["sample", str(release / "release"), "-o", "-", "--format", "npy"]) == 2
    assert run(["sample", str(release / "release"), "-o", "x.csv", "--format", "csv"]) == 2


def test_evaluate_takes_either_file_from_stdin_and_gives_the_report_to_stdout(release, piped, capsys):
    people = str(release / "people.csv")
    piped(table_text())
    assert run(["evaluate", people, "-", "--quiet", "--out", "-"]) == 0
    assert capsys.readouterr().out.lower().startswith("<!doctype html>")
    piped(table_text())
    assert run(["evaluate", "-", people]) == 0
    assert "age" in capsys.readouterr().out
    piped(table_text())
    assert run(["evaluate", "-", "-"]) == 2
    assert "once" in capsys.readouterr().err


def test_a_reader_of_stdout_that_stops_early_gives_no_traceback(release):
    drawn = f"{sys.executable} -m dpgm sample {release / 'release'} -o - --records 40000"
    piped = subprocess.run(
        ["bash", "-c", f"{drawn} | head -3"],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert piped.stdout.splitlines()[0] == "age,sex"
    assert "Traceback" not in piped.stderr
    assert "Exception ignored" not in piped.stderr
