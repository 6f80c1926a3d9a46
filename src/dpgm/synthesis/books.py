"""The books of one fit: its entry in the population's budget ledger and its checkpoint, opened and closed together.

    with Books.open(plan, records, ledger=ledger, checkpoint=folder) as books:
        gateway = books.gateway(randomness)
        generator = ... fit behind the gateway ...
        books.commit(gateway, generator, measurements)

Every query is charged before it is answered. The ledger reserves the whole plan before the gateway opens; with a
checkpoint, each charge is written to the ledger, then to the checkpoint's journal, and only then is noise drawn. Both
the ledger and the checkpoint are optional.

One charge pays for one release. The process that opens the books last owns the ledger's entry: an earlier process that
still runs, on another copy of the checkpoint, can neither charge nor commit from then on. The commit records the hash
of the model, and a fit that has ended returns that model and no other.
"""

import functools
import hashlib
import json
import secrets
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dpgm.data.domain import Domain
from dpgm.data.records import Records
from dpgm.errors import ArtefactError, BudgetError, DpgmError, UsageError
from dpgm.kernels import parallel
from dpgm.kernels.agreement import all_or_none
from dpgm.mechanisms.gateway import Call, Gateway, PlaybackGateway
from dpgm.mechanisms.query import Query
from dpgm.mechanisms.randomness import Randomness
from dpgm.mechanisms.threshold import USUAL_ANSWER, ThresholdQuery
from dpgm.privacy.certificate import LedgerMark
from dpgm.privacy.events import Mechanism
from dpgm.privacy.ledger import Entry, Ledger
from dpgm.strategy.protocol import Generator
from dpgm.synthesis.checkpoint import Checkpoint
from dpgm.synthesis.domain_discovery import MEASURES as DISCOVERY
from dpgm.synthesis.fingerprint import rows_fingerprint
from dpgm.synthesis.measurements import MeasurementTable
from dpgm.synthesis.plan import Plan
from dpgm.synthesis.strategies import rebuild
from dpgm.synthesis.tensors import tensor_bytes


