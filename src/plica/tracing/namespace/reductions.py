"""Reductions: statistics, searching for extremes, normalized exponentials, sums of what came before."""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from typing import Any

from plica.errors import ShapeError
from plica.ir.dtypes import as_dtype
from plica.ir.sizes import product
from plica.ops.rules import normal_axes, normal_axis
from plica.tracing.locations import user_line
from plica.tracing.namespace.elementwise import conj, real
from plica.tracing.namespace.operands import Array, as_floating, as_tracer, cast, elementwise, unary
from plica.tracing.namespace.shapes import broadcast_to, concat, reshape
from plica.tracing.scope import record, record_all
from plica.tracing.tracer import Tracer, literal

Axis = int | tuple[int, ...] | None


def _reduce(op: str, x: Any, axis: int | Sequence[int] | None, keepdims: bool) -> Tracer:
    value = as_tracer(op, x)
    return unary(op, value, axis=normal_axes(axis, value.ndim), keepdims=bool(keepdims))


def _accumulate(op: str, x: Any, dtype: object, **params: Any) -> Tracer:
    """A sum or product of elements that are converted to `dtype` first; by default of 64 bits for integers."""
    value = as_tracer(op, x)
    if dtype is None:
        return unary(op, value, **params)
    wanted = as_dtype(dtype)
    return cast(unary(op, cast(value, wanted), **params), wanted)


def sum(x: Array, /, *, axis: Axis = None, dtype: object = None, keepdims: bool = False) -> Tracer:  # noqa: A001
    """The sum over `axis`."""
    return _accumulate("sum", x, dtype, axis=normal_axes(axis, as_tracer("sum", x).ndim), keepdims=bool(keepdims))


def prod(x: Array, /, *, axis: Axis = None, dtype: object = None, keepdims: bool = False) -> Tracer:
    """The product over `axis`."""
    return _accumulate("prod", x, dtype, axis=normal_axes(axis, as_tracer("prod", x).ndim), keepdims=bool(keepdims))


def max(x: Array, /, *, axis: Axis = None, keepdims: bool = False) -> Tracer:  # noqa: A001
    """The largest element along `axis`."""
    return _reduce("max", x, axis, keepdims)


def min(x: Array, /, *, axis: Axis = None, keepdims: bool = False) -> Tracer:  # noqa: A001
    """The smallest element along `axis`."""
    return _reduce("min", x, axis, keepdims)


def any(x: Array, /, *, axis: Axis = None, keepdims: bool = False) -> Tracer:  # noqa: A001
    """Whether any element along `axis` is true, or not zero."""
    return _reduce("any", _truth("any", x), axis, keepdims)


def all(x: Array, /, *, axis: Axis = None, keepdims: bool = False) -> Tracer:  # noqa: A001
    """Whether all elements along `axis` are true, or not zero."""
    return _reduce("all", _truth("all", x), axis, keepdims)


def count_nonzero(x: Array, /, *, axis: Axis = None, keepdims: bool = False) -> Tracer:
    """How many elements along `axis` are true, or not zero."""
    return _reduce("sum", _truth("count_nonzero", x), axis, keepdims)


def _truth(op: str, x: Any) -> Tracer:
    value = as_tracer(op, x)
    return value if value.dtype.kind == "bool" else elementwise("not_equal", value, 0)


def mean(x: Array, /, *, axis: Axis = None, keepdims: bool = False) -> Tracer:
    """The arithmetic mean over `axis`, in float64 of integers and truth values."""
    return _reduce("mean", _floats("mean", x), axis, keepdims)


def _floats(op: str, x: Any) -> Tracer:
    return as_tracer(op, as_floating(op, x))


def var(x: Array, /, *, axis: Axis = None, correction: Array = 0.0, keepdims: bool = False) -> Tracer:
    """The variance over `axis`, divided by the number of elements less `correction`."""
    value = _floats("var", x)
    axes = normal_axes(axis, value.ndim)
    centred = value - mean(value, axis=axes, keepdims=True)
    squares = real(centred * conj(centred))
    if isinstance(correction, int | float) and correction == 0:
        return mean(squares, axis=axes, keepdims=keepdims)
    count = product(value.dims[along] for along in axes)
    if isinstance(count, int) and isinstance(correction, int | float):
        return sum(squares, axis=axes, keepdims=keepdims) / builtins.max(count - correction, 0)
    less: Tracer = elementwise("maximum", as_tracer("var", count) - correction, 0)
    return sum(squares, axis=axes, keepdims=keepdims) / less


def std(x: Array, /, *, axis: Axis = None, correction: Array = 0.0, keepdims: bool = False) -> Tracer:
    """The standard deviation over `axis`: the square root of `var`."""
    variance = var(x, axis=axis, correction=correction, keepdims=keepdims)
    if isinstance(axis, tuple) and not axis:  # that of single numbers is 0, and so is its derivative
        return variance
    return elementwise("sqrt", variance)  # type: ignore[no-any-return]


