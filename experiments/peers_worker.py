"""Runs inside the peers' own Python: fit MST, AIM or PrivBayes on a coded table and sample from it.

    peers-python experiments/peers_worker.py METHOD EPSILON DELTA IN.npz OUT.npz [SEED]

IN holds `codes` (rows, columns) and `sizes` (values a column); OUT gets the synthetic `codes`. No preprocessing is
used (the columns are discrete already), so the whole budget goes to the model. SEED steers selections and draws;
dpmm takes its Gaussian noise from the operating system.
"""

import sys

import numpy as np
import pandas as pd


def main() -> None:
    method, epsilon, delta, source, target, *seed = sys.argv[1:]
    state = int(seed[0]) if seed else 0
    with np.load(source) as data:
        codes, sizes = data["codes"], data["sizes"]
    names = [f"c{at}" for at in range(codes.shape[1])]
    table = pd.DataFrame(codes.astype(np.int64), columns=names)
    sys.stderr.write(f"{method}: {codes.shape}\n")
    if method == "mst":
        from dpmm.pipelines import MSTPipeline as Pipeline

        options = {"n_iters": 1000}
    elif method == "aim":
        from dpmm.pipelines import AIMPipeline as Pipeline

        options = {"degree": 3 if codes.shape[1] <= 20 and sizes.max() == 2 else 2}
    elif method == "privbayes":
        from dpmm.pipelines import PrivBayesPipeline as Pipeline

        options = {}
    else:
        raise SystemExit(f"unknown method {method}")
    pipeline = Pipeline(
        epsilon=float(epsilon), delta=float(delta), n_jobs=1, gen_kwargs=options, disable_processing=True
    )
    domain = {name: int(size) for name, size in zip(names, sizes, strict=True)}
    pipeline.fit(table, domain=domain, random_state=state)
    drawn = pipeline.generate(n_records=len(table), random_state=state + 1)
    np.savez_compressed(target, codes=drawn[names].to_numpy(dtype=np.int32))


if __name__ == "__main__":
    main()
