"""Fits of rows that stay where they are: every place measures its part, and the curator adds up the sums.

All that a fit asks of rows are sums. So each place can compute its share of a sum, and the curator adds the shares,
adds noise once, and is charged once, as if the rows were in one file. What is asked next depends on what was released
before; therefore a fit goes in rounds, one for each release:

    request   <- plan, domain and the noisy values released so far: public, made by the curator (`PartRequest`)
    part      <- the exact sum over the rows of one place, sealed to the curator's key (`measure_part`)
    round     <- all parts added up, noise added, charged (`fit_parts`)

A place runs the fit itself on the released values until it reaches the first query that has no answer yet. The result
is the release of one pass over all rows, bit for bit, because exact sums are whole numbers.
"""

import base64
import hashlib
import json
import math
import platform
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dpgm import __version__
from dpgm.data.atomic import atomic_file
from dpgm.data.domain import Domain
from dpgm.data.domain_file import domain_from_plain, domain_to_plain
from dpgm.data.layouts import Layout, Source
from dpgm.data.open_records import OpenRecords
from dpgm.data.records import Records
from dpgm.errors import ArtefactError, DpgmError, UsageError
from dpgm.kernels.devices import full_precision
from dpgm.mechanisms.gateway import Call
from dpgm.mechanisms.parts import NextSum, PartGateway, refuse_samples
from dpgm.mechanisms.query import Query
from dpgm.mechanisms.randomness import Randomness, SystemRandomness
from dpgm.mechanisms.threshold import USUAL_ANSWER, ThresholdQuery, Value
from dpgm.privacy.ledger import Ledger
from dpgm.privacy.sealing import seal, unseal
from dpgm.privacy.strict_json import strict_json
from dpgm.strategy.protocol import Progress, RunContext, silent
from dpgm.synthesis.books import Books, CheckpointedGateway
from dpgm.synthesis.certified_fit import certify, discover_and_fit
from dpgm.synthesis.domain_discovery import discover_domain
from dpgm.synthesis.plan import Plan
from dpgm.synthesis.readme import SEVERAL_PLACES
from dpgm.synthesis.release import Release
from dpgm.synthesis.strategies import fit_generator

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey

FORMAT = 2  # 2: how many sums there are is sealed
_SMALLEST = 4096  # bytes of what is sealed, at least
MOST_PARTS = 10_000
LARGEST_FILE = 1 << 30  # bytes of a request or a part
_BEGINNING = b"dpgm sums of a part\n"  # a file without it is not one
Answer: TypeAlias = tuple[str, Tensor]  # the name of a mechanism, and what it released


# -- what the curator asks for -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class PartRequest:
    """What a place needs to compute the next sum: the plan, the stated domain, and what was released so far.

    All of it is public: a plan is made before data are opened, and the answers are noisy. `seed` starts the public
    draws of the fit, which are the same in every place.
    """

    plan: Plan
    domain: Domain
    seed: int
    answers: tuple[Answer, ...] = ()

    def __post_init__(self) -> None:
        refuse_samples(self.plan.mechanisms)
        self.plan.check_fits(self.plan.records, self.domain)
        self.plan.check_complete(self.domain)

    @classmethod
    def first(cls, plan: Plan, domain: Domain, seed: int | None = None) -> "PartRequest":
        """The request of the first round, which every place can make by itself from plan and domain."""
        plan = Plan.from_json(plan.to_json())  # as places read it
        known = json.dumps([plan.to_json(), domain_to_plain(domain)], sort_keys=True).encode()
        derived = int.from_bytes(hashlib.sha256(known).digest()[:8], "little") >> 1
        return cls(plan, domain, derived if seed is None else seed)

    @property
    def round(self) -> int:
        """The number of the round, from 1."""
        return len(self.answers) + 1

    @cached_property
    def digest(self) -> str:
        """The SHA-256 of the request, by which a part says what it answers."""
        return hashlib.sha256(self.to_json().encode()).hexdigest()

    def to_json(self) -> str:
        """The request as text; `from_json` reads it back exactly."""
        answers = [[name, *_plain_tensor(value)] for name, value in self.answers]
        document = {
            "format": FORMAT,
            "plan": self.plan.to_json(),
            "domain": domain_to_plain(self.domain),
            "seed": self.seed,
            "answers": answers,
        }
        return json.dumps(document, separators=(",", ":"), ensure_ascii=False) + "\n"

    @classmethod
    def from_json(cls, text: str) -> "PartRequest":
        """Read a request; raises ArtefactError unless it is one."""
        document = strict_json(text, "the request", LARGEST_FILE)
        try:
            if document["format"] != FORMAT or len(document) != 5:
                raise ValueError
            answers = tuple(
                (str(name), _tensor(kind, shape, data)) for name, kind, shape, data in document["answers"]
            )
            plan, domain = Plan.from_json(document["plan"]), domain_from_plain(document["domain"])
            request = cls(plan, domain, int(document["seed"]), answers)
        except DpgmError as error:
            raise ArtefactError(f"the request cannot be read: {error}") from error
        except (TypeError, KeyError, ValueError, AttributeError, RuntimeError):
            raise ArtefactError(
                "the request is not one of this version; make it again with `dpgm fit --sums`."
            ) from None
        if request.to_json() != text:
            raise ArtefactError("the request was changed; get it again.")
        return request


