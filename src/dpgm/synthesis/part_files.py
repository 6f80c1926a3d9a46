"""The folder in which a curator collects the parts of a fit: requests of rounds, and sealed sums of places."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from dpgm.data.atomic import atomic_file
from dpgm.errors import ArtefactError, UsageError
from dpgm.privacy.untrusted_files import read_bytes
from dpgm.synthesis.parts import LARGEST_FILE, MeasuredPart, PartRequest

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey

PART_ENDING, REQUEST_ENDING = ".sums", ".request.json"


def write_part(part: MeasuredPart, path: Path, key: "X25519PublicKey") -> None:
    """Write a part, sealed to the curator's key and readable by its owner alone."""
    with atomic_file(path, private=True) as temporary:
        temporary.write_bytes(part.sealed(key))


def write_request(request: PartRequest, folder: Path) -> Path:
    """Write a request into the folder of the parts; returns its path."""
    path = folder / f"round-{request.round}{REQUEST_ENDING}"
    with atomic_file(path) as temporary:
        temporary.write_text(request.to_json(), "utf-8")
    return path


def read_request(path: Path) -> PartRequest:
    """The request in a file; raises ArtefactError unless it is one."""
    return PartRequest.from_json(read_bytes(path, LARGEST_FILE).decode("utf-8", "replace"))


class PartFolder:
    """Collects the parts that answer a request from the files of a folder."""

    def __init__(self, folder: Path, key: "X25519PrivateKey") -> None:
        if not folder.is_dir():
            raise UsageError(f"{folder} is not a folder; name the folder of the parts.")
        self._folder, self._key = folder, key

    def __call__(self, request: PartRequest, mechanism: str) -> Sequence[MeasuredPart]:
        """The parts of the current round; those of earlier rounds may stay.

        Raises:
            ArtefactError: a file is damaged, sealed to another key, or answers no request of this fit.
        """
        earlier = {
            replace(request, answers=request.answers[:count]).digest for count in range(len(request.answers))
        }
        parts = []
        for path in sorted(self._folder.glob(f"*{PART_ENDING}")):
            try:
                part = MeasuredPart.unsealed(read_bytes(path, LARGEST_FILE), self._key)
            except ArtefactError as error:
                raise ArtefactError(f"{path}: {str(error).rstrip('.')}; get this part again.") from None
            if part.heading["request"] == request.digest:
                parts.append(part)
            elif part.heading["request"] not in earlier:
                raise ArtefactError(
                    f"{path} answers another request, of another plan or another start of this fit; remove it, or"
                    f" measure it again with round-{request.round}{REQUEST_ENDING}."
                )
        return parts
