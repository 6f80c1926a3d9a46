"""From released statistics to the targets of a fit: which ones, shrunk how far, weighted how much. Post-processing."""

from collections.abc import Callable
from dataclasses import replace
from math import sqrt

import numpy as np
import torch
from torch import Tensor

from dpgm.data.domain import Domain
from dpgm.products.fitting import FitSettings, Targets, fit_moments
from dpgm.products.measurement import Measurements
from dpgm.products.model import Products, joined
from dpgm.products.rules import FitRules, ProductRules
from dpgm.statistics.centred_pairs import centred_target
from dpgm.statistics.item_counts import item_target
from dpgm.statistics.item_tuples import tuple_target
from dpgm.statistics.record_lengths import Known, length_target, mean_length, popular_targets
from dpgm.statistics.scaled_items import scaled_target
from dpgm.statistics.statistic import Expected, Floats, Ints, Target


def fit_products(
    measurements: Measurements,
    rules: ProductRules,
    *,
    generator: torch.Generator,
    device: str = "cpu",
    progress: Callable[[float], None] | None = None,
) -> Products:
    """A mixture of products that shows the measured statistics. Post-processing: no data, no budget."""
    domain, records = measurements.known.domain, measurements.known.records
    targets = moment_targets(measurements, rules, generator=generator, device=device)
    fits = rules.fit.fits_table if targets.rule.misfit is not None else 1
    fitted = []
    for number in range(fits):

        def part(done: float, before: int = number) -> None:
            if progress is not None:
                progress((before + done) / fits)

        fitted.append(fit_moments(domain, records, targets, generator=generator, device=device, progress=part))
    return joined(fitted)


def moment_targets(
    measurements: Measurements,
    rules: ProductRules,
    *,
    generator: torch.Generator,
    device: str = "cpu",
) -> Targets:
    """The measured counts, tuples shrunk toward what smaller sets suggest. Post-processing."""
    rule, known, profile = rules.fit, measurements.known, measurements.profile
    domain, records = known.domain, known.records
    narrow = domain.width <= rules.budget.narrow
    table = not domain.item_positions.any() and not narrow
    emphasis = rule.item_emphasis_narrow if narrow else rule.item_emphasis
    targets: list[Target[Expected]] = []
    if measurements.scaled is None:
        assert measurements.items is not None
        targets.append(item_target(measurements.items, known, emphasis))
    else:
        targets.append(scaled_target(measurements.scaled, known, emphasis))
    lengths = None
    if known.lengths is not None:
        items = np.nonzero(domain.item_positions)[0]
        lengths = length_target(items, known.lengths, known, _length_emphasis(measurements, records, rules))
    if measurements.popular is not None:
        targets += popular_targets(measurements.popular, known)
    if measurements.centred is not None:
        positions = measurements.centred.statistic.positions
        emphasis_of_pairs = _pair_emphasis(domain, positions, rule) if table else 1.0
        targets.append(centred_target(measurements.centred, profile, known, emphasis_of_pairs, shrunk=not table))
    larger = []
    for measured in measurements.tuples:
        sets = measured.statistic
        within = known.within(sets.positions, profile)
        if sets.order == 2:
            expected = None if table else profile[sets.positions][sets.tuples].prod(axis=1)
            emphasis_of_pairs = _pair_emphasis(domain, sets.positions, rule)
            targets.append(tuple_target(measured, expected, within, known, emphasis_of_pairs))
        elif narrow or mean_length(within) < rule.crowded:
            larger.append((measured, within))
    # Where nothing but single values is measured nothing is left open that entropy should decide.
    pairs = measurements.centred is not None or bool(measurements.tuples)
    fit = _fit_settings(known, narrow, table and pairs, rule)
    start = torch.from_numpy(profile).float()
    if larger:
        # What pairs alone suggest for larger sets: their noisy counts are shrunk toward it.
        brief = replace(fit, steps=fit.steps // 2)
        first = fit_moments(
            domain, records, Targets(start, targets, lengths, brief), generator=generator, device=device
        )
        for measured, within in larger:
            expected = measured.statistic.shares(first.probabilities, first.weights.float())
            targets.append(tuple_target(measured, expected, within, known, 1.0))
    return Targets(start, tuple(targets), lengths, fit)


def _fit_settings(known: Known, narrow: bool, table: bool, rule: FitRules) -> FitSettings:
    """How to fit: from the width of the domain and the lengths of records."""
    records = known.records
    return FitSettings(
        components=component_count(known.domain.width, records, rule),
        steps=rule.steps_narrow if narrow else rule.steps_table if table else rule.steps,
        learning_rate=rule.learning_rate_narrow if narrow else rule.learning_rate,
        penalty=rule.penalty_narrow / records if narrow else _penalty(known.whole, records, rule),
        misfit=rule.table_misfit if table else None,
        profile_rounds=rule.profile_rounds,
        descent=rule.descent,
    )


def _penalty(lengths: Floats, records: int, rules: FitRules) -> float:
    """Mutual-information penalty: lower where records are long, since n items make n² / 2 pairs that may depend."""
    level = min(rules.penalty, rules.penalty_records / records)
    return level * min(rules.most_penalty, (rules.penalty_length / max(mean_length(lengths), 1e-12)) ** 2)


def component_count(width: int, records: int, rules: FitRules) -> int:
    """Many, since one component can show only one kind of record; fewer where wide domains or few records forbid."""
    affordable = min(
        float(np.clip(width, rules.components, rules.components_wide)),
        max(rules.least_affordable, rules.component_cells / width),
    )
    least = min(int(affordable), max(rules.least_components, records // rules.records_per_component))
    return int(np.clip(sqrt(records) / 2, least, max(rules.components, least)))


def _pair_emphasis(domain: Domain, positions: Ints, rules: FitRules) -> Tensor | float:
    """Pairs with the label of a table weigh more: what predicts it is worth more than entropy."""
    label = domain.label_positions[positions]
    if not label.any():
        return 1.0
    return torch.from_numpy(np.where(label[:, None] | label, rules.label_emphasis, 1.0)).float()


def _length_emphasis(measurements: Measurements, records: int, rules: ProductRules) -> float:
    """Weight of the counts of lengths: the larger, the smaller the noise of pairs.

    Tens of thousands of pairs that are known very well would drown them.
    """
    pairs = [measured.std for measured in measurements.tuples if measured.statistic.order == 2]
    if not pairs:
        return 1.0
    noise = rules.fit.length_emphasis * max(pairs[0], 1e-9)
    return float(np.clip(rules.sanity * records / noise, 1.0, rules.fit.most_length_emphasis))
