"""The audit by one fit of a public file with many canaries, each of which is in the data or not by a fair coin.

Every canary holds items of its own, which are added to the domain, so it has parts of the released sums for itself: its
items' counts, and its items' rows in the gradients of networks. The canaries are ranked by score; those at the top are
guessed to be in the data, those at the bottom not to be. Epsilon bounds how many guesses can be right (Steinke, Nasr
and Jagielski 2023, "Privacy Auditing with One (1) Training Run", theorem 1.1), for any mechanism. The bound is loose:
it finds 30 to 45 % of the true epsilon at best, less if the budget is shared among many statistics.
"""

import math
import time
import warnings
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import stats
from torch import Tensor

from dpgm import validation
from dpgm.audit.findings import Claim
from dpgm.audit.gates import bisect
from dpgm.audit.trials import ReplayGateway
from dpgm.data.domain import Domain, ItemSet
from dpgm.data.records import Records, concatenate
from dpgm.data.rows import index_dtype
from dpgm.errors import PrivacyWarning, UsageError
from dpgm.mechanisms.gateway import Call, Gateway, TraceGateway
from dpgm.mechanisms.randomness import SystemRandomness
from dpgm.networks.mixture import Mixture
from dpgm.networks.model import ParameterLayout
from dpgm.strategy.protocol import Generator, Progress, RunContext, silent
from dpgm.strategy.settings import Config
from dpgm.synthesis.plan import make_plan
from dpgm.synthesis.strategies import fit_generator

CANARIES = 300
LEAST_CANARIES = 8  # with fewer there are hardly any guesses; a single canary would be guessed both in and out
OWN_ITEMS = 4  # items of each canary
ONE_RUN_CONFIDENCE = 0.95
LARGEST_EPSILON, EPSILON_WIDTH = 40.0, 1e-4  # range and tolerance of the search for the bound
GUESSED = 0.25  # share of the canaries that are guessed to be in the data, and share guessed to be out of it


@dataclass(frozen=True)
class OneRunFinding(Claim):
    """The audit by one fit of a public file with many canaries."""

    canaries: int
    guesses: int
    right: int
    epsilon: float
    delta: float
    epsilon_lower: float
    model: str
    records: int
    seconds: float

    def to_json(self) -> dict[str, Any]:
        """Plain values by name."""
        return asdict(self) | {"share": self.share, "passed": self.passed, "verdict": self.verdict}


def audit_one_run(
    records: Records,
    *,
    epsilon: float = 8.0,
    model: str = "auto",
    canaries: int = CANARIES,
    progress: Progress = silent,
) -> OneRunFinding:
    """Fit public records with canaries among them, once, and bound epsilon from below.

    Args:
        records: public item sets; they are fitted as for a release, with default settings.
        epsilon: the claim to audit; the bound comes closer to a large one.
        model: the model to fit, as for a release.
        canaries: number of canaries; about half of them are in the data.
        progress: as for a fit.
    """
    validation.whole(canaries=canaries, at_least=LEAST_CANARIES)
    start = time.perf_counter()
    randomness = SystemRandomness()
    is_member = randomness.words(canaries) % np.uint64(2) == 1
    candidates = _make_canaries(records.domain, canaries)
    domain = candidates.domain
    others = Records(domain, records.indptr, records.indices.astype(index_dtype(domain.width)))
    data = concatenate([others, candidates.take(np.flatnonzero(is_member))])
    with warnings.catch_warnings():  # about a large epsilon, which does no harm: the data is public
        warnings.simplefilter("ignore", PrivacyWarning)
        plan = make_plan(Config(epsilon, model=model), len(data), domain)
    seed = int(randomness.draws().initial_seed())

    def fit(gateway: Gateway, progress: Progress) -> Generator:
        draws = torch.Generator().manual_seed(seed)
        return fit_generator(gateway, plan, domain, draws=draws, context=RunContext(progress=progress))

    gateway = TraceGateway(data, randomness=randomness, allowance=plan.mechanisms)
    generator = fit(gateway, progress)
    replay = ReplayGateway(candidates, randomness=randomness, tape=gateway.tape, allowance=plan.mechanisms)
    replay.run(lambda: fit(replay, silent))
    layout = generator.model.layout if isinstance(generator, Mixture) else None
    scores = _scores(gateway.calls, gateway.tape, replay.exact, canaries, domain.width, layout)
    guesses, right = _guess(scores, is_member)
    return OneRunFinding(
        canaries=canaries,
        guesses=guesses,
        right=right,
        epsilon=plan.epsilon,
        delta=plan.delta,
        epsilon_lower=one_run_bound(canaries, guesses, right, plan.delta),
        model=plan.settings.model,
        records=len(records),
        seconds=time.perf_counter() - start,
    )


