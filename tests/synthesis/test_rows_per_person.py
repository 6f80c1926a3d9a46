"""Several rows per person in a table: which rows are used, the sensitivity to a person, what the certificate says."""

import json
import math
import unicodedata
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from scipy.stats import norm

import dpgm
from dpgm.cli.app import load_commands
from dpgm.cli.app import run as command
from dpgm.data.domain import Categorical, Domain, ItemSet, Numeric
from dpgm.data.layouts import Source
from dpgm.data.read.frames import as_records, read_frame
from dpgm.data.read.options import ReadOptions
from dpgm.data.read.person_ids import person_id, person_ids
from dpgm.data.read.readers import read_share, read_source
from dpgm.data.records import Records, concatenate
from dpgm.errors import BudgetError, DpgmError, InputError, UsageError
from dpgm.mechanisms.gateway import Gateway
from dpgm.mechanisms.randomness import SeededRandomness
from dpgm.mechanisms.threshold import STEP, contributions, threshold_for
from dpgm.privacy.accountant import cost
from dpgm.privacy.events import Mechanism
from dpgm.privacy.ledger import Ledger
from dpgm.statistics.item_counts import ItemCounts
from dpgm.statistics.statistic import release
from dpgm.strategy.settings import Config
from dpgm.synthesis.domain_discovery import discover_domain
from dpgm.synthesis.plan import Plan, make_plan
from dpgm.testing import assert_playback_invariant, sensitivity_ratios
from dpgm.trees.measurement import measure_table
from release_data import edit

ITEMS = Domain.of_items(12)
TABLE = Domain(
    (
        Categorical("ward", discover=True),
        Categorical("sex", ("f", "m")),
        Numeric("age", 0, 110, integer=True),
        ItemSet("drugs", discover=True),
    )
)
ITEMS_OF_SEX = Domain((ItemSet("sex", ("f", "m")),))
VISITS = Domain((Categorical("ward", ("north", "south", "east")), Categorical("sex", ("f", "m"))))


def visits(persons=300, rows=(1, 9), seed=0, wards=("north", "south", "east")):
    """A frame of visits, several per person."""
    rng = np.random.default_rng(seed)
    who = rng.permutation(np.repeat(np.arange(persons), rng.integers(*rows, persons)))
    count = len(who)
    return pd.DataFrame(
        {
            "who": [f"p{number}" for number in who],
            "ward": rng.choice(wards, count),
            "sex": rng.choice(["f", "m"], count),
            "age": rng.integers(0, 100, count),
            "drugs": [[f"d{at}" for at in set(rng.geometric(0.4, 3).tolist())] for _ in range(count)],
            "visit": np.arange(count),
        }
    )


def visits_used(frame, most):
    """The numbers of the visits that are used."""
    domain = Domain((Numeric("visit", 0, len(frame) - 1, bins=len(frame), integer=True),))
    read = read_frame(frame, domain, person="who", rows_per_person=most)
    assert read.source.unit == "person"
    assert read.source.rows_per_person == most
    return read.records.indices.tolist()


def test_at_most_k_rows_of_a_person_are_used():
    frame = visits()
    for most in (1, 3, 100):
        rows = frame.iloc[visits_used(frame, most)]
        counts = frame.groupby("who").size().clip(upper=most)
        assert rows.groupby("who").size().to_dict() == counts.to_dict()
        assert rows.index.is_monotonic_increasing


def test_the_choice_is_fresh_and_even():
    """No seed determines it, and every row of a person is equally likely: 400 choices of 2 out of 8."""
    frame = visits(1, (8, 9))
    np.random.seed(0)  # noqa: NPY002
    chosen = [tuple(visits_used(frame, 2)) for _ in range(400)]
    assert len(set(chosen)) == 28
    times = np.bincount(np.ravel(chosen), minlength=8)
    assert ((times - 100) ** 2 / 75).sum() < 35  # chi-square with 7 degrees of freedom: one run in 100,000


