"""Two files are made comparable, whatever their number style, layout and protection from spreadsheets."""

import json

import numpy as np
import pandas
import pytest

import dpgm
from dpgm.cli.app import load_commands, run
from dpgm.data.read.options import ReadOptions
from dpgm.evaluation.evaluate import evaluate, evaluate_inputs
from dpgm.evaluation.file_inputs import file_inputs

load_commands()
ROWS = 400
GERMAN = ReadOptions(decimal=",", thousands=".")


def prices(seed=0):
    rng = np.random.default_rng(seed)
    return pandas.DataFrame(
        {"price": (rng.integers(100, 900_000, ROWS) / 100).round(2), "town": rng.choice(["a", "b"], ROWS)}
    )


def german(frame):
    """The same with 1.234,50 for 1234.5."""
    swap = str.maketrans(",.", ".,")
    return frame.assign(price=[f"{value:,.2f}".translate(swap) for value in frame.price])


@pytest.mark.parametrize("synthetic_is_german", [False, True])
def test_numbers_are_read_in_the_style_that_is_stated(tmp_path, synthetic_is_german):
    real, synthetic = tmp_path / "real.csv", tmp_path / "synthetic.csv"
    german(prices()).to_csv(real, sep=";", index=False)
    fresh = prices(seed=1)
    if synthetic_is_german:
        german(fresh).to_csv(synthetic, sep=";", index=False)
    else:
        fresh.to_csv(synthetic, index=False)
    made = evaluate_inputs(file_inputs(real, synthetic, GERMAN))
    price = next(column for column in made.columns if column.name == "price")
    assert price.kind == "number"
    assert price.real.mean == pytest.approx(prices().price.mean())
    assert price.synthetic.mean == pytest.approx(fresh.price.mean())


def long_file(path):
    rng = np.random.default_rng(3)
    goods = np.array(["tea", "milk", "=SUM", "rye"])
    rows = [(f"u{at}", item) for at in range(ROWS) for item in goods[: 1 + rng.integers(0, 4)]]
    pandas.DataFrame(rows, columns=["user_id", "sku"]).to_csv(path, index=False)


@pytest.mark.parametrize("known", ["--assume-public-items", "--discover"])
def test_a_release_knows_the_long_layout_of_the_file_that_was_fitted(tmp_path, known):
    data, release, out, figures = (tmp_path / name for name in ("bought.csv", "release", "out.csv", "figures.json"))
    long_file(data)
    fitted = ["fit", data, "--person", "user_id", "--item", "sku", known, "--epsilon", "5", "--out", release]
    assert run([*map(str, fitted), "--model", "independent", "--quiet"]) == 0
    assert run(["sample", str(release), "--out", str(out), "--quiet"]) == 0
    compared = ["evaluate", data, out, "--release", release, "--json", figures, "--quiet"]
    assert run(list(map(str, compared))) == 0
    found = json.loads(figures.read_text())
    assert tuple(found["data"][name] for name in ("kind", "records", "synthetic_records")) == ("sets", ROWS, ROWS)


def test_a_file_with_another_layout_than_that_of_the_fit_is_still_read(tmp_path):
    real = tmp_path / "baskets.csv"
    real.write_text("tea,milk\nrye\ntea\n" * 50)
    layout = dpgm.data.layouts.Layout("long", person="user_id", item="sku")
    domain = dpgm.Domain((dpgm.data.domain.ItemSet("goods", ("tea", "milk", "rye")),), layout=layout)
    assert len(file_inputs(real, real, ReadOptions(domain=domain)).real) == 150


def test_the_apostrophe_that_protects_spreadsheets_is_not_part_of_a_value():
    real = pandas.DataFrame({"formula": ["=SUM", "-5 to 0", "plain"] * 50, "size": ["'=a", "b", "b"] * 50})
    synthetic = real.replace({"=SUM": "'=SUM", "-5 to 0": "'-5 to 0"})
    assert [column.distance for column in evaluate(real, synthetic).columns] == [0, 0]
    written = real.replace({"'=a": "''=a"})  # this apostrophe is part of the value
    assert [column.distance for column in evaluate(real, written).columns] == [0, 0]


def test_empty_records_are_mentioned():
    domain = dpgm.Domain.of_items(["a", "b"])
    real = dpgm.Records.from_lists([[0], [1]] * 100, domain)
    synthetic = dpgm.Records.from_lists([[0], [1], [], [0, 1]] * 50, domain)
    assert "25.0 % of them are empty (real: 0 %)" in str(evaluate(real, synthetic))


def stays(seed=0):
    rng = np.random.default_rng(seed)
    admitted = pandas.Timestamp("2020-01-01") + pandas.to_timedelta(rng.integers(0, 700, ROWS), "D")
    net = rng.integers(0, 100, ROWS)
    return pandas.DataFrame(
        {
            "admitted": admitted,
            "discharged": admitted + pandas.to_timedelta(rng.integers(0, 20, ROWS), "D"),
            "net": net,
            "total": net + rng.integers(0, 30, ROWS),
            "age": rng.integers(0, 100, ROWS),
        }
    )


def test_columns_that_are_out_of_order_are_named_with_the_rule_that_keeps_their_order():
    shuffled = pandas.DataFrame(
        {name: np.random.default_rng(at).permutation(column) for at, (name, column) in enumerate(stays(1).items())}
    )
    made = evaluate(stays(), shuffled)
    found = {(one.rule, one.columns) for one in made.relations.rows.rules}
    assert found == {("order_of_dates", ("admitted", "discharged")), ("order_of_numbers", ("net", "total"))}
    text = str(made)
    assert "admitted is later than discharged in 4" in text
    assert "`after: admitted` in the line of discharged" in text
    assert "`net <= total` under `constraints`" in text
    assert json.loads(made.to_json())["relations"]["rows"]["rules"][0]["real"] == 0


def test_a_few_errors_in_the_real_rows_do_not_hide_an_order():
    real, synthetic = stays(), stays(1)
    real.loc[0, "discharged"] = pandas.Timestamp("2019-01-01")
    assert evaluate(real, synthetic).relations.rows.rules == ()
    shuffled = synthetic.discharged.sample(frac=1, random_state=0).to_numpy()
    assert evaluate(real, synthetic.assign(discharged=shuffled)).relations.rows.rules


def test_numbers_of_other_meaning_get_no_rule_about_their_order():
    """Whether somebody is employed is never above an answer from 1 to 5, which says nothing about either."""
    rng = np.random.default_rng(0)
    employed, grade = rng.integers(0, 2, 600), rng.integers(1, 6, 600)
    real = pandas.DataFrame(
        {"employed": employed, "Q25": grade, "km": rng.integers(0, 90, 600), "year": 2000 + grade}
    )
    synthetic = real.assign(Q25=np.where(rng.random(600) < 0.2, 0, grade), year=rng.integers(0, 3000, 600))
    assert evaluate(real, synthetic).relations.rows.rules == ()
