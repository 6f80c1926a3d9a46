"""The corpus of bad input: hostile or odd files, and the outcome that reading each must have.

Run as a program, it reads all of them in one process under a memory limit and prints the outcome, processor time and
peak memory of each; `tests/data/formats/test_hostile_files.py` checks these.
"""

import gc
import gzip
import json
import os
import re
import resource
import signal
import struct
import tempfile
import time
import zipfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dpgm.data.domain import Categorical, Domain, ItemSet, Numeric
from dpgm.data.domain_file import load_domain
from dpgm.data.read.readers import read_records
from dpgm.data.records import Records
from dpgm.errors import DpgmError

MEMORY_LIMIT = 2 << 30  # of address space, in addition to what the imports take
SECONDS = 60  # of processor time per case, to detect one that hangs
ITEMS = Domain.of_items([1, 2, 3])
NAMES = Domain((ItemSet("items", ("a", "b")),))
TABLE = Domain((Categorical("colour", ("red", "blue")), Numeric("size", 0, 10, 5)))
ACCEPTED, INPUT, USAGE, RESOURCE = "accepted", "E-INPUT", "E-USAGE", "E-RESOURCE"

Make = Callable[[Path], Any]


@dataclass(frozen=True)
class Hostile:
    """A file, how it is read, and the outcome that this must have."""

    name: str
    file: str
    make: Make
    outcome: str
    options: dict[str, Any] = field(default_factory=dict)
    words: tuple[str, ...] = ()
    most_mb: int = 600  # of additional resident memory at its peak

    def reader(self, folder: Path) -> Callable[[], Any]:
        """Make the file; returns the function that reads it."""
        path = folder / self.file
        made = self.make(path)
        if callable(made):
            return made  # type: ignore[no-any-return]
        return lambda: read_records(path if made is None else made, **self.options)


def text(content: str | bytes) -> Make:
    data = content if isinstance(content, bytes) else content.encode()

    def make(path: Path) -> None:
        path.write_bytes(gzip.compress(data, 1) if path.suffix == ".gz" else data)

    return make


def repeated(start: bytes, piece: bytes, times: int) -> Make:
    """A text of one piece, repeated."""

    def make(path: Path) -> None:
        with path.open("wb") as file:
            file.write(start)
            for _ in range(times):
                file.write(piece)

    return make


def bomb(start: bytes, piece: bytes, gigabytes: int) -> Make:
    """Gigabytes of equal rows: copies of one gzip member, joined."""

    def make(path: Path) -> None:
        times = (32 << 20) // len(piece)
        packed = gzip.compress(piece * times, 6)
        with path.open("wb") as file:
            file.write(gzip.compress(start))
            file.write(packed * ((gigabytes << 30) // (times * len(piece)) + 1))

    return make


def zipped_bomb(member: str, start: bytes, piece: bytes, times: int) -> Make:
    def make(path: Path) -> None:
        with (
            zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive,
            archive.open(member, "w", force_zip64=True) as file,
        ):
            file.write(start)
            for _ in range(times):
                file.write(piece)

    return make


def parquet(columns: Callable[[], dict[str, Any]], **options: Any) -> Make:
    def make(path: Path) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        pq.write_table(pa.table(columns()), path, **options)

    return make


def cut_parquet(path: Path) -> None:
    parquet(lambda: {"items": [[1], [2]]})(path)
    path.write_bytes(path.read_bytes()[:-20])


def lying_footer(path: Path) -> Any:
    """A footer that claims 2^60 rows; the number is stored as a zigzag varint."""
    parquet(lambda: {"items": [[1]] * 77})(path)
    data = path.read_bytes()
    size = struct.unpack("<I", data[-8:-4])[0]
    footer = data[-8 - size : -8]
    zigzag = _varint(77 << 1)
    claimed = footer.replace(b"\x16" + zigzag, b"\x16" + _varint(2**60 << 1))
    assert claimed != footer
    path.write_bytes(data[: -8 - size] + claimed + struct.pack("<I", len(claimed)) + b"PAR1")


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])


