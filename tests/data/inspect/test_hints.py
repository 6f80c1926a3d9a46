"""Hints of `inspect` (orders of dates, other marks in numbers, lists in cells) and suggestions for typing errors."""

import datetime
import warnings

import numpy as np
import pandas as pd
import pytest
import yaml

import dpgm
from dpgm.cli.app import run
from dpgm.data.domain_file import domain_from_plain, domain_to_plain
from dpgm.data.inspect.hints import joining_mark
from dpgm.data.inspection import inspect_file
from dpgm.errors import UsageError
from dpgm.mechanisms.randomness import SeededRandomness


def stays(folder, rows=60, wrong=None, pattern="%Y-%m-%d"):
    draws = np.random.default_rng(0)
    lines = ["born,admission,discharge,ward"]
    for row in range(rows):
        admitted = datetime.date(2021, 1, 1) + datetime.timedelta(days=int(draws.integers(0, 700)))
        left = admitted + datetime.timedelta(days=int(draws.integers(0, 9)))
        born = datetime.date(1940 + row % 50, 5, 5)
        if row == wrong:
            admitted, left = left + datetime.timedelta(days=1), admitted
        cells = [day.strftime(pattern) for day in (born, admitted, left)]
        lines.append(",".join([*cells, "AB"[row % 2]]))
    (folder / "stays.csv").write_text("\n".join(lines) + "\n")
    return folder / "stays.csv"


@pytest.mark.parametrize("pattern", ["%Y-%m-%d", "%d.%m.%Y", "%m/%d/%Y"])
def test_orders_of_dates_are_suggested_and_never_put_into_force(tmp_path, pattern):
    draft = tmp_path / "draft.yaml"
    found = inspect_file(stays(tmp_path, pattern=pattern), draft_domain=draft)
    assert found.orders == ("born <= admission", "admission <= discharge")  # born <= discharge follows
    assert "  [ ] admission <= discharge" in found.lines()
    assert "constraints" not in yaml.safe_load(draft.read_text())  # a comment, for the curator
    text = draft.read_text().replace("# constraints:", "constraints:").replace("# - admission", "- admission")
    draft.write_text(text)
    assert [str(rule.source) for rule in dpgm.load_domain(draft).constraints] == ["admission <= discharge"]


def test_a_date_that_comes_soon_after_another_is_best_modelled_as_the_time_between(tmp_path):
    draft = tmp_path / "draft.yaml"
    found = inspect_file(stays(tmp_path, rows=2000), draft_domain=draft)
    assert found.follows == (("discharge", "admission"),)  # and not decades after a birth
    assert any("`after: admission` in the line of discharge" in line for line in found.lines())
    text = draft.read_text()
    assert "after: admission" not in str(yaml.safe_load(text))
    draft.write_text(
        text.replace("{name: discharge, kind: date,", "{name: discharge, kind: date, after: admission,")
    )
    known = ("--epsilon", "5", "--quiet", "--model", "independent", "--out", str(tmp_path / "release"))
    assert run(["fit", str(tmp_path / "stays.csv"), "--domain", str(draft), *known]) == 0
    assert run(["verify", str(tmp_path / "release")]) == 0
    frame = dpgm.load(tmp_path / "release").sample(2000, seed=1).to_pandas()
    days = (pd.to_datetime(frame.discharge) - pd.to_datetime(frame.admission)).dt.days
    assert days.min() == 0
    assert days.le(9).mean() > 0.8  # stays are as long as stays are; independent dates would be months apart
    late = dpgm.load(tmp_path / "release").sample(50, seed=1, where="discharge >= 2022-01-01").to_pandas()
    assert (pd.to_datetime(late.discharge) >= "2022-01-01").all()


