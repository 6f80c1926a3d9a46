"""Numbers written with a decimal comma, marks between thousands or signs such as €, made plain one by one."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from dpgm.data.items import Place, in_column
from dpgm.errors import InputError, UsageError

if TYPE_CHECKING:
    import pyarrow

_BLANK = "[ \t\u00a0\u202f]"  # a no-break space looks like a space to whoever states it
_LONGEST_SIGN = 20


@dataclass(frozen=True)
class NumberStyle:
    """How a text file writes numbers: the decimal mark, the mark between thousands, and signs beside them."""

    decimal: str = "."
    thousands: str | None = None
    signs: tuple[str, ...] = ()

    @property
    def is_plain(self) -> bool:
        """Whether numbers are written with digits and a point alone."""
        return self == NumberStyle()


def checked_style(decimal: str, thousands: str | None, signs: Sequence[str]) -> NumberStyle:
    """The style; refuses marks and signs by which numbers cannot be read."""
    if decimal not in (".", ","):
        raise UsageError("`decimal` must be the point or the comma.")
    if thousands is not None and (len(thousands) != 1 or thousands.isalnum() or thousands in '+-"' + decimal):
        raise UsageError("`thousands` must be one character that is not a digit, letter, sign or the decimal mark.")
    if isinstance(signs, str) or not all(isinstance(sign, str) for sign in signs):
        raise UsageError("`strip_from_numbers` must be a list of texts that stand beside numbers, such as € or %.")
    for sign in signs:
        bare = sign.strip()
        digits = any(one.isdigit() or one in "+-.," for one in bare)
        if not bare or digits or len(sign) > _LONGEST_SIGN:
            raise UsageError(
                f"`strip_from_numbers` takes signs of at most {_LONGEST_SIGN} characters, without digits, points,"
                " commas, plus and minus."
            )
    return NumberStyle(decimal, thousands, tuple(sign.strip() for sign in signs))


def with_plain_numbers(
    table: "pyarrow.Table", names: Iterable[str], style: NumberStyle, missing: Sequence[str], place: Place
) -> "pyarrow.Table":
    """The table with the texts of some columns written with digits and a point; missing values stay as they are.

    Raises:
        InputError: a text is not a number in this style, such as 1.5 where the decimal mark is the comma.
    """
    import pyarrow as pa

    if style.is_plain:
        return table
    for name in names:
        at = table.column_names.index(name)
        column = table.column(at).combine_chunks()
        if pa.types.is_string(column.type):
            plain = plain_texts(column, style, ("", *missing), in_column(place, name))
            table = table.set_column(at, name, plain)
    return table


def plain_texts(
    column: "pyarrow.Array", style: NumberStyle, missing: Sequence[str], where: Place
) -> "pyarrow.Array":
    """Texts of numbers written with digits and a point; raises InputError at one that is none in this style."""
    import pyarrow as pa
    import pyarrow.compute as pc

    mark, text = re.escape(style.decimal), pc.utf8_trim_whitespace(column)
    whole, between = "[0-9]+", ""
    if style.thousands is not None:
        between = _BLANK if style.thousands == " " else f"[{re.escape(style.thousands)}]"
        whole = f"([0-9]{{1,3}}({between}[0-9]{{3}})+|[0-9]+)"
    bare = without_signs(text, style.signs)
    good = pc.match_substring_regex(bare, f"^[+-]?({whole}({mark}[0-9]*)?|{mark}[0-9]+)([eE][+-]?[0-9]+)?$")
    absent = pc.is_in(text, value_set=pa.array(missing, type=text.type))
    fine = pc.fill_null(pc.or_(good, absent), True).to_numpy(zero_copy_only=False)
    if not fine.all():
        raise InputError(
            f"{where(int(np.argmin(fine)))}: the value is not a number written with the marks of --decimal, --thousands"
            " and --strip-from-numbers; correct them or the file."
        )
    plain = bare
    if style.thousands is not None:
        plain = pc.replace_substring_regex(plain, between, "")
    plain = pc.replace_substring(plain, style.decimal, ".")
    return pc.if_else(absent, text, plain)


def without_signs(text: "pyarrow.Array", signs: Sequence[str]) -> "pyarrow.Array":
    """Texts without a sign before (-€ 5, € -5) and one after (5 %) the number."""
    import pyarrow.compute as pc

    if not signs:
        return text
    one = "|".join(re.escape(sign) for sign in sorted(signs, key=len, reverse=True))
    text = pc.replace_substring_regex(text, f"^([+-]?){_BLANK}*(?:{one}){_BLANK}*", r"\1")
    return pc.replace_substring_regex(text, f"{_BLANK}*(?:{one})$", "")
