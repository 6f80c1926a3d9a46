"""Beside figure 7: the same comparison on public records of movement, where the paper's transit data are private.

Check-ins of people in New York at the 342 most visited places (as many as the paper has stations), one record per
person: 28,720 of them, so that noise weighs far more than on the 1.2 million of figure 7.

    python experiments/query_error_tw_ny.py [--smoke] [--jobs FILE | --rows FILE]
"""

from functools import partial

import query_errors
from paper_figures import TW_NY, Network, main
from query_errors import Comparison, jobs, run, smallest

CONFIG = Comparison(
    data=TW_NY,
    networks=(
        Network("VAE k = 10"),
        Network("VAE k = 1", clusters=1),
        Network("RBM k = 10", "rbm"),
        Network("RBM k = 1", "rbm", clusters=1),
    ),
    repeated=("VAE k = 10", "VAE k = 1", "RBM k = 10"),
    others=("ours", "independent", "mwem clipped", "answer 0"),
)
SMOKE = smallest(CONFIG, "transit 700", Network("VAE k = 2", clusters=2))
plot = partial(query_errors.plot, title="tw_ny")

if __name__ == "__main__":
    main("query_error_tw_ny", CONFIG, SMOKE, run, plot, jobs)
