"""Figure 3: epsilon against training epochs on MNIST (delta = 1e-5, 20 k-means iterations), by three accountings.

"As printed": the paper's formulas, which are no valid bound (docs/guarantee.md, errata). "Corrected design": the same
noise, sqrt(2) sigma, with all networks trained in lock step on one Poisson sample, as this package does, under
add/remove of one record. "Literal algorithm": one of k = 10 equally large clusters is chosen per step, and the updated
network tells which; its step is, with probability 1 / k, a Gaussian on a sample of rate k q. (With the paper's
data-dependent choice among clusters of which one may be empty, no epsilon holds at any small delta.)

    python experiments/epsilon_vs_epochs.py [--smoke]
"""

import math
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
from network_runs import Row
from paper_figures import main, pyplot

from dpgm.privacy.accountant import cost
from dpgm.privacy.events import Mechanism
from dpgm.privacy.paper_accountant import ELEVENTHS, printed_cost


@dataclass(frozen=True)
class Config:
    """The panels of the figure; each varies one number about the paper's own choice."""

    epochs: tuple[int, ...] = (1, 5, 10, 15, 20)
    rates: tuple[float, ...] = (0.0017, 0.005, 0.01)
    cluster_noises: tuple[float, ...] = (20.0, 40.0, 80.0)
    gradient_noises: tuple[float, ...] = (0.8, 1.0, 2.0)
    norm_noise: float = 4.0
    cluster_steps: int = 20
    clusters: int = 10
    delta: float = 1e-5
    seed: str = "none: nothing is random"


CONFIG = Config()
SMOKE = replace(CONFIG, epochs=(1,), rates=(0.005,), cluster_noises=(), gradient_noises=())
RATE, CLUSTER_NOISE, GRADIENT_NOISE = 0.0017, 40.0, 1.0


def run(config: Config) -> list[Row]:
    """One row per panel, setting and number of epochs."""
    panels = [("sampling rate", rate, CLUSTER_NOISE, GRADIENT_NOISE, rate) for rate in config.rates]
    panels += [("clustering noise", RATE, noise, GRADIENT_NOISE, noise) for noise in config.cluster_noises]
    panels += [("gradient noise", RATE, CLUSTER_NOISE, noise, noise) for noise in config.gradient_noises]
    rows: list[Row] = []
    for panel, rate, cluster_noise, gradient_noise, value in panels:
        for epochs in config.epochs:
            steps = epochs * math.ceil(1 / rate)
            numbers = (rate, steps, cluster_noise, gradient_noise, config)
            rows.append(
                {"panel": panel, "value": value, "epochs": epochs, "steps": steps}
                | {"as_printed": f"{_printed(*numbers):.4f}", "corrected_design": f"{_corrected(*numbers):.4f}"}
                | {"literal_algorithm": f"{_literal(*numbers):.4f}"}
            )
    return rows


@cache
def _printed(rate: float, steps: int, cluster_noise: float, gradient_noise: float, config: Config) -> float:
    return printed_cost(
        sampling_rate=rate,
        steps=steps,
        delta=config.delta,
        gradient_noise=gradient_noise,
        norm_noise=config.norm_noise,
        cluster_noise=cluster_noise,
        cluster_steps=config.cluster_steps,
        grid=ELEVENTHS,
        largest_moment=32,
    ).epsilon


def _multipliers(cluster_noise: float, gradient_noise: float, config: Config) -> tuple[float, float]:
    """Of k-means in all, and of a training step: noise sqrt(2) sigma beside the sensitivity 1 of add/remove."""
    clustering = math.sqrt(2) * cluster_noise / math.sqrt(2 * config.cluster_steps)
    step = 1 / math.sqrt(1 / (2 * config.norm_noise**2) + 1 / (2 * gradient_noise**2))
    return clustering, step


@cache
def _corrected(rate: float, steps: int, cluster_noise: float, gradient_noise: float, config: Config) -> float:
    clustering, step = _multipliers(cluster_noise, gradient_noise, config)
    mechanisms = (Mechanism("k-means", clustering), Mechanism("steps", step, steps, rate, "step"))
    return cost(mechanisms, config.delta).epsilon


@cache
def _literal(rate: float, steps: int, cluster_noise: float, gradient_noise: float, config: Config) -> float:
    """With probability p = 1 / k a Gaussian on a sample of rate q / p; that it was this cluster is seen."""
    from dp_accounting.pld import privacy_loss_distribution as pld

    clustering, step = _multipliers(cluster_noise, gradient_noise, config)
    share, interval = 1 / config.clusters, 1e-4
    gaussian = {"value_discretization_interval": interval}
    one = pld.from_gaussian_mechanism(step, sampling_prob=rate / share, **gaussian)
    pairs = []
    for pmf in (one._pmf_remove, one._pmf_add):
        dense = pmf.to_dense_pmf()
        masses = {dense._lower_loss + at: share * mass for at, mass in enumerate(np.asarray(dense._probs).tolist())}
        masses[0] = masses.get(0, 0.0) + 1 - share
        pairs.append((masses, share * dense._infinity_mass))
    (removed, lost), (added, lost_too) = pairs
    steps_loss = pld.PrivacyLossDistribution.create_from_rounded_probability(
        removed,
        lost,
        interval,
        rounded_probability_mass_function_add=added,
        infinity_mass_add=lost_too,
        symmetric=False,
    ).self_compose(steps)
    return float(
        steps_loss.compose(pld.from_gaussian_mechanism(clustering, **gaussian)).get_epsilon_for_delta(config.delta)
    )


def plot(rows):
    plt = pyplot()
    panels = list(dict.fromkeys(row["panel"] for row in rows))
    figure, axes = plt.subplots(1, len(panels), figsize=(5 * len(panels), 4), squeeze=False)
    styles = (("as_printed", ":"), ("corrected_design", "-"), ("literal_algorithm", "--"))
    for axis, panel in zip(axes[0], panels, strict=True):
        values = list(dict.fromkeys(row["value"] for row in rows if row["panel"] == panel))
        for colour, value in zip(("tab:blue", "tab:orange", "tab:green"), values, strict=False):
            chosen = [row for row in rows if row["panel"] == panel and row["value"] == value]
            for name, style in styles:
                epsilons = [float(row[name]) for row in chosen]
                label = f"{value:g}, {name.replace('_', ' ')}"
                axis.plot([row["epochs"] for row in chosen], epsilons, style, color=colour, label=label)
        axis.set(title=panel, xlabel="epochs", ylabel="epsilon", yscale="log")
        axis.legend(fontsize=6)
    figure.tight_layout()
    return figure


if __name__ == "__main__":
    main("epsilon_vs_epochs", CONFIG, SMOKE, run, plot)
