"""Data types: the names of the Array API standard, their short names in Program text, and promotion.

>>> import numpy as np
>>> DType.FLOAT32, DType.FLOAT32.short
(plica.numpy.float32, 'f32')
>>> DType.FLOAT32 == np.dtype("float32"), np.float32 == DType.FLOAT32, DType.FLOAT32 == "float32"
(True, True, True)
>>> promote(DType.INT64, DType.FLOAT32)
plica.numpy.float32
"""

import math
from enum import Enum
from typing import Any

import ml_dtypes  # noqa: F401 - with it numpy knows the names bfloat16, int4 and uint4
import numpy as np

from plica.errors import DTypeError

_KINDS = {"b": "bool", "i": "int", "u": "int", "f": "float", "c": "complex"}
_OF_ML_DTYPES = {"bfloat16": ("f", 16, "bf16"), "int4": ("i", 4, "i4"), "uint4": ("u", 4, "u4")}
"""Kind letter, bits and short name of the dtypes that ml_dtypes adds to numpy: their numpy dtypes do not tell these."""


class DType(Enum):
    """An element type. `==` holds, from either side, for the same type of numpy, torch and others, and for its name.

    The hash is that of the numpy dtype, so a dictionary with one as key is read with the other. A name or a torch dtype
    has another hash, although it is equal.

    Attributes:
        kind: One of `bool`, `int` (signed or not), `float`, `complex`.
        bits: The size of an entry: 4 for `int4`, although numpy stores it in a byte.
        is_storage: Whether this is a type for storage alone (`int4`, `uint4`). Its arrays are stored, moved and cast;
            arithmetic refuses them.
        short: The name in Program text: `f32`, `i64`, `bool` ...
        numpy: The numpy dtype of the same name.
        dtype: The same; numpy reads this attribute in `np.zeros(2, dtype=DType.FLOAT32)`.
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
    INT4 = "int4"
    UINT4 = "uint4"
    BFLOAT16 = "bfloat16"
    FLOAT16 = "float16"
    FLOAT32 = "float32"
    FLOAT64 = "float64"
    COMPLEX64 = "complex64"
    COMPLEX128 = "complex128"

    def __init__(self, name: str) -> None:
        self.numpy: np.dtype[Any] = np.dtype(name)
        self.dtype = self.numpy
        letter, bits = str(self.numpy.kind), 8 * self.numpy.itemsize
        letter, self.bits, short = _OF_ML_DTYPES.get(name, (letter, bits, f"{letter}{bits}"))
        self.kind = _KINDS[letter]
        self.short = "bool" if name == "bool" else short
        self.is_storage = self.bits < 8
        self._hash = hash(self.numpy)

    @property
    def carrier(self) -> "DType":
        """The dtype that holds these numbers with a byte for each: int8 for `int4`. Others are their own carrier."""
        return _CARRIERS.get(self, self)

    @property
    def limits(self) -> tuple[int, int]:
        """The least and the largest integer of an integer dtype."""
        if self.value.startswith("u"):
            return 0, 2**self.bits - 1
        return -(2 ** (self.bits - 1)), 2 ** (self.bits - 1) - 1

    def __eq__(self, other: object) -> bool:
        if isinstance(other, DType):
            return self is other
        if isinstance(other, str):
            return self.value == other
        if isinstance(other, type | np.dtype):
            return bool(self.numpy == other)
        return self.value == _name_elsewhere(other) or NotImplemented  # then Python asks `other`

    def __hash__(self) -> int:
        return self._hash

    def __str__(self) -> str:
        return str(self.value)

    def __repr__(self) -> str:
        return f"plica.numpy.{self.value}"


def _name_elsewhere(value: object) -> str | None:
    """The name of another library's dtype: `float32` for `torch.float32`. None if `value` is no dtype."""
    is_dtype = type(value).__name__.lower().endswith("dtype")
    return str(value).rpartition(".")[2] if is_dtype else None


_CARRIERS = {DType.INT4: DType.INT8, DType.UINT4: DType.UINT8}
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
        raise DTypeError(f"{value!r} is no data type of Plica; choose one of {known}.") from None


def promote(first: DType, second: DType) -> DType:
    """The dtype of the result of two arrays, as of their sum.

    Within a kind it follows the table of the Array API standard. Across kinds the higher kind wins at its own width: an
    integer never widens a float. A float and a complex number give a complex number of the wider precision. bfloat16
    and float16 give float32, since neither holds the numbers of the other.

    Raises:
        DTypeError: One is a type for storage alone, and they differ.
    """
    if first == second:
        return first
    require_computed(first, second)
    if {first, second} == {DType.BFLOAT16, DType.FLOAT16}:
        return DType.FLOAT32
    if first.kind == second.kind or {first.kind, second.kind} == {"float", "complex"}:
        return as_dtype(np.promote_types(first.value, second.value))
    return max(first, second, key=lambda dtype: _KIND_ORDER.index(dtype.kind))


def scalar_dtype(value: complex, array_dtype: DType) -> DType:
    """The dtype that a Python scalar takes beside an array: the array's, unless the scalar's kind is higher.

    For example, 2 beside float32 is float32, and 2.5 beside int8 is float64.

    Raises:
        DTypeError: `value` does not fit the array's integer type, or its kind is higher and the array's type is for
            storage alone.
    """
    own = as_dtype(type(value))
    if _KIND_ORDER.index(own.kind) <= _KIND_ORDER.index(array_dtype.kind):
        check_range(value, array_dtype)
        return array_dtype
    require_computed(array_dtype)
    if own.kind == "complex" and array_dtype.kind == "float":
        return as_dtype(np.result_type(array_dtype.value, np.complex64))
    return {"int": DType.INT64, "float": DType.FLOAT64, "complex": DType.COMPLEX128}[own.kind]


def check_range(value: complex, dtype: DType) -> None:
    """Check that an integer fits an integer type.

    Raises:
        DTypeError: The integer does not fit.
    """
    if dtype.kind == "int" and isinstance(value, int):
        least, largest = dtype.limits
        if not least <= value <= largest:
            raise DTypeError(
                f"the number {value} does not fit {dtype.value} ({least} to {largest}); "
                "convert the array with astype first."
            )


def require_computed(*dtypes: DType) -> None:
    """Check that arithmetic takes all of these dtypes.

    Raises:
        DTypeError: One is a type for storage alone.
    """
    for dtype in dtypes:
        if dtype.is_storage:
            raise DTypeError(
                f"nothing is computed in {dtype.value}, in which numbers are only stored and moved; convert first, "
                "with astype(x, 'int8'), or dequantize with astype(x, 'float32') * scale."
            )


def headroom_of(largest: float) -> float:
    """The least x at which `1 / x`, the derivative of `log(x)`, is safe; in multiples of the smallest normal number.

    At this x, a sum of several such derivatives does not overflow: of 2^12 in float32, of 10 in float16.

    Args:
        largest: The largest number of the dtype.
    """
    return min(2.0**10, math.exp(math.log(largest) / 11))  # 2.7 in float16, whose numbers end near 2^16
