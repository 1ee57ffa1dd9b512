"""Elementwise functions: the rows of `ops/elementwise.py` and `ops/special.py` by name, and those made of them.

Where a function needs floats, integers and truth values become float64.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from plica.errors import DTypeError
from plica.ir.dtypes import DType, as_dtype
from plica.ops.elementwise import ARITIES, KINDS
from plica.ops.special import ABOUT, OPERANDS
from plica.tracing.locations import user_line
from plica.tracing.namespace.operands import (
    Array,
    Function,
    as_floats,
    as_tracer,
    cast,
    elementwise,
    is_number,
    named,
    promoted,
    size_of,
    unary,
)
from plica.tracing.scope import record
from plica.tracing.tracer import Tracer, literal


def _of_row(name: str) -> Function:
    """The function that records one row, under its name."""
    needs_floats = "int" not in KINDS[name] and "float" in KINDS[name]

    def apply(*values: Any) -> Tracer:
        return elementwise(name, *(as_floats(name, values) if needs_floats else values))  # type: ignore[no-any-return]

    meaning = f"`{name}` of each element: {', '.join(KINDS[name])}; operands are promoted and broadcast."
    return named(name, meaning, _WITH_ARITY[ARITIES[name]](apply))


def _unary(apply: Function) -> Function:
    def function(x: Array, /) -> Tracer:
        return apply(x)

    return function


def _binary(apply: Function) -> Function:
    def function(x1: Array, x2: Array, /) -> Tracer:
        return apply(x1, x2)

    return function


_WITH_ARITY: Mapping[int, Callable[[Function], Function]] = {1: _unary, 2: _binary}


def _rounding(name: str) -> Function:
    """The function that records one row on floats; integers are round."""
    rounded = _of_row(name)

    def function(x: Array, /) -> Tracer:
        value = as_tracer(name, x)
        return value if value.dtype.kind == "int" else rounded(value)

    return named(name, f"`{name}` of each element; integers stay as they are.", function)


def _special(name: str) -> Function:
    """The function that records one row of special functions, under its name."""

    def function(*operands: Any) -> Tracer:
        return elementwise(name, *as_floats(name, operands))  # type: ignore[no-any-return]

    only = inspect.Parameter.POSITIONAL_ONLY
    function.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [inspect.Parameter(operand, only) for operand in OPERANDS[name]]
    )
    return named(name, ABOUT[name], function)


_ROUNDING = ("ceil", "floor", "round", "trunc")
_OWN = ("conj", "logaddexp", "pow", "square")
FUNCTIONS: dict[str, Function] = {
    **{name: _of_row(name) for name in KINDS if name not in (*_ROUNDING, *_OWN)},
    **{name: _rounding(name) for name in _ROUNDING},
}
SPECIAL_FUNCTIONS: dict[str, Function] = {name: _special(name) for name in OPERANDS}


def logaddexp(x1: Array, x2: Array, /, *others: Array) -> Tracer:
    """`log(exp(x1) + exp(x2) + ...)` of each element, without overflow; operands are promoted and broadcast."""
    return elementwise("logaddexp", *as_floats("logaddexp", (x1, x2, *others)))  # type: ignore[no-any-return]


def log_normal(x: Array, mean: Array, log_stddev: Array, /) -> Tracer:
    """The logarithm of the normal density at `x`, of a mean and the logarithm of a standard deviation.

    Its gradients are finite wherever they are numbers that the dtype holds, also for deviations that the dtype does
    not hold; where the density itself is 0 in the dtype, those of `x` and `mean` are 0.
    """
    return elementwise("log_normal", *as_floats("log_normal", (x, mean, log_stddev)))  # type: ignore[no-any-return]


def pow(x1: Array, x2: Array, /) -> Tracer:  # noqa: A001 - the standard's name
    """`x1` to the power `x2`; a size to a small power is a size.

    Raises:
        DTypeError: Integers to a power that is a negative Python integer.
    """
    if not isinstance(x2, int) or isinstance(x2, bool):
        return elementwise("pow", x1, x2)  # type: ignore[no-any-return]
    base = as_tracer("pow", x1)
    if 0 < x2 <= _LARGEST_POWER and size_of(base) is not None:
        result = base
        for _ in range(x2 - 1):
            result = elementwise("multiply", result, base)
        return result
    if x2 < 0 and base.dtype.kind in ("bool", "int"):
        raise DTypeError(
            f"{user_line()}: {base.aval} to the power {x2} is no integer; take a float, such as {float(x2)}, or astype."
        )
    return elementwise("pow", base, x2)  # type: ignore[no-any-return]


_LARGEST_POWER = 8  # of a size: its polynomial grows with it


def square(x: Array, /) -> Tracer:
    """Each element times itself."""
    value = as_tracer("square", x)
    return pow(value, 2) if size_of(value) is not None else elementwise("square", value)


def positive(x: Array, /) -> Tracer:
    """`x` itself."""
    return as_tracer("positive", x)


def conj(x: Array, /) -> Tracer:
    """The complex conjugate; a real array is its own."""
    value = as_tracer("conj", x)
    return elementwise("conj", value) if value.dtype.kind == "complex" else value


def real(x: Array, /) -> Tracer:
    """The real part; a real array is its own."""
    value = as_tracer("real", x)
    return unary("real", value) if value.dtype.kind == "complex" else value


def imag(x: Array, /) -> Tracer:
    """The imaginary part; zeros of a real array."""
    value = as_tracer("imag", x)
    if value.dtype.kind == "complex":
        return unary("imag", value)
    return record("full", literal(0, value.dtype), shape=value.dims)


def angle(x: Array, /) -> Tracer:
    """The angle of complex numbers in the plane, from -pi to pi."""
    return FUNCTIONS["atan2"](imag(x), real(x))


def astype(x: Array, dtype: object, /, *, copy: bool = True, device: object = None) -> Tracer:  # noqa: ARG001 - no copies
    """`x` converted to `dtype`; `x` itself where it has that dtype."""
    result = cast(as_tracer("astype", x), as_dtype(dtype))
    return Tracer(result.value, result.trace)


def where(condition: Array, x1: Array, x2: Array, /) -> Tracer:
    """`x1` where `condition` holds, else `x2`."""
    chosen = literal(condition, DType.BOOL) if isinstance(condition, bool) else as_tracer("where", condition)
    return record("where", chosen, *promoted("where", [x1, x2]))


def clip(x: Array, /, min: Array = None, max: Array = None) -> Tracer:  # noqa: A002 - the standard's names
    """`x` limited to the interval from `min` to `max`: numbers or arrays.

    Bounds of the kind of `x` take its dtype; where one is a float and `x` an integer, all become floats.
    """
    value = as_tracer("clip", x)
    bounds = [_bound(value, bound) for bound in (min, max)]
    given = [bound for bound in bounds if bound is not None]
    if len(given) == 2:
        return record("clip", *promoted("clip", [value, *given]))
    if not given:
        return value
    return elementwise("minimum" if min is None else "maximum", value, *given)  # type: ignore[no-any-return]


def _bound(x: Tracer, bound: Any) -> Any:
    if bound is None or is_number(bound):
        return bound
    array = as_tracer("clip", bound)
    return cast(array, x.dtype) if array.dtype.kind == x.dtype.kind else array


def isin(x1: Array, x2: Array, /, *, invert: bool = False) -> Tracer:
    """Whether each element of `x1` is among the elements of `x2`."""
    result = record("isin", *promoted("isin", [x1, x2]))
    return FUNCTIONS["logical_not"](result) if invert else result
