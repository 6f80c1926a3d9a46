"""Discovery of an open domain: what is found, that it is found privately, and that numbers keep their distribution."""

import datetime
import json

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import discovery_data
import dpgm
from dpgm.data.domain import (
    Boolean,
    Categorical,
    Date,
    DateTime,
    Domain,
    Identifier,
    Ignored,
    ItemSet,
    Numeric,
)
from dpgm.data.domain_file import domain_from_plain, domain_to_plain
from dpgm.data.kinds.shaped import draw_shaped, shaped_codes
from dpgm.data.number_format import NumberFormat
from dpgm.data.number_grids import grid_of
from dpgm.data.open_columns import SetColumn
from dpgm.data.open_records import OpenRecords
from dpgm.data.read.frames import as_records
from dpgm.data.records import Records
from dpgm.data.vocabulary import Vocabulary
from dpgm.errors import BudgetError, UsageError
from dpgm.mechanisms.gateway import Gateway
from dpgm.mechanisms.randomness import SeededRandomness
from dpgm.products.rules import PRODUCT_RULES as PRODUCT_RULES
from dpgm.products.strategy import measure
from dpgm.statistics.item_counts import pilot_profile
from dpgm.statistics.record_lengths import ReleasedFacts, read_lengths
from dpgm.strategy.discovery_rules import DiscoveryRules
from dpgm.strategy.settings import Config
from dpgm.synthesis.books import Books
from dpgm.synthesis.checkpoint import Checkpoint
from dpgm.synthesis.domain_discovery import MEASURES, discover_domain, discovery_spends
from dpgm.synthesis.number_shapes import estimate_cells
from dpgm.synthesis.plan import Plan, make_plan
from dpgm.testing import assert_playback_invariant, sensitivity_ratios
from release_data import edit, rehash

RULES = DiscoveryRules()

DOMAIN = Domain(
    (
        Identifier("id"),
        Numeric("age", 0, 110, integer=True),
        Numeric("bill", 0, "discover", decimals=2),
        Numeric("score", -5, 5),
        Numeric("days", -1, 999, integer=True, specials=(-1,)),
        Date("admitted", "2015-01-01", "2024-12-31"),
        DateTime("seen", "2024-01-01", "2024-12-31T23:59", unit="minute"),
        Boolean("insured", missing=True),
        Ignored("notes"),
        Categorical("ward", discover=True),
        Categorical("sex", ("f", "m"), missing=True),
        ItemSet("drugs", discover=True),
    )
)


def some_table(count=3000, seed=0):
    rng = np.random.default_rng(seed)
    day = np.datetime64("2016-03-01") + rng.integers(0, 3000, count)
    minute = np.datetime64("2024-02-01T00:00") + rng.integers(0, 200_000, count).astype("timedelta64[m]")
    bill = np.where(rng.random(count) < 0.4, 0.0, np.round(np.exp(rng.normal(5, 1, count)), 2))
    score = np.where(rng.random(count) < 0.2, 0.0, rng.normal(0, 1, count))
    columns = {
        "id": [f"patient-{seed}-{at}" for at in range(count)],
        "age": rng.integers(20, 80, count),
        "bill": bill,
        "score": np.clip(score, -5, 5),
        "days": np.where(rng.random(count) < 0.8, -1, rng.integers(0, 400, count)),
        "admitted": pa.array(day.astype("datetime64[D]")),
        "seen": pa.array(minute.astype("datetime64[s]")),
        "insured": pa.array(rng.random(count) < 0.7, mask=rng.random(count) < 0.1),
        "notes": [f"free text {rng.integers(1 << 60)}" for _ in range(count)],
        "ward": pa.array([["north", "south", "east"][at] for at in rng.choice(3, count, p=[0.6, 0.3, 0.1])]),
        "sex": pa.array([["f", "m"][at] for at in rng.integers(0, 2, count)], mask=rng.random(count) < 0.05),
        "drugs": [[f"drug{item}" for item in set(rng.geometric(0.3, 3).tolist())] for _ in range(count)],
    }
    missing_age = rng.random(count) < 0.15
    columns["age"] = pa.array(columns["age"], mask=missing_age)
    return pa.table(columns)


