"""Structure-aware mutations of a valid release folder: what a clumsy or malicious hand could do to each of its files.

A release is a mapping from file names to bytes, so that a mutation costs no disk; `write` puts it into a folder. After
a mutation the forger may renew the README and the hashes, as a real one would.
"""

import hashlib
import json
import os
import random
import shutil
import struct
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

CERTIFICATE, DOMAIN, MODEL, README = "certificate.json", "domain.json", "model.safetensors", "README.md"
PAGE = "certificate.html"

NASTY: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 1, 2, 17, 2**31, 2**63, 2**64, -(2**63), 10**30, 10**400),
    *(0.0, -0.0, 0.5, 1.0, 1e-320, 5e-324, 1e-18, 1e-12, 1e-5, 1e38, 1e308, -1e308, 0.1 + 0.2),
    *("", "a", "NaN", "\x1b[31m", "\x1b]0;x\x07", "<script>alert(1)</script>", "../../etc/passwd", "\u202e\u0000"),
    *(
        "x" * 5000,
        "\ud800",
        "seeded generator, seed 3 (NOT PRIVATE)",
        "row",
        "person",
        "products",
        "vae",
        "rbm",
        "image",
    ),
    *([], {}, [[]], [None] * 50, {"a": {"b": {"c": []}}}, [1, 2, 3], ["a", "a"], [0.1, -5]),
)
RAW_NUMBERS = ("NaN", "Infinity", "-Infinity", "1e999", "-1e999", "9" * 400, "9" * 6000, "0x10", "01", "1.", "--1")


@dataclass
class Folder:
    """File names to bytes, and names that are something other than a plain file."""

    files: dict[str, bytes]
    odd: dict[str, str] = field(default_factory=dict)  # name -> what stands there: link, folder, fifo, sparse


Mutation = Callable[[Folder, random.Random], None]


def write(folder: Folder, target: Path) -> None:
    """The folder on disk; whatever was there is gone."""
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir()
    for name, content in folder.files.items():
        if folder.odd.get(name) is None:
            (target / name).write_bytes(content)
    for name, kind in folder.odd.items():
        path = target / name
        if kind == "link":
            path.symlink_to("/etc/passwd")
        elif kind == "loop":
            path.symlink_to(name)
        elif kind == "folder":
            path.mkdir()
        elif kind == "fifo":
            os.mkfifo(path)
        elif kind == "sparse":
            with path.open("wb") as file:
                file.write(folder.files.get(name, b"")[:100])
                file.truncate(2**36)


# -- JSON -------------------------------------------------------------------------------------------------------


DEEPEST = 40  # a bomb that an earlier change has planted is not searched to its bottom


def _places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    found = [path]
    if len(path) == DEEPEST:
        return found
    entries = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inside in entries:
        found += _places(inside, (*path, key))
    return found


def _changed_number(value: Any, rng: random.Random) -> Any:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return rng.choice(NASTY)
    return rng.choice(
        [value + 1, value - 1, -value, value * 2, value / 2, value * (1 + 1e-9), value * 1e6, int(value)]
    )


def _mutate_tree(document: Any, rng: random.Random) -> Any:
    places = _places(document)
    path = rng.choice(places[1:] or places)
    if not path:
        return rng.choice(NASTY)
    parent = document
    for key in path[:-1]:
        parent = parent[key]
    key, kind = path[-1], rng.randrange(8)
    if kind == 0:
        del parent[key]
    elif kind == 1 and isinstance(parent, dict):
        parent[rng.choice(["note", "", "\x1b[2J", "epsilon", "x" * 2000, "__metadata__"])] = rng.choice(NASTY)
    elif kind == 2 and isinstance(parent, list):
        parent += [parent[key]] * rng.choice([1, 2, 120 if len(repr(parent)) < 2000 else 3])
    elif kind == 3:
        parent[key] = _changed_number(parent[key], rng)
    elif kind == 4 and len(places) > 2:
        other = rng.choice(places[1:])
        source = document
        for step in other:
            source = source[step]
        parent[key] = json.loads(json.dumps(source))
    elif kind == 5 and isinstance(parent, list):
        rng.shuffle(parent)
    elif kind == 6:
        depth = rng.choice([3, 15, 300])
        value: Any = 0
        for _ in range(depth):
            value = [value] if rng.random() < 0.5 else {"a": value}
        parent[key] = value
    else:
        parent[key] = rng.choice(NASTY)
    return document


