"""Numbers and nested lists of numbers as arrays, for `asarray`.

>>> array_of_numbers([[1, 2], [3, 4.5]]).dtype
dtype('float64')
>>> array_of_numbers(2**63, "float64").item()
9.223372036854776e+18
"""

import reprlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plica.errors import DTypeError, ShapeError
from plica.ir.dtypes import DType, as_dtype, check_range

_BEYOND = 2.0**63


def array_of_numbers(obj: Any, dtype: object = None) -> NDArray[Any]:
    """A number, or a nested list of numbers, as an array of `dtype`; by default of the dtype that the numbers have.

    Raises:
        DTypeError: It holds something else than numbers, or one that the dtype does not have.
        ShapeError: Lists side by side are of several lengths.
    """
    try:
        found = np.asarray(obj)
    except ValueError:
        raise ShapeError(
            f"lists side by side have several lengths in {reprlib.repr(obj)}; pad them to one length."
        ) from None
    if found.dtype.kind == "f" and bool((np.abs(found) >= _BEYOND).any()):
        exact = np.asarray(obj, dtype=object)  # numpy makes floats of integers on both sides of 2**63
        found = exact if _are_whole(exact) else found
    whole = found.dtype.kind == "O" and found.size > 0 and _are_whole(found)
    if found.dtype.kind not in "biufc" and not whole:
        raise DTypeError(f"asarray needs numbers and arrays, found {reprlib.repr(obj)}.")
    beyond = whole or found.dtype.kind == "u"  # which numpy makes of Python's integers from 2**63 on
    wanted = as_dtype(dtype) if dtype is not None else DType.INT64 if beyond else as_dtype(found.dtype)
    _check(found, wanted)
    return found.astype(wanted.value)


def _are_whole(found: NDArray[Any]) -> bool:
    return all(isinstance(one, int) for one in found.flat)


def _check(found: NDArray[Any], dtype: DType) -> None:
    if found.dtype.kind == "c" and dtype.kind not in ("complex", "bool"):
        raise DTypeError(f"complex numbers do not fit {dtype.value}; take a complex dtype, or their real part.")
    if dtype.kind == "int" and found.dtype.kind in "iufO":
        least, most = dtype.limits
        outside = found[~((found >= least) & (found <= most))]
        if outside.size:
            number = outside.reshape(-1).tolist()[0]
            check_range(number, dtype)
            raise DTypeError(f"the number {number} does not fit {dtype.value}; choose another dtype.")
