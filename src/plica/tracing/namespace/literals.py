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
        numbers = np.asarray(obj)
    except ValueError:
        raise ShapeError(
            f"nested lists must have one length, found several in {reprlib.repr(obj)}; pad them."
        ) from None
    if numbers.dtype.kind == "f" and bool((np.abs(numbers) >= _BEYOND).any()):
        exact = np.asarray(obj, dtype=object)  # numpy makes floats of integers on both sides of 2**63
        numbers = exact if _are_whole(exact) else numbers
    are_whole = numbers.dtype.kind == "O" and numbers.size > 0 and _are_whole(numbers)
    if numbers.dtype.kind not in "biufc" and not are_whole:
        raise DTypeError(f"asarray needs numbers and arrays, found {reprlib.repr(obj)}.")
    beyond = are_whole or numbers.dtype.kind == "u"  # which numpy makes of Python's integers from 2**63 on
    wanted = as_dtype(dtype) if dtype is not None else DType.INT64 if beyond else as_dtype(numbers.dtype)
    _check(numbers, wanted)
    return numbers.astype(wanted.value)


def _are_whole(numbers: NDArray[Any]) -> bool:
    return all(isinstance(number, int) for number in numbers.flat)


def _check(numbers: NDArray[Any], dtype: DType) -> None:
    if numbers.dtype.kind == "c" and dtype.kind not in ("complex", "bool"):
        raise DTypeError(f"complex numbers do not fit {dtype.value}; take a complex dtype, or their real part.")
    if dtype.kind == "int" and numbers.dtype.kind in "iufO":
        least, most = dtype.limits
        outside = numbers[~((numbers >= least) & (numbers <= most))]
        if outside.size:
            number = outside.reshape(-1).tolist()[0]
            check_range(number, dtype)
            raise DTypeError(f"the number {number} does not fit {dtype.value}; choose another dtype.")
