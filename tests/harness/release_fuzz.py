"""Open many mutated releases in a child process with capped memory: none may crash, hang or be believed.

    python tests/harness/release_fuzz.py --count 100000 --out tools/figures/release_fuzz.json

Each mutated folder is verified and loaded unverified, every eighth also loaded as usual. Allowed outcomes: it opens, or one of the named errors of
`dpgm.errors`. The child's address space may grow by twice the size of the largest release plus 200 MB; a call that takes
longer than ten seconds counts as a hang.
"""

import argparse
import json
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).parents[1] / "support"))  # where this runs as a script

LONGEST = 10  # seconds of processor time a call may take
WAITING = 120  # seconds it may take in all
EXTRA_BYTES = 200 * 2**20
BATCH = 4_000  # mutated releases per child process: what calls leave behind adds up, and the cap is on all of it


DIED: dict[str, Any] = {
    **dict.fromkeys(
        ("mutated_releases", "hangs_over_10_s", "believed", "slowest_call_s", "memory_growth_bytes"), 0
    ),
    **{"crashes": 1, "largest_release_bytes": 0, "memory_allowed_bytes": 0, "mutations": {}, "outcomes": {}},
}


class Hang(BaseException):
    """A call took too long."""


def originals(place: Path) -> list[Any]:
    """Valid releases of every family, as folders in memory."""
    import torch

    from dpgm.images.model import ImageArchitecture, ImageGenerator
    from dpgm.networks.mixture import Mixture
    from dpgm.networks.rbm import RBM
    from dpgm.networks.vae import VAE
    from dpgm.synthesis.release import Release
    from dpgm.synthesis.synthesizer import Synthesizer
    from release_data import some_release
    from release_mutations import Folder
    from synthesis_data import IMAGES, SETS, TABLE, some_records

    draws = torch.Generator().manual_seed(0)
    small = {"steps": 5, "hidden": (5,), "latent": 2, "clusters": 2, "cluster_steps": 2}
    shares = torch.tensor([0.5, 0.5])
    vae, rbm = VAE(SETS, (5,), 2), RBM(SETS, 5, chains=2, sweeps=3)
    architecture = ImageArchitecture("dct", 8, 8, 3, 2, (4, 4))
    tensors = {name: torch.rand(shape, generator=draws) for name, shape in architecture.shapes.items()}
    tensors["class.shares"] = torch.tensor([0.5, 0.25, 0.25])
    releases = [
        some_release(SETS),
        some_release(TABLE),
        planned_release(IMAGES, "image", ImageGenerator(architecture, tensors, IMAGES), {}),
        planned_release(SETS, "vae", Mixture(vae, vae.initial(2, generator=draws), shares), small),
        planned_release(SETS, "rbm", Mixture(rbm, rbm.initial(2, generator=draws), shares), small),
        *(Synthesizer(1.0, model=model).fit(some_records(SETS, 200)).release_ for model in ("independent", "mwem")),
        Synthesizer(20.0, model="trees").fit(some_records(TABLE, 200)).release_,
    ]
    folders = []
    for number, release in enumerate(releases):
        assert isinstance(release, Release)
        release.save(place / f"valid{number}")
        folders.append(Folder({path.name: path.read_bytes() for path in (place / f"valid{number}").iterdir()}))
    return folders


def planned_release(domain: Any, model: str, generator: Any, fewer: dict[str, Any]) -> Any:
    """A release of a generator that was not fitted, with the certificate of a fit of its family."""
    from dpgm.privacy.accountant import cost, replace_one_epsilon
    from dpgm.privacy.odds import odds
    from dpgm.strategy.protocol import PublicFacts
    from dpgm.strategy.settings import Config
    from dpgm.synthesis.plan import Plan, budget_of, choose_settings
    from dpgm.synthesis.release import Release
    from release_data import DELTA, RECORDS, some_release

    facts = PublicFacts(domain, RECORDS, 90.0, DELTA)
    chosen = choose_settings(Config(90.0, DELTA, model=model), facts)
    settings = replace(chosen, family=replace(chosen.family, **fewer))
    mechanisms = tuple(replace(one, noise=10.0) for one in budget_of(settings, facts).runs.values())
    plan = Plan(90.0, 90.0, DELTA, RECORDS, domain.width, settings, mechanisms)
    certificate = replace(
        some_release().certificate,
        epsilon=cost(mechanisms, DELTA).epsilon,
        epsilon_replace_one=replace_one_epsilon(mechanisms, DELTA),
        odds=odds(mechanisms, DELTA),
        planned=mechanisms,
        mechanisms=mechanisms,
        plan=plan.public_numbers(),
        model={"kind": generator.kind} | generator.architecture,
    )
    return Release(domain, generator, certificate)


