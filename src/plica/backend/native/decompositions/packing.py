"""Packing: axes are split into tiles, or joined again, and put in order."""

from __future__ import annotations

from typing import Any

Axes = tuple[int, ...]


def pack(xp: Any, x: Any, *, outer_dims_perm: Axes, inner_dims_pos: Axes, inner_tiles: Axes) -> Any:
    """The tiles of an array."""
    tile_of = dict(zip(inner_dims_pos, inner_tiles, strict=True))
    shape: list[Any] = []
    outer: list[int] = []
    inner: dict[int, int] = {}
    for axis, size in enumerate(x.shape):
        outer.append(len(shape))
        shape.append(size // tile_of.get(axis, 1))
        if axis in tile_of:
            inner[axis] = len(shape)
            shape.append(tile_of[axis])
    axes = [*(outer[axis] for axis in outer_dims_perm), *(inner[axis] for axis in inner_dims_pos)]
    return xp.permute_dims(xp.reshape(x, tuple(shape)), tuple(axes))


def unpack(xp: Any, x: Any, *, outer_dims_perm: Axes, inner_dims_pos: Axes, inner_tiles: Axes) -> Any:
    """The array that the tiles are of."""
    rank = x.ndim - len(inner_tiles)
    axes: list[int] = []
    shape: list[Any] = []
    for axis in range(rank):
        place = outer_dims_perm.index(axis)
        axes.append(place)
        shape.append(x.shape[place])
        if axis in inner_dims_pos:
            axes.append(rank + inner_dims_pos.index(axis))
            shape[-1] = shape[-1] * x.shape[axes[-1]]
    return xp.reshape(xp.permute_dims(x, tuple(axes)), tuple(shape))
