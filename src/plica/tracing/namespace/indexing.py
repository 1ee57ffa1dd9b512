"""Reading arrays at indices."""

from __future__ import annotations

from typing import Any

from plica.errors import ShapeError
from plica.ir.dtypes import DType
from plica.ir.sizes import Dim
from plica.ops.rules import normal_axis
from plica.tracing.namespace.elementwise import where
from plica.tracing.namespace.keys import (
    Entry,
    Indices,
    Mask,
    NewAxis,
    Range,
    Scalar,
    as_operand,
    axes_of,
    block_start,
    nonzero_indices,
    parse,
)
from plica.tracing.namespace.operands import Array, as_tracer, cast, elementwise, unary
from plica.tracing.namespace.shapes import broadcast_to, expand_dims, flip, permute_dims, squeeze
from plica.tracing.scope import record, record_all
from plica.tracing.tracer import Tracer


def index(x: Array, key: Any) -> Tracer:
    """`x[key]`, with numpy's meaning.

    Integers, slices, `None`, `...`, scalar tracers, arrays of integers and masks. An index below 0 counts from the end;
    one outside its axis is an error, when the program runs if it is not known before (on the CPU; elsewhere the device
    says so). A slice with Python integers alone is clipped; one with a tracer among its bounds is not, and does not
    wrap: 0 <= start <= stop <= size is checked when the program runs, and its size is `stop - start`.
    """
    x = as_tracer("index", x)
    entries = parse(x, key)
    x, axis, axes, indices = _read_axes(x, entries), 0, [], []
    for entry in entries:
        if isinstance(entry, NewAxis):
            x, axis = expand_dims(x, axis=axis), axis + 1
        elif isinstance(entry, Range):
            x, axis = _turned(x, axis, entry), axis + 1
        elif isinstance(entry, Indices):
            axes.append(axis)
            indices.append(entry.indices)
            axis += 1
        elif isinstance(entry, Mask):
            if not entry.truths.ndim:
                x = expand_dims(x, axis=axis)
            of_mask = nonzero_indices(entry.truths)
            axes += range(axis, axis + len(of_mask))
            indices += of_mask
            axis += len(of_mask)
    return _gathered(x, axes, indices, entries) if indices else x


def _read_axes(x: Tracer, entries: list[Entry]) -> Tracer:
    """Apply the upward slices and the scalars; the last scalar comes first, so that axes keep their numbers in `x`."""
    scalars, axis = [], 0
    for entry in entries:
        if isinstance(entry, Range):
            x = _slice(x, axis, entry.start, entry.stop, 1 if entry.backwards else entry.step)
        elif isinstance(entry, Scalar):
            scalars.append((axis, entry.index))
        axis += axes_of(entry)
    for axis, scalar in reversed(scalars):
        x = _pick(x, axis, scalar)
    return x


def _turned(x: Tracer, axis: int, part: Range) -> Tracer:
    return _slice(flip(x, axis=axis), axis, 0, x.dims[axis], part.step) if part.backwards else x


def _slice(x: Tracer, axis: int, start: Dim, stop: Dim, step: Dim) -> Tracer:
    if (start, stop, step) == (0, x.dims[axis], 1):
        return x
    return unary("slice", x, axis=axis, start=start, stop=stop, step=step)


def _pick(x: Tracer, axis: int, scalar: int | Tracer) -> Tracer:
    size = x.dims[axis]
    if isinstance(scalar, int) and isinstance(size, int):
        start = scalar % size
        return squeeze(unary("slice", x, axis=axis, start=start, stop=start + 1, step=1), axis)
    return record("index", x, as_operand(scalar), axis=axis)


def _gathered(x: Tracer, axes: list[int], indices: list[Tracer], entries: list[Entry]) -> Tracer:
    """The arrays of indices read at once, and their common axes where numpy puts them."""
    gathered = record("gather", x, *indices, axes=tuple(axes))
    block, before = max(array.ndim for array in indices), block_start(entries)
    order = (*range(block, block + before), *range(block), *range(block + before, gathered.ndim))
    return gathered if order == tuple(range(gathered.ndim)) else permute_dims(gathered, order)


def take(x: Array, indices: Array, /, *, axis: int | None = None, nonnegative: bool = False) -> Tracer:
    """Elements at `indices`, which have one dimension, along `axis` (which an array of one dimension need not name).

    Args:
        x: The array.
        indices: Integers; below 0 they count from the end.
        axis: The axis that is read along.
        nonnegative: The caller knows that no index is below 0, which makes the program shorter.
    """
    x, indices = as_tracer("take", x), as_tracer("take", indices)
    if axis is None and x.ndim != 1:
        raise ShapeError(f"take from {x.aval} needs an axis; an array of one dimension alone has only one.")
    along = normal_axis(0 if axis is None else axis, x.ndim)
    if nonnegative or indices.ndim != 1:  # the operation refuses other ranks
        return record("take", x, indices, axis=along)
    gathered = record("gather", x, indices, axes=(along,))
    order = (*range(1, along + 1), 0, *range(along + 1, x.ndim))
    return gathered if along == 0 else permute_dims(gathered, order)


def take_along_axis(x: Array, indices: Array, /, *, axis: int = -1, nonnegative: bool = False) -> Tracer:
    """Elements at `indices`, one for each position outside `axis`, where both arrays broadcast.

    Args:
        x: The array.
        indices: Integers, as many dimensions as `x`; below 0 they count from the end.
        axis: The axis that is read along.
        nonnegative: The caller knows that no index is below 0, which makes the program shorter.
    """
    x, indices = as_tracer("take_along_axis", x), as_tracer("take_along_axis", indices)
    along = normal_axis(axis, x.ndim)
    if x.ndim == indices.ndim:
        x, indices = _broadcast_beside(x, indices, along), _broadcast_beside(indices, x, along)
    counted = indices if nonnegative else _from_front(indices, x, along)
    return record("take_along_axis", x, counted, axis=along)


def _broadcast_beside(x: Tracer, beside: Tracer, axis: int) -> Tracer:
    dims = [
        theirs if own == 1 and position != axis else own
        for position, (own, theirs) in enumerate(zip(x.dims, beside.dims, strict=True))
    ]
    return broadcast_to(x, dims)


def _from_front(indices: Tracer, x: Tracer, axis: int) -> Tracer:
    if indices.dtype.numpy.kind != "i":
        return indices
    wide = cast(indices, DType.INT64)
    return where(elementwise("less", wide, 0), elementwise("add", wide, x.shape[axis]), wide)


def nonzero(x: Array, /) -> tuple[Tracer, ...]:
    """Where elements differ from zero: one array of indices for each axis, in the order of rows.

    Their size is known only when the program runs.
    """
    return record_all("nonzero", as_tracer("nonzero", x))[1:]


def lookup(table: Tracer, index: Tracer) -> Tracer:
    """Column `index[f, b]` of each fold's table.

    Shapes: table (F, K, C), index (F, B), result (F, B, K).
    """
    return record("lookup", table, index)


def search_cumulative(table: Tracer, rows: Tracer, uniforms: Tracer) -> Tracer:
    """The first index where a row of cumulative weights exceeds a uniform number times the row's total.

    An index that adds nothing to the weights before it is never the result, unless the total is 0.

    Shapes: table (F, K, C) not decreasing along C, rows (F, B) integer, uniforms (F, B) in [0, 1), result (F, B).
    """
    return record("search_cumulative", table, rows, uniforms)
