"""Data types: the names of the Array API standard, their short names in Program text, and promotion.

>>> import numpy as np
>>> DType.FLOAT32, DType.FLOAT32.short
(plica.numpy.float32, 'f32')
>>> DType.FLOAT32 == np.dtype("float32"), np.float32 == DType.FLOAT32, DType.FLOAT32 == "float32"
(True, True, True)
>>> promote(DType.INT64, DType.FLOAT32)
plica.numpy.float32
"""

from enum import Enum
from typing import Any

import ml_dtypes  # noqa: F401 - with it numpy knows the name bfloat16
import numpy as np

from plica.errors import DTypeError

_KINDS = {"b": "bool", "i": "int", "u": "int", "f": "float", "c": "complex", "V": "float"}  # V: bfloat16


_SHORT = {"bool": "bool", "bfloat16": "bf16"}


class DType(Enum):
    """An element type; equal to that of numpy, torch and other libraries, and to its name, whichever side it is on.

    Its hash is that of numpy's dtype: dictionaries and sets find one for the other. A name and torch's dtype are equal
    to it but have hashes of their own, as they have beside numpy's.

    Attributes:
        kind: One of `bool`, `int`, `float`, `complex`.
        short: The name in Program text: `f32`, `i64`, `bool` ...
        numpy: The numpy dtype of the same name.
        dtype: The same, where numpy looks for it: `np.zeros(2, dtype=DType.FLOAT32)`.
    """

    BOOL = "bool"
    INT8 = "int8"
    INT16 = "int16"
    INT32 = "int32"
    INT64 = "int64"
    UINT8 = "uint8"
    UINT16 = "uint16"
    UINT32 = "uint32"
    UINT64 = "uint64"
    BFLOAT16 = "bfloat16"
    FLOAT16 = "float16"
    FLOAT32 = "float32"
    FLOAT64 = "float64"
    COMPLEX64 = "complex64"
    COMPLEX128 = "complex128"

    def __init__(self, name: str) -> None:
        self.numpy: np.dtype[Any] = np.dtype(name)
        self.dtype = self.numpy
        self.kind = _KINDS[self.numpy.kind]
        self.short = _SHORT.get(name, f"{self.numpy.kind}{8 * self.numpy.itemsize}")
        self._hash = hash(self.numpy)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, DType):
            return self is other
        if isinstance(other, str):
            return self.value == other
        if isinstance(other, type | np.dtype):
            return bool(self.numpy == other)
        return self.value == _name_elsewhere(other) or NotImplemented

    def __hash__(self) -> int:
        return self._hash

    def __str__(self) -> str:
        return str(self.value)

    def __repr__(self) -> str:
        return f"plica.numpy.{self.value}"


def _name_elsewhere(value: object) -> str | None:
    """The name of a dtype of another library than numpy (`torch.float32`); None of what is no dtype."""
    is_dtype = type(value).__name__.lower().endswith("dtype")
    return str(value).rpartition(".")[2] if is_dtype else None


FROM_SHORT = {dtype.short: dtype for dtype in DType}
_KIND_ORDER = ("bool", "int", "float", "complex")
_PYTHON = {bool: DType.BOOL, int: DType.INT64, float: DType.FLOAT64, complex: DType.COMPLEX128}


def as_dtype(value: object) -> DType:
    """The `DType` of a name, a dtype of numpy, torch or another library, or a Python scalar type (`float` is float64).

    Raises:
        DTypeError: `value` names no supported type.
    """
    if isinstance(value, DType):
        return value
    if isinstance(value, type) and value in _PYTHON:
        return _PYTHON[value]
    if isinstance(value, type | np.dtype):  # whatever the order of its bytes
        name = np.dtype(value).name
    else:
        name = value if isinstance(value, str) else _name_elsewhere(value) or ""
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
    widens a float), and a float that meets a complex keeps the wider of the two precisions. Neither of bfloat16 and
    float16 has the numbers of the other: they meet in float32.
    """
    if first == second:
        return first
    if {first, second} == {DType.BFLOAT16, DType.FLOAT16}:
        return DType.FLOAT32
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
        check_range(value, meets)
        return meets
    if own.kind == "complex" and meets.kind == "float":
        return as_dtype(np.result_type(meets.value, np.complex64))
    return {"int": DType.INT64, "float": DType.FLOAT64, "complex": DType.COMPLEX128}[own.kind]


def check_range(value: complex, dtype: DType) -> None:
    """Check that an integer fits an integer type.

    Raises:
        DTypeError: It does not.
    """
    if dtype.kind == "int" and isinstance(value, int):
        info = np.iinfo(dtype.value)
        if not info.min <= value <= info.max:
            raise DTypeError(
                f"the number {value} does not fit {dtype.value} ({info.min} to {info.max}); "
                "convert the array with astype first."
            )