# -- in the place where rows are -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class MeasuredPart:
    """The exact sum of one part of the rows: a secret of that place and the curator.

    `heading` is public: the request it answers, which part it is, and how it was computed.
    """

    heading: dict[str, Any]
    records: int
    source: Source
    exact: Tensor
    labels: tuple[Value, ...] | None

    def sealed(self, key: "X25519PublicKey") -> bytes:
        """The bytes of its file, which only the holder of the key can read."""
        heading = json.dumps(self.heading, sort_keys=True).encode() + b"\n"
        shape = list(self.exact.shape)
        secret = json.dumps([self.records, asdict(self.source), self.labels, shape], ensure_ascii=False).encode()
        content = secret + b"\n" + self.exact.numpy().astype("<i8").tobytes()
        # How many values there are depends on the rows: the length of the file must not tell it.
        room = max(_SMALLEST if self.labels is None else USUAL_ANSWER, 1 << (len(content) - 1).bit_length())
        return _BEGINNING + heading + seal(content.ljust(room, b"\0"), heading, key)

    @classmethod
    def unsealed(cls, content: bytes, key: "X25519PrivateKey") -> "MeasuredPart":
        """Read a part; raises ArtefactError unless it is one that was sealed to this key."""
        heading_text, _, sealed = content.removeprefix(_BEGINNING).partition(b"\n")
        if not content.startswith(_BEGINNING):
            raise ArtefactError("it holds no sums of a part")
        secret, _, numbers = unseal(sealed, heading_text + b"\n", key).partition(b"\n")
        try:
            heading = json.loads(heading_text)
            records, source, labels, shape = json.loads(secret)
            flat = np.frombuffer(numbers, dtype="<i8", count=math.prod(map(int, shape)))
            exact = torch.from_numpy(flat.astype(np.int64).reshape(shape))
            named = None if labels is None else tuple((str(name), value) for name, value in labels)
            return cls(heading, int(records), _source(source), exact, named)
        except (TypeError, KeyError, ValueError, AttributeError):
            raise ArtefactError("it holds no sums of this version of dpgm") from None


def _source(plain: dict[str, Any]) -> Source:
    layout = None if plain["layout"] is None else Layout(**plain["layout"])
    return Source(**{**plain, "layout": layout, "like_persons": tuple(plain["like_persons"])})


def measure_part(
    records: Records,
    source: Source,
    request: PartRequest,
    part: int,
    of: int,
    *,
    randomness: Randomness | None = None,
) -> MeasuredPart:
    """The exact sum that a request asks for, over the rows of this place.

    Args:
        records: the rows of this place; nobody in them may be in another place.
        source: how they were read (`read_source`).
        request: what the curator asks for.
        part: the number of this place, from 1.
        of: the number of places.
        randomness: source of the secret order of long records; by default the operating system.

    Privacy: the result is exact and not private. Seal it to the curator before it leaves this place.
    """
    if not 1 <= part <= of <= MOST_PARTS:
        raise UsageError(f"the part must be k/n with 1 <= k <= n <= {MOST_PARTS}; got {part}/{of}.")
    plan = request.plan
    _check_place(records, source, request)
    draws = torch.Generator().manual_seed(request.seed)
    gateway = PartGateway(
        records,
        [value for _, value in request.answers],
        randomness=SystemRandomness() if randomness is None else randomness,
        allowance=plan.mechanisms,
        rows_per_person=plan.rows_per_person,
    )
    try:
        with full_precision("cpu"):
            found = discover_domain(gateway, plan, request.domain)
            context = RunContext(pilot=found.sums)
            fit_generator(gateway, plan, found.domain, draws=draws, context=context)
    except NextSum as asked:
        heading = _facts(asked.call, asked.query) | {"request": request.digest, "part": part, "of": of}
        labels = None if asked.labels is None else tuple(asked.labels)
        return MeasuredPart(heading, len(records), source, asked.exact, labels)
    raise UsageError("all sums of this fit have been released; there is nothing left to measure.")