def _dump(name: str, document: Any, rng: random.Random) -> bytes:
    indent = {CERTIFICATE: 2, DOMAIN: 1}[name]
    try:
        text = json.dumps(document, ensure_ascii=name == DOMAIN)
        if len(text) < 50_000:  # indented, deep trees would grow to many megabytes
            text = json.dumps(document, indent=indent, ensure_ascii=name == DOMAIN)
    except (ValueError, RecursionError):
        text = "{}"
    if rng.random() < 0.05:  # what json.dumps cannot write
        numbers = [piece for piece in text.split() if piece.strip(",").replace(".", "").replace("-", "").isdigit()]
        if numbers:
            text = text.replace(rng.choice(numbers), rng.choice(RAW_NUMBERS), 1)
    if rng.random() < 0.03:
        text = text.replace('"', '"a": 1, "a": 1, "', 1)
    if name == CERTIFICATE and rng.random() < 0.95:
        text += "\n"
    return text.encode("utf-8", "surrogatepass")


def json_tree(folder: Folder, rng: random.Random) -> None:
    """A value, a key or a list of the certificate or the domain."""
    name = rng.choice([CERTIFICATE, CERTIFICATE, CERTIFICATE, DOMAIN])
    try:
        document = json.loads(folder.files[name])
    except (ValueError, RecursionError):
        return
    for _ in range(rng.choice([1, 1, 1, 2, 5])):
        if isinstance(document, (dict, list)) and len(repr(document)) < 100_000:  # each may double it
            document = _mutate_tree(document, rng)
    folder.files[name] = _dump(name, document, rng)


def json_bomb(folder: Folder, rng: random.Random) -> None:
    """Documents that are large or deep beyond reason."""
    name = rng.choice([CERTIFICATE, DOMAIN])
    kind = rng.randrange(5)
    if kind == 0:
        folder.files[name] = b"[" * rng.choice([1000, 100_000]) + b"]" * 1000
    elif kind == 1:
        folder.files[name] = b'{"a":' * rng.choice([1000, 100_000])
    elif kind == 2:
        folder.files[name] = b'{"fields": [' + b'{"name": "a", "kind": "items", "items": [1]},' * 20_000 + b"1]}"
    elif kind == 3:
        folder.files[name] = b'"' + b"a" * 5_000_000 + b'"'
    else:
        wide = {"name": "n", "kind": "numeric", "low": 0, "high": 10**9, "bins": rng.choice([10**5, 10**9])}
        folder.files[DOMAIN] = json.dumps(
            {"fields": [wide | {"name": f"n{n}"} for n in range(200)]}, indent=1
        ).encode()


# -- tensors ----------------------------------------------------------------------------------------------------


def _split(raw: bytes) -> tuple[dict[str, Any], bytes]:
    length = struct.unpack("<Q", raw[:8])[0]
    return json.loads(raw[8 : 8 + length]), raw[8 + length :]


def _join(header: dict[str, Any], data: bytes, rng: random.Random) -> bytes:
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode("utf-8", "surrogatepass")
    text += b" " * (-len(text) % 8 + rng.choice([0, 0, 0, 8, 800]))
    return struct.pack("<Q", len(text)) + text + data