def test_one_person_written_in_several_ways_is_one_person(tmp_path):
    """Spaces around an identifier, or other types in parts of a data set, give nobody more rows."""
    file = tmp_path / "visits.csv"
    file.write_text('who,sex\np1,f\np1 ,f\n p1,m\n"p1",m\np2,m\n', "utf-8")
    sexes = Domain(VISITS.fields[1:])
    assert len(read_source(file, domain=sexes, person="who", rows_per_person=1)[0]) == 2
    with pytest.raises(InputError, match="record 2"):
        read_source(file, domain=sexes, person="who")
    grouped = read_source(file, domain=ITEMS_OF_SEX, person="who", item="sex")[0]
    assert grouped.lengths.tolist() == [2, 1]
    for number, kind in enumerate((pa.int32(), pa.int64(), pa.string())):
        people = pa.array([1, 2, 2]).cast(kind)
        pq.write_table(pa.table({"who": people, "sex": ["f", "m", "m"]}), tmp_path / f"{number}.parquet")
    assert len(read_source(tmp_path, domain=sexes, person="who", rows_per_person=2, shape="wide")[0]) == 4


# "Zoë B" as programs write it: decomposed, with a byte order mark, no-break and other spaces, zero-width marks, a soft
# hyphen, a variation selector, a control character, a direction mark, a tag and a Hangul filler.
ONE_PERSON = [
    "Zoë B", "Zoe\u0308 B", "\ufeffZoë B", "Zoë\u00a0B", "Zoë\u2003B", "Zoë  B\u3000", "Zo\u200bë B", "Zoë B\u200d",
    "Zo\u00adë B", "Zoë B\ufe0f", "Zoë\x7f B", "\u202aZoë B\u202c", "Zoë B\U000e0042", "Zoë B\u3164", "Zoe\u200b\u0308 B",
]  # fmt: skip
OTHERS = [
    "Zoe B",
    "ZoëB",
    "zoë B",
    "Zoë Β",
]  # without the dots, without the space, in lower case, with a Greek letter


def _as(kind, who, tmp_path):
    """Visits of these people as a frame or a file of some kind, with one sex each."""
    table = pa.table({"who": pa.array(who, pa.string()), "sex": ["f"] * len(who)})
    file = tmp_path / f"visits.{kind}"
    if kind == "csv":
        file.write_text("who,sex\n" + "".join(f'"{name}",f\n' for name in who), "utf-8")
    elif kind == "jsonl":
        file.write_text("".join(json.dumps({"who": name, "sex": "f"}) + "\n" for name in who), "utf-8")
    elif kind == "parquet":
        pq.write_table(table, file)
    frames = {"pandas": lambda: table.to_pandas(), "arrow": lambda: table, "polars": lambda: pl.from_arrow(table)}
    frames["category"] = lambda: table.to_pandas().astype({"who": "category"})
    return frames[kind]() if kind in frames else file


def _count(data, **options):
    read = read_source(data, **options)[0] if isinstance(data, Path) else read_frame(data, **options).records
    return len(read)


@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet", "pandas", "category", "arrow", "polars"])
def test_ids_that_differ_in_what_nobody_sees_are_one_person(tmp_path, kind):
    limited = {"person": "who", "rows_per_person": 1, "domain": Domain(VISITS.fields[1:])}
    grouped = {"person": "who", "item": "sex", "domain": ITEMS_OF_SEX}
    for options in (limited, grouped):
        several = [name for name in ONE_PERSON if _count(_as(kind, [name, "Zoë B"], tmp_path), **options) != 1]
        assert several == []
        assert _count(_as(kind, [*ONE_PERSON, *OTHERS], tmp_path), **options) == 1 + len(OTHERS)
        with pytest.raises(InputError, match="the person is missing"):
            _count(_as(kind, ["Zoë B", "\u200b\u00a0\ufeff"], tmp_path), **options)


