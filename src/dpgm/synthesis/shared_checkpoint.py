"""The checkpoint of a fit in several processes: the first one keeps the folder, the others follow it.

All processes run the same program on the same released values, so they ask the same of their checkpoint in the same
order. The first one writes, and whatever it reads it hands to the others; they need not see its disk.
"""

import json
from collections import Counter, defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import Tensor

from dpgm.compute import parallel
from dpgm.synthesis.checkpoint import Checkpoint
from dpgm.synthesis.journal import History, Journal
from dpgm.synthesis.tensors import tensor_bytes, tensors_of_bytes


class _NoJournal(Journal):
    """Entries of a process that follows; the first one writes them."""

    def __init__(self) -> None:
        super().__init__(Path(), "")

    def append(self, entry: Mapping[str, Any]) -> None:
        """Nothing to write."""


class FirstCheckpoint(Checkpoint):
    """Of the first process: every file that is read goes to the others, too."""

    @classmethod
    def of(cls, alone: Checkpoint) -> "FirstCheckpoint":
        """The same checkpoint, followed by the others (collective)."""
        first = cls(alone.folder, alone.header, alone.journal, alone.history, alone.hand_over_lock())
        first.before_charge = alone.before_charge
        header = {"public_seed": first.public_seed, "ledger_entry": first.ledger_entry}
        values = {**vars(first.history), "sources": sorted(first.history.sources)}
        parallel.bytes_from_first(json.dumps([header, values]).encode())
        return first

    def _read(self, file: str) -> dict[str, Tensor]:
        tensors = super()._read(file)
        parallel.bytes_from_first(tensor_bytes(tensors))
        return tensors


class FollowingCheckpoint(Checkpoint):
    """Of every other process: knows what the first one knows, and writes nothing."""

    @classmethod
    def receive(cls) -> "FollowingCheckpoint":
        """What the first process sends (collective)."""
        header, values = json.loads(parallel.bytes_from_first(b""))
        values["charged"] = Counter(values["charged"])
        values["answers"] = defaultdict(list, values["answers"])
        values["sources"] = set(values["sources"])
        values["model"] = values["model"] and tuple(values["model"])
        return cls(Path(), header, _NoJournal(), History(**values), -1)

    def remove(self) -> None:
        """The folder belongs to the first process."""

    def make_room(self, size: int) -> None:
        """The first process needs it."""

    def answer(self, name: str, noisy: Tensor) -> None:
        """The first process saves it."""
        self.history.answers[name].append("")
        self._replayed[name] = len(self.history.answers[name])

    def save_steps(self, steps: int, state: Mapping[str, Tensor]) -> None:
        """The first process saves them."""
        self.history.trainer, self.history.steps_done = f"trainer-{steps}.safetensors", steps

    def _write(self, file: str, tensors: Mapping[str, Tensor]) -> str:
        return ""

    def _read(self, file: str) -> dict[str, Tensor]:
        return tensors_of_bytes(parallel.bytes_from_first(b""))