def planned(domain, records, epsilon=2.0):
    return make_plan(Config(epsilon), records, domain)


def discovered(table, domain=DOMAIN, epsilon=2.0, seed=0):
    return discovery_data.discovered(table, domain, epsilon=epsilon, seed=seed)


def test_every_kind_of_field_is_closed_and_rows_are_recoded():
    domain, gateway = discovered(some_table())
    assert not domain.is_open
    assert [field.name for field in domain.fields] == [field.name for field in DOMAIN.fields]
    assert domain.unread == DOMAIN.unread
    assert domain.field("ward").values == ("east", "north", "south")
    assert {"drug1", "drug2", "drug3"} <= set(domain.field("drugs").items)
    assert domain.field("age").missing
    assert not domain.field("bill").missing
    assert 0.0 in domain.field("bill").atoms
    assert 0.0 in domain.field("score").atoms
    assert -1.0 in domain.field("days").atoms
    assert domain.field("bill").edges[-1] < 2**21  # in cents: the largest bills are some thousands
    rows = gateway._records
    assert rows.domain == domain
    assert len(rows) == 3000
    assert (rows.lengths >= len(domain.fields) - 1).all()
    assert {mechanism.name for mechanism in gateway.spent} == set(MEASURES)


def test_discovery_is_post_processing_of_what_was_released():
    tables = [some_table(400, 1), some_table(150, 2)]
    datasets = [as_records(table, DOMAIN) for table in tables]
    plan = planned(DOMAIN, 400)
    assert_playback_invariant(
        lambda gateway: domain_to_plain(discover_domain(gateway, plan, DOMAIN).domain),
        datasets,
        tapes=2,
        allowance=plan.mechanisms,
    )


@pytest.mark.parametrize("odd", ["ordinary", "new values", "missing", "far out", "many items"])
def test_one_record_moves_every_release_by_at_most_its_sensitivity(odd):
    records = as_records(some_table(200, 3), DOMAIN)
    table = some_table(1, 99)
    changes = {
        "ordinary": {},
        "new values": {
            "ward": pa.array(["nobody else"]),
            "bill": pa.array([123456.78]),
            "drugs": pa.array([["only me"]]),
        },
        "missing": {
            name: pa.nulls(1, table.schema.field(name).type) for name in ("age", "bill", "ward", "drugs", "seen")
        },
        "far out": {"age": pa.array([-(10**9)]), "bill": pa.array([1e300]), "score": pa.array([-1e300])},
        "many items": {"drugs": pa.array([[f"drug{item}" for item in range(500)]])},
    }[odd]
    for name, column in changes.items():
        table = table.set_column(table.column_names.index(name), name, column)
    extra = as_records(table, DOMAIN)
    plan = planned(DOMAIN, 200)
    ratios = sensitivity_ratios(lambda gateway: discover_domain(gateway, plan, DOMAIN), records, extra)
    assert set(ratios) == set(MEASURES)
    assert max(ratios.values()) <= 1 + 1e-9
    if odd == "ordinary":
        assert min(ratios.values()) > 0.85  # a record in a separate cell is counted on fewer levels


ITEMS = Domain((ItemSet("drugs", discover=True),))


def baskets(count, seed=0):
    rng = np.random.default_rng(seed)
    kinds = np.array([f"drug{at}" for at in range(60)])
    drawn = [kinds[rng.random(60) < 0.5 / (1 + np.arange(60)) ** 0.7].tolist() for _ in range(count)]
    return as_records(pa.table({"drugs": drawn}), ITEMS)


