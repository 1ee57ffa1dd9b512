"""Types of variables: shape and dtype, and the references that signatures use for sizes.

>>> str(array_type((2, 3), DType.FLOAT32))
'f32[2,3]'
>>> spec(("b", 64), "float32").shape
('b', 64)
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from plica.errors import ShapeError
from plica.ir.dtypes import DType, as_dtype
from plica.ir.sizes import Dim, Size, substitute


@dataclass(frozen=True, slots=True)
class DBIdx:
    """In an input type: the size that is entry `val` of the same signature."""

    val: int

    @property
    def name(self) -> str:
        """The reference as text."""
        return f"DBIdx({self.val})"


@dataclass(frozen=True, slots=True)
class InDBIdx:
    """In an output type: the size that is entry `val` of the input type."""

    val: int

    @property
    def name(self) -> str:
        """The reference as text."""
        return f"InDBIdx({self.val})"


@dataclass(frozen=True, slots=True)
class OutDBIdx:
    """In an output type: the size that is entry `val` of the same output type."""

    val: int

    @property
    def name(self) -> str:
        """The reference as text."""
        return f"OutDBIdx({self.val})"


def _text(shape: tuple[Dim, ...], dtype: DType) -> str:
    return f"{dtype.short}[{','.join(str(size) for size in shape)}]"


@dataclass(frozen=True, slots=True)
class ShapedArray:
    """The type of an array all of whose sizes are numbers."""

    shape: tuple[int, ...]
    dtype: DType

    def __str__(self) -> str:
        return _text(self.shape, self.dtype)


@dataclass(frozen=True, slots=True)
class DShapedArray:
    """The type of an array with at least one size that is not known before the program runs."""

    shape: tuple[Dim, ...]
    dtype: DType

    def __str__(self) -> str:
        return _text(self.shape, self.dtype)


ArrayType = ShapedArray | DShapedArray
_TOO_MANY = 2**63


def array_type(shape: Iterable[Dim], dtype: DType) -> ArrayType:
    """The type of arrays of `shape` and `dtype`.

    Raises:
        ShapeError: A size is negative, or more than can be counted.
    """
    dims = tuple(shape)
    static = tuple(dim for dim in dims if not isinstance(dim, Size))
    for dim in static:
        if dim < 0:
            raise ShapeError(f"a shape has the negative size {dim}: {_text(dims, dtype)}.")
        if dim >= _TOO_MANY:
            raise ShapeError(f"a shape has the size {dim}, but sizes are below 2**63: {_text(dims, dtype)}.")
    return ShapedArray(static, dtype) if len(static) == len(dims) else DShapedArray(dims, dtype)


SCALAR_SIZE = ShapedArray((), DType.INT64)


@dataclass(frozen=True, slots=True)
class Spec:
    """The type that a function is traced for: a shape of numbers and size names, and a dtype."""

    shape: tuple[int | str, ...]
    dtype: DType


def spec(shape: int | str | Iterable[int | str], dtype: object = "float32") -> Spec:
    """A shape of numbers and names of sizes; sizes of one name are equal.

    Raises:
        ShapeError: An entry is neither a non-negative integer nor an identifier.
    """
    entries = tuple(shape) if isinstance(shape, Iterable) and not isinstance(shape, str) else (shape,)
    for entry in entries:
        if isinstance(entry, str) and entry.isidentifier():
            continue
        if isinstance(entry, int) and not isinstance(entry, bool) and entry >= 0:
            continue
        raise ShapeError(
            f"spec: the entry {entry!r} of the shape {entries} is neither a non-negative integer "
            "nor a name such as 'n'."
        )
    return Spec(entries, as_dtype(dtype))


def resolve(type_: ArrayType, sizes: Callable[[int], Dim]) -> ArrayType:
    """An output type with `sizes(i)` put in the place of `OutDBIdx(i)`."""
    if isinstance(type_, ShapedArray):
        return type_

    def value(atom: Any) -> Dim:
        return sizes(atom.val) if isinstance(atom, OutDBIdx) else Size.of(atom)

    return array_type((substitute(dim, value) for dim in type_.shape), type_.dtype)
