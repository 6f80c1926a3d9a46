"""Figures that took seconds to compute, kept on disk. Never needed, never an error.

An entry is one small JSON file in the user's cache folder (`DPGM_CACHE` overrides it), named by a hash of the inputs
and of every version that could change the figure, and carrying a checksum. Anything odd counts as absent.
"""

import hashlib
import json
import os
import tempfile
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np

from dpgm import __version__

_LARGEST = 2**20


def recall(key: object) -> Any | None:
    """What was kept under the key, or None."""
    try:
        path = _place(key)
        if path.stat().st_size > _LARGEST:
            return None
        document = json.loads(path.read_text(encoding="utf-8"))
        if document["checksum"] != _digest(document["value"]):
            return None
        return document["value"]
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None


def keep(key: object, value: Any) -> None:
    """Keep a JSON value under the key, if the disk allows."""
    with suppress(OSError):
        path = _place(key)
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=".new-")
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as stream:
                json.dump({"checksum": _digest(value), "value": value}, stream)
            os.replace(temporary, path)
        except OSError:
            with suppress(OSError):
                os.unlink(temporary)
            raise


def _place(key: object) -> Path:
    base = os.environ.get("DPGM_CACHE")
    if base is None:
        base = str(Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "dpgm")
    return Path(base) / f"{_digest([key, _versions()])}.json"


def _digest(value: object) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def _versions() -> list[str]:
    return [__version__, np.__version__, _installed("scipy"), _installed("dp-accounting")]


def _installed(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "absent"
