"""Figure 6: relative error of counting queries on call data, epsilon 2 and 1.

The paper's records are private; these are simulated, of the same number (4,427,486), width (1,303 towers), mean and
largest length. Its preset (VAE and RBM; the paper takes one cluster here, ten are shown too) beside the default
generator, MWEM, independent noisy marginals and the answer 0.

    python experiments/query_error_cdr.py [--smoke] [--jobs FILE | --rows FILE]
"""

from dataclasses import replace

import query_errors
from paper_figures import CDR, Network, main
from query_errors import Comparison

CONFIG = Comparison(
    data=CDR,
    networks=(
        Network("VAE k = 1", clusters=1),
        Network("VAE k = 10"),
        Network("RBM k = 1", "rbm", clusters=1),
        Network("RBM k = 10", "rbm"),
    ),
    others=("ours", "independent", "mwem clipped", "answer 0"),
    repeated=("VAE k = 10", "RBM k = 10"),
)
SMOKE = replace(
    CONFIG,
    data="cdr 500",
    networks=CONFIG.networks[:1],
    epsilons=(1.0,),
    others=("independent", "answer 0"),
    steps=5,
    queries=20,
)
run, jobs = query_errors.run, query_errors.jobs


def plot(rows):
    return query_errors.plot(rows, "simulated CDR")


if __name__ == "__main__":
    main("query_error_cdr", CONFIG, SMOKE, run, plot, jobs)
