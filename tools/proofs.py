"""The privacy proof executed at length on whole fits of every family; writes the figures.

python tools/proofs.py [--pairs 2400] [--workers N] [--out FILE]

For every family: playback (the same values from a tape, on other data and on none; and on the command line the same
bytes in every file and on the terminal), coupled sensitivity (random data, one random, empty, full or repeated record
more, first, in the middle or last), coin off, the law of the noise of every mechanism. And the law of the Poisson sample. Exit 1 if anything fails, or if no pair came near the bound: then the check would prove little.
"""

import argparse
import contextlib
import json
import os
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

sys.path.extend(str(Path(__file__).parents[1] / "tests" / folder) for folder in ("support", "harness"))

import numpy as np
import torch

from dpgm.data.domain import Domain
from dpgm.data.records import Records
from dpgm.mechanisms.randomness import SystemRandomness
from dpgm.mechanisms.sampling import poisson_sample
from dpgm.strategy.protocol import RunContext
from dpgm.synthesis.strategies import fit_generator
from dpgm.testing import (
    POSITIONS,
    assert_coin_off,
    assert_playback_invariant,
    assert_sampler_law,
    sensitivity_ratios,
)
from dpgm.testing.noise_law import assert_all, normal_pvalues
from synthesis_data import IMAGES, SETS, TABLE, some_records, tiny_plan
from whole_fits import FITS, command_line, noise_scores

TOLERANCE, ROUNDING = 1e-6, 1e-6
WIDE = Domain.of_items(30)
CASES: dict[str, tuple[str, Domain, dict[str, Any]]] = {
    "products, few items": ("products", SETS, {}),
    "products, sets": ("products", WIDE, {}),
    "products, table": ("products", TABLE, {}),
    "vae, sets": ("vae", SETS, {"clusters": 3, "sampling_rate": 0.3}),
    "vae, table": ("vae", TABLE, {"clusters": 2, "sampling_rate": 0.3}),
    "vae, as in the paper": (
        "vae",
        SETS,
        {"clusters": 2, "sampling_rate": 0.3, "norm_quantile": None, "calibrate": False, "schedule": "constant"},
    ),
    "rbm, sets": ("rbm", SETS, {"clusters": 2, "sampling_rate": 0.3}),
    "independent, sets": ("independent", SETS, {}),
    "independent, table": ("independent", TABLE, {}),
    "mwem": ("mwem", SETS, {}),
    "image": ("image", IMAGES, {}),
}
SLOW = {
    "image"
}  # its fit to what was measured takes long: playback is `pytest -m slow tests/synthesis/test_pipeline.py`


class Done(Exception):
    """The last release was made; what follows is post-processing."""


def measured_only(run: Callable[[Any], Any], plan: Any) -> Callable[[Any], None]:
    """A fit up to its last release."""
    total = sum(mechanism.count for mechanism in plan.mechanisms)

    def stopped(gateway: Any) -> None:
        release, made = gateway.release, 0

        def counting(*args: Any, **named: Any) -> Any:
            nonlocal made
            made += 1
            noisy = release(*args, **named)
            if made == total:
                raise Done
            return noisy

        gateway.release = counting
        with contextlib.suppress(Done):
            run(gateway)
        assert made == total, f"{made} of {total} releases were made"

    return stopped


def run_of(name: str) -> tuple[Callable[[Any], Any], Any, Domain]:
    """A fit of one case as a function of a gateway."""
    model, domain, settings = CASES[name]
    plan = tiny_plan(model, domain, 40, **settings)

    def run(gateway: Any) -> Any:
        generator = fit_generator(
            gateway, plan, domain, draws=torch.Generator().manual_seed(5), context=RunContext()
        )
        return {"state": generator.state(), "architecture": str(generator.architecture)}

    return run, plan, domain


