"""The privacy plan: every mechanism of a fit with its noise and budget share, fixed before any data is opened."""

import warnings
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, get_args

from dpgm import validation
from dpgm.data.domain import Domain
from dpgm.data.domain_file import DomainLike, as_domain, domain_to_plain
from dpgm.errors import ArtefactError, DpgmError, PrivacyWarning, UsageError
from dpgm.mechanisms.query import Measures
from dpgm.notebook import html_table
from dpgm.privacy.accountant import cost
from dpgm.privacy.calibration import LARGEST_PLANNED_NOISE, calibrate, gaussian_mu
from dpgm.privacy.certificate import read_mechanisms
from dpgm.privacy.events import Adjacency, Mechanism
from dpgm.privacy.strict_json import strict_json
from dpgm.strategy.discovery_rules import DiscoveryRules
from dpgm.strategy.protocol import Budget, FitPlan, PublicFacts
from dpgm.strategy.settings import Config, Preset, Settings, default_delta, from_plain
from dpgm.synthesis.domain_discovery import MEASURES as DISCOVERY
from dpgm.synthesis.domain_discovery import discovery_rules, with_discovery
from dpgm.synthesis.strategies import choose_strategy, strategy_of
from dpgm.validation import counted

PLAN_FORMAT = 2
MAX_PLAN_BYTES = 1_000_000
SAMPLED_ROWS = (
    "networks are trained on samples of rows, whose cost is proved for one row per person; use the default model, or"
    " merge the rows of a person."
)


