"""Turns arguments of the namespace's functions into operands of equations: tracers, arrays, numbers and sizes.

A Python number is *weak*, and so is a tracer that stands for one (`Tracer.weak`): it takes the dtype of the arrays that
it meets, so that `x + 1.5` is float32 if `x` is. A scalar that is computed from sizes, such as `x.shape[0] - 1`, stays
a polynomial (`Size`) until an array needs it: arithmetic of sizes records no equation.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from functools import cache, reduce
from inspect import isfunction
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
Array: TypeAlias = Any  # an argument to compute with: an array of any library, a tracer or a number
Value = Tracer | Number
Function: TypeAlias = Callable[..., Tracer]


def is_number(value: object) -> bool:
    """Whether `value` is a Python number. So are numpy's float64 and complex128: they are subclasses of Python's types.

    Other scalars of numpy are not.
    """
    return isinstance(value, bool | int | float | complex)


def is_array(value: object) -> bool:
    """Whether `value` is an array of another library."""
    return not isinstance(value, Tracer | Literal | type) and hasattr(value, "shape") and hasattr(value, "dtype")


def as_tracer(name: str, value: Any) -> Tracer:
    """`value` as a tracer of the current scope. Arrays are captured by reference, numbers become weak literals.

    Scalars of numpy that are no Python numbers become literals of their own dtype.

    Args:
        name: The function that the user called with it, for the error.
        value: A tracer, a size, an array of any library or a number.

    Raises:
        TraceError: `value` is none of these.
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
    """Advice for values that are often passed by mistake, as the end of a message; empty for others."""
    if isinstance(value, list | tuple):
        return "; make one with plica.numpy.asarray"
    return "; call it first" if callable(value) else ""


def promoted(name: str, values: Sequence[Any]) -> list[Tracer | Literal]:
    """`values` as operands of one dtype, that of `result_dtype`; `name` is the function that the user called."""
    operands = [value if is_number(value) else as_tracer(name, value) for value in values]
    dtype = result_dtype(operands)
    return [cast(value, dtype) if isinstance(value, Tracer) else literal(value, dtype) for value in operands]


def result_dtype(values: Sequence[Value]) -> DType:
    """The dtype that the arrays among `values` promote to; numbers change it only if they are of a higher kind."""
    strong = [value.dtype for value in values if isinstance(value, Tracer) and not value.weak]
    weak = [value for value in values if not isinstance(value, Tracer) or value.weak]
    return promoted_dtype(strong, [placeholder(value) for value in weak])


def promoted_dtype(dtypes: Sequence[DType], numbers: Sequence[Number]) -> DType:
    """The dtype that arrays of `dtypes` and Python `numbers` promote to; there is at least one of either."""
    dtype = reduce(promote, dtypes) if dtypes else default_dtype(numbers[0])
    for number in numbers:
        dtype = promote(dtype, scalar_dtype(number, dtype))
    return dtype


_PLACEHOLDERS: dict[str, Number] = {"bool": False, "int": 0, "float": 0.0, "complex": 0j}


def placeholder(value: Value) -> Number:
    """The number by which a weak value is promoted: the number itself, or for a tracer a zero of its kind."""
    return _PLACEHOLDERS[value.dtype.kind] if isinstance(value, Tracer) else value


def is_weak(values: Sequence[Any]) -> bool:
    """Whether all values are weak, so that their result is too."""
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
    """A number converted as `astype` converts arrays: to its real part, and for integers modulo their range."""
    if dtype.kind in ("bool", "complex"):
        return value
    if dtype.kind == "float" or not np.isfinite(value):
        return value.real
    least, largest = dtype.limits
    return (int(value.real) - least) % (largest - least + 1) + least


def as_floating(name: str, value: Any) -> Any:
    """`value` as an operand of a function of floats: integers and booleans become float64, as in numpy."""
    if is_number(value):
        return float(value) if isinstance(value, int) else value
    x = as_tracer(name, value)
    if x.dtype.kind not in ("bool", "int"):
        return x
    require_computed(x.dtype)
    return cast(x, DType.FLOAT64)


