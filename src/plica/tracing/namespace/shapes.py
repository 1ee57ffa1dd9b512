"""Shapes: the same elements in another arrangement."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from plica.errors import ShapeError
from plica.ir.sizes import Dim, Size, product, same
from plica.ops.rules import broadcast as broadcast_dims
from plica.ops.rules import normal_axes, normal_axis
from plica.ops.shape import reshape_dims
from plica.tracing.locations import user_line
from plica.tracing.namespace.operands import Array, as_dim, as_dims, as_tracer, promoted, unary
from plica.tracing.scope import current_trace, record, record_all
from plica.tracing.tracer import Tracer

Axis = int | tuple[int, ...] | None


def reshape(x: Array, /, shape: Any, *, copy: bool | None = None) -> Tracer:  # noqa: ARG001 - nothing is changed in place
    """`x` with another shape of as many elements; one size may be -1."""
    value = as_tracer("reshape", x)
    dims = reshape_dims(value.dims, as_dims(shape))
    if dims == value.dims:
        return value
    elements = product(value.dims)
    if value.ndim != 1 and same(product(dims), elements) is None:
        value = unary("reshape", value, shape=(elements,))  # one axis, whose size is checked when the program runs
    return unary("reshape", value, shape=dims)


def permute_dims(x: Array, /, axes: Sequence[int]) -> Tracer:
    """The axes of `x` in another order."""
    value = as_tracer("permute_dims", x)
    return unary("permute_dims", value, axes=tuple(normal_axis(axis, value.ndim) for axis in axes))


def matrix_transpose(x: Array, /) -> Tracer:
    """The last two axes swapped."""
    value = as_tracer("matrix_transpose", x)
    if value.ndim < 2:
        raise ShapeError(f"{user_line()}: matrix_transpose takes matrices, found {value.aval}.")
    return permute_dims(value, (*range(value.ndim - 2), value.ndim - 1, value.ndim - 2))


def moveaxis(x: Array, source: int | tuple[int, ...], destination: int | tuple[int, ...], /) -> Tracer:
    """Axes moved to other positions; the others keep their order."""
    value = as_tracer("moveaxis", x)
    sources, destinations = (_axes_in_order(axes, value.ndim) for axes in (source, destination))
    if len(sources) != len(destinations):
        raise ShapeError(
            f"{user_line()}: moveaxis was given {len(sources)} axes and {len(destinations)} places for them."
        )
    axes = [axis for axis in range(value.ndim) if axis not in sources]
    for position, axis in sorted(zip(destinations, sources, strict=True)):
        axes.insert(position, axis)
    return permute_dims(value, axes)


def _axes_in_order(axes: int | tuple[int, ...], rank: int) -> list[int]:
    """Axes counted from the front, in the order in which they were given."""
    normal_axes(axes, rank)
    return [normal_axis(number, rank) for number in (axes if isinstance(axes, Sequence) else (axes,))]


def broadcast_to(x: Array, /, shape: Any) -> Tracer:
    """`x` repeated along new axes and axes of size 1."""
    value, dims = as_tracer("broadcast_to", x), as_dims(shape)
    return value if dims == value.dims else unary("broadcast_to", value, shape=dims)


def broadcast_arrays(*arrays: Array) -> list[Tracer]:
    """Arrays repeated to the shape in which they meet."""
    values = [as_tracer("broadcast_arrays", array) for array in arrays]
    dims = _meeting([value.dims for value in values])
    return [broadcast_to(value, dims) for value in values]


def _meeting(shapes: Sequence[tuple[Dim, ...]]) -> tuple[Dim, ...]:
    """The shape in which `shapes` meet if they do, which is for the operations to check: numbers before symbols."""
    rank = max((len(shape) for shape in shapes), default=0)
    result: list[Dim] = []
    for axis in range(-rank, 0):
        sizes = [shape[axis] for shape in shapes if -axis <= len(shape) and shape[axis] != 1]
        numbers = [size for size in sizes if isinstance(size, int)]
        result.append((numbers or sizes or [1])[0])
    return tuple(result)


def broadcast_shapes(*shapes: Any) -> tuple[int | Tracer, ...]:
    """The shape to which arrays of `shapes` broadcast.

    Raises:
        ShapeError: The shapes do not broadcast, or the result is not known before the program runs.
    """
    scope = current_trace()
    dims = broadcast_dims(*[as_dims(shape) for shape in shapes])
    return tuple(Tracer(dim, scope, weak=True) if isinstance(dim, Size) and scope else dim for dim in dims)  # type: ignore[misc]


def expand_dims(x: Array, /, axis: int = 0) -> Tracer:
    """A new axis of size 1 at `axis`."""
    value = as_tracer("expand_dims", x)
    return unary("expand_dims", value, axis=normal_axis(axis, value.ndim + 1))


def squeeze(x: Array, /, axis: int | tuple[int, ...]) -> Tracer:
    """Axes of size 1 removed; that a symbolic size is 1 is checked when the program runs."""
    value = as_tracer("squeeze", x)
    return unary("squeeze", value, axis=normal_axes(axis, value.ndim))


def concat(arrays: Sequence[Array], /, *, axis: int | None = 0) -> Tracer:
    """Arrays joined along an existing axis (flat, if `axis` is None)."""
    values = _values("concat", arrays)
    if axis is None:
        return concat([reshape(value, (-1,)) for value in values])
    along = normal_axis(axis, values[0].ndim)
    return values[0] if len(values) == 1 else record("concat", *promoted("concat", values), axis=along)


def stack(arrays: Sequence[Array], /, *, axis: int = 0) -> Tracer:
    """Arrays joined along a new axis."""
    values = _values("stack", arrays)
    return record("stack", *promoted("stack", values), axis=normal_axis(axis, values[0].ndim + 1))


def _values(op: str, arrays: Sequence[Any]) -> list[Tracer]:
    if not arrays:
        raise ShapeError(f"{user_line()}: {op} joins one array or more, found none.")
    return [as_tracer(op, array) for array in arrays]


def unstack(x: Array, /, *, axis: int = 0) -> tuple[Tracer, ...]:
    """The arrays that `x` is a stack of; their number must be known now."""
    value = as_tracer("unstack", x)
    along = normal_axis(axis, value.ndim)
    if isinstance(value.dims[along], Size):
        raise ShapeError(
            f"{user_line()}: unstack makes as many arrays as axis {along} of {value.aval} is long, which is not known "
            "before the program runs; use plica.for_loop or plica.scan."
        )
    return record_all("unstack", value, axis=along) if value.dims[along] else ()


def flip(x: Array, /, *, axis: Axis = None) -> Tracer:
    """The order of elements reversed along `axis`."""
    value = as_tracer("flip", x)
    return unary("flip", value, axis=normal_axes(axis, value.ndim))


def roll(x: Array, /, shift: Any, *, axis: Axis = None) -> Tracer:
    """Elements moved by `shift` positions along `axis`, those behind the end to the front."""
    value = as_tracer("roll", x)
    if axis is None:
        return reshape(roll(reshape(value, (-1,)), shift, axis=0), value.dims)
    axes = tuple(normal_axis(number, value.ndim) for number in (axis if isinstance(axis, Sequence) else (axis,)))
    shifts = as_dims(shift) if isinstance(shift, Sequence) else (as_dim(shift),) * len(axes)
    return unary("roll", value, shift=shifts * len(axes) if len(shifts) == 1 else shifts, axis=axes)


def tril(x: Array, /, *, k: Any = 0) -> Tracer:
    """The lower triangle of matrices, up to diagonal `k`; zeros above."""
    return unary("tril", x, k=as_dim(k))


def triu(x: Array, /, *, k: Any = 0) -> Tracer:
    """The upper triangle of matrices, from diagonal `k`; zeros below."""
    return unary("triu", x, k=as_dim(k))