def test_sums_of_discovered_items_are_the_pilot_counts():
    """They are paid for already, so no other pilot is measured; and they are close to the true counts."""
    plan, listed = (make_plan(Config(2.0), 4000, domain) for domain in (ITEMS, Domain.of_items(60)))
    assert listed.pays_for("item counts")
    assert not plan.pays_for("item counts")
    records = baskets(4000)
    gateway = Gateway(records, randomness=SeededRandomness(0), allowance=plan.mechanisms)
    found = discover_domain(gateway, plan, ITEMS)
    assert found.sums.shape == (found.domain.width,)
    true = np.bincount(gateway._records.indices, minlength=found.domain.width) / 4000
    lengths = np.bincount(gateway._records.lengths).astype(float)
    seen = read_lengths(lengths, 1e-6, 4000, PRODUCT_RULES.read)
    profile = pilot_profile(found.sums, ReleasedFacts(found.domain, 4000, seen, PRODUCT_RULES))
    assert profile.sum() == pytest.approx(true.sum(), rel=0.02)
    assert np.abs(profile - true).max() < 0.05


def test_a_fit_of_discovered_items_is_post_processing_of_what_was_released():
    plan = make_plan(Config(2.0), 600, ITEMS)

    def run(gateway):
        found = discover_domain(gateway, plan, ITEMS)
        return measure(gateway, found.domain, 600, plan.noises, PRODUCT_RULES, found.sums), found.sums

    assert_playback_invariant(run, [baskets(600), baskets(200, 1)], tapes=1, allowance=plan.mechanisms)
    ratios = sensitivity_ratios(run, baskets(600), baskets(1, 2), allowance=plan.mechanisms)
    assert max(ratios.values()) <= 1 + 1e-6
    assert set(ratios) == {mechanism.name for mechanism in plan.mechanisms}


def test_recoding_is_record_by_record():
    table = some_table(300, 4)
    domain, _ = discovered(table)
    whole = as_records(table, DOMAIN).closed(domain, {})
    for at in (0, 17, 299):
        single = as_records(table.slice(at, 1), DOMAIN).closed(domain, {})
        assert single.indices.tolist() == whole.rows(at, at + 1).indices.tolist()


def test_numbers_drawn_from_a_shape_read_back_to_their_position_and_stay_in_range():
    domain, _ = discovered(some_table())
    rng = np.random.default_rng(0)
    for name in ("age", "bill", "score", "days", "admitted", "seen"):
        field = domain.field(name)
        positions = np.repeat(np.arange(field.width - field.missing), 300)
        ticks = draw_shaped(field, positions, rng)
        assert shaped_codes(field, ticks).tolist() == positions.tolist()
        if field.format.in_steps:
            assert (ticks == np.floor(ticks)).all()
        low, high = DOMAIN.field(name).bounds
        assert (ticks >= low).all()
        assert high is None or (ticks <= high).all()
    assert domain_from_plain(json.loads(json.dumps(domain_to_plain(domain)))) == domain


def test_cells_below_the_noise_follow_the_groups_around_them():
    """A density that rises steadily: it rises within groups as well, though noise hides that in single cells."""
    grid = grid_of(0.0, 199.0, NumberFormat("integer"), "linear")
    true = np.linspace(20.0, 380.0, 200)
    exact = grid.counts(np.repeat(np.arange(200), np.rint(true).astype(int)))
    for seed in range(5):
        noisy = exact + np.random.default_rng(seed).normal(0, 40, len(exact))
        found = estimate_cells(noisy, grid, 40.0, float(true.sum()), RULES)
        assert np.abs(found - true).sum() / 2 / true.sum() < 0.013  # .016 to .019 if divided evenly


def test_draws_of_a_bin_show_its_shape_without_chance_errors():
    """Every cell has as many values as its weight says, give or take two, in random order."""
    field = discovered(some_table())[0].field("bill")
    starts, weights = [*field.starts, len(field.weights)], np.array(field.weights)
    widest = int(np.argmax(np.diff(starts)))
    cells = weights[starts[widest] : starts[widest + 1]]
    assert (cells > 0).sum() >= 3
    positions = np.full(5000, len(field.atoms) + widest)
    ticks = draw_shaped(field, positions, np.random.default_rng(0))
    edges = np.array(field.edges)[starts[widest] : starts[widest + 1] + 1]
    counts = np.histogram(ticks, edges)[0]
    assert np.abs(counts - 5000 * cells / cells.sum()).max() <= 2
    assert abs(np.corrcoef(ticks[1:], ticks[:-1])[0, 1]) < 0.06
    single = [float(draw_shaped(field, positions[:1], np.random.default_rng(seed))[0]) for seed in range(300)]
    assert abs(np.mean(single) - ticks.mean()) < 5 * ticks.std() / 300**0.5


