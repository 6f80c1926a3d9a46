"""Answers to counting questions: from released counts where they cover the question, else from the model."""

import json

import numpy as np
import pandas as pd
import pytest

import dpgm
from dpgm.cli.app import load_commands, run
from dpgm.errors import UsageError
from dpgm.mechanisms.randomness import SeededRandomness
from dpgm.synthesis.answers import FROM_COUNTS, FROM_MODEL, CountAnswers

load_commands()
pytestmark = pytest.mark.filterwarnings("ignore::dpgm.errors.PrivacyWarning")
ROWS = 4_000


def _people():
    draws = np.random.default_rng(4)
    age = draws.integers(18, 98, ROWS)
    ward = np.where(age > 60, draws.choice(["a", "b"], ROWS), draws.choice(["b", "c"], ROWS))
    return pd.DataFrame({"age": age, "ward": ward, "sex": draws.choice(["f", "m"], ROWS, p=[0.6, 0.4])})


PEOPLE = _people()
DOMAIN = dpgm.Domain(
    (
        dpgm.Numeric("age", 17.5, 97.5, bins=20),
        dpgm.Categorical("ward", ("a", "b", "c")),
        dpgm.Categorical("sex", ("f", "m")),
    )
)


@pytest.fixture(scope="module")
def release():
    fitted = dpgm.Synthesizer(epsilon=1.0, delta=1e-5, domain=DOMAIN, randomness=SeededRandomness(0))
    return fitted.fit(PEOPLE).release_


@pytest.fixture(scope="module")
def answers(release):
    return CountAnswers(release)


def test_one_column_is_answered_by_the_released_counts(release, answers):
    for question, rows in (
        ("sex = f", PEOPLE.sex == "f"),
        ("ward in [a, c]", PEOPLE.ward != "b"),
        ("not ward = b", PEOPLE.ward != "b"),
    ):
        answer = answers.ask(question)
        assert answer.source == FROM_COUNTS
        assert answer.low <= answer.estimate <= answer.high
        assert abs(answer.estimate - rows.sum()) < 2 * (answer.high - answer.low)
    counts = release.measurements.counts()
    value, error, share = counts[DOMAIN.offsets[2]]
    first = answers.ask("sex = f")
    assert first.estimate == pytest.approx(value + share * ROWS)
    assert first.high - first.low == pytest.approx(2 * 1.959964 * error)


def test_fewer_counts_are_added_where_the_others_are_fewer(answers):
    """The number of records is public: two of three wards are all but one."""
    one, others = answers.ask("ward = b"), answers.ask("ward in [a, c]")
    assert one.estimate + others.estimate == pytest.approx(ROWS)
    assert one.high - one.low == pytest.approx(others.high - others.low)


def test_several_columns_are_answered_by_the_model(answers):
    answer = answers.ask("age >= 70 and ward = a")
    truth = ((PEOPLE.age >= 70) & (PEOPLE.ward == "a")).sum()
    assert answer.source == FROM_MODEL
    assert answer.low <= answer.estimate <= answer.high
    assert abs(answer.estimate - truth) < 2 * (answer.high - answer.low)
    assert answers.ask("age >= 70 and ward = a") == answer  # the same question has the same answer
    assert answers.ask("sex = f and sex = m").estimate == 0


def test_what_was_not_checked_is_not_promised(release, answers):
    wide = dpgm.Domain(tuple(dpgm.Categorical(f"q{at}", ("no", "yes")) for at in range(5)))
    draws = np.random.default_rng(0)
    frame = pd.DataFrame({f"q{at}": draws.choice(["no", "yes"], 500) for at in range(5)})
    fitted = dpgm.Synthesizer(epsilon=1.0, delta=1e-4, domain=wide, randomness=SeededRandomness(1)).fit(frame)
    answer = fitted.release_.query(" and ".join(f"q{at} = yes" for at in range(4)))
    assert (answer.low, answer.high) == (None, None)
    assert "no interval is promised for questions about 4 columns" in answer.why
    independent = dpgm.Synthesizer(
        epsilon=1.0, delta=1e-4, domain=wide, model="independent", randomness=SeededRandomness(1)
    ).fit(frame)
    answer = independent.release_.query("q0 = yes and q1 = yes")
    assert answer.low is None
    assert "'independent' were not checked" in answer.why
    with pytest.raises(UsageError, match="no value 'x'"):
        answers.ask("ward = x")
    with pytest.raises(UsageError, match="the question is empty"):
        answers.ask("")


def test_intervals_of_released_counts_cover_as_often_as_they_say():
    """400 fits would be slow: the noise of one table of 400 columns is as many draws. Chance of failure below 1e-6."""
    names = [f"q{at}" for at in range(400)]
    domain = dpgm.Domain(tuple(dpgm.Categorical(name, ("no", "yes")) for name in names))
    draws = np.random.default_rng(3)
    frame = pd.DataFrame({name: draws.choice(["no", "yes"], 300) for name in names})
    plan = dpgm.Synthesizer(
        epsilon=1.0, delta=1e-4, domain=domain, model="independent", randomness=SeededRandomness(2)
    )
    answers = CountAnswers(plan.fit(frame).release_)
    asked = [answers.ask(f"{name} = yes") for name in names]
    if asked[0].source != FROM_COUNTS:
        pytest.fail("the independent baseline releases counts of columns")
    inside = [
        one.low - 0.5 <= (frame[name] == "yes").sum() <= one.high + 0.5
        for one, name in zip(asked, names, strict=True)
    ]
    assert 0.95 - 5 * 0.011 < np.mean(inside) <= 1


def test_the_command_answers(release, tmp_path, capsys):
    release.save(tmp_path / "release")
    with pytest.warns(dpgm.errors.PrivacyWarning):
        opened = dpgm.load(tmp_path / "release")
    assert run(["query", str(tmp_path / "release"), "sex = f", "age >= 70 and ward = a", "--json"]) == 0
    first, second = json.loads(capsys.readouterr().out)
    assert (first["source"], second["source"]) == (FROM_COUNTS, FROM_MODEL)
    assert first["estimate"] == opened.query("sex = f").estimate
    assert run(["query", str(tmp_path / "release"), "sex = f"]) == 0
    printed = capsys.readouterr().out
    assert "sex = f: about" in printed
    assert "95 % interval" in printed
    assert run(["query", str(tmp_path / "release"), "height > 3"]) == 2
