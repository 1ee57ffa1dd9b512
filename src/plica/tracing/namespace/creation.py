"""Making arrays. A size may be a scalar tracer anywhere; without `dtype`, floats are float64 and integers int64."""

from __future__ import annotations

import math
from typing import Any

from plica.errors import ShapeError, UnsupportedError
from plica.ir.dtypes import DType, as_dtype
from plica.ir.sizes import Dim, Size, floor_divide, opaque
from plica.ops.rules import real_dtype
from plica.tracing.locations import user_line
from plica.tracing.namespace.elementwise import FUNCTIONS, astype, where
from plica.tracing.namespace.literals import array_of_numbers
from plica.tracing.namespace.operands import (
    Array,
    as_dim,
    as_dims,
    as_floating,
    as_tracer,
    cast,
    elementwise,
    is_array,
    is_number,
    result_dtype,
    unary,
)
from plica.tracing.namespace.shapes import broadcast_to, expand_dims, reshape, stack
from plica.tracing.scope import record, scope_of
from plica.tracing.tracer import Tracer, default_dtype, literal


def _no_device(device: object) -> None:
    if device is not None:
        raise UnsupportedError(
            f"{user_line()}: an array is made on {device!r} within a traced function, but a program runs wherever its "
            "arguments are; leave `device` out."
        )


def asarray(obj: Array, /, *, dtype: object = None, device: object = None, copy: bool | None = None) -> Tracer:  # noqa: ARG001
    """A number, a nested list of numbers and arrays, or an array of any library as an array.

    At once: an array of its library, by default torch's. In a traced function, an array that the function closes over
    is captured by reference, and lists of numbers alone are constants.
    """
    _no_device(device)
    value = _as_array(obj, dtype)
    return astype(value, value.dtype if dtype is None else dtype)


def _as_array(obj: Any, dtype: object) -> Tracer:
    if isinstance(obj, list | tuple):
        if _holds_arrays(obj):
            return stack([_as_array(entry, None) for entry in obj])
        return scope_of().capture(array_of_numbers(obj, dtype))
    if is_number(obj) and dtype is not None:
        return Tracer(literal(array_of_numbers(obj, dtype).item(), as_dtype(dtype)), scope_of())
    return as_tracer("asarray", obj)


def _holds_arrays(obj: Any) -> bool:
    if isinstance(obj, list | tuple):
        return any(_holds_arrays(entry) for entry in obj)
    return isinstance(obj, Tracer) or is_array(obj)


def from_dlpack(x: Array, /, *, device: object = None, copy: bool | None = None) -> Tracer:  # noqa: ARG001
    """An array of another library: captured by reference in a traced function.

    At once: a torch tensor, which shares its memory unless `copy` asks for memory of its own.
    """
    _no_device(device)
    return as_tracer("from_dlpack", x)


def full(shape: Any, fill_value: Array, *, dtype: object = None, device: object = None) -> Tracer:
    """An array of one value."""
    _no_device(device)
    dims = as_dims(shape)
    if is_number(fill_value):
        own = default_dtype(fill_value) if dtype is None else as_dtype(dtype)
        return record("full", literal(fill_value, own), shape=dims)
    fill = as_tracer("full", fill_value)
    return unary("full", fill if dtype is None else astype(fill, dtype), shape=dims)


def zeros(shape: Any, *, dtype: object = None, device: object = None) -> Tracer:
    """An array of zeros."""
    return full(shape, 0, dtype=float if dtype is None else dtype, device=device)


def ones(shape: Any, *, dtype: object = None, device: object = None) -> Tracer:
    """An array of ones."""
    return full(shape, 1, dtype=float if dtype is None else dtype, device=device)


def empty(shape: Any, *, dtype: object = None, device: object = None) -> Tracer:
    """An array to be overwritten; zeros, so that equal programs give equal results."""
    return zeros(shape, dtype=dtype, device=device)


def full_like(x: Array, /, fill_value: Array, *, dtype: object = None, device: object = None) -> Tracer:
    """An array of one value with the shape and dtype of `x`."""
    _no_device(device)
    like = as_tracer("full_like", x)
    wanted = like.dtype if dtype is None else as_dtype(dtype)
    if not is_number(fill_value):
        return full(like.dims, fill_value, dtype=wanted)
    return scope_of(like).apply("full", literal(fill_value, wanted), shape=like.dims)[0]


def zeros_like(x: Array, /, *, dtype: object = None, device: object = None) -> Tracer:
    """Zeros with the shape and dtype of `x`."""
    return full_like(x, 0, dtype=dtype, device=device)


def ones_like(x: Array, /, *, dtype: object = None, device: object = None) -> Tracer:
    """Ones with the shape and dtype of `x`."""
    return full_like(x, 1, dtype=dtype, device=device)


def empty_like(x: Array, /, *, dtype: object = None, device: object = None) -> Tracer:
    """An array to be overwritten with the shape and dtype of `x`; zeros."""
    return zeros_like(x, dtype=dtype, device=device)


