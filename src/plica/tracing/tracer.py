"""`Tracer`: stands for an array while a function is traced, and records every operation applied to it."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn

from plica.errors import TraceError
from plica.ir.builder import Builder
from plica.ir.dtypes import DType, as_dtype
from plica.ir.program import Literal, Operand
from plica.ir.sizes import Dim, Size, product
from plica.ir.types import ArrayType, ShapedArray

_CURRENT: ContextVar[Trace | None] = ContextVar("plica_trace", default=None)
_PACKAGE = str(Path(__file__).parents[1]) + os.sep


class Trace:
    """A scope of tracers: the Program that grows while a function runs.

    Args:
        builder: Receives the equations.
        locate: Whether equations carry the line of the user's code (costs a walk up the stack for each).
    """

    __slots__ = ("builder", "locate")

    def __init__(self, builder: Builder, *, locate: bool = False) -> None:
        self.builder = builder
        self.locate = locate

    def apply(self, op: str, *operands: Operand, **params: Any) -> Tracer:
        """Record `op`; its one result."""
        (output,) = self.apply_all(op, *operands, **params)
        return output

    def apply_all(self, op: str, *operands: Operand, **params: Any) -> tuple[Tracer, ...]:
        """Record `op`; all its results."""
        if self.locate:
            self.builder.source = user_line()
        for operand in operands:
            if not self.builder.owns(operand):
                raise TraceError(
                    f"{user_line()}: {op} was given {operand!r}, which belongs to another traced function; "
                    "pass it as an argument of this one."
                )
        return tuple(Tracer(output, self) for output in self.builder.add(op, *operands, **params))

    @contextmanager
    def active(self) -> Iterator[None]:
        """Functions without array arguments, such as `ones`, record here meanwhile."""
        token = _CURRENT.set(self)
        try:
            yield
        finally:
            _CURRENT.reset(token)


def current_trace() -> Trace | None:
    """The trace that is being recorded, if any."""
    return _CURRENT.get()


def user_line() -> str:
    """`file:line` of the innermost frame outside this package."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"


def _operator(name: str) -> Callable[[Any, Any], Tracer]:
    """The function `name` of the namespace, applied to a tracer and another operand."""
    return lambda self, other: getattr(namespace(), name)(self, other)


def _swapped(name: str) -> Callable[[Any, Any], Tracer]:
    """The same with the tracer on the right."""
    return lambda self, other: getattr(namespace(), name)(other, self)


def _unary(name: str) -> Callable[[Any], Tracer]:
    return lambda self: getattr(namespace(), name)(self)


class Tracer:
    """An array that is not known yet; has the attributes and operators of the Array API standard."""

    __slots__ = ("operand", "trace")
    __array_priority__ = 1000

    def __init__(self, operand: Operand, trace: Trace) -> None:
        self.operand = operand
        self.trace = trace

    @property
    def aval(self) -> ArrayType:
        """The type: shape and dtype."""
        return self.operand.type

    @property
    def shape(self) -> tuple[Dim, ...]:
        """Sizes: numbers, or polynomials where they are not known yet."""
        return self.operand.type.shape

    @property
    def dtype(self) -> DType:
        """The element type."""
        return self.operand.type.dtype

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.shape)

    @property
    def size(self) -> Dim:
        """The number of elements."""
        return product(self.shape)

    @property
    def T(self) -> Tracer:  # noqa: N802 - the standard's name
        """The transpose of a matrix."""
        return namespace().permute_dims(self, (1, 0))  # type: ignore[no-any-return]

    @property
    def mT(self) -> Tracer:  # noqa: N802 - the standard's name
        """The transpose of the last two axes."""
        return namespace().matrix_transpose(self)  # type: ignore[no-any-return]

    def __array_namespace__(self, api_version: str | None = None) -> ModuleType:
        del api_version
        return namespace()

    def __repr__(self) -> str:
        return f"Tracer({self.operand!r})"

    def __pos__(self) -> Tracer:
        return self

    __add__, __radd__ = _operator("add"), _swapped("add")
    __sub__, __rsub__ = _operator("subtract"), _swapped("subtract")
    __mul__, __rmul__ = _operator("multiply"), _swapped("multiply")
    __truediv__, __rtruediv__ = _operator("divide"), _swapped("divide")
    __floordiv__, __rfloordiv__ = _operator("floor_divide"), _swapped("floor_divide")
    __mod__, __rmod__ = _operator("remainder"), _swapped("remainder")
    __pow__, __rpow__ = _operator("pow"), _swapped("pow")
    __and__, __rand__ = _operator("bitwise_and"), _swapped("bitwise_and")
    __or__, __ror__ = _operator("bitwise_or"), _swapped("bitwise_or")
    __xor__, __rxor__ = _operator("bitwise_xor"), _swapped("bitwise_xor")
    __matmul__, __rmatmul__ = _operator("matmul"), _swapped("matmul")
    __eq__ = _operator("equal")  # type: ignore[assignment]
    __ne__ = _operator("not_equal")  # type: ignore[assignment]
    __hash__ = object.__hash__
    __lt__, __le__ = _operator("less"), _operator("less_equal")
    __gt__, __ge__ = _operator("greater"), _operator("greater_equal")
    __neg__ = _unary("negative")
    __abs__ = _unary("abs")
    __invert__ = _unary("bitwise_invert")

    def __getitem__(self, key: Any) -> Tracer:
        return namespace()._basic_index(self, key)  # type: ignore[no-any-return]

    def __bool__(self) -> bool:
        self._refuse("its truth decides which Python code runs, as in `if` or `while`", "plica.numpy.where")

    def __int__(self) -> int:
        self._refuse("a Python integer was asked for", "array operations")

    def __float__(self) -> float:
        self._refuse("a Python float was asked for", "array operations")

    def __index__(self) -> int:
        self._refuse("a Python index was asked for", "plica.numpy.take")

    def __iter__(self) -> Iterator[Tracer]:
        size = self.shape[0] if self.shape else None
        if isinstance(size, Size) or size is None:
            self._refuse("Python iterates over it", "array operations")
        return (self[index] for index in range(size))

    def __array__(self, *_: object, **__: object) -> Any:
        self._refuse("numpy asked for its elements", "the functions of plica.numpy in place of numpy's")

    def _refuse(self, what: str, instead: str) -> NoReturn:
        raise TraceError(
            f"{user_line()}: the value of {self!r} is not known while the function is traced, but {what}. "
            f"Use {instead} instead."
        )


def namespace() -> ModuleType:
    """The functions over tracers."""
    from plica.tracing import namespace as module

    return module


def literal(value: complex, dtype: DType) -> Literal:
    """A scalar of the Program's own text."""
    casts = {"bool": bool, "int": int, "float": float, "complex": complex}
    return Literal(casts[dtype.kind](value), ShapedArray((), dtype))


def default_dtype(value: complex) -> DType:
    """The dtype of a Python scalar that meets no array."""
    return as_dtype(type(value))
