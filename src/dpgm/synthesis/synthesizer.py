"""The `Synthesizer`: Algorithm 1 of the paper, from records and a privacy budget to a private generator.

The steps of the algorithm, with the paper's errors corrected (docs/guarantee.md):

    plan      choose every noise multiplier, before any data is opened
    discover  privately find the values, bounds and bins that the domain leaves open
    profile   noisy record lengths and item counts
    cluster   private kernel k-means                                   } mixtures of networks
    profiles  noisy size and item counts of each cluster               }
    train     k networks at once by private SGD                        }
    measure   further noisy statistics, once
    refine    fit the generator to the noisy statistics
    release   publish weights, domain and certificate; nothing else leaves
"""

import inspect
import os
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any, Unpack

from dpgm.data.domain_file import DomainLike, as_domain
from dpgm.data.formats.connections import is_connection
from dpgm.data.layouts import Source
from dpgm.data.read.frames import FrameRecords, read_frame
from dpgm.data.read.keywords import FileKeywords, ReadKeywords
from dpgm.data.read.options import ReadOptions
from dpgm.data.read.readers import read_source
from dpgm.data.records import Records
from dpgm.data.stores import bytes_of
from dpgm.errors import NotFittedError, UsageError
from dpgm.kernels import parallel
from dpgm.kernels.agreement import agree, all_or_none
from dpgm.kernels.devices import full_precision
from dpgm.mechanisms.randomness import Randomness, SystemRandomness
from dpgm.notebook import html_table
from dpgm.privacy.certificate import About
from dpgm.privacy.keys import read_private_key
from dpgm.privacy.ledger import Ledger
from dpgm.strategy.protocol import Progress, RunContext, reporting
from dpgm.strategy.settings import Config, Preset
from dpgm.synthesis.books import Books
from dpgm.synthesis.certified_fit import certify, discover_and_fit
from dpgm.synthesis.checkpoint import Checkpoint
from dpgm.synthesis.conditioning import Where
from dpgm.synthesis.joint import facts_of_fit, plan_of_first, refuse_same_rows
from dpgm.synthesis.memory import check_memory
from dpgm.synthesis.plan import Plan, make_plan
from dpgm.synthesis.readme import LOOKED, MADE_IN_MEMORY
from dpgm.synthesis.release import Release
from dpgm.synthesis.strategies import check_model
from dpgm.validation import near


