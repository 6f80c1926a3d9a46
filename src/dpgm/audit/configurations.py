"""What is audited, as data: for every family of generators tiny public records, a canary and a plan.

The canary holds values that no other record holds, so part of every released sum belongs to it alone, and it moves
every sum by nearly its sensitivity. Noise multipliers are chosen for an epsilon between 3 and 7, where guesses are
right often enough to be measured with some hundred fits, but not always. Plans ask for short fits to the released
values: these are post-processing.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import pyarrow

from dpgm.baselines.rules import MwemSettings
from dpgm.data.domain import Categorical, Domain, Image, ItemSequence, ItemSet, Numeric
from dpgm.data.events import Events
from dpgm.data.layouts import Source
from dpgm.data.read.frames import read_frame
from dpgm.data.records import Records, concatenate
from dpgm.images.rules import IMAGE_RULES as IMAGE_RULES
from dpgm.images.rules import ImageSettings
from dpgm.networks.rules import NetworkSettings
from dpgm.privacy.accountant import cost
from dpgm.products.rules import PRODUCT_RULES as PRODUCT_RULES
from dpgm.products.rules import ProductRules, ProductSettings
from dpgm.sequences.rules import SEQUENCE_RULES, SequenceRules, SequenceSettings
from dpgm.strategy.discovery_rules import DiscoveryRules
from dpgm.strategy.protocol import PublicFacts
from dpgm.strategy.settings import Settings
from dpgm.synthesis.plan import Plan, budget_of
from dpgm.trees.rules import TREE_RULES, TreeSettings

DELTA = 1e-5
RECORDS_PER_FIT = 24  # without the canary
PLANNED_EPSILON = 4.0  # for choosing statistics; the noise below decides what a fit costs
MU = 1.2  # of a Gaussian mechanism: the plans below cost this much, in equal shares, unless they say otherwise
OPEN_RECORDS = 60  # where values are discovered: common ones must pass the threshold
# Rules of products for short fits, and rules by which triples and quadruples are worth measuring in tiny data.
SHORT = replace(
    PRODUCT_RULES,
    fit=replace(
        PRODUCT_RULES.fit,
        steps=2,
        steps_narrow=2,
        steps_table=2,
        fits_table=1,
        profile_rounds=1,
        components=4,
        components_wide=4,
        least_components=2,
        least_affordable=2,
    ),
    enumerated=replace(PRODUCT_RULES.enumerated, rounds=(2, 2)),
    bound=replace(PRODUCT_RULES.bound, likely_records=200, candidates=10),
    read=replace(PRODUCT_RULES.read, shrink=replace(PRODUCT_RULES.read.shrink, rounds=3)),
)
LARGER_SETS = replace(SHORT, sanity=1.0)
SHORT_TREES = replace(
    TREE_RULES,
    pairs=replace(TREE_RULES.pairs, likely_rows=100, least_groups=0.0),
    base=replace(TREE_RULES.base, rows=100, edge_iterations=1, components=2, steps=1),
    pool=replace(TREE_RULES.pool, least=100, per_record=1.0),
    tilt=replace(TREE_RULES.tilt, iterations=1),
)
FEW_FEATURES = replace(IMAGE_RULES.embedding, features=60, least_frequencies=10)
SHORT_IMAGES = replace(
    IMAGE_RULES,
    embedding=FEW_FEATURES,
    fit=replace(
        IMAGE_RULES.fit, steps=2, least_images=2, most_images=2, latent=2, hidden=(4, 4), moment_batches=1, parts=1
    ),
)


_DAY = 24 * 60  # minutes


SHORT_CHAINS = replace(
    SEQUENCE_RULES,
    # All runs that a pool has are counted, also those that only the canary has; nearly everybody is scaled down.
    measure=replace(SEQUENCE_RULES.measure, run_noise=0.0, scaled=1e9, most_scaled=0.99),
    # Chains stay near the one whose steps are all equally likely, which has all runs.
    mixture=replace(SEQUENCE_RULES.mixture, components=2, iterations=1, floor=1.0, shrink=1e9),
    pool=replace(
        SEQUENCE_RULES.pool,
        first=50,
        least=200,
        least_before=10_000,
        tilt=replace(SEQUENCE_RULES.pool.tilt, iterations=2),
    ),
    draw=replace(SEQUENCE_RULES.draw, least=100),
)


@dataclass(frozen=True)
class Configuration:
    """What is fitted with and without the canary, and the lower bound on epsilon that an audit of it should reach."""

    name: str
    sentence: str  # description
    records: Records  # the data without the canary
    canary: Records  # one record; or all rows of one person
    plan: Plan  # of every fit
    source: Source | None = None  # how the records were read, where a person has several rows
    # Copies of the records over which the adversary averages if a model draws secret numbers for each record. The draws
    # of other records are noise to the adversary, which is why a VAE is audited with few of them.
    copies: int = 1
    least_share: float = 0.4  # share of the claimed epsilon that a good audit with enough fits reaches
    effort: float = 0.8  # multiple of the requested number of fits


def configurations() -> tuple[Configuration, ...]:
    """All that is audited; together they run every mechanism that a fit of any family can run."""
    return (*_products(), *_images(), *_sequences(), *_discoveries(), *_networks())


def _products() -> tuple[Configuration, ...]:
    """Item sets and tables under the default method, two rows per person, and a baseline."""
    few, some, many = (_item_sets(width) for width in (8, 20, 32))
    table, alike = _table(), _alike()
    twice = Source("person", False, "wide", rows_per_person=2)
    person = replace(table, canary=concatenate([table.canary] * 2), source=twice)
    return (
        _configuration("few", "products, 8 items: all possible records", few, _short(LARGER_SETS)),
        _configuration("items", "products, 20 items: sets of up to four", some, _short(LARGER_SETS)),
        _configuration("wide", "products, 32 items: popular lengths", many, _short(SHORT)),
        _configuration("table", "products, a table of three columns", table, _short(SHORT), effort=1.5),
        _configuration("person", "as table, two rows per person", person, _short(SHORT)),
        _configuration(
            "trees",
            "trees, a table with two numbers",
            _numbers(),
            Settings("trees", family=TreeSettings(SHORT_TREES)),
            effort=1.5,
        ),
        _configuration(
            "lists",
            "trees, a list of items beside two columns",
            _beside(),
            Settings("trees", family=TreeSettings(SHORT_TREES)),
            effort=1.5,
        ),
        _configuration(
            "mwem",
            "multiplicative weights, three rounds",
            alike,
            Settings("mwem", family=MwemSettings(iterations=3)),
        ),
    )


def _images() -> tuple[Configuration, ...]:
    pixels = 16
    domain = Domain((Image("image", 4, 4), Categorical("label", (0, 1))), label="label")
    others = [[row % 4, 4 + row % 3, pixels + row % 2] for row in range(RECORDS_PER_FIT)]
    data = _Data(Records.from_lists(others, domain), Records.from_lists([[8, 9, 14, 15, pixels]], domain))
    settings = Settings("image", family=ImageSettings(rules=SHORT_IMAGES))
    return (_configuration("images", "images of 4 x 4 pixels in two classes", data, settings),)


def _sequences() -> tuple[Configuration, ...]:
    """Short walks over two items; the canary, longer than all, has others in turn, rare values and hours of its own."""
    columns = (Categorical("card", ("day", "year")), Categorical("zone", ("a", "b")))
    untimed = ItemSequence("clicks", tuple("abcd"), max_length=12)
    timed = ItemSequence("trips", tuple("abcdefgh"), max_length=12, time=True, start="2024-03-01", end="2024-03-07")
    few = replace(SHORT_CHAINS.places, most_items=4, ranks=3, components=2, iterations=2)
    small = replace(SHORT_CHAINS.pool, small_least=300, small_most=300, ranked_least=300, more_rounds=0)
    places = replace(SHORT_CHAINS, places=few, pool=small)
    return (
        _walks("sequences", "sequences of four items, two columns", untimed, columns, SHORT_CHAINS),
        _walks("places", "sequences of places with times", timed, columns, places),
    )


def _walks(
    name: str, sentence: str, sequence: ItemSequence, columns: tuple[Categorical, ...], rules: SequenceRules
) -> Configuration:
    domain, items = Domain((sequence, *columns)), len(sequence.items)
    walks = [[(row + at) % 2 for at in range(2 + row % 4)] for row in range(RECORDS_PER_FIT)]
    # As long as may be: what others do not have, or, where runs of common items alone are counted, these otherwise.
    canary = [0, 0, 0, 0, 1, 1, 1, 1, 1, 0, 2, 3] if sequence.time else 6 * [2, 3]
    both: list[Records] = []
    for rows, value, hour in ((walks, 0, 8), ([canary], 1, 23)):
        # A tap a day, or, for the canary, four on every third day.
        days = [at if value == 0 else 3 * (at // 4) for at in range(sequence.max_length)]
        times = [[days[at] * _DAY + hour * 60 + at for at in range(len(row))] for row in rows]
        events = Events.from_lists(rows, items, times if sequence.time else None)
        attributes = Records.from_lists([[items + value, items + 2 + value]] * len(rows), domain)
        both.append(Records.of_events(events, domain, attributes))
    settings = Settings("sequences", family=SequenceSettings(rules))
    return _configuration(name, sentence, _Data(both[0], both[1]), settings)


def _discoveries() -> tuple[Configuration, ...]:
    """Values that nobody listed: the canary is one of many with a popular value, and holds values of its own."""
    table = _open_table()
    items = _open_items()
    found = _short(SHORT, DiscoveryRules())
    few = {"discovered values": 2.0}  # so that popular values pass the threshold in nearly every fit
    return (
        _configuration("discovery", "products, a table whose values are discovered", table, found, few),
        _configuration("new-items", "products, items are discovered", items, found, few),
    )


def _networks() -> tuple[Configuration, ...]:
    """Mixtures of RBMs and a VAE, trained by private SGD."""
    data = _item_sets(16)
    nobody, four = replace(data, records=data.records.rows(0, 0)), replace(data, records=data.records.rows(0, 4))
    sizes = NetworkSettings(clusters=2, cluster_steps=2, features=8, hidden=(4,), latent=2, calibrate=False)
    noises = {
        "record lengths": 20.0,
        "item counts": 10.0,
        "cluster counts": 8.0,
        "cluster sums": 4.0,
        "cluster sizes": 10.0,
        "cluster profiles": 10.0,
    }
    whole = Settings("rbm", family=replace(sizes, sampling_rate=1.0, steps=8))
    quarter = Settings("rbm", family=replace(sizes, sampling_rate=0.25, steps=16, warm_start=False))
    vae = Settings("vae", family=replace(sizes, sampling_rate=1.0, steps=6, clusters=1, warm_start=False))
    every, some, alone = ({"norms": n, "gradients": g} for n, g in ((10.0, 4.0), (6.0, 1.3), (10.0, 3.0)))
    return (
        _configuration(
            "A", "two RBMs, every record in every step", data, whole, noises | every, effort=2.0, least_share=0.6
        ),
        _configuration(
            "B", "two RBMs, a quarter of the records in a step", data, quarter, noises | some, least_share=0.5
        ),
        _configuration("C", "as B, and nobody but the canary", nobody, quarter, noises | some, least_share=0.5),
        # its secret numbers blur the score, so a bound of .4 of the claim takes twice as many fits
        _configuration("VAE", "a VAE, every record in every step", four, vae, alone, copies=24, effort=1.6),
    )


# -- data and plans ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Data:
    records: Records
    canary: Records
    source: Source | None = None


def _item_sets(width: int) -> _Data:
    """Each record holds two common items, no two consecutive records the same; the canary holds all other items."""
    domain, common = Domain.of_items(width), width // 2
    others = [sorted({row % common, (row + 1 + row // common) % common}) for row in range(RECORDS_PER_FIT)]
    return _Data(Records.from_lists(others, domain), Records.from_lists([list(range(common, width))], domain))


def _alike() -> _Data:
    """Every record holds the same two items, also the canary: sets that are chosen for a large error are theirs."""
    domain = Domain.of_items(8)
    return _Data(Records.from_lists([[0, 1]] * RECORDS_PER_FIT, domain), Records.from_lists([[0, 1]], domain))


def _table() -> _Data:
    """Rows with the first values of their columns; the canary has the last ones."""
    domain = Domain(tuple(Categorical(name, tuple("pqrs")) for name in ("a", "b", "c")))
    starts = domain.offsets
    others = [[start + row // (1 + at) % 2 for at, start in enumerate(starts)] for row in range(RECORDS_PER_FIT)]
    return _Data(Records.from_lists(others, domain), Records.from_lists([[start + 3 for start in starts]], domain))


def _numbers() -> _Data:
    """Rows with low numbers; the canary has the highest ones, so that its ranks are those of nobody else."""
    domain = Domain(
        (Categorical("a", tuple("pqrs")), *(Numeric(name, 0, 4, bins=4, integer=True) for name in ("b", "c")))
    )
    others = [[row % 2, 4 + row // 2 % 2, 8 + row // 4 % 2] for row in range(RECORDS_PER_FIT)]
    return _Data(Records.from_lists(others, domain), Records.from_lists([[3, 7, 11]], domain))


def _beside() -> _Data:
    """Rows with two common items and low values; the canary holds two other items and the highest values."""
    domain = Domain(
        (Categorical("a", tuple("pqrs")), ItemSet("items", tuple(range(6))), Categorical("b", tuple("pqrs")))
    )
    others = [[row % 2, 4 + row % 3, 7, 10 + row // 2 % 2] for row in range(RECORDS_PER_FIT)]
    return _Data(Records.from_lists(others, domain), Records.from_lists([[3, 8, 9, 13]], domain))


def _open_table() -> _Data:
    """Many records share a colour and an amount; the canary has such a colour, and an amount of its own."""
    domain = Domain((Categorical("colour", discover=True), Numeric("amount", "discover", "discover")))
    rows = range(OPEN_RECORDS)
    others = {"colour": ["red", "blue"] * (OPEN_RECORDS // 2), "amount": [float(row % 3) for row in rows]}
    return _Data(_read(others, domain), _read({"colour": ["red"], "amount": [-777.25]}, domain))


def _open_items() -> _Data:
    """Records hold two of three items; the canary holds two of these as well, and two of its own."""
    domain = Domain((ItemSet("items", discover=True),))
    others = [sorted({row % 3, (row + 1) % 3}) for row in range(OPEN_RECORDS)]
    return _Data(_read({"items": others}, domain), _read({"items": [[0, 1, 3, 4]]}, domain))


def _read(columns: dict[str, Any], domain: Domain) -> Records:
    return read_frame(pyarrow.table(columns), domain).records


def _short(rules: ProductRules, discovery: DiscoveryRules | None = None) -> Settings:
    return Settings("products", family=ProductSettings(rules), discovery=discovery)


def _configuration(
    name: str,
    sentence: str,
    data: _Data,
    settings: Settings,
    noises: Mapping[str, float] | None = None,
    **options: Any,
) -> Configuration:
    """With the plan of such a fit; mechanisms without a noise multiplier in `noises` share the budget `MU` equally."""
    people = 1 if data.source is None else data.source.rows_per_person
    total, domain = len(data.records) + len(data.canary), data.records.domain
    runs = budget_of(settings, PublicFacts(domain, total, PLANNED_EPSILON, DELTA, people)).runs
    equal = math.sqrt(sum(run.count for run in runs.values())) / MU
    mechanisms = tuple(replace(run, noise=(noises or {}).get(run.name, equal)) for run in runs.values())
    spent = cost(mechanisms, DELTA).epsilon
    plan = Plan(spent, spent, DELTA, total, domain.width, settings, mechanisms, rows_per_person=people)
    return Configuration(name, sentence, data.records, data.canary, plan, data.source, **options)
