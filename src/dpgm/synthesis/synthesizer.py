"""Algorithm 1: records and a budget in, a private generator out.

The box of the paper, with its errors corrected (docs/guarantee.md):

    plan      every noise multiplier, before any data is opened
    discover  values, bounds and bins that the domain leaves open, found privately
    profile   noisy record lengths and item counts
    cluster   private kernel k-means                                   } mixtures of networks
    profiles  noisy size and item counts of each cluster               }
    train     k networks at once by private SGD                        }
    measure   further statistics, once
    refine    move the generator until it shows what was measured
    release   weights, domain, certificate; nothing else leaves
"""

import inspect
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from dpgm import __version__
from dpgm.data.domain import Domain
from dpgm.data.domain_file import DomainLike, as_domain
from dpgm.data.formats import Source
from dpgm.data.read.frames import FrameRecords, read_frame
from dpgm.data.read.gathering import bytes_of
from dpgm.data.records import Records
from dpgm.errors import NotFittedError, UsageError
from dpgm.kernels import parallel
from dpgm.mechanisms.gateway import Gateway
from dpgm.mechanisms.randomness import Randomness, SystemRandomness
from dpgm.notebook import html_table
from dpgm.privacy.accountant import ACCOUNTANT, cost, replace_one_epsilon
from dpgm.privacy.certificate import Certificate, LedgerMark
from dpgm.privacy.ledger import Ledger
from dpgm.privacy.signatures import read_private_key
from dpgm.strategy.protocol import Generator, Progress, RunContext, reporting
from dpgm.strategy.settings import Config, Preset
from dpgm.synthesis.books import Books
from dpgm.synthesis.checkpoint import Checkpoint
from dpgm.synthesis.conditioning import Where
from dpgm.synthesis.domain_discovery import discover_domain, discovery_statements
from dpgm.synthesis.estimate import check_memory
from dpgm.synthesis.plan import Plan, make_plan
from dpgm.synthesis.readme import MADE_IN_MEMORY, SEEDED, statements_of
from dpgm.synthesis.release import Release
from dpgm.synthesis.strategies import check_model, fit_generator


