"""Repeating elements and arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from plica.errors import DTypeError
from plica.ir.dtypes import DType
from plica.ops.rules import normal_axis
from plica.tracing.locations import user_line
from plica.tracing.namespace.creation import arange
from plica.tracing.namespace.indexing import take
from plica.tracing.namespace.operands import Array, as_dim, as_dims, as_tracer, cast, size_of
from plica.tracing.namespace.reductions import cumulative_sum
from plica.tracing.namespace.reductions import sum as total
from plica.tracing.namespace.shapes import broadcast_to, expand_dims, reshape
from plica.tracing.namespace.sorting import searchsorted
from plica.tracing.tracer import Tracer


def repeat(x: Array, repeats: Any, /, *, axis: int | None = None) -> Tracer:
    """Each element along `axis` (of the flat array without it) `repeats` times: a number, or one for each element.

    Numbers that are known only when the program runs make an axis whose size is known only then.
    """
    value = as_tracer("repeat", x)
    if axis is None:
        value, axis = reshape(value, (-1,)), 0
    along = normal_axis(axis, value.ndim)
    if isinstance(repeats, int) or size_of(repeats) is not None:
        times = as_dim(repeats)
        wide = broadcast_to(
            expand_dims(value, axis=along + 1), (*value.dims[: along + 1], times, *value.dims[along + 1 :])
        )
        return reshape(wide, (*value.dims[:along], value.dims[along] * times, *value.dims[along + 1 :]))
    counts = as_tracer("repeat", repeats)
    if counts.dtype.kind != "int" or counts.ndim > 1:
        raise DTypeError(
            f"{user_line()}: repeats is an integer or an array of one dimension of integers, found {counts.aval}."
        )
    return _each_its_times(value, broadcast_to(cast(counts, DType.INT64), (value.dims[along],)), along)


def _each_its_times(x: Tracer, counts: Tracer, axis: int) -> Tracer:
    """Element i, `counts[i]` times: position p of the result shows the first element whose running total exceeds p."""
    positions = arange(total(counts))
    return take(x, searchsorted(cumulative_sum(counts), positions, side="right"), axis=axis)


def tile(x: Array, repetitions: Sequence[Any], /) -> Tracer:
    """`x` laid beside itself, `repetitions` times along each axis."""
    value = as_tracer("tile", x)
    times = as_dims(repetitions)
    rank = max(value.ndim, len(times))
    dims = (1,) * (rank - value.ndim) + value.dims
    times = (1,) * (rank - len(times)) + times
    thin = [size for dim in dims for size in (1, dim)]
    wide = [size for pair in zip(times, dims, strict=True) for size in pair]
    whole = [size * dim for size, dim in zip(times, dims, strict=True)]
    return reshape(broadcast_to(reshape(value, thin), wide), whole)
