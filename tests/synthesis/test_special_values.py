"""Special values such as 999 that a domain states: in discovery, in samples and in comparisons."""

import numpy as np
import pandas as pd
import pyarrow as pa

import dpgm
from discovery_data import assert_discovered_privately, discovered
from dpgm.data.domain import Categorical, Domain, Numeric
from dpgm.data.kinds.shaped import draw_shaped, shaped_codes
from dpgm.data.read.frames import as_records

DOMAIN = Domain(
    (
        Numeric("age", "discover", "discover", integer=True, specials=(999,)),
        Numeric("weight", 30, 150, decimals=1, specials=(-99,)),
        Numeric("score", -3, 3, specials=(9,)),
    )
)


def some_table(count=3000, seed=0):
    rng = np.random.default_rng(seed)
    unknown = rng.random((3, count)) < 0.08
    return pa.table(
        {
            "age": np.where(unknown[0], 999, np.clip(rng.normal(45, 15, count), 0, 97).astype(int)),
            "weight": np.where(unknown[1], -99, np.round(rng.normal(75, 12, count), 1)),
            "score": np.where(unknown[2], 9.0, np.clip(rng.normal(0, 1, count), -3, 3)),
        }
    )


def test_special_values_do_not_widen_the_range_nor_fill_its_ends():
    """It was 0 to 1,023 for ages up to 97, and everyone without a weight weighed 30."""
    (closed, _), records = discovered(some_table(), DOMAIN), as_records(some_table(), DOMAIN)
    age, weight, score = closed.fields
    assert age.edges[-1] <= 256
    assert (999 in age.atoms, -990 in weight.atoms, 9 in score.atoms) == (True, True, True)
    first = weight.weights[: int(np.searchsorted(weight.edges, 350))]
    assert sum(first) < 0.03 * sum(weight.weights)
    rng = np.random.default_rng(0)
    for field, column, special in zip(closed.fields, records.columns, (999, -990, 9), strict=True):
        ticks = draw_shaped(field, shaped_codes(field, column.ticks), rng)
        assert np.array_equal(ticks == special, column.ticks == special)
        others = ticks[ticks != special]
        assert abs(np.median(others) - np.median(column.ticks[column.ticks != special])) < 0.15 * others.std()


def test_special_values_are_counted_privately():
    special = pa.table({"age": [999], "weight": [-99.0], "score": [9.0]})
    tables = [some_table(300, seed) for seed in range(2)]
    assert_discovered_privately(DOMAIN, tables, [some_table(1, 9), special])


def test_a_comparison_takes_special_values_out_of_means_and_compares_their_shares():
    table = some_table(2000)
    real = table.to_pandas()
    shifted = real.assign(age=np.where(real.age == 999, 999, real.age + 1))
    fewer = real.assign(age=np.where((real.age == 999) & (np.arange(len(real)) % 4 > 0), 40, real.age))
    age = dpgm.evaluate(real, shifted, domain=DOMAIN).columns[0]
    assert age.real.high <= 97
    assert abs(age.synthetic.deviation - age.real.deviation) < 1e-9
    assert abs(age.synthetic.mean - age.real.mean - 1) < 1e-9
    age = dpgm.evaluate(real, fewer, domain=DOMAIN).columns[0]
    assert any((gap.what.which, gap.what.low) == ("value", "999") for gap in age.gaps)


def test_samples_hold_special_values_as_often_as_the_data():
    frame = some_table(2000).to_pandas()[["age"]].assign(sex=np.where(np.arange(2000) % 2, "f", "m"))
    domain = Domain((DOMAIN.fields[0], Categorical("sex", ("f", "m"))))
    drawn = dpgm.Synthesizer(epsilon=1, domain=domain).fit(frame).sample(2000, seed=1).to_pandas()
    assert isinstance(drawn, pd.DataFrame)
    assert abs((drawn.age == 999).mean() - (frame.age == 999).mean()) < 0.03
    assert not ((drawn.age > 255) & (drawn.age < 999)).any()
