import json
import warnings
from dataclasses import replace

import pytest

from dpgm.data.domain import Categorical, Domain, ItemSet, Numeric
from dpgm.errors import PrivacyWarning, UsageError
from dpgm.networks.presets import start_frequencies
from dpgm.networks.rules import NETWORK_RULES
from dpgm.privacy.accountant import cost
from dpgm.strategy.discovery_rules import DiscoveryRules
from dpgm.strategy.protocol import PublicFacts
from dpgm.strategy.settings import Config
from dpgm.synthesis.plan import Plan, budget_shares, choose_settings, describe, make_plan, read_plan, read_settings
from synthesis_data import IMAGES, SETS, TABLE


def settings_for(config, domain, records):
    return choose_settings(config, PublicFacts(domain, records, config.epsilon, 1 / (10 * records)))


@pytest.mark.parametrize("epsilon", [0.3, 1.0, 8.0])
@pytest.mark.parametrize(
    ("model", "clusters", "domain"),
    [("auto", None, SETS), ("auto", None, TABLE), ("auto", None, IMAGES), ("vae", 3, SETS), ("rbm", 1, SETS)],
)
def test_a_plan_costs_what_it_says_and_at_most_what_was_asked(epsilon, model, clusters, domain):
    plan = make_plan(Config(epsilon, model=model, clusters=clusters), 20_000, domain)
    spent = cost(plan.mechanisms, plan.delta).epsilon
    assert spent == pytest.approx(plan.epsilon)
    assert 0.995 * epsilon <= plan.epsilon <= epsilon
    assert sum(budget_shares(plan).values()) == pytest.approx(1, abs=0.02)


def test_a_plan_reads_back_exactly(tmp_path):
    plan = make_plan(Config(1.0), 5000, SETS)
    path = tmp_path / "plan.json"
    path.write_text(json.dumps(plan.to_json()))
    assert read_plan(path) == plan


@pytest.mark.parametrize(
    "spoil",
    [
        lambda plan: plan | {"extra": 1},
        lambda plan: {k: v for k, v in plan.items() if k != "delta"},
        lambda plan: plan | {"format": 1},
        lambda plan: plan | {"epsilon": 0.5},
        lambda plan: plan | {"records": 0},
        lambda plan: plan | {"mechanisms": [{"name": "x"}]},
        lambda plan: plan | {"mechanisms": [dict(plan["mechanisms"][0], noise=-1.0)]},
        lambda plan: plan | {"mechanisms": [dict(plan["mechanisms"][0], noise=1e308)]},
        lambda plan: plan | {"mechanisms": [dict(plan["mechanisms"][0], name=[])]},
        lambda plan: plan | {"mechanisms": [dict(plan["mechanisms"][0], sample={"a": 1})]},
        lambda plan: plan | {"settings": {"model": "products"}},
    ],
)
def test_a_spoiled_plan_is_refused(spoil):
    plan = make_plan(Config(1.0), 5000, SETS).to_json()
    with pytest.raises(UsageError):
        Plan.from_json(spoil(plan))


def test_a_plan_for_other_data_is_refused():
    plan = make_plan(Config(1.0), 5000, SETS)
    with pytest.raises(UsageError, match="5,000 records"):
        plan.check_fits(5001, SETS)
    with pytest.raises(UsageError, match="width"):
        plan.check_fits(5000, Domain.of_items(99))


@pytest.mark.parametrize("text", ["", "[1]", "{", '{"a": 1, "a": 2}', "[" * 100_000])
def test_a_file_that_is_no_plan_gives_one_sentence(tmp_path, text):
    path = tmp_path / "plan.json"
    path.write_text(text)
    with pytest.raises(UsageError):
        read_plan(path)


@pytest.mark.parametrize("epsilon", [0, -1, float("nan"), float("inf"), "1"])
def test_a_senseless_epsilon_is_refused(epsilon):
    with pytest.raises(UsageError, match="epsilon"):
        Config(epsilon)


def test_a_weak_delta_is_refused_or_warned_of():
    with pytest.raises(UsageError, match="delta"):
        make_plan(Config(1.0, delta=0.01), 1000, SETS)
    with pytest.warns(PrivacyWarning, match="delta"):
        make_plan(Config(1.0, delta=0.0005), 1000, SETS)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        make_plan(Config(1.0, delta=0.0001), 1000, SETS)


def test_the_paper_preset_uses_the_papers_choices():
    chosen = settings_for(Config(1.74, preset="paper"), SETS, 60_000)
    settings = chosen.family
    assert (chosen.model, settings.clusters, settings.cluster_steps, settings.latent) == ("vae", 10, 20, 2)
    assert settings.steps * settings.sampling_rate == pytest.approx(20, rel=0.01)
    assert settings.norm_quantile is None
    assert not settings.warm_start
    assert settings_for(Config(1.0, preset="paper"), SETS, 1_200_000).family.steps == NETWORK_RULES.paper_most_steps
    rbm = settings_for(Config(1.0, preset="paper", model="rbm", clusters=4), SETS, 60_000).family
    assert (rbm.optimizer, rbm.learning_rate) == ("sgd", 0.0025)
    with pytest.raises(UsageError, match="paper"):
        settings_for(Config(1.0, preset="paper", model="products"), SETS, 100)


