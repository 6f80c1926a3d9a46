"""Whole fits of every family, through `Synthesizer.fit` and the command line, and gateways that watch them.

Every test that must hold "for every family and every mechanism" runs over `FITS`: a family, a kind of data or a
statistic that is added belongs there (`test_whole_fits.py` says what is missing).
"""

import io
import json
import math
import re
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, redirect_stderr, redirect_stdout, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pandas as pd
import pytest
import torch

import dpgm
from dpgm.baselines.rules import BaselineSettings, MwemSettings
from dpgm.cli.app import load_commands
from dpgm.cli.app import run as run_command
from dpgm.data.domain import Categorical, DateTime, Domain, ItemSet, Numeric
from dpgm.data.domain_file import domain_to_plain
from dpgm.data.events import Events
from dpgm.data.open_columns import NumberColumn
from dpgm.data.read.frames import read_frame
from dpgm.data.records import Records, concatenate
from dpgm.images.rules import IMAGE_RULES as IMAGE_RULES
from dpgm.images.rules import ImageSettings
from dpgm.mechanisms.gateway import Gateway
from dpgm.mechanisms.query import Query
from dpgm.mechanisms.randomness import Randomness, SeededRandomness
from dpgm.mechanisms.threshold import ThresholdQuery
from dpgm.networks.rules import NetworkSettings
from dpgm.privacy.accountant import cost
from dpgm.privacy.calibration import calibrate
from dpgm.products.rules import ProductSettings
from dpgm.sequences.rules import SequenceSettings
from dpgm.strategy.protocol import PublicFacts
from dpgm.strategy.settings import Config, FamilySettings
from dpgm.synthesis import books, checkpoint
from dpgm.synthesis.plan import Plan, make_plan
from dpgm.synthesis.strategies import strategy_of
from dpgm.testing.noise_law import integer_scores
from dpgm.trees.rules import TreeSettings
from synthesis_data import (
    CLICKS,
    COLUMNS,
    FEW_CHAINS,
    FEW_PLACES,
    FEW_SAMPLES,
    IMAGES,
    SETS,
    SHORT,
    SHORT_TREES,
    TABLE,
    TRAVELLERS,
    VISITORS,
    some_records,
)

STATED = replace(COLUMNS, pairs=(("region", "age"),), weights=(("age", 3.0),))
EMBEDDING = replace(IMAGE_RULES.embedding, features=60)
PICTURES = ImageSettings(
    rules=replace(
        IMAGE_RULES,
        embedding=EMBEDDING,
        fit=replace(IMAGE_RULES.fit, steps=4, least_images=3, most_images=3, moment_batches=2),
    )
)
# A few items are solved to a coarse end as well.
QUICK = replace(SHORT, enumerated=replace(SHORT.enumerated, flat=0.1))
NETWORK = {"products": SHORT, "rules": FEW_SAMPLES, "steps": 6, "cluster_steps": 2, "features": 8}
NETWORK |= {"hidden": (5,), "latent": 2, "clusters": 2, "sampling_rate": 0.3}

OPEN_SETS = Domain((ItemSet("items", discover=True),))
OPEN_TABLE = Domain(
    (
        Categorical("ward", discover=True),
        Categorical("sex", ("f", "m")),
        Numeric("age", 0, 110, integer=True),
        Numeric("cost", "discover", "discover", decimals="discover"),
        DateTime("seen", "discover", "discover", unit="discover"),
    )
)
OPEN_MIXED = Domain((*OPEN_TABLE.fields[:3], ItemSet("drugs", discover=True)))
NARROW = Domain(tuple(Categorical(name, ("a", "b", "c")) for name in ("one", "two", "three", "four")))
DENSE = Domain.of_items(24, name="items")


def frame_of(domain: Domain, count: int, seed: int) -> pd.DataFrame:
    """A frame for an open domain: popular values, one that a single row has, missing cells."""
    rng = np.random.default_rng(seed)
    columns: dict[str, Any] = {
        "who": [f"p{number}" for number in rng.permutation(np.arange(count) // 2)],
        "ward": rng.choice(["north", "south", "east"], count).astype(object),
        "sex": rng.choice(["f", "m"], count),
        "age": pd.array(rng.integers(0, 100, count), dtype="Int64"),
        "cost": rng.gamma(2.0, 100.0, count).round(2),
        "seen": pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 500_000, count), unit="min"),
        "drugs": [";".join(f"d{at}" for at in {*rng.geometric(0.4, 3).tolist()}) for _ in range(count)],
        "items": [",".join(f"i{at}" for at in {*rng.geometric(0.3, 4).tolist()}) for _ in range(count)],
    }
    columns["ward"][seed % count] = f"only {seed}"
    columns["age"][[0, seed]] = pd.NA  # too few to be modelled
    columns["ward"][3] = None
    return pd.DataFrame({name: columns[name] for name in ("who", *(one.name for one in domain.fields))})


