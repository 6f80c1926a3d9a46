"""From released statistics to the targets of a fit: which values to match, shrunk how far, weighted how much.

Post-processing: only released values and public numbers enter.
"""

from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from dpgm.arrays import Floats, Ints
from dpgm.data.domain import Domain
from dpgm.products.fitting import FitSettings, Targets, fit_moments
from dpgm.products.planning import component_count
from dpgm.products.rules import FitRules, ProductRules
from dpgm.statistics.centred_pairs import CentredPairs, centred_target
from dpgm.statistics.item_counts import ItemCounts, item_target
from dpgm.statistics.item_tuples import ItemTuples, tuple_target
from dpgm.statistics.record_lengths import (
    PopularLengths,
    ReleasedFacts,
    length_target,
    mean_length,
    popular_targets,
)
from dpgm.statistics.scaled_items import ScaledReading, scaled_target
from dpgm.statistics.statistic import Expected, Measured, Target


@dataclass(frozen=True)
class Measurements:
    """Everything that was released: noisy values with the statistics they belong to."""

    known: ReleasedFacts  # includes the record lengths
    profile: Floats  # share of the records that hold each position, by the last release of item counts
    items: Measured[ItemCounts] | None  # None where domain discovery has released noisy sums of all items
    tuples: tuple[Measured[ItemTuples], ...] = ()
    centred: Measured[CentredPairs] | None = None  # replaces pairs among the tuples where records are dense
    scaled: ScaledReading | None = None  # the second stage of item counts
    popular: Measured[PopularLengths] | None = None  # measured where triples are not


def moment_targets(
    measurements: Measurements, rules: ProductRules, *, generator: torch.Generator, device: str = "cpu"
) -> Targets:
    """Targets of a fit: the noisy counts, those of larger sets shrunk toward what smaller sets suggest."""
    rule, known, profile = rules.fit, measurements.known, measurements.profile
    domain, records = known.domain, known.records
    narrow = domain.width <= rules.budget.narrow
    table = not domain.item_positions.any() and not narrow

    # Items and record lengths.
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

    # Pairs, shrunk toward independence; those of tables as they are, since there the fit maximises the entropy.
    if measurements.centred is not None:
        pair_emphasis = _pair_emphasis(domain, measurements.centred.statistic.positions, rule) if table else 1.0
        targets.append(centred_target(measurements.centred, profile, known, pair_emphasis, shrunk=not table))
    larger = []
    for measured in measurements.tuples:
        sets = measured.statistic
        within = known.within(sets.positions, profile)
        if sets.order == 2:
            expected = None if table else profile[sets.positions][sets.tuples].prod(axis=1)
            pair_emphasis = _pair_emphasis(domain, sets.positions, rule)
            targets.append(tuple_target(measured, expected, within, known, pair_emphasis))
        elif narrow or mean_length(within) < rule.crowded:
            larger.append((measured, within))

    # Triples and quadruples, shrunk toward the prediction of a shorter fit to the pairs.
    has_pairs = measurements.centred is not None or bool(measurements.tuples)
    settings = _fit_settings(known, narrow, table and has_pairs, rules)
    start = torch.from_numpy(profile).float()
    if larger:
        pairs_only = Targets(start, tuple(targets), lengths, replace(settings, steps=settings.steps // 2))
        fitted = fit_moments(domain, records, pairs_only, generator=generator, device=device)
        for measured, within in larger:
            expected = measured.statistic.shares(fitted.probabilities, fitted.weights.float())
            targets.append(tuple_target(measured, expected, within, known, 1.0))
    return Targets(start, tuple(targets), lengths, settings)


def _fit_settings(known: ReleasedFacts, narrow: bool, entropy: bool, rules: ProductRules) -> FitSettings:
    """How to fit; `entropy` for tables with pairs: the largest entropy decides what the pairs leave open."""
    records, rule = known.records, rules.fit
    return FitSettings(
        components=component_count(known.domain.width, records, rule),
        steps=rule.steps_narrow if narrow else rule.steps_table if entropy else rule.steps,
        learning_rate=rule.learning_rate_narrow if narrow else rule.learning_rate,
        penalty=rule.penalty_narrow / records if narrow else _penalty(known.whole, records, rule),
        misfit=rule.table_misfit if entropy else None,
        profile_rounds=rule.profile_rounds,
        descent=rule.descent,
        sampling=rules.sampling,
    )


def _penalty(lengths: Floats, records: int, rules: FitRules) -> float:
    """Mutual-information penalty: lower where records are long, since n items make n² / 2 pairs that may depend."""
    level = min(rules.penalty, rules.penalty_records / records)
    return level * min(rules.most_penalty, (rules.penalty_length / max(mean_length(lengths), 1e-12)) ** 2)


def _pair_emphasis(domain: Domain, positions: Ints, rules: FitRules) -> Tensor | float:
    """Pairs with the label of a table weigh more: what predicts the label is worth more than entropy."""
    label = domain.label_positions[positions]
    if not label.any():
        return 1.0
    return torch.from_numpy(np.where(label[:, None] | label, rules.label_emphasis, 1.0)).float()


def _length_emphasis(measurements: Measurements, records: int, rules: ProductRules) -> float:
    """Weight of the length counts: it rises as the noise of pairs falls, or tens of thousands of pairs dominate."""
    pairs = [measured.std for measured in measurements.tuples if measured.statistic.order == 2]
    if not pairs:
        return 1.0
    noise = rules.fit.length_emphasis * max(pairs[0], 1e-9)
    return float(np.clip(rules.sanity * records / noise, 1.0, rules.fit.most_length_emphasis))