def text_bomb() -> dict[str, Any]:
    """A megabyte, 50,000 times: a small dictionary page that unpacks to 50 GB."""
    import numpy as np
    import pyarrow as pa

    return {
        "colour": pa.DictionaryArray.from_arrays(np.zeros(50_000, dtype=np.int32), ["x" * (1 << 20)]),
        "size": [1.0] * 50_000,
    }


def list_bomb() -> dict[str, Any]:
    """One list of 60 million equal numbers: a few kilobytes that unpack to gigabytes."""
    import numpy as np
    import pyarrow as pa

    count = 60_000_000
    return {
        "items": pa.ListArray.from_arrays(pa.array([0, count], pa.int32()), pa.array(np.ones(count, dtype=np.int8)))
    }


def archive(members: dict[str, str], link: str | None = None) -> Make:
    def make(path: Path) -> None:
        with zipfile.ZipFile(path, "w") as file:
            for name, content in members.items():
                file.writestr(name, content)
            if link is not None:
                info = zipfile.ZipInfo("link.dat")
                info.external_attr = 0o120777 << 16
                file.writestr(info, link)

    return make


def growing(path: Path) -> Any:
    """A file to which a line is added while it is read."""
    from dpgm.data.formats.opening import locate, open_bytes

    path.write_text("1 2\n")

    def read() -> None:
        with open_bytes(locate(path)) as stream:
            stream.read()
            with path.open("a") as file:
                file.write("3\n")

    return read


def domain(content: str) -> Make:
    def make(path: Path) -> Any:
        path.write_text(content)
        return lambda: load_domain(path)

    return make


def many_categories(path: Path) -> Any:
    return lambda: Domain((Categorical("c", range(10**9)),))  # type: ignore[arg-type]


def formulas(path: Path) -> Any:
    labels = ["=cmd()", "+1", "@x", "\tx", "\rx", "../../etc", "plain"]
    records = Records.from_lists([list(range(len(labels)))], Domain.of_items(labels))

    def read() -> Records:
        records.write(path)
        for cell in path.read_bytes().decode().split(","):
            assert not cell.lstrip('"').startswith(("=", "+", "@", "\t", "\r")), cell
        again = read_records(path, domain=records.domain, shape="basket")
        assert again == records
        return again

    return read


def table(name: str, content: str | bytes, outcome: str, *words: str) -> Hostile:
    """A CSV file of `TABLE`."""
    return Hostile(name, "x.csv", text(content), outcome, {"domain": TABLE}, words)