@dataclass(frozen=True)
class WholeFit:
    """One configuration: data by seed, and the plan, of a few steps, that it is fitted by."""

    model: str
    domain: Domain
    epsilon: float
    settings: dict[str, Any] = field(default_factory=dict)
    rows_per_person: int = 1
    records: int = 60
    data: Callable[[int, int], Records] | None = None  # of count and seed; by default random records of the domain

    def frame(self, seed: int) -> pd.DataFrame:
        """The data as a frame, with two rows per person."""
        if self.domain.is_open:
            return frame_of(self.domain, self.records, seed)
        frame = self.rows(seed).to_pandas(rng=np.random.default_rng(seed))
        return frame.assign(who=[f"p{number // 2}" for number in range(self.records)])

    def rows(self, seed: int) -> Records:
        """The data as records; the number of rows is the same for every seed."""
        if self.data is not None:
            return self.data(self.records, seed)
        if not self.domain.is_open:
            return some_records(self.domain, self.records, seed)
        return self.of_frame(self.frame(seed).drop(columns="who"))

    def of_frame(self, frame: pd.DataFrame) -> Records:
        """The records of a frame, which has one row each."""
        for name in {"drugs", "items"} & set(frame):
            frame = frame.assign(**{name: [[one for one in re.split("[;,]", cell) if one] for cell in frame[name]]})
        return read_frame(frame, self.domain).records

    def plan(self) -> Plan:
        """A calibrated plan with a few steps."""
        delta = 0.1 / self.records
        config = Config(self.epsilon, delta, model=self.model, rows_per_person=self.rows_per_person)
        quick = {"products": ProductSettings(QUICK), "trees": TreeSettings(SHORT_TREES)}
        if self.model in quick:
            plan = make_plan(config, self.records, self.domain)
            return replace(plan, settings=replace(plan.settings, family=quick[self.model]))
        baseline = "sequences" if self.model == "sequences" else "independent"
        plan = make_plan(replace(config, model=baseline), self.records, self.domain)
        facts = PublicFacts(self.domain, self.records, self.epsilon, delta)
        budget = strategy_of(self.model).budget(facts, self._family())
        mechanisms = calibrate(self.epsilon, delta, budget.spends, budget.training)
        spent = cost(mechanisms, delta).epsilon
        settings = replace(plan.settings, model=self.model, family=self._family())
        return replace(plan, epsilon=spent, settings=settings, mechanisms=mechanisms)

    def _family(self) -> FamilySettings:
        if self.model in ("vae", "rbm"):
            return NetworkSettings(**(NETWORK | self.settings))
        few = {
            "image": PICTURES,
            "mwem": MwemSettings(iterations=3),
            "sequences": SequenceSettings(self.settings.get("rules", FEW_CHAINS)),
        }
        return few.get(self.model, BaselineSettings())

    def write_input(self, folder: Path, seed: int) -> list[str]:
        """Write the files of a fit on the command line; returns its arguments."""
        (folder / "plan.json").write_text(json.dumps(self.plan().to_json()))
        (folder / "domain.json").write_text(json.dumps(domain_to_plain(self.domain)))
        arguments = ["--plan", "plan.json", "--domain", "domain.json"]
        if self.domain == OPEN_SETS:
            (folder / "data.txt").write_text("\n".join(self.frame(seed)["items"]) + "\n")
            return ["data.txt", *arguments, "--shape", "basket", "--format", "csv"]
        if self.domain.is_open or self.rows_per_person > 1:
            self.frame(seed).to_csv(folder / "data.csv", index=False)
            arguments += (
                ["--item-separator", ";"] if "drugs" in [field.name for field in self.domain.fields] else []
            )
            return ["data.csv", *arguments, "--person", "who", "--rows-per-person", str(self.rows_per_person)]
        if self.domain.sequence is not None:
            self.rows(seed).write(folder / "data.jsonl")
            times = ["--time", "time"] if self.domain.sequence.time else []
            return ["data.jsonl", *arguments, "--item", self.domain.sequence.name, *times]
        self.rows(seed).write(folder / "data.npz")
        return ["data.npz", *arguments]

    def run(self, randomness: Randomness, checkpoint: Path | None = None) -> dpgm.Synthesizer:
        """The fit, in this process, of the data of seed 1."""
        plan, records = self.plan(), self.rows(1)
        said = dpgm.data.layouts.Source(
            "person" if self.rows_per_person > 1 else "row", False, "wide", rows_per_person=self.rows_per_person
        )
        fitted = dpgm.Synthesizer(plan.target_epsilon, randomness=randomness)
        return fitted.fit(records, plan=plan, source=said, checkpoint=checkpoint)