class Books:
    """The ledger entry and the checkpoint of one fit, each optional; a context manager made by `Books.open`."""

    def __init__(self, plan: Plan, records: Records, ledger: Ledger | None, checkpoint: Checkpoint | None) -> None:
        self._plan = plan
        self._records = records
        self._ledger = ledger
        self._owner = secrets.token_hex(16)
        self._entry: str | None = None
        self._committed = False
        self.checkpoint = checkpoint

    @classmethod
    def open(
        cls,
        plan: Plan,
        records: Records,
        *,
        ledger: Ledger | None = None,
        checkpoint: str | Path | None = None,
        resume: bool = False,
    ) -> "Books":
        """Reserve the plan, or with `resume` continue the fit in the checkpoint where it stopped.

        If several processes fit together, each with its own records, the first one writes and charges for all.

        Raises:
            BudgetError: the ledger's budget does not allow the plan.
            ArtefactError: the checkpoint is damaged, or does not belong to this plan, data or ledger.
        """
        digest = None if checkpoint is None else rows_fingerprint(records) or ""
        books = cls(plan, records, None, None)
        with all_or_none():  # what the first process refuses, all do
            if parallel.rank() == 0:
                folder = None if checkpoint is None else Path(checkpoint)
                books = cls._open_first(plan, records, digest, ledger, folder, resume)
        if not parallel.is_parallel() or checkpoint is None:
            return books
        if books.checkpoint is None:
            books.checkpoint = Checkpoint.follow()
        else:
            books.checkpoint.share()
        return books

    @classmethod
    def _open_first(
        cls,
        plan: Plan,
        records: Records,
        digest: str | None,
        ledger: Ledger | None,
        folder: Path | None,
        resume: bool,
    ) -> "Books":
        """The books of the process that writes and charges; `digest` is that of the rows of all processes."""
        saved: Checkpoint | None = None
        if folder is not None and resume:
            saved = Checkpoint.resume(folder, plan, records, digest=digest)
        elif folder is not None:
            # The checkpoint has the entry's name before the ledger has the entry: no reservation is ever orphaned.
            name = None if ledger is None else secrets.token_hex(8)
            saved = Checkpoint.start(folder, plan, records, name, digest=digest)
        books = cls(plan, records, ledger, saved)
        try:
            books._open_entry()
        except BaseException:
            if saved is not None:
                saved.close()
                if not resume and books._entry is None:
                    saved.remove()  # nothing was reserved
            raise
        return books

    def __enter__(self) -> "Books":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        saved = self.checkpoint
        if saved is not None:
            saved.close()
            if error is not None and self._entry is None and not saved.charged:
                saved.remove()  # nothing was spent, and there is nothing to resume
        elif error is not None and self._ledger is not None and self._entry is not None and not self._committed:
            with suppress(DpgmError):  # there is no checkpoint to resume from; the entry stays charged in any case
                self._ledger.abandon(self._entry, owner=self._owner)

    # -- the fit -------------------------------------------------------------------------------------------

    def gateway(self, randomness: Randomness, kind: "Callable[..., CheckpointedGateway] | None" = None) -> Gateway:
        """The gateway to the rows: it allows what the plan pays for, less what earlier processes have spent.

        `kind` makes the gateway of a fit that is not finished, by default a `CheckpointedGateway`.
        """
        plan, saved = self._plan, self.checkpoint
        first_row = parallel.first_row(len(self._records))
        sources, private = _sources_of_all(randomness.names_used or {randomness.name}, randomness.private)
        already_spent: Sequence[Mechanism] = ()
        if saved is not None and saved.finished:  # everything ran: no further query is allowed
            already_spent, saved = plan.mechanisms, None
        elif saved is not None:
            _refuse_lost(plan, saved.lost)
            if parallel.is_parallel():  # the first process records the sources of the others as well
                saved.note_sources(sources, private)
            spent = saved.lost | {m.name: saved.steps_charged for m in plan.mechanisms if m.sample is not None}
            already_spent = [replace(m, count=spent[m.name]) for m in plan.mechanisms if spent.get(m.name)]
        make = Gateway if saved is None else functools.partial(kind or CheckpointedGateway, checkpoint=saved)
        return make(
            self._records,
            randomness=randomness,
            allowance=plan.mechanisms,
            already_spent=already_spent,
            first_row=first_row,
            rows_per_person=plan.rows_per_person,
        )

    def discovery_gateway(self, gateway: Gateway) -> Gateway:
        """The gateway for discovering the domain; for a finished fit, one that replays its answers."""
        if self.checkpoint is None or not self.checkpoint.finished:
            return gateway
        names = [mechanism.name for mechanism in self._plan.mechanisms if mechanism.name in DISCOVERY]
        tape = [answer for name in names if (answer := self.checkpoint.replay(name)) is not None]
        return PlaybackGateway(tape, randomness=gateway.randomness, rows_per_person=self._plan.rows_per_person)

    def draws(self, randomness: Randomness) -> torch.Generator:
        """The generator of public draws; a resumed fit, and a repeated one with a test seed, draws the same."""
        draws = randomness.draws()
        if self.checkpoint is not None and randomness.private:
            draws.manual_seed(self.checkpoint.public_seed)
        return draws

    def finished(self, domain: Domain) -> tuple[Generator, MeasurementTable] | None:
        """What an earlier process finished without writing its release; None if there is nothing."""
        model = None if self.checkpoint is None else self.checkpoint.model()
        if self.checkpoint is None or model is None:
            return None
        generator = rebuild(*model, domain, self._plan.settings.family)
        return generator, MeasurementTable.from_bytes(self.checkpoint.measurements(), domain)

    def commit(self, gateway: Gateway, generator: Generator, measurements: MeasurementTable) -> LedgerMark | None:
        """Check that all of the plan ran, save the model and commit the ledger's entry; returns the ledger's mark."""
        gateway.assert_complete()
        tensors = generator.state()
        if self.checkpoint is not None and not self.checkpoint.finished:
            self.checkpoint.save_measurements(measurements.content)
            self.checkpoint.save_model(generator.kind, generator.architecture, tensors)
        if self._ledger is None or self._entry is None:
            return None
        model = hashlib.sha256(tensor_bytes(tensors)).hexdigest()
        self._ledger.commit(self._entry, gateway.spent, owner=self._owner, model=model)
        self._committed = True
        return self._ledger.mark

    def noise_sources(self, randomness: Randomness) -> tuple[frozenset[str], bool]:
        """Where the noise of all processes of this fit came from, and whether all of it was private."""
        used, private = _sources_of_all(randomness.names_used, randomness.private)
        names = used or frozenset({randomness.name})
        if self.checkpoint is None:
            return names, private
        earlier = self.checkpoint.history
        if earlier.sources and not used:  # nothing was drawn this time
            return frozenset(earlier.sources), earlier.private
        return names | earlier.sources, private and earlier.private

    # -- the ledger's entry ----------------------------------------------------------------------------------

    def _open_entry(self) -> None:
        """Reserve the plan in the ledger, or take over the reservation of the resumed fit."""
        ledger, saved = self._ledger, self.checkpoint
        if ledger is None:
            if saved is not None and saved.ledger_entry is not None:
                raise UsageError("the fit was started with a ledger; resume it with the same `ledger`.")
            return
        if saved is not None and saved.ledger_entry is None:
            raise UsageError("the fit was started without a ledger; resume it without one.")
        name = secrets.token_hex(8) if saved is None or saved.ledger_entry is None else saved.ledger_entry
        entry = next((one for one in ledger.entries() if one.name == name), None)
        if entry is None:
            if saved is not None and saved.charged:
                raise ArtefactError(
                    "the ledger does not know this fit, which has spent from its budget; give the ledger it was "
                    "started with."
                )
            entry = ledger.reserve(
                self._plan.mechanisms, self._plan.delta, plan_hash=plan_hash(self._plan), name=name
            )
        self._entry = name
        _check_reservation(entry, self._plan)
        if entry.state == "committed":
            self._reopen_committed(saved)
            return
        if saved is not None:
            _refuse_lost(self._plan, _lost_with(saved, entry.progress))  # before the entry is taken from its owner
        entry = ledger.start(name, owner=self._owner)
        if saved is not None:
            saved.raise_to(entry.progress)
            saved.before_charge = lambda charged: ledger.record_progress(name, charged, owner=self._owner)

    def _reopen_committed(self, saved: Checkpoint | None) -> None:
        """Allow a committed fit to write its release again, and refuse all further charges."""
        self._committed = True
        if saved is None or not saved.complete(self._plan):
            raise ArtefactError(
                "the ledger says that this fit has ended and its checkpoint does not; the checkpoint is an older copy. "
                "Fit again in another checkpoint folder."
            )
        saved.before_charge = _refuse_charge