def _check_place(records: Records, source: Source, request: PartRequest) -> None:
    """Refuse rows that were not read as the request says."""
    if domain_to_plain(records.domain) != domain_to_plain(request.domain):
        raise UsageError("these rows were read with another domain than the request's; give the same `domain`.")
    if source.rows_per_person != request.plan.rows_per_person:
        raise UsageError(
            f"the plan is for {request.plan.rows_per_person} rows per person and these were read with"
            f" {source.rows_per_person}; read them again."
        )


def _facts(call: Call, query: Query) -> dict[str, Any]:
    """How a sum was computed, which must agree between the places and the curator."""
    return {
        "format": FORMAT,
        "mechanism": call.name,
        "sensitivity": call.sensitivity,
        "noise": call.noise,
        "grid": query.grid,
        "versions": _versions(),
    }


def _versions() -> list[str]:
    return [__version__, str(torch.__version__), np.__version__, platform.python_version()]


# -- where the sums are added --------------------------------------------------------------------------------------


class Waiting(UsageError):
    """Parts of the current round are missing; `request` is what their places need."""

    def __init__(self, request: PartRequest, mechanism: str, have: Sequence[int], of: int | None) -> None:
        missing = "no part is there" if of is None else f"missing: {', '.join(map(str, _others(have, of)))} of {of}"
        super().__init__(f"round {request.round}, {mechanism}: {missing}.")
        self.request, self.mechanism, self.have, self.of = request, mechanism, tuple(have), of


def _others(have: Sequence[int], of: int) -> list[int]:
    return [part for part in range(1, of + 1) if part not in have]


Collect: TypeAlias = Callable[[PartRequest, str], Sequence[MeasuredPart]]


class SumsGateway(CheckpointedGateway):
    """Answers from the parts that `collect` returns for a request and the name of a mechanism."""

    def __init__(self, records: Records, *, request: PartRequest, collect: Collect, **options: Any) -> None:
        super().__init__(records, **options)
        self.request, self._collect = request, collect
        self._call: Call | None = None

    def _answer(self, call: Call, query: Query, rows: NDArray[np.int64] | None) -> Tensor:
        self._call = call
        answer = super()._answer(call, query, rows)
        self.request = replace(self.request, answers=(*self.request.answers, (call.name, answer)))
        return answer

    def _exact(self, query: Query, rows: NDArray[np.int64] | None) -> Tensor:
        assert self._call is not None
        parts = sorted(self._collect(self.request, self._call.name), key=lambda part: int(part.heading["part"]))
        _check_parts(parts, self.request, self._call, query)
        if parts[0].labels is None:
            return torch.stack([part.exact for part in parts]).sum(dim=0)
        self._labels, total = _joined(parts)
        return total


def _joined(parts: Sequence[MeasuredPart]) -> tuple[list[Value], Tensor]:
    """The values of all parts, each once, and their sums."""
    values = [part.labels or () for part in parts]
    place = {value: at for at, value in enumerate(dict.fromkeys(value for labels in values for value in labels))}
    total = torch.zeros(len(place), dtype=torch.int64)
    for labels, part in zip(values, parts, strict=True):
        total.index_add_(0, torch.tensor([place[value] for value in labels], dtype=torch.int64), part.exact)
    return list(place), total


def _alike(source: Source) -> Source:
    """How rows were read, without what may differ from place to place."""
    return replace(source, like_persons=(), vouched=False)


def _check_parts(parts: Sequence[MeasuredPart], request: PartRequest, call: Call, query: Query) -> None:
    """Refuse parts that are not all parts of one whole, computed alike; nothing was charged for them yet."""
    if not parts:
        raise Waiting(request, call.name, (), None)
    first = parts[0]
    numbers = [int(part.heading["part"]) for part in parts]
    of = int(first.heading["of"])
    for part in parts:
        number = part.heading["part"]
        if part.heading["request"] != request.digest:
            raise ArtefactError(f"part {number} answers another request; measure it again with this one.")
        if part.heading["of"] != of:
            raise ArtefactError(
                f"part {number} is one of {part.heading['of']} parts and part {numbers[0]} one of {of}."
            )
        for name, expected in _facts(call, query).items():
            if part.heading.get(name) != expected:
                raise ArtefactError(
                    f"part {number} differs from this fit in {name}: {part.heading.get(name)!r} where it is"
                    f" {expected!r}; measure it with the version that fits."
                )
        if _alike(part.source) != _alike(first.source):
            raise ArtefactError(f"parts {numbers[0]} and {number} were read with other options; measure one again.")
        labelled = isinstance(query, ThresholdQuery)
        sums = (len(part.labels or ()),) if labelled else tuple(query.shape)
        if (part.labels is not None) != labelled or tuple(part.exact.shape) != sums:
            raise ArtefactError(f"part {number} has another number of sums; measure it with the version that fits.")
    if len(set(numbers)) < len(numbers):
        double = next(number for number in numbers if numbers.count(number) > 1)
        raise ArtefactError(f"part {double} of {of} is there twice; remove one.")
    if len(numbers) < of:
        raise Waiting(request, call.name, numbers, of)
    if sum(part.records for part in parts) != request.plan.records:
        raise ArtefactError(
            f"the plan is for {request.plan.records:,} records and the parts have another number together; plan again"
            " for the number that they have, or find the part that is wrong."
        )


