"""`dpgm plan --forecast` and `--visible`: how far off a release will be, and the epsilon for an accuracy."""

import json

from dpgm.cli.app import run

SIZE = ["--records", "2000", "--items", "4"]


def test_a_plan_says_how_far_off_it_will_be(capsys):
    assert run(["plan", "--epsilon", "1", *SIZE, "--forecast"]) == 0
    assert "people of the truth, 95 of 100 times" in capsys.readouterr().out
    assert run(["plan", "--epsilon", "1", *SIZE, "--forecast", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)["forecast"]
    assert told["usual"] == 1.96 * told["errors"]["count"]
    assert told["errors"]["correlation"] is None


def test_an_epsilon_is_found_for_an_accuracy(capsys, tmp_path):
    plan = tmp_path / "plan.json"
    assert run(["plan", "--visible", "250", *SIZE, "--json", "--out", str(plan)]) == 0
    told = json.loads(capsys.readouterr().out)
    assert 0 < told["forecast"]["visible"] <= 250
    assert json.loads(plan.read_text())["target_epsilon"] == told["forecast"]["epsilon"]


def test_what_cannot_be_forecast_is_refused_in_a_sentence(capsys):
    for words, why in (
        (["plan", *SIZE], "--visible"),
        (["plan", "--epsilon", "1", "--visible", "9", *SIZE], "--visible"),
        (["plan", "--epsilon", "1", "--records", "2000", "--forecast"], "--items"),
        (["plan", "--visible", "1", *SIZE], "larger group"),
    ):
        assert run(words) == 2
        assert why in capsys.readouterr().err
