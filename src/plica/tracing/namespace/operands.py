"""Operands: what the functions of the namespace make of tracers, arrays and Python numbers."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from functools import cache, reduce
from typing import Any, TypeAlias

import numpy as np

from plica.errors import ShapeError, TraceError
from plica.ir.dtypes import DType, as_dtype, promote, require_computed, scalar_dtype
from plica.ir.op import Op
from plica.ir.program import Literal
from plica.ir.sizes import SIZE_ARITHMETIC, SIZE_COMPARISONS, Dim, Size, as_size
from plica.tracing.locations import user_line
from plica.tracing.scope import record, record_all, scope_of
from plica.tracing.tracer import Tracer, call_traced, default_dtype, literal

Number = bool | int | float | complex
Array: TypeAlias = Any  # what functions compute with: an array of any library, a tracer or a number
Value = Tracer | Number
Function: TypeAlias = Callable[..., Tracer]


def is_number(value: object) -> bool:
    """Whether `value` is a Python number, as numpy's float64 and complex128 are; its other numbers are arrays."""
    return isinstance(value, bool | int | float | complex)


def is_array(value: object) -> bool:
    """Whether `value` is an array of another library."""
    return not isinstance(value, Tracer | Literal | type) and hasattr(value, "shape") and hasattr(value, "dtype")


def as_tracer(name: str, value: Any) -> Tracer:
    """`value` as a tracer of the current scope: arrays are captured by reference, numbers are literals.

    Numbers of numpy that are no Python numbers have a dtype of their own, which they keep.

    Raises:
        TraceError: It is something else; `name` is the function that was given it.
    """
    if isinstance(value, Tracer):
        return scope_of(value).receive(value)
    if is_number(value):
        return Tracer(call_traced(literal, name, (value, default_dtype(value)), {}), scope_of(), weak=True)
    if isinstance(value, Size):
        return Tracer(value, scope_of(), weak=True)
    if isinstance(value, np.generic):
        return Tracer(literal(value.item(), as_dtype(value.dtype)), scope_of())
    if is_array(value):
        return scope_of().capture(value)
    raise TraceError(
        f"{user_line()}: {name} needs an array, found {type(value).__name__} {value!r}{_array_hint(value)}."
    )


def _array_hint(value: object) -> str:
    """A hint for values that are often passed instead of arrays."""
    if isinstance(value, list | tuple):
        return "; make one with plica.numpy.asarray"
    return "; call it first" if callable(value) else ""


def promoted(name: str, values: Sequence[Any]) -> list[Tracer | Literal]:
    """Operands of one dtype: arrays are cast, numbers take the dtype of the arrays that they meet."""
    operands = [value if is_number(value) else as_tracer(name, value) for value in values]
    dtype = result_dtype(operands)
    return [cast(value, dtype) if isinstance(value, Tracer) else literal(value, dtype) for value in operands]


def result_dtype(values: Sequence[Value]) -> DType:
    """The dtype in which `values` meet."""
    strong = [value.dtype for value in values if isinstance(value, Tracer) and not value.weak]
    weak = [value for value in values if not isinstance(value, Tracer) or value.weak]
    return meeting_dtype(strong, [placeholder(value) for value in weak])


def meeting_dtype(dtypes: Sequence[DType], numbers: Sequence[Number]) -> DType:
    """The dtype in which arrays of `dtypes` and Python numbers meet."""
    dtype = reduce(promote, dtypes) if dtypes else default_dtype(numbers[0])
    for number in numbers:
        dtype = promote(dtype, scalar_dtype(number, dtype))
    return dtype


_PLACEHOLDERS: dict[str, Number] = {"bool": False, "int": 0, "float": 0.0, "complex": 0j}


def placeholder(value: Value) -> Number:
    """A number of the kind of `value`; a number itself, whose range is checked."""
    return _PLACEHOLDERS[value.dtype.kind] if isinstance(value, Tracer) else value


def is_weak(values: Sequence[Any]) -> bool:
    """Whether all values stand for Python numbers, so that the result does too."""
    return all(is_number(value) or (isinstance(value, Tracer) and value.weak) for value in values)


def cast(x: Tracer, dtype: DType) -> Tracer:
    """`x` converted to `dtype`; `x` itself where it has that dtype."""
    if x.dtype == dtype:
        return x
    if isinstance(x.value, Literal):
        return Tracer(literal(_converted(x.value.value, dtype), dtype), x.trace, weak=x.weak)
    result = record("astype", x, dtype=dtype)
    return Tracer(result.value, result.trace, weak=x.weak)


def _converted(value: Number, dtype: DType) -> Number:
    """A number as arrays are converted: without its imaginary part, and modulo the range of integers."""
    if dtype.kind in ("bool", "complex"):
        return value
    if dtype.kind == "float" or not np.isfinite(value):
        return value.real
    least, most = dtype.limits
    return (int(value.real) - least) % (most - least + 1) + least


