"""Codes such as 999 and spellings such as n/a that stand for a missing value: `inspect` finds them for the curator."""

from pathlib import Path

import numpy as np
import pytest
import yaml

from dpgm.cli.app import load_commands, run
from dpgm.data.domain import Boolean, Categorical, Domain, Numeric
from dpgm.data.domain_file import domain_from_plain, domain_to_plain, load_domain
from dpgm.data.inspect.hints import survey_codes, unknown_codes
from dpgm.data.inspection import inspect_file
from dpgm.data.read.frames import as_records
from dpgm.data.read.readers import read_records
from dpgm.errors import UsageError
from dpgm.synthesis.readme import KINDS_JUDGED
from dpgm.synthesis.release import load
from reading_data import write_file

RNG = np.random.default_rng(0)
AGES = np.clip(RNG.normal(45, 18, 1000), 0, 97).round()


@pytest.mark.parametrize(
    ("numbers", "codes"),
    [
        ([*AGES, *[999.0] * 20], (999.0,)),
        ([*AGES, *[998.0] * 20], ()),  # not a usual code
        ([*AGES, *[-1.0] * 20], (-1.0,)),
        ([*AGES, *[-99.0] * 9, *[-88.0] * 9], (-99.0, -88.0)),
        ([*AGES[AGES < 90], *[99.0] * 40], (99.0,)),
        ([*AGES, 999.0], ()),  # perhaps a typing error
        ([*RNG.normal(12, 8, 1000).round(1), *[999.9] * 12], (999.9,)),
        ([1.0, 2, 3, 4, 5] * 50 + [9.0] * 12, (9.0,)),
        ([*RNG.poisson(3, 1000).astype(float)], ()),
        ([*RNG.normal(0, 30, 1000).round()], ()),
        ([*RNG.lognormal(6, 1.5, 1000).round()], ()),
        ([*np.arange(900.0, 1200.0)] * 3, ()),
        ([999.0] * 50, ()),
    ],
)
def test_codes_lie_apart(numbers, codes):
    assert unknown_codes(np.random.default_rng(1).permutation(np.array(numbers))) == codes


def test_inspect_points_out_codes_and_the_draft_does_not_hold_them(tmp_path):
    rows = [f"{20 + at % 70 if at % 11 else 999},{at % 3}" for at in range(400)]
    (tmp_path / "t.csv").write_text("age,group\n" + "\n".join(rows) + "\n")
    seen = inspect_file(tmp_path / "t.csv", draft_domain=tmp_path / "d.yaml")
    assert [name for name, _ in seen.hints] == ["age"]
    assert "specials: [999]" in "\n".join(seen.lines())
    assert "999" not in (tmp_path / "d.yaml").read_text()


# -- codes that a whole survey shares --------------------------------------------------------------------------------


def answers(codes, rows=400, highest=5):
    """Answers 1 .. highest of which some are one of the codes."""
    numbers = np.arange(rows) % highest + 1.0
    numbers[: 7 * len(codes)] = np.repeat(codes, 7)
    return numbers


@pytest.mark.parametrize("codes", [(98.0, 99.0), (998.0, 999.0), (-9.0, -8.0), (97.0, 98.0, 99.0)])
def test_codes_of_most_columns_are_proposed_for_all_that_hold_one(tmp_path, codes):
    """998 and 98 were never pointed out, and a column with one such row was left out."""
    columns = {f"Q{at}": answers(codes) for at in range(1, 9)} | {
        "Q9": answers(()),
        "age": np.clip(AGES[:400], 0, 90),
    }
    columns["Q9"][0] = codes[0]
    table = np.stack(list(columns.values()), axis=1).astype(int)
    lines = [",".join(columns), *(",".join(map(str, row)) for row in table.tolist())]
    seen = inspect_file(write_file(tmp_path / "t.csv", "\n".join(lines) + "\n"))
    listed = ", ".join(f"{code:g}" for code in codes)
    proposed = {name for name, hint in seen.hints if f"add specials: [{listed}]" in hint}
    assert proposed == {f"Q{at}" for at in range(1, 10)}
    assert f"Q1, Q2, Q3, Q4, Q5 and 4 more columns: {listed}" in "\n".join(seen.lines())


def test_numbers_within_the_range_of_a_column_are_no_codes_of_it():
    columns = {f"Q{at}": answers((98.0, 99.0)) for at in range(5)}
    weights = np.arange(40.0, 140.0)
    assert set(survey_codes(columns | {"weight": weights})) == set(columns)
    assert survey_codes(dict.fromkeys("abc", weights)) == {}
    assert survey_codes({"a": answers((98.0,)), "b": answers((98.0,))}) == {}  # two columns are no survey


