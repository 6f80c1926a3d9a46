"""Counts what a basket passes on its way from `fit` to the report: modules and functions of dpgm, and how often files are opened.

    python tools/walk.py            # two numbers per command, and in all
    python tools/walk.py --modules  # the modules as well, with the number of functions of each

A function counts once however often it runs; lambdas, comprehensions and module bodies do not count.
"""

import argparse
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from inspect import CO_OPTIMIZED
from pathlib import Path
from types import CodeType, FrameType
from unittest import mock

import pyarrow as pa

import dpgm
from dpgm.cli.app import load_commands, run

SOURCE = str(Path(dpgm.__file__).parent)


@contextmanager
def passed() -> Iterator[set[tuple[str, str]]]:
    """The module and the name of every function of dpgm that is entered."""
    codes: set[CodeType] = set()
    found: set[tuple[str, str]] = set()

    def note(frame: FrameType, event: str, _: object) -> None:
        if event == "call":
            codes.add(frame.f_code)

    threading.setprofile(note)
    sys.setprofile(note)
    try:
        yield found
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
        found |= {
            (code.co_filename.removeprefix(SOURCE + "/"), code.co_qualname)
            for code in codes
            if code.co_filename.startswith(SOURCE)
            and not code.co_name.startswith("<")
            and code.co_flags & CO_OPTIMIZED
        }


@contextmanager
def opened() -> Iterator[Counter[str]]:
    """How often every file is opened, by its name; Arrow opens Parquet files without telling Python."""
    times: Counter[str] = Counter()
    active = [True]

    def note(event: str, arguments: tuple[object, ...]) -> None:
        if active and event == "open" and isinstance(arguments[0], str):
            times[Path(arguments[0]).name] += 1

    class Noted(pa.OSFile):
        def __init__(self, path: str, *more: object) -> None:
            times[Path(path).name] += 1

    sys.addaudithook(note)  # a hook cannot be removed again
    try:
        with mock.patch.object(pa, "OSFile", Noted):
            yield times
    finally:
        active.clear()


def walk(folder: Path, data: str = "baskets.csv") -> dict[str, tuple[set[tuple[str, str]], int]]:
    """What each command passes, and how often it opens the data file."""
    dpgm.simulate_transit(2000, seed=1).write(folder / data)
    shape = [] if data.endswith(".parquet") else ["--shape", "basket"]
    commands = {
        "fit": [folder / data, *shape, "--discover", "--epsilon", "4", "--seed", "1", "--out", folder / "release"],
        "sample": [folder / "release", "--seed", "1", "--out", folder / "synthetic.csv"],
        "evaluate": [
            folder / data,
            folder / "synthetic.csv",
            "--release",
            folder / "release",
            "--out",
            folder / "report.html",
        ],
    }
    found = {}
    for name, arguments in commands.items():
        with passed() as functions, opened() as times:
            if run([name, *map(str, arguments), "--quiet"]) != 0:
                raise SystemExit(f"dpgm {name} failed")
        found[name] = (functions, times[data])
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--modules", action="store_true")
    chosen = parser.parse_args()
    load_commands()
    with tempfile.TemporaryDirectory() as folder:
        found = walk(Path(folder))
    total: set[tuple[str, str]] = set()
    for name, (functions, opens) in found.items():
        total |= functions
        print(
            f"{name:9} {len({one for one, _ in functions}):4} modules {len(functions):5} functions; the data file is opened {opens} times"
        )
    print(f"{'in all':9} {len({one for one, _ in total}):4} modules {len(total):5} functions")
    if chosen.modules:
        for module, count in sorted(Counter(one for one, _ in total).items()):
            print(f"  {count:4} {module}")


if __name__ == "__main__":
    main()
