"""Small data, plans and interrupted fits shared by the synthesis tests."""

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np

from dpgm.baselines.rules import BaselineSettings, MwemSettings
from dpgm.data.domain import Categorical, Domain, Image, ItemSequence, ItemSet, Numeric
from dpgm.data.events import Events
from dpgm.data.records import Records, concatenate
from dpgm.images.rules import IMAGE_RULES as IMAGE_RULES
from dpgm.images.rules import ImageSettings
from dpgm.networks.planning import refines
from dpgm.networks.rules import NETWORK_RULES as NETWORK_RULES
from dpgm.networks.rules import NetworkSettings
from dpgm.networks.vae import VAE
from dpgm.privacy.accountant import cost
from dpgm.privacy.calibration import calibrate
from dpgm.privacy.events import Mechanism
from dpgm.products.rules import PRODUCT_RULES, ProductSettings
from dpgm.sequences.rules import SEQUENCE_RULES, SequenceSettings
from dpgm.strategy.protocol import PublicFacts
from dpgm.strategy.settings import Config, Settings, default_delta
from dpgm.synthesis.plan import Plan, choose_settings
from dpgm.synthesis.strategies import strategy_of
from dpgm.trees.rules import TREE_RULES, TreeSettings

# A few steps are enough to run everything once.
SHORT = replace(
    PRODUCT_RULES,
    fit=replace(
        PRODUCT_RULES.fit,
        steps=8,
        steps_narrow=8,
        steps_table=8,
        components=10,
        components_wide=10,
        least_components=10,
        least_affordable=10,
    ),
)
FEW_IMAGES = replace(IMAGE_RULES, fit=replace(IMAGE_RULES.fit, steps=4, least_images=3, most_images=3))

# Sequences: small pools, few components and few iterations.
FEW_CHAINS = replace(
    SEQUENCE_RULES,
    measure=replace(SEQUENCE_RULES.measure, run_noise=0.0, most_scaled=0.9),
    mixture=replace(SEQUENCE_RULES.mixture, components=3, iterations=2),
    pool=replace(
        SEQUENCE_RULES.pool,
        first=50,
        least=300,
        least_before=200,
        small_least=300,
        ranked_least=300,
        tilt=replace(SEQUENCE_RULES.pool.tilt, iterations=5),
    ),
    draw=replace(SEQUENCE_RULES.draw, least=100),
)

FEW_PLACES = replace(
    FEW_CHAINS,
    places=replace(FEW_CHAINS.places, most_items=4, ranks=3, components=2, iterations=2),
    pool=replace(FEW_CHAINS.pool, small_least=300, small_most=300, ranked_least=300, more_rounds=0),
)
FEW_SAMPLES = replace(NETWORK_RULES, pretraining_samples=(100, 100), pretraining_passes=5)

SHORT_TREES = replace(
    TREE_RULES,
    pairs=replace(TREE_RULES.pairs, likely_rows=200),
    base=replace(TREE_RULES.base, rows=300, edge_iterations=3, components=2, components_alone=3, steps=3),
    pool=replace(TREE_RULES.pool, least=400, per_record=1.0),
    tilt=replace(TREE_RULES.tilt, iterations=4),
)

SETS = Domain.of_items(12)
COLUMNS = Domain(
    (
        Categorical("region", ("n", "s", "w")),
        Numeric("age", 0, 100, 5, integer=True, missing=True),
        Categorical("smokes", ("no", "yes")),
    ),
    label="smokes",
)
TABLE = Domain(
    (
        ItemSet("bought", tuple("abcdef")),
        Categorical("region", ("n", "s", "w")),
        Numeric("age", 0, 100, 5, integer=True),
    )
)
CLICKS = Domain((ItemSequence("clicks", tuple("abcde"), max_length=30),))
TRAVELLERS = Domain(
    (
        Categorical("card", ("day", "year")),
        ItemSequence("trips", tuple("abcde"), max_length=30, time=True, start="2024-03-01 06:00", end="2024-03-12"),
        Numeric("age", 0, 100, 20),
    )
)
VISITORS = Domain(
    (
        ItemSequence("visits", tuple("abcdefgh"), max_length=12),
        Categorical("card", ("day", "year")),
        Categorical("zone", ("a", "b")),
    )
)
IMAGES = Domain((Image("image", 8, 8), Categorical("label", (0, 1, 2))), label="label")
# Settings of networks that start from statistics of such images, one network per label.
BY_LABEL = {"clusters": 3, "sampling_rate": 0.3, "images": ImageSettings(rules=FEW_IMAGES)}


def some_records(domain: Domain, count: int, seed: int = 0) -> Records:
    """Random records of any domain: items of decreasing popularity, one value per column."""
    rng = np.random.default_rng(seed)
    if domain.sequence is not None:
        return some_sequences(domain, count, rng)
    rows = []
    for _ in range(count):
        row: list[int] = []
        for block in domain.blocks:
            if block.softmax:
                row.append(block.start + int(rng.integers(block.width)))
            else:
                chance = 0.6 / (1 + np.arange(block.width)) + 0.05
                row += (block.start + np.flatnonzero(rng.random(block.width) < chance)).tolist()
        rows.append(row)
    return Records.from_lists(rows, domain)