def run(count: int, seed: int, *, capped: bool) -> dict[str, Any]:
    """Mutate, open, and count what happened; the first few faults are kept in words."""
    import dpgm
    from dpgm.errors import DpgmError
    from dpgm.synthesis.release import load
    from release_mutations import mutate, write

    warnings.simplefilter("ignore")
    place = Path(tempfile.mkdtemp(dir="/dev/shm" if Path("/dev/shm").is_dir() else None, prefix="dpgm-fuzz-"))
    folders = originals(place)
    calls: dict[str, Callable[[Path], object]] = {
        "verify": dpgm.verify,
        "load": load,
        "load unverified": lambda path: load(path, unverified=True),
    }
    for number in range(len(folders)):  # every code path is warm, and every original is certified
        verification = dpgm.verify(place / f"valid{number}")
        assert verification.ok, verification.failed
        for call in calls.values():
            call(place / f"valid{number}")
        load(place / f"valid{number}").sample(3, seed=0)  # loads libraries that take address space
    largest = max(sum(map(len, folder.files.values())) for folder in folders)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    if capped:
        allowed = _address_space() + 2 * largest + EXTRA_BYTES
        resource.setrlimit(resource.RLIMIT_AS, (allowed, allowed))
    signal.signal(signal.SIGALRM, _too_long)
    signal.signal(signal.SIGPROF, _too_long)
    figures: Counter[str] = Counter()
    kinds: Counter[str] = Counter()
    outcomes: Counter[str] = Counter()
    faults: list[str] = []
    slowest = 0.0
    begun = time.monotonic()
    for number in range(count):
        rng = random.Random(f"{seed}/{number}")
        which = rng.choices(range(len(folders)), [5, 3] + [1] * (len(folders) - 2))[0]
        mutated, kind = mutate(folders[which], rng)
        changed = mutated.files != folders[which].files or bool(mutated.odd)
        write(mutated, place / "mutated")
        kinds.update(kind.split("+"))
        for name, call in calls.items():
            if name == "load" and number % 8:  # the checks of `verify`, once more
                continue
            started = time.process_time()
            signal.setitimer(signal.ITIMER_PROF, LONGEST)  # of processor time: the machine may be busy
            signal.alarm(WAITING)  # and something that only waits
            try:
                answer = call(place / "mutated")
                outcome = "opened"
                if name == "load unverified" and number % 20 == 0:
                    answer.sample(3, seed=0)  # type: ignore[attr-defined]
                if name == "verify":
                    outcome = "certified" if answer.ok else "refused"  # type: ignore[attr-defined]
                    if answer.ok and changed and not allowed_to_pass(mutated, folders[which]):  # type: ignore[attr-defined]
                        figures["believed"] += 1
                        faults.append(
                            f"{number} of {seed}: {kind} is certified, though {differing(mutated, folders[which])} differ"
                        )
            except Hang:
                outcome = "hang"
            except DpgmError as error:
                outcome = error.kind
                if error.kind == "E-INTERNAL":
                    figures["crashes"] += 1
                    faults.append(f"{number}: {kind}: {error}")
            except Exception as error:
                figures["crashes"] += 1
                outcome = type(error).__name__
                faults.append(f"{number}: {kind}: {name}: {traceback.format_exc()[-600:]}")
            finally:
                signal.setitimer(signal.ITIMER_PROF, 0)
                signal.alarm(0)
            if outcome == "hang":
                figures["hangs"] += 1
                faults.append(f"{number}: {kind}: {name} takes more than {LONGEST} s")
            outcomes[f"{name}: {outcome}"] += 1
            slowest = max(slowest, time.process_time() - started)
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    shutil.rmtree(place, ignore_errors=True)
    return {
        "mutated_releases": count,
        "seed": seed,
        "crashes": figures["crashes"],
        "hangs_over_10_s": figures["hangs"],
        "believed": figures["believed"],
        "slowest_call_s": round(slowest, 2),
        "largest_release_bytes": largest,
        "memory_growth_bytes": 1024 * (after - before),
        "memory_allowed_bytes": 2 * largest + EXTRA_BYTES,
        "seconds": round(time.monotonic() - begun),
        "mutations": dict(sorted(kinds.items())),
        "outcomes": dict(sorted(outcomes.items())),
        "faults": faults[:5],
    }


