"""Fuzzing of every reader: files of all formats and shapes, changed at random, must be read or refused in a sentence.

Files come from the cases of `metamorphic.py`, so that they start out well-formed and full of oddities; a change
either respects the structure of the format (cells, lines, numbers, lengths in headers) or is plain damage to bytes. Each
batch runs in a process of its own under a cap on memory, so that a crash, a hang or a bomb is seen and told with the
seed that makes it again. `make assure RUNS=fuzz` runs 20,000 files; `make test` some hundreds.
"""

import argparse
import gzip
import json
import random
import resource
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

from dpgm.data.read.readers import read_records
from dpgm.errors import DpgmError
from metamorphic import Case, cases

ROOM = 2 << 30
SECONDS = 10
MARKS = [
    *(
        b'"',
        b'""',
        b",",
        b";",
        b"\t",
        b"|",
        b"\n",
        b"\r",
        b"\r\n",
        b"\0",
        b"\xff",
        b"\xef\xbb\xbf",
        b"\xed\xa0\x80",
    ),
    *(
        b"9" * 25,
        b"-1",
        b"1e999",
        b"NaN",
        b"0x1",
        b"[",
        b"]",
        b"{",
        b"}",
        b"[" * 2000,
        b"\\u0000",
        b"\\ud800",
        b"null",
    ),
    *(b"'=", b"%", b"A,", b"C,", b"V,", b" ", b"\xc2\xa0", b"true", b"a" * 2000, b"\x7f\xff\xff\xff", b"\xff" * 8),
]


def mutated(rng: random.Random, data: bytes) -> bytes:
    """The bytes with one to four changes."""
    changed = bytearray(data)
    for _ in range(rng.randrange(1, 5)):
        at = rng.randrange(len(changed) + 1)
        stop = min(len(changed), at + rng.randrange(1, 9))
        kind = rng.randrange(8)
        if kind == 0:
            changed[at:at] = rng.choice(MARKS)
        elif kind == 1:
            changed[at:stop] = rng.choice(MARKS)
        elif kind == 2:
            del changed[at:stop]
        elif kind == 3 and at < len(changed):
            changed[at] ^= 1 << rng.randrange(8)
        elif kind == 4 and at < len(changed):
            changed[at] = rng.randrange(256)
        elif kind == 5:
            del changed[at:]
        elif kind == 6:
            changed[at:at] = changed[at:stop] * rng.randrange(1, 50)
        else:
            lines = bytes(changed).split(b"\n")
            rng.shuffle(lines)
            changed = bytearray(b"\n".join(lines))
        if not changed:
            changed = bytearray(b"\n")
    return bytes(changed)


def one_file(rng: random.Random, case: Case, folder: Path) -> str:
    """A file of the case, changed, read; tells whether it was accepted or the kind of refusal."""
    path = folder / f"x{case.ending}"
    rows = [case.row(rng) for _ in range(rng.randrange(1, 12))]
    case.write(path, rows if case.companion is None else [*rows, case.companion])
    file = rng.choice(sorted(path.iterdir())) if path.is_dir() else path
    data = file.read_bytes()
    if file.suffix == ".gz" and rng.random() < 0.8:
        file.write_bytes(gzip.compress(mutated(rng, gzip.decompress(data)), 1))
    else:
        file.write_bytes(mutated(rng, data))
    try:
        read_records(path, **case.options)
    except DpgmError as error:
        sentence = str(error)
        assert sentence.endswith((".", "?")), sentence
        assert "\n" not in sentence.replace(str(path), ""), sentence
        return error.kind
    return "accepted"


def batch(seed: int, files: int, only: str = "") -> Counter[str]:
    """Many changed files, in this process."""
    chosen = [case for case in cases() if case.ending and only in case.name]
    done: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as name:
        for at in range(files):
            rng = random.Random(f"{seed} {at}")
            done[one_file(rng, chosen[at % len(chosen)], Path(name))] += 1
    return done


def _capped(seed: int, files: int) -> None:
    """A batch under caps on memory and on the time of one file."""
    import pyarrow.parquet  # noqa: F401
    import scipy.sparse  # noqa: F401

    size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (size + ROOM, resource.RLIM_INFINITY))
    chosen = [case for case in cases() if case.ending]
    with tempfile.TemporaryDirectory() as name:
        for at in range(files):
            print(f"at {seed} {at} {chosen[at % len(chosen)].name}", flush=True)
            signal.alarm(SECONDS)
            outcome = one_file(random.Random(f"{seed} {at}"), chosen[at % len(chosen)], Path(name))
            signal.alarm(0)
            print(f"outcome {outcome}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--batch", type=int, default=2_000)
    parser.add_argument("--out", type=Path, help="write the figures to this file as well")
    parser.add_argument("--worker", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker is not None:
        _capped(options.worker, options.batch)
        return
    total: Counter[str] = Counter()
    crashes = hangs = 0
    failure = ""
    for at in range(-(-options.files // options.batch)):
        command = [sys.executable, __file__, "--worker", str(options.seed + at), "--batch", str(options.batch)]
        done = subprocess.run(command, capture_output=True, text=True)
        lines = done.stdout.splitlines()
        total += Counter(line.split()[1] for line in lines if line.startswith("outcome"))
        if done.returncode:
            last = next(line for line in reversed(lines) if line.startswith("at "))
            hung = done.returncode == -signal.SIGALRM
            crashes, hangs = crashes + (not hung), hangs + hung
            failure = f"a reader failed (exit {done.returncode}) {last}\n{done.stderr[-3000:]}"
            break
        print(f"{sum(total.values()):,} changed files: {dict(total)}", flush=True)
    if options.out is not None:
        figures = {
            "inputs": sum(total.values()) + crashes + hangs,
            "crashes": crashes,
            "hangs_over_10_s": hangs,
            "outcomes": dict(sorted(total.items())),
            "memory_allowed_bytes": ROOM,
            "seed": options.seed,
        }
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_text(json.dumps(figures, indent=1) + "\n", "utf-8")
    if failure:
        sys.exit(failure)
    print(
        f"{sum(total.values()):,} changed files read or refused; 0 crashes, 0 over {SECONDS} s, memory within the cap"
    )


if __name__ == "__main__":
    main()
