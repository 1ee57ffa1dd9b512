"""Packing: arrays cut into tiles that lie in memory as a kernel reads them; the inverse."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from plica.errors import ShapeError
from plica.ir.sizes import Dim, floor_divide
from plica.ops.rules import normal_axis
from plica.tracing.locations import user_line
from plica.tracing.namespace.creation import full
from plica.tracing.namespace.operands import Array, as_dims, as_static_integer, as_tracer, unary
from plica.tracing.namespace.shapes import concat
from plica.tracing.scope import record
from plica.tracing.tracer import Tracer


def pack(
    x: Array,
    /,
    inner_dims_pos: Sequence[int],
    inner_tiles: Sequence[int],
    *,
    outer_dims_perm: Sequence[int] | None = None,
    padding_value: Any = None,
) -> Tracer:
    """`x` in tiles: the outer axes in the order `outer_dims_perm`, then the positions within the tiles.

    Args:
        x: The array.
        inner_dims_pos: Which axes are cut into tiles; the last axes of the result are theirs, in this order.
        inner_tiles: How many entries a tile has along each of them.
        outer_dims_perm: Which axis of `x` each outer axis is; by default in order.
        padding_value: The value that fills up the last tile; without it, tiles fill their axes.
    """
    value = as_tracer("pack", x)
    axes = tuple(normal_axis(axis, value.ndim) for axis in inner_dims_pos)
    tiles = tuple(as_static_integer("a tile", tile) for tile in inner_tiles)
    if padding_value is not None:
        for axis, tile in zip(axes, tiles, strict=False):
            if tile > 0:  # others are refused below
                value = _padded(value, axis, tile, padding_value)
    return unary(
        "pack", value, outer_dims_perm=_order(outer_dims_perm, value.ndim), inner_dims_pos=axes, inner_tiles=tiles
    )


def unpack(
    x: Array,
    /,
    inner_dims_pos: Sequence[int],
    inner_tiles: Sequence[int],
    *,
    outer_dims_perm: Sequence[int] | None = None,
    shape: Any = None,
) -> Tracer:
    """The array whose tiles `x` has, of the given `shape`: without it, with what fills up the last tiles."""
    value = as_tracer("unpack", x)
    rank = value.ndim - len(inner_tiles)
    if rank < 0:
        raise ShapeError(
            f"{user_line()}: unpack needs one axis for each of {len(inner_tiles)} tile(s), found {value.aval}."
        )
    axes = tuple(normal_axis(axis, rank) for axis in inner_dims_pos)
    tiles = tuple(as_static_integer("a tile", tile) for tile in inner_tiles)
    unpacked = unary(
        "unpack", value, outer_dims_perm=_order(outer_dims_perm, rank), inner_dims_pos=axes, inner_tiles=tiles
    )
    dims = unpacked.dims if shape is None else as_dims(shape)
    if len(dims) != rank:
        raise ShapeError(f"{user_line()}: unpack gives {rank} axes, but the shape {tuple(dims)} has {len(dims)}.")
    for axis, stop in enumerate(dims):
        if stop != unpacked.dims[axis]:
            unpacked = record("slice", unpacked, axis=axis, start=0, stop=stop, step=1)
    return unpacked


def _order(axes: Sequence[int] | None, rank: int) -> tuple[int, ...]:
    return tuple(range(rank)) if axes is None else tuple(normal_axis(axis, rank) for axis in axes)


def _padded(x: Tracer, axis: int, tile: int, value: Any) -> Tracer:
    """`x` with as many entries along `axis` as fill up the last tile."""
    size: Dim = x.dims[axis]
    missing = floor_divide(size + tile - 1, tile) * tile - size
    if isinstance(missing, int) and not missing:
        return x
    padding = full((*x.dims[:axis], missing, *x.dims[axis + 1 :]), value, dtype=x.dtype)
    return concat([x, padding], axis=axis)