@dataclass(frozen=True, repr=False)
class Plan(FitPlan):
    """What a fit may do, and what it will cost at most."""

    def __repr__(self) -> str:
        return (
            f"Plan({self.settings.model}, epsilon={self.epsilon:.4g}, delta={self.delta:.3g},"
            f" {counted(self.records, 'record')}, {counted(len(self.mechanisms), 'mechanism')})"
        )

    def _repr_html_(self) -> str:
        facts = [("model", self.settings.model), ("epsilon", f"{self.epsilon:.4g}"), ("delta", f"{self.delta:.3g}")]
        noises = [(f"noise of {one.name}", f"{one.noise:.4g} x {one.count}") for one in self.mechanisms]
        return html_table(f"Plan for {counted(self.records, 'record')}", [*facts, *noises])

    @property
    def _several_rows(self) -> dict[str, int]:
        """An extra entry in plans for several rows per person; other plans keep their original form."""
        return {} if self.rows_per_person == 1 else {"rows_per_person": self.rows_per_person}

    def to_json(self) -> dict[str, Any]:
        """Plain values; `from_json` reads them back exactly."""
        return {
            "format": PLAN_FORMAT,
            "target_epsilon": self.target_epsilon,
            "epsilon": self.epsilon,
            "delta": self.delta,
            "adjacency": str(self.adjacency),
            "records": self.records,
            "width": self.width,
            "settings": self.settings.to_json(),
            "mechanisms": [mechanism.to_json() for mechanism in self.mechanisms],
        } | self._several_rows

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> "Plan":
        """Read a plan; unknown or missing fields, or mechanisms that cost more than stated, are refused."""
        names = {field.name for field in fields(cls)} | {"format"}
        given = set(values) | {"rows_per_person"} if isinstance(values, dict) else set()
        if given != names:
            differing = ", ".join(sorted(given ^ names)) if given else "not an object"
            raise UsageError(
                f"the plan has unknown or missing fields ({differing}); make it again with `dpgm plan`."
            )
        if values["format"] != PLAN_FORMAT:
            raise UsageError(f"the plan has format {values['format']!r}; this version reads {PLAN_FORMAT}.")
        try:
            plan = cls(
                target_epsilon=float(values["target_epsilon"]),
                epsilon=float(values["epsilon"]),
                delta=float(values["delta"]),
                records=values["records"],
                width=values["width"],
                settings=read_settings(values["settings"]),
                mechanisms=read_mechanisms(values, "mechanisms", "the plan"),
                adjacency=Adjacency(values["adjacency"]),
                rows_per_person=values.get("rows_per_person", 1),
            )
        except ArtefactError as error:
            raise UsageError(f"{str(error).rstrip('.')}; make the plan again with `dpgm plan`.") from error
        except (TypeError, ValueError, KeyError) as error:
            raise UsageError("the plan has a field of the wrong kind; make it again with `dpgm plan`.") from error
        plan._check_values()
        return plan

    def _check_values(self) -> None:
        """Apply the rules of `make_plan` to a plan from an untrusted file."""
        validation.whole(records=self.records, at_least=1)
        validation.whole(rows_per_person=self.rows_per_person, at_least=1)
        if self.width is not None:
            validation.whole(width=self.width, at_least=1)
        validation.positive(epsilon=self.epsilon)
        with warnings.catch_warnings():  # they were shown when the plan was made
            warnings.simplefilter("ignore", PrivacyWarning)
            validation.budget(epsilon=self.target_epsilon, delta=self.delta, records=self.records)
        if self.adjacency is not Adjacency.ADD_REMOVE:
            raise UsageError("the plan's adjacency must be add-remove, under which fits are accounted; plan again.")
        if not self.mechanisms:
            raise UsageError("the plan has no mechanisms; make it again with `dpgm plan`.")
        if max(mechanism.noise for mechanism in self.mechanisms) > LARGEST_PLANNED_NOISE:
            raise UsageError(f"the plan has noise above {LARGEST_PLANNED_NOISE:g}; make it again with `dpgm plan`.")
        spent = cost(self.mechanisms, self.delta).epsilon
        if not spent <= self.epsilon * (1 + 1e-6) or not self.epsilon <= self.target_epsilon * (1 + 1e-6):
            raise UsageError(
                f"the plan asks for epsilon {self.target_epsilon:.4g} and says {self.epsilon:.4g}, but its mechanisms "
                f"cost {spent:.4g}; make it again."
            )

    def check_fits(self, records: int, domain: Domain) -> None:
        """Refuse data of another size than planned for, and mechanisms that such a fit does not run."""
        if records != self.records:
            raise UsageError(  # the number of records is public; of persons with several rows, those that are kept
                f"the plan is for {self.records:,} records and the data have {records:,}; plan again for {records}."
            )
        if self.width is not None and domain.width != self.width:
            raise UsageError(f"the plan is for a domain of width {self.width}, not {domain.width}; plan again.")
        runs = budget_of(self.settings, self.facts(domain)).runs
        sampled = any(run.sample is not None or run.sampling_rate < 1 for run in runs.values())
        if self.rows_per_person > 1 and sampled:
            raise UsageError(SAMPLED_ROWS)
        names = [mechanism.name for mechanism in self.mechanisms]
        for mechanism in self.mechanisms:
            if runs.get(mechanism.name) != replace(mechanism, noise=1.0) or names.count(mechanism.name) > 1:
                raise UsageError(
                    f"a fit of this domain does not run {mechanism.name!r} as the plan says; make the plan again with "
                    "the same `domain`."
                )

    def check_complete(self, domain: Domain) -> None:
        """Refuse a plan that lacks a mechanism which such a fit runs: its release would not verify."""
        known = None if self.width is None else domain
        for name in budget_of(self.settings, self.facts(known)).runs:
            if not self.pays_for(name):
                raise UsageError(f"the plan leaves out {name!r}, which such a fit runs; make the plan again.")

    def public_numbers(self, domain: Domain | None = None) -> dict[str, Any]:
        """The part of the plan that a certificate repeats, so that a reader can tell which mechanisms such a fit runs.

        A release has the domain as discovered; if the stated domain was open, it is repeated here.
        """
        numbers = {"target_epsilon": self.target_epsilon, "width": self.width, "settings": self.settings.to_json()}
        stated = {} if domain is None or not domain.is_open else {"domain": domain_to_plain(domain)}
        return numbers | stated | self._several_rows


def budget_of(settings: Settings, facts: PublicFacts) -> Budget:
    """What a fit pays for: discovery, if the domain is open, and the family with the rest of the budget."""
    try:
        budget = strategy_of(settings.model).budget(facts, settings.family)
        spends = with_discovery(facts.domain, budget.spends, facts.delta, settings.discovery)
        budget = replace(budget, spends=spends)
    except DpgmError:
        raise
    except (ArithmeticError, LookupError, ValueError) as error:  # rules of an untrusted file
        raise UsageError("the plan's rules make no sense; make the plan again.") from error
    return budget


def choose_settings(config: Config, facts: PublicFacts) -> Settings:
    """All settings of a fit, from the request and public numbers."""
    strategy = choose_strategy(config, facts.domain)
    return Settings(strategy.name, config.preset, strategy.settings(config, facts), discovery_rules(facts.domain))


