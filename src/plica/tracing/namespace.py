"""The array namespace over tracers: the Array API standard's names, and what circuits need beside them.

Elementwise functions are the rows of `ops/elementwise.py`, found by name; operands are promoted first and Python
scalars take the dtype of the arrays that they meet. What has more structure stands below.
"""

from __future__ import annotations

import builtins
import operator
from collections.abc import Sequence
from functools import partial
from typing import Any

from plica.errors import DTypeError, ShapeError, TraceError
from plica.ir.dtypes import DType, as_dtype, promote, scalar_dtype
from plica.ir.program import Operand
from plica.ir.sizes import Dim, Size
from plica.ops.elementwise import ELEMENTWISE
from plica.ops.linalg import einsum_dims
from plica.ops.rules import normal_axes, normal_axis
from plica.ops.shape import reshape_dims
from plica.tracing.tracer import Trace, Tracer, current_trace, default_dtype, literal, user_line

Value = Tracer | bool | int | float | complex

_STRUCTURED = ("where", "astype", "stop_gradient")
_CONSTANTS = ("e", "pi", "inf", "nan", "newaxis")
_DTYPES = {dtype.value: dtype for dtype in DType}

e, pi, inf, nan, newaxis = 2.718281828459045, 3.141592653589793, float("inf"), float("nan"), None


def __getattr__(name: str) -> Any:
    # nothing is put into globals: a function called `abs` or a dtype called `bool` would hide Python's own in here
    if name in _FUNCTIONS:
        return _FUNCTIONS[name]
    if name in _DTYPES:
        return _DTYPES[name]
    raise AttributeError(f"plica.numpy has no {name!r}")


def __dir__() -> list[str]:
    own = (name for name, value in globals().items() if getattr(value, "__module__", "") == __name__)
    return sorted({*_FUNCTIONS, *_DTYPES, *_CONSTANTS, *(name for name in own if not name.startswith("_"))})


# Operands


def _trace_of(values: Sequence[object]) -> Trace:
    for value in values:
        if isinstance(value, Tracer):
            return value.trace
    trace = current_trace()
    if trace is None:
        raise TraceError("no function is being traced here, and no argument is a tracer.")
    return trace


def _is_scalar(value: object) -> bool:
    return isinstance(value, bool | int | float | complex)


def _refuse_foreign(name: str, values: Sequence[object]) -> None:
    for value in values:
        if not isinstance(value, Tracer) and not _is_scalar(value):
            raise TraceError(
                f"{user_line()}: {name} was given {type(value).__name__} beside a tracer; "
                "pass arrays as arguments of the traced function."
            )


def _require_array(name: str, value: object) -> None:
    if not isinstance(value, Tracer):
        raise TraceError(f"{user_line()}: {name} needs an array, found {type(value).__name__} {value!r}.")


def _promoted(name: str, values: Sequence[Value]) -> list[Operand]:
    """Operands of one dtype: arrays are cast, scalars become literals."""
    _refuse_foreign(name, values)
    arrays = [value for value in values if isinstance(value, Tracer)]
    if not arrays:
        dtype = default_dtype(next(value for value in values if not isinstance(value, Tracer)))
    else:
        dtype = arrays[0].dtype
        for array in arrays[1:]:
            if array.dtype != dtype:
                dtype = promote(dtype, array.dtype)
    for value in values:
        if not isinstance(value, Tracer):
            dtype = promote(dtype, scalar_dtype(value, dtype))
    return [astype(value, dtype).operand if isinstance(value, Tracer) else literal(value, dtype) for value in values]


def _elementwise(name: str, *values: Value) -> Tracer:
    return _trace_of(values).apply(name, *_promoted(name, values))


_FUNCTIONS = {op.name: partial(_elementwise, op.name) for op in ELEMENTWISE if op.name not in _STRUCTURED}


def _unary(op: str, x: Tracer, **params: Any) -> Tracer:
    _require_array(op, x)
    return x.trace.apply(op, x.operand, **params)


def astype(x: Tracer, dtype: object, *, copy: bool = True) -> Tracer:  # noqa: ARG001 - the standard's signature
    """`x` converted to `dtype`; `x` itself where it has that dtype."""
    wanted = as_dtype(dtype)
    return x if x.dtype == wanted else _unary("astype", x, dtype=wanted)