def fit_parts(
    plan: Plan,
    domain: Domain,
    collect: Collect,
    *,
    randomness: Randomness | None = None,
    ledger: Ledger | None = None,
    checkpoint: str | Path,
    resume: bool = False,
    progress: Progress = silent,
) -> Release:
    """Fit rows in several places, from the sums of their parts.

    Args:
        plan: the plan, for the number of records of all places together.
        domain: the stated domain.
        collect: returns all parts that answer a request; raises `Waiting` where some are missing.
        randomness: source of noise; by default the operating system.
        ledger: the ledger in which the budget is booked.
        checkpoint: the folder in which released values are saved while the fit waits for the next round.
        resume: go on with the fit in the checkpoint folder.
        progress: a function of (stage, done, total).
    """
    randomness = SystemRandomness() if randomness is None else randomness
    seed = None if randomness.private else randomness.draws().initial_seed()
    request = PartRequest.first(plan, domain, seed)
    nobody, how_read = _no_records(domain), Path(checkpoint) / "how-parts-were-read.json"

    def collected(request: PartRequest, mechanism: str) -> Sequence[MeasuredPart]:
        parts = collect(request, mechanism)
        before = json.loads(how_read.read_text("utf-8")) if how_read.exists() else None
        vouched = any(part.source.vouched for part in parts)
        if parts and (before is None or (vouched and not before[0].get("vouched"))):
            named = dict.fromkeys(name for part in parts for name in part.source.like_persons)
            source = replace(parts[0].source, like_persons=tuple(named), vouched=vouched)
            with atomic_file(how_read, private=True) as temporary:
                temporary.write_text(json.dumps([asdict(source), len(parts) > 1]), "utf-8")
        return parts

    with (
        full_precision("cpu"),
        Books.open(plan, nobody, ledger=ledger, checkpoint=checkpoint, resume=resume) as books,
    ):
        gateway = books.gateway(randomness, partial(SumsGateway, request=request, collect=collected))
        context = RunContext("cpu", progress)
        draws = torch.Generator().manual_seed(request.seed)
        fitted = discover_and_fit(gateway, books, plan, domain, context, draws)
        mark = books.commit(gateway, fitted.generator, fitted.measurements)
    plain, several = json.loads(how_read.read_text("utf-8"))
    source = _source(plain)
    certificate = certify(
        plan, books, gateway, fitted.generator, source, domain, mark, (SEVERAL_PLACES,) if several else ()
    )
    closed = fitted.domain if source.layout is None else replace(fitted.domain, layout=source.layout)
    return Release(closed, fitted.generator, certificate, fitted.measurements)


def _no_records(domain: Domain) -> Records:
    """No records of a domain, open or not."""
    import pyarrow as pa

    from dpgm.data.kinds.base import CellStyle

    if not domain.is_open:
        return Records.from_lists([], domain)
    others = {field.name: field for field in domain.fields}
    empty = pa.table({field.name: pa.array([], pa.string()) for field in domain.fields})
    columns = [field.reader(CellStyle(), others)(empty, lambda row: "") for field in domain.fields]
    return OpenRecords.of(domain, 0, columns)


def _plain_tensor(value: Tensor) -> tuple[str, list[int], str]:
    numbers = value.detach().cpu().contiguous().numpy()
    return str(numbers.dtype), list(numbers.shape), base64.b64encode(numbers.tobytes()).decode("ascii")


def _tensor(kind: Any, shape: Any, data: Any) -> Tensor:
    if kind not in ("float64", "float32", "int64", "uint8"):
        raise ValueError
    numbers = np.frombuffer(base64.b64decode(data, validate=True), dtype=kind).reshape(shape)
    return torch.from_numpy(numbers.copy())
