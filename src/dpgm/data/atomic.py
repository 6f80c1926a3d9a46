"""Atomic output: written under a temporary name in the same folder, flushed to disk, and renamed into place.

A reader sees the old output or the new one, never an incomplete one; after an error nothing is left behind. Leftovers
of a killed process are removed by the next process that writes the same name: a temporary output is locked while it is
written, so one without a lock is a leftover.
"""

import errno
import fcntl
import os
import re
import secrets
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from dpgm.errors import DiskError, UsageError

# Operating system errors in words that tell the user what to do.
_REASONS = {
    errno.ENOSPC: "the disk is full; free some space or choose another place",
    errno.EDQUOT: "the disk quota is used up; free some space or choose another place",
    errno.EROFS: "the disk is read-only; choose another place",
    errno.EACCES: "no permission to write there; choose another place",
    errno.EPERM: "no permission to write there; choose another place",
    errno.ENOENT: "its folder does not exist; create it first",
    errno.ENOTDIR: "its folder is not a folder; choose another place",
    errno.EISDIR: "a folder of that name is in the way; choose another name",
    errno.EEXIST: "something of that name exists already; choose another name or pass `force=True`",
    errno.ENOTEMPTY: "a folder of that name exists already; choose another name or remove it first",
    errno.ENAMETOOLONG: "the name is too long; choose a shorter one",
    errno.EFBIG: "the file would be larger than the disk allows; choose another place",
    errno.EIO: "the disk reported a fault; choose another place",
}


def disk_error(path: str | os.PathLike[str], error: OSError) -> DiskError:
    """An operating system error about an output, as one plain sentence."""
    reason = _REASONS.get(error.errno or 0, f"{(error.strerror or 'writing failed').lower()}; choose another place")
    return DiskError(f"{os.fspath(path)}: cannot be written: {reason}.")


def flush(path: Path) -> None:
    """Flush a file, or the entries of a folder, to disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _remove(path: Path) -> None:
    """Remove a file or folder if it exists."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
        return
    with suppress(OSError):
        path.unlink()


def _temporary_name(path: Path, mark: str = "tmp") -> Path:
    return path.with_name(f"{path.name}.{mark}-{secrets.token_hex(6)}")


def _locked(path: Path) -> int:
    """A handle with a lock that marks a temporary file or folder as in use."""
    handle = os.open(path, os.O_RDONLY)
    with suppress(OSError):  # on a file system without locks, leftovers cannot be recognized and stay
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    return handle


def remove_leftovers(path: str | os.PathLike[str]) -> None:
    """Remove temporary files that killed processes left; restore an old output that one had moved aside."""
    target = Path(path)
    pattern = re.compile(re.escape(target.name) + r"\.(tmp|old)-[0-9a-f]{12}")
    with suppress(OSError):
        for name in sorted(os.listdir(target.parent)):
            match = pattern.fullmatch(name)
            if match is None:
                continue
            leftover = target.with_name(name)
            if match[1] == "old" and not os.path.lexists(target):
                os.rename(leftover, target)
                continue
            with suppress(OSError):
                handle = os.open(leftover, os.O_RDONLY | os.O_NOFOLLOW)
                try:
                    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    _remove(leftover)
                finally:
                    os.close(handle)


@contextmanager
def _disk_errors(target: Path, *, of_files_inside: bool = False) -> Iterator[None]:
    """Turn operating system errors into `DiskError`s that name the target instead of the temporary file."""
    try:
        yield
    except DiskError as error:
        if of_files_inside and isinstance(error.__cause__, OSError):
            raise disk_error(target, error.__cause__) from error
        raise
    except OSError as error:
        if error.errno is None:  # not from the operating system
            raise
        raise disk_error(target, error) from error


def _check_folder_of(path: Path, force: bool) -> None:
    if not path.name:
        raise DiskError(f"{path}: cannot be written: it is not the name of a file.")
    with _disk_errors(path):  # also for a name too long, or a folder without permission
        if not path.parent.exists():
            raise OSError(errno.ENOENT, "")
        if not path.parent.is_dir():
            raise OSError(errno.ENOTDIR, "")
        if path.exists() and not force:
            raise OSError(errno.EEXIST, "")


def check_writable(path: str | os.PathLike[str]) -> None:
    """Raise if the folder of an output is missing, read-only or full: to be called before hours of work."""
    target = Path(path)
    _check_folder_of(target, force=True)
    with _disk_errors(target):
        trial = _temporary_name(target)
        trial.mkdir(mode=0o700)
        trial.rmdir()


def check_output(
    path: str | os.PathLike[str], *, force: bool, inputs: Iterable[str | os.PathLike[str] | None] = ()
) -> None:
    """Raise if an output file cannot be written, exists already (unless `force`) or is one of the inputs."""
    check_writable(path)
    target = Path(path)
    for one in inputs:
        if one is not None and os.path.exists(one) and target.exists() and os.path.samefile(one, target):
            raise UsageError(f"{target}: is an input of this command; choose another name for the output.")
    if target.is_dir():
        raise disk_error(target, OSError(errno.EISDIR, ""))
    if target.exists() and not force:
        raise UsageError(f"{target} exists already; choose another name or pass `force=True`.")


def _set_mode(temporary: Path, mode: int) -> None:
    """Set the permissions of a temporary output, restricted by the umask."""
    mask = os.umask(0)
    os.umask(mask)
    temporary.chmod(mode & ~mask)


@contextmanager
def _temporary(target: Path, *, folder: bool) -> Iterator[Path]:
    """A temporary file or folder next to the target, locked while in use, and removed unless it was renamed."""
    remove_leftovers(target)
    temporary, lock = _temporary_name(target), -1
    try:
        with _disk_errors(target, of_files_inside=folder):
            # Readable by the owner only until it is complete: it may contain private rows.
            if folder:
                temporary.mkdir(mode=0o700)
            else:
                os.close(os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
            lock = _locked(temporary)
            yield temporary
    finally:
        _remove(temporary)
        if lock >= 0:
            os.close(lock)


@contextmanager
def atomic_file(path: str | os.PathLike[str], *, force: bool = True, private: bool = False) -> Iterator[Path]:
    """Yields a temporary file name next to `path`; on success flushes the file and renames it to `path`.

    With `force=False` an existing `path` is refused; with `private` only the owner may read the file. On any error the
    temporary file is removed and `path` is unchanged; disk errors are raised as `DiskError`.
    """
    target = Path(path)
    _check_folder_of(target, force)
    if target.is_dir():
        raise disk_error(target, OSError(errno.EISDIR, ""))
    with _temporary(target, folder=False) as temporary:
        yield temporary
        flush(temporary)
        _set_mode(temporary, 0o600 if private else 0o666)
        os.replace(temporary, target)
        flush(target.parent)


@contextmanager
def atomic_folder(path: str | os.PathLike[str], *, force: bool = False) -> Iterator[Path]:
    """Yields an empty temporary folder next to `path`; on success flushes its contents and renames it to `path`.

    An existing `path` is refused, or with `force` replaced (moved aside, then removed).
    """
    target = Path(path)
    _check_folder_of(target, force)
    with _temporary(target, folder=True) as temporary:
        yield temporary
        for folder, _, files in os.walk(temporary, topdown=False):
            for name in files:
                flush(Path(folder, name))
            flush(Path(folder))
        _set_mode(temporary, 0o777)
        old = _temporary_name(target, "old")
        if force and target.exists():
            os.rename(target, old)
        try:
            os.rename(temporary, target)
        except OSError:
            if os.path.lexists(old):
                os.rename(old, target)
            raise
        try:
            flush(target.parent)
        finally:
            _remove(old)
