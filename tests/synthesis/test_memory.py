"""The formulae for the memory of a fit; benchmarks/large_fit.py compares them with whole fits."""

import inspect

import pytest

from dpgm.data.domain import Categorical, Domain, Image
from dpgm.data.records import Records
from dpgm.errors import ResourceError
from dpgm.strategy.settings import Config
from dpgm.synthesis import memory
from dpgm.synthesis.memory import memory_of_fit
from dpgm.synthesis.plan import make_plan
from dpgm.synthesis.synthesizer import Synthesizer

CALLS = Domain.of_items(1303)
TABLE = Domain(tuple(Categorical(f"c{number}", tuple(range(6))) for number in range(9)))
PICTURES = Domain((Image("image", 28, 28),))


def of(model, records, domain=CALLS, clusters=None, **more):
    return memory_of_fit(make_plan(Config(1.0, None, clusters, model), records, domain), domain, **more)


@pytest.mark.parametrize(
    ("model", "domain"),
    [
        ("products", CALLS),
        ("products", TABLE),
        ("products", Domain.of_items(12)),
        ("trees", TABLE),
        ("vae", CALLS),
        ("rbm", CALLS),
        ("independent", CALLS),
        ("mwem", Domain.of_items(300)),
        ("image", PICTURES),
    ],
)
def test_more_records_take_more_memory_in_every_family(model, domain):
    clusters = 1 if model in ("vae", "rbm") else None
    assert 0 < of(model, 10**5, domain, clusters) < of(model, 10**7, domain, clusters)


def test_rows_beyond_the_limit_do_not_count_and_processes_share_them():
    whole = of("products", 10**8)
    shared = of("products", 10**8, processes=4)
    assert of("products", 10**8, limit=10**9) <= 10**9
    fixed = of("products", 10**8, limit=1)  # no rows
    assert whole - fixed == pytest.approx(4 * (shared - fixed), rel=0.01)
    assert of("products", 10**8, grouped=True) > whole


def test_a_fit_that_the_machine_has_no_memory_for_is_refused_before_anything_is_charged(monkeypatch):
    pages = {"SC_PHYS_PAGES": 250_000, "SC_PAGE_SIZE": 4096}  # 1 GB
    monkeypatch.setattr(memory.os, "sysconf", pages.get)
    wide, records = Domain.of_items(300_000), Records.from_lists([[0]] * 300, Domain.of_items(300_000))
    memory.check_memory(make_plan(Config(1.0), 300, CALLS), CALLS)
    for model in ("products", "vae"):
        clusters = 10 if model == "vae" else None
        with pytest.raises(
            ResourceError, match=r"needs about .* GB and this machine has 1\.0; use a smaller domain"
        ):
            memory.check_memory(make_plan(Config(1.0, None, clusters, model), 300, wide), wide)
    with pytest.raises(ResourceError, match="this machine has"):
        Synthesizer(1.0).fit(records)


def test_the_memory_of_a_plan_without_a_domain_is_known():
    assert memory_of_fit(make_plan(Config(1.0), 10**5), None) > 0


def test_the_memory_depends_on_no_records():
    assert "Records" not in str(inspect.signature(memory_of_fit))
    assert set(inspect.signature(memory_of_fit).parameters) == {
        "plan", "domain", "limit", "processes", "grouped", "rules",
    }  # fmt: skip