def as_floats(name: str, values: Sequence[Any]) -> list[Any]:
    """Operands of a function of floats. If none is a float or complex, all become float64; otherwise none changes."""
    operands = [value if is_number(value) else as_tracer(name, value) for value in values]
    dtypes = [as_dtype(type(value)) if is_number(value) else value.dtype for value in operands]
    integers = all(dtype.kind in ("bool", "int") for dtype in dtypes)
    return [as_floating(name, value) for value in operands] if integers else operands


def elementwise(name: str, *values: Array) -> Any:
    """The operation `name` on operands of one dtype; arithmetic on sizes stays a size."""
    if name in SIZE_ARITHMETIC or name in SIZE_COMPARISONS:
        size = size_result(name, values)
        if size is not None:
            return size
    result = record(name, *promoted(name, values))
    return Tracer(result.value, result.trace, weak=True) if is_weak(values) else result


def size_result(name: str, values: Sequence[Any]) -> Tracer | int | bool | None:
    """Arithmetic or a comparison of sizes, computed without an equation; None where an equation must compute it.

    An equation is needed if an operand is no integer scalar, a divisor is 0, or a comparison depends on the sizes.

    Returns:
        A Python number where the result is known and all operands are weak, else a tracer.
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
    """A scalar integer as a number or a polynomial of sizes of the current scope; None if `value` is no such scalar."""
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


def as_static_integer(meaning: str, value: Any) -> int:
    """An integer that is known while a function is traced, before its Program runs.

    Raises:
        ShapeError: `value` is a tracer or no integer; `meaning` begins the message, such as "the number of classes".
    """
    try:
        return operator.index(value)
    except TypeError:
        raise ShapeError(
            f"{user_line()}: {meaning} is an integer that is known before the program runs, found {value!r}."
        ) from None


def as_dims(shape: Any) -> tuple[Dim, ...]:
    """A shape, or a single size, as a tuple of Python integers and symbolic sizes.

    Raises:
        ShapeError: An entry is no scalar integer.
    """
    entries = tuple(shape) if isinstance(shape, Sequence) else (shape,)
    return tuple(as_dim(entry) for entry in entries)


def _integer_hint(entry: Tracer) -> str:
    """Advice for a tracer that is no size."""
    if entry.ndim:
        return "take one element, such as x[0]"
    return "use // instead of /, or convert it with astype(x, 'int64')"


def as_dim(entry: Any) -> Dim:
    """One size of a shape: a Python integer, or the symbolic size that a scalar integer tracer stands for.

    Raises:
        ShapeError: `entry` is no scalar integer.
    """
    if isinstance(entry, Size):
        return entry
    if is_array(entry) and not isinstance(entry, np.generic):  # an array may change before the next call
        entry = as_tracer("a shape", entry)
    if isinstance(entry, Tracer):
        if entry.ndim or entry.dtype.kind != "int":
            raise ShapeError(
                f"{user_line()}: a size is a scalar integer, found {entry.aval}, made at {entry.line}; "
                f"{_integer_hint(entry)}."
            )
        size = size_of(cast(entry, DType.INT64))
        assert size is not None, "every int64 scalar of a trace is a size"
        return size
    try:
        return operator.index(entry)
    except TypeError:
        raise ShapeError(
            f"{user_line()}: a size is a scalar integer, found {type(entry).__name__} {entry!r}; "
            "write an int, or use // instead of /."
        ) from None


def named(name: str, meaning: str, function: Function) -> Function:
    """Set the name of `function`, and `meaning` as its docstring, and return it."""
    function.__name__ = function.__qualname__ = name
    function.__doc__ = meaning
    return function


def public_functions(module: Mapping[str, Any]) -> list[str]:
    """The names of the functions for users that a module of this folder defines, given the globals of the module."""
    return [
        name
        for name, value in module.items()
        if isfunction(value) and not name.startswith("_") and value.__module__ == module["__name__"]
    ]


@cache
def function_of(op: Op) -> Function:
    """The namespace's function for a custom operation, one that a user registered.

    It takes operands by position, which are promoted to one dtype, and the operation's parameters by name. It returns
    one tracer, or a tuple where the operation has several results.
    """

    def function(*arrays: Array, **params: Any) -> Any:
        results = record_all(op.name, *promoted(op.name, arrays), **params)
        return results if len(results) > 1 else results[0]

    return named(op.name, op.reference.__doc__ or f"The operation `{op.name}`; operands are promoted.", function)
