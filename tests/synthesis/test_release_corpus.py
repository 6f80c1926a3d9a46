"""A corpus of forged releases, R1 to R11: each is refused with a clear message, and nothing is opened needlessly."""

import json
import os
import pickle
import socket

import numpy as np
import pytest

import dpgm
from dpgm.cli.app import load_commands, run
from dpgm.errors import ArtefactError
from dpgm.synthesis.release import load
from release_data import edit, rehash, rewrite_readme, tensor_file, write_tensor_file

load_commands()


def refused(folder, capsys, check=None, *, unsafe=False):
    """`verify` fails and names the check, and `load` refuses; unsafe files are refused even unverified."""
    assert run(["verify", str(folder)]) == 1
    printed = capsys.readouterr()
    assert "certified" not in printed.out
    assert printed.err.count("\n") == 1
    assert "E-INTERNAL" not in printed.err
    assert "\x1b" not in printed.out + printed.err
    if check is not None:
        assert check in printed.out + printed.err
    with pytest.raises(ArtefactError):
        load(folder)
    if unsafe:
        with pytest.raises(ArtefactError):
            load(folder, unverified=True)


class Bomb:
    """Unpickling it would make a file."""

    def __init__(self, trace):
        self.trace = trace

    def __reduce__(self):
        return open, (str(self.trace), "w")


def test_r1_a_pickle_beside_the_weights_is_never_opened(folder, capsys, tmp_path):
    trace = tmp_path / "trace"
    (folder / "model.pt").write_bytes(pickle.dumps(Bomb(trace)))
    refused(folder, capsys, "folder listing")
    edit(folder, lambda document: document["files"].update({"model.pt": ""}))
    rehash(folder)
    refused(folder, capsys, "listed files")
    assert not trace.exists()


def test_r1_a_pickle_instead_of_the_weights_is_never_opened(folder, capsys, tmp_path):
    trace = tmp_path / "trace"
    (folder / "model.safetensors").write_bytes(pickle.dumps(Bomb(trace)))
    rehash(folder)
    refused(folder, capsys, "the generator opens", unsafe=True)
    assert not trace.exists()


def _parts(folder):
    header, data = tensor_file(folder)
    return json.loads(header), data


def _write(folder, header, data, length=None):
    text = header if isinstance(header, bytes) else json.dumps(header, separators=(",", ":")).encode()
    write_tensor_file(folder, text + b" " * (-len(text) % 8), data, length)


@pytest.mark.parametrize("length", [0, 1, 2**31, 2**62, 2**63, 2**64 - 1])
def test_r2_a_header_of_another_length(folder, capsys, length):
    header, data = _parts(folder)
    _write(folder, header, data, length)
    refused(folder, capsys, "the generator opens", unsafe=True)


@pytest.mark.parametrize("offsets", [[0, 96], [8, 112], [0, 2**62], [-16, 96], [96, 0], [0.0, 96.0], ["0", "96"]])
def test_r3_offsets_that_overlap_or_leave_gaps(folder, capsys, offsets):
    header, data = _parts(folder)
    header["probabilities"]["data_offsets"] = offsets
    if offsets == [0, 96]:
        header["weights"]["data_offsets"] = [0, 16]
    _write(folder, header, data)
    refused(folder, capsys, "the generator opens", unsafe=True)


def test_r4_a_name_twice(folder, capsys):
    header, data = _parts(folder)
    text = json.dumps(header, separators=(",", ":"))
    twice = '{"weights":' + json.dumps(header["weights"], separators=(",", ":")) + "," + text[1:]
    _write(folder, twice.encode(), data)
    refused(folder, capsys, "the generator opens", unsafe=True)


@pytest.mark.parametrize("kind", ["extra", "missing", "misshaped", "dtype", "renamed", "half"])
def test_r5_other_tensors_than_the_architecture_asks_for(folder, capsys, kind):
    header, data = _parts(folder)
    if kind == "extra":
        header["more"] = {"dtype": "U8", "shape": [8], "data_offsets": [len(data), len(data) + 8]}
        data += bytes(8)
    elif kind == "missing":
        last = max(header, key=lambda name: header[name]["data_offsets"][1])
        data = data[: header.pop(last)["data_offsets"][0]]
    elif kind == "misshaped":
        header["probabilities"]["shape"] = header["probabilities"]["shape"][::-1]
    elif kind == "dtype":
        header["probabilities"]["dtype"] = "I32"
    elif kind == "renamed":
        header["weight"] = header.pop("weights")
    else:
        header["probabilities"] |= {"dtype": "F16", "shape": [4, 12]}
    _write(folder, header, data)
    refused(folder, capsys, "the generator opens", unsafe=True)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1e38, -0.25])
