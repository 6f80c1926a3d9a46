"""How long a fit will take and how much memory it needs, from its plan and the speed of this machine.

Nothing here looks at a record: the sizes are those of the plan (records, positions, components, steps, batches), the
number of items per record is guessed from the domain, and the machine's speed is measured on fixed public numbers.
"""

import time
from dataclasses import dataclass
from math import comb
from typing import TypeGuard

import torch

from dpgm.baselines.mwem import MwemSettings
from dpgm.clustering.private_kmeans import STARTS
from dpgm.data.domain import Domain
from dpgm.data.records import index_dtype
from dpgm.images.measurement import ImageSettings, embedding_design, refinement_rule
from dpgm.networks.rules import NetworkSettings
from dpgm.networks.vae import VAE
from dpgm.products.enumerated import is_enumerated
from dpgm.products.rules import ProductRules
from dpgm.products.strategy import ProductSettings
from dpgm.products.targets import component_count
from dpgm.statistics.fourier_features import expected_profile
from dpgm.synthesis.estimate_rules import RULES, CostRules
from dpgm.synthesis.plan import Plan


@dataclass(frozen=True)
class Estimate:
    """What a fit will take: seconds of one process on a machine that does nothing else, and bytes at the most.

    >>> print(Estimate(700.0, 1_100_000_000))
    about 12 minutes, 1.1 GB
    """

    seconds: float
    memory: int

    def __str__(self) -> str:
        size = f"{self.memory / 1e9:.1f} GB" if self.memory >= 1e9 else f"{self.memory / 1e6:.0f} MB"
        return f"about {_duration(self.seconds)}, {size}"


def _duration(seconds: float) -> str:
    for unit, length in (("hour", 3600.0), ("minute", 60.0)):
        if seconds >= 1.5 * length:
            return f"{seconds / length:.{0 if seconds >= 10 * length else 1}f} {unit}s".replace(".0 ", " ")
    return f"{max(1, round(seconds))} second{'s' if round(seconds) > 1 else ''}"


@dataclass(frozen=True)
class Sizes:
    """The public sizes of a fit: records of one process, positions, guessed items per record."""

    records: float
    width: int
    items: float

    @classmethod
    def of(cls, plan: Plan, domain: Domain | None, processes: int = 1) -> "Sizes":
        """Those of a plan; without a domain, of the wide item set that it was made for."""
        if domain is None:
            domain = Domain.of_items(plan.width or ProductRules().budget.unknown_width)
        guessed = float(expected_profile(domain).sum())
        return cls(plan.records / processes, domain.width, guessed)

    @property
    def row_bytes(self) -> float:
        """Of all rows in memory: 8 per record and 2 or 4 per item."""
        return self.records * (8 + self.items * index_dtype(self.width)().itemsize)


def estimate_fit(
    plan: Plan,
    domain: Domain | None,
    speed: float,
    *,
    memory: int | None = None,
    processes: int = 1,
    rules: CostRules = RULES,
) -> Estimate:
    """Seconds and bytes of a fit on a CPU, reading not included.

    Args:
        plan: its plan.
        domain: the public domain; None where the plan was made without.
        speed: of this machine, from `machine_speed`.
        memory: the limit on the memory of the process, beyond a quarter of which rows stay on the disk.
        processes: that share the records.
        rules: what the parts cost.
    """
    sizes = Sizes.of(plan, domain, processes)
    seconds = rules.fixed + sizes.records * (rules.per_record + rules.per_item * sizes.items)
    rows = sizes.row_bytes if memory is None else min(sizes.row_bytes, memory / 4)
    family, extra = plan.settings.family, 0.0
    if isinstance(family, ImageSettings) and domain is not None:
        seconds += _image_seconds(sizes, domain, family, rules)
    elif isinstance(family, NetworkSettings):
        seconds += _network_seconds(plan, sizes, domain, family, rules)
        extra = _network_memory(plan, sizes, family, rules)
    elif isinstance(family, ProductSettings):
        seconds += _product_seconds(plan, sizes, domain, family.rules, rules)
        components = component_count(sizes.width, plan.records, family.rules.fit)
        extra = rules.component_number * components * sizes.width
        if _has_entropy(domain, family.rules):
            extra += rules.overlap_column * components**2 * len(domain.table_columns)
    elif isinstance(family, MwemSettings):
        seconds += sizes.records * sizes.items * rules.mwem_item
        seconds += family.iterations * comb(sizes.width, 2) * rules.mwem_pair
    else:
        seconds += _counting_seconds(sizes, rules)
    return Estimate(seconds / speed, int(rules.process + rows + max(rows * rules.joining, extra)))


def _has_entropy(domain: Domain | None, products: ProductRules) -> TypeGuard[Domain]:
    """Whether this is a table that is fitted with the largest entropy: of several columns, and not a narrow one."""
    if domain is None or domain.item_positions.any() or domain.width <= products.budget.narrow:
        return False
    return len(domain.table_columns) > 1


def _counting_seconds(sizes: Sizes, rules: CostRules) -> float:
    return rules.bounds + sizes.records * (rules.counted_record + rules.counted_item * sizes.items)


