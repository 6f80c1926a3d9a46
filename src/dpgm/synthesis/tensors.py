"""Tensor files (safetensors): written atomically, and read from untrusted folders without trusting any size in them."""

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
    """Write named tensors under a temporary name and rename the file into place."""
    with atomic_file(path) as temporary:
        # Written by Python, so that a full disk raises an OSError and not an error of the library.
        temporary.write_bytes(tensor_bytes(tensors))


def tensor_bytes(tensors: Mapping[str, Tensor]) -> bytes:
    """The bytes of a tensor file."""
    from safetensors.torch import save

    written: bytes = save({name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()})
    return written


def tensors_of_bytes(data: bytes) -> dict[str, Tensor]:
    """The inverse of `tensor_bytes`, for bytes from a process of the same fit."""
    from safetensors.torch import load

    tensors: dict[str, Tensor] = load(data)
    return tensors


def read_tensors(path: Path) -> dict[str, Tensor]:
    """Read named tensors from an untrusted file; all values must be finite."""
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    damaged = ArtefactError(f"{path.name} is not a valid tensor file; it is damaged or was tampered with.")
    try:
        if not path.is_file() or path.is_symlink():
            raise ArtefactError(f"{path.name} is missing or is not a plain file.")
        if not _is_sound(path):
            raise damaged
        tensors: dict[str, Tensor] = load_file(path)
    except ArtefactError:
        raise
    except (SafetensorError, OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        raise damaged from error
    except (RuntimeError, OverflowError) as error:  # JSON nested too deeply; sizes too large for an integer
        raise damaged from error
    if any(tensor.is_floating_point() and not bool(tensor.isfinite().all()) for tensor in tensors.values()):
        raise ArtefactError(f"{path.name} holds values that are not finite; it is damaged or was tampered with.")
    return tensors


def _is_sound(path: Path) -> bool:
    """Whether the header accounts for every byte after it; an error while it is read means no."""
    size = path.stat().st_size
    if not 8 <= size <= MAX_BYTES:
        return False
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        if length > min(size - 8, MAX_HEADER):
            return False
        raw = file.read(length).rstrip(b" ")
    header = json.loads(raw)
    # The header must list tensors only, without metadata or anything that a JSON parser skips.
    plain = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode() == raw
    if not plain or length > 8 * (len(raw) // 8 + 1):
        return False
    end = 0
    for entry in sorted(header.values(), key=lambda entry: list(entry["data_offsets"])):
        start, stop = (int(offset) for offset in entry["data_offsets"])
        shape = [int(axis) for axis in entry["shape"]]
        expected = math.prod(shape) * ITEM_BYTES[entry["dtype"]]
        complete = set(entry) == {"dtype", "shape", "data_offsets"}
        if not complete or min([0, *shape]) < 0 or (start, stop) != (end, end + expected):
            return False
        end = stop
    return end == size - 8 - length