def allowed_to_pass(mutated: Any, original: Any) -> bool:
    """Whether only that was changed which a consistent forger may write: docs/guarantee.md says what that is.

    The values of tensors, and figures of the certificate that suit each other; a signature of whomever. The cap of MWEM
    is found by the fit like the values of its tensor, and no plan says what it must be.
    """
    forged = {"files", "records", "delta", "epsilon", "epsilon_replace_one", "plan", "ledger", "statements"}
    before, after = (json.loads(folder.files["certificate.json"])["model"] for folder in (original, mutated))
    if before["kind"] == "mwem" and isinstance(after, dict) and before | {"cap": None} == after | {"cap": None}:
        forged.add("model")
    return differing(mutated, original) <= forged | {"planned", "mechanisms"}


def differing(mutated: Any, original: Any) -> set[str]:
    """Fields of the certificate that were changed."""
    before, after = (json.loads(folder.files["certificate.json"]) for folder in (original, mutated))
    return {key for key in before if before[key] != after[key]}


def _too_long(*_: object) -> None:
    raise Hang


def _address_space() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    return pages * resource.getpagesize()


def main() -> int:
    """Run the children, print their figures, write them; 1 if anything went wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--child", action="store_true")
    asked = parser.parse_args()
    if asked.child:
        print(json.dumps(run(asked.count, asked.seed, capped=True)))
        return 0
    begun = time.monotonic()
    batches = [(min(BATCH, asked.count - first), asked.seed + first) for first in range(0, asked.count, BATCH)]
    parts: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as cache, ThreadPoolExecutor(asked.workers) as pool:
        for part in pool.map(lambda batch: in_child(*batch, cache), batches):
            parts.append(part)
            figures = merged(parts) | {"seconds": round(time.monotonic() - begun)}
            if asked.out:  # after every batch: a run that is stopped leaves what it found
                asked.out.parent.mkdir(parents=True, exist_ok=True)
                asked.out.write_text(json.dumps(figures, indent=1) + "\n", "utf-8")
    print(json.dumps(figures, indent=1))
    sound = figures["memory_growth_bytes"] <= figures["memory_allowed_bytes"]
    return 0 if sound and not figures["crashes"] + figures["hangs_over_10_s"] + figures["believed"] else 1


def in_child(count: int, seed: int, cache: str) -> dict[str, Any]:
    """The figures of a batch in a process of its own; one that dies is a crash, and its batch does not count."""
    done = subprocess.run(
        [sys.executable, __file__, "--child", "--count", str(count), "--seed", str(seed)],
        env={**os.environ, "DPGM_CACHE": cache, "OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    if done.returncode:
        return DIED | {"seed": seed, "faults": [f"the batch of seed {seed} died"]}
    figures: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return figures


def merged(parts: list[dict[str, Any]]) -> dict[str, Any]:
    """The figures of several children as one: counts add up, of times and sizes the largest."""
    together = dict(parts[0])
    for part in parts[1:]:
        for key in ("mutated_releases", "crashes", "hangs_over_10_s", "believed"):
            together[key] += part[key]
        for key in ("slowest_call_s", "memory_growth_bytes"):
            together[key] = max(together[key], part[key])
        for key in ("mutations", "outcomes"):
            together[key] = dict(sorted((Counter(together[key]) + Counter(part[key])).items()))
        together["faults"] = (together["faults"] + part["faults"])[:5]
    return together


if __name__ == "__main__":
    sys.exit(main())
