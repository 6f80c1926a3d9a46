"""Fits of mixtures of networks and their scores, with torch and numpy alone: on a bare GPU machine, or here.

A job names data, a plan made in advance (plans need the accountant) and a seed. `run_job` fits it, draws synthetic
records on the same device and scores them: popular queries of 1 to 4 items, the paper's random queries, record
lengths; for images the accuracy on real digits of a network trained on synthetic ones. Noise is drawn from fixed seeds,
so nothing made here is private.
"""

import dataclasses
import multiprocessing
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from dpgm.data import simulate
from dpgm.data.domain import Categorical, Domain, Image
from dpgm.data.records import Records, concatenate
from dpgm.evaluation.counting_queries import SANITY, paper_workload, popular_queries
from dpgm.mechanisms.gateway import Gateway
from dpgm.mechanisms.randomness import SeededRandomness
from dpgm.networks.mixture import Mixture
from dpgm.networks.rules import NetworkSettings
from dpgm.privacy.events import Mechanism
from dpgm.strategy.protocol import Generator, RunContext
from dpgm.strategy.settings import Settings, from_plain
from dpgm.synthesis.plan import Plan
from dpgm.synthesis.strategies import fit_generator, strategy_of

POPULAR = ("pop1", "pop2", "pop3", "pop4")
PAPER = ("paper20", "paper40", "paper60", "paper80", "paper100")
SCORES = (*POPULAR, *PAPER, "lengths", "accuracy")
DIGITS = Domain((Image("image", 28, 28), Categorical("label", tuple(range(10)))), label="label")
QUERIES = 300  # popular queries of each length
CHUNK = 1 << 15  # synthetic records drawn and counted at a time
Row = dict[str, Any]


@dataclass(frozen=True)
class Job:
    """One fit: `settings` replace those of the plan (public numbers that do not change its cost)."""

    name: str
    data: str  # "transit 1200000", "cdr 4427486", "mnist", or the name of an .npz file of records
    plan: dict[str, Any]
    seed: int
    settings: dict[str, Any] = dataclasses.field(default_factory=dict)
    grid: bool = False  # keep 8 samples of every network


def plan_of(job: Job) -> Plan:
    """The job's plan, taken as it is: it was calibrated where the accountant is."""
    values = job.plan
    chosen = values["settings"]
    kind = strategy_of(chosen["model"]).settings_type
    family = from_plain(kind, {**chosen["family"], **job.settings}, "settings")
    settings = Settings(chosen["model"], chosen["preset"], family)
    mechanisms = tuple(Mechanism(**entry) for entry in values["mechanisms"])
    numbers = [values[name] for name in ("target_epsilon", "epsilon", "delta", "records", "width")]
    return Plan(*numbers, settings, mechanisms)


def load_data(name: str, folder: Path, processes: int = 1) -> tuple[Records, Records | None]:
    """The records of a job, and for images the test images."""
    kind, *size = name.split()
    if kind in ("transit", "cdr"):
        town = simulate.TRANSIT if kind == "transit" else simulate.CDR
        return _simulate(town, int(size[0]), processes), None
    if not (folder / f"{name}.npz").exists():
        return _shared(name, folder)
    with np.load(folder / f"{name}.npz") as stored:
        if name != "mnist":
            return Records(Domain.of_items(int(stored["width"])), stored["indptr"], stored["indices"]), None
        return tuple(_digits(stored[f"{part}_images"], stored[f"{part}_labels"]) for part in ("train", "test"))  # type: ignore[return-value]


def _shared(name: str, folder: Path) -> tuple[Records, Records | None]:
    """The same from the folder of shared data, which needs the whole package."""
    import fidelity_data
    import fidelity_images

    if name == "mnist":
        return fidelity_images.load("train", folder / "mnist"), fidelity_images.load("t10k", folder / "mnist")
    return fidelity_data.load(name, folder).records, None


