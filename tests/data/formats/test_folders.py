"""Folders of Parquet files in every command; fits from a path; columns that are named like identifiers of persons."""

import json

import numpy as np
import pandas as pd
import pytest

import dpgm
from dpgm.cli.app import load_commands, run
from dpgm.data.inspection import inspect_file
from dpgm.data.person_columns import named_like_persons
from dpgm.data.read.readers import read_source
from dpgm.errors import PrivacyWarning, UsageError
from dpgm.evaluation.evaluate import evaluate
from dpgm.mechanisms.randomness import SeededRandomness

load_commands()
DOMAIN = {
    "fields": [
        {"name": "age", "kind": "numeric", "low": 0, "high": 90, "bins": 9},
        {"name": "ward", "kind": "categorical", "values": ["a", "b"]},
    ]
}


def table(count=300, seed=0, **columns):
    rng = np.random.default_rng(seed)
    return pd.DataFrame({"age": rng.integers(0, 90, count), "ward": rng.choice(["a", "b"], count)} | columns)


def visits(count=300):
    return table(count, user_id=np.arange(count) // 3)


@pytest.fixture
def folder(tmp_path):
    """A folder with one table in three Parquet files."""
    parts = tmp_path / "parts"
    parts.mkdir()
    for number in range(3):
        table(100, number).to_parquet(parts / f"part-{number}.parquet")
    return parts


def synthesizer(**options):
    return dpgm.Synthesizer(epsilon=5.0, model="independent", randomness=SeededRandomness(0), **options)


def test_inspect_takes_a_folder(folder, tmp_path, capsys):
    found = inspect_file(folder, draft_domain=tmp_path / "domain.yaml")
    assert found.records == 300
    assert [field.name for field in found.domain.fields] == ["age", "ward"]
    assert run(["inspect", str(folder), "--domain", str(tmp_path / "domain.yaml")]) == 0
    assert "records    300" in capsys.readouterr().out


@pytest.mark.parametrize("domain", [None, DOMAIN])
def test_evaluate_takes_folders_on_both_sides(folder, domain):
    made = evaluate(folder, folder, domain=domain)
    assert (made.data.records, made.data.synthetic_records) == (300, 300)
    assert {column.distance for column in made.columns} == {0.0}


def test_evaluate_takes_a_folder_of_baskets(tmp_path):
    for number, sets in enumerate(([["a"], ["b", "a"]] * 50, [["c"], ["b"]] * 50)):
        (tmp_path / "sets").mkdir(exist_ok=True)
        pd.DataFrame({"items": sets}).to_parquet(tmp_path / "sets" / f"{number}.parquet")
    made = evaluate(tmp_path / "sets", tmp_path / "sets")
    assert (made.data.records, made.data.width) == (200, 3)


def test_the_command_evaluates_a_folder(folder, tmp_path, capsys):
    assert run(["evaluate", str(folder), str(folder), "--json", str(tmp_path / "r.json"), "--quiet"]) == 0
    assert json.loads((tmp_path / "r.json").read_text())["data"]["records"] == 300


@pytest.mark.parametrize("ending", ["csv", "parquet", "folder"])
def test_python_fits_a_file_as_it_fits_its_records(folder, tmp_path, ending):
    path = folder if ending == "folder" else tmp_path / f"t.{ending}"
    if ending != "folder":
        getattr(table(), f"to_{ending}")(path, index=False)
    fitted = synthesizer(domain=DOMAIN).fit(path)
    records, source = read_source(path, domain=DOMAIN)
    other = synthesizer().fit(records, source=source)
    assert fitted.sample(50, seed=1) == other.sample(50, seed=1)
    assert fitted.certificate_.statements == other.certificate_.statements


def test_python_fits_a_file_with_the_keywords_of_read_records(tmp_path):
    (tmp_path / "sets.txt").write_text("a b\nb\nc a\n" * 40)
    keywords = {"format": "csv", "shape": "basket", "separator": " ", "assume_public_items": True}
    fitted = synthesizer().fit(str(tmp_path / "sets.txt"), **keywords)
    assert fitted.domain_.fields[0].items == ("a", "b", "c")
    assert fitted.certificate_.records == 120


def test_python_protects_the_persons_of_a_file(tmp_path):
    visits().to_csv(tmp_path / "v.csv", index=False)
    fitted = synthesizer(domain=DOMAIN).fit(tmp_path / "v.csv", person="user_id", rows_per_person=2)
    assert fitted.certificate_.unit == "person"
    assert fitted.plan_.rows_per_person == 2


def test_keywords_that_do_not_belong_are_refused_in_a_sentence(tmp_path):
    table().to_csv(tmp_path / "t.csv", index=False)
    with pytest.raises(UsageError, match="`header` says how a file is read; for data in memory leave it out"):
        synthesizer(domain=DOMAIN).fit(table(), header=True)
    with pytest.raises(UsageError, match="no argument 'seperator' \\(did you mean separator"):
        synthesizer(domain=DOMAIN).fit(tmp_path / "t.csv", seperator=";")
    with pytest.raises(UsageError, match="`source` describes records that were read earlier"):
        synthesizer().fit(tmp_path / "t.csv", source=read_source(tmp_path / "t.csv", domain=DOMAIN)[1])


# -- persons -------------------------------------------------------------------------------------------------------


def test_names_of_persons():
    persons = ["user_id", "card_id", "patient", "Customers", "member no", "memberNo", "hashed_user_id", "SSN"]
    others = ["id", "row", "user age", "card_type", "product_id", "card", "patience", "income", "number", ""]
    assert named_like_persons([*persons, *others]) == tuple(persons)


@pytest.mark.filterwarnings("always")  # the command line prints them
@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_a_fit_by_row_says_what_a_column_of_persons_means(tmp_path, capsys, ending):
    path, domain = tmp_path / f"v.{ending}", tmp_path / "d.json"
    getattr(visits(), f"to_{ending}")(path, index=False)
    domain.write_text(json.dumps(DOMAIN))
    fit = ["fit", str(path), "--domain", str(domain), "--epsilon", "5", "--model", "independent"]
    assert run([*fit, "--out", str(tmp_path / "a")]) == 0
    said = capsys.readouterr().err.splitlines()
    assert any("'user_id' is named like an identifier of persons" in line for line in said)
    assert any("--person user_id with --rows-per-person" in line for line in said)
    last = next(at for at, line in enumerate(said) if line.endswith("..."))  # the first stage
    assert "protects rows, not persons" in said[last - 1]
    assert run([*fit, "--person", "user_id", "--rows-per-person", "2", "--out", str(tmp_path / "b")]) == 0
    said = capsys.readouterr().err
    assert "identifier of persons" not in said
    assert "not persons" not in said


def test_inspect_says_what_a_column_of_persons_means(tmp_path, capsys):
    visits().to_csv(tmp_path / "v.csv", index=False)
    assert run(["inspect", str(tmp_path / "v.csv")]) == 0
    said = capsys.readouterr().out
    assert "'user_id': named like an identifier of persons" in said
    assert "protects rows, not persons" in said
    assert "--person user_id --rows-per-person K" in said
    assert inspect_file(tmp_path / "v.csv", person="user_id", rows_per_person=3).source.like_persons == ()


def test_python_warns_of_a_column_of_persons(tmp_path):
    visits().to_csv(tmp_path / "v.csv", index=False)
    for data in (visits(), tmp_path / "v.csv"):
        with pytest.warns(PrivacyWarning, match="`person='user_id'` with `rows_per_person`"):
            synthesizer(domain=DOMAIN).fit(data)
        synthesizer(domain=DOMAIN).fit(data, person="user_id", rows_per_person=2)  # warns of nothing


def test_a_column_that_the_domain_states_to_be_something_else_is_no_identifier():
    fields = [*DOMAIN["fields"], {"name": "member", "kind": "boolean"}]
    synthesizer(domain={"fields": fields}).fit(table(member=np.arange(300) % 2 == 0))  # warns of nothing


def test_the_warning_depends_on_the_name_and_not_on_values():
    alike = visits().assign(user_id=np.arange(300))  # every row is another person
    with pytest.warns(PrivacyWarning, match="'user_id' is named like"):
        synthesizer(domain=DOMAIN).fit(alike)
    synthesizer(domain=DOMAIN).fit(visits().rename(columns={"user_id": "visit"}))  # warns of nothing


@pytest.mark.parametrize(("name", "value"), [("domain", {"fields": []}), ("memory", "2GB")])
def test_arguments_of_the_synthesizer_are_no_arguments_of_fit(name, value):
    """They ended in a TypeError, or were said to belong to files."""
    for data in ("people.csv", np.eye(3)):
        with pytest.raises(UsageError, match=rf"`{name}` is an argument of `Synthesizer"):
            dpgm.Synthesizer().fit(data, **{name: value})
