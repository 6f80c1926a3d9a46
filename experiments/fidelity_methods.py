"""The methods that the fidelity experiment compares: records and a budget in, as many synthetic records out.

Noise of our own methods and baselines is seeded (nothing here is a private release). Peers (`mst dpmm`, `aim dpmm`)
run in their own Python, named by DPGM_PEERS_PYTHON, since their dependencies pin other versions:

    python -m venv /tmp/peers && /tmp/peers/bin/pip install dpmm

dpmm takes its noise from the operating system. `mst` and `aim` are our own fast forms of the same methods for item
sets (`aim`: narrow ones), `mwem` is a stronger one than that of the package, which is `mwem clipped` here.
"""

import os
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import adaptive_marginals
import multiplicative_weights
import numpy as np
from fidelity_data import from_codes
from spanning_tree import SpanningTree

from dpgm import Synthesizer
from dpgm.baselines.estimators import AnswerZero, IndependentMarginals, Mwem
from dpgm.data.records import Records
from dpgm.errors import UsageError
from dpgm.evaluation.marginals import field_codes
from dpgm.mechanisms.randomness import SeededRandomness

PEER_SECONDS = 1800
Method = Callable[[Records, float, float, int], Records]


def _synthesizer(**options: Any) -> Method:
    def made(records: Records, epsilon: float, delta: float, seed: int) -> Records:
        randomness = SeededRandomness(seed)
        model = Synthesizer(epsilon, delta, randomness=randomness, **options).fit(records)
        return model.sample(len(records), seed=seed)

    return made


def _baseline(kind: Any) -> Method:
    def made(records: Records, epsilon: float, delta: float, seed: int) -> Records:
        fitted = kind(epsilon, delta, randomness=SeededRandomness(seed)).fit(records)
        return fitted.sample(len(records), seed=seed)  # type: ignore[no-any-return]

    return made


def zero(records: Records, epsilon: float, delta: float, seed: int) -> Records:
    """Empty records."""
    return AnswerZero().fit(records).sample(len(records))


def spanning_tree(records: Records, epsilon: float, delta: float, seed: int) -> Records:
    """MST for item sets."""
    if records.domain.table_columns:
        raise UsageError("our form of MST knows 0/1 columns only; use `mst dpmm`.")
    return SpanningTree.fit(records, epsilon, delta, seed).sample(len(records), seed)


def mwem(records: Records, epsilon: float, delta: float, seed: int) -> Records:
    """MWEM for item sets, in its strongest form."""
    if records.domain.table_columns:
        raise UsageError("MWEM over items and pairs knows item sets only.")
    weights = multiplicative_weights.fit(records, epsilon, delta, seed)
    return multiplicative_weights.sample(weights, records, len(records), seed)


def aim(records: Records, epsilon: float, delta: float, seed: int) -> Records:
    """AIM for narrow item sets, with a workload of all triples."""
    if records.domain.table_columns:
        raise UsageError("our form of AIM knows 0/1 columns only; use `aim dpmm`.")
    cells = adaptive_marginals.fit(records, epsilon, delta, seed)
    return adaptive_marginals.sample(cells, records, len(records), seed)


def _peer(name: str) -> Method:
    def made(records: Records, epsilon: float, delta: float, seed: int) -> Records:
        return run_peer(name, records, epsilon, delta, seed)

    return made


METHODS: dict[str, Method] = {
    "ours": _synthesizer(),
    "private sgd": _synthesizer(model="vae"),
    "paper": _synthesizer(preset="paper"),
    "independent": _baseline(IndependentMarginals),
    "mwem": mwem,
    "mwem clipped": _baseline(Mwem),
    "answer 0": zero,
    "mst": spanning_tree,
    "mst dpmm": _peer("mst"),
    "aim": aim,
    "aim dpmm": _peer("aim"),
}


def coded(records: Records) -> tuple[np.ndarray, np.ndarray]:
    """A discrete table for a peer: one column a table field, or one 0/1 column an item."""
    if records.domain.is_table:
        count = len(records.domain.fields)
        table = np.stack([field_codes(records, at) for at in range(count)], axis=1)
        return table, np.array([field.width for field in records.domain.fields])
    return records.to_dense(np.uint8), np.full(records.width, 2)


def decoded(codes: np.ndarray, records: Records) -> Records:
    """What a peer drew, as records of the same domain."""
    if records.domain.is_table:
        return from_codes(codes, records.domain)
    return Records.from_dense(codes.astype(np.bool_), records.domain)


def run_peer(method: str, records: Records, epsilon: float, delta: float, seed: int) -> Records:
    """Fit a peer in its own process and read what it drew.

    Raises:
        UsageError: no such Python is named, or the peer failed or took too long.
    """
    python = os.environ.get("DPGM_PEERS_PYTHON")
    if python is None:
        raise UsageError("set DPGM_PEERS_PYTHON to a Python that has dpmm installed.")
    codes, sizes = coded(records)
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder, "in.npz"), Path(folder, "out.npz")
        np.savez_compressed(source, codes=codes, sizes=sizes)
        worker = str(Path(__file__).with_name("peers_worker.py"))
        command = [python, worker, method, str(epsilon), str(delta), str(source), str(target), str(seed)]
        environment = os.environ | {"OMP_NUM_THREADS": "1"}
        try:
            subprocess.run(command, check=True, timeout=PEER_SECONDS, env=environment, capture_output=True)
        except (subprocess.TimeoutExpired, subprocess.CalledProcessError) as error:
            raise UsageError(f"no result: {type(error).__name__}.") from error
        with np.load(target) as data:
            return decoded(data["codes"], records)