# -- texts that stand for a missing value ----------------------------------------------------------------------------

SPELLINGS = ["NA", "n/a", "-", "k.A.", "NULL", "?", "NaN", ".", "#N/A", "None", "unknown"]


def survey(tmp_path):
    """Numbers, dates, truths and categories, all with gaps spelt in many ways."""
    rows = []
    for at in range(330):
        gap = SPELLINGS[at // 3 % 11] if at % 3 == 0 else None
        whole, money, day = f"{20 + at % 60}", f"{at % 50 + 0.25:.2f}", f"2020-0{1 + at % 9}-11"
        truth, word = ("true", "false")[at % 2], ("nuts", "milk", "None", "NA")[at % 4]
        rows.append(",".join([gap or whole, gap or money, gap or day, gap or truth, word]))
    return write_file(tmp_path / "t.csv", "age,bill,seen,smokes,allergy\n" + "\n".join(rows) + "\n")


def test_usual_spellings_of_a_missing_value_are_found_and_stated_in_the_draft(tmp_path):
    """They made categories of columns of numbers and dates."""
    seen = inspect_file(survey(tmp_path), draft_domain=tmp_path / "d.yaml")
    assert {field.name: field.kind for field in seen.domain.fields} == {
        "age": "numeric",
        "bill": "numeric",
        "seen": "date",
        "smokes": "boolean",
        "allergy": "categorical",
    }
    assert (seen.domain.field("age").integer, seen.domain.field("bill").decimals) == (True, 2)
    clear = tuple(sorted(set(SPELLINGS) - {"None"}))
    assert seen.domain.missing_texts == load_domain(tmp_path / "d.yaml").missing_texts == clear
    shown = "\n".join(seen.lines())
    assert all(f"--missing {text}" in shown or f"--missing '{text}'" in shown for text in clear)
    assert "'None' in age, bill, seen, smokes; seems to be a value in allergy" in shown
    assert "'NA' in age, bill, seen, smokes, allergy\n" in shown


def test_one_row_makes_no_value_of_another_column_missing(tmp_path):
    """One "-" among the numbers made 500 regions "-" missing."""
    rows = "".join(f"{20 + at % 50},{('north', 'south', '-', 'none')[at % 4]}\n" for at in range(400))
    for more in ("", "-,north\n", "none,north\n"):
        seen = inspect_file(
            write_file(tmp_path / "t.csv", "age,region\n" + rows + more), draft_domain=tmp_path / "d.yaml"
        )
        assert seen.domain.missing_texts == ()
        assert ("seems to be a value in region" in "\n".join(seen.lines())) == bool(more)
        (tmp_path / "d.yaml").unlink()


def test_the_certificate_says_that_kinds_of_a_draft_were_judged_by_the_rows(tmp_path, capsys):
    load_commands()
    file, draft, release = str(survey(tmp_path)), str(tmp_path / "d.yaml"), str(tmp_path / "release")
    assert run(["inspect", file, "--draft-domain", draft]) == 0
    assert load_domain(draft).origin == "judged"
    fit = [
        "fit",
        file,
        "--domain",
        draft,
        "--missing",
        "None",
        "--epsilon",
        "1",
        "--model",
        "independent",
        "--quiet",
    ]
    assert run([*fit, "--out", release]) == 0
    assert run(["verify", release]) == 0
    assert KINDS_JUDGED in load(release).certificate.statements
    capsys.readouterr()


def test_texts_are_values_where_nothing_else_is_a_number(tmp_path):
    rows = [("None", "mild", "unknown", "-")[at % 4] for at in range(80)]
    seen = inspect_file(write_file(tmp_path / "t.csv", "pain,age\n" + "".join(f"{one},3\n" for one in rows)))
    assert seen.domain.field("pain").kind == "categorical"
    assert seen.domain.missing_texts == ()


def test_a_draft_with_missing_texts_is_fitted_without_an_option(tmp_path, capsys):
    load_commands()
    file, draft = str(survey(tmp_path)), str(tmp_path / "d.yaml")
    release, sample = str(tmp_path / "release"), str(tmp_path / "s.csv")
    Path(file).write_text(Path(file).read_text().replace(",None\n", ",none of these\n"))
    assert run(["inspect", file, "--draft-domain", draft]) == 0
    assert run(["fit", file, "--domain", draft, "--epsilon", "1", "--out", release, "--quiet"]) == 0
    assert run(["sample", release, "--out", sample, "--quiet"]) == 0
    assert run(["evaluate", file, sample, "--release", release, "--json"]) == 0
    assert run(["verify", release]) == 0
    ages = [line.split(",")[0] for line in (tmp_path / "s.csv").read_text().splitlines()[1:]]
    assert all(text == "" or text.isdigit() for text in ages)
    assert len(ages) == 330
    assert load_domain(tmp_path / "release" / "domain.json").missing_texts == tuple(sorted(SPELLINGS))
    capsys.readouterr()


def test_missing_texts_of_a_domain_are_those_of_the_options(tmp_path):
    fields = (
        Numeric("age", 0, 9, 10, missing=True),
        Boolean("ill", missing=True),
        Categorical("sex", ("f", "m"), True),
    )
    stated = Domain(fields, missing_texts=("k.A.", "-"))
    text = "age,ill,sex\n3,-,f\nk.A.,yes,m\n-,k.A., - \n"
    file = write_file(tmp_path / "t.csv", text)
    read = read_records(file, domain=stated)
    assert (read.to_dense() == read_records(file, domain=Domain(fields), missing=["k.A.", "-"]).to_dense()).all()
    import pandas

    frame = pandas.DataFrame([line.split(",") for line in text.splitlines()[1:]], columns=["age", "ill", "sex"])
    assert (as_records(frame, domain=stated).to_dense() == read.to_dense()).all()
    assert domain_from_plain(domain_to_plain(stated)).missing_texts == ("k.A.", "-")


def test_the_draft_of_a_frame_states_missing_texts_too():
    import pandas

    frame = pandas.DataFrame({"age": ["31", "n/a", "45", "-"] * 20, "sex": ["f", "m", "NA", "f"] * 20})
    draft = Domain.draft(frame)
    assert draft.field("age") == Numeric("age", "discover", "discover", integer=True)
    assert draft.missing_texts == ("-", "NA", "n/a")
    ages, sexes = as_records(frame, domain=draft).columns
    assert np.array_equal(ages.ticks[:4], [31, np.nan, 45, np.nan], equal_nan=True)
    assert sexes.codes[:4].tolist() == [0, 1, -1, 0]


@pytest.mark.parametrize("texts", ["NA", [1], [""], [None]])
def test_missing_texts_that_are_no_texts_are_refused(texts):
    plain = {"fields": [{"name": "ill", "kind": "boolean"}], "missing_texts": texts}
    with pytest.raises(UsageError, match="missing_texts"):
        domain_from_plain(plain)


# -- many fields in one line of a domain file ------------------------------------------------------------------------


def names_of(names):
    return [field.name for field in domain_from_plain({"fields": [{"names": names, "kind": "boolean"}]}).fields]


def test_a_line_of_a_domain_file_may_stand_for_many_fields(tmp_path):
    line = "{names: Q1..Q60, kind: numeric, low: 1, high: 5, integer: true, specials: [98, 99]}"
    file = write_file(tmp_path / "d.yaml", f"fields:\n- {{name: age, kind: numeric, low: 0, high: 99}}\n- {line}\n")
    fields = load_domain(file).fields
    assert [field.name for field in fields] == ["age", *(f"Q{at}" for at in range(1, 61))]
    assert {(field.high, field.specials) for field in fields[1:]} == {(5, (98, 99))}
    assert names_of("item08_a..item11_a") == ["item08_a", "item09_a", "item10_a", "item11_a"]
    assert names_of(["sex", "v1_3..v1_4"]) == ["sex", "v1_3", "v1_4"]


@pytest.mark.parametrize("names", ["Q1..P3", "Q3..Q1", "a..b", "Q1..Q999999", [], [3], 7, "Q1a..Q3b"])
def test_names_that_are_no_numbered_names_are_refused(names):
    with pytest.raises(UsageError, match=r"must be like Q1\.\.Q60"):
        names_of(names)
    with pytest.raises(UsageError, match="both 'name' and 'names'"):
        domain_from_plain({"fields": [{"name": "a", "names": names, "kind": "boolean"}]})


def test_a_draft_states_numbered_columns_in_one_line(tmp_path):
    names = [*(f"Q{at}" for at in range(1, 13)), "age", "x01", "x02", "a..1", "a..2", "a..3"]
    rows = "\n".join(",".join(str(at % 5) for _ in names) for at in range(60))
    file = write_file(tmp_path / "t.csv", ",".join(names) + "\n" + rows + "\n")
    seen = inspect_file(file, draft_domain=tmp_path / "d.yaml")
    listed = yaml.safe_load((tmp_path / "d.yaml").read_text())["fields"]
    assert [one.get("names", one.get("name")) for one in listed] == ["Q1..Q12", *names[12:]]
    assert load_domain(tmp_path / "d.yaml") == seen.domain