def test_after_must_name_another_date():
    dates = {"kind": "date", "low": "2020-01-01", "high": "2021-01-01"}
    fields = [{"name": "a", **dates}, {"name": "b", "after": "a", **dates}]
    domain = domain_from_plain({"fields": fields})
    assert domain_from_plain(domain_to_plain(domain)) == domain
    moment = {"name": "c", "kind": "datetime", "low": "2020-01-01", "high": "2021-01-01", "after": "a"}
    for wrong in (
        {"name": "c", "after": "x", **dates},
        {"name": "c", "after": "b", **dates},
        {"name": "c", "after": "c", **dates},
        moment,
        {"name": "c", "after": 5, **dates},
    ):
        with pytest.raises(UsageError, match="after"):
            domain_from_plain({"fields": [*fields, wrong]})


def test_the_time_since_is_read_and_written_as_dates():
    days = {"kind": "date", "low": "2020-01-01", "high": "2030-01-01"}
    moments = {"kind": "datetime", "low": "2020-01-01", "high": "2030-01-01", "unit": "hour"}
    fields = [
        {"name": "b", "after": "a", **days},
        {"name": "a", **days},
        {"name": "c", **moments},
        {"name": "d", "after": "c", **moments},
    ]
    start = pd.Timestamp("2024-03-01")
    steps = np.arange(400)
    frame = pd.DataFrame(
        {
            "a": start + pd.to_timedelta(steps % 7, unit="D"),
            "b": start + pd.to_timedelta(steps % 7 + 3, unit="D"),
            "c": start + pd.to_timedelta(steps % 5, unit="h"),
            "d": start + pd.to_timedelta(steps % 5 + 30, unit="h"),
        }
    )
    frame.loc[::9, "b"] = pd.NaT
    # A fixed seed: noise may put weight on times that lead beyond the last day, which are drawn again when written.
    fixed = SeededRandomness(1)
    fitted = dpgm.Synthesizer(epsilon=9.0, domain={"fields": fields}, model="independent", randomness=fixed).fit(
        frame
    )
    drawn = fitted.sample(400, seed=1)
    back = drawn.to_pandas()
    assert back.dtypes.astype(str).to_dict() == frame[list("bacd")].dtypes.astype(str).to_dict()
    assert ((back.b - back.a).dropna().dt.days == 3).mean() > 0.9
    assert ((back.d - back.c) == pd.Timedelta(hours=30)).mean() > 0.9
    assert 0.02 < back.b.isna().mean() < 0.3
    assert dpgm.as_records(back, fitted.domain_) == drawn  # what is written is read as what was drawn


def test_one_row_against_it_and_few_rows_suggest_nothing(tmp_path):
    assert inspect_file(stays(tmp_path, wrong=59)).orders == ("born <= admission", "born <= discharge")
    assert inspect_file(stays(tmp_path, rows=12)).orders == ()


def test_names_that_a_rule_cannot_hold_are_quoted_or_left_out(tmp_path):
    text = stays(tmp_path).read_text()
    (tmp_path / "odd.csv").write_text(text.replace("admission", "day in").replace("discharge", "day (out)"))
    assert inspect_file(tmp_path / "odd.csv").orders[-1] == '"day in" <= "day (out)"'


def test_rules_that_reject_many_records_are_reported_when_sampling(tmp_path, capsys):
    draft = tmp_path / "draft.yaml"
    data = stays(tmp_path, rows=3000)  # of few, dates of the two columns may not overlap
    assert run(["inspect", str(data), "--draft-domain", str(draft), "--drop", "born"]) == 0
    draft.write_text(draft.read_text() + "constraints: [admission <= discharge]\n")
    known = ("--epsilon", "3", "--model", "independent", "--quiet", "--out", str(tmp_path / "release"))
    assert run(["fit", str(data), "--domain", str(draft), *known]) == 0
    with warnings.catch_warnings():
        warnings.simplefilter("default")
        assert run(["sample", str(tmp_path / "release"), "--out", str(tmp_path / "out.csv")]) == 0
    printed = capsys.readouterr().err
    assert "constraints reject" in printed
    assert "(admission, discharge)" in printed
    with pytest.warns(UserWarning, match="constraints reject"):
        dpgm.load(tmp_path / "release").sample(200, seed=1)