def _digits(packed: np.ndarray, labels: np.ndarray) -> Records:
    on = np.unpackbits(packed, axis=1, count=784).astype(bool)
    return Records.from_dense(np.concatenate([on, np.eye(10, dtype=bool)[labels]], axis=1), DIGITS)


def _simulate(town: simulate.Town, records: int, processes: int) -> Records:
    """The same records as `simulate_transit` and `simulate_cdr`, block by block on several cores."""
    if processes == 1:
        return concatenate(list(simulate.simulated_blocks(town, records, 0)))
    blocks = -(-records // simulate.PEOPLE_AT_ONCE)
    with multiprocessing.get_context("fork").Pool(processes) as pool:
        parts = pool.starmap(_one_block, [(town, number) for number in range(blocks)], chunksize=1)
    return concatenate(parts).rows(0, records)


def _one_block(town: simulate.Town, number: int) -> Records:
    return simulate.simulated_block(town, number)


@dataclass(frozen=True)
class Workload:
    """Sets of positions as a 0/1 matrix (m, queries), with the true share of the records that hold each."""

    names: tuple[str, ...]
    groups: tuple[slice, ...]
    matrix: Tensor
    sizes: Tensor
    truth: np.ndarray
    lengths: np.ndarray

    @classmethod
    def of(cls, records: Records, device: str) -> "Workload":
        """Popular queries and the paper's, as in the fidelity table."""
        sets: list[Sequence[Sequence[int]]] = [popular_queries(records, n, QUERIES) for n in (1, 2, 3, 4)]
        sets += list(paper_workload(records, seed=0))
        asked = [query for group in sets for query in group]
        matrix = torch.zeros((records.width, len(asked)))
        for number, query in enumerate(asked):
            matrix[list(query), number] = 1
        dtype = torch.float16 if device == "cuda" else torch.float32  # whole numbers up to 2,048 are exact in both
        ends = np.cumsum([0, *map(len, sets)])
        made = cls(
            (*POPULAR, *PAPER),
            tuple(slice(int(a), int(b)) for a, b in pairwise(ends)),
            matrix.to(device, dtype),
            matrix.sum(0).to(device, dtype),
            np.empty(0),
            np.empty(0),
        )
        counts, lengths = made.count(_dense(records, device))
        return dataclasses.replace(made, truth=counts, lengths=lengths)

    def count(self, chunks: Iterator[Tensor]) -> tuple[np.ndarray, np.ndarray]:
        """Share of the records that hold all of each query, and the distribution of record lengths."""
        width = len(self.matrix)
        held = torch.zeros(self.matrix.shape[1], dtype=torch.float64, device=self.matrix.device)
        lengths = torch.zeros(width + 1, dtype=torch.float64, device=self.matrix.device)
        for chunk in chunks:
            rows = chunk.to(self.matrix)
            held += (rows @ self.matrix == self.sizes).sum(0)
            lengths += torch.bincount(rows.float().sum(1).round().long(), minlength=width + 1)
        total = float(lengths.sum())
        return (held / total).cpu().numpy(), (lengths / total).cpu().numpy()

    def scores(self, chunks: Iterator[Tensor]) -> dict[str, float]:
        """Mean relative error of each group of queries (0.1 % of N at least), total variation of lengths."""
        shares, lengths = self.count(chunks)
        errors = np.abs(shares - self.truth) / np.maximum(self.truth, SANITY)
        found = {name: float(errors[group].mean()) for name, group in zip(self.names, self.groups, strict=True)}
        return found | {"lengths": float(np.abs(lengths - self.lengths).sum() / 2)}


def _dense(records: Records, device: str) -> Iterator[Tensor]:
    for part in records.chunks(CHUNK):
        yield torch.from_numpy(part.to_dense(np.uint8)).to(device)


def draw(mixture: Generator, count: int, device: str, seed: int) -> Iterator[Tensor]:
    """`count` synthetic records, dense, network by network; the share of each is drawn from the weights."""
    generator = torch.Generator(device).manual_seed(seed)
    if not isinstance(mixture, Mixture) or mixture.products is not None:  # products, or networks at latent points
        yield from _dense(mixture.sample(count, generator=torch.Generator().manual_seed(seed)), device)
        return
    weights = mixture.weights.double().to(device)
    which = torch.multinomial(weights, count, replacement=True, generator=generator)
    for s, wanted in enumerate(torch.bincount(which, minlength=len(weights)).tolist()):
        parameters = mixture.parameters[s : s + 1].to(device)
        chains = None if mixture.chains is None else mixture.chains[s : s + 1].to(device)
        for start in range(0, wanted, CHUNK):
            size = min(CHUNK, wanted - start)
            logits = mixture.model.generate(parameters, chains, size, generator=generator)
            yield mixture.model.outputs.draw(logits, generator=generator)


def samples_of_each(mixture: Mixture, device: str, seed: int, count: int = 8) -> np.ndarray:
    """`count` samples of every network, (k, count, m): probabilities of the pixels in 0 .. 255."""
    generator = torch.Generator(device).manual_seed(seed)
    rows = []
    for s in range(len(mixture.weights)):
        parameters = mixture.parameters[s : s + 1].to(device)
        chains = None if mixture.chains is None else mixture.chains[s : s + 1].to(device)
        logits = mixture.model.generate(parameters, chains, count, generator=generator)
        rows.append(mixture.model.outputs.probabilities(logits).mul(255).round().byte().cpu().numpy())
    return np.stack(rows)


def run_job(
    job: Job, records: Records, test: Records | None, workload: Workload | None, device: str
) -> tuple[Row, np.ndarray | None]:
    """Fit, draw and score; the second value are the samples of a grid, where the job asks for them."""
    plan = plan_of(job)
    start = time.perf_counter()
    gateway = Gateway(records, randomness=SeededRandomness(job.seed), allowance=plan.mechanisms)
    draws = torch.Generator().manual_seed(job.seed)
    generator = fit_generator(gateway, plan, records.domain, draws=draws, context=RunContext(device))
    fitted = time.perf_counter()
    scores = {} if workload is None else workload.scores(draw(generator, len(records), device, job.seed + 1000))
    grid = samples_of_each(generator, device, job.seed) if job.grid and isinstance(generator, Mixture) else None
    if test is not None:
        from fidelity_images import accuracy, digits_of

        dense = torch.cat([chunk.byte().cpu() for chunk in draw(generator, len(records), device, job.seed + 1000)])
        synthetic = Records.from_dense(dense.numpy(), DIGITS)
        shuffled = synthetic.take(np.random.default_rng(0).permutation(len(synthetic)))
        scores["accuracy"] = accuracy(digits_of(shuffled), digits_of(test), device)
    settings = plan.settings.family
    hidden = " ".join(map(str, settings.hidden)) if isinstance(settings, NetworkSettings) else ""
    row: Row = {
        "name": job.name, "data": job.data, "records": len(records),
        "preset": plan.settings.preset, "model": plan.settings.model,
        "clusters": getattr(settings, "clusters", ""), "hidden": hidden, "epsilon": plan.target_epsilon,
        "delta": plan.delta, "seed": job.seed, "steps": getattr(settings, "steps", ""),
        "rate": getattr(settings, "learning_rate", ""), "schedule": getattr(settings, "schedule", ""),
        "optimizer": getattr(settings, "optimizer", ""), "averaged_tail": getattr(settings, "averaged_tail", ""),
        **{name: f"{scores[name]:.4f}" if name in scores else "" for name in SCORES},
        "device": device, "fit_s": f"{fitted - start:.1f}", "score_s": f"{time.perf_counter() - fitted:.1f}",
    }  # fmt: skip
    return row, grid