def read_settings(values: Any) -> Settings:
    """The inverse of `Settings.to_json`; unknown or missing names and values out of range are refused."""
    if not isinstance(values, dict) or set(values) != {"model", "preset", "family", "discovery"}:
        raise UsageError("the plan's settings do not match this version of dpgm; make the plan again.")
    validation.one_of(get_args(Preset), preset=values["preset"])
    strategy = strategy_of(values["model"])
    family = from_plain(strategy.settings_type, values["family"], "settings")
    family.check()
    found = values["discovery"]
    discovery = None if found is None else from_plain(DiscoveryRules, found, "discovery rules")
    if discovery is not None:
        discovery.check()
    return Settings(strategy.name, values["preset"], family, discovery)


def make_plan(config: Config, records: int, domain: DomainLike | None = None) -> Plan:
    """Choose every setting and noise multiplier from public numbers.

    Args:
        config: the request.
        records: the public number of records N.
        domain: the public domain, or a mapping or file that describes it; None plans for a wide item set of unknown
            width.
    """
    validation.whole(records=records, at_least=1)
    domain = as_domain(domain)
    delta = default_delta(records) if config.delta is None else config.delta
    validation.budget(epsilon=config.epsilon, delta=delta, records=records)
    facts = PublicFacts(domain, records, config.epsilon, delta, config.rows_per_person)
    settings = choose_settings(config, facts)
    budget = budget_of(settings, facts)
    if config.rows_per_person > 1 and budget.training is not None:
        raise UsageError(SAMPLED_ROWS)
    mechanisms = calibrate(config.epsilon, delta, budget.spends, budget.training)
    if max(mechanism.noise for mechanism in mechanisms) > LARGEST_PLANNED_NOISE:
        raise UsageError(
            f"nothing can be learned at epsilon {config.epsilon:g} and delta {delta:g}: the noise would exceed "
            f"{LARGEST_PLANNED_NOISE:g}; ask for a larger epsilon or delta."
        )
    return Plan(
        target_epsilon=config.epsilon,
        epsilon=cost(mechanisms, delta).epsilon,
        delta=delta,
        records=records,
        width=None if domain is None else domain.width,
        settings=settings,
        mechanisms=mechanisms,
        rows_per_person=config.rows_per_person,
    )


def read_plan(path: Path) -> Plan:
    """Read a plan file."""
    try:
        if path.stat().st_size > MAX_PLAN_BYTES:
            raise UsageError(f"{path} is too large to be a plan.")
        values = strict_json(path.read_text("utf-8"), "the plan")
    except ArtefactError as error:
        raise UsageError(f"{path}: {str(error).rstrip('.')}; make it again with `dpgm plan --out`.") from error
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} cannot be read as a plan (JSON); make it with `dpgm plan --out`.") from error
    return Plan.from_json(values)


def budget_shares(plan: Plan) -> dict[str, float]:
    """Each mechanism's share of the budget, in mu²; sampled steps get what the releases on all records leave."""
    full = {m.name: m.count / m.noise**2 for m in plan.mechanisms if m.sampling_rate == 1.0 and m.sample is None}
    sampled = {m.name: 1 / m.noise**2 for m in plan.mechanisms if m.name not in full}
    total = gaussian_mu(plan.epsilon, plan.delta) ** 2 if sampled else sum(full.values())
    rest = max(0.0, 1 - sum(full.values()) / total)
    return {name: value / total for name, value in full.items()} | {
        name: rest * value / sum(sampled.values()) for name, value in sampled.items()
    }


def describe(plan: Plan, mechanism: Mechanism) -> Measures:
    """The stage of a mechanism, what it measures and its sensitivity, in words."""
    return in_words(plan.settings.model, mechanism)


def expectations(plan: Plan, domain: Domain | None) -> tuple[str, ...]:
    """What the fit will measure, how well, and what will be lost, in sentences; public numbers only."""
    return () if domain is None else strategy_of(plan.settings.model).expectations(plan, domain)


def in_words(model: str, mechanism: Mechanism) -> Measures:
    """The same for a fit of a family; raises LookupError if no such fit runs the mechanism."""
    if mechanism.name in DISCOVERY:
        return DISCOVERY[mechanism.name]
    return strategy_of(model).measures[mechanism.name]
