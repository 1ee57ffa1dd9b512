"""Functions of dtypes, which return Python values and record nothing, and the standard's inspection functions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import ml_dtypes

from plica.errors import DTypeError
from plica.ir.dtypes import DType, as_dtype, promote
from plica.ops.rules import real_dtype
from plica.tracing.namespace.operands import is_array, is_number, placeholder, promoted_dtype
from plica.tracing.tracer import Tracer

VERSION = "2024.12"

_UNSIGNED = (DType.UINT8, DType.UINT16, DType.UINT32, DType.UINT64)
_KINDS: Mapping[str, Callable[[DType], bool]] = {
    "bool": lambda dtype: dtype.kind == "bool",
    "signed integer": lambda dtype: dtype.kind == "int" and dtype not in _UNSIGNED,
    "unsigned integer": lambda dtype: dtype in _UNSIGNED,
    "integral": lambda dtype: dtype.kind == "int",
    "real floating": lambda dtype: dtype.kind == "float",
    "complex floating": lambda dtype: dtype.kind == "complex",
    "numeric": lambda dtype: dtype.kind != "bool",
}


@dataclass(frozen=True, slots=True)
class FloatInfo:
    """The limits of a floating dtype, as Python numbers."""

    bits: int
    eps: float
    max: float
    min: float
    smallest_normal: float
    dtype: DType


@dataclass(frozen=True, slots=True)
class IntegerInfo:
    """The limits of an integer dtype, as Python numbers."""

    bits: int
    max: int
    min: int
    dtype: DType


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
    dtype = _dtype_of(type)
    if dtype.kind not in ("float", "complex"):
        raise DTypeError(f"finfo takes a floating dtype, found {dtype.value}; see iinfo.")
    parts = real_dtype(dtype)
    info: Any = ml_dtypes.finfo(parts.value)  # type: ignore[no-untyped-call]
    return FloatInfo(info.bits, float(info.eps), float(info.max), float(info.min), float(info.smallest_normal), parts)


def iinfo(type: Any, /) -> IntegerInfo:  # noqa: A002 - the standard's name
    """The limits of an integer dtype.

    Raises:
        DTypeError: `type` is no integer dtype.
    """
    dtype = _dtype_of(type)
    if dtype.kind != "int":
        raise DTypeError(f"iinfo takes an integer dtype, found {dtype.value}; see finfo.")
    least, most = dtype.limits
    return IntegerInfo(dtype.bits, most, least, dtype)


def isdtype(dtype: Any, kind: Any) -> bool:
    """Whether `dtype` is of a kind: its name, a dtype, or a tuple of them.

    Raises:
        DTypeError: There is no such kind.
    """
    own = as_dtype(dtype)
    if isinstance(kind, tuple):
        return any(isdtype(own, member) for member in kind)
    if isinstance(kind, DType) or not isinstance(kind, str):
        return own == as_dtype(kind)
    if kind not in _KINDS:
        raise DTypeError(f"{kind!r} is no kind of dtypes; there are {', '.join(_KINDS)}.")
    return not own.is_storage and _KINDS[kind](own)


def result_type(*arrays_and_dtypes: Any) -> DType:
    """The dtype that arrays, dtypes and Python numbers promote to.

    Raises:
        DTypeError: There is no argument.
    """
    if not arrays_and_dtypes:
        raise DTypeError("result_type takes at least one array, dtype or number, found none.")
    weak = [value for value in arrays_and_dtypes if is_number(value) or (isinstance(value, Tracer) and value.weak)]
    strong = [_dtype_of(value) for value in arrays_and_dtypes if not any(value is number for number in weak)]
    return promoted_dtype(strong, [placeholder(number) for number in weak])


@dataclass(frozen=True, slots=True)
class NamespaceInfo:
    """The standard's inspection functions; the one device is `None`: wherever the arguments are."""

    def capabilities(self) -> Mapping[str, Any]:
        """The abilities of the namespace; sizes that depend on data are known when a program runs."""
        return {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": 64}

    def default_device(self) -> None:
        """Where an array is made: none, for it is wherever the arguments are."""

    def devices(self) -> list[None]:
        """The devices."""
        return [None]

    def default_dtypes(self, *, device: object = None) -> Mapping[str, DType]:  # noqa: ARG002 - alike everywhere
        """The dtypes of numbers that meet no array."""
        return {
            "real floating": DType.FLOAT64,
            "complex floating": DType.COMPLEX128,
            "integral": DType.INT64,
            "indexing": DType.INT64,
        }

    def dtypes(self, *, device: object = None, kind: Any = None) -> Mapping[str, DType]:  # noqa: ARG002 - alike everywhere
        """The dtypes that are computed with, all or those of a kind, by name."""
        computed = (dtype for dtype in DType if not dtype.is_storage)
        return {dtype.value: dtype for dtype in computed if kind is None or isdtype(dtype, kind)}
