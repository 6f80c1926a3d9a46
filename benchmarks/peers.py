"""Query errors of peers (MST, AIM, PrivBayes of the `dpmm` package) on the data and queries we use ourselves.

    python -m venv /tmp/peers && /tmp/peers/bin/pip install dpmm
    DPGM_PEERS_PYTHON=/tmp/peers/bin/python python benchmarks/peers.py --data nltcs,adult --methods mst,aim

A peer runs in its own Python (its dependencies pin other versions); without one it is skipped with a message. Sets
are given to peers as 0/1 columns. Figures: mean relative error of 300 popular queries of 1-4 items and the total
variation of record lengths; for tables the mean total variation of single columns and of pairs, and the accuracy of
a logistic regression on the real test rows. epsilon = 1, delta = 1/N unless told otherwise.
"""

import argparse
import csv
import json
import os
import subprocess
import tempfile
import time
from pathlib import Path

import numpy as np
from peers_data import adult, from_codes, load

from dpgm.data.records import Records
from dpgm.evaluation.baselines import AnswerZero, IndependentMarginals, Mwem
from dpgm.evaluation.counting_queries import popular_queries, query_error
from dpgm.evaluation.downstream import downstream
from dpgm.evaluation.marginals import field_codes, record_lengths, table_pairs

COLUMNS = [
    "data",
    "method",
    "epsilon",
    "delta",
    "records",
    "width",
    "pop1",
    "pop2",
    "pop3",
    "pop4",
    "len",
    "one_way_tv",
    "two_way_tv",
    "accuracy",
    "seconds",
]
PEERS = ("mst", "aim", "privbayes")
OURS = {"answer 0": AnswerZero, "independent": IndependentMarginals, "mwem": Mwem}


def coded(records: Records) -> tuple[np.ndarray, np.ndarray]:
    """A discrete table for a peer: one column a table field, or one 0/1 column an item."""
    if all(block.softmax for block in records.domain.blocks):
        count = len(records.domain.fields)
        table = np.stack([field_codes(records, at) for at in range(count)], axis=1)
        return table, np.array([field.width for field in records.domain.fields])
    return records.to_dense(np.uint8), np.full(records.width, 2)


def run_peer(method: str, python: str, records: Records, epsilon: float, delta: float, limit: float) -> Records:
    """Fit a peer in its own process and read what it drew."""
    codes, sizes = coded(records)
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder, "in.npz"), Path(folder, "out.npz")
        np.savez_compressed(source, codes=codes, sizes=sizes)
        worker = str(Path(__file__).with_name("peers_worker.py"))
        subprocess.run(
            [python, worker, method, str(epsilon), str(delta), str(source), str(target)],
            check=True,
            timeout=limit,
            env=os.environ | {"OMP_NUM_THREADS": "1"},
            stderr=subprocess.DEVNULL,
        )
        with np.load(target) as data:
            drawn = data["codes"]
    if all(block.softmax for block in records.domain.blocks):
        return from_codes(drawn, records.domain)
    return Records.from_dense(drawn, records.domain)


def measure(name: str, real: Records, synthetic: Records) -> dict[str, float]:
    """The figures of one row."""
    if name == "adult":
        pairs = table_pairs(real, synthetic)
        accuracy = downstream(real, synthetic, adult("adult.test.gz"))[0].synthetic
        return {"one_way_tv": pairs.mean_one_way, "two_way_tv": pairs.mean_total_variation, "accuracy": accuracy}
    errors = {f"pop{n}": query_error(real, synthetic, popular_queries(real, n)).mean for n in (1, 2, 3, 4)}
    return errors | {"len": record_lengths(real, synthetic).total_variation}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default="nltcs,adult,msweb:16,retail:16,msnbc,msweb,retail:1000")
    parser.add_argument("--methods", default="answer 0,independent,mwem,mst,aim,privbayes")
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--limit", type=float, default=1200, help="seconds after which a peer is given up")
    parser.add_argument("--quick", action="store_true", help="nltcs and our own baselines, plus MST if present")
    parser.add_argument("--json", type=Path, help="write the rows here")
    parser.add_argument("--out", type=Path, help="append the rows to this CSV")
    parser.add_argument("--device", default="cpu", help="ignored: everything here runs on the CPU")
    options = parser.parse_args()
    if options.quick:
        options.data, options.methods = "nltcs", "answer 0,independent,mwem,mst"
    python = os.environ.get("DPGM_PEERS_PYTHON")
    rows = []
    for name in options.data.split(","):
        real = load(name)
        delta = 1 / len(real)
        for method in options.methods.split(","):
            if method == "mwem" and name == "adult":
                continue
            began = time.perf_counter()
            if method in OURS:
                cls = OURS[method]
                model = cls() if cls is AnswerZero else cls(options.epsilon, delta)
                synthetic = model.fit(real).sample(len(real), seed=0)
            elif python is None:
                print(f"{name}: {method} skipped: set DPGM_PEERS_PYTHON to a Python that has dpmm installed")
                continue
            else:
                try:
                    synthetic = run_peer(method, python, real, options.epsilon, delta, options.limit)
                except (subprocess.TimeoutExpired, subprocess.CalledProcessError) as error:
                    print(f"{name}: {method} gave no result: {type(error).__name__}", flush=True)
                    continue
            seconds = time.perf_counter() - began
            figures = measure(name, real, synthetic) | {"seconds": seconds}
            settings = {"epsilon": options.epsilon, "delta": delta, "records": len(real), "width": real.width}
            rows.append({"data": name, "method": method} | settings | figures)
            print(name, method, " ".join(f"{key}={value:.3g}" for key, value in figures.items()), flush=True)
            if options.out:
                append(options.out, rows[-1])
    if options.json:
        options.json.write_text(json.dumps(rows, indent=2))


def append(path: Path, row: dict[str, object]) -> None:
    """Add a row to the CSV, with a header when the file is new."""
    new = not path.exists()
    with path.open("a", newline="") as target:
        writer = csv.DictWriter(target, COLUMNS)
        if new:
            writer.writeheader()
        writer.writerow({k: f"{v:.4g}" if isinstance(v, float) else v for k, v in row.items()})


if __name__ == "__main__":
    main()