def tensor_header(folder: Folder, rng: random.Random) -> None:
    """Lengths, offsets, shapes, types, names, notes."""
    raw = folder.files[MODEL]
    try:
        header, data = _split(raw)
    except (ValueError, struct.error):
        return
    name = rng.choice(sorted(header))
    entry, kind = header[name], rng.randrange(12)
    if not isinstance(entry, dict) or set(entry) != {"dtype", "shape", "data_offsets"}:
        return
    start, stop = entry["data_offsets"]
    if kind == 0:
        length = rng.choice([0, 1, 7, len(raw), 2**31, 2**62, 2**63, 2**64 - 1, len(raw) - 8])
        folder.files[MODEL] = struct.pack("<Q", length) + raw[8:]
        return
    if kind == 1:
        entry["data_offsets"] = rng.choice(
            [
                [stop, start],
                [start + 1, stop],
                [start, stop + 8],
                [-8, stop],
                [0, 2**63],
                [start],
                [],
                "ab",
                [start, stop, 0],
            ]
        )
    elif kind == 2:
        shape = entry["shape"]
        entry["shape"] = rng.choice(
            [
                [2**40, 2**20],
                [-1],
                [0],
                [*shape, 1],
                shape[::-1],
                [10**400],
                ["1"],
                [1.5],
                None,
                [2**64],
                shape[:-1],
            ]
        )
    elif kind == 3:
        entry["dtype"] = rng.choice(["F64", "F32", "F16", "BF16", "I64", "U8", "BOOL", "X", "", 3, None, "F8_E4M3"])
    elif kind == 4:
        header[rng.choice(["extra", "", "../x", "\x1b", "w" * 3000, "__metadata__"])] = header.pop(name)
    elif kind == 5:
        header["__metadata__"] = {"note": "x" * rng.choice([1, 10_000])}
    elif kind == 6:
        header["extra"] = {"dtype": "U8", "shape": [8], "data_offsets": [len(data), len(data) + 8]}
        data += bytes(8)
    elif kind == 7:
        del header[name]
    elif kind == 8:
        header[name] = rng.choice(NASTY)
    elif kind == 9:
        data = data[: rng.randrange(len(data) + 1)]
    elif kind == 10:
        data += bytes(rng.choice([1, 8, 4096]))
    else:
        one, two = rng.choice(sorted(header)), rng.choice(sorted(header))
        header[one], header[two] = header[two], header[one]
    folder.files[MODEL] = _join(header, data, rng)
    if kind == 8 and rng.random() < 0.5:
        folder.files[MODEL] = folder.files[MODEL].replace(b'"dtype"', b'"dtype":"F32","dtype"', 1)


