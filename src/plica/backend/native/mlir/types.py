"""Types of MLIR values: those of Program variables, with `?` for each size that is not known before a Program runs.

>>> from plica.ir.sizes import Size
>>> from plica.ir.types import DBIdx
>>> tensor_type((Size.of(DBIdx(0)), 3), DType.FLOAT32)
'tensor<?x3xf32>'
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import ml_dtypes

from plica.errors import UnsupportedError
from plica.ir.dtypes import DType
from plica.ir.sizes import Dim

# Integers have no sign in MLIR: operations do. Integers of four bits take a byte each, as in numpy.
_ELEMENTS: Mapping[DType, str] = {
    DType.BOOL: "i1",
    DType.INT4: "i8",
    DType.UINT4: "i8",
    DType.INT8: "i8",
    DType.UINT8: "i8",
    DType.INT16: "i16",
    DType.UINT16: "i16",
    DType.INT32: "i32",
    DType.UINT32: "i32",
    DType.INT64: "i64",
    DType.UINT64: "i64",
    DType.BFLOAT16: "bf16",
    DType.FLOAT16: "f16",
    DType.FLOAT32: "f32",
    DType.FLOAT64: "f64",
    DType.COMPLEX64: "complex<f32>",
    DType.COMPLEX128: "complex<f64>",
}


def element(dtype: DType) -> str:
    """The type of one entry.

    Raises:
        UnsupportedError: Native code has no such entries.
    """
    if dtype not in _ELEMENTS:
        raise UnsupportedError(
            f"native code has no entries of {dtype.value}; compute with the real and imaginary parts."
        )
    return _ELEMENTS[dtype]


def tensor_type(shape: Sequence[Dim], dtype: DType) -> str:
    """The type of a tensor."""
    sizes = (f"{dim}x" if isinstance(dim, int) else "?x" for dim in shape)
    return f"tensor<{''.join(sizes)}{element(dtype)}>"


HOST = frozenset({DType.BOOL, DType.INT64})
"""The dtypes of numbers that the host computes itself: sizes, and conditions of branches and loops."""


@dataclass(frozen=True, slots=True)
class Value:
    """An array as a value of MLIR.

    Args:
        text: The name of the value, such as `%v3`.
        shape: Its sizes, in terms of the variables of the Program.
        dtype: Its dtype.
        is_scalar: Whether it is one entry, computed on the host, rather than a tensor (of no dimension).
        size: The size that an integer of no dimension stands for, where that is known; the number where it is one.
    """

    text: str
    shape: tuple[Dim, ...]
    dtype: DType
    is_scalar: bool = False
    size: Dim | None = None

    @property
    def element(self) -> str:
        """The type of one entry."""
        return element(self.dtype)

    @property
    def array(self) -> tuple[tuple[Dim, ...], DType]:
        """The shape and the dtype."""
        return self.shape, self.dtype

    @property
    def type(self) -> str:
        """The type of the value."""
        return self.element if self.is_scalar else tensor_type(self.shape, self.dtype)


def limits_of(dtype: DType) -> ml_dtypes.finfo:
    """The limits of a dtype of floats, bfloat16 too."""
    return ml_dtypes.finfo(dtype.numpy)  # type: ignore[no-untyped-call]
