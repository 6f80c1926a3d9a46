"""Columns that say which rows have an item: by 0 and 1, or by numbers of which those above a threshold mean that."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpgm.data.arrow import Array, pa, pc
from dpgm.data.values import Place, floats, refuse_rows, required_floats, written_numbers
from dpgm.errors import InputError

_ONES = ("1", "true", "True", "TRUE")
_ZEROS = ("0", "false", "False", "FALSE")


def is_binary(column: Array, threshold: float | None = None) -> bool:
    """Whether a column says which rows have an item."""
    try:
        present_in(column, threshold, lambda row: "")
    except InputError:
        return False
    return True


def present_in(column: Array, threshold: float | None, where: Place) -> NDArray[np.bool_]:
    """The rows that have the item: with 1 in a column of 0 and 1, or with a number above the threshold."""
    if pa.types.is_boolean(column.type) and not column.null_count:
        present: NDArray[np.bool_] = column.to_numpy(zero_copy_only=False)
        return present
    if threshold is not None:
        return np.asarray(required_floats(column, where) > threshold)
    if pa.types.is_string(column.type):
        column = pc.utf8_trim_whitespace(column)
        ones = pc.is_in(column, value_set=pa.array(_ONES))
        zeros = pc.is_in(column, value_set=pa.array(_ZEROS))
        if pc.all(pc.or_(ones, zeros)).as_py():
            present = ones.to_numpy(zero_copy_only=False)
            return present
        other = ~written_numbers(column) & ~pc.or_(ones, zeros).to_numpy(zero_copy_only=False)
        column = pc.if_else(ones, "1", pc.if_else(zeros, "0", pc.if_else(pa.array(other), "", column)))
    values, missing = floats(column, where, ("",))
    valid: NDArray[np.bool_] = ~missing & ((values == 0) | (values == 1))
    if not valid.all():
        raise InputError(
            f"{where(int(np.argmin(valid)))}: the value is neither 0 nor 1; describe the columns with a `domain`"
            " (`dpgm inspect` drafts one), or give `threshold` if a number above it means present."
        )
    return np.asarray(values == 1)


def present_cells(cells: NDArray[Any], threshold: float | None, place: Place) -> NDArray[np.bool_]:
    """The cells of a matrix that are present: those with 1, or with a number above the threshold."""
    if cells.dtype.kind == "f":
        refuse_rows(~np.isfinite(cells), place, "holds NaN or an infinite value; correct the file.")
    if threshold is not None:
        return np.asarray(cells > threshold)
    present: NDArray[np.bool_] = cells == 1
    refuse_rows(
        ~present & (cells != 0),
        place,
        "holds a value that is neither 0 nor 1; say which are present with `threshold`, or state grey images in a"
        " domain (kind: image, levels: 8), with the value of white pixels (white: 16) unless that is 255, or 1.0 for"
        " floats.",
    )
    return present
