"""The commands as a person types them: what they print, what they write, how they fail."""

import json
import re

import pytest

from dpgm.cli.app import run


def _fails(capsys, arguments, *words, code=2):
    assert run([str(argument) for argument in arguments]) == code
    lines = capsys.readouterr().err.strip().splitlines()
    errors = [line for line in lines if line.startswith("dpgm: error[")]
    assert len(errors) == 1, lines
    assert "E-INTERNAL" not in errors[0]
    for word in words:
        assert word in errors[0], errors[0]


def test_plan_prints_a_table_and_json(capsys, tmp_path):
    assert run(["plan", "--epsilon", "1", "--records", "5000"]) == 0
    assert "composed epsilon" in capsys.readouterr().out.replace("\n", " ")
    assert run(["plan", "--epsilon", "1", "--records", "5000", "--json"]) == 0
    plan = json.loads(capsys.readouterr().out)
    assert plan["epsilon"] <= 1
    assert all({"stage", "noise", "share"} <= set(row) for row in plan["stages"])


def test_plan_and_fit_and_sample_and_verify(capsys, tmp_path, data):
    plan = tmp_path / "plan.json"
    assert run(["plan", "--epsilon", "1", "--records", "80", "--items", "12", "--out", str(plan)]) == 0
    out = tmp_path / "release"
    fit = ["fit", str(data), "--assume-public-items", "--plan", str(plan), "--out", str(out)]
    assert run(fit) == 0
    assert run(["verify", str(out)]) == 0
    assert run(["sample", str(out), "--records", "20", "--out", str(tmp_path / "s.csv"), "--seed", "1"]) == 0
    assert len((tmp_path / "s.csv").read_text().splitlines()) >= 20
    capsys.readouterr()
    _fails(capsys, fit, "exists already")
    wrong = ["fit", data, "--assume-public-items", "--plan", plan, "--epsilon", "2", "--out", tmp_path / "r2"]
    _fails(capsys, wrong, "epsilon")


def test_a_seeded_fit_is_not_private_and_verify_says_so(capsys, tmp_path, data):
    out = tmp_path / "release"
    assert run(["fit", str(data), "--assume-public-items", "--epsilon", "1", "--seed", "1", "--out", str(out)]) == 0
    capsys.readouterr()
    _fails(capsys, ["verify", out], "NOT PRIVATE", code=1)


def test_fit_with_a_ledger_is_charged_and_refused_above_the_cap(capsys, tmp_path, data):
    ledger = tmp_path / "people.ledger"
    assert run(["ledger", "create", str(ledger), "--epsilon", "1.5", "--delta", "1e-3"]) == 0
    fit = ["fit", data, "--assume-public-items", "--epsilon", "1", "--ledger", ledger, "--delta", "1e-3"]
    assert run([str(a) for a in [*fit, "--out", tmp_path / "a"]]) == 0
    capsys.readouterr()
    _fails(capsys, [*fit, "--out", tmp_path / "b"], "E-BUDGET")
    assert not (tmp_path / "b").exists()
    assert run(["ledger", "show", str(ledger)]) == 0
    assert run(["ledger", "check", str(ledger)]) == 0


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (["fit", "DATA", "--out", "r"], "--epsilon"),
        (["fit", "DATA", "--epsilon", "1"], "--out"),
        (["fit", "DATA", "--epsilon", "0", "--assume-public-items", "--out", "r"], "epsilon"),
        (["fit", "DATA", "--epsilon", "nan", "--assume-public-items", "--out", "r"], "epsilon"),
        (["fit", "DATA", "--epsilon", "1", "--delta", "0.5", "--assume-public-items", "--out", "r"], "delta"),
        (["fit", "DATA", "--epsilon", "1", "--out", "r"], "--assume-public-items"),
        (["fit", "nowhere.parquet", "--epsilon", "1", "--out", "r"], "nowhere.parquet"),
        (["fit", "DATA", "--epsilon", "1", "--model", "gan", "--assume-public-items", "--out", "r"], "model"),
        (["fit", "DATA", "--epsilon", "1", "--resume", "--assume-public-items", "--out", "r"], "checkpoint"),
        (["fit", "DATA", "--epsilon", "1", "--clusters", "0", "--assume-public-items", "--out", "r"], "clusters"),
        (["fit", "DATA", "--epsilon", "1", "--device", "tpu", "--assume-public-items", "--out", "r"], "device"),
        (["sample", "DATA", "--records", "5", "--out", "x.csv"], "release"),
        (["sample", "nowhere", "--records", "5", "--out", "x.csv"], "release"),
        (["plan", "--epsilon", "1"], "--records"),
        (["plan", "--epsilon", "-1", "--records", "100"], "epsilon"),
        (["plan", "--epsilon", "1", "--records", "0"], "records"),
        (["plan", "--epsilon", "1", "--records", "100", "--domain", "nowhere.yaml"], "nowhere.yaml"),
        (["nonsense"], "nonsense"),
    ],
)
def test_a_users_mistake_gives_one_sentence_and_writes_nothing(
    capsys, tmp_path, data, monkeypatch, arguments, word
):
    monkeypatch.chdir(tmp_path)
    before = {path.name for path in tmp_path.iterdir()}
    _fails(capsys, [data if a == "DATA" else a for a in arguments], word)
    assert {path.name for path in tmp_path.iterdir()} == before


