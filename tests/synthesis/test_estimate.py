"""The formulae that estimate time and memory of a fit; benchmarks/large_fit.py measures how accurate they are."""

import inspect
import math
from dataclasses import replace

import pytest

from dpgm.data.domain import Categorical, Domain, Image
from dpgm.data.records import Records
from dpgm.errors import ResourceError
from dpgm.strategy.rules import COST_RULES
from dpgm.strategy.settings import Config
from dpgm.synthesis import estimate
from dpgm.synthesis.estimate import Estimate, estimate_fit
from dpgm.synthesis.plan import make_plan
from dpgm.synthesis.synthesizer import Synthesizer

CALLS = Domain.of_items(1303)
TABLE = Domain(tuple(Categorical(f"c{number}", tuple(range(6))) for number in range(9)))
PICTURES = Domain((Image("image", 28, 28),))


def of(model, records, domain=CALLS, clusters=None, **more):
    plan = make_plan(Config(1.0, None, clusters, model), records, domain)
    return estimate_fit(plan, domain, 1.0, **more)


@pytest.mark.parametrize(
    ("model", "domain"),
    [
        ("products", CALLS),
        ("products", TABLE),
        ("products", Domain.of_items(12)),
        ("vae", CALLS),
        ("rbm", CALLS),
        ("independent", CALLS),
        ("mwem", Domain.of_items(300)),
        ("image", PICTURES),
    ],
)
def test_more_records_take_longer_and_more_memory_for_every_family(model, domain):
    clusters = 1 if model in ("vae", "rbm") else None
    few, many = (of(model, records, domain, clusters) for records in (10**5, 10**7))
    assert 0 < few.seconds < many.seconds
    assert 0 < few.memory < many.memory


def test_time_without_records_does_not_depend_on_their_number():
    ten, hundred = of("products", 10**7), of("products", 10**8)
    items = math.sqrt(1303) / 3  # as the domain suggests
    record = (
        COST_RULES.per_record + COST_RULES.counted_record + items * (COST_RULES.per_item + COST_RULES.counted_item)
    )
    assert hundred.seconds - ten.seconds == pytest.approx(9 * 10**7 * record)


def test_training_time_depends_on_sampled_records_and_on_parameters_of_all_models():
    # 2,000 steps that each sample a hundredth of the records: every record is sampled 20 times.
    small, large = of("vae", 10**6, clusters=1), of("vae", 2 * 10**6, clusters=1)
    sampled = 20 * 10**6 * (COST_RULES.vae_record + COST_RULES.vae_cell * 1303 * 200)
    assert large.seconds - small.seconds == pytest.approx(sampled, rel=0.05)
    assert (
        of("vae", 10**6, clusters=10).seconds > small.seconds + 9 * 2000 * COST_RULES.vae_parameter * 2 * 1303 * 200
    )


def test_a_machine_of_twice_the_speed_takes_half_the_time_and_the_same_memory():
    plan = make_plan(Config(1.0), 10**6, CALLS)
    one, two = (estimate_fit(plan, CALLS, speed) for speed in (1.0, 2.0))
    assert two.seconds == pytest.approx(one.seconds / 2)
    assert two.memory == one.memory


def test_rows_beyond_the_limit_do_not_count_and_processes_share_them():
    whole, limited, shared = (
        of("products", 10**8),
        of("products", 10**8, memory=10**9),
        of("products", 10**8, processes=4),
    )
    assert limited.memory <= 10**9
    fixed = of("products", 10**8, memory=1).memory  # no rows
    assert whole.memory - fixed == pytest.approx(4 * (shared.memory - fixed), rel=0.01)
    assert of("products", 10**8, grouped=True).memory > whole.memory
    assert shared.seconds < whole.seconds


def test_a_fit_that_the_machine_has_no_memory_for_is_refused_before_anything_is_charged(monkeypatch):
    pages = {"SC_PHYS_PAGES": 250_000, "SC_PAGE_SIZE": 4096}  # 1 GB
    monkeypatch.setattr(estimate.os, "sysconf", pages.get)
    wide, records = Domain.of_items(300_000), Records.from_lists([[0]] * 300, Domain.of_items(300_000))
    estimate.check_memory(make_plan(Config(1.0), 300, CALLS), CALLS)
    for model in ("products", "vae"):
        with pytest.raises(
            ResourceError, match=r"needs about .* GB and this machine has 1\.0; use a smaller domain"
        ):
            estimate.check_memory(
                make_plan(Config(1.0, None, 10 if model == "vae" else None, model), 300, wide), wide
            )
    with pytest.raises(ResourceError, match="this machine has"):
        Synthesizer(1.0).fit(records)


def test_a_plan_without_a_domain_has_an_estimate():
    plan = make_plan(Config(1.0), 10**5)
    assert estimate_fit(plan, None, 1.0).seconds > 0


@pytest.mark.parametrize(
    ("seconds", "memory", "text"),
    [
        (0.2, 4e8, "about 1 second, 400 MB"),
        (59, 1.26e9, "about 59 seconds, 1.3 GB"),
        (120, 2e9, "about 2 minutes, 2.0 GB"),
        (150, 2e9, "about 2.5 minutes, 2.0 GB"),
        (720, 2e9, "about 12 minutes, 2.0 GB"),
        (7200, 64e9, "about 2 hours, 64.0 GB"),
    ],
)
def test_estimates_as_text(seconds, memory, text):
    assert str(Estimate(seconds, int(memory))) == text


def test_the_estimate_depends_on_no_records():
    assert "Records" not in inspect.signature(estimate_fit).__str__()
    assert set(inspect.signature(estimate_fit).parameters) == {
        "plan", "domain", "speed", "memory", "processes", "grouped", "rules",
    }  # fmt: skip


def test_the_speed_is_relative_to_the_rules(monkeypatch):
    clock = iter(range(1000))
    monkeypatch.setattr(estimate.time, "perf_counter", lambda: next(clock) * 0.5)
    rules = replace(COST_RULES, probe_seconds=2.0, probe_rounds=3)
    assert estimate.machine_speed(rules) == pytest.approx(4.0)
