"""Messages that say what to do next, in the words of the command at hand."""

import ast
import re
from pathlib import Path

import numpy as np
import pandas
import pytest

import dpgm
from dpgm.cli.app import run


@pytest.fixture(scope="module")
def release(tmp_path_factory):
    folder = tmp_path_factory.mktemp("messages")
    frame = pandas.DataFrame(
        {"day": [f"{day:02d}.05.2020" for day in range(1, 29)] * 10, "cost": [1.5, 60.5] * 140}
    )
    frame.to_csv(folder / "costs.csv", index=False)
    (folder / "domain.yaml").write_text(
        "fields:\n"
        "- {name: day, kind: date, low: 2020-01-01, high: 2020-12-31, pattern: '%d.%m.%Y'}\n"
        "- {name: cost, kind: numeric, low: 0, high: 100}\n"
    )
    fitted = ["fit", folder / "costs.csv", "--domain", folder / "domain.yaml", "--model", "independent", "--quiet"]
    assert run([*map(str, fitted), "--epsilon", "5", "--out", str(folder / "release")]) == 0
    return folder / "release"


def error_of(capsys, *arguments):
    capsys.readouterr()
    assert run([str(one) for one in arguments]) == 2
    return capsys.readouterr().err


def test_an_existing_sample_is_replaced_with_force(release, tmp_path, capsys):
    out = tmp_path / "synthetic.csv"
    out.write_text("earlier")
    assert "pass --force" in error_of(capsys, "sample", release, "--out", out)
    assert run(["sample", str(release), "--out", str(out), "--force", "--quiet"]) == 0


@pytest.mark.parametrize("ending", ["foo", "txt"])
def test_formats_that_can_be_written_are_named(release, tmp_path, capsys, ending):
    text = error_of(capsys, "sample", release, "--out", tmp_path / f"x.{ending}")
    assert ".parquet .csv .tsv .jsonl .xlsx" in text
    assert ".json " not in text


@pytest.mark.parametrize("condition", ["day >= 01.05.2020", "day = '01.05.2020'", "cost > 60,5", "cost = '60,5'"])
def test_conditions_in_the_marks_of_the_file_are_told_how_to_be_written(release, tmp_path, capsys, condition):
    text = error_of(capsys, "sample", release, "--out", tmp_path / "x.csv", "--where", condition)
    assert "2020-01-31" in text
    assert "60.5" in text


@pytest.mark.parametrize("force", [(), ("--force",)])
def test_a_finished_fit_has_nothing_to_resume(release, data, capsys, force):
    text = error_of(capsys, "fit", data, "--epsilon", "1", "--discover", "--out", release, "--resume", *force)
    assert "is finished" in text
    assert f"dpgm sample {release}" in text
    assert "charged again" in text


def test_items_still_to_be_found_are_not_counted(data, tmp_path, capsys):
    known = ("--epsilon", "8", "--discover", "--model", "independent", "--out", str(tmp_path / "release"))
    run(["fit", str(data), *known])  # whether so few records suffice is a matter of luck
    assert "fitting 80 records: what the domain leaves open is found privately" in capsys.readouterr().err


@pytest.mark.parametrize("command", [("inspect",), ("evaluate",)])
def test_a_text_file_may_hold_anything(tmp_path, capsys, command):
    file = tmp_path / "baskets.txt"
    file.write_text("tea milk\nrye\n" * 30)
    files = [file] if command == ("inspect",) else [file, file]
    assert "--format csv" in error_of(capsys, *command, *files)
    stated = ("--format", "csv", "--separator", " ", "--shape", "basket")
    assert run([*command, *map(str, files), *stated]) == 0


def test_only_kinds_that_people_write_are_listed(tmp_path, capsys):
    domain = tmp_path / "domain.yaml"
    domain.write_text("fields:\n- {name: a, kind: nmeric}\n")
    text = error_of(capsys, "plan", "--epsilon", "1", "--records", "100", "--domain", domain)
    assert "numeric" in text
    assert "shaped" not in text


def test_a_column_of_persons_is_named_together_with_that_of_items(tmp_path, capsys):
    file = tmp_path / "visits.csv"
    pandas.DataFrame({"person": [f"p{at // 3}" for at in range(300)], "place": ["a", "b", "c"] * 100}).to_csv(
        file, index=False
    )
    assert run(["inspect", str(file)]) == 0
    assert "say --person 'person' with --item COLUMN" in capsys.readouterr().out


def literals(path):
    """The texts of a module that are no docstrings, without commands such as `dpgm plan --out`."""
    tree = ast.parse(path.read_text())
    statements = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    texts = (node for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str))
    return [re.sub(r"`dpgm [^`]*`", "", node.value) for node in texts if id(node) not in statements]


def test_messages_of_the_library_name_arguments_and_no_options():
    """Left out: `inspect`, whose page of advice is a list of options, and what writes command lines for the studio."""
    source = Path(dpgm.__file__).parent
    paths = [path for path in source.rglob("*.py") if not {"cli", "inspect"} & set(path.relative_to(source).parts)]
    paths.remove(source / "studio" / "commands.py")
    assert len(paths) > 100
    named = {(path.name, text) for path in paths for text in literals(path) if re.search(r"--[a-z]", text)}
    assert named == set()


def test_the_command_line_names_options_where_the_library_names_arguments(tmp_path, capsys):
    np.save(tmp_path / "x.npy", np.eye(3))
    with pytest.raises(dpgm.UsageError, match="leave out `person` and `item`"):
        dpgm.read_records(tmp_path / "x.npy", person="who")
    assert (
        run(["fit", str(tmp_path / "x.npy"), "--person", "who", "--epsilon", "1", "--out", str(tmp_path / "r")])
        == 2
    )
    assert "leave out --person and --item." in capsys.readouterr().err
    assert run(["plan", "--epsilon", "0", "--records", "100"]) == 2
    assert "--epsilon must be a finite number above 0" in capsys.readouterr().err


def _with_domain(tmp_path, *fields):
    lines = "".join(f"- {{name: {name}, kind: numeric, low: 0, high: 99}}\n" for name in fields)
    (tmp_path / "domain.yaml").write_text(f"fields:\n{lines}")
    return "--domain", tmp_path / "domain.yaml", "--epsilon", 1, "--out", tmp_path / "release"


@pytest.mark.parametrize("ending", ["csv", "xlsx", "parquet"])
def test_a_misspelt_column_of_the_domain_gets_a_suggestion(tmp_path, capsys, ending):
    file = tmp_path / f"people.{ending}"
    frame = pandas.DataFrame({"age": [1, 2], "height": [3, 4]})
    getattr(frame, {"xlsx": "to_excel"}.get(ending, f"to_{ending}"))(file, index=False)
    text = error_of(capsys, "fit", file, *_with_domain(tmp_path, "agee", "height"))
    assert "'agee', which the file does not have (did you mean age?)" in text


def test_a_first_line_that_may_be_a_record_is_not_suggested(tmp_path, capsys):
    (tmp_path / "people.csv").write_text("age1,56\n12,34\n")
    text = error_of(capsys, "fit", tmp_path / "people.csv", *_with_domain(tmp_path, "age", "height", "weight"))
    assert "'age', which the file does not have" in text
    assert "age1" not in text
