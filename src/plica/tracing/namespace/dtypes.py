"""Functions of dtypes; they return Python values and record nothing."""

from __future__ import annotations

from typing import Any

from plica.errors import DTypeError
from plica.ir.dtypes import DType, as_dtype, promote
from plica.tracing.namespace.inspection import FloatInfo, IntegerInfo, float_info, integer_info, is_kind
from plica.tracing.namespace.operands import is_array, is_number, placeholder, promoted_dtype
from plica.tracing.tracer import Tracer


def _dtype_of(value: Any) -> DType:
    return as_dtype(value.dtype if isinstance(value, Tracer) or is_array(value) else value)


def can_cast(from_: Any, to: Any, /) -> bool:
    """Whether a dtype, or that of an array, becomes `to` where the two meet."""
    return promote(_dtype_of(from_), as_dtype(to)) == as_dtype(to)


def finfo(type: Any, /) -> FloatInfo:  # noqa: A002 - the standard's name
    """The limits of a floating dtype, or of the parts of a complex one.

    Raises:
        DTypeError: It has no fractions.
    """
    return float_info(_dtype_of(type))


def iinfo(type: Any, /) -> IntegerInfo:  # noqa: A002 - the standard's name
    """The limits of an integer dtype.

    Raises:
        DTypeError: `type` is no integer dtype.
    """
    return integer_info(_dtype_of(type))


def isdtype(dtype: Any, kind: Any) -> bool:
    """Whether `dtype` is of a kind: its name, a dtype, or a tuple of them.

    Raises:
        DTypeError: There is no such kind.
    """
    return is_kind(as_dtype(dtype), kind)


def result_type(*arrays_and_dtypes: Any) -> DType:
    """The dtype that arrays, dtypes and Python numbers promote to.

    Raises:
        DTypeError: There is no argument.
    """
    if not arrays_and_dtypes:
        raise DTypeError("result_type takes one array, dtype or number or more.")
    weak = [value for value in arrays_and_dtypes if is_number(value) or (isinstance(value, Tracer) and value.weak)]
    strong = [_dtype_of(value) for value in arrays_and_dtypes if not any(value is number for number in weak)]
    return promoted_dtype(strong, [placeholder(number) for number in weak])