NUMBERS = {
    "12,5 3,25 7": "--decimal ,",
    "1.234,50 12,5 7": "--decimal , --thousands '.'",
    "1 234,50 12,5 7": "--decimal , --thousands ' '",
    "1,234.50 12.5 1,234,567": "--thousands ,",
    "1,234 5,678 9": "--thousands , (or",
    "1'234 5'678 9": "--thousands '''",
    "$12.50 $3.00 $7": "--strip-from-numbers '$'",
}


@pytest.mark.parametrize("texts", NUMBERS)
def test_numbers_with_other_marks_are_noticed(tmp_path, texts):
    cells = texts.split(" ") if "1 234" not in texts else ["1 234,50", "12,5", "7"]
    (tmp_path / "n.csv").write_text("sort;cost\n" + "".join(f"a;{cell}\n" for cell in cells * 10))
    hints = dict(inspect_file(tmp_path / "n.csv").hints)
    assert NUMBERS[texts] in hints["cost"]
    assert "sort" not in hints


def test_plain_numbers_words_and_dates_give_no_hint(tmp_path):
    (tmp_path / "n.csv").write_text(
        "a;b;c;d\n" + "1.5;red, dark;03.02.2020;1,2 or so\n2;blue;04.02.2020;none\n" * 10
    )
    assert inspect_file(tmp_path / "n.csv").hints == ()


def test_the_marks_that_are_stated_hold_for_the_draft_the_fit_and_the_comparison(tmp_path, capsys):
    draws = np.random.default_rng(1)
    rows = [
        f"{1000 + amount // 100}".replace("1", "1.", 1) + f",{amount % 100:02d};03.0{1 + amount % 9}.2020"
        for amount in draws.integers(0, 90_000, 200)
    ]
    (tmp_path / "n.csv").write_text("cost;day\n" + "\n".join(rows) + "\n")
    data, draft, marks = str(tmp_path / "n.csv"), str(tmp_path / "d.yaml"), ("--decimal", ",", "--thousands", ".")
    assert run(["inspect", data, *marks, "--draft-domain", draft]) == 0
    assert "numbers with 2 places" in capsys.readouterr().out
    known = ("--epsilon", "9", "--model", "independent", "--quiet", "--out", str(tmp_path / "release"))
    assert run(["fit", data, *marks, "--domain", draft, *known]) == 0
    assert run(["sample", str(tmp_path / "release"), "-o", str(tmp_path / "s.csv"), "--quiet"]) == 0
    capsys.readouterr()
    assert run(["evaluate", data, str(tmp_path / "s.csv"), *marks, "--domain", draft]) == 0
    printed = capsys.readouterr().out
    assert "cost: the value" not in printed
    median = np.median([float(line.split(";")[0].replace(".", "").replace(",", ".")) for line in rows])
    assert f"{median:,.0f}"[:3] in printed  # as a number, not as a category


def test_lists_in_cells_are_noticed(tmp_path):
    assert joining_mark({"a|b", "b", "a|c", "c|b", "a"}) == "|"
    (tmp_path / "l.csv").write_text(
        "icd,ward\n"
        + 'I10;E11,"Surgery, general"\nE11,Medicine\nI10;J45,Medicine\nJ45;E11,"Surgery, general"\nI10,x\n' * 8
    )
    assert dict(inspect_file(tmp_path / "l.csv").hints) == {
        "icd": "cells that hold several items each: read them as lists with --kind icd=items --item-separator ';'"
    }


def test_money_in_whole_amounts_keeps_its_places(tmp_path):
    (tmp_path / "m.csv").write_text("fee,count\n" + "20.00,5.0\n0.00,\n10.00,7.0\n" * 9)
    fields = {field.name: field for field in inspect_file(tmp_path / "m.csv").domain.fields}
    assert fields["fee"].decimals == 2
    assert fields["count"].integer


SLIPS = [
    (["inspect", "DATA", "--kind", "ward=catgorical"], "did you mean categorical?"),
    (["inspect", "DATA", "--kind", "wrad=date"], "did you mean ward?"),
    (["inspect", "DATA", "--drop", "Admision"], "did you mean admission?"),
    (["inspect", "DATA", "--shape", "wid"], "did you mean wide?"),
    (["inspect", "DATA", "--format", "parqet"], "did you mean parquet?"),
    (["inspect", "DATA", "--header", "--person", "brn", "--item", "ward"], "did you mean born?"),
    (["plan", "--epsilon", "1", "--records", "100", "--model", "prodcts"], "did you mean products?"),
    (["plan", "--epsilon", "1", "--records", "100", "--preset", "papper"], "did you mean paper?"),
]