def logsumexp(x: Array, /, *, axis: Axis = None, keepdims: bool = False) -> Tracer:
    """`log(sum(exp(x)))` without overflow; `-inf` where every element is, with gradient 0."""
    return _reduce("logsumexp", _floats("logsumexp", x), axis, keepdims)


def stop_gradient(x: Array, /) -> Tracer:
    """`x`, taken for a constant by differentiation."""
    return unary("stop_gradient", x)


def rescale(x: Tracer) -> tuple[Tracer, Tracer]:
    """`x` divided by the power of two above the largest element of its last axis, and that power.

    Rows without an element of normal size have scale 1; the others end between 0.5 and 1. Differentiation takes the
    scale for a constant: it is to be multiplied in again later, so its part cancels.

    Shapes: x (..., K), results (..., K) and (..., 1).
    """
    scaled, scale = record_all("rescale", x)
    return scaled, scale


def argmax(x: Array, /, *, axis: int | None = None, keepdims: bool = False) -> Tracer:
    """The first index of the largest element along `axis` (of the flat array without it)."""
    return _argument("argmax", x, axis, keepdims)


def argmin(x: Array, /, *, axis: int | None = None, keepdims: bool = False) -> Tracer:
    """The first index of the smallest element along `axis` (of the flat array without it)."""
    return _argument("argmin", x, axis, keepdims)


def _argument(op: str, x: Any, axis: int | None, keepdims: bool) -> Tracer:
    value = as_tracer(op, x)
    if axis is not None:
        return unary(op, value, axis=normal_axis(axis, value.ndim), keepdims=bool(keepdims))
    flat = unary(op, reshape(value, (-1,)), axis=0, keepdims=False)
    return reshape(flat, (1,) * value.ndim) if keepdims else flat


def softmax(x: Array, /, *, axis: int = -1) -> Tracer:
    """Exponentials along `axis`, scaled to sum to 1."""
    value = _floats("softmax", x)
    return unary("softmax", value, axis=normal_axis(axis, value.ndim))


def log_softmax(x: Array, /, *, axis: int = -1) -> Tracer:
    """The logarithm of `softmax`, finite for finite `x`."""
    value = _floats("log_softmax", x)
    return unary("log_softmax", value, axis=normal_axis(axis, value.ndim))


def cumulative_sum(
    x: Array, /, *, axis: int | None = None, dtype: object = None, include_initial: bool = False
) -> Tracer:
    """Sums of the elements so far along `axis`; with `include_initial`, a 0 comes first."""
    return _cumulative("cumulative_sum", 0, x, axis, dtype, include_initial)


def cumulative_prod(
    x: Array, /, *, axis: int | None = None, dtype: object = None, include_initial: bool = False
) -> Tracer:
    """Products of the elements so far along `axis`; with `include_initial`, a 1 comes first."""
    return _cumulative("cumulative_prod", 1, x, axis, dtype, include_initial)


def _cumulative(op: str, start: int, x: Any, axis: int | None, dtype: object, include_initial: bool) -> Tracer:
    value = as_tracer(op, x)
    if axis is None and value.ndim != 1:
        raise ShapeError(f"{user_line()}: {op} of {value.aval} needs an axis.")
    along = normal_axis(axis or 0, value.ndim)
    result = _accumulate(op, value, dtype, axis=along)
    if not include_initial:
        return result
    first = record("full", literal(start, result.dtype), shape=_with_size(result, along, 1))
    return concat([first, result], axis=along)


def _with_size(x: Tracer, axis: int, size: Any) -> tuple[Any, ...]:
    return (*x.dims[:axis], size, *x.dims[axis + 1 :])


_MOST_DIFFERENCES = 100  # each of which is an equation


def diff(x: Array, /, *, axis: int = -1, n: int = 1, prepend: Array = None, append: Array = None) -> Tracer:
    """Differences of neighbours along `axis`, `n` times; `prepend` and `append` are joined to `x` first."""
    if not 0 <= n <= _MOST_DIFFERENCES:
        raise ShapeError(
            f"{user_line()}: diff takes differences n = {n} times; n is 0 or more, and at most {_MOST_DIFFERENCES}."
        )
    value = as_tracer("diff", x)
    along = normal_axis(axis, value.ndim)
    if n == 0:
        return value
    parts = [_beside(value, along, prepend), value, _beside(value, along, append)]
    result = concat([part for part in parts if part is not None], axis=along)
    op = "not_equal" if result.dtype.kind == "bool" else "subtract"
    before = (slice(None),) * along
    for _ in range(n):
        result = elementwise(op, result[(*before, slice(1, None))], result[(*before, slice(None, -1))])
    return result


def _beside(x: Tracer, axis: int, value: Any) -> Tracer | None:
    if value is None:
        return None
    part = as_tracer("diff", value)
    return broadcast_to(cast(part, x.dtype) if part.weak else part, _with_size(x, axis, 1)) if not part.ndim else part
