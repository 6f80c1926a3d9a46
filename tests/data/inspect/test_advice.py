"""`inspect` on files as offices export them: the draft, and the hints for the curator."""

import numpy as np
import pytest

from dpgm.data.domain import Domain
from dpgm.data.inspection import inspect_file
from dpgm.data.read.readers import read_records

RNG = np.random.default_rng(0)


def column(tmp_path, values, name="x", **options):
    """The drafted field of this column, in a table with another one, and its hint."""
    lines = [f'"{value}",{at % 3}' for at, value in enumerate(values)]
    (tmp_path / "t.csv").write_text(f'"{name}",other\n' + "\n".join(lines) + "\n")
    seen = inspect_file(tmp_path / "t.csv", **options)
    kinds = {field.name: field for field in seen.domain.columns}
    return kinds[name], dict(seen.hints).get(name)


def test_decimal_commas_below_names_without_commas_are_no_title(tmp_path):
    """The names of the columns were taken for a title above the table."""
    rows = [f"{at};{at % 5},5;{at % 7},25;{at % 3}" for at in range(60)]
    (tmp_path / "t.csv").write_text("Nr;Note;Größe;Klasse\n" + "\n".join(rows) + "\n")
    seen = inspect_file(tmp_path / "t.csv")
    assert {name for name, hint in seen.hints if "--decimal ," in hint} == {"Note", "Größe"}
    assert seen.domain.field("Klasse").kind == "numeric"


def test_money_with_signs_and_marks_is_told_all_options_at_once(tmp_path):
    """Balances such as -$1,234.50 were taken for identifiers, without a hint."""
    dollars = [f"{'-' if at % 5 == 0 else ''}${at * 37.25:,.2f}" for at in range(1, 90)]
    field, hint = column(tmp_path, dollars)
    assert "--strip-from-numbers '$' --thousands ," in hint
    field, hint = column(tmp_path, dollars, strip_from_numbers=["$"], thousands=",")
    assert (field.kind, field.decimals, hint) == ("numeric", 2, None)
    euros = [f"{at * 37.25:,.2f} €".translate(str.maketrans(",.", ".,")) for at in range(1, 90)]
    field, hint = column(tmp_path, euros)
    assert hint.startswith("numbers with a decimal comma and a currency")
    assert "--strip-from-numbers '€' --decimal , --thousands '.'" in hint


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ([f"{at // 60}:{at % 60:02}:15" for at in range(80)], "durations such as"),
        ([f"({at}.50)" if at % 3 else f"{at}.50" for at in range(80)], "brackets"),
        ([*(f"2020-01-{at % 28 + 1:02}" for at in range(80)), "9999-12-31"], "--missing '9999-12-31'"),
        ([*(f"{at % 28 + 1:02}/05/2020" for at in range(80)), "01/01/1900"], "--missing '01/01/1900'"),
    ],
)
def test_what_has_to_be_told_is_pointed_out(tmp_path, values, words):
    assert words in column(tmp_path, values)[1]


def test_numbered_rows_in_any_order_are_identifiers(tmp_path):
    """Record numbers in random order were drafted as numbers to be modelled."""
    field, _ = column(tmp_path, RNG.permutation(500) + 70_000, name="MRN")
    assert field.kind == "identifier"
    field, _ = column(tmp_path, RNG.permutation(500) + 70_000, name="record")
    assert field.kind == "identifier"
    field, _ = column(tmp_path, RNG.permutation(100_000)[:500], name="income")
    assert field.kind == "numeric"


def test_numbers_that_tell_persons_apart_are_asked_about(tmp_path):
    assert "--person 'user'" in column(tmp_path, RNG.integers(1, 100, 500), name="user")[1]
    assert column(tmp_path, RNG.integers(1, 100, 500), name="age")[1] is None


def test_options_with_blanks_are_quoted(tmp_path):
    cells = [";".join(RNG.choice(["email", "phone", "post"], 2, replace=False)) for _ in range(80)]
    assert "--kind 'Q3 channels=items'" in column(tmp_path, cells, name="Q3 channels")[1]


def test_numbers_with_more_digits_than_steps_can_hold_are_drafted_without_steps(tmp_path):
    """Twelve decimal places were drafted, and numbers above 4,503 became 4503.599627370496."""
    for values, decimals in (
        ([f"{at + 4000}.{at:06}" for at in range(80)], 6),
        ([f"{at + 4000}.123456{at:06}" for at in range(80)], None),
        ([f"{10**10 + at}.{at:06}" for at in range(80)], None),
    ):
        field, _ = column(tmp_path, values)
        assert (field.kind, field.decimals) == ("numeric", decimals)
        read = read_records(tmp_path / "t.csv", domain=Domain((field,)))
        ticks = read.columns[0].ticks / 10 ** (decimals or 0)
        assert np.array_equal(ticks, np.array(values, dtype=float))
