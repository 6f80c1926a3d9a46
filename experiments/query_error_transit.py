"""Figure 7: relative error of counting queries on transit data, k = 1 to 50, epsilon 2 and 1.

The paper's records are private; these are simulated, of the same number (1,200,000), width (342 stations), mean and
largest length. Networks of the paper's preset beside the default generator, MWEM (the paper's, on records cut to the
average length, and a stronger form), independent noisy marginals and the answer 0.

    python experiments/query_error_transit.py [--smoke] [--jobs FILE | --rows FILE]
"""

from functools import partial

import query_errors
from paper_figures import TRANSIT, Network, main
from query_errors import Comparison, jobs, run, smallest

CONFIG = Comparison(
    data=TRANSIT,
    networks=(
        Network("VAE k = 10"),
        Network("VAE k = 1", clusters=1),
        Network("RBM k = 10", "rbm"),
        Network("VAE k = 50", clusters=50),
        Network("RBM k = 1", "rbm", clusters=1),
        Network("RBM k = 50", "rbm", clusters=50),
    ),
    repeated=("VAE k = 10", "VAE k = 1", "RBM k = 10"),
)
SMOKE = smallest(CONFIG, "transit 800", Network("VAE k = 2", clusters=2))
plot = partial(query_errors.plot, title="simulated TRANSIT")

if __name__ == "__main__":
    main("query_error_transit", CONFIG, SMOKE, run, plot, jobs)
