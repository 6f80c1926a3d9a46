"""Private discovery of a domain: the first stage of a fit whose domain leaves values, bounds or bins open.

    bounds       the range of numbers (between powers of two) and dates (in years) whose bounds are not stated, and
                 their step: decimal places, or whole days, hours, minutes, seconds
    values       items, categories and exact numbers that many records have, found by a noisy threshold
    histograms   every number over a public grid
    recode       the private rows, record by record, into the closed domain that follows from these

The first three are mechanisms of the plan like any other; everything derived from their noisy answers is
post-processing. The family that is fitted afterwards sees an ordinary closed domain.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from dpgm.data.domain import Domain, Field, Label
from dpgm.data.kinds.open_number import OpenNumber
from dpgm.data.number_format import SECONDS
from dpgm.data.number_grids import BOUND_SLOTS, YEARS, clock_day, grid_of, needs_atoms
from dpgm.data.open_records import OpenRecords
from dpgm.data.records import Records
from dpgm.errors import BudgetError, UsageError
from dpgm.mechanisms.gateway import Gateway
from dpgm.mechanisms.query import Measures
from dpgm.mechanisms.threshold import Discovered, threshold_query
from dpgm.privacy.calibration import Spend
from dpgm.statistics.number_histograms import (
    BOUNDS,
    HISTOGRAMS,
    BoundHistograms,
    CountedNumber,
    NumberHistograms,
)
from dpgm.statistics.statistic import plan_descriptions, release
from dpgm.strategy.discovery_rules import DiscoveryRules
from dpgm.strategy.protocol import FitPlan
from dpgm.synthesis.held_values import Bounds, HeldValues
from dpgm.synthesis.number_shapes import (
    Shaped,
    estimate_bounds,
    estimate_cells,
    estimate_hours,
    estimate_step,
    estimate_years,
    shape_number,
    without_empty_ends,
)
from dpgm.validation import counted

VALUES = "discovered values"
MEASURES = plan_descriptions(
    BoundHistograms.words,
    {VALUES: Measures("discover", "values whose noisy sum of records passes a threshold, with these sums", "1")},
    NumberHistograms.words,
)

_LONGEST_NAME = 40  # characters of a field's name in sentences
_INTEGER = re.compile(r"-?(0|[1-9][0-9]{0,17})")


# -- the plan and the certificate --------------------------------------------------------------------------------


def discovery_rules(domain: Domain | None) -> DiscoveryRules | None:
    """The rules for the plan of a new fit; None where the domain leaves nothing open."""
    return None if domain is None or not domain.is_open else DiscoveryRules()


def rules_of(plan: FitPlan) -> DiscoveryRules:
    """The rules of a plan that discovers a domain."""
    return _needed(plan.settings.discovery)


def _needed(rules: DiscoveryRules | None) -> DiscoveryRules:
    if rules is None:
        raise UsageError("the plan is for a domain that leaves nothing open; plan again with the same `domain`.")
    return rules


def discovery_spends(domain: Domain | None, delta: float, rules: DiscoveryRules | None) -> tuple[Spend, ...]:
    """Mechanisms that close an open domain, each with its share of the budget (mu²); none for a closed domain."""
    if domain is None or not domain.is_open:
        return ()
    rules = _needed(rules)
    numbers = _open_numbers(domain)
    spends = []
    if any(None in field.bounds for _, field in numbers):
        spends.append(Spend(BOUNDS, rules.bounds_share))
    items = _open_sets(domain) > 0
    values = _single_valued(domain)
    if items or values:
        share = min(rules.values_share + rules.values_share_extra * (values - 1), rules.values_share_limit)
        spends.append(Spend(VALUES, rules.items_share if items else share, delta=rules.delta_share * delta))
    if numbers:
        more = rules.histogram_share + rules.histogram_share_extra * (len(numbers) - 1)
        spends.append(Spend(HISTOGRAMS, min(more, rules.histogram_share_limit)))
    return tuple(spends)


def with_discovery(
    domain: Domain | None, spends: Sequence[Spend], delta: float, rules: DiscoveryRules | None
) -> tuple[Spend, ...]:
    """The spends of discovery, and those of a family scaled down to what discovery leaves."""
    first = discovery_spends(domain, delta, rules)
    left = 1 - sum(spend.share for spend in first)
    return (*first, *(replace(spend, share=spend.share * left) for spend in spends))


def discovery_statements(domain: Domain, delta: float, rules: DiscoveryRules | None) -> tuple[str, ...]:
    """What was found privately and at what cost, in sentences for the certificate and the README."""
    sentences = []
    if found := [repr(field.name) for field in domain.fields if field.finds_labels]:
        sentences.append(
            f"The values of {_listed(found)} were found privately: a value is published only if the noisy sum of the"
            " records that hold it passes a threshold; rarer values are left out, or stand together as '(other)'."
        )
    if numbers := [repr(field.name) for _, field in _open_numbers(domain)]:
        sentences.append(
            f"Popular values, bins and shapes of {_listed(numbers)} were found privately, by noisy histograms."
        )
    unbounded = [field for _, field in _open_numbers(domain) if None in field.bounds]
    if bounds := [repr(field.name) for field in unbounded if not _by_years(field)]:
        sentences.append(f"The range of {_listed(bounds)} was found privately, between powers of two.")
    if years := [repr(field.name) for field in unbounded if _by_years(field)]:
        sentences.append(f"The range of {_listed(years)} was found privately, in calendar years.")
    if clocks := [repr(field.name) for field in unbounded if field.finds_step and _by_years(field)]:
        sentences.append(
            f"Whether {_listed(clocks)} are whole days, hours, minutes or seconds was found privately."
        )
    if places := [repr(field.name) for field in unbounded if field.finds_step and not _by_years(field)]:
        sentences.append(f"How many places after the point {_listed(places)} have was found privately.")
    for spend in (one for one in discovery_spends(domain, delta, rules) if one.name == VALUES):
        sentences.append(
            f"Of delta, {spend.delta:.3g} is the probability that a value which one record alone holds is"
            " published."
        )
    return tuple(sentences)


def _listed(names: Sequence[str], most: int = 12) -> str:
    names = [name if len(name) <= _LONGEST_NAME else f"{name[: _LONGEST_NAME - 4]}...'" for name in names]
    return ", ".join(names[:most]) + (
        f" and {counted(len(names) - most, 'more field')}" if len(names) > most else ""
    )


# -- the stage ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class DiscoveredDomain:
    """A closed domain, and the noisy sum of every position if all positions were discovered."""

    domain: Domain
    sums: NDArray[np.float64] | None = None


def discover_domain(gateway: Gateway, plan: FitPlan, domain: Domain) -> DiscoveredDomain:
    """Close the domain by private queries under the plan's rules, and recode the gateway's rows into it.

    A closed domain is returned unchanged, and nothing is released.
    """
    if not domain.is_open:
        return DiscoveredDomain(domain)
    rules = rules_of(plan)
    bounds, stepped = _discover_bounds(gateway, plan, domain, rules)
    if stepped:
        known = replace(domain, fields=tuple(stepped.get(field.name, field) for field in domain.fields))
        gateway.recode(lambda rows: _open(rows).in_steps(known))
        domain = known
    found = _discover_values(gateway, plan, domain, bounds, rules)
    shaped = _discover_numbers(gateway, plan, domain, bounds, found, rules)
    with_other, incomplete = _incomplete_categories(domain, found, plan, rules)
    fields = tuple(_closed(field, found, shaped, with_other) for field in domain.fields)
    closed = replace(domain, fields=fields)
    instead = {name: one.commonest for name, one in shaped.items()} | _commonest_labels(closed, found, incomplete)
    gateway.recode(lambda rows: _open(rows).closed(closed, instead))
    return DiscoveredDomain(closed, _sums(closed, found))


def _open(rows: Records) -> OpenRecords:
    assert isinstance(rows, OpenRecords)
    return rows


def _sums(closed: Domain, found: Discovered) -> NDArray[np.float64] | None:
    """The noisy sums of all positions; None if the domain has positions other than discovered items."""
    sums = {(name, str(value)): total for (name, value), total in zip(found.values, found.sums, strict=True)}
    sets = [field for field in closed.fields if field.is_set and field.lists_values]
    positions = [(field.name, label) for field in sets for label in field.labels]
    if len(positions) < closed.width or not all(value in sums for value in positions):
        return None
    return np.array([sums[value] for value in positions])


def _by_years(field: OpenNumber) -> bool:
    """Whether the range of a field is found in calendar years, not between powers of two."""
    return field.format.kind in ("date", "datetime")


def _open_numbers(domain: Domain) -> list[tuple[int, OpenNumber]]:
    """The open fields of numbers and dates, each with its place in the domain."""
    numbers = ((at, field.open_number) for at, field in enumerate(domain.fields))
    return [(at, number) for at, number in numbers if number is not None]


def _with_found_atoms(domain: Domain) -> list[OpenNumber]:
    """Open numbers whose popular values are discovered by the threshold, not counted in cells of their own."""
    return [field for _, field in _open_numbers(domain) if needs_atoms(field, *field.bounds)]


def _single_valued(domain: Domain) -> int:
    """Number of fields that contribute one value per record to the threshold: categories and numbers."""
    categories = sum(field.finds_labels and not field.is_set for field in domain.fields)
    return categories + len(_with_found_atoms(domain))


def _open_sets(domain: Domain) -> int:
    """Number of fields whose items are to be found."""
    return sum(field.finds_labels and field.is_set for field in domain.fields)


def _discover_bounds(
    gateway: Gateway, plan: FitPlan, domain: Domain, rules: DiscoveryRules
) -> tuple[Bounds, dict[str, Field]]:
    """The ranges of all open numbers in ticks, and the fields whose step was found, completed by it."""
    stepped: dict[str, Field] = {}
    bounds = {
        field.name: (low, high)
        for _, field in _open_numbers(domain)
        for low, high in [field.bounds]
        if low is not None and high is not None
    }
    unbounded = [(at, field) for at, field in _open_numbers(domain) if None in field.bounds]
    if not unbounded:
        return bounds, stepped
    dates = tuple(SECONDS[field.format.unit] if _by_years(field) else None for _, field in unbounded)
    steps = tuple(field.finds_step for _, field in unbounded)
    specials = tuple(field.special_ticks for _, field in unbounded)
    histograms = BoundHistograms(tuple(at for at, _ in unbounded), dates, steps, specials)
    measured = release(gateway, histograms, plan.noise(BOUNDS))
    std = measured.std
    for (_, field), date, counts in zip(unbounded, dates, measured.value.numpy(), strict=True):
        if date is None:
            low, high = estimate_bounds(field, counts[:BOUND_SLOTS], std, rules)
        else:
            low, high = estimate_years(field, counts[:YEARS], std, date, plan.records, rules)
        if field.finds_step:
            steps_of = field.possible_steps()
            in_step = steps_of[estimate_step(counts[BOUND_SLOTS:][: len(steps_of)], std, rules)]
            stepped[field.name] = in_step
            low, high = in_step.range_in_found_step(low, high)
        bounds[field.name] = (low, high)
    return bounds, stepped


def _discover_values(
    gateway: Gateway, plan: FitPlan, domain: Domain, bounds: Bounds, rules: DiscoveryRules
) -> Discovered:
    if not plan.pays_for(VALUES):
        return Discovered((), ())
    ranges = {field.name: bounds[field.name] for field in _with_found_atoms(domain)}
    query = threshold_query(
        lambda view: HeldValues(_open(view.records), domain, ranges),
        noise=plan.noise(VALUES),
        delta=plan.mechanism(VALUES).delta,
        cap=_single_valued(domain) + _open_sets(domain) * rules.items_cap,
        rows=plan.rows_per_person,
    )
    return gateway.discover(VALUES, query, plan.noise(VALUES))


def _discover_numbers(
    gateway: Gateway, plan: FitPlan, domain: Domain, bounds: Bounds, found: Discovered, rules: DiscoveryRules
) -> dict[str, Shaped]:
    numbers = _open_numbers(domain)
    if not numbers:
        return {}
    counted = tuple(_counted(at, field, bounds[field.name]) for at, field in numbers)
    measured = release(gateway, NumberHistograms(counted), plan.noise(HISTOGRAMS))
    # A record adds 1/sqrt(n) to each of its n values; if all fields are single-valued, n is their number.
    fields = len({name for name, _ in found.values}) or 1
    shaped = {}
    parts = measured.statistic.split(measured.value)
    for (_, field), column, counts in zip(numbers, counted, parts, strict=True):
        missing = field.missing
        if missing is None:
            missing = counts.missing > rules.missing_threshold * measured.std
        total = plan.records - (max(counts.missing, 0.0) if missing else 0.0)
        special = dict(zip(column.specials, np.maximum(counts.specials, 0.0).tolist(), strict=True))
        total = max(total - sum(special.values()), 1.0)
        low, high = bounds[field.name]
        ends = (field.bounds[0] is None, field.bounds[1] is None)
        cells = estimate_cells(counts.groups, column.grid, measured.std, total, rules, ends)
        grid, cells = without_empty_ends(column.grid, cells, ends)
        exact = {
            float(value): noisy_sum * fields**0.5
            for (name, value), noisy_sum in zip(found.values, found.sums, strict=True)
            if name == field.name and not isinstance(value, str) and low <= value <= high and value not in special
        }
        clock = estimate_hours(counts.hours, exact, column.day, measured.std, rules)
        shaped[field.name] = shape_number(
            field, grid, cells, missing, exact | special, measured.std, plan.records, rules, clock
        )
    return shaped


def _counted(at: int, field: OpenNumber, bounds: tuple[float, float]) -> CountedNumber:
    day = clock_day(field.format, *bounds)
    grid = grid_of(*bounds, field.format, field.scale, field.special_ticks, day)
    return CountedNumber(at, grid, field.special_ticks, day)


def _incomplete_categories(
    domain: Domain, found: Discovered, plan: FitPlan, rules: DiscoveryRules
) -> tuple[set[str], set[str]]:
    """The categories with a position for unpublished values, and those that lack more records than noise explains.

    A record adds the same amount to each of its values, so that the sums of all fields whose values were all found have
    the same total, less missing values. Without item sets that total is known if nothing is missing. What a column of
    two or three values falls short of it is taken for missing cells, unless it is much.
    """
    names = [field.name for field in domain.fields if field.finds_labels and not field.is_set]
    sums: dict[str, list[float]] = {name: [] for name in names}
    for (name, _), total in zip(found.values, found.sums, strict=True):
        sums.get(name, []).append(total)
    allowed = {
        name: rules.other_threshold * plan.noise(VALUES) * len(totals) ** 0.5 for name, totals in sums.items()
    }
    # The largest of several noisy sums is too large.
    whole = max((sum(totals) - allowed[name] for name, totals in sums.items()), default=0.0)
    if not _open_sets(domain):
        whole = max(whole, plan.records / max(_single_valued(domain), 1) ** 0.5)
    incomplete = {name for name, totals in sums.items() if whole - sum(totals) > allowed[name] or not totals}
    with_gaps = {
        name
        for name in incomplete
        if 2 <= len(sums[name]) <= rules.few_categories and whole - sum(sums[name]) <= rules.most_gaps * whole
    }
    return incomplete - with_gaps, incomplete


def _commonest_labels(closed: Domain, found: Discovered, incomplete: set[str]) -> dict[str, int]:
    """The position of the value with the largest noisy sum, by name of a category whose values seem all found."""
    sums = {(name, str(value)): total for (name, value), total in zip(found.values, found.sums, strict=True)}
    return {
        field.name: int(np.argmax([sums.get((field.name, label), -np.inf) for label in field.labels]))
        for field in closed.fields
        if field.is_category and field.name not in incomplete
    }


def _closed(field: Field, found: Discovered, shaped: Mapping[str, Shaped], with_other: set[str]) -> Field:
    """The closed field that discovery makes of a field."""
    if field.open_number is not None:
        return field.open_number.completed(shaped[field.name].field)
    if not field.finds_labels:
        return field
    labels = _typed([value for value in found.of(field.name) if isinstance(value, str)])
    if field.is_set and not labels:
        raise BudgetError(
            f"no item of {field.name!r} is held by enough records to be published at this epsilon and delta; list"
            " the items in a domain, or use a larger epsilon (the budget of this fit is spent)."
        )
    return field.with_labels(labels, other=field.name in with_other)


def _typed(labels: Sequence[str]) -> tuple[Label, ...]:
    """Published labels in ascending order: as whole numbers if all of them are, else as texts."""
    if labels and all(_INTEGER.fullmatch(label) and label != "-0" for label in labels):
        return tuple(sorted(int(label) for label in labels))
    return tuple(sorted(labels))