class CheckpointedGateway(Gateway):
    """A gateway that returns from the checkpoint what an earlier process released, and computes the rest."""

    def __init__(self, records: Records, *, checkpoint: Checkpoint, **options: Any) -> None:
        super().__init__(records, **options)
        self._checkpoint = checkpoint

    def assert_complete(self) -> None:
        """Check that all of the plan ran; runs left over because their partner was lost in a crash are charged."""
        for entry in self._allowance.values() if self._allowance is not None and self._checkpoint.lost else ():
            unused = entry.count - self._runs_of(entry.name)
            if entry.count > 1 and unused:
                self._checkpoint.charge(entry.name, unused)
                self._spent[(entry.name, entry.noise, entry.sampling_rate, entry.sample, entry.delta)] += unused
        super().assert_complete()

    def _answer(self, call: Call, query: Query, rows: NDArray[np.int64] | None) -> Tensor:
        self._checkpoint.note_sources(self.randomness.names_used or {self.randomness.name}, self.randomness.private)
        if call.sample is not None:
            return super()._answer(call, query, rows)  # training steps are charged in blocks, before they run
        recorded = self._checkpoint.replay(call.name)
        if recorded is not None:
            if not query.fits(recorded):
                raise ArtefactError("the checkpoint was made on another device; resume it on the same kind.")
            return recorded
        exact = self._exact(query, rows)
        self._checkpoint.make_room(_room_for(query, exact))
        # Charged before the noise is drawn, so that every noisy value that ever existed is paid for.
        self._checkpoint.charge(call.name)
        noisy = self._noisy(call, query, exact)
        self._checkpoint.answer(call.name, noisy)
        return noisy


def _room_for(query: Query, exact: Tensor) -> int:
    """Disk space for an answer, from public numbers: it must not reveal how many values occur in the rows."""
    return USUAL_ANSWER if isinstance(query, ThresholdQuery) else exact.numel() * exact.element_size()


def plan_hash(plan: Plan) -> str:
    """The hash of a plan that the ledger's entry records."""
    return hashlib.sha256(json.dumps(plan.to_json(), sort_keys=True).encode()).hexdigest()


def _check_reservation(entry: Entry, plan: Plan) -> None:
    """Refuse a plan that is not the one the ledger has reserved."""
    if (entry.mechanisms, entry.delta, entry.plan_hash) != (plan.mechanisms, plan.delta, plan_hash(plan)):
        raise ArtefactError(
            "the plan of this fit is not the one that the ledger has reserved, so no query was run; resume it with "
            "the checkpoint and the ledger it was started with."
        )


def _lost_with(saved: Checkpoint, progress: Mapping[str, int]) -> dict[str, int]:
    """Runs whose answers are not in the checkpoint, including those that only the ledger knows of."""
    unknown = {name: runs - saved.charged.get(name, 0) for name, runs in progress.items() if name != "step"}
    lost = saved.lost
    return {name: lost.get(name, 0) + max(0, unknown.get(name, 0)) for name in {*lost, *unknown}}


def _refuse_lost(plan: Plan, lost: Mapping[str, int]) -> None:
    """Refuse to resume a fit if the answer of a mechanism that runs once was lost: it may not run again."""
    for mechanism in plan.mechanisms:
        if mechanism.count == 1 and mechanism.sample is None and lost.get(mechanism.name):
            raise BudgetError(
                f"the noisy {mechanism.name} were lost when the earlier fit stopped, and their budget is spent; fit "
                "again in another checkpoint folder, which costs the budget again."
            )


def _refuse_charge(charged: Mapping[str, int]) -> None:
    raise BudgetError("this fit has ended; its budget pays for no further query.")


def _sources_of_all(names: Collection[str], private: bool) -> tuple[frozenset[str], bool]:
    """The noise sources of all processes of this fit (collective in a parallel run)."""
    everyone = [json.loads(one) for one in parallel.bytes_of_all(json.dumps([sorted(names), private]).encode())]
    if len({is_private for _, is_private in everyone}) > 1:
        raise UsageError(
            "some processes draw their noise from a fixed seed and others do not; start all in the same way."
        )
    return frozenset(name for used, _ in everyone for name in used), private