class Synthesizer:
    """Fits a differentially private generator; scikit-learn manners.

    Args:
        epsilon: the privacy budget.
        delta: the other half of the budget; by default 1 / (10 x number of records).
        clusters: components of a mixture of networks; by default chosen from the number of records.
        model: `auto` (the documented rule), `products`, `image`, `vae`, `rbm`, `independent` or `mwem`.
        preset: `default`, or `paper` for the paper's own choices under corrected mechanisms.
        domain: the public domain of frames and arrays: a `Domain`, a mapping or the path of a domain file; Records
            carry their own.
        device: `auto`, `cpu` or `cuda`; never alters the guarantee.
        randomness: source of noise; the operating system unless a test says otherwise.
        mean_length: public mean number of items per record, from which networks start where no profile is measured.
        memory: a limit on the memory of the process, such as `4GB`, by which caches are sized. Rows stay on the disk
            where they are read with `read_records(..., memory=...)`.

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
        rows_per_person: int | None = None,
        discover: bool = False,
        public: Records | None = None,
        plan: Plan | None = None,
        source: Source | None = None,
        ledger: Ledger | None = None,
        checkpoint: str | Path | None = None,
        resume: bool = False,
        progress: Progress | bool = False,
    ) -> "Synthesizer":
        """Plan, measure, train, refine; returns self with `generator_`, `certificate_`, `plan_` and `domain_`.

        Args:
            data: records; a frame of pandas, polars or pyarrow; or a matrix of 0 and 1 of numpy or scipy.
            person: the column of persons of a frame. With `item` their rows are grouped; without, they must differ.
            item: the column of items of a frame: one per row with `person`, a list of them in each row without.
            rows_per_person: rows that a person keeps at most, by a fresh secret choice, where `person` may repeat: the
                guarantee is for all of them together, and noise grows with their number.
            discover: take names and types of a frame's columns as public, and find all values privately. Where pandas
                took a type from the values (one gap makes whole numbers floats), state it: `astype`, or a domain.
            public: public records that a family may start from.
            plan: a plan made before.
            source: how the records were read, for the certificate.
            ledger: where the budget is booked.
            checkpoint: a folder from which an interrupted fit goes on.
            resume: whether to go on from it.
            progress: True for a line per stage on stderr, or a function of (stage, done, total).
        """
        if resume and checkpoint is None:
            raise UsageError("`resume` needs the checkpoint folder of the earlier fit.")
        if person is not None and parallel.is_parallel():
            raise UsageError(
                "rows of a person may lie with several processes, each of which would keep some; fit with one process."
            )
        read = read_frame(
            data, self.domain, person=person, item=item, rows_per_person=rows_per_person, discover=discover
        )
        records, source = read.records, _source_of(read, source, resume=resume)
        plan = self._plan_for(records, source, plan, checkpoint if resume else None)
        randomness = SystemRandomness() if self.randomness is None else self.randomness
        context = RunContext(choose_device(self.device), reporting(progress), public=public, memory=self._memory())

        with Books.open(plan, records, ledger=ledger, checkpoint=checkpoint, resume=resume) as books:
            gateway = books.gateway(randomness)
            found = discover_domain(books.discovery_gateway(gateway), plan, records.domain)
            generator = books.finished(found.domain)
            if generator is None:
                context = replace(context, checkpoint=books.checkpoint, pilot=found.sums)
                draws = books.draws(randomness)
                generator = fit_generator(gateway, plan, found.domain, draws=draws, context=context)
            mark = books.commit(gateway, generator)
        noise = books.noise_sources(randomness)
        certificate = _certify(plan, gateway, generator, source, records.domain, *noise, mark)
        domain = found.domain if source.layout is None else replace(found.domain, layout=source.layout)
        # All at once: an interrupted refit never leaves a new generator beside an old certificate.
        self.plan_, self.domain_, self.generator_, self.certificate_ = plan, domain, generator, certificate
        self.dtypes_ = read.dtypes
        return self

    def _plan_for(self, records: Records, source: Source, plan: Plan | None, resumed: str | Path | None) -> Plan:
        records.domain.refuse_draft()
        rows = source.rows_per_person
        _, total = parallel.place_of(len(records))  # of all processes that fit together
        if plan is None and resumed is not None:
            first = Checkpoint.saved_plan(Path(resumed)).to_json() if parallel.rank() == 0 else {}
            plan = Plan.from_json(json.loads(parallel.bytes_from_first(json.dumps(first).encode())))
            self._check_same(plan)
        if plan is None:
            plan = make_plan(replace(self._config(), rows_per_person=rows), total, records.domain)
        if plan.rows_per_person != rows:
            raise UsageError(
                f"the plan is for {plan.rows_per_person} rows per person and the data has {rows}; plan again."
            )
        plan.check_fits(total, records.domain)
        check_memory(plan, records.domain)
        return plan

    def _check_arguments(self) -> None:
        """What can be seen to be wrong without data is said before any is opened."""
        self._config()
        check_model(self.model)
        as_domain(self.domain)
        self._memory()

    def _memory(self) -> int | None:
        return None if self.memory is None else bytes_of(self.memory)

    def _config(self) -> Config:
        return Config(self.epsilon, self.delta, self.clusters, self.model, self.preset, self.mean_length)

    def _check_same(self, plan: Plan) -> None:
        """A resumed fit keeps its plan; asking for another one is a mistake worth telling."""
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

    # -- what a fitted synthesizer can do -------------------------------------------------------------------

    @property
    def release_(self) -> Release:
        """The fitted release, in memory."""
        if not hasattr(self, "certificate_"):
            raise NotFittedError("this Synthesizer is not fitted yet; call fit(records) first.")
        return Release(self.domain_, self.generator_, self.certificate_, self.dtypes_)

    def sample(self, count: int, *, seed: int | None = None, where: Where | None = None) -> Records:
        """`count` synthetic records, `where` they meet a condition; costs nothing (see `Release.sample`)."""
        return self.release_.sample(count, seed=seed, where=where)

    def save(self, path: str | Path, *, force: bool = False, sign: str | Path | None = None) -> None:
        """Write the release folder, signed with a private key file (`dpgm keys create`) if there is one."""
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


def _source_of(read: FrameRecords, source: Source | None, *, resume: bool) -> Source:
    """How the records were read, unless such records cannot be fitted here."""
    if read.source is not None and source is not None:
        raise UsageError("`source` is for records that were read before; of a frame leave it out.")
    source = source or read.source or MADE_IN_MEMORY
    if source.rows_per_person > 1 and parallel.is_parallel():
        raise UsageError(
            "several rows per person are chosen by a secret order of one process; fit with one process."
        )
    if source.rows_per_person > 1 and resume:
        raise UsageError(
            "a fit of several rows per person draws its rows anew and cannot be resumed; fit again in another"
            " folder, which costs the budget anew."
        )
    return source


def _certify(
    plan: Plan,
    gateway: Gateway,
    generator: Generator,
    source: Source,
    domain: Domain,
    sources: frozenset[str],
    private: bool,
    mark: LedgerMark | None,
) -> Certificate:
    """What ran, what it cost, and where the noise came from, over all processes of the fit."""
    spent = cost(gateway.spent, plan.delta)
    return Certificate(
        epsilon=spent.epsilon,
        delta=plan.delta,
        adjacency=plan.adjacency,
        epsilon_replace_one=replace_one_epsilon(gateway.spent, plan.delta),
        unit=source.unit,
        records=plan.records,
        planned=plan.mechanisms,
        mechanisms=gateway.spent,
        accountant=ACCOUNTANT,
        randomness="; ".join(sorted(sources)),
        private=private,
        software=f"dpgm {__version__}",
        model={"kind": generator.kind} | generator.architecture,
        files={},
        warnings=() if private else (SEEDED,),
        statements=statements_of(source, discovery_statements(domain, plan.delta), domain),
        plan=plan.public_numbers(domain),
        ledger=mark,
    )


def choose_device(device: str) -> str:
    """Where a fit computes: what was asked for, if this machine has it."""
    import torch

    if device == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    if device == "cuda" and not torch.cuda.is_available():
        raise UsageError("`device` cuda was asked for and this machine has none; use auto or cpu.")
    if device not in ("cpu", "cuda"):
        raise UsageError(f"`device` must be auto, cpu or cuda; got {device!r}.")
    return device
