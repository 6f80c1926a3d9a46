"""Values that no real record has: outside the real range, codes without their zeros, unrounded amounts, weekends."""

import numpy as np
import pandas
import pytest

from dpgm.data.domain import Domain, Image
from dpgm.data.records import Records
from dpgm.evaluation.evaluate import evaluate
from dpgm.evaluation.verdict import verdict


def staff(count=3000, seed=0):
    rng = np.random.default_rng(seed)
    weeks, days = rng.integers(0, 50, count), rng.integers(0, 5, count)
    started = pandas.Timestamp("2024-01-01") + pandas.to_timedelta(7 * weeks + days, unit="D")
    return pandas.DataFrame(
        {
            "zip": rng.choice(["02139", "02138", "00501", "10001", "94110"], count, p=[0.4, 0.3, 0.1, 0.1, 0.1]),
            "salary": ((rng.lognormal(10.5, 0.4, count) / 100).round() * 100).astype(int),
            "children": rng.poisson(1.2, count),
            "score": rng.normal(size=count),
            "started": started,
        }
    )


def judged(synthetic, tmp_path):
    staff().to_csv(tmp_path / "real.csv", index=False)
    synthetic.to_csv(tmp_path / "synthetic.csv", index=False)
    return verdict(evaluate(tmp_path / "real.csv", tmp_path / "synthetic.csv"))


def test_a_new_sample_has_no_impossible_values(tmp_path):
    for seed in range(1, 6):
        found = judged(staff(seed=seed), tmp_path)
        assert (found.grade, found.bad) == ("close", ())


def test_impossible_numbers_are_never_close(tmp_path):
    broken = staff(seed=1)
    broken.loc[:59, "children"] = -1
    found = judged(broken, tmp_path)
    assert found.grade != "close"
    assert any("2.0 % of the values are below the smallest real value, 0" in text for text in found.bad)
    broken["children"] = broken["children"].replace(-1, 40)
    assert any("above the largest real value" in text for text in judged(broken, tmp_path).bad)


def test_codes_without_their_leading_zeros_are_never_close(tmp_path):
    found = judged(staff(seed=1).assign(zip=staff(seed=1).zip.astype(int)), tmp_path)
    assert found.grade != "close"
    assert "zip" in found.headline


def test_amounts_that_are_not_rounded_are_named(tmp_path):
    rng = np.random.default_rng(1)
    broken = staff(seed=1)
    found = judged(broken.assign(salary=broken.salary + rng.integers(-49, 50, len(broken))), tmp_path)
    assert any("salary" in text and "are multiples of 100 instead of 100 %." in text for text in found.bad)


def test_dates_on_days_that_no_real_date_has_are_named(tmp_path):
    rng = np.random.default_rng(1)
    broken = staff(seed=1)
    moved = broken.started + pandas.to_timedelta(rng.integers(0, 7, len(broken)), unit="D")
    found = judged(broken.assign(started=moved), tmp_path)
    assert any("started" in text and "are on a S" in text and "day instead of 0 %" in text for text in found.bad)


@pytest.mark.parametrize("domain", [Domain.of_items(list("abcdef")), Domain((Image("image", 2, 3),))])
@pytest.mark.parametrize("filled", [0.0, 0.5])
def test_real_data_in_which_every_record_is_empty_is_never_close(domain, filled):
    real = Records.from_dense(np.zeros((500, 6), dtype=bool), domain)
    synthetic = Records.from_dense(np.random.default_rng(0).random((500, 6)) < filled, domain)
    found = verdict(evaluate(real, synthetic))
    assert found.grade == "rough"
    assert found.headline == "The real data seems to be read wrongly: all of its records are empty."


def test_missing_values_where_no_real_row_lacks_one_are_named_however_few(tmp_path):
    broken = staff(count=8000, seed=1)
    broken.loc[:29, "zip"] = None
    staff(count=8000).to_csv(tmp_path / "real.csv", index=False)
    broken.to_csv(tmp_path / "synthetic.csv", index=False)
    found = verdict(evaluate(tmp_path / "real.csv", tmp_path / "synthetic.csv"))
    assert found.grade == "useful"
    assert any("zip: 0.38 % of the values are missing instead of 0 %" in text for text in found.bad)


def test_spikes_at_values_that_no_real_row_has_are_named_however_few():
    rng = np.random.default_rng(0)
    real, broken = (pandas.DataFrame({"share": rng.random(8000)}) for _ in range(2))
    broken.loc[:63, "share"] = 0.4194
    found = evaluate(real, broken, baselines={}).verdict
    assert found.grade != "close"
    assert "share: the value 0.4194 makes up 0.8 % instead of 0 %." in found.bad[0].replace("0.80 %", "0.8 %")