def tensor_values(folder: Folder, rng: random.Random) -> None:
    """NaN, infinities, huge and negative values, weights that are no shares."""
    try:
        header, data = _split(folder.files[MODEL])
    except (ValueError, struct.error):
        return
    content = bytearray(data)
    values = (float("nan"), float("inf"), -1.0, 2.0, 0.0, 1e38, 1e-38, -0.0, 3.4e38, 0.5000001)
    for _ in range(rng.choice([1, 1, 3, 50])):
        entry = header[rng.choice(sorted(header))]
        if not isinstance(entry, dict) or entry.get("dtype") not in ("F32", "F64"):
            continue
        letter, size = ("<f", 4) if entry["dtype"] == "F32" else ("<d", 8)
        start, stop = entry["data_offsets"]
        if isinstance(start, int) and isinstance(stop, int) and 0 <= start + size <= stop <= len(content):
            at = start + size * rng.randrange((stop - start) // size)
            struct.pack_into(letter, content, at, rng.choice(values))
    folder.files[MODEL] = folder.files[MODEL][: -len(data) or None] + bytes(content)


# -- bytes and files --------------------------------------------------------------------------------------------


def raw_bytes(folder: Folder, rng: random.Random) -> None:
    """Bits flipped, pieces cut, doubled, zeroed or exchanged."""
    name = rng.choice(sorted(folder.files))
    content = bytearray(folder.files[name])
    kind, at = rng.randrange(7), rng.randrange(len(content) + 1)
    if kind == 0 and content:
        for _ in range(rng.choice([1, 1, 10])):
            content[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
    elif kind == 1:
        del content[at:]
    elif kind == 2:
        del content[at : at + rng.choice([1, 8, 100])]
    elif kind == 3:
        content[at:at] = rng.choice(
            [b"\x00", b"\xff\xfe", b"\x1b[31m", b" ", b"\n", b"epsilon = 0.01", b"\xf0\x28"]
        )
    elif kind == 4:
        content = content + content
    elif kind == 5:
        other = rng.choice(sorted(folder.files))
        content = bytearray(folder.files[other])
    else:
        content[at : at + 50] = bytes(len(content[at : at + 50]))
    folder.files[name] = bytes(content)


def readme(folder: Folder, rng: random.Random) -> None:
    """A README that says something else."""
    text = folder.files[README].decode("utf-8", "replace")
    pairs = [("epsilon = ", "epsilon = 0.0"), ("delta = ", "delta = 1e-9"), ("row", "person"), ("# ", "<script>")]
    old, new = rng.choice(pairs)
    folder.files[README] = text.replace(old, new, rng.choice([1, -1])).encode()


def listing(folder: Folder, rng: random.Random) -> None:
    """Files that are missing, too many, or something else than files."""
    kind = rng.randrange(6)
    name = rng.choice([CERTIFICATE, DOMAIN, MODEL, README])
    if kind == 0:
        folder.files.pop(name)
    elif kind == 1:
        extra = rng.choice(
            ["model.pt", "weights.pkl", "notes.md", ".hidden", "\x1b[31m", "certificate.intoto.jsonl", "a" * 200]
        )
        folder.files[extra] = rng.choice([b"", b"\x80\x04\x95", b"x" * 64, b"PK\x03\x04"])
    elif kind == 2:
        folder.odd[name] = rng.choice(["link", "loop", "folder", "fifo"])
    elif kind == 3:
        folder.odd[name] = "sparse"
    elif kind == 4:
        folder.files[name] = b""
    else:
        folder.files[name] = b"\x80\x04\x95" + os.urandom(100)


def listed_names(folder: Folder, rng: random.Random) -> None:
    """Names in the certificate that leave the folder, or digests that are none."""
    try:
        document = json.loads(folder.files[CERTIFICATE])
    except (ValueError, RecursionError):
        return
    if not isinstance(document, dict) or not isinstance(document.get("files"), dict):
        return
    name = rng.choice(
        ["../../etc/passwd", "/etc/passwd", "..", ".", "", "a/b", "x" * 300, "\x00", "\x1b[31m", README]
    )
    document["files"][name] = rng.choice(["0" * 64, "", "z", "0" * 10_000])
    folder.files[CERTIFICATE] = _dump(CERTIFICATE, document, rng)


MUTATIONS: tuple[tuple[Mutation, float], ...] = (
    (json_tree, 8),
    (tensor_header, 4),
    (tensor_values, 3),
    (raw_bytes, 3),
    (readme, 1),
    (listing, 1),
    (listed_names, 1),
    (json_bomb, 0.3),
)


# What a mutation meets when an earlier one has spoilt the file already: then it leaves it so.
_SPOILT = (
    ValueError,
    KeyError,
    IndexError,
    TypeError,
    AttributeError,
    ArithmeticError,
    RecursionError,
    MemoryError,
    struct.error,
)


def mutate(original: Folder, rng: random.Random) -> tuple[Folder, str]:
    """A mutated copy, and the names of what was done to it."""
    folder = Folder(dict(original.files))
    made, weights = zip(*MUTATIONS, strict=True)
    chosen = rng.choices(made, weights, k=rng.choice([1, 1, 1, 2, 3]))
    for mutation in chosen:
        if set(folder.files) >= {CERTIFICATE, DOMAIN, MODEL, README}:
            with suppress(*_SPOILT):
                mutation(folder, rng)
    if rng.random() < 0.6:
        renew(folder, readme_too=rng.random() < 0.7)
    return folder, "+".join(sorted(mutation.__name__ for mutation in chosen))


def renew(folder: Folder, *, readme_too: bool) -> None:
    """What a forger does last: the README that suits the certificate, and every hash anew; as far as possible."""
    from dpgm.errors import DpgmError
    from dpgm.privacy.certificate import Certificate
    from dpgm.synthesis.certificate_page import certificate_page
    from dpgm.synthesis.readme import release_readme
    from dpgm.synthesis.verification import read_domain

    if max(len(folder.files.get(name, b"")) for name in (CERTIFICATE, DOMAIN)) > 200_000:
        return
    try:
        text = folder.files[CERTIFICATE].decode()
        if readme_too:
            domain = read_domain(folder.files[DOMAIN].decode())
            folder.files[README] = release_readme(Certificate.from_json(text), domain).encode()
        document = json.loads(text)
        for name in document["files"]:
            if name in folder.files:
                document["files"][name] = hashlib.sha256(folder.files[name]).hexdigest()
        indent = 2 if len(text) < 50_000 else None
        folder.files[CERTIFICATE] = (json.dumps(document, indent=indent, ensure_ascii=False) + "\n").encode()
        certificate = Certificate.from_json(folder.files[CERTIFICATE].decode())
        folder.files[PAGE] = certificate_page(certificate).encode()
    except (DpgmError, *_SPOILT):
        return