def one_run_bound(canaries: int, guesses: int, right: int, delta: float) -> float:
    """The largest epsilon that this number of right guesses contradicts with 95 % confidence; 0 if none.

    >>> round(one_run_bound(1000, 500, 450, 1e-6), 2)
    1.95
    """

    def possible(epsilon: float) -> bool:
        return one_run_p_value(canaries, guesses, right, epsilon, delta) > 1 - ONE_RUN_CONFIDENCE

    return 0.0 if possible(0.0) else bisect(possible, 0.0, LARGEST_EPSILON, EPSILON_WIDTH)[0]


def one_run_p_value(canaries: int, guesses: int, right: int, epsilon: float, delta: float) -> float:
    """Upper bound on the probability of at least `right` right guesses under (epsilon, delta)-differential privacy."""
    chance = 1 / (1 + math.exp(-epsilon))
    tail = float(stats.binom.sf(right - 1, guesses, chance))
    sums = np.cumsum(stats.binom.pmf(right - np.arange(1, right + 1), guesses, chance))
    slope = float(np.max(sums / np.arange(1, right + 1))) if right else 0.0
    return min(1.0, tail + 2 * canaries * delta * slope)


def _make_canaries(domain: Domain, canaries: int) -> Records:
    """The canaries, over the domain with their own items added at the end."""
    field = domain.item_set
    if field is None or not field.lists_values or domain.is_open:
        raise UsageError("an audit by one run needs one set of items per record, in a domain that lists the items.")
    numbered = isinstance(field.items[0], int)
    next_number = max(field.items) + 1 if numbered else 0  # type: ignore[type-var, operator]
    added = [next_number + i if numbered else f"canary {i}" for i in range(canaries * OWN_ITEMS)]
    wider = Domain((ItemSet(field.name, (*field.items, *added)),))
    rows = np.arange(domain.width, wider.width).reshape(canaries, OWN_ITEMS)
    return Records.from_lists(rows.tolist(), wider)


def _scores(
    calls: Sequence[Call],
    noisy: Sequence[Tensor],
    exact: Sequence[Tensor],
    canaries: int,
    width: int,
    layout: ParameterLayout | None,
) -> NDArray[np.float64]:
    """For each canary, the correlation of its own part of the releases with what it would have added to them.

    Its own part are its items' columns in sums over items, and its items' rows in gradients of input layers.
    """
    total = torch.zeros(canaries, dtype=torch.float64)
    for call, *values in zip(calls, noisy, exact, strict=True):
        parts = [values] if values[0].ndim in (1, 2) and values[0].shape[-1] == width else []
        if call.name == "gradients" and layout is not None:
            read = [block for block in layout.blocks if block.inputs == width]
            parts = [[layout.matrix(v, block)[:, :width].transpose(1, 2) for v in values] for block in read]
        for pair in parts:
            released, added = (value[..., -canaries * OWN_ITEMS :].double() for value in pair)
            products = (released * added).reshape(-1, canaries, OWN_ITEMS).sum(-1).sum(0)
            total += products / (call.noise * call.sensitivity) ** 2
    return total.numpy()


def _guess(scores: NDArray[np.float64], is_member: NDArray[np.bool_]) -> tuple[int, int]:
    """Guess for the canaries with the highest and the lowest scores: number of guesses, and of right ones."""
    each = max(1, int(GUESSED * len(scores)))
    order = np.argsort(scores)
    right = int((~is_member[order[:each]]).sum() + is_member[order[-each:]].sum())
    return 2 * each, right
