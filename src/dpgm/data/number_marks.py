"""Numbers written with a decimal comma or marks between thousands, made plain; one by one, by the marks stated."""

import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from dpgm.data.items import Place, in_column
from dpgm.errors import InputError, UsageError

if TYPE_CHECKING:
    import pyarrow


def check_marks(decimal: str, thousands: str | None) -> None:
    """Refuses marks that cannot tell numbers."""
    if decimal not in (".", ","):
        raise UsageError("`decimal` must be the point or the comma.")
    if thousands is not None and (len(thousands) != 1 or thousands.isalnum() or thousands in '+-"' + decimal):
        raise UsageError("`thousands` must be one character that is no digit, letter, sign or the decimal mark.")


def with_plain_numbers(
    table: "pyarrow.Table",
    names: Iterable[str],
    decimal: str,
    thousands: str | None,
    missing: Sequence[str],
    place: Place,
) -> "pyarrow.Table":
    """The table with the texts of some columns written with digits and a point; missing values stay as they are.

    Raises:
        InputError: a text is no number with these marks, such as 1.5 where the mark is the comma.
    """
    import pyarrow as pa

    if decimal == "." and thousands is None:
        return table
    for name in names:
        at = table.column_names.index(name)
        column = table.column(at).combine_chunks()
        if pa.types.is_string(column.type):
            plain = plain_texts(column, decimal, thousands, ("", *missing), in_column(place, name))
            table = table.set_column(at, name, plain)
    return table


def plain_texts(
    column: "pyarrow.Array", decimal: str, thousands: str | None, missing: Sequence[str], where: Place
) -> "pyarrow.Array":
    """Texts of numbers written with digits and a point; raises InputError at one that is none with these marks."""
    import pyarrow as pa
    import pyarrow.compute as pc

    mark, text = re.escape(decimal), pc.utf8_trim_whitespace(column)
    whole = "[0-9]+"
    if thousands is not None:
        # A no-break space between thousands looks like a space to whoever states it.
        between = "[ \u00a0\u202f]" if thousands == " " else f"[{re.escape(thousands)}]"
        whole = f"([0-9]{{1,3}}({between}[0-9]{{3}})+|[0-9]+)"
    good = pc.match_substring_regex(text, f"^[+-]?({whole}({mark}[0-9]*)?|{mark}[0-9]+)([eE][+-]?[0-9]+)?$")
    absent = pc.is_in(text, value_set=pa.array(missing, type=text.type))
    fine = pc.fill_null(pc.or_(good, absent), True).to_numpy(zero_copy_only=False)
    if not fine.all():
        raise InputError(
            f"{where(int(np.argmin(fine)))}: the value is not a number written with the marks of --decimal and"
            " --thousands; correct them or the file."
        )
    plain = text
    if thousands is not None:
        plain = pc.replace_substring_regex(plain, between, "")
    plain = pc.replace_substring(plain, decimal, ".")
    return pc.if_else(absent, text, plain)