def dense_records(count: int, seed: int) -> Records:
    """Baskets that hold most of a short list, so that pairs are centred."""
    rng = np.random.default_rng(seed)
    return Records.from_dense(rng.random((count, DENSE.width)) < 0.7, DENSE)


FITS: dict[str, WholeFit] = {
    "products, few items": WholeFit("products", Domain.of_items(6), 50.0, records=500),
    "products, sets": WholeFit("products", Domain.of_items(40), 1.0),
    "products, sets and triples": WholeFit("products", Domain.of_items(20), 90.0, records=1000),
    "products, dense sets": WholeFit("products", DENSE, 3.0, records=200, data=dense_records),
    "products, table": WholeFit("products", TABLE, 3.0),
    "products, narrow table": WholeFit("products", NARROW, 90.0, records=1000),
    "products, discovered sets": WholeFit("products", OPEN_SETS, 50.0, records=200),
    "products, discovered table, 2 rows per person": WholeFit(
        "products", OPEN_TABLE, 50.0, rows_per_person=2, records=200
    ),
    "products, discovered, 3 rows per person": WholeFit(
        "products", OPEN_MIXED, 60.0, rows_per_person=3, records=200
    ),
    "products, 2 rows per person": WholeFit("products", NARROW, 20.0, rows_per_person=2),
    "trees": WholeFit("trees", COLUMNS, 20.0, records=200),
    "trees, ranks alone": WholeFit("trees", COLUMNS, 0.5, records=30),
    "trees, ranks and stated pairs": WholeFit("trees", STATED, 0.5, records=30),
    "trees, a list beside columns": WholeFit("trees", TABLE, 20.0, records=200),
    "trees, discovered, 3 rows per person": WholeFit("trees", OPEN_MIXED, 60.0, rows_per_person=3, records=200),
    "trees, discovered table, 2 rows per person": WholeFit(
        "trees", OPEN_TABLE, 60.0, rows_per_person=2, records=200
    ),
    "vae, sets": WholeFit("vae", Domain.of_items(40), 20.0),
    "vae, table": WholeFit("vae", TABLE, 20.0),
    "vae, images": WholeFit("vae", IMAGES, 20.0, {"clusters": 3, "images": PICTURES}),
    "rbm": WholeFit("rbm", SETS, 20.0),
    "images": WholeFit("image", IMAGES, 5.0),
    "sequences": WholeFit("sequences", CLICKS, 20.0),
    "sequences, persons": WholeFit("sequences", TRAVELLERS, 20.0),
    "sequences, places": WholeFit("sequences", VISITORS, 20.0, {"rules": FEW_PLACES}),
    "independent": WholeFit("independent", TABLE, 5.0),
    "mwem": WholeFit("mwem", SETS, 5.0),
}


Scores: TypeAlias = dict[str, list[np.ndarray]]


class Done(Exception):
    """The last release was made; what follows is post-processing."""


