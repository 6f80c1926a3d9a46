"""Fits of several processes: before anything is charged they compare what they fit, and the first one plans for all."""

import hashlib
import json
import os
import platform
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import torch

from dpgm import __version__
from dpgm.data.domain import Domain
from dpgm.data.domain_file import domain_to_plain
from dpgm.data.formats import located
from dpgm.data.formats.opening import Input, locate
from dpgm.data.layouts import Source
from dpgm.data.read.declared import Paths
from dpgm.data.read.options import ReadOptions
from dpgm.data.records import Records
from dpgm.errors import InputError, UsageError
from dpgm.kernels import parallel
from dpgm.kernels.agreement import agree, all_or_none, shared_key
from dpgm.strategy.settings import Config
from dpgm.synthesis.fingerprint import digest_of_rows
from dpgm.synthesis.plan import Plan

_BOOT = Path("/proc/sys/kernel/random/boot_id")  # tells running machines apart
_NOT_COMPARED = ("domain", "labels", "cache")  # ReadOptions: the first two by what they hold; a cache is one's own


def facts_of_fit(
    config: Config, plan: Plan | None, domain: Domain, source: Source, public: Records | None, **others: Any
) -> dict[str, Any]:
    """What steers a fit, by its names in messages; `others` are arguments of `fit` and `Synthesizer`."""
    versions = {"dpgm": __version__, "torch": torch.__version__, "numpy": np.__version__, "pyarrow": pa.__version__}
    versions["Python"] = platform.python_version()
    return (
        {f"the version of {name}": str(version) for name, version in versions.items()}
        | {f"`{name}`": value for name, value in (asdict(config) | others).items()}
        | {"`plan`": None if plan is None else plan.to_json(), "`domain`": domain_to_plain(domain)}
        | {"how the records were read": asdict(source)}
        | {"`public`": None if public is None else digest_of_rows(public, b"public").hex()}
    )


def plan_of_first(make: Callable[[], Plan]) -> Plan:
    """The plan that the first process makes, for all: another machine might round a number otherwise."""
    if not parallel.is_parallel():
        return make()
    made: Plan | None = None
    with all_or_none():
        made = make() if parallel.rank() == 0 else None
    values = {} if made is None else made.to_json()
    return Plan.from_json(json.loads(parallel.bytes_from_first(json.dumps(values).encode())))


def refuse_same_rows(records: Records) -> None:
    """Refuse processes that have the same rows, which would count once for each of them (collective)."""
    mine = digest_of_rows(records, shared_key()) if len(records) else b""
    found = [one for one in parallel.bytes_of_all(mine) if one]
    if len(set(found)) < len(found):
        raise UsageError(
            "two processes have the same records, each of which would count twice; give every process a share of its"
            " own, in which nobody is who is in another."
        )


@contextmanager
def reading_together(
    path: Paths | Sequence[Paths], options: ReadOptions, request: Mapping[str, Any]
) -> Iterator[None]:
    """Within the block each process reads its share; refused unless all have the same request, options and files.

    Shares are cut by numbers of rows, so two of them cannot overlap if they are cut from the same rows.
    """
    if not parallel.is_parallel():
        yield
        return
    with all_or_none():
        files = located(path, options.member)
        if any(file.address is not None for file in files):
            raise UsageError(
                f"{files[0]}: a server may give each process other rows; fit with one process, or export them."
            )
        files += [] if options.labels is None else [locate(options.labels)]
        before = _marks(files)
    compared = {one.name: getattr(options, one.name) for one in fields(options) if one.name not in _NOT_COMPARED}
    names = [[file.path.name, file.member, file.sheet] for file in files]
    agree(
        {f"`{name}`": value for name, value in (dict(request) | compared).items()}
        | {"`domain`": None if options.public_domain is None else domain_to_plain(options.public_domain)}
        | {"the names of the files": names}
    )
    _refuse_other_files(files, before)
    with all_or_none():
        yield
        if _marks(files) != before:
            raise InputError(f"{files[0]}: was changed while it was read; start again once nothing writes to it.")


def _marks(files: Sequence[Input]) -> bytes:
    """By which processes of one machine know a file, and that it has not changed: no byte of it is read."""
    machine = platform.node()
    with suppress(OSError):
        machine = _BOOT.read_text().strip()
    found = [os.stat(file.path) for file in files]
    return json.dumps(
        [machine, *([one.st_dev, one.st_ino, one.st_size, one.st_mtime_ns] for one in found)]
    ).encode()


def _refuse_other_files(files: Sequence[Input], marks: bytes) -> None:
    """Refuse processes that read other bytes; one process reads them for all that read the same file (collective)."""
    everyone = parallel.bytes_of_all(marks)
    if len(set(everyone)) == 1:
        return
    content: dict[str, Any] = {}
    with all_or_none():
        if everyone.index(marks) == parallel.rank():
            content["the content of the files"] = [_content(file) for file in files]
    agree(content)


def _content(file: Input) -> str:
    with open(file.path, "rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
