"""Data types: the names of the Array API standard, their short names in Program text, and promotion.

>>> DType.FLOAT32 == "float32", DType.FLOAT32.short
(True, 'f32')
>>> promote(DType.INT64, DType.FLOAT32).value
'float32'
"""

from enum import StrEnum
from typing import Any

import numpy as np

from plica.errors import DTypeError


class DType(StrEnum):
    """An element type; equal to its name as a string."""

    BOOL = "bool"
    INT8 = "int8"
    INT16 = "int16"
    INT32 = "int32"
    INT64 = "int64"
    UINT8 = "uint8"
    UINT16 = "uint16"
    UINT32 = "uint32"
    UINT64 = "uint64"
    FLOAT16 = "float16"
    FLOAT32 = "float32"
    FLOAT64 = "float64"
    COMPLEX64 = "complex64"
    COMPLEX128 = "complex128"

    @property
    def kind(self) -> str:
        """One of `bool`, `int`, `float`, `complex`."""
        return _KIND[self]

    @property
    def short(self) -> str:
        """The name in Program text: `f32`, `i64`, `bool` ..."""
        return _SHORT[self]

    @property
    def numpy(self) -> "np.dtype[Any]":
        """The numpy dtype of the same name."""
        return np.dtype(self.value)


_KIND = {
    dtype: {"b": "bool", "i": "int", "u": "int", "f": "float", "c": "complex"}[np.dtype(dtype.value).kind]
    for dtype in DType
}
_LETTERS = (("uint", "u"), ("int", "i"), ("float", "f"), ("complex", "c"), ("bool", "bool"))


def _short(name: str) -> str:
    word, letter = next(pair for pair in _LETTERS if name.startswith(pair[0]))
    return letter + name.removeprefix(word)


_SHORT = {dtype: _short(dtype.value) for dtype in DType}
FROM_SHORT = {short: dtype for dtype, short in _SHORT.items()}
_KIND_ORDER = ("bool", "int", "float", "complex")
_PYTHON = {bool: DType.BOOL, int: DType.INT64, float: DType.FLOAT64, complex: DType.COMPLEX128}


def as_dtype(value: object) -> DType:
    """The `DType` of a name, a numpy or torch dtype, or a Python scalar type (`float` is float64).

    Raises:
        DTypeError: `value` names no supported type.
    """
    if isinstance(value, type) and value in _PYTHON:
        return _PYTHON[value]
    is_numpy = isinstance(value, type | np.dtype)  # whatever the order of its bytes
    name = np.dtype(value).name if is_numpy else str(value).removeprefix("torch.")  # type: ignore[call-overload]
    if name in FROM_SHORT:
        return FROM_SHORT[name]
    try:
        return DType(name)
    except ValueError:
        known = ", ".join(dtype.value for dtype in DType)
        raise DTypeError(f"{value!r} is not a data type that Plica has; it has {known}.") from None


def promote(first: DType, second: DType) -> DType:
    """The type in which two arrays meet.

    Within a kind the standard's table holds; across kinds the higher kind wins at its own width (an integer never
    widens a float), and a float that meets a complex keeps the wider of the two precisions.
    """
    if first == second:
        return first
    if first.kind == second.kind or {first.kind, second.kind} == {"float", "complex"}:
        return as_dtype(np.promote_types(first.value, second.value))
    return max(first, second, key=lambda dtype: _KIND_ORDER.index(dtype.kind))


def scalar_dtype(value: complex, meets: DType) -> DType:
    """The type of a Python scalar that meets an array of type `meets`: the array's, unless the scalar's kind is higher.

    Raises:
        DTypeError: `value` does not fit the integer type that it would take.
    """
    own = as_dtype(type(value))
    if _KIND_ORDER.index(own.kind) <= _KIND_ORDER.index(meets.kind):
        _check_range(value, meets)
        return meets
    if own.kind == "complex" and meets.kind == "float":
        return as_dtype(np.result_type(meets.value, np.complex64))
    return {"int": DType.INT64, "float": DType.FLOAT64, "complex": DType.COMPLEX128}[own.kind]


def _check_range(value: complex, dtype: DType) -> None:
    if dtype.kind == "int" and isinstance(value, int):
        info = np.iinfo(dtype.value)
        if not info.min <= value <= info.max:
            raise DTypeError(
                f"the number {value} does not fit {dtype.value} ({info.min} to {info.max}); "
                "convert the array with astype first."
            )