@pytest.mark.parametrize(("command", "suggestion"), SLIPS, ids=[" ".join(command[2:]) for command, _ in SLIPS])
def test_typing_errors_are_answered_with_a_suggestion(tmp_path, capsys, command, suggestion):
    data = str(stays(tmp_path))
    assert run([data if one == "DATA" else one for one in command]) == 2
    message = capsys.readouterr().err
    assert suggestion in message
    assert message.count("\n") == 1


def test_a_table_without_a_domain_is_met_with_the_command_that_drafts_one(tmp_path, capsys):
    data = str(stays(tmp_path))
    for more in ([], ["--discover"]):
        assert run(["fit", data, "--epsilon", "1", "--out", str(tmp_path / "release"), *more]) == 2
        assert "dpgm inspect FILE --draft-domain" in capsys.readouterr().err


def test_slips_in_a_domain_file_too():
    field = {"name": "age", "kind": "numeric", "low": 0, "high": 9}
    for wrong, meant in (
        ({"fields": [field | {"kind": "numric"}]}, "numeric"),
        ({"fields": [field | {"inetger": True}]}, "integer"),
        ({"fields": [field], "constrains": []}, "constraints"),
    ):
        with pytest.raises(UsageError, match=rf"did you mean {meant}\?"):
            dpgm.Synthesizer(1.0, domain=wrong)


MESSY = {
    "2020-01-31 28.02.2020 03.04.2019 2021-12-30": "dates written in several ways (such as 2020-12-31, 31.12.2020)",
    "2020.01.31T14:30 2020.02.28T09:15 2020.02.01T09:15": "'%m/%d/%Y %H:%M'",
    "12.5 N/A 7 8": "--missing N/A",
    "$12.50 n/a $7": "--missing n/a",
    "0,15 0,99 1,52 0,52 1,15 1,99": "--decimal ,",
    "142/77 120/80 118/77 142/80 120/77 118/80 NA": "two numbers in every cell, such as 120/80",
}


@pytest.mark.parametrize("texts", MESSY)
def test_dates_gaps_and_decimal_commas_are_not_taken_for_lists_or_identifiers(tmp_path, texts):
    cells = texts.split(" ") * 10
    (tmp_path / "n.csv").write_text("sort;cost\n" + "".join(f"a;{cell.replace('T', ' ')}\n" for cell in cells))
    seen = inspect_file(tmp_path / "n.csv")
    assert MESSY[texts] in "\n".join(seen.lines())
    assert "item" not in dict(seen.hints)["cost"]


def test_several_rows_per_person_are_noticed(tmp_path, capsys):
    rows = "".join(f"L{at % 40:03d};book {at % 3}\n" for at in range(160))
    (tmp_path / "loans.csv").write_text("reader;title\n" + rows)
    all_rows = inspect_file(tmp_path / "loans.csv")
    assert dict(all_rows.hints).keys() == {"reader"}
    assert "--person 'reader'" in dict(all_rows.hints)["reader"]
    question = "every row is another person"
    assert any(question in line for line in all_rows.lines())
    limited = inspect_file(tmp_path / "loans.csv", person="reader", rows_per_person=2)
    assert limited.hints == ()
    assert not any(question in line for line in limited.lines())
    assert run(["inspect", str(tmp_path / "loans.csv"), "--person", "reader"]) == 2
    assert "--rows-per-person" in capsys.readouterr().err  # not: which column holds the lists?


def test_a_column_is_numeric_as_in_a_domain_file(tmp_path):
    (tmp_path / "n.csv").write_text("sort;cost\n" + "a;1.5\nb;2.5\n" * 10)
    (_, cost) = inspect_file(tmp_path / "n.csv", kinds={"cost": "numeric"}).domain.fields
    assert cost.kind == "numeric"