def test_a_plan_is_made_before_the_data_and_kept_exactly(tmp_path):
    plan = planned(DOMAIN, 3000)
    assert set(MEASURES) <= {mechanism.name for mechanism in plan.mechanisms}
    assert Plan.from_json(json.loads(json.dumps(plan.to_json()))) == plan
    plan.check_fits(3000, DOMAIN)
    listed = plan.mechanism("discovered values")
    assert listed.delta == pytest.approx(RULES.delta_share * plan.delta)
    assert plan.epsilon <= 2.0
    closed = Domain((Numeric("age", 0, 110, bins=10, integer=True),))
    assert discovery_spends(closed, 1e-6, None) == ()


def test_a_fit_keeps_popular_values_types_missing_cells_and_identifiers_out(tmp_path):
    table = some_table(6000)
    fitted = dpgm.Synthesizer(epsilon=8.0, domain=DOMAIN).fit(table)  # fresh noise: `load` wants a private release
    fitted.save(tmp_path / "release")
    release = dpgm.load(tmp_path / "release")
    frame = release.sample(6000, seed=3).to_pandas()
    assert list(frame.columns) == [name for name in table.column_names if name != "notes"]
    assert frame["id"].is_unique
    assert not frame["id"].str.startswith("patient").any()
    assert abs((frame["bill"] == 0).mean() - 0.4) < 0.03
    assert abs((frame["days"] == -1).mean() - 0.8) < 0.03
    assert abs(frame["age"].isna().mean() - 0.15) < 0.03
    assert (np.round(frame["bill"] * 100) / 100 == frame["bill"]).all()
    assert pd.api.types.is_integer_dtype(frame["days"])
    assert frame["admitted"].map(lambda day: isinstance(day, datetime.date)).all()
    assert pd.api.types.is_datetime64_any_dtype(frame["seen"])
    assert set(frame["insured"].dropna().unique()) == {True, False}
    assert release.certificate.epsilon <= 8.0
    assert dpgm.verify(tmp_path / "release").ok
    statements = " ".join(release.certificate.statements)
    assert "'ward', 'drugs' were found privately" in statements
    assert "'bill' was found privately, between powers of two" in statements
    real = table.to_pandas()
    for name in ("bill", "score", "days", "age"):
        ours, theirs = real[name].dropna().astype(float), frame[name].dropna().astype(float)
        assert abs(ours.median() - theirs.median()) < 0.1 * ours.std()
        assert abs(ours.mean() - theirs.mean()) < 0.1 * ours.std()
    text = (tmp_path / "release" / "domain.json").read_text()
    assert "patient-" not in text
    assert "free text" not in text


def test_nothing_that_few_hold_is_published():
    table = some_table(2000)
    rare = [["secret-disease"] if at == 7 else row for at, row in enumerate(table.column("drugs").to_pylist())]
    ward = ["secret-ward" if at == 9 else value for at, value in enumerate(table.column("ward").to_pylist())]
    table = table.set_column(table.column_names.index("drugs"), "drugs", pa.array(rare))
    table = table.set_column(table.column_names.index("ward"), "ward", pa.array(ward))
    for seed in range(5):
        domain, _ = discovered(table, seed=seed)
        assert "secret" not in json.dumps(domain_to_plain(domain))


