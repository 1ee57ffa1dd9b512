"""Types and constants as text of StableHLO.

>>> tensor_type((Size.of("n"), 3), DType.FLOAT32), tensor_type((), DType.UINT8), tensor_type((2,), DType.COMPLEX64)
('tensor<?x3xf32>', 'tensor<ui8>', 'tensor<2xcomplex<f32>>')
>>> dense(np.asarray([1.0, 2.0], "float32"))
'dense<"0x0000803f00000040">'
"""

from collections.abc import Sequence

import numpy as np

from plica.ir.dtypes import DType
from plica.ir.op import Array
from plica.ir.sizes import Dim, Size
from plica.ops.rules import real_dtype

_INTEGERS = {True: "ui", False: "i"}


def element_type(dtype: DType) -> str:
    """The type of one entry."""
    match dtype.kind:
        case "bool":
            return "i1"
        case "int":
            return f"{_INTEGERS[dtype.value.startswith('u')]}{dtype.bits}"
        case "complex":
            return f"complex<{real_dtype(dtype).short}>"
    return dtype.short


def tensor_type(shape: Sequence[Dim], dtype: DType) -> str:
    """The type of an array; symbolic sizes are `?`."""
    dims = "".join("?x" if isinstance(dim, Size) else f"{dim}x" for dim in shape)
    return f"tensor<{dims}{element_type(dtype)}>"


def scalar(value: complex, dtype: DType) -> str:
    """One number, exactly."""
    if dtype.kind == "bool":
        return "true" if value else "false"
    if dtype.kind == "int":
        return str(int(value.real))
    if dtype.kind == "complex":
        part = real_dtype(dtype)
        return f"({scalar(value.real, part)}, {scalar(value.imag, part)})"
    word = np.asarray(value.real).astype(dtype.numpy).tobytes()[::-1]  # the highest byte first
    return f"0x{word.hex().upper()}"


def dense(array: Array) -> str:
    """All numbers of an array, in row-major order: their bytes, the lowest first."""
    if not array.size:
        return "dense<>"
    dtype = DType(array.dtype.name)
    if (
        dtype.kind == "bool" or dtype.bits < 8 or array.size == 1
    ):  # the bytes of one number would be a tensor filled with it
        return f"dense<{_nested(array, dtype)}>"
    lowest_first = np.ascontiguousarray(array.astype(array.dtype.newbyteorder("<"), copy=False))
    return f'dense<"0x{lowest_first.tobytes().hex()}">'


def _nested(array: Array, dtype: DType) -> str:
    if not array.ndim:
        return scalar(array.item(), dtype)
    return f"[{', '.join(_nested(row, dtype) for row in array)}]"


def integers(values: Sequence[int]) -> str:
    """An attribute of integers."""
    return f"array<i64: {', '.join(map(str, values))}>" if values else "array<i64>"
