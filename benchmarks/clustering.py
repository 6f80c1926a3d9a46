"""Private kernel k-means against scikit-learn and diffprivlib, and at 4.4 million records; one thread.

    python benchmarks/clustering.py [--quick] [--json FILE] [--device cpu|cuda]

diffprivlib pins other versions than ours, so it runs in its own environment: set DPGM_DIFFPRIVLIB_PYTHON to the Python
of one that has it (`pip install diffprivlib==0.6.6 scikit-learn==1.6.1`); without it that comparison is skipped.

On the CPU seconds are processor time, which other work on the machine changes less than the clock on the wall.
"""

import argparse
import json
import os
import re
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import torch

from dpgm.data.domain import Domain, Image
from dpgm.data.records import Records
from dpgm.data.simulate import simulate_cdr
from dpgm.mechanisms.gateway import Gateway
from dpgm.mechanisms.randomness import SystemRandomness
from dpgm.networks.kernel_kmeans import MEMORY_LIMIT, Clustering, initial_centers, private_kmeans
from dpgm.networks.rules import CLUSTERING_RULES
from dpgm.statistics.fourier_features import FourierFeatures

CLUSTERS, FEATURES, STEPS = 10, 200, 20
DIFFPRIVLIB = """
import sys, time, warnings
import numpy as np
from diffprivlib.models import KMeans
warnings.simplefilter("ignore")
data = np.load(sys.argv[1]).astype(np.float64)
for _ in range(int(sys.argv[2])):
    start = time.process_time()
    KMeans(10, epsilon=1.0, bounds=(0, 1)).fit(data)
    print(time.process_time() - start)
"""


def fit(records: Records, steps: int, device: str, memory_limit: int = MEMORY_LIMIT) -> Clustering:
    """Draw features and centres, then cluster: everything a user pays for."""
    generator = torch.Generator().manual_seed(0)
    feature_map = FourierFeatures.for_domain(records.domain, FEATURES, generator=generator)
    profile = torch.full((records.width,), 0.01)
    initial = initial_centers(
        profile, CLUSTERING_RULES.starts * CLUSTERS, feature_map, domain=records.domain, generator=generator
    )
    gateway = Gateway(records, randomness=SystemRandomness())
    return private_kmeans(
        gateway,
        initial,
        feature_map,
        steps,
        50.0,
        50.0,
        generator=generator,
        clusters=CLUSTERS,
        memory_limit=memory_limit,
        device=device,
    )


def scikit_learn(records: Records, steps: int) -> None:
    """The same work without privacy: random features, then Lloyd from given centres."""
    import warnings

    from scipy.sparse import csr_matrix
    from sklearn.cluster import KMeans
    from sklearn.kernel_approximation import RBFSampler

    ones = np.ones(len(records.indices), dtype=np.float32)
    matrix = csr_matrix((ones, records.indices.astype(np.int32), records.indptr), (len(records), records.width))
    features = RBFSampler(gamma=0.05, n_components=FEATURES, random_state=0).fit_transform(matrix)
    centers = features[:CLUSTERS].copy()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        KMeans(CLUSTERS, init=centers, n_init=1, max_iter=steps, tol=0.0, algorithm="lloyd", copy_x=False).fit(
            features
        )


def clock(device: str) -> float:
    """Seconds: of the processor where it does the work, on the wall otherwise."""
    return time.process_time() if device == "cpu" else time.perf_counter()


def interleaved(contenders: dict[str, Callable[[], Any]], repeats: int, device: str) -> dict[str, float]:
    """Median seconds of each, one call of each in turn."""
    times: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(repeats):
        for name, call in contenders.items():
            start = clock(device)
            call()
            times[name].append(clock(device) - start)
    return {name: statistics.median(values) for name, values in times.items()}


def against_scikit_learn(rows: int, repeats: int, device: str) -> dict[str, float]:
    records = simulate_cdr(rows, seed=1)
    fit(records.rows(0, 1000), 2, device)  # compile
    times = interleaved(
        {"dpgm": lambda: fit(records, STEPS, device), "scikit-learn": lambda: scikit_learn(records, STEPS)},
        repeats,
        device,
    )
    return {**times, "ratio": times["scikit-learn"] / times["dpgm"]}


def against_diffprivlib(repeats: int, device: str) -> dict[str, float] | None:
    python = os.environ.get("DPGM_DIFFPRIVLIB_PYTHON")
    if not python:
        print("diffprivlib: skipped; set DPGM_DIFFPRIVLIB_PYTHON to the Python of an environment that has it")
        return None
    dense = np.random.default_rng(0).random((60_000, 784)) < 0.13
    records = Records.from_dense(dense, Domain((Image("image", 28, 28),)))
    fit(records.rows(0, 1000), 2, device)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "data.npy"
        np.save(path, dense)
        theirs: list[float] = []
        ours: list[float] = []
        for _ in range(repeats):
            start = clock(device)
            fit(records, STEPS, device)
            ours.append(clock(device) - start)
            command = [python, "-c", DIFFPRIVLIB, str(path), "1"]
            theirs.append(float(subprocess.run(command, capture_output=True, text=True, check=True).stdout))
    times = {"dpgm": statistics.median(ours), "diffprivlib": statistics.median(theirs)}
    return {**times, "ratio": times["diffprivlib"] / times["dpgm"]}


def at_scale(rows: int, steps: int, repeats: int, device: str) -> dict[str, float]:
    """Streamed: memory beyond the records, and four times the records against a quarter of them."""
    records = simulate_cdr(rows, seed=1)
    quarter = records.rows(0, rows // 4)
    fit(records.rows(0, 1000), 2, device, 0)
    before = _memory("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # the peak starts again from here
    fit(records, 1, device, 0)
    beyond = _memory("VmHWM") - before
    times = interleaved(
        {"quarter": lambda: fit(quarter, steps, device, 0), "all": lambda: fit(records, steps, device, 0)},
        repeats,
        device,
    )
    return {
        "rows": rows,
        "MB of records": (records.indices.nbytes + records.indptr.nbytes) / 1e6,
        "MB beyond the records": beyond / 1e6,
        "seconds an iteration": times["all"] / steps,
        "time ratio to a quarter": times["all"] / times["quarter"],
    }


def _memory(field: str) -> int:
    """Bytes, from the kernel's own account of this process."""
    found = re.search(rf"{field}:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert found is not None
    return int(found.group(1)) * 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="smaller data, fewer repetitions")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    parser.add_argument("--device", default="cpu")
    options = parser.parse_args()
    torch.set_num_threads(1)
    quick = options.quick
    figures: dict[str, Any] = {}
    figures["scikit-learn"] = against_scikit_learn(50_000 if quick else 500_000, 1 if quick else 3, options.device)
    figures["diffprivlib"] = against_diffprivlib(1 if quick else 3, options.device)
    figures["scale"] = at_scale(
        400_000 if quick else 4_400_000, 2 if quick else 4, 1 if quick else 3, options.device
    )
    for name, values in figures.items():
        if values is not None:
            print(f"{name}: " + ", ".join(f"{key} {value:.4g}" for key, value in values.items()))
    if options.json:
        options.json.write_text(json.dumps(figures, indent=2) + "\n")


if __name__ == "__main__":
    main()
