"""`Tracer`: stands for an array while a function is traced, and records every operation applied to it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
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
_PACKAGE = str(Path(__file__).parents[1])


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
        if self.locate:
            self.builder.source = user_line()
        (output,) = self.builder.add(op, *operands, **params)
        return Tracer(output, self)

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

    def __getitem__(self, key: Any) -> Tracer:
        return namespace().basic_index(self, key)  # type: ignore[no-any-return]

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
    return Literal(casts[dtype.kind](value), ShapedArray((), dtype))  # type: ignore[operator]


def default_dtype(value: complex) -> DType:
    """The dtype of a Python scalar that meets no array."""
    return as_dtype(type(value))


_BINARY = {
    "add": "add",
    "sub": "subtract",
    "mul": "multiply",
    "truediv": "divide",
    "floordiv": "floor_divide",
    "mod": "remainder",
    "pow": "pow",
    "and": "bitwise_and",
    "or": "bitwise_or",
    "xor": "bitwise_xor",
    "matmul": "matmul",
}
_COMPARE = {
    "eq": "equal",
    "ne": "not_equal",
    "lt": "less",
    "le": "less_equal",
    "gt": "greater",
    "ge": "greater_equal",
}
_UNARY = {"neg": "negative", "abs": "abs", "invert": "bitwise_invert"}


def _install() -> None:
    """Give `Tracer` its operators: each calls the namespace function of the table above."""

    def operator(name: str, swapped: bool) -> Any:
        def method(self: Tracer, *others: Any) -> Any:
            return getattr(namespace(), name)(*(others + (self,) if swapped else (self, *others)))

        return method

    for short, name in {**_BINARY, **_COMPARE, **_UNARY}.items():
        setattr(Tracer, f"__{short}__", operator(name, swapped=False))
    for short, name in _BINARY.items():
        setattr(Tracer, f"__r{short}__", operator(name, swapped=True))
    Tracer.__hash__ = object.__hash__  # type: ignore[method-assign]


_install()