def some_sequences(domain: Domain, count: int, rng: np.random.Generator) -> Records:
    """Random walks over the items, of many lengths, and a random value of every attribute."""
    sequence = domain.sequence
    assert sequence is not None
    rows = []
    for length in np.minimum(rng.geometric(0.2, count) - 1, sequence.max_length):
        walk = rng.integers(0, 3, length).cumsum() + rng.integers(sequence.width)
        rows.append((walk % sequence.width).tolist())
    positions = [
        [block.start + int(rng.integers(block.stop - block.start)) for block in domain.table_columns] for _ in rows
    ]
    times = (
        [np.sort(rng.integers(0, sequence.minutes, len(row))).tolist() for row in rows] if sequence.time else None
    )
    events = Events.from_lists(rows, sequence.width, times)
    return Records.of_events(events, domain, Records.from_lists(positions, domain))


def one_record(domain: Domain, positions: list[int]) -> Records:
    """A record that holds these positions; where there is a sequence, each of its items comes twice."""
    if domain.sequence is None:
        return Records.from_lists([positions], domain)
    block = domain.blocks[domain.fields.index(domain.sequence)]
    items = [at - block.start for at in positions if block.start <= at < block.stop]
    events = Events.from_lists([items * 2], block.width)
    return Records.of_events(events, domain, Records.from_lists([positions], domain))


def tiny_plan(model: str, domain: Domain, records: int, **settings: object) -> Plan:
    """A plan with a few steps and multipliers that are not calibrated, for fast tests."""
    if model in ("independent", "mwem", "trees", "sequences"):
        own = {
            "mwem": MwemSettings(iterations=3),
            "trees": TreeSettings(SHORT_TREES),
            "sequences": SequenceSettings(FEW_CHAINS),
        }
        baseline = own.get(model, BaselineSettings())
        runs = strategy_of(model).budget(PublicFacts(domain, records, 1.0, 1e-5), baseline).runs
        counts = tuple(Mechanism(name, 4.0, run.count) for name, run in runs.items())
        return Plan(99.0, 99.0, 1e-5, records, domain.width, Settings(model, family=baseline), counts)
    few = {"products": SHORT, "steps": 6, "cluster_steps": 2, "features": 8, "hidden": (5,), "latent": 2}
    few |= {"rules": FEW_SAMPLES}
    chosen = NetworkSettings(**(few | settings))  # type: ignore[arg-type]
    mechanisms = [Mechanism("record lengths", 8.0), Mechanism("item counts", 4.0)]
    if model == "products" or (model == "vae" and refines(VAE, domain, chosen)):
        mechanisms += [Mechanism("pair counts", 4.0)]
        if model == "vae" and not any(block.softmax for block in domain.blocks):
            mechanisms += [Mechanism("scaled item counts", 4.0)]
    refined = len(mechanisms) > 2
    if model == "image" or chosen.images is not None:
        mechanisms = [Mechanism("class sizes", 5.0), Mechanism("mean embedding", 5.0)]
    if model in ("vae", "rbm"):
        if chosen.clusters > 1 and chosen.images is None:
            mechanisms += [
                Mechanism("cluster counts", 8.0, 2),
                Mechanism("cluster sums", 4.0, 2),
                Mechanism("cluster sizes", 10.0),
            ]
            mechanisms += [] if refined else [Mechanism("cluster profiles", 10.0)]
        q = chosen.sampling_rate
        mechanisms += [Mechanism("norms", 6.0, 6, q, "step"), Mechanism("gradients", 1.3, 6, q, "step")]
    family = {"products": ProductSettings(SHORT), "image": ImageSettings(rules=FEW_IMAGES)}.get(model, chosen)
    return Plan(99.0, 99.0, 1e-5, records, domain.width, Settings(model, family=family), tuple(mechanisms))


def small_plan(config: Config, records: Records, **family: object) -> Plan:
    """The plan of a request, with some settings of its family replaced."""
    delta = default_delta(len(records)) if config.delta is None else config.delta
    facts = PublicFacts(records.domain, len(records), config.epsilon, delta)
    settings = choose_settings(config, facts)
    settings = replace(settings, family=replace(settings.family, **family))  # type: ignore[arg-type]
    budget = strategy_of(settings.model).budget(facts, settings.family)
    mechanisms = calibrate(config.epsilon, delta, budget.spends, budget.training)
    spent = cost(mechanisms, delta).epsilon
    return Plan(config.epsilon, spent, delta, len(records), records.width, settings, mechanisms)


def with_one_more(records: Records, row: list[int]) -> Records:
    """The records and one more."""
    return concatenate([records, Records.from_lists([row], records.domain)])


class KilledError(Exception):
    """Stands for a process that is killed."""


def stop_at(stage: str, count: int):
    """A progress callback that ends a fit once `count` units of a stage are done."""

    def progress(name: str, done: int, total: int) -> None:
        if name == stage and done >= count:
            raise KilledError

    return progress


def start_process(file: str, *arguments: object) -> subprocess.Popen[bytes]:
    """Run a test module as a script in a process of its own, which can import what tests import."""
    paths = os.pathsep.join([str(Path(__file__).parent), *sys.path])
    environment = os.environ | {"PYTHONPATH": paths, "OMP_NUM_THREADS": "1"}
    return subprocess.Popen([sys.executable, file, *map(str, arguments)], env=environment)
