"""Columns that are not compared: the verdict says so at the top, and data without a column are not close."""

import json

import numpy as np
import pandas
import pytest

import dpgm.cli.synthetic  # noqa: F401  (registers the command)
from dpgm.cli.app import run
from dpgm.data.domain import Categorical, Domain
from dpgm.evaluation.evaluate import evaluate
from dpgm.evaluation.verdict import verdict
from dpgm.report.html import render_report


def staff(count=1500, seed=0):
    rng = np.random.default_rng(seed)
    return pandas.DataFrame(
        {
            "key": [f"person {seed} {at}" for at in range(count)],
            "salary": rng.normal(3000, 500, count).round(),
            "town": rng.choice(["a", "b", "c"], count),
            "age": rng.integers(18, 66, count),
            "score": rng.normal(size=count),
        }
    )


@pytest.mark.parametrize("with_empty_column", [False, True])
def test_a_table_of_which_only_the_label_can_be_compared_is_a_table(with_empty_column):
    label = Categorical("ill", ("no", "yes"))
    fields = (Categorical("town", ("a", "b"), missing=True), label) if with_empty_column else (label,)
    people = pandas.DataFrame({"ill": ["no", "yes", "yes", "no"] * 50})
    if with_empty_column:
        people.insert(0, "town", pandas.Series([None] * 200, dtype=object))
    made = evaluate(people, people, domain=Domain(fields, "ill"))
    reasons = [entry.reason for entry in made.not_computed if entry.metric == "downstream accuracy"]
    assert reasons == ["there is nothing besides the label to predict it from."]
    assert made.data.kind == "table"
    assert verdict(made).grade == "close"


def test_a_missing_column_is_never_close_and_is_named_at_the_top():
    made = evaluate(staff(), staff(seed=1).drop(columns="salary"))
    judged = verdict(made)
    assert judged.grade == "useful"
    assert judged.headline == "The synthetic data is useful, except for some columns: salary (missing)."
    assert judged.bad[0] == "The synthetic data lacks a column of the real data: salary."
    assert judged.bad[0] in render_report(made).partition("What is good")[0]


def test_data_that_lack_most_columns_are_rough():
    judged = verdict(evaluate(staff(), staff(seed=1)[["key", "town"]]))
    assert judged.grade == "rough"
    assert "lacks 3 columns of the real data: salary, age, score." in judged.bad[0]


@pytest.mark.parametrize("dropped", [[], ["key"]])
def test_an_identifier_is_not_compared_and_the_verdict_says_so(dropped, tmp_path, capsys):
    staff().to_csv(tmp_path / "real.csv", index=False)
    staff(seed=1).drop(columns=dropped).to_csv(tmp_path / "synthetic.csv", index=False)
    files = [f"{tmp_path}/real.csv", f"{tmp_path}/synthetic.csv"]
    assert run(["evaluate", *files]) == 0
    printed = " ".join(capsys.readouterr().out.split())
    why = "the synthetic data has no such column" if dropped else "nearly every row has a value of its own"
    assert f"note Not compared: key, because {why}" in printed
    assert "All 4 compared columns match" in printed
    judged = verdict(evaluate(*files))
    assert judged.grade == "close"
    assert judged.notes[0] in render_report(evaluate(*files)).partition("What is good")[0]


def test_an_open_domain_does_not_hide_a_missing_column(tmp_path):
    staff().to_csv(tmp_path / "real.csv", index=False)
    staff(seed=1).drop(columns="salary").to_csv(tmp_path / "synthetic.csv", index=False)
    fields = [{"name": name, "kind": "numeric", "low": 0, "high": 9999} for name in ("salary", "age")]
    fields.append({"name": "town", "kind": "categorical", "discover": True})
    (tmp_path / "domain.json").write_text(json.dumps({"fields": fields}))
    made = evaluate(tmp_path / "real.csv", tmp_path / "synthetic.csv", domain=str(tmp_path / "domain.json"))
    assert [(column.name, column.lacking) for column in made.data.left_out] == [("salary", True)]
    assert verdict(made).grade != "close"


def test_lists_in_one_of_the_tables_only_are_not_passed_over():
    real = staff(60).assign(bought=[["milk"], ["bread", "milk"]] * 30)
    made = evaluate(real, staff(60, seed=1).assign(bought="milk"))
    assert any("bought" in note and "lists in one of the two tables only" in note for note in verdict(made).notes)
    assert "bought" in verdict(evaluate(real, staff(60, seed=1))).bad[0]


def test_a_table_of_lists_alone_still_says_what_is_missing():
    real = pandas.DataFrame({"bought": [["milk"], ["bread", "milk"]] * 30, "age": [30, 40] * 30})
    made = evaluate(real, real[["bought"]])
    assert made.data.kind == "sets"
    assert "age" in verdict(made).bad[0]