def _product_seconds(
    plan: Plan, sizes: Sizes, domain: Domain | None, products: ProductRules, rules: CostRules, factor: float = 1.0
) -> float:
    """Counting, and moving the mixture; the second does not depend on the number of records."""
    seconds = _counting_seconds(sizes, rules)
    if domain is not None and is_enumerated(domain, products.enumerated):
        return seconds + sum(products.enumerated.rounds) * 2.0**sizes.width * rules.enumerated_record
    fit, budget = products.fit, products.budget
    narrow = sizes.width <= budget.narrow
    table = domain is not None and not domain.item_positions.any() and not narrow
    steps = fit.steps_narrow if narrow else fit.steps_table if table else fit.steps
    components = component_count(sizes.width, plan.records, fit)
    tracked = min(budget.pair_positions, sizes.width)
    moved = rules.step_position * sizes.width * factor
    pairs = rules.step + components * (moved + rules.step_pair * tracked**2)
    if _has_entropy(domain, products):
        pairs += rules.step_overlap * components**2 * sizes.width
    if not plan.pays_for("triple counts"):
        return seconds + steps * pairs
    noise = plan.noise("triple counts") * comb(budget.triple_items, 3) ** 0.5
    many = noise <= budget.more_triples_below * products.sanity * plan.records
    positions = min(budget.more_triple_positions if many else budget.triple_positions, sizes.width)
    larger = comb(positions, 2) * (rules.step_triple_pair + rules.step_triple * positions)
    return seconds + 1.5 * steps * pairs + steps * components * larger


def _parameters(sizes: Sizes, family: NetworkSettings, model: str) -> int:
    width, hidden = sizes.width, family.hidden[0]
    return width * hidden * (2 if model == VAE.kind else 1)


def _network_seconds(
    plan: Plan, sizes: Sizes, domain: Domain | None, family: NetworkSettings, rules: CostRules
) -> float:
    """Measuring, clusters, learning from samples of what was measured, training and refinement."""
    model, k, hidden = plan.settings.model, family.clusters, family.hidden[0]
    seconds = 0.0
    if family.images is not None and domain is not None:
        seconds += _image_seconds(sizes, domain, family.images, rules)
        seconds += _pretraining_seconds(plan, sizes, family, rules)
    elif plan.pays_for("pair counts"):
        seconds += _product_seconds(plan, sizes, domain, family.products, rules)
        seconds += _product_seconds(plan, sizes, domain, family.products, rules, rules.decoder_factor)
        seconds += _pretraining_seconds(plan, sizes, family, rules)
    elif plan.pays_for("item counts"):
        seconds += _counting_seconds(sizes, rules)
    if plan.pays_for("cluster sums"):
        iterations = family.cluster_steps * STARTS * k * rules.centre_feature + sizes.items * rules.feature_item
        seconds += sizes.records * family.features * iterations
    vae = model == VAE.kind
    record = rules.vae_record if vae else rules.rbm_record
    cell = rules.vae_cell if vae else rules.rbm_cell
    parameter = rules.vae_parameter if vae else rules.rbm_parameter
    batch = family.sampling_rate * sizes.records
    step = rules.train_step + k * (rules.train_model + parameter * _parameters(sizes, family, model))
    return seconds + family.steps * (step + batch * (record + cell * sizes.width * hidden))


def _pretraining_seconds(plan: Plan, sizes: Sizes, family: NetworkSettings, rules: CostRules) -> float:
    least, most = family.rules.pretraining_samples
    shown = family.rules.pretraining_passes * max(least, min(most, plan.records))
    return shown * rules.pretraining_cell * sizes.width * sum(family.hidden)


def _network_memory(plan: Plan, sizes: Sizes, family: NetworkSettings, rules: CostRules) -> float:
    parameters = family.clusters * _parameters(sizes, family, plan.settings.model)
    batch = family.sampling_rate * sizes.records * (sizes.width + family.hidden[0])
    cached = min(rules.kmeans_cache, sizes.records * family.features * 2) if family.clusters > 1 else 0
    return max(rules.parameter * parameters + rules.batch_cell * batch, float(cached))


def _image_seconds(sizes: Sizes, domain: Domain, family: ImageSettings, rules: CostRules) -> float:
    design = embedding_design(domain, family)
    architecture, settings = refinement_rule(domain, "cpu", family.rules.fit)
    images = settings.images * int(architecture["classes"])
    step = rules.picture_step_fixed + rules.picture_step * images * design.features / settings.parts
    return sizes.records * design.features * rules.picture_feature + settings.steps * step


def machine_speed(rules: CostRules = RULES) -> float:
    """Speed of this machine as a multiple of the one where the rules were measured; takes a tenth of a second.

    The fastest of several rounds counts, so that what others do on the machine at this moment matters little.
    """
    numbers = torch.linspace(0.01, 0.99, 400 * 300).view(400, 300)
    best = float("inf")
    for _ in range(rules.probe_rounds):
        start = time.perf_counter()
        product = numbers.T @ numbers
        chances = torch.sigmoid(numbers @ product * 1e-3)
        (chances * numbers).add_(chances).sum()
        best = min(best, time.perf_counter() - start)
    return rules.probe_seconds / best
