"""Is private SGD worth its budget? Refined networks beside decoders that were never trained, and products.

    products    the default: all of the budget in statistics
    networks    `model="vae"`: private SGD, then refinement to statistics that take four fifths of the budget
    decoders    the same networks, not trained: refined from random weights, all of the budget in statistics

Mean relative error of 300 popular queries of 1, 2, 3, 4 and 6 items and total variation of record lengths,
delta = 1/N. Noise is seeded: a measurement, not a private release. Rows are merged into
`results/network_refinement.csv`.

    python experiments/network_refinement.py [--smoke] [--only plants,msweb] [--epsilons 1,10] [--seeds 0,1]
                                             [--methods products,networks,decoders] [--data ../shared/data]
"""

import argparse
import csv
import time
from itertools import product
from pathlib import Path

import torch
from data_folder import DATA
from fidelity_data import load

from dpgm import Synthesizer
from dpgm.data.records import Records
from dpgm.evaluation.counting_queries import count_queries, popular_queries, query_error
from dpgm.evaluation.marginals import record_lengths
from dpgm.mechanisms.gateway import Gateway
from dpgm.mechanisms.randomness import SeededRandomness
from dpgm.networks.mixture import Mixture
from dpgm.networks.presets import default_clusters
from dpgm.networks.refinement import refine_mixture
from dpgm.networks.rules import NetworkSettings
from dpgm.networks.vae import VAE
from dpgm.privacy.calibration import calibrate
from dpgm.products.planning import measurement_spends
from dpgm.products.rules import PRODUCT_RULES
from dpgm.products.strategy import measure
from dpgm.products.targets import moment_targets
from dpgm.strategy.protocol import PublicFacts

RESULTS = Path(__file__).parent / "results" / "network_refinement.csv"
LENGTHS = (1, 2, 3, 4, 6)
FIELDS = ("data", "method", "epsilon", "seed", *(f"pop{length}" for length in LENGTHS), "lengths", "seconds")


def products(records: Records, epsilon: float, seed: int) -> Records:
    """The default."""
    model = Synthesizer(epsilon, 1 / len(records), model="products", randomness=SeededRandomness(seed))
    return model.fit(records).sample(len(records), seed=seed)


def networks(records: Records, epsilon: float, seed: int) -> Records:
    """Private SGD, then refinement."""
    model = Synthesizer(epsilon, 1 / len(records), model="vae", randomness=SeededRandomness(seed))
    return model.fit(records).sample(len(records), seed=seed)


def decoders(records: Records, epsilon: float, seed: int) -> Records:
    """Refinement alone, from random weights with output biases at the measured profile."""
    count, domain = len(records), records.domain
    spends = measurement_spends(PublicFacts(domain, count, epsilon, 1 / count), PRODUCT_RULES, enumerate_few=False)
    mechanisms = calibrate(epsilon, 1 / count, spends)
    gateway = Gateway(records, randomness=SeededRandomness(seed), allowance=mechanisms)
    measured = measure(gateway, domain, count, {m.name: m.noise for m in mechanisms}, PRODUCT_RULES)
    draws = torch.Generator().manual_seed(seed)
    wanted = moment_targets(measured, PRODUCT_RULES, generator=draws)
    k, settings = default_clusters(count), NetworkSettings()
    model = VAE(domain, settings.hidden, settings.latent)
    start = model.initial(k, generator=draws)
    odds = model.outputs.log_odds(wanted.profile.expand(k, -1))
    model.layout.bias(start, model.layout.blocks[-1]).copy_(odds.unsqueeze(1))
    mixture = refine_mixture(Mixture(model, start, torch.full((k,), 1 / k)), count, wanted, generator=draws)
    return mixture.sample(count, generator=draws)


METHODS = {"products": products, "networks": networks, "decoders": decoders}


def merge(row: dict[str, str]) -> None:
    """Write a row in place of an older one of the same run."""
    rows = list(csv.DictReader(RESULTS.read_text().splitlines())) if RESULTS.exists() else []
    rows = [old for old in rows if any(old[key] != row[key] for key in FIELDS[:4])]
    rows = sorted([*rows, row], key=lambda r: (r["data"], float(r["epsilon"]), r["method"], int(r["seed"])))
    with open(RESULTS, "w", newline="") as file:
        writer = csv.DictWriter(file, FIELDS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def main() -> None:
    """Run, print and write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--smoke", action="store_true", help="one small run, nothing written")
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--only", default="msweb,plants,accidents")
    parser.add_argument("--epsilons", default="1,10")
    parser.add_argument("--seeds", default="0,1")
    parser.add_argument("--methods", default=",".join(METHODS))
    asked = parser.parse_args()
    names = ["plants"] if asked.smoke else asked.only.split(",")
    epsilons, seeds = (["1"], ["0"]) if asked.smoke else (asked.epsilons.split(","), asked.seeds.split(","))
    for name in names:
        records = load(name, asked.data).records
        records = records.rows(0, 3000) if asked.smoke else records
        workloads = [popular_queries(records, length, 300) for length in LENGTHS]
        truths = [count_queries(records, queries) for queries in workloads]
        for method, epsilon, seed in product(asked.methods.split(","), epsilons, seeds):
            start = time.process_time()
            synthetic = METHODS[method](records, float(epsilon), int(seed))
            seconds = time.process_time() - start
            asked_of = zip(workloads, truths, strict=True)
            errors = [query_error(records, synthetic, q, real_counts=truth).mean for q, truth in asked_of]
            errors.append(record_lengths(records, synthetic).total_variation)
            values = (name, method, epsilon, seed, *(f"{error:.3f}" for error in errors), f"{seconds:.0f}")
            print(*values, flush=True)
            if not asked.smoke:
                merge(dict(zip(FIELDS, values, strict=True)))


if __name__ == "__main__":
    main()