def test_rare_categories_stand_as_other_and_missing_ones_stay_missing():
    """A town where many live in small streets and some addresses are missing; two sexes, without a third."""
    rng = np.random.default_rng(3)
    count = 6000
    street = np.where(rng.random(count) < 0.5, "Main St", [f"Lane {at}" for at in range(count)]).astype(object)
    street[rng.random(count) < 0.1] = None
    sex = rng.choice(np.array(["f", "m"], dtype=object), count)
    number = rng.choice([str(at) for at in (1, 2, 3)], count).astype(object)
    number[:900] = [str(1000 + at) for at in range(900)]
    table = pa.table({"street": street, "sex": sex, "number": number})
    domain = Domain(tuple(Categorical(name, discover=True) for name in table.column_names))
    for seed in range(4):
        closed, _ = discovered(table, domain, seed=seed)
        assert closed.field("street") == Categorical("street", ("Main St", "(other)"), missing=True, other=True)
        assert closed.field("sex") == Categorical("sex", ("f", "m"), missing=True)
        assert closed.field("number") == Categorical("number", (1, 2, 3), missing=True)
        assert domain_from_plain(json.loads(json.dumps(domain_to_plain(closed)))) == closed
        counted = np.bincount(as_records(table, closed).indices, minlength=closed.width)
        rare = np.array([value is not None and value != "Main St" for value in street])
        missing = np.array([value is None for value in street])
        assert counted[:3].tolist() == [count - rare.sum() - missing.sum(), rare.sum(), missing.sum()]
        assert counted[3:6].tolist() == [(sex == "f").sum(), (sex == "m").sum(), 0]
        assert counted[-1] == 900


def test_of_few_records_values_that_were_not_found_stand_as_other_and_not_as_missing():
    rng = np.random.default_rng(0)
    ward = rng.choice(np.array(["surgery", "heart"], dtype=object), 1200, p=[0.75, 0.25])
    table = pa.table({"ward": ward, "clinic": ["north"] * 1200})
    domain = Domain(tuple(Categorical(name, discover=True) for name in table.column_names))
    seen = set()
    for seed in range(8):
        closed, gateway = discovered(table, domain, seed=seed, epsilon=0.3)
        assert closed.field("clinic") == Categorical("clinic", ("north",), missing=True)
        values = closed.field("ward").values
        counted = np.bincount(gateway._records.indices, minlength=closed.width)
        of_value = dict(zip(values, counted.tolist(), strict=False))
        assert of_value["surgery"] == (ward == "surgery").sum()
        assert of_value.get("heart", of_value.get("(other)")) == (ward == "heart").sum()
        seen.add(values)
    assert seen == {("heart", "surgery"), ("surgery", "(other)")}


def test_what_noise_hides_counts_as_the_commonest_value():
    """Two of 3,000 records have a value of their own: it is no position of the column, and not missing either."""
    codes = np.array(["a", "b", "b"] * 1000, dtype=object)
    codes[:4] = [None, None, "c", "d"]
    table = pa.table({"code": codes})
    domain = Domain((Categorical("code", discover=True),))
    closed, gateway = discovered(table, domain, seed=1)
    assert closed.field("code") == Categorical("code", ("a", "b"), missing=True)
    assert np.bincount(gateway._records.indices).tolist() == [(codes == "a").sum(), (codes == "b").sum() + 2, 2]
    sample = Records.from_lists([[0], [1], [1]] * 50, closed)
    assert dpgm.evaluate(table.to_pandas(), sample).columns  # compared as they are, not refused


def test_where_nothing_passes_items_are_refused_in_one_sentence():
    domain = Domain((ItemSet("drugs", discover=True),))
    table = pa.table({"drugs": [[f"item{at}"] for at in range(50)]})
    with pytest.raises(BudgetError, match="no item of 'drugs'"):
        discovered(table, domain)


@pytest.mark.slow
def test_few_found_items_and_few_values_still_fit():
    table = pa.table({"drugs": [["a"], ["a", "b"], ["b"], []] * 500, "n": [1, 2, 2, 1] * 500})
    sets = Domain((ItemSet("drugs", discover=True),))
    fitted = dpgm.Synthesizer(epsilon=2.0, domain=sets, randomness=SeededRandomness(0)).fit(table)
    assert fitted.domain_.fields[0].items == ("a", "b")
    assert len(fitted.sample(50, seed=0)) == 50
    number = Domain((Numeric("n", 0, 5, integer=True),))
    fitted = dpgm.Synthesizer(epsilon=2.0, domain=number, randomness=SeededRandomness(0)).fit(table)
    drawn = fitted.sample(2000, seed=0).to_pandas()["n"]
    assert abs((drawn == 1).mean() - 0.5) < 0.05