def where(condition: Tracer | bool, x1: Value, x2: Value) -> Tracer:
    """`x1` where `condition` holds, else `x2`."""
    _refuse_foreign("where", [condition, x1, x2])
    chosen = condition.operand if isinstance(condition, Tracer) else literal(condition, DType.BOOL)
    return _trace_of([condition, x1, x2]).apply("where", chosen, *_promoted("where", [x1, x2]))


def clip(x: Tracer, min: Value | None = None, max: Value | None = None) -> Tracer:  # noqa: A002 - the standard's names
    """`x` limited to the interval from `min` to `max`."""
    if min is not None:
        x = _elementwise("maximum", x, min)
    return x if max is None else _elementwise("minimum", x, max)


def conj(x: Tracer) -> Tracer:
    """The complex conjugate; a real array is its own."""
    if x.dtype.kind == "complex":
        raise DTypeError("conj of complex arrays is not there yet.")
    return x


# Reductions


def _reduce(op: str, x: Tracer, axis: int | Sequence[int] | None, keepdims: bool) -> Tracer:
    _require_array(op, x)
    return _unary(op, x, axis=normal_axes(axis, x.ndim), keepdims=keepdims)


Axis = int | tuple[int, ...] | None


def sum(x: Tracer, *, axis: Axis = None, dtype: object = None, keepdims: bool = False) -> Tracer:  # noqa: A001
    """The sum over `axis`."""
    return _reduce("sum", x if dtype is None else astype(x, dtype), axis, keepdims)


def prod(x: Tracer, *, axis: Axis = None, dtype: object = None, keepdims: bool = False) -> Tracer:
    """The product over `axis`."""
    return _reduce("prod", x if dtype is None else astype(x, dtype), axis, keepdims)


def max(x: Tracer, *, axis: Axis = None, keepdims: bool = False) -> Tracer:  # noqa: A001
    """The largest element along `axis`."""
    return _reduce("max", x, axis, keepdims)


def min(x: Tracer, *, axis: Axis = None, keepdims: bool = False) -> Tracer:  # noqa: A001
    """The smallest element along `axis`."""
    return _reduce("min", x, axis, keepdims)


def any(x: Tracer, *, axis: Axis = None, keepdims: bool = False) -> Tracer:  # noqa: A001
    """Whether any element along `axis` is true."""
    return _reduce("any", x, axis, keepdims)


def all(x: Tracer, *, axis: Axis = None, keepdims: bool = False) -> Tracer:  # noqa: A001
    """Whether all elements along `axis` are true."""
    return _reduce("all", x, axis, keepdims)


def mean(x: Tracer, *, axis: Axis = None, keepdims: bool = False) -> Tracer:
    """The arithmetic mean over `axis`."""
    return _reduce("mean", x, axis, keepdims)


def var(x: Tracer, *, axis: Axis = None, correction: float = 0.0, keepdims: bool = False) -> Tracer:
    """The variance over `axis`, divided by the number of elements less `correction`."""
    centred = x - mean(x, axis=axis, keepdims=True)
    count: Dim = 1
    for one in normal_axes(axis, x.ndim):
        count = count * x.shape[one]
    if isinstance(count, Size):
        if correction:
            raise ShapeError(f"var with a correction over the symbolic size {count} is not there yet.")
        return mean(centred * centred, axis=axis, keepdims=keepdims)
    return sum(centred * centred, axis=axis, keepdims=keepdims) / (count - correction)


def std(x: Tracer, *, axis: Axis = None, correction: float = 0.0, keepdims: bool = False) -> Tracer:
    """The standard deviation over `axis`."""
    return _elementwise("sqrt", var(x, axis=axis, correction=correction, keepdims=keepdims))


def logsumexp(x: Tracer, *, axis: Axis = None, keepdims: bool = False) -> Tracer:
    """`log(sum(exp(x)))` without overflow; `-inf` where every element is, with gradient 0."""
    return _reduce("logsumexp", x, axis, keepdims)


def stop_gradient(x: Tracer) -> Tracer:
    """`x`, taken for a constant by differentiation."""
    return _unary("stop_gradient", x)


def rescale(x: Tracer) -> tuple[Tracer, Tracer]:
    """`x` divided by the power of two above the largest element of its last axis, and that power.

    Rows without an element of normal size have scale 1; the others end between 0.5 and 1. Differentiation takes the
    scale for a constant: it is to be multiplied in again later, so its part cancels.

    Shapes: x (..., K), results (..., K) and (..., 1).
    """
    scaled, scale = x.trace.apply_all("rescale", x.operand)
    return scaled, scale


