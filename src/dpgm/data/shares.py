"""The share of the records that one of several processes reads: consecutive rows, in the order of the files."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from dpgm.data.chunks import joined
from dpgm.data.opening import Input, locate
from dpgm.data.options import Paths, ReadOptions
from dpgm.data.parquet import parquet_columns, row_groups
from dpgm.data.readers import format_name, parts_of, read_source
from dpgm.data.records import Records
from dpgm.data.shapes import read_columns
from dpgm.data.source import Source
from dpgm.errors import UsageError


def read_share(
    path: Paths | Sequence[Paths], options: ReadOptions, share: int, shares: int
) -> tuple[Records, Source]:
    """Share number `share` out of `shares` of the records of a file, or of a folder of Parquet parts.

    Of Parquet data with a domain that leaves nothing open a process reads its own row groups alone. Anything else is
    read whole by every process, which keeps its rows: the items of a file, or the rows of a person, may lie anywhere.
    """
    paths = parts_of(path)
    if shares == 1:
        return read_source(paths, options)
    if options.rows_per_person is not None:
        raise UsageError("`rows_per_person` chooses rows by a secret order of one process; fit with one process.")
    files = [locate(one, options.member) for one in paths]
    stated = options.public_domain is not None and not options.public_domain.is_open
    alone = stated and options.stated_shape != "long" and options.person is None
    groups = _groups(files, options) if alone else []
    if len(groups) < shares:
        records, source = read_source(paths, options)
        return records.rows(len(records) * share // shares, len(records) * (share + 1) // shares), source
    mine = _share_of(groups, share, shares)
    chosen = mine or groups[:1]  # a process without rows still has to know their columns
    columns = joined(
        parquet_columns(file, options, [number for one, number, _ in chosen if one == file])
        for file in dict.fromkeys(one for one, _, _ in chosen)
    )
    records, source = read_columns(columns, options)
    return (records if mine else records.rows(0, 0)), source


def _groups(files: Sequence[Input], options: ReadOptions) -> list[tuple[Input, int, int]]:
    """File, number and rows of every row group that has some; none if a file is not Parquet."""
    if any(format_name(file, options) != "parquet" for file in files):
        return []
    return [(file, number, rows) for file in files for number, rows in enumerate(row_groups(file)) if rows]


def _share_of(groups: Sequence[tuple[Input, int, int]], share: int, shares: int) -> list[tuple[Input, int, int]]:
    """The row groups whose middle falls into this share of all rows."""
    total, before, mine = sum(rows for _, _, rows in groups), 0, []
    for group in groups:
        middle = before + group[2] / 2
        before += group[2]
        if int(middle * shares // max(total, 1)) == share:
            mine.append(group)
    return mine


def part_name(folder: Path, share: int, shares: int) -> Path:
    """Where one of several processes writes its part of a data set."""
    return folder / f"part-{share:05d}-of-{shares:05d}.parquet"


def rows_of_share(rows: int, share: int, shares: int) -> int:
    """How many of `rows` rows one process takes.

    >>> [rows_of_share(10, share, 3) for share in range(3)]
    [3, 3, 4]
    """
    return rows * (share + 1) // shares - rows * share // shares


def seed_of_share(seed: int, share: int) -> int:
    """Another seed for every process, from one."""
    return int(np.random.SeedSequence([seed, share]).generate_state(1)[0])
