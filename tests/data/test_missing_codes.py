"""Codes such as 999 are reported to the curator, but only if they stand out from the other numbers."""

import numpy as np
import pytest

from dpgm.data.inspect.hints import unknown_codes
from dpgm.data.inspect.inspection import inspect_file

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