def argmax(x: Tracer, *, axis: int | None = None, keepdims: bool = False) -> Tracer:
    """The first index of the largest element along `axis` (of the flat array without it)."""
    return _argument("argmax", x, axis, keepdims)


def argmin(x: Tracer, *, axis: int | None = None, keepdims: bool = False) -> Tracer:
    """The first index of the smallest element along `axis` (of the flat array without it)."""
    return _argument("argmin", x, axis, keepdims)


def _argument(op: str, x: Tracer, axis: int | None, keepdims: bool) -> Tracer:
    if axis is not None:
        return _unary(op, x, axis=normal_axis(axis, x.ndim), keepdims=keepdims)
    flat = _unary(op, reshape(x, (-1,)), axis=0, keepdims=False)
    return reshape(flat, (1,) * x.ndim) if keepdims else flat


def softmax(x: Tracer, *, axis: int = -1) -> Tracer:
    """Exponentials along `axis`, scaled to sum to 1."""
    return _unary("softmax", x, axis=normal_axis(axis, x.ndim))


def log_softmax(x: Tracer, *, axis: int = -1) -> Tracer:
    """The logarithm of `softmax`, finite for finite `x`."""
    return _unary("log_softmax", x, axis=normal_axis(axis, x.ndim))


def cumulative_sum(x: Tracer, *, axis: int | None = None) -> Tracer:
    """Sums of the elements so far along `axis`."""
    if axis is None and x.ndim != 1:
        raise ShapeError(f"cumulative_sum of {x.aval} needs an axis.")
    return _unary("cumulative_sum", x, axis=normal_axis(axis or 0, x.ndim))


# Shapes


def _dims(shape: Dim | Sequence[Dim]) -> tuple[Dim, ...]:
    """A shape as a tuple of Python integers and sizes."""
    entries = tuple(shape) if isinstance(shape, Sequence) else (shape,)
    try:
        return tuple(entry if isinstance(entry, Size) else operator.index(entry) for entry in entries)
    except TypeError as error:
        if isinstance(error, TraceError):
            raise
        raise ShapeError(f"{user_line()}: the shape {entries} holds something else than integers and sizes.") from None


def reshape(x: Tracer, shape: int | Size | Sequence[Dim], *, copy: bool | None = None) -> Tracer:  # noqa: ARG001
    """`x` with another shape of as many elements; one size may be -1."""
    dims = reshape_dims(x.shape, _dims(shape))
    return x if dims == x.shape else _unary("reshape", x, shape=dims)


def permute_dims(x: Tracer, axes: Sequence[int]) -> Tracer:
    """The axes of `x` in another order."""
    return _unary("permute_dims", x, axes=tuple(normal_axis(axis, x.ndim) for axis in axes))


def matrix_transpose(x: Tracer) -> Tracer:
    """The last two axes swapped."""
    return permute_dims(x, (*range(x.ndim - 2), x.ndim - 1, x.ndim - 2))


def moveaxis(x: Tracer, source: int, destination: int) -> Tracer:
    """One axis moved to another place."""
    axes = [axis for axis in range(x.ndim) if axis != normal_axis(source, x.ndim)]
    axes.insert(normal_axis(destination, x.ndim), normal_axis(source, x.ndim))
    return permute_dims(x, axes)


def broadcast_to(x: Tracer, shape: Sequence[Dim]) -> Tracer:
    """`x` repeated along new axes and axes of size 1."""
    dims = _dims(shape)
    return x if dims == x.shape else _unary("broadcast_to", x, shape=dims)


def expand_dims(x: Tracer, *, axis: int = 0) -> Tracer:
    """A new axis of size 1 at `axis`."""
    return _unary("expand_dims", x, axis=normal_axis(axis, x.ndim + 1))


def squeeze(x: Tracer, axis: int | tuple[int, ...]) -> Tracer:
    """Axes of size 1 removed."""
    return _unary("squeeze", x, axis=normal_axes(axis, x.ndim))


def _joined(op: str, arrays: Sequence[Tracer], axis: int, rank: int) -> Tracer:
    operands = _promoted(op, list(arrays))
    return arrays[0].trace.apply(op, *operands, axis=normal_axis(axis, rank))