def test_a_resumed_fit_answers_from_its_checkpoint(tmp_path, monkeypatch):
    """Killed after discovery: the resumed fit reads the published list back, and spends nothing twice."""
    from dpgm.synthesis import certified_fit

    domain = Domain((Categorical("ward", discover=True), Numeric("age", 0, 110, integer=True)))
    table = some_table(1500)
    make, calls = certified_fit.fit_generator, []

    def killed(*args, **options):
        calls.append(1)
        if len(calls) == 1:
            raise KeyboardInterrupt
        return make(*args, **options)

    monkeypatch.setattr(certified_fit, "fit_generator", killed)
    folder = tmp_path / "checkpoint"
    with pytest.raises(KeyboardInterrupt):
        dpgm.Synthesizer(domain=domain, randomness=SeededRandomness(0)).fit(table, checkpoint=folder)
    first = (folder / "journal.jsonl").read_text()
    with pytest.raises(UsageError, match=r"1,500 records .* not the data of the stopped fit"):
        dpgm.Synthesizer(domain=domain).fit(some_table(1400), checkpoint=folder, resume=True)
    resumed = dpgm.Synthesizer(domain=domain, randomness=SeededRandomness(5)).fit(
        table, checkpoint=folder, resume=True
    )
    assert (folder / "journal.jsonl").read_text().startswith(first)
    assert first.count('"charge": "discovered values"') == 1
    assert (folder / "journal.jsonl").read_text().count('"charge": "discovered values"') == 1
    again = dpgm.Synthesizer(domain=domain, randomness=SeededRandomness(6)).fit(
        table, checkpoint=folder, resume=True
    )
    assert again.domain_ == resumed.domain_
    assert len(calls) == 2  # the last one came from the saved model, its domain from the tape


def test_the_room_set_aside_on_the_disk_tells_nothing_of_how_many_values_occur(tmp_path, monkeypatch):
    """A process killed while it measures leaves that file in a folder that must hold released values only."""
    domain = Domain((Categorical("ward", discover=True),))
    sizes, make_room = [], Checkpoint.make_room
    monkeypatch.setattr(Checkpoint, "make_room", lambda self, size: (sizes.append(size), make_room(self, size)))
    for name, wards in (("few", ["a"] * 500), ("many", [f"ward{at}" for at in range(500)])):
        records = as_records(pa.table({"ward": wards}), domain)
        plan = make_plan(Config(2.0), len(records), domain)
        saved = Checkpoint.start(tmp_path / name, plan, records)
        gateway = Books(plan, records, None, saved).gateway(SeededRandomness(0))
        discover_domain(gateway, plan, domain)
    assert len(sizes) == 2
    assert sizes[0] == sizes[1]


@pytest.mark.parametrize("more", [{}, {"decimals": 2}, {"integer": True}], ids=["real", "decimal", "integer"])
def test_far_values_are_read_and_counted_without_a_warning(more):
    """Warnings are errors in these tests; shown to a curator, one would reveal that somebody has such a value."""
    domain = Domain((Numeric("bill", "discover", "discover", **more),))
    values = [1e308, -1e308, 0.0, 1.0, float(2**53), None, *([] if more.get("integer") else [5e-324, 1e-300])] * 40
    found, _ = discovered(pa.table({"bill": pa.array(values, pa.float64())}), domain)
    assert found.fields[0].width > 1


@pytest.mark.parametrize("more", [{"decimals": 2}, {"integer": True}], ids=["decimal", "integer"])
def test_bounds_that_noise_alone_suggests_lie_on_steps(more):
    """With few records, noise may select a slot between 0 and 1; such fits failed after they had spent budget."""
    domain = Domain((Numeric("bill", "discover", "discover", **more),))
    for seed in range(25):
        found, _ = discovered(pa.table({"bill": [at % 7 for at in range(30)]}), domain, epsilon=1.0, seed=seed)
        assert found.fields[0].format.in_steps


def test_open_records_refuse_columns_that_do_not_fit():
    records = as_records(some_table(20), DOMAIN)
    assert isinstance(records, OpenRecords)
    records.check()
    with pytest.raises(dpgm.errors.UsageError, match="raw columns"):
        OpenRecords.of(DOMAIN, 20, records.columns[:-1]).check()
    assert "patient" not in repr(records)