@contextmanager
def gateways(base: type[Gateway], watching: type) -> Iterator[None]:
    """Every gateway that a fit opens is also a `watching` one; `base` is the one that it opens otherwise."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(books, base.__name__, type("Watched", (watching, base), {}))
        yield


class Watching:
    """Mixed into a gateway: the plan, whole calls as families make them, and the last exact value."""

    _allowance: dict[str, dpgm.Mechanism]
    _rows_per_person: int
    left: int

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.left = sum(entry.count for entry in self._allowance.values())

    def _exact(self, query: Query, rows: Any) -> torch.Tensor:
        found = super()._exact(query, rows)
        self.exact = found.clone() if query.grid is None else found.double() * query.grid
        return found

    def made(self) -> None:
        """One more release of the plan was made."""
        self.left -= 1
        if self.left == 0:
            raise Done


def watch(
    watching: type, whole: WholeFit, *, randomness: Randomness | None = None, checkpoint: Path | None = None
) -> None:
    """Run a whole fit, up to its last release, behind a watching gateway."""
    base = Gateway if checkpoint is None else books.CheckpointedGateway
    with gateways(base, watching), suppress(Done):
        whole.run(SeededRandomness(0) if randomness is None else randomness, checkpoint)
        raise AssertionError("the fit ended before all releases of the plan were made")


def noise_scores(
    whole: WholeFit, *, least: int, randomness: Randomness | None = None, checkpoint: Path | None = None
) -> Scores:
    """(noisy - exact) / (noise of the plan x sensitivity) of every mechanism of a fit, by name: standard normals.

    A fit makes few releases of some mechanisms. Each is made again and again, with its charges taken back, until every
    name has `least` numbers; exact values are those of the same call. The multiplier is the one of the plan, not the
    one that reaches the noise.
    """
    scores: Scores = defaultdict(list)
    points = np.random.default_rng(0)

    class Repeating(Watching):
        def release(self, name: str, query: Query, noise: float) -> torch.Tensor:
            std = self._std(name, query)
            spent, used = self._spent.copy(), set(self._used_on_sample)
            for _ in range(self._repeats(name, math.prod(query.shape))):
                self._spent, self._used_on_sample = spent.copy(), set(used)
                noisy = super().release(name, query, noise).clone()
                scores[name].append(_standardised(noisy, self.exact, query.grid, std, points))
            self.made()
            return noisy

        def discover(self, name: str, query: ThresholdQuery, noise: float) -> Any:
            std, spent = self._std(name, query), self._spent.copy()
            everything = replace(query, threshold=-1e9)
            repeats = least
            while repeats > 0:
                self._spent = spent.copy()
                found = super().discover(name, everything, noise)
                sums = dict(zip(found.values, found.sums, strict=True))
                exact = {
                    value: total for value, total in zip(self._labels, self.exact.tolist(), strict=True) if total
                }
                assert set(sums) == set(exact), "noise was drawn for values that nobody adds to"
                noisy, held = (torch.tensor([one[value] for value in exact]) for one in (sums, exact))
                scores[name].append(_standardised(noisy, held, query.grid, std, points))
                repeats -= len(exact)
            self._spent = spent.copy()
            found = super().discover(name, query, noise)
            self.made()
            return found

        def _std(self, name: str, query: Query) -> float:
            return self._allowance[name].noise * self._rows_per_person * query.sensitivity

        def _repeats(self, name: str, size: int) -> int:
            return max(20, math.ceil(least / size / self._allowance[name].count))

    watch(Repeating, whole, randomness=randomness, checkpoint=checkpoint)
    return scores


def _standardised(
    noisy: torch.Tensor, exact: torch.Tensor, grid: float | None, std: float, points: np.random.Generator
) -> np.ndarray:
    residual = (noisy.double() - exact.double()).numpy()
    if grid is None:
        return residual / std
    return integer_scores(np.rint(residual / grid), std / grid, points)


@dataclass
class Trace:
    """The releases of one fit, in order, and what the gateway held when the last one was made."""

    calls: list[tuple[str, Query]] = field(default_factory=list)
    exact: list[dict[Any, float]] = field(
        default_factory=list
    )  # by value where values are discovered, else by place
    tape: list[torch.Tensor] = field(default_factory=list)
    records: list[Records] = field(default_factory=list)  # as read, and after every recoding
    kept: dict[str, Any] = field(default_factory=dict)


def traced(whole: WholeFit, rows: Records | slice = slice(None), tape: list[torch.Tensor] | None = None) -> Trace:
    """A fit up to its last release, with fresh noise; or of some or other rows, up to training, with that of a tape."""
    trace = Trace()

    class Tracing(Watching):
        def __init__(self, records: Records, **options: Any) -> None:
            taken = rows if isinstance(rows, Records) else records.rows(*rows.indices(len(records))[:2])
            super().__init__(taken, **options)
            if isinstance(rows, Records):  # training comes last, and is not of interest then
                self.left = sum(entry.count for entry in self._allowance.values() if entry.sample is None)
            trace.records.append(self._records)
            trace.kept = self._kept

        def release(self, name: str, query: Query, noise: float) -> torch.Tensor:
            trace.calls.append((name, query))
            noisy = super().release(name, query, noise)
            trace.exact.append(dict(enumerate(self.exact.double().flatten().tolist())))
            self.made()
            return noisy

        def discover(self, name: str, query: ThresholdQuery, noise: float) -> Any:
            trace.calls.append((name, query))
            found = super().discover(name, query, noise)
            trace.exact.append(dict(zip(self._labels, self.exact.tolist(), strict=True)))
            self.made()
            return found

        def _noisy(self, call: Any, query: Query, exact: torch.Tensor) -> torch.Tensor:
            noisy = super()._noisy(call, query, exact) if tape is None else tape[len(trace.tape)].clone()
            trace.tape.append(noisy.clone())
            return noisy

        def recode(self, derive: Callable[[Records], Records]) -> None:
            super().recode(derive)
            trace.records.append(self._records)

    watch(Tracing, whole)
    return trace


def assert_record_by_record(whole: WholeFit, live: Trace) -> None:
    """Recodings, private columns and sums over all records are made record by record.

    The rows are cut into a single one and two more parts, each of which is fitted with the noisy values of all: what is
    derived of a part is that part of what is derived of all, and every sum over all is the sum over the parts. So
    nothing that a record adds depends on the others.
    """
    cuts = [slice(0, 1), slice(1, whole.records // 3), slice(whole.records // 3, whole.records)]
    parts = [traced(whole, cut, live.tape) for cut in cuts]
    for at, (name, query) in enumerate(live.calls):
        if whole.plan().mechanism(name).sample is None:
            total = dict(live.exact[at])
            for part in parts:
                for place, number in part.exact[at].items():
                    total[place] -= number
            assert query.grid is not None
            assert not any(total.values()), f"{name!r} is not a sum over records"
    for at, records in enumerate(live.records):
        joined = concatenate([part.records[at] for part in parts])
        assert _same(joined, records), "a recoding is not made record by record"
    for name, kept in live.kept.items():
        if kept is not None:
            cut_up = np.concatenate([part.kept[name] for part in parts])
            assert np.array_equal(cut_up, kept), f"the private column {name!r} is not made record by record"


def unlike_walks(domain: Domain) -> Records:
    """Nobody's events: none, one, the same again and again, all items in turn, the longest."""
    sequence = domain.sequence
    assert sequence is not None
    items, longest = sequence.width, sequence.max_length
    turns = [at % items for at in range(longest)]
    rows = [[], [0], [items - 1] * longest, turns, turns[: longest // 2], turns[:3] * 2]
    # All at the first moment, all at the last, and spread over the period.
    last = sequence.minutes - 1 if sequence.time else 0
    times = [
        [(0, last, at * last // longest)[number % 3] for at in range(len(row))] for number, row in enumerate(rows)
    ]
    events = Events.from_lists(rows, items, times if sequence.time else None)
    columns = [
        [column.start + (number % 2) * (column.stop - column.start - 1) for column in domain.table_columns]
        for number in range(len(rows))
    ]
    attributes = Records.from_lists(columns, domain) if domain.table_columns else None
    return Records.of_events(events, domain, attributes)


def unlike(whole: WholeFit) -> list[Records]:
    """Single records of many kinds: as others are, empty, full, half full, with extreme values."""
    if whole.domain.is_open:
        odd = whole.frame(1).drop(columns="who").iloc[:1]
        odd = pd.concat([odd] * 3, ignore_index=True)
        for name in odd:
            values = {"age": [0, 110, 55], "cost": [0.0, 1e12, 0.005], "ward": ["", "east", "x" * 900]}
            values["seen"] = pd.to_datetime(["1900-01-01", "2024-06-01 12:30:15", "2199-12-31"], format="ISO8601")
            values |= {
                "sex": ["f", "m", "f"],
                "drugs": ["", *(";".join(f"d{at}" for at in range(n)) for n in (65, 400))],
            }
            values |= {"items": ["", *(",".join(f"i{at}" for at in range(n)) for n in (64, 400))]}
            odd[name] = values[name]
        records = concatenate([whole.rows(7).rows(0, 4), whole.of_frame(odd)])
    else:
        domain, rows = whole.domain, []
        for share in (0.0, 0.25, 0.5, 0.75, 1.0):
            rows.append([])
            for block in domain.blocks:
                kept = max(1, round(share * block.width)) if block.softmax else round(share * block.width)
                rows[-1] += [block.start + kept - 1] if block.softmax else range(block.start, block.start + kept)
        odd = Records.from_lists(rows, domain) if domain.sequence is None else unlike_walks(domain)
        records = concatenate([whole.rows(7).rows(0, 4), odd])
    return [records.rows(at, at + 1) for at in range(len(records))]


def largest_additions(whole: WholeFit, live: Trace) -> dict[str, float]:
    """The largest norm that one record adds to each release on all records, relative to its sensitivity.

    A release is a sum over records (`assert_record_by_record`), so a record adds the sum over it alone.
    """
    largest: dict[str, float] = defaultdict(float)
    for record in unlike(whole):
        alone = traced(whole, record, live.tape)
        for (name, query), exact in zip(alone.calls, alone.exact, strict=True):
            largest[name] = max(largest[name], math.hypot(*exact.values()) / query.sensitivity)
    return dict(largest)


def _same(one: Records, other: Records) -> bool:
    if not one.domain.is_open:
        return one == other
    return all(_same_column(*columns) for columns in zip(one.columns, other.columns, strict=True))


def _same_column(one: Any, other: Any) -> bool:
    """Whether two raw columns hold the same values; their vocabularies may number them differently."""
    if isinstance(one, NumberColumn):
        return np.array_equal(one.ticks, other.ticks, equal_nan=True)
    values = [column.codes if column.vocabulary is None else _texts(column) for column in (one, other)]
    return np.array_equal(*values)


def _texts(column: Any) -> np.ndarray:
    return np.array([*column.vocabulary.labels, None], dtype=object)[column.codes]


class Taped:
    """Mixed into a gateway: notes the noisy values, or answers with those of a tape; exact values are those of the rows."""

    tape: list[torch.Tensor]
    played: Iterator[torch.Tensor] | None

    def _noisy(self, call: Any, query: Query, exact: torch.Tensor) -> torch.Tensor:
        if self.played is not None:
            return next(self.played).clone()
        noisy = super()._noisy(call, query, exact)
        self.tape.append(noisy.clone())
        return noisy


def command_line(
    whole: WholeFit, folder: Path, seed: int, tape: list[torch.Tensor], *, play: bool
) -> dict[str, bytes]:
    """Every byte that `dpgm fit` leaves behind or prints: the release, the checkpoint, stdout and stderr with warnings.

    The tape is recorded, or played to a fit of other data. What differs from fit to fit whatever the data, by name:

    - the seed of public draws in the checkpoint, from the operating system: fixed here;
    - the keyed fingerprint of the rows in the checkpoint: tests/synthesis/test_checkpoint.py says what it may tell;
    - the speed of the machine, from which the announced time follows: fixed here.
    """
    folder.mkdir()
    arguments = whole.write_input(folder, seed)
    taped = type("Taped", (Taped,), {"tape": tape, "played": iter(tape) if play else None})
    printed = {"stdout": io.StringIO(), "stderr": io.StringIO()}
    with ExitStack() as stack:
        patch = stack.enter_context(pytest.MonkeyPatch.context())
        patch.chdir(folder)
        patch.setattr(checkpoint.secrets, "randbits", lambda bits: 7)
        for room in (checkpoint, books):
            patch.setattr(room, "rows_fingerprint", lambda records: "left out")
        stack.enter_context(gateways(books.CheckpointedGateway, taped))
        stack.enter_context(warnings.catch_warnings())
        warnings.simplefilter("always")
        stack.enter_context(redirect_stdout(printed["stdout"]))
        stack.enter_context(redirect_stderr(printed["stderr"]))
        load_commands()
        code = run_command(["fit", *arguments, "--seed", "3", "--out", "release", "--checkpoint", "saved"])
    assert code == 0, printed["stderr"].getvalue()
    files = [path for kept in ("release", "saved") for path in (folder / kept).rglob("*") if path.is_file()]
    return {name: text.getvalue().encode() for name, text in printed.items()} | {
        str(path.relative_to(folder)): path.read_bytes() for path in files
    }