@pytest.mark.parametrize("domain", [SETS, TABLE], ids=["sets", "table"])
def test_networks_pay_for_the_statistics_they_are_refined_to(domain):
    split = budget_shares(make_plan(Config(1.0, model="vae", clusters=3), 20_000, domain))
    measured = (
        "record lengths",
        "item counts",
        "scaled item counts",
        "popular lengths",
        "pair counts",
        "triple counts",
        "quadruple counts",
    )
    assert split["pair counts"] > 0.1
    assert sum(split.get(name, 0) for name in measured) == pytest.approx(0.84, abs=0.01)
    assert split["norms"] + split["gradients"] == pytest.approx(0.1, abs=0.01)


def test_no_other_networks_are_refined():
    for config, domain in (
        (Config(1.0, model="vae", preset="paper"), SETS),  # the paper knows no refinement
        (Config(1.0, model="rbm"), SETS),
        (Config(1.0, model="vae"), IMAGES),
    ):
        assert not make_plan(config, 20_000, domain).pays_for("pair counts")


def test_auto_chooses_by_the_domain_alone():
    assert settings_for(Config(1.0), IMAGES, 100).model == "image"
    assert settings_for(Config(1.0), SETS, 100).model == "products"
    assert settings_for(Config(1.0), None, 100).model == "products"
    with pytest.raises(UsageError, match="image"):
        settings_for(Config(1.0, model="image"), SETS, 100)


def test_every_mechanism_of_a_plan_is_described():
    for config in (
        *(Config(1.0, model=model) for model in ("auto", "independent", "mwem")),
        Config(1.0, model="vae", clusters=4),
    ):
        plan = make_plan(config, 20_000, SETS)
        for mechanism in plan.mechanisms:
            stage, measures, sensitivity = describe(plan, mechanism)
            assert stage in ("profile", "cluster", "profiles", "train", "measure")
            assert measures != mechanism.name
            assert sensitivity != "bounded"


def test_settings_round_trip():
    settings = settings_for(Config(1.0, model="vae"), SETS, 60_000)
    assert read_settings(json.loads(json.dumps(settings.to_json()))) == settings


def test_a_stated_mean_length_is_part_of_the_plan_and_there_is_always_one_for_networks():
    stated = make_plan(Config(1.0, model="vae", clusters=1, preset="paper", mean_length=3.0), 20_000, SETS)
    assert stated.settings.family.mean_length == 3.0
    assert Plan.from_json(stated.to_json()) == stated
    assert settings_for(Config(1.0, model="rbm"), SETS, 20_000).family.mean_length == NETWORK_RULES.items_per_record
    assert settings_for(Config(1.0, model="vae"), IMAGES, 20_000).family.mean_length == pytest.approx(
        NETWORK_RULES.pixels_on * 64
    )
    columns = Domain((Categorical("region", ("n", "s")),))
    assert settings_for(Config(1.0, model="vae"), columns, 20_000).family.mean_length is None
    with pytest.raises(UsageError, match="mean_length"):
        settings_for(Config(1.0, mean_length=3.0), SETS, 20_000)
    with pytest.raises(UsageError, match="mean_length"):
        Config(1.0, mean_length=0.0)


def test_start_frequencies_add_up_to_the_stated_mean_length():
    assert start_frequencies(SETS, 3.0).sum() == pytest.approx(3.0)
    mixed = start_frequencies(IMAGES, 10.0)
    assert mixed[:64].sum() == pytest.approx(10.0)
    assert mixed[64:] == pytest.approx(1 / 3)
    assert start_frequencies(SETS, 100.0).max() == 0.5


def open_plan():
    domain = Domain((ItemSet("items", discover=True), Numeric("age", "discover", "discover")))
    return make_plan(Config(epsilon=1.0), 1000, domain), domain


def test_the_rules_of_discovery_are_in_plans_of_open_domains_alone():
    plan, domain = open_plan()
    assert plan.to_json()["settings"]["discovery"]["items_share"] == DiscoveryRules().items_share
    assert make_plan(Config(epsilon=1.0), 1000, Domain.of_items(5)).settings.discovery is None
    without = replace(plan, settings=replace(plan.settings, discovery=None))
    with pytest.raises(UsageError, match="same `domain`"):
        without.check_fits(1000, domain)


def test_a_plan_with_other_rules_of_discovery_is_read_or_refused():
    plan, _ = open_plan()
    values = json.loads(json.dumps(plan.to_json()))
    values["settings"]["discovery"]["items_cap"] = 3
    assert Plan.from_json(values).settings.discovery == replace(plan.settings.discovery, items_cap=3)
    for wrong in (-1, "many", None):
        values["settings"]["discovery"]["items_cap"] = wrong
        with pytest.raises(UsageError, match="make"):
            Plan.from_json(values)