LONG = {"domain": ITEMS, "person": "p", "item": "i"}
BASKET = {"shape": "basket", "domain": ITEMS}
CASES = [
    table("I1 empty", b"", INPUT, "empty"),
    table("I2 only a header", "colour,size\n", INPUT, "no records"),
    table("I3 byte order mark", b"\xef\xbb\xbfcolour,size\nred,1\n", ACCEPTED),
    table("I4 UTF-16", "colour,size\nred,1\n".encode("utf-16"), INPUT, "line 1"),
    table("I5 Latin-1", b"colour,size\nred,1\nr\xe9d,1\n", INPUT, "line 3"),
    table("I6 lone surrogate", b"colour,size\n\xed\xa0\x80,1\n", INPUT, "line 2"),
    Hostile(
        "I6 lone surrogate in JSON", "x.jsonl", text('["a"]\n["\\ud800"]\n'), INPUT, {"domain": NAMES}, ("line 2",)
    ),
    table("I7 NUL", "colour,size\nred,1\nred\0,1\n", INPUT, "line 3"),
    Hostile(
        "I8 a million columns", "x.csv", text("a," * 1_000_000 + "a\n"), INPUT, {"domain": TABLE}, ("columns",), 350
    ),
    Hostile(
        "I9 a line of 200 MB",
        "x.csv",
        repeated(b"", b"a" * (1 << 20), 200),
        INPUT,
        {"domain": TABLE},
        ("longer",),
        300,
    ),
    Hostile(
        "I9 a line of 200 MB, FIMI",
        "x.dat",
        repeated(b"", b"1 " * (1 << 19), 200),
        INPUT,
        {"domain": ITEMS},
        ("longer",),
        300,
    ),
    Hostile(
        "I9 a line of 200 MB, JSON",
        "x.jsonl",
        repeated(b"", b"[" * (1 << 20), 200),
        INPUT,
        {"domain": ITEMS},
        ("longer",),
        300,
    ),
    Hostile(
        "I10 a quote never closed",
        "x.csv",
        repeated(b'colour,size\nred,1\n"', b"red,1\n" * 170_000, 60),
        INPUT,
        {"domain": TABLE},
        ("longer",),
        300,
    ),
    table("I11 ragged", "colour,size\nred,1\nred\n", INPUT, "line 3"),
    table("I12 returns", "colour,size\rred,1\rblue,2\r", ACCEPTED),
    table("I13 mixed ends", "colour,size\nred,1\r\nblue,2\r", ACCEPTED),
    table("I14 no final newline", "colour,size\nred,1", ACCEPTED),
    Hostile(
        "I15 duplicate ids",
        "x.csv",
        text("p,colour,size\n7,red,1\n7,red,2\n"),
        INPUT,
        {"domain": TABLE, "person": "p"},
        ("merge",),
    ),
    Hostile("I16 duplicate columns", "x.csv", text("p,p,i\n1,1,1\n"), INPUT, LONG, ("same name",)),
    Hostile("I17 id column missing", "x.csv", text("q,i\n1,1\n"), INPUT, LONG, ("'p'",)),
    Hostile("I18 negative", "x.dat", text("1\n-2\n"), INPUT, {"domain": ITEMS}, ("line 2",)),
    table("I19 1e400", "colour,size\nred,1e400\n", INPUT, "line 2"),
    table("I20 NaN", "colour,size\nred,NaN\n", INPUT, "line 2"),
    table("I20 inf", "colour,size\nred,-inf\n", INPUT, "line 2"),
    table("I20 -0", "colour,size\nred,-0\n", ACCEPTED),
    table("I20 1_000", "colour,size\nred,1_000\n", INPUT, "line 2"),
    table("I20 Arabic digits", "colour,size\nred,\u0663\n", INPUT, "line 2"),
    Hostile("I21 ten million repeats", "x.dat", text("1 " * 10_000_000 + "\n"), ACCEPTED, {"domain": ITEMS}),
    Hostile(
        "I22 all items",
        "x.dat",
        text(" ".join(map(str, range(100_000))) + "\n"),
        ACCEPTED,
        {"domain": Domain.of_items(100_000)},
    ),
    Hostile("I23 all empty", "x.dat", text("\n\n\n"), ACCEPTED, {"domain": ITEMS}),
    Hostile("I24 all equal", "x.csv", text("1,2\n" * 1000), ACCEPTED, BASKET),
    Hostile("I25 one row", "x.csv", text("1\n"), ACCEPTED, BASKET),
    Hostile("I26 Parquet cut in the footer", "x.parquet", cut_parquet, INPUT, {"domain": ITEMS}, ("Parquet",)),
    Hostile("I27 footer of 2^60 rows", "x.parquet", lying_footer, INPUT, {"domain": ITEMS}),
    Hostile("I28 dictionary bomb", "x.parquet", parquet(text_bomb), RESOURCE, {"domain": TABLE}),
    Hostile("I28 list bomb", "x.parquet", parquet(list_bomb), RESOURCE, {"domain": ITEMS}),
    Hostile(
        "I29 nested columns",
        "x.parquet",
        parquet(lambda: {"items": [{"a": 1}]}),
        INPUT,
        {"domain": ITEMS},
        ("nested",),
    ),
    Hostile("I29 lists of lists", "x.parquet", parquet(lambda: {"items": [[[1]]]}), INPUT, {"domain": ITEMS}),
    Hostile("I29 encrypted", "x.parquet", text(b"PARE" + b"\0" * 64 + b"PARE"), INPUT, {"domain": ITEMS}),
    Hostile(
        "I30 cut gzip",
        "x.csv.gz",
        lambda path: path.write_bytes(gzip.compress(b"colour,size\nred,1\n" * 99)[:-9]) and None,
        INPUT,
        {"domain": TABLE},
    ),
    Hostile(
        "I30 gzip bomb of 26 GB",
        "x.csv.gz",
        bomb(b"colour,size\n", b"red,1\n" * 170_000, 26),
        INPUT,
        {"domain": TABLE},
        ("times its size",),
        300,
    ),
    Hostile(
        "I30 gzip bomb of 26 GB, JSON",
        "x.jsonl.gz",
        bomb(b"", b"[" + b"1, 2, 3, " * 100 + b"1]\n", 26),
        INPUT,
        {"domain": ITEMS},
        ("times its size",),
        300,
    ),
    Hostile(
        "I30 gzip bomb of 26 GB, one person",
        "x.csv.gz",
        bomb(b"p,i\n", b"1,2\n" * 256_000, 26),
        INPUT,
        LONG,
        ("times its size",),
        300,
    ),
    Hostile(
        "I30 zip bomb",
        "x.zip",
        zipped_bomb("x.csv", b"colour,size\n", b"red,1\n" * 170_000, 60),
        INPUT,
        {"domain": TABLE},
        ("times its size",),
        300,
    ),
    Hostile("I31 zip out of itself", "x.zip", archive({"../x.dat": "1\n"}), INPUT, {"domain": ITEMS}, ("outside",)),
    Hostile("I31 zip from the root", "x.zip", archive({"/x.dat": "1\n"}), INPUT, {"domain": ITEMS}, ("outside",)),
    Hostile("I31 zip with a link", "x.zip", archive({}, link="/etc/passwd"), INPUT, {"domain": ITEMS}),
    Hostile(
        "I31 zip of two",
        "x.zip",
        archive({"a.dat": "1\n", "b.dat": "1\n"}),
        INPUT,
        {"domain": ITEMS},
        ("`member`",),
    ),
    Hostile("I32 pipe", "x.csv", lambda path: os.mkfifo(path), INPUT, {"domain": ITEMS}, ("pipe",)),
    Hostile("I32 folder", "x.csv", lambda path: path.mkdir(), INPUT, {"domain": ITEMS}, ("folder",)),
    Hostile("I32 device", "x.csv", lambda path: "/dev/zero", INPUT, {"domain": ITEMS}, ("device",)),
    Hostile("I32 changes while read", "x.dat", growing, INPUT, {"domain": ITEMS}, ("changed",)),
    Hostile("I33 no items", "d.yaml", domain("fields: [{name: i, kind: items, items: []}]"), USAGE),
    Hostile(
        "I33 negative size", "d.yaml", domain("fields: [{name: i, kind: image, height: -1, columns: 2}]"), USAGE
    ),
    Hostile(
        "I33 category twice", "d.yaml", domain("fields: [{name: c, kind: categorical, values: [a, a]}]"), USAGE
    ),
    Hostile(
        "I33 low above high",
        "d.yaml",
        domain("fields: [{name: n, kind: numeric, low: 2, high: 1, bins: 2}]"),
        USAGE,
    ),
    Hostile("I33 a billion categories", "d.yaml", many_categories, RESOURCE),
    Hostile("I34 formulas", "x.csv", formulas, ACCEPTED),
    Hostile(
        "I34 a label of 1 MB",
        "x.csv",
        text("x" * (1 << 20) + "\n"),
        INPUT,
        {"shape": "basket", "assume_public_items": True},
    ),
    Hostile(
        "I34 a label of 2 kB",
        "x.csv",
        text("x" * 2048 + "\n"),
        INPUT,
        {"shape": "basket", "assume_public_items": True},
        ("1 kB",),
    ),
    Hostile("I35 unknown key", "d.yaml", domain("fields: []\nsecret: 1\n"), USAGE),
    Hostile("I35 YAML tag", "d.yaml", domain("fields: !!python/object/apply:os.system [echo]\n"), USAGE),
    Hostile("I35 key twice", "d.json", domain('{"fields": [], "fields": []}'), USAGE),
    Hostile("I35 nesting", "d.json", domain("[" * 100_000), USAGE),
    Hostile("I35 nesting in YAML", "d.yaml", domain("[" * 100_000), USAGE),
    Hostile("JSON nesting", "x.jsonl", text("[" * 100_000 + "\n"), INPUT, {"domain": ITEMS}, ("line 1",)),
    Hostile(
        "JSON number of a million digits",
        "x.jsonl",
        text("[" + "9" * 1_000_000 + "]\n"),
        INPUT,
        {"domain": ITEMS},
        ("line 1",),
    ),
    Hostile("idx claims too much", "x.idx", text(struct.pack(">IIII", 0x803, 2**31, 2**15, 2**15)), RESOURCE),
    Hostile(
        "npy claims too much",
        "x.npy",
        text(
            b"\x93NUMPY\x01\x00\x76\x00"
            + b"{'descr': '|u1', 'fortran_order': False, 'shape': (1099511627776, 1048576), }".ljust(117)
            + b"\n"
        ),
        INPUT,
    ),
    Hostile(
        "npy of objects",
        "x.npy",
        text(
            b"\x93NUMPY\x01\x00\x76\x00"
            + b"{'descr': '|O', 'fortran_order': False, 'shape': (1, 1), }".ljust(117)
            + b"\n"
            + b"cos\nsystem\n(S'id'\ntR."
        ),
        INPUT,
    ),
]


