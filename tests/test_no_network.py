"""Nothing opens a socket: a fit, a check and a sample with sockets forbidden."""

import socket

import pytest

import dpgm
from dpgm.cli.app import load_commands, run
from synthesis_data import SETS, some_records

load_commands()


@pytest.fixture
def no_sockets(monkeypatch):
    asked = []

    def refuse(*arguments, **named):
        asked.append(arguments)
        raise OSError("a socket was asked for")

    for name in ("socket", "create_connection", "getaddrinfo", "create_server"):
        monkeypatch.setattr(socket, name, refuse)
    return asked


def test_fit_verify_and_sample_open_no_socket(tmp_path, no_sockets):
    some_records(SETS, 60).write(tmp_path / "d.parquet")
    release = tmp_path / "release"
    fit = ["fit", tmp_path / "d.parquet", "--assume-public-items", "--epsilon", "1", "--quiet", "--out", release]
    draw = ["sample", release, "--records", "20", "--quiet", "--out", tmp_path / "drawn.csv"]
    for command in (fit, ["verify", release], draw):
        assert run([str(part) for part in command]) == 0
    assert dpgm.verify(release).ok
    assert no_sockets == []