def as_floating(name: str, value: Any) -> Any:
    """`value` where a function needs floats: integers and truth values become float64, as in numpy."""
    if is_number(value):
        return float(value) if isinstance(value, int) else value
    x = as_tracer(name, value)
    if x.dtype.kind not in ("bool", "int"):
        return x
    require_computed(x.dtype)
    return cast(x, DType.FLOAT64)


def as_floats(name: str, values: Sequence[Any]) -> list[Any]:
    """Operands of a function of floats: where all are integers or truth values, they become float64."""
    operands = [value if is_number(value) else as_tracer(name, value) for value in values]
    dtypes = [as_dtype(type(value)) if is_number(value) else value.dtype for value in operands]
    integers = all(dtype.kind in ("bool", "int") for dtype in dtypes)
    return [as_floating(name, value) for value in operands] if integers else operands


def elementwise(name: str, *values: Array) -> Any:
    """The operation `name` on operands of one dtype; arithmetic on sizes stays a size."""
    if name in SIZE_ARITHMETIC or name in SIZE_COMPARISONS:
        known = size_result(name, values)
        if known is not None:
            return known
    result = record(name, *promoted(name, values))
    return Tracer(result.value, result.trace, weak=True) if is_weak(values) else result


def size_result(name: str, values: Sequence[Any]) -> Tracer | int | bool | None:
    """The operation on scalars that count, without an equation; None where it needs one.

    A number where all operands stand for Python numbers, else a tracer.
    """
    if not any(isinstance(value, Tracer) and value.ndim == 0 for value in values):
        return None
    sizes = [size_of(value) for value in values]
    if any(size is None for size in sizes):
        return None
    weak = is_weak(values)
    if name in SIZE_COMPARISONS:
        difference = sizes[0] - sizes[1]  # type: ignore[operator]
        if not isinstance(difference, int):
            return None
        holds = SIZE_COMPARISONS[name](difference)
        return holds if weak else Tracer(literal(holds, DType.BOOL), scope_of(*values))
    if name in ("floor_divide", "remainder") and sizes[1] == 0:
        return None
    result: Dim = SIZE_ARITHMETIC[name](*sizes)
    if isinstance(result, Size):
        scope = scope_of(*values)
        return Tracer(scope.builder.light(result), scope, weak=weak)  # type: ignore[arg-type]  # a size, no number
    return result if weak else Tracer(literal(result, DType.INT64), scope_of(*values))


def size_of(value: Any) -> Dim | None:
    """The size that a scalar integer stands for, in terms of the current scope; None if it is no such scalar."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return value
    if not isinstance(value, Tracer):
        return None
    return as_size(scope_of(value).receive(value).value)


def unary(op: str, x: Array, **params: Any) -> Tracer:
    """The operation `op` on one array."""
    return record(op, as_tracer(op, x), **params)


def as_count(what: str, value: Any) -> int:
    """An integer that is known now.

    Raises:
        ShapeError: It is none; `what` says what it is for.
    """
    try:
        return operator.index(value)
    except TypeError:
        raise ShapeError(
            f"{user_line()}: {what} is an integer that is known before the program runs, found {value!r}."
        ) from None


def as_dims(shape: Any) -> tuple[Dim, ...]:
    """A shape as a tuple of Python integers and sizes.

    Raises:
        ShapeError: An entry is no scalar integer.
    """
    entries = tuple(shape) if isinstance(shape, Sequence) else (shape,)
    return tuple(as_dim(entry) for entry in entries)


def _integer_hint(entry: Tracer) -> str:
    if entry.ndim:
        return "take one element, such as x[0]"
    return "use // instead of /, or convert it with astype(x, 'int64')"


def as_dim(entry: Any) -> Dim:
    """One size: a Python integer, or the size that a scalar integer tracer stands for.

    Raises:
        ShapeError: It is no scalar integer.
    """
    if isinstance(entry, Size):
        return entry
    if is_array(entry) and not isinstance(entry, np.generic):  # it may have another value at the next call
        entry = as_tracer("a shape", entry)
    if isinstance(entry, Tracer):
        if entry.ndim or entry.dtype.kind != "int":
            raise ShapeError(
                f"{user_line()}: a size is a scalar integer, found {entry.aval}, made at {entry.line}; "
                f"{_integer_hint(entry)}."
            )
        size = size_of(cast(entry, DType.INT64))
        assert size is not None, "a scalar of 64 bits is a size"
        return size
    try:
        return operator.index(entry)
    except TypeError:
        raise ShapeError(
            f"{user_line()}: a size is a scalar integer, found {type(entry).__name__} {entry!r}; "
            "write an int, or use // instead of /."
        ) from None


def named(name: str, meaning: str, function: Function) -> Function:
    """`function` with a name and a documentation."""
    function.__name__ = function.__qualname__ = name
    function.__doc__ = meaning
    return function


@cache
def added(op: Op) -> Function:
    """The function that records an operation from outside: operands are promoted, parameters are given by name."""

    def function(*arrays: Array, **params: Any) -> Any:
        results = record_all(op.name, *promoted(op.name, arrays), **params)
        return results if len(results) > 1 else results[0]

    return named(op.name, op.reference.__doc__ or f"The operation `{op.name}`; operands are promoted.", function)
