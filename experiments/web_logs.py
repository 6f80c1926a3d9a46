"""UCI's two web logs as files that dpgm reads: item numbers, a record per line, and a domain file with all items.

    python experiments/web_logs.py anonymous-msweb.data.gz msweb.dat   # also writes msweb.yaml
    python experiments/web_logs.py msnbc990928.zip msnbc.dat           # also writes msnbc.yaml

The log of microsoft.com has lines of visitors (`C`), of the areas that each of them saw (`V`), and of all areas there
are (`A`): the public list of items. That of msnbc.com has a line per visitor, the numbers of the page categories seen,
below a header that names the categories.
"""

import argparse
import gzip
import tempfile
import zipfile
from pathlib import Path

from dpgm import Domain, read_records, save_domain
from dpgm.data.records import Records

SEQUENCES = "% Sequences:"


def converted(log: Path, target: Path) -> Path:
    """Write the visitors of a log to `target`, a .dat file, and its list of items beside it; returns that path."""
    lines = text_of(log).splitlines()
    visitors, domain = msnbc(lines) if SEQUENCES in lines else msweb(lines)
    target.write_text("".join(" ".join(items) + "\n" for items in visitors))
    listed = target.with_suffix(".yaml")
    save_domain(domain, listed)
    return listed


def read_web_log(log: Path) -> Records:
    """The records of a log."""
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / "log.dat"
        return read_records(target, domain=converted(log, target))


def text_of(log: Path) -> str:
    """The text of a log, which may be compressed."""
    if log.suffix == ".zip":
        with zipfile.ZipFile(log) as archive:
            (member,) = (name for name in archive.namelist() if not name.startswith("__MACOSX/"))
            return archive.read(member).decode()
    return (gzip.decompress(log.read_bytes()) if log.suffix == ".gz" else log.read_bytes()).decode("latin-1")


def msweb(lines: list[str]) -> tuple[list[list[str]], Domain]:
    """The areas that each visitor saw, and the list of areas."""
    areas: set[int] = set()
    visitors: list[list[str]] = []
    for line in lines:
        kind, *cells = line.split(",")
        if kind == "A":
            areas.add(int(cells[0]))
        elif kind == "C":
            visitors.append([])
        elif kind == "V":
            visitors[-1].append(cells[0])
    return visitors, Domain.of_items(sorted(areas), "areas")


def msnbc(lines: list[str]) -> tuple[list[list[str]], Domain]:
    """The categories that each visitor saw, and the list of categories. One blank line follows the header."""
    start = lines.index(SEQUENCES)
    names = next(line.split() for line in lines if line.split() and not line.startswith("%"))
    return [line.split() for line in lines[start + 2 :]], Domain.of_items(range(1, len(names) + 1), "categories")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])  # type: ignore[union-attr]
    parser.add_argument("log", type=Path)
    parser.add_argument("target", type=Path)
    chosen = parser.parse_args()
    print(f"visitors in {chosen.target}, items in {converted(chosen.log, chosen.target)}")


if __name__ == "__main__":
    main()
