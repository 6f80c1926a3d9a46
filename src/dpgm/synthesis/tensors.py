"""Tensors on disk, as safetensors: written atomically, read with every size checked before anything is allocated."""

import json
import math
from collections.abc import Mapping
from pathlib import Path

from torch import Tensor

from dpgm.data.atomic import atomic_file
from dpgm.errors import ArtefactError

MAX_BYTES = 2**31
MAX_HEADER = 2**22
ITEM_BYTES = {"F64": 8, "F32": 4, "I64": 8, "I32": 4, "I16": 2, "U8": 1, "BOOL": 1}


def write_tensors(path: Path, tensors: Mapping[str, Tensor]) -> None:
    """Write named tensors beside `path` and rename them into place."""
    with atomic_file(path) as temporary:
        # Written by Python, so that a full disk is the operating system's complaint and not the library's.
        temporary.write_bytes(tensor_bytes(tensors))


def tensor_bytes(tensors: Mapping[str, Tensor]) -> bytes:
    """The bytes of a tensor file."""
    from safetensors.torch import save

    written: bytes = save({name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()})
    return written


def tensors_of_bytes(data: bytes) -> dict[str, Tensor]:
    """The tensors of `tensor_bytes`, from a process of the same fit."""
    from safetensors.torch import load

    tensors: dict[str, Tensor] = load(data)
    return tensors


def read_tensors(path: Path) -> dict[str, Tensor]:
    """Read named tensors from a file nobody vouches for; all values must be finite."""
    _check_layout(path)
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        tensors: dict[str, Tensor] = load_file(path)
    except (SafetensorError, OSError, ValueError, RuntimeError) as error:
        raise _damaged(path) from error
    if any(tensor.is_floating_point() and not bool(tensor.isfinite().all()) for tensor in tensors.values()):
        raise ArtefactError(f"{path.name} holds values that are not finite; it is damaged or was tampered with.")
    return tensors


def _check_layout(path: Path) -> None:
    try:
        if not path.is_file() or path.is_symlink():
            raise ArtefactError(f"{path.name} is missing or is not a plain file.")
        size = path.stat().st_size
        if not 8 <= size <= MAX_BYTES:
            raise _damaged(path)
        with path.open("rb") as file:
            length = int.from_bytes(file.read(8), "little")
            if length > min(size - 8, MAX_HEADER):
                raise _damaged(path)
            raw = file.read(length)
        header = json.loads(raw)
        # Nothing but tensors may stand in the header, neither notes nor anything that a JSON reader skips.
        if json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode() != raw.rstrip(b" "):
            raise _damaged(path)
        if length > 8 * (len(raw.rstrip(b" ")) // 8 + 1):
            raise _damaged(path)
        spans = []
        for entry in header.values():
            if set(entry) != {"dtype", "shape", "data_offsets"}:
                raise _damaged(path)
            start, stop = (int(offset) for offset in entry["data_offsets"])
            shape = [int(axis) for axis in entry["shape"]]
            if min([0, *shape]) < 0 or math.prod(shape) * ITEM_BYTES[entry["dtype"]] != stop - start:
                raise _damaged(path)
            spans.append((start, stop))
        at = 0
        for start, stop in sorted(spans):
            if start != at:
                raise _damaged(path)
            at = stop
        if at != size - 8 - length:
            raise _damaged(path)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError) as error:
        if isinstance(error, ArtefactError):
            raise
        raise _damaged(path) from error


def _damaged(path: Path) -> ArtefactError:
    return ArtefactError(f"{path.name} is not a sound tensor file; it is damaged or was tampered with.")