def test_an_id_is_trimmed_by_unicode_category():
    """All invisible characters, and every 31st of the others."""
    for code in (*range(0xD800), *range(0xE000, 0x110000)):
        one, kind = chr(code), unicodedata.category(chr(code))
        if kind in ("Cc", "Cf", "Zs", "Zl", "Zp") or unicodedata.name(one, "").startswith("VARIATION SELECTOR"):
            assert person_id(f"a{one}") == person_id(f"{one}a") == "a", hex(code)
            assert person_id(f"a{one}b") == ("a b" if one.isspace() else "ab"), hex(code)
        elif code % 31:
            continue
        elif kind[0] in "LNPS" and one not in "\u115f\u1160\u3164\uffa0":
            assert person_id(f"|{one}") != "|", hex(code)
        assert person_id(person_id(one)) == person_id(one), hex(code)
    assert person_ids(pa.array(["x", None, "é\u200b", "x"]).slice(1)).to_pylist() == [None, "é", "x"]


def test_a_frame_says_itself_how_many_rows_a_person_has():
    stated = Source("person", False, "wide")
    with pytest.raises(UsageError, match="leave it out"):
        dpgm.Synthesizer(1.0, domain=VISITS).fit(visits(), person="who", rows_per_person=3, source=stated)


def run(gateway, plan, domain=TABLE):
    discovered = discover_domain(gateway, plan, domain)
    return measure_table(gateway, discovered.domain, plan.records, plan.noises, plan.settings.family.rules)


def rows_of(drugs, **others):
    row = {"ward": "west", "sex": "f", "age": 40, "drugs": drugs} | others
    return as_records(pa.Table.from_pylist([row]), TABLE)


@pytest.mark.parametrize("most", [1, 4])
def test_a_whole_person_moves_every_release_by_its_sensitivity_at_most(most):
    """All rows alike is the worst case, and it reaches the bound; the person comes first, in the middle, last."""
    records = read_frame(visits(60, (1, 3)).drop(columns="who"), TABLE).records
    plan = make_plan(Config(10.0, rows_per_person=most), len(records), TABLE)
    for row in (rows_of(["d1"]), rows_of([]), rows_of([f"x{at}" for at in range(70)], age=0, ward="only mine")):
        person = concatenate([row] * most)
        ratios = sensitivity_ratios(
            lambda gateway: run(gateway, plan), records, person, allowance=plan.mechanisms, rows_per_person=most
        )
        assert set(ratios) == {mechanism.name for mechanism in plan.mechanisms}
        assert max(ratios.values()) <= 1 + 1e-9
        assert ratios["discovered values"] > 0.95


def test_more_rows_than_stated_break_the_bound():
    """The check above can fail."""
    counts = ItemCounts(ITEMS, 3)
    records, person = Records.from_lists([[0], [1, 2]], ITEMS), Records.from_lists([[0, 1, 2]] * 3, ITEMS)
    ratios = sensitivity_ratios(lambda gateway: release(gateway, counts, 1.0), records, person, rows_per_person=3)
    assert ratios == {"item counts": pytest.approx(1.0)}
    with pytest.raises(AssertionError, match="at most those that a person may have"):
        sensitivity_ratios(lambda gateway: release(gateway, counts, 1.0), records, person, rows_per_person=2)


def test_the_result_follows_from_released_values():
    frames = [visits(60, (1, 3)), visits(25, (1, 3), 1)]
    records = [read_frame(frame.drop(columns="who"), TABLE).records for frame in frames]
    plan = make_plan(Config(10.0, rows_per_person=3), len(records[0]), TABLE)

    def noisy_alone(gateway):
        gateway._rows_per_person = 3
        return run(gateway, plan)

    assert_playback_invariant(noisy_alone, records, tapes=1, allowance=plan.mechanisms)


def test_noise_is_that_of_all_rows_and_the_charge_that_of_the_guarantee():
    records = Records.from_lists([[0, 1]] * 50, ITEMS)
    counts, allowance = ItemCounts(ITEMS, 4), (Mechanism("item counts", 1.7),)
    residuals = []
    for seed in range(150):
        gateway = Gateway(records, randomness=SeededRandomness(seed), allowance=allowance, rows_per_person=3)
        measured = release(gateway, counts, 3 * 1.7)
        assert gateway.spent == allowance
        assert measured.std == pytest.approx(3 * 1.7 * 2)
        exact = torch.tensor([50.0, 50.0] + [0.0] * 10, dtype=torch.float64)
        residuals += ((measured.value - exact) / measured.std).tolist()
    assert abs(np.std(residuals) - 1) < 0.08
    gateway = Gateway(records, randomness=SeededRandomness(0), allowance=allowance, rows_per_person=3)
    with pytest.raises(BudgetError, match="differs from the plan"):
        release(gateway, counts, 1.7)  # the noise of one row