class Synthesizer:
    """Fits a differentially private generator, with the interface of a scikit-learn estimator.

    Args:
        epsilon: the privacy budget.
        delta: the slack in the promise; by default 1 / (10 x number of records).
        clusters: number of networks in a mixture; by default chosen from the number of records.
        model: `auto` (chosen by the domain), `trees`, `products`, `image`, `sequences`, `vae`, `rbm`, `independent` or
            `mwem`.
        preset: `default`, or `paper` for the paper's own choices under corrected mechanisms.
        domain: the public domain of frames and arrays: a `Domain`, a mapping or the path of a domain file; `Records`
            have a domain of their own.
        device: `auto`, `cpu` or `cuda`; never alters the guarantee.
        randomness: source of noise; by default the operating system, other sources are for tests.
        mean_length: public mean number of items per record, from which networks start if no profile is measured.
        memory: a limit on the memory of the process, such as `4GB`, by which caches are sized. To keep rows on disk
            as well, read them with `read_records(..., memory=...)`.

    Privacy: (epsilon, delta) per record under add/remove adjacency, with the number of records public. Nothing that
    `fit` stores depends on the records except through the mechanisms listed in `certificate_`.

    >>> import dpgm
    >>> dpgm.Synthesizer(epsilon=1.0).get_params()["model"]
    'auto'
    """

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float | None = None,
        clusters: int | None = None,
        model: str = "auto",
        preset: Preset = "default",
        domain: DomainLike | None = None,
        device: str = "auto",
        randomness: Randomness | None = None,
        mean_length: float | None = None,
        memory: str | int | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.clusters = clusters
        self.model = model
        self.preset = preset
        self.domain = domain
        self.device = device
        self.randomness = randomness
        self.mean_length = mean_length
        self.memory = memory
        self._check_arguments()

    # -- the algorithm -----------------------------------------------------------------------------------------

    def fit(
        self,
        data: Any,
        *,
        person: str | None = None,
        item: str | None = None,
        time: str | None = None,
        period: str | None = None,
        persons: Any = None,
        rows_per_person: int | None = None,
        discover: bool = False,
        public: Records | None = None,
        plan: Plan | None = None,
        source: Source | None = None,
        ledger: Ledger | None = None,
        checkpoint: str | Path | None = None,
        resume: bool = False,
        about: About | None = None,
        after_looking: bool = False,
        together: bool = False,
        progress: Progress | bool = False,
        **reading: Unpack[FileKeywords],
    ) -> "Synthesizer":
        """Plan, measure, train, refine; returns self with `generator_`, `certificate_`, `plan_` and `domain_`.

        Args:
            data: records; a frame of pandas, polars or pyarrow, or anything else that gives Arrow tables, such as a
                relation of DuckDB; a matrix of 0 and 1 of numpy or scipy; the path of a file, or of a folder of Parquet
                files; or the address of a database or a connection to one, with `table` or `query`.
            person: the column of a frame or file that identifies persons. With `item`, rows of a person are grouped
                into one record; without, every row must be another person unless `rows_per_person` is given.
            item: the column of items: one item per row with `person`, a list of items per row without.
            time: the column of times (long), or of lists of times, by which the items of a person are a sequence.
            period: sequences without a domain: the public period of their times, such as 2024-03-01..2024-03-31.
            persons: sequences: a second frame or file with the attributes of persons, one row each.
            rows_per_person: the most rows of a person that are used, chosen at random and in secret: the guarantee
                covers all of them together, and the noise grows with this number.
            discover: take names and types of a frame's columns as public, and find all values privately. Where pandas
                inferred a type from the values (one gap turns whole numbers into floats), state it: `astype`, or a
                domain.
            public: public records that a family may start from.
            plan: a plan made earlier by `make_plan`.
            source: how the records were read, for the certificate.
            ledger: the ledger in which the budget is booked.
            checkpoint: a folder in which progress is saved, so that an interrupted fit can be resumed.
            resume: resume the fit in the checkpoint folder.
            about: title, owner, population and date for the certificate.
            after_looking: settings were chosen after an earlier release was compared with these data; the certificate
                then says so.
            together: this process is one of several of `torch.distributed` that fit one model together, and `data` is
                its share: nobody who is in it may be in another. Every process calls `fit` with the same arguments.
            progress: True for lines on stderr, or a function of (stage, done, total).
            **reading: how a file is read, as `read_records` takes it, such as `shape="basket"`.
        """
        named = {"person": person, "item": item, "time": time, "period": period, "persons": persons}
        named |= {"rows_per_person": rows_per_person, "discover": discover}
        with parallel.sharing(together), ExitStack() as settings:
            with all_or_none():
                _check_options(person, checkpoint, resume)
                read = self._read(data, named, source, reading)
                records, source = read.records, _source_of(read, source, resume=resume)
                records.domain.refuse_draft()
                context = RunContext(
                    choose_device(self.device), reporting(progress), public=public, memory=self._memory()
                )
                settings.enter_context(full_precision(context.device))
            randomness = SystemRandomness() if self.randomness is None else self.randomness
            if parallel.is_parallel():
                self._agree(records, source, plan, context, randomness, checkpoint is not None, resume)
                if together:
                    refuse_same_rows(records)
            plan = self._plan_for(records, source.rows_per_person, plan, checkpoint if resume else None)
            with Books.open(plan, records, ledger=ledger, checkpoint=checkpoint, resume=resume) as books:
                gateway = books.gateway(randomness)
                fitted = discover_and_fit(gateway, books, plan, records.domain, context)
                mark = books.commit(gateway, fitted.generator, fitted.measurements)
            statements = (LOOKED,) if after_looking else ()
            certificate = certify(plan, books, gateway, fitted.generator, source, records.domain, mark, statements)
            certificate = replace(certificate, about=about or About())
        domain = fitted.domain if source.layout is None else replace(fitted.domain, layout=source.layout)
        # All at once: an interrupted refit never leaves a new generator beside an old certificate.
        self.plan_, self.domain_, self.certificate_ = plan, domain, certificate
        self.generator_, self.measurements_ = fitted.generator, fitted.measurements
        self.dtypes_ = read.dtypes
        return self

    def _read(
        self, data: Any, named: dict[str, Any], source: Source | None, reading: Mapping[str, Any]
    ) -> FrameRecords:
        """The records of a file or of data in memory, and how they were read."""
        own = {"domain", "memory"} & {*reading}
        if own:
            raise UsageError(f"`{min(own)}` is an argument of `Synthesizer(...)`, not of `fit`; give it there.")
        if isinstance(data, Records) and not reading and not any(named.values()):
            return FrameRecords(data, None)
        if not isinstance(data, (str, os.PathLike)) and not is_connection(data):
            if reading:
                raise UsageError(
                    f"`{next(iter(reading))}` says how a file is read; for data in memory leave it out."
                )
            return read_frame(data, self.domain, memory=self.memory, **named)
        if source is not None:
            raise UsageError("`source` describes records that were read earlier; for a file leave it out.")
        known = ReadKeywords.__annotations__
        for name in reading:
            if name not in known:
                raise UsageError(f"`fit` has no argument {name!r}{near(name, known)}.")
        options = ReadOptions(domain=self.domain, memory=self.memory, **named, **reading)
        return FrameRecords(*read_source(data, options))

    def _agree(
        self,
        records: Records,
        source: Source,
        plan: Plan | None,
        context: RunContext,
        randomness: Randomness,
        saves: bool,
        resume: bool,
    ) -> None:
        """Refuse processes that would not make the same fit; nothing is charged yet."""
        others = {
            "device": context.device,
            "memory": context.memory,
            "seed": None if randomness.private else randomness.name,
            "checkpoint": saves,
            "resume": resume,
        }
        agree(facts_of_fit(self._config(), plan, records.domain, source, context.public, **others))

    def _plan_for(
        self, records: Records, rows_per_person: int, plan: Plan | None, resume_from: str | Path | None
    ) -> Plan:
        """The given plan, that of the fit to be resumed, or a new one; refused unless it suits the records."""
        total = parallel.total_rows(len(records))
        config = replace(self._config(), rows_per_person=rows_per_person)
        if plan is None and resume_from is not None:
            plan = plan_of_first(lambda: Checkpoint.saved_plan(Path(resume_from)))
            self._check_same_request(plan)
            if plan.records != total:
                raise UsageError(
                    f"the fit in this checkpoint was started with {plan.records:,} records and these data have another"
                    " number: they are not the data of the stopped fit; resume it with those, or fit these in another"
                    " folder."
                )
        if plan is None:
            plan = plan_of_first(lambda: make_plan(config, total, records.domain))
        if plan.rows_per_person != rows_per_person:
            raise UsageError(
                f"the plan is for {plan.rows_per_person} rows per person and the data has {rows_per_person}; plan"
                " again."
            )
        plan.check_fits(total, records.domain)
        with all_or_none():  # machines may have more or less of it
            check_memory(plan, records.domain)
        return plan

    def _check_arguments(self) -> None:
        """Refuse what is wrong whatever the data, before any is opened."""
        self._config()
        check_model(self.model)
        as_domain(self.domain)
        self._memory()

    def _memory(self) -> int | None:
        return None if self.memory is None else bytes_of(self.memory)

    def _config(self) -> Config:
        return Config(self.epsilon, self.delta, self.clusters, self.model, self.preset, self.mean_length)

    def _check_same_request(self, plan: Plan) -> None:
        """Refuse to resume with other options than the fit was started with: its plan cannot change."""
        family = plan.settings.to_json()["family"]
        compared = {
            "epsilon": (self.epsilon, plan.target_epsilon),
            "delta": (self.delta, plan.delta),
            "model": (None if self.model == "auto" else self.model, plan.settings.model),
            "preset": (self.preset, plan.settings.preset),
            "clusters": (self.clusters, family.get("clusters")),
            "mean_length": (self.mean_length, family.get("mean_length")),
        }
        for name, (requested, planned) in compared.items():
            if requested is not None and requested != planned:
                raise UsageError(
                    f"the fit in this checkpoint was started with {name} {planned}; resume it with the same options."
                )

    # -- a fitted synthesizer ----------------------------------------------------------------------------------

    @property
    def release_(self) -> Release:
        """The fitted release, in memory."""
        if not hasattr(self, "certificate_"):
            raise NotFittedError("this Synthesizer is not fitted yet; call fit(records) first.")
        return Release(self.domain_, self.generator_, self.certificate_, self.measurements_, self.dtypes_)

    def sample(self, count: int, *, seed: int | None = None, where: Where | None = None) -> Records:
        """`count` synthetic records that meet the condition `where`; costs no budget (see `Release.sample`)."""
        return self.release_.sample(count, seed=seed, where=where)

    def save(self, path: str | Path, *, force: bool = False, sign: str | Path | None = None) -> None:
        """Write the release folder; `sign` names a private key file (`dpgm keys create`) to sign it with."""
        self.release_.save(path, force=force, key=None if sign is None else read_private_key(sign))

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Constructor arguments by name."""
        return {
            name: getattr(self, name)
            for name in inspect.signature(type(self).__init__).parameters
            if name != "self"
        }

    def set_params(self, **params: Any) -> "Synthesizer":
        """Change constructor arguments; returns self."""
        known = self.get_params()
        for name, value in params.items():
            if name not in known:
                raise UsageError(f"Synthesizer has no parameter {name!r}; it has {', '.join(known)}.")
            setattr(self, name, value)
        self._check_arguments()
        return self

    def __repr__(self) -> str:
        state = "fitted" if hasattr(self, "certificate_") else "not fitted"
        return f"Synthesizer(epsilon={self.epsilon}, model={self.model!r}, {state})"

    def _repr_html_(self) -> str:
        if hasattr(self, "certificate_"):
            return self.release_._repr_html_()
        facts = [("epsilon", self.epsilon), ("delta", self.delta), ("model", self.model)]
        return html_table("Synthesizer, not fitted", facts)


def _check_options(person: str | None, checkpoint: str | Path | None, resume: bool) -> None:
    if resume and checkpoint is None:
        raise UsageError("`resume` needs the checkpoint folder of the earlier fit.")
    if person is not None and parallel.is_parallel():
        raise UsageError(
            "the rows of a person may be split between processes, each of which would use some; fit with one process."
        )


def _source_of(read: FrameRecords, source: Source | None, *, resume: bool) -> Source:
    """How the records were read; raises UsageError if records read in this way cannot be fitted here."""
    if read.source is not None and source is not None:
        raise UsageError("`source` describes records that were read earlier; for a frame leave it out.")
    source = source or read.source or MADE_IN_MEMORY
    if source.rows_per_person > 1 and parallel.is_parallel():
        raise UsageError("the rows of a person are chosen at random within one process; fit with one process.")
    if source.rows_per_person > 1 and resume:
        raise UsageError(
            "a fit with several rows per person chooses them at random each time and cannot be resumed; fit again in"
            " another folder, which costs the budget again."
        )
    return source


def choose_device(device: str) -> str:
    """The device of a fit, `cpu` or `cuda`; raises UsageError if this machine does not have it."""
    import torch

    if device == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    if device == "cuda" and not torch.cuda.is_available():
        raise UsageError("`device` is cuda and this machine has none; use auto or cpu.")
    if device not in ("cpu", "cuda"):
        raise UsageError(f"`device` must be auto, cpu or cuda; got {device!r}.")
    return device