@pytest.mark.parametrize("codes", [[0, 1, 1], [0, 1, -1]], ids=["twice", "none"])
def test_a_set_that_holds_a_value_twice_is_refused_by_the_gateway(codes):
    """It would add more to a sum than one record may."""
    domain, words = Domain((ItemSet("items", discover=True),)), Vocabulary()
    assert [words.code(label) for label in "ab"] == [0, 1]
    column = SetColumn(np.array([0, 1, 3]), np.array(codes, dtype=np.int32), words)
    with pytest.raises(dpgm.errors.UsageError, match="raw columns"):
        Gateway(OpenRecords.of(domain, 2, [column]), randomness=SeededRandomness(0))


def test_labels_that_could_not_be_published_are_no_values():
    """A label of 2 kB that many share passes any threshold, but no domain can list it."""
    words = Vocabulary()
    assert [words.code(label) for label in ("", "a\0b", "x" * 1025, "x" * 1024)] == [-1, -1, -1, 0]
    table = pa.table({"note": ["x" * 2000] * 400 + ["short"] * 400})
    found, _ = discovered(table, Domain((Categorical("note", discover=True),)))
    assert found.fields[0].values == ("short", "(other)")


def test_a_release_that_says_otherwise_than_was_discovered_does_not_verify(tmp_path):
    """Forged consistently, with new hashes: another range, a sentence left out, the stated domain removed."""
    domain = Domain((Numeric("age", 0, 110, integer=True), Categorical("ward", discover=True)))
    folder = tmp_path / "release"
    dpgm.Synthesizer(epsilon=2.0, domain=domain).fit(some_table(1000)).save(folder)
    assert dpgm.verify(folder).ok
    certificate, released = ((folder / name).read_text() for name in ("certificate.json", "domain.json"))

    def failed(change=lambda document: None, plain=None):
        (folder / "domain.json").write_text(released if plain is None else json.dumps(plain, indent=1))
        (folder / "certificate.json").write_text(certificate)
        edit(folder, change)
        rehash(folder)
        return {check.name for check in dpgm.verify(folder).failed}

    narrow = json.loads(released)
    narrow["fields"][0]["edges"][-1] = 200
    assert "mechanisms of such a fit" in failed(plain=narrow)
    assert "sentences" in failed(lambda document: document["statements"].pop())
    assert "mechanisms of such a fit" in failed(lambda document: document["plan"].pop("domain"))


def test_questions_that_only_some_are_asked_keep_their_missing_answers():
    """Three in four give a reason, the others an amount: reasons added up to a whole column, and none was missing."""
    draws, count = np.random.default_rng(0), 20_000
    asked = draws.random(count) < 0.75
    frame = pd.DataFrame(
        {
            "reason": pd.Series(np.where(asked, draws.choice(["x", "y"], count), None), dtype=object),
            "amount": np.where(asked, np.nan, draws.lognormal(5, 1, count)),
        }
    )
    drawn = dpgm.Synthesizer(epsilon=5.0).fit(frame, discover=True).sample(count, seed=1).to_pandas()
    assert abs(drawn["reason"].isna().mean() - 0.25) < 0.05
    assert abs((drawn["reason"] == "x").mean() - 0.375) < 0.03


def test_a_column_of_two_popular_and_many_rare_values_has_another_and_no_gaps():
    """68 % of the products of a shop came out as missing."""
    draws, count = np.random.default_rng(0), 6000
    rare = np.array([f"item {at}" for at in range(count)], dtype=object)
    product = np.where(
        draws.random(count) < 0.3, draws.choice(np.array(["tea", "milk"], dtype=object), count), rare
    )
    table = pa.table({"product": product, "shop": ["north", "south"] * (count // 2)})
    domain = Domain(tuple(Categorical(name, discover=True) for name in table.column_names))
    for seed in range(4):
        closed, gateway = discovered(table, domain, seed=seed)
        assert closed.field("product").values == ("milk", "tea", "(other)")
        assert np.bincount(gateway._records.indices, minlength=closed.width)[3] == 0