def test_samples_of_rows_are_refused_at_the_gateway():
    gateway = Gateway(Records.from_lists([[0]], ITEMS), randomness=SeededRandomness(0), rows_per_person=2)
    with pytest.raises(DpgmError, match="several"), gateway.poisson("step", 0.5):
        pass
    with pytest.raises(DpgmError, match="at least one row"):
        Gateway(Records.from_lists([[0]], ITEMS), randomness=SeededRandomness(0), rows_per_person=0)


@pytest.mark.parametrize("rows", [2, 5])
@pytest.mark.parametrize("cap", [1, 7, 64])
def test_values_of_one_person_alone_pass_with_probability_delta_at_most(rows, cap):
    """K rows may have one value K times, or K x n values once each, or anything in between."""
    noise, delta = 12.0 * rows, 1e-6
    least = round(threshold_for(noise, delta, cap, rows) / STEP)
    for n in range(1, cap + 1):
        for times in range(1, rows + 1):
            values = n * (rows // times)  # every value in `times` rows
            each = norm.sf((least - times * int(contributions(cap)[n]) - 0.5) * STEP / noise)
            assert -math.expm1(values * math.log1p(-each)) <= delta


def test_the_threshold_is_that_of_the_gateway():
    plan = make_plan(Config(2.0, rows_per_person=3), 100, TABLE)
    gateway = Gateway(
        read_frame(visits(100, (1, 2)), TABLE).records,
        randomness=SeededRandomness(0),
        allowance=plan.mechanisms,
        rows_per_person=2,
    )
    with pytest.raises(DpgmError, match="another number of rows"):
        discover_domain(gateway, plan, TABLE)


def test_the_plan_is_what_the_ledger_holds_and_the_certificate_says_so(tmp_path):
    frame = visits(400)
    ledger = Ledger.create(tmp_path / "ledger", 3.0, 1e-4)
    fitted = dpgm.Synthesizer(1.0, 1e-5, domain=VISITS).fit(frame, person="who", rows_per_person=3, ledger=ledger)
    certificate, plan = fitted.certificate_, fitted.plan_
    assert plan.records == frame.groupby("who").size().clip(upper=3).sum()
    assert certificate.unit == "person"
    assert certificate.mechanisms == plan.mechanisms == ledger.entries()[-1].mechanisms
    assert certificate.epsilon == cost(plan.mechanisms, 1e-5).epsilon <= 1.0
    assert any("at most 3 rows" in sentence and "3 times" in sentence for sentence in certificate.statements)
    one = make_plan(Config(1.0, 1e-5), plan.records, VISITS)
    assert plan.mechanisms == one.mechanisms  # as private, with three times the noise
    assert plan.noise("coarse pairs") == 3 * one.noise("coarse pairs")
    assert Plan.from_json(json.loads(json.dumps(plan.to_json()))) == plan
    fitted.save(tmp_path / "release")
    assert dpgm.verify(tmp_path / "release").ok
    assert "at most 3 rows" in (tmp_path / "release" / "README.md").read_text()
    assert "up to 3 of" in certificate._repr_html_()


def test_a_certificate_that_says_other_rows_does_not_verify(tmp_path):
    dpgm.Synthesizer(1.0, 1e-5, domain=VISITS).fit(visits(400), person="who", rows_per_person=3).save(
        tmp_path / "release"
    )
    path = tmp_path / "release" / "certificate.json"
    honest = path.read_text()

    def failed(change):
        path.write_text(honest)
        edit(tmp_path / "release", change)
        return {check.name for check in dpgm.verify(tmp_path / "release").failed}

    assert failed(lambda forged: None) == set()
    assert "sentences" in failed(lambda forged: forged["plan"].update(rows_per_person=2))
    assert "sentences" in failed(lambda forged: forged["plan"].pop("rows_per_person"))
    assert failed(lambda forged: forged["plan"].update(rows_per_person=True))
    assert failed(lambda forged: forged.update(unit="row"))
    assert failed(
        lambda forged: forged.update(statements=[one for one in forged["statements"] if "rows" not in one])
    )


def test_what_cannot_be_proved_or_done_is_refused_before_anything_is_charged(tmp_path):
    frame = visits(50)
    fit = {"person": "who", "rows_per_person": 3}
    for model in ("vae", "rbm"):
        with pytest.raises(UsageError, match="one row per person"):
            dpgm.Synthesizer(1.0, model=model, domain=VISITS).fit(frame, **fit)
    with pytest.raises(UsageError, match="cannot be resumed"):
        dpgm.Synthesizer(1.0, domain=VISITS).fit(frame, checkpoint=tmp_path / "c", resume=True, **fit)
    with pytest.raises(UsageError, match="1 rows per person"):
        dpgm.Synthesizer(1.0, domain=VISITS).fit(
            frame, plan=make_plan(Config(1.0), int(frame.groupby("who").size().clip(upper=3).sum()), VISITS), **fit
        )
    with pytest.raises(UsageError, match="needs `person`"):
        dpgm.Synthesizer(1.0, domain=VISITS).fit(frame, rows_per_person=3)
    with pytest.raises(UsageError, match="long shape"):
        ReadOptions(person="who", item="what", rows_per_person=3)
    for wrong in (0, True, 10**6):
        with pytest.raises(UsageError, match="whole number"):
            ReadOptions(person="who", rows_per_person=wrong)
    frame[["who", "ward", "sex"]].to_csv(tmp_path / "visits.csv", index=False)
    options = ReadOptions(domain=VISITS, person="who", rows_per_person=3)
    with pytest.raises(UsageError, match="one process"):
        read_share(tmp_path / "visits.csv", options, 0, 2)
    with pytest.raises(dpgm.errors.InputError, match="`rows_per_person=K`"):
        dpgm.read_records(tmp_path / "visits.csv", domain=VISITS, person="who")


def test_on_the_command_line(tmp_path, capsys):
    load_commands()
    frame = visits(300)
    frame[["who", "ward", "sex"]].to_csv(tmp_path / "visits.csv", index=False)
    (tmp_path / "domain.json").write_text(
        json.dumps(
            {
                "fields": [
                    {"name": "ward", "kind": "categorical", "values": ["north", "south", "east"]},
                    {"name": "sex", "kind": "categorical", "values": ["f", "m"]},
                ]
            }
        )
    )
    arguments = ["fit", str(tmp_path / "visits.csv"), "--domain", str(tmp_path / "domain.json"), "--person", "who"]
    arguments += ["--rows-per-person", "2", "--epsilon", "1", "--out", str(tmp_path / "release")]
    assert command(arguments) == 0
    assert "per person" in capsys.readouterr().err
    assert command(["verify", str(tmp_path / "release")]) == 0
    assert command(["plan", "--epsilon", "1", "--records", "1000", "--rows-per-person", "2"]) == 0
    assert "one person with up to 2 records" in " ".join(capsys.readouterr().out.split())


def test_records_read_without_their_source_warn_that_rows_are_protected_one_by_one(tmp_path):
    path = tmp_path / "visits.csv"
    path.write_text("who,ward\n" + "".join(f"p{at % 50},{'ab'[at % 2]}\n" for at in range(200)))
    domain = dpgm.Domain((dpgm.Ignored("who"), dpgm.Categorical("ward", ("a", "b"))))
    options = {"domain": domain, "person": "who", "rows_per_person": 2}
    with pytest.warns(dpgm.PrivacyWarning, match="`read_source`"):
        dpgm.read_records(path, **options)
    records, source = dpgm.read_source(path, **options)
    fitted = dpgm.Synthesizer(epsilon=5.0).fit(records, source=source)
    assert fitted.certificate_.unit == "person"