def some_record(domain: Domain, records: Records, rng: np.random.Generator, kind: int) -> Records:
    """One record: like the others, full, as empty as can be, or one of those that are there."""
    if kind == 0 and len(records):
        at = int(rng.integers(len(records)))
        return records.rows(at, at + 1)
    row: list[int] = []
    for block in domain.blocks:
        if block.softmax:
            row.append(block.start + int(rng.integers(block.width)))
        elif kind == 1:
            row += range(block.start, block.stop)
        elif kind == 3:
            row += (block.start + np.flatnonzero(rng.random(block.width) < rng.random())).tolist()
    return Records.from_lists([row], domain)


def prepare() -> None:
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")


def sensitivity(name: str, first: int, calls: int) -> dict[str, Any]:
    """Pairs of neighbours of one case."""
    run, plan, domain = run_of(name)
    run = measured_only(run, plan)
    largest: dict[str, float] = {}
    pairs = off = 0
    for number in range(first, first + calls):
        rng = np.random.default_rng([number, 77])
        records = some_records(domain, int(rng.integers(0, 45)), seed=number)
        extra = some_record(domain, records, rng, number % 4)
        found = sensitivity_ratios(run, records, extra, seed=number, rounding=ROUNDING, allowance=plan.mechanisms)
        pairs += len({0, len(records) // 2, len(records)})
        for release, ratio in found.items():
            largest[release] = max(largest.get(release, 0.0), ratio)
        if number % 4 == 0 and any(each.sample for each in plan.mechanisms):
            assert_coin_off(run, records, extra, seed=number, allowance=plan.mechanisms)
            off += len(POSITIONS)
    return {"pairs": pairs, "coin_off": off, "largest": largest}


def playback(name: str) -> dict[str, Any]:
    """Tapes of one case."""
    run, plan, domain = run_of(name)
    data = [some_records(domain, count, seed=count) for count in (40, 7, 90)]
    assert_playback_invariant(run, data, tapes=3, allowance=plan.mechanisms)
    return {"tapes": 3, "data_sets": len(data) + 2, "differing_values": 0}


def noise(name: str) -> dict[str, float]:
    """Standard deviation of the noise of every mechanism of a whole fit, against that of the plan."""
    scores = noise_scores(FITS[name], least=50_000, randomness=SystemRandomness())
    assert set(scores) == {mechanism.name for mechanism in FITS[name].plan().mechanisms}
    assert_all([found for each in scores for found in normal_pvalues(each, scores[each])])
    return {
        each: float(np.sqrt(np.mean(np.concatenate([one.ravel() for one in mine]) ** 2)))
        for each, mine in scores.items()
    }


def left_behind(name: str) -> dict[str, int]:
    """Bytes that `dpgm fit` leaves behind or prints, compared between data sets of one size with the same noise."""
    tape: list[torch.Tensor] = []
    with tempfile.TemporaryDirectory() as folder:
        first = command_line(FITS[name], Path(folder) / "1", 1, tape, play=False)
        others = [command_line(FITS[name], Path(folder) / f"{at}", at, tape, play=True) for at in range(2, 6)]
    differing = [file for other in others for file in {*first, *other} if first.get(file) != other.get(file)]
    assert not differing, f"other data, the same noise, and other bytes in {', '.join(sorted(set(differing)))}"
    return {"data_sets": 1 + len(others), "bytes": sum(map(len, first.values())), "differing_files": len(differing)}


def sampler() -> dict[str, float]:
    """Rate and variance of samples of fresh sources, against the declared ones."""
    sources = [SystemRandomness() for _ in range(4)]

    def draw(step: int) -> Any:
        return poisson_sample(2000, 0.03, step=step, randomness=sources[step % 4])

    rate, variance = assert_sampler_law(draw, 2000, 0.03, steps=400)
    return {"rate_ratio": rate, "variance_ratio": variance, "coins": 2000 * 400}


def promises(result: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """What `tools/security.py` says of P1 (only noisy values reach a release) and P2 (sensitivities are as declared)."""
    played, pairs, largest = result["playback"], result["pairs"], result["largest_ratio"]
    differing = sum(case["differing_values"] for case in played.values())
    tapes, sets = (sum(case[key] for case in played.values()) for key in ("tapes", "data_sets"))
    missing = [name for name in CASES if name not in SLOW and name not in played]
    left = result["left_behind"]
    missing += [name for name in FITS if name not in left]
    size = sum(fit["bytes"] for fit in left.values())
    return {
        "P1": {
            "figure": f"{len(played)} families and presets, {tapes} tapes on other data and on none: {differing} values"
            f" differ; {len(left)} fits on the command line, {size:,} bytes of releases, checkpoints and texts: 0 differ on"
            f" other data; {result['coin_off_pairs']:,} records outside of the sample moved nothing",
            "met": not missing and differing == 0 and sets > tapes and result["passed"],
        },
        "P2": {
            "figure": f"{pairs:,} pairs of neighbours: the largest move is {largest:.7f} of the declared sensitivity",
            "met": pairs >= 2000 and 0.99 < largest <= 1 + TOLERANCE and result["passed"],
        },
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=2400, help="of neighbours, over all families")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--out", type=Path)
    chosen = parser.parse_args()
    start, failures = time.perf_counter(), []
    calls = -(-chosen.pairs // (3 * len(CASES))) + 1
    size = max(1, -(-calls * len(CASES) // (4 * chosen.workers)))
    result: dict[str, Any] = {"playback": {}, "left_behind": {}, "noise": {}, "sensitivity": {}}
    with ProcessPoolExecutor(chosen.workers, mp_context=get_context("spawn"), initializer=prepare) as pool:
        jobs = {("playback", name): pool.submit(playback, name) for name in CASES if name not in SLOW}
        jobs |= {("noise", name): pool.submit(noise, name) for name in FITS}  # type: ignore[misc]
        jobs |= {("left_behind", name): pool.submit(left_behind, name) for name in FITS}  # type: ignore[misc]
        jobs |= {
            ("sensitivity", name, first): pool.submit(sensitivity, name, first, min(size, calls - first))  # type: ignore[misc]
            for name in CASES
            for first in range(0, calls, size)
        }
        jobs["sampler",] = pool.submit(sampler)  # type: ignore[index]
        for key, job in jobs.items():
            try:
                found = job.result()
            except AssertionError as error:
                failures.append(f"{key}: {error}")
                print(f"FAILED {key}: {error}", flush=True)
                continue
            if key[0] == "sensitivity":
                known = result["sensitivity"].setdefault(key[1], {"pairs": 0, "coin_off": 0, "largest": {}})
                known["pairs"] += found["pairs"]
                known["coin_off"] += found["coin_off"]
                for release, ratio in found["largest"].items():
                    known["largest"][release] = max(known["largest"].get(release, 0.0), ratio)
            elif key[0] == "sampler":
                result["sampler"] = found
            else:
                result[key[0]][key[1]] = found
    by_case = result["sensitivity"]
    ratios = [ratio for case in by_case.values() for ratio in case["largest"].values()]
    result["pairs"] = sum(case["pairs"] for case in by_case.values())
    result["coin_off_pairs"] = sum(case["coin_off"] for case in by_case.values())
    result["largest_ratio"] = max(ratios, default=0.0)
    if result["largest_ratio"] > 1 + TOLERANCE:
        failures.append(f"one record moves a release by {result['largest_ratio']:.7f} x its sensitivity")
    if result["largest_ratio"] < 0.99:
        failures.append(f"no pair came near the bound (largest ratio {result['largest_ratio']:.3f})")
    result |= {"failures": failures, "passed": not failures, "seconds": round(time.perf_counter() - start, 1)}
    result["promises"] = promises(result)
    for name, case in by_case.items():
        largest = ", ".join(f"{release} {ratio:.6f}" for release, ratio in case["largest"].items())
        print(f"{name}: {case['pairs']} pairs; largest ratios: {largest}")
    print(f"{result['pairs']} pairs, largest ratio {result['largest_ratio']:.7f}; {len(failures)} failures")
    if chosen.out is not None:
        chosen.out.write_text(json.dumps(result, indent=1) + "\n", "utf-8")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
