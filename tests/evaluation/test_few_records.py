"""The verdict on data so small that figures say nothing: its words fit its numbers."""

import numpy as np
import pandas as pd

import dpgm
from dpgm.evaluation.verdict import column_faults, verdict


def twelve(seed):
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "color": rng.choice(["red", "blue"], 12),
            "size": rng.integers(1, 6, 12),
            "ok": rng.choice(["yes", "no"], 12),
        }
    )


def test_figures_of_twelve_rows_are_not_called_good():
    """Counts off by 100 % stood under what is good, since a fresh sample would be off by 3,196 %."""
    real = twelve(1)
    noise = pd.DataFrame({"color": [None] * 11 + ["other"], "size": range(20, 32), "ok": [None] * 12})
    for synthetic in (noise, twelve(2), twelve(3)):
        judged = verdict(dpgm.evaluate(real, synthetic))
        assert not [text for text in judged.good if "off by" in text or "would have to change" in text]
        assert not [text for text in judged.findings if "1000 %" in text or "3196 %" in text]
    assert any("too few records to judge counts" in text for text in judged.bad)


def test_a_column_that_hardly_any_row_has_is_judged_by_its_gaps_alone():
    """One of 300 rows had a value: `the value z makes up 0 % instead of 100 %`."""
    rng = np.random.default_rng(0)
    real = pd.DataFrame({"age": rng.integers(20, 80, 300), "late": ["z"] + [None] * 299})
    (column,) = [one for one in dpgm.evaluate(real, real.assign(late=None)).columns if one.name == "late"]
    assert not column_faults(column)
    (column,) = [one for one in dpgm.evaluate(real, real.assign(late="y")).columns if one.name == "late"]
    assert column_faults(column) == ("0 % of the values are missing instead of 99.7 %",)