def memory(what: str) -> int:
    """A figure of this process in bytes: VmSize (address space), VmRSS (resident) or VmHWM (its peak)."""
    return int(re.search(rf"{what}:\s+(\d+)", Path("/proc/self/status").read_text())[1]) << 10  # type: ignore[index]


def hangs(signal_number: int, frame: Any) -> None:
    raise TimeoutError(f"took over {SECONDS} seconds of processor time")


def run(read: Callable[[], Any]) -> dict[str, Any]:
    """The outcome of one case, with its processor time and peak memory."""
    Path("/proc/self/clear_refs").write_text("5")
    before = memory("VmRSS")
    began = time.process_time()
    message = ""
    signal.signal(signal.SIGPROF, hangs)
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    try:
        read()
        outcome = ACCEPTED
    except DpgmError as error:
        outcome, message = error.kind, str(error)
    except BaseException as error:  # any other error is a bug, and reported
        outcome, message = f"{type(error).__name__}", str(error)[:200]
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
    return {
        "outcome": outcome,
        "message": message,
        "seconds": time.process_time() - began,
        "peak_mb": (memory("VmHWM") - before) >> 20,
    }


def main() -> None:
    import pyarrow as pa
    import pyarrow.parquet
    import scipy.sparse  # noqa: F401

    pa.set_cpu_count(1)
    pa.set_io_thread_count(1)
    for case in CASES:
        with tempfile.TemporaryDirectory() as name:
            read = case.reader(Path(name))  # makes the file, before memory is limited
            gc.collect()
            pa.default_memory_pool().release_unused()
            resource.setrlimit(resource.RLIMIT_AS, (memory("VmSize") + MEMORY_LIMIT, resource.RLIM_INFINITY))
            found = run(read)
            resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
            print(json.dumps({"name": case.name} | found), flush=True)


if __name__ == "__main__":
    main()