def test_rows_never_reach_the_terminal_or_the_release(capsys, tmp_path):
    """Marker test: a text that occurs in one private cell outside the domain is nowhere in what leaves."""
    marker = "zebra-4711"
    path = tmp_path / "visits.jsonl"
    path.write_text('{"items": ["a", "b"]}\n' * 40 + f'{{"items": ["a", "{marker}"]}}\n')
    (tmp_path / "d.yaml").write_text("fields:\n- {name: items, kind: items, items: [a, b, c]}\n")
    out = tmp_path / "release"
    code = run(["fit", str(path), "--domain", str(tmp_path / "d.yaml"), "--epsilon", "1", "--out", str(out)])
    printed = capsys.readouterr()
    assert code == 0, printed.err
    assert marker not in printed.out + printed.err
    for file in out.iterdir():
        assert marker.encode() not in file.read_bytes()


@pytest.mark.parametrize("flag", ["-h", "--help"])
def test_help_lists_options_in_groups(capsys, flag):
    assert run(["fit", flag]) == 0
    page = capsys.readouterr().out
    for group in ("Privacy", "The generator", "Reading the data", "Output", "Stopping and resuming"):
        assert group in page
    assert run(["sample", flag]) == 0
    assert "[red, blue]" in " ".join(capsys.readouterr().out.split())


def test_completion_knows_the_commands(monkeypatch, capsys):
    for name, value in (("_DPGM_COMPLETE", "complete_bash"), ("COMP_WORDS", "dpgm ev"), ("COMP_CWORD", "1")):
        monkeypatch.setenv(name, value)
    with pytest.raises(SystemExit):
        run([])
    assert capsys.readouterr().out.split() == ["evaluate"]


def test_fit_says_beforehand_what_it_takes_and_plans_for_several_rows_per_person(capsys, tmp_path):
    path = tmp_path / "visits.csv"
    path.write_text("who,ward\n" + "".join(f"{number % 60},{'abc'[number % 3]}\n" for number in range(120)))
    (tmp_path / "d.yaml").write_text("fields:\n- {name: ward, kind: categorical, values: [a, b, c]}\n")
    fit = ["fit", str(path), "--domain", str(tmp_path / "d.yaml"), "--person", "who", "--rows-per-person", "2"]
    code = run([*fit, "--epsilon", "1", "--model", "independent", "--device", "cpu", "--out", str(tmp_path / "r")])
    printed = capsys.readouterr()
    assert code == 0, printed.err
    assert re.search(r"about [0-9.]+ (MB|GB) of memory", printed.err)


def test_plan_says_what_a_fit_takes(capsys):
    assert run(["plan", "--epsilon", "1", "--records", "1000000", "--items", "100"]) == 0
    assert re.search(r"memory of a fit on a CPU: about [0-9.]+ (MB|GB)", capsys.readouterr().out)
    assert run(["plan", "--epsilon", "1", "--records", "1000000", "--items", "100", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["memory_bytes"] > 100_000_000