def test_r6_values_that_are_no_probabilities(folder, capsys, value):
    header, data = _parts(folder)
    start = header["probabilities"]["data_offsets"][0]
    _write(folder, header, data[:start] + np.float32(value).tobytes() + data[start + 4 :])
    refused(folder, capsys, "the generator opens", unsafe=True)


@pytest.mark.parametrize("weights", [(-0.5, 1.5), (0.5, 0.6), (0.0, 0.0), (np.nan, 1.0)])
def test_r7_mixture_weights_that_are_no_shares(folder, capsys, weights):
    header, data = _parts(folder)
    start, stop = header["weights"]["data_offsets"]
    _write(folder, header, data[:start] + np.array(weights, np.float64).tobytes() + data[stop:])
    refused(folder, capsys, "the generator opens", unsafe=True)


def test_r8_an_edited_epsilon(folder, capsys):
    edit(folder, lambda document: document.update(epsilon=document["epsilon"] / 2))
    rewrite_readme(folder)
    refused(folder, capsys, "FAIL  epsilon")


@pytest.mark.parametrize("name", ["model.safetensors", "domain.json", "README.md"])
@pytest.mark.parametrize("digest", ["0" * 64, "", "not a digest"])
def test_r9_a_wrong_hash(folder, capsys, name, digest):
    edit(folder, lambda document: document["files"].update({name: digest}))
    refused(folder, capsys, f"FAIL  sha256 of {name}")


@pytest.mark.parametrize("name", ["../../etc/passwd", "/etc/passwd", "..", "a/../../b.json", "a\x00b"])
def test_r10_a_name_that_leaves_the_folder(folder, capsys, name):
    edit(folder, lambda document: document["files"].update({name: "0" * 64}))
    refused(folder, capsys, "FAIL  listed files")


@pytest.mark.parametrize("name", ["model.safetensors", "domain.json", "README.md", "certificate.json"])
@pytest.mark.parametrize("kind", ["link", "fifo", "folder", "socket"])
def test_r10_something_else_than_a_file(folder, capsys, name, kind, tmp_path, monkeypatch):
    moved = tmp_path / "moved"
    (folder / name).rename(moved)
    if kind == "link":
        (folder / name).symlink_to(moved)
    elif kind == "fifo":
        os.mkfifo(folder / name)
    elif kind == "folder":
        (folder / name).mkdir()
    else:
        monkeypatch.chdir(folder)  # a socket's path must be short
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(name)
    refused(folder, capsys, unsafe=name != "README.md")


@pytest.mark.parametrize("version", [0, 1, 2, 99, "2", None, 2.5, True])
def test_r10_another_format_version(folder, capsys, version):
    edit(folder, lambda document: document.update(format=version))
    refused(folder, capsys, "format version", unsafe=True)


@pytest.mark.parametrize("name", ["domain.json", "README.md", "certificate.json"])
def test_r10_a_gigabyte_of_json(folder, capsys, name):
    with (folder / name).open("r+b") as file:
        file.truncate(2**30)
    refused(folder, capsys, unsafe=name != "README.md")


@pytest.mark.parametrize(
    "text", ["<script>alert(1)</script>", "\x1b[31mred\x1b[0m", "\x1b]0;title\x07", "\u202egnp"]
)
@pytest.mark.parametrize("key", ["statements", "warnings", "software", "randomness", "accountant"])
def test_r11_texts_that_would_drive_a_terminal_or_a_page(folder, capsys, text, key):
    change = [text] if key in ("statements", "warnings") else text
    edit(folder, lambda document: document.update({key: change}))
    refused(folder, capsys)
    readable = text.isprintable()
    assert readable or "one line" in _why(folder)


def _why(folder):
    try:
        return str(dpgm.verify(folder).failed)
    except ArtefactError as error:
        return str(error)
