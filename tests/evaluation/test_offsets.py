"""Moments with an offset from UTC are compared by their local time, which is what the readers take them for."""

import numpy as np
import pandas
import pytest

from dpgm.evaluation.evaluate import evaluate
from dpgm.evaluation.verdict import verdict


def visits(count=1500, seed=0):
    """Visits between nine and ten in the morning in Berlin, in summer and in winter time."""
    rng = np.random.default_rng(seed)
    minutes = rng.integers(0, 360, count) * 1440 + 9 * 60 + rng.integers(0, 60, count)
    when = pandas.Series(pandas.Timestamp("2024-01-01") + pandas.to_timedelta(minutes, unit="min"))
    return pandas.DataFrame({"when": when, "group": rng.choice(["a", "b"], count)})


def in_berlin(frame):
    return frame.assign(when=frame.when.dt.tz_localize("Europe/Berlin"))


@pytest.mark.parametrize(
    "spelling", [str, lambda moment: moment.isoformat(), lambda moment: pandas.Timestamp(str(moment))]
)
def test_moments_with_an_offset_equal_their_local_time(spelling):
    real = in_berlin(visits())
    real = real.assign(when=pandas.Series([spelling(moment) for moment in real.when], dtype=object))
    made = evaluate(real, visits(seed=1))
    assert [column.kind for column in made.columns] == ["date", "category"]
    assert verdict(made).grade == "close", verdict(made).bad


@pytest.mark.parametrize("ending", ["+00:00", "Z", ".250"])
def test_moments_that_are_all_wrong_are_named_whatever_ends_their_text(tmp_path, ending):
    real = visits().assign(when=[moment.isoformat() + ending for moment in visits().when])
    real.to_csv(tmp_path / "real.csv", index=False)
    visits(seed=1).assign(when="1950-01-01 00:00:00").to_csv(tmp_path / "broken.csv", index=False)
    judged = verdict(evaluate(tmp_path / "real.csv", tmp_path / "broken.csv"))
    assert judged.grade == "rough"
    assert "when" in judged.headline


def test_offsets_that_change_with_the_season_do_not_spoil_a_comparison_of_files(tmp_path):
    in_berlin(visits()).to_csv(tmp_path / "real.csv", index=False)
    visits(seed=1).to_csv(tmp_path / "synthetic.csv", index=False)
    made = evaluate(tmp_path / "real.csv", tmp_path / "synthetic.csv")
    assert [column.kind for column in made.columns] == ["date", "category"]
    assert verdict(made).grade == "close", verdict(made).bad
