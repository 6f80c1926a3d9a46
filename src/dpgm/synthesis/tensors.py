"""Tensor files (safetensors): made, and read from untrusted bytes without trusting any size in them."""

import json
import math
from collections.abc import Mapping

from torch import Tensor

from dpgm.errors import ArtefactError

MAX_BYTES = 2**31
MAX_HEADER = 2**22
ITEM_BYTES = {"F64": 8, "F32": 4, "I64": 8, "I32": 4, "I16": 2, "U8": 1, "BOOL": 1}


def tensor_bytes(tensors: Mapping[str, Tensor]) -> bytes:
    """The bytes of a tensor file."""
    from safetensors.torch import save

    written: bytes = save({name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()})
    return written


def tensors_of_bytes(data: bytes) -> dict[str, Tensor]:
    """The inverse of `tensor_bytes`, for bytes that are known to be sound."""
    from safetensors.torch import load

    tensors: dict[str, Tensor] = load(data)
    return tensors


def read_tensors(data: bytes, name: str) -> dict[str, Tensor]:
    """Named tensors from the bytes of an untrusted file; all values must be finite."""
    from safetensors import SafetensorError

    damaged = ArtefactError(f"{name} is not a valid tensor file; it is damaged or was tampered with.")
    try:
        if not _is_sound(data):
            raise damaged
        tensors = tensors_of_bytes(data)
    except ArtefactError:
        raise
    except (SafetensorError, ValueError, LookupError, TypeError, AttributeError) as error:
        raise damaged from error
    except (RuntimeError, OverflowError) as error:  # JSON nested too deeply; sizes too large for an integer
        raise damaged from error
    if any(tensor.is_floating_point() and not bool(tensor.isfinite().all()) for tensor in tensors.values()):
        raise ArtefactError(f"{name} holds values that are not finite; it is damaged or was tampered with.")
    return tensors


def _is_sound(data: bytes) -> bool:
    """Whether the header accounts for every byte after it; an error while it is read means no."""
    size = len(data)
    if not 8 <= size <= MAX_BYTES:
        return False
    length = int.from_bytes(data[:8], "little")
    if length > min(size - 8, MAX_HEADER):
        return False
    raw = data[8 : 8 + length].rstrip(b" ")
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
