"""Figure 6: relative error of counting queries on call data, epsilon 2 and 1.

The paper's records are private; these are simulated, of the same number (4,427,486), width (1,303 towers), mean and
largest length. Its preset (VAE and RBM; the paper takes one cluster here, ten are shown too) beside the default
generator, MWEM, independent noisy marginals and the answer 0.

    python experiments/query_error_cdr.py [--smoke] [--jobs FILE | --rows FILE]
"""

from functools import partial

import query_errors
from paper_figures import CDR, Network, main
from query_errors import Comparison, jobs, run, smallest

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
SMOKE = smallest(CONFIG, "cdr 500", CONFIG.networks[0])
plot = partial(query_errors.plot, title="simulated CDR")

if __name__ == "__main__":
    main("query_error_cdr", CONFIG, SMOKE, run, plot, jobs)