def concat(arrays: Sequence[Tracer], *, axis: int | None = 0) -> Tracer:
    """Arrays joined along an existing axis (flat, if `axis` is None)."""
    if axis is None:
        return concat([reshape(array, (-1,)) for array in arrays])
    return arrays[0] if len(arrays) == 1 else _joined("concat", arrays, axis, arrays[0].ndim)


def stack(arrays: Sequence[Tracer], *, axis: int = 0) -> Tracer:
    """Arrays joined along a new axis."""
    return _joined("stack", arrays, axis, arrays[0].ndim + 1)


def flip(x: Tracer, *, axis: Axis = None) -> Tracer:
    """The order of elements reversed along `axis`."""
    return _unary("flip", x, axis=normal_axes(axis, x.ndim))


def _basic_index(x: Tracer, key: Any) -> Tracer:
    """`x[key]` with integers, slices, `None` and `...` that are known now."""
    keys = list(key) if isinstance(key, tuple) else [key]
    used = len([one for one in keys if one is not None and one is not Ellipsis])
    if Ellipsis not in [one for one in keys if not isinstance(one, Tracer)]:
        keys.append(Ellipsis)
    place = next(index for index, one in enumerate(keys) if one is Ellipsis)
    keys[place : place + 1] = [slice(None)] * (x.ndim - used)
    if used > x.ndim:
        raise ShapeError(f"{used} indices were given for {x.aval}.")
    axis = 0
    for one in keys:
        if one is None:
            x, axis = expand_dims(x, axis=axis), axis + 1
        elif isinstance(one, slice):
            x, axis = _slice(x, axis, one), axis + 1
        else:
            x = _pick(x, axis, one)
    return x


def _slice(x: Tracer, axis: int, key: slice) -> Tracer:
    if key == slice(None):
        return x
    size = x.shape[axis]
    if isinstance(size, Size):
        raise ShapeError(
            f"{user_line()}: slicing axis {axis} of {x.aval}, whose size is not known yet, is not there yet."
        )
    start, stop, step = key.indices(size)
    if step < 0:
        raise ShapeError(f"{user_line()}: a negative step; use flip.")
    if (start, stop, step) == (0, size, 1):
        return x
    return _unary("slice", x, axis=axis, start=start, stop=builtins.max(start, stop), step=step)


def _pick(x: Tracer, axis: int, key: object) -> Tracer:
    size = x.shape[axis]
    if not isinstance(key, int) or isinstance(key, bool) or isinstance(size, Size):
        raise TraceError(
            f"{user_line()}: indexing axis {axis} of {x.aval} with {key!r}; for now indices and the axis's size are "
            "integers known at trace time. Use take for arrays of indices."
        )
    if not -size <= key < size:
        raise ShapeError(f"{user_line()}: index {key} does not lie within axis {axis} of {x.aval}.")
    start = key % size
    return squeeze(_unary("slice", x, axis=axis, start=start, stop=start + 1, step=1), axis)


# Making arrays


def full(shape: Dim | Sequence[Dim], fill_value: Value, *, dtype: object = None) -> Tracer:
    """An array of one value."""
    dims = _dims(shape)
    fill = fill_value if isinstance(fill_value, Tracer) else None
    if fill is not None:
        return _unary("full", fill if dtype is None else astype(fill, dtype), shape=dims)
    assert not isinstance(fill_value, Tracer), "handled above"
    operand = literal(fill_value, default_dtype(fill_value) if dtype is None else as_dtype(dtype))
    return _trace_of(()).apply("full", operand, shape=dims)


def zeros(shape: Dim | Sequence[Dim], *, dtype: object = float) -> Tracer:
    """An array of zeros."""
    return full(shape, 0, dtype=dtype)


def ones(shape: Dim | Sequence[Dim], *, dtype: object = float) -> Tracer:
    """An array of ones."""
    return full(shape, 1, dtype=dtype)


def full_like(x: Tracer, fill_value: Value, *, dtype: object = None) -> Tracer:
    """An array of one value with the shape and dtype of `x`."""
    with x.trace.active():
        return full(x.shape, fill_value, dtype=x.dtype if dtype is None else dtype)


def zeros_like(x: Tracer, *, dtype: object = None) -> Tracer:
    """Zeros with the shape and dtype of `x`."""
    return full_like(x, 0, dtype=dtype)


def ones_like(x: Tracer, *, dtype: object = None) -> Tracer:
    """Ones with the shape and dtype of `x`."""
    return full_like(x, 1, dtype=dtype)