def eye(n_rows: Any, n_cols: Any = None, /, *, k: Any = 0, dtype: object = None, device: object = None) -> Tracer:
    """Ones on diagonal `k` of a matrix of zeros."""
    _no_device(device)
    rows = record("arange", size=as_dim(n_rows), dtype=DType.INT64)
    columns = record("arange", size=as_dim(n_rows if n_cols is None else n_cols), dtype=DType.INT64)
    offset = as_dim(k)
    shifted = rows if offset == 0 else elementwise("add", rows, as_tracer("eye", offset))
    return astype(elementwise("equal", expand_dims(shifted, axis=1), columns), float if dtype is None else dtype)


def meshgrid(*arrays: Array, indexing: str = "xy") -> list[Tracer]:
    """Coordinates of the points of a grid, given those along each axis ('xy': the first two axes swapped)."""
    if indexing not in ("xy", "ij"):
        raise ShapeError(f"{user_line()}: indexing is 'xy' or 'ij', found {indexing!r}.")
    values = [as_tracer("meshgrid", array) for array in arrays]
    for value in values:
        if value.ndim != 1:
            raise ShapeError(f"{user_line()}: meshgrid takes arrays of one dimension, found {value.aval}.")
    axes = list(range(len(values)))
    if indexing == "xy" and len(values) > 1:
        axes[:2] = 1, 0
    dims = [values[axis].dims[0] for axis in axes]
    thin = [[1] * axis + [-1] + [1] * (len(values) - axis - 1) for axis in axes]
    return [broadcast_to(reshape(value, shape), dims) for value, shape in zip(values, thin, strict=True)]


def arange(start: Any, /, stop: Any = None, step: Any = 1, *, dtype: object = None, device: object = None) -> Tracer:
    """Numbers from `start` (0 if it is the only one) up to `stop`, which is left out; all may be scalar tracers.

    A size that is the only argument must not be negative when the program runs.

    Raises:
        ShapeError: The step is 0.
    """
    _no_device(device)
    first, last = (0, start) if stop is None else (start, stop)
    if is_number(step) and step == 0:
        raise ShapeError(f"{user_line()}: arange takes a step that is not 0.")
    own = result_dtype([bound if is_number(bound) else as_tracer("arange", bound) for bound in (first, last, step)])
    wanted = own if dtype is None else as_dtype(dtype)
    size = _integer_count(*map(as_dim, (first, last, step))) if own.kind == "int" else _float_count(first, last, step)
    simple = is_number(first) and first == 0 and is_number(step) and step == 1
    numbers = record("arange", size=size, dtype=wanted if simple else own)
    for op, value, neutral in (("multiply", step, 1), ("add", first, 0)):
        if not (is_number(value) and value == neutral):
            numbers = elementwise(op, numbers, value)
    return astype(numbers, wanted)


def _integer_count(first: Dim, last: Dim, step: Dim) -> Dim:
    """How many integers there are: the distance over the step, rounded up, and 0 if that is negative."""
    if not isinstance(step, int):
        return _not_negative(-floor_divide(first - last, step))
    distance = _not_negative(last - first if step > 0 else first - last)
    exact = floor_divide(distance, abs(step))
    return exact if exact * abs(step) == distance else floor_divide(distance + (abs(step) - 1), abs(step))


def _not_negative(size: Dim) -> Dim:
    """`max(size, 0)`; sums of sizes are taken to be no less."""
    certain = isinstance(size, Size) and all(factor >= 0 for _, factor in size.terms)
    return size if certain else opaque("max", size, 0)


def _float_count(first: Any, last: Any, step: Any) -> Dim:
    if is_number(first) and is_number(last) and is_number(step):
        return max(math.ceil((float(last) - float(first)) / float(step)), 0)
    count = FUNCTIONS["ceil"]((as_floating("arange", last) - as_floating("arange", first)) / step)
    return as_dim(astype(elementwise("maximum", count, 0), DType.INT64))


def linspace(
    start: Any,
    stop: Any,
    /,
    num: Any,
    *,
    dtype: object = None,
    device: object = None,
    endpoint: bool = True,
) -> Tracer:
    """`num` numbers at equal distances from `start` to `stop`, which is left out without `endpoint`."""
    _no_device(device)
    ends = [end if is_number(end) else as_tracer("linspace", end) for end in (start, stop)]
    own = result_dtype([*ends, 1.0])
    size = as_dim(num)
    if isinstance(size, int) and size < 0:
        raise ShapeError(f"{user_line()}: linspace makes num = {size} numbers; num is 0 or more.")
    numbers = record("arange", size=size, dtype=real_dtype(own))
    steps = opaque("max", size - 1 if endpoint else size, 1)
    first, last = (as_floating("linspace", end) for end in ends)
    each = (last - first) / (steps if isinstance(steps, int) else as_tracer("linspace", steps))
    result = cast(as_tracer("linspace", numbers * each + first), own)
    if endpoint:
        result = where(elementwise("equal", numbers, as_tracer("linspace", steps)), last, result)
    wanted = own if dtype is None else as_dtype(dtype)
    return astype(FUNCTIONS["floor"](result) if wanted.kind == "int" else result, wanted)
