"""Files at addresses that fsspec opens, such as `s3://bucket/people.parquet`: copied to files without a name, and read.

Keys come from where the driver of the service looks for them. No message repeats what a driver says: it might hold one.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import PurePosixPath
from typing import Any

from dpgm.data.formats.hive import partitions_of
from dpgm.data.formats.opening import Input, is_zip, spooled
from dpgm.data.urls import scheme_of, split_table, without_credentials
from dpgm.errors import DpgmError, InputError, UsageError

_DRIVERS = {"s3": "s3fs", "gs": "gcsfs", "gcs": "gcsfs", "http": "aiohttp", "https": "aiohttp", "abfs": "adlfs"}
_SCHEME = re.compile(r"[a-z][a-z0-9+.\-]*")
_HIDDEN = ("_", ".")


def fetch(url: str, member: str | None = None) -> list[Input]:
    """Copies of the file at an address, or of the Parquet files of a folder; `address::name` names a sheet."""
    url, sheet = split_table(url) if member is None else (url, member)
    label = without_credentials(url)
    files, path = _opened(url, label)
    with _faults(label):
        is_folder = files.isdir(path)
        found = sorted(files.find(path)) if is_folder else [path]
    if not is_folder:
        if is_zip(PurePosixPath(label)):  # type: ignore[arg-type]
            raise InputError(f"{label}: archives are read from the disk; copy it here first.")
        return [_copied(files, path, label, sheet=sheet)]
    inside = [(one, PurePosixPath(one).relative_to(files._strip_protocol(path))) for one in found]
    parts = [(one, name) for one, name in inside if name.suffix == ".parquet" and not _is_hidden(name)]
    if not parts:
        raise InputError(f"{label}: is a folder without .parquet files; name a file.")
    base = label.rstrip("/")
    return [_copied(files, one, f"{base}/{name}", partitions=partitions_of(name.parts[:-1])) for one, name in parts]


def _is_hidden(name: PurePosixPath) -> bool:
    return any(part.startswith(_HIDDEN) for part in name.parts)


def _opened(url: str, label: str) -> tuple[Any, str]:
    """The file system of an address, and the path in it."""
    scheme = scheme_of(url)
    unknown = UsageError(f"{label}: addresses of this kind are not read; copy the file here first.")
    if not _SCHEME.fullmatch(scheme):
        raise unknown
    try:
        import fsspec

        files, path = fsspec.core.url_to_fs(url)
    except ImportError:
        driver = _DRIVERS.get(scheme, "the driver of fsspec for it")
        raise UsageError(
            f"{label}: {scheme}:// addresses are read with a driver that is missing; `pip install {driver}`, or copy"
            " the file here first."
        ) from None
    except Exception:  # drivers raise what they like
        raise unknown from None
    return files, path


def _copied(files: Any, path: str, label: str, **more: Any) -> Input:
    with _faults(label), files.open(path, "rb") as stream:
        return spooled(stream, label, **more)


@contextmanager
def _faults(label: str) -> Iterator[None]:
    """Errors of a driver, which may be of any kind, as one sentence."""
    try:
        yield
    except DpgmError:
        raise
    except FileNotFoundError:
        raise InputError(f"{label}: there is no such file; check the address.") from None
    except Exception:
        raise InputError(
            f"{label}: cannot be read; check the address, the network, and the keys that you have for it."
        ) from None