def arange(start: Dim, stop: Dim | None = None, step: int = 1, *, dtype: object = int) -> Tracer:
    """Numbers from `start` (0 if it is the only one) up to `stop`, which is left out."""
    first, last = (0, start) if stop is None else (start, stop)
    _dims((first, last, step))
    size: Dim = last - first if step == 1 else -((first - last) // step)
    if isinstance(size, int) and size < 0:
        size = 0
    numbers = _trace_of(()).apply("arange", size=size, dtype=as_dtype(dtype))
    if isinstance(first, Size):
        raise ShapeError("arange from a symbolic start is not there yet; add it to arange(size).")
    scaled = numbers if step == 1 else numbers * step
    return scaled if first == 0 else scaled + first


# Indices and contractions


def take(x: Tracer, indices: Tracer, *, axis: int = 0) -> Tracer:
    """Elements at `indices` (one dimension) along `axis`; no index may lie outside."""
    return x.trace.apply("take", x.operand, indices.operand, axis=normal_axis(axis, x.ndim))


def take_along_axis(x: Tracer, indices: Tracer, *, axis: int = -1) -> Tracer:
    """Elements at `indices`, one for each place outside `axis`."""
    return x.trace.apply("take_along_axis", x.operand, indices.operand, axis=normal_axis(axis, x.ndim))


def lookup(table: Tracer, index: Tracer) -> Tracer:
    """Column `index[f, b]` of each fold's table.

    Shapes: table (F, K, C), index (F, B), result (F, B, K).
    """
    return table.trace.apply("lookup", table.operand, index.operand)


def search_cumulative(table: Tracer, rows: Tracer, uniforms: Tracer) -> Tracer:
    """The first place where a row of cumulative weights exceeds a uniform number times the row's total.

    Shapes: table (F, K, C) not decreasing along C, rows (F, B) integer, uniforms (F, B) in [0, 1), result (F, B).
    """
    return table.trace.apply("search_cumulative", table.operand, rows.operand, uniforms.operand)


def matmul(x1: Tracer, x2: Tracer) -> Tracer:
    """The matrix product."""
    return x1.trace.apply("matmul", *_promoted("matmul", [x1, x2]))


def einsum(equation: str, *arrays: Tracer) -> Tracer:
    """An Einstein sum; without `->`, letters that occur once form the result in alphabetical order."""
    if "->" not in equation:
        letters = sorted(letter for letter in set(equation) if letter.isalpha() and equation.count(letter) == 1)
        equation = f"{equation}->{''.join(letters)}"
    einsum_dims(equation, [array.shape for array in arrays])
    operands = _promoted("einsum", list(arrays))
    return arrays[0].trace.apply("einsum", *operands, equation=equation.replace(" ", ""))


def log_matmul_exp(x: Tracer | Sequence[Tracer], weight: Tracer) -> Tracer:
    """`log(exp(x) @ weight.T)`: inputs in log space, the weight linear and not negative.

    With m the largest of a row's inputs, `log(exp(x - m) @ weight.T) + m`; the error is that of a sum of as many terms.
    Where every term `weight * exp(x - m)` is below the smallest normal number of the dtype (float32: 1.2e-38, float64:
    2.2e-308), torch on the CPU takes the logarithm of each term first; on other devices and under `torch.compile` the
    result loses precision there and below 1.4e-45 (float32) becomes `-inf`. A row of `-inf` gives `-inf`, gradient 0.

    Shapes: x (..., B, I) or H of them, weight (..., O, H*I), result (..., B, O).
    """
    inputs = [x] if isinstance(x, Tracer) else list(x)
    return inputs[0].trace.apply("log_matmul_exp", *[one.operand for one in inputs], weight.operand)


def log_einsum_exp(equation: str, values: Sequence[Tracer], weight: Tracer) -> Tracer:
    """`log(einsum(equation, exp(values)..., weight))`: values in log space, the weight linear and not negative.

    Values of one term are added first. Each value is then shifted by its largest entry along the axes that are summed
    out: the error, and below which ratio of terms a result becomes `-inf`, are those of `log_matmul_exp`.
    """
    arrays = [*values, weight]
    einsum_dims(equation, [array.shape for array in arrays])
    return weight.trace.apply("log_einsum_exp", *[one.operand for one in arrays], equation=equation)
