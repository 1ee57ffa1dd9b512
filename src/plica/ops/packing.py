"""Packing: axes cut into tiles, which become the last axes, so that a kernel reads each tile from one block of memory.

    pack(x)[o, i] = x[o * inner_tiles + i]      on the axes inner_dims_pos, the outer axes in the order outer_dims_perm

Axis k of the outer part is axis `outer_dims_perm[k]` of `x`. Axis k of the inner part counts the entries within a tile
of axis `inner_dims_pos[k]`, `inner_tiles[k]` of them. Tiles fill their axes: the function of the namespace pads first.

>>> import numpy as np
>>> pack(np.arange(6), outer_dims_perm=(0,), inner_dims_pos=(0,), inner_tiles=(2,)).tolist()
[[0, 1], [2, 3], [4, 5]]
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from plica.errors import InputError, ShapeError
from plica.ir.op import Memory, Op, Sample, View, sample
from plica.ir.ranges import as_first
from plica.ir.sizes import Dim, floor_divide, remainder
from plica.ir.types import ArrayType, array_type

Axes = tuple[int, ...]


def _check(rank: int, outer_dims_perm: Axes, inner_dims_pos: Axes, inner_tiles: Axes) -> None:
    if sorted(outer_dims_perm) != list(range(rank)):
        raise ShapeError(f"outer_dims_perm {outer_dims_perm} is no permutation of {rank} axes.")
    if len(inner_dims_pos) != len(inner_tiles):
        raise ShapeError(f"{len(inner_dims_pos)} axes {inner_dims_pos} are cut into {len(inner_tiles)} tile(s).")
    if len(set(inner_dims_pos)) != len(inner_dims_pos) or not all(0 <= axis < rank for axis in inner_dims_pos):
        raise ShapeError(f"inner_dims_pos {inner_dims_pos} names an axis twice, or one that {rank} axes do not have.")
    if any(tile < 1 for tile in inner_tiles):
        raise ShapeError(f"a tile has one entry or more, found {inner_tiles}.")


def _pack_type(x: ArrayType, *, outer_dims_perm: Axes, inner_dims_pos: Axes, inner_tiles: Axes) -> ArrayType:
    _check(len(x.shape), outer_dims_perm, inner_dims_pos, inner_tiles)
    outer = list(x.shape)
    for axis, tile in zip(inner_dims_pos, inner_tiles, strict=True):
        if isinstance(rest := remainder(outer[axis], tile), int) and rest:
            raise ShapeError(misfit(axis, x.shape[axis], tile))
        outer[axis] = floor_divide(outer[axis], tile)
    return array_type((*(outer[axis] for axis in outer_dims_perm), *inner_tiles), x.dtype)


def misfit(axis: int, size: Dim | str, tile: int) -> str:
    """The error text for an axis that tiles do not fill."""
    return f"axis {axis} of size {size} is no multiple of the tile size {tile}; give a padding_value."


def _unpack_type(x: ArrayType, *, outer_dims_perm: Axes, inner_dims_pos: Axes, inner_tiles: Axes) -> ArrayType:
    rank = len(x.shape) - len(inner_tiles)
    _check(rank, outer_dims_perm, inner_dims_pos, inner_tiles)
    if x.shape[rank:] != inner_tiles:
        raise ShapeError(f"{x} does not end with tiles of {inner_tiles}.")
    dims = [x.shape[outer_dims_perm.index(axis)] for axis in range(rank)]
    for axis, tile in zip(inner_dims_pos, inner_tiles, strict=True):
        dims[axis] = dims[axis] * tile
    return array_type(dims, x.dtype)


def cut(sizes: Sequence[Any], outer: Axes, inner: Axes, tiles: Axes) -> tuple[tuple[Any, ...], Axes]:
    """The shape of an array of some sizes whose axes are cut into tiles, and the order of its axes once it is packed.

    Sizes are numbers, or anything that has a floor division.
    """
    tile_of = dict(zip(inner, tiles, strict=True))
    shape: list[Any] = []
    first: list[int] = []
    for axis, size in enumerate(sizes):
        first.append(len(shape))
        shape += [size // tile_of[axis], tile_of[axis]] if axis in tile_of else [size]
    return tuple(shape), (*(first[axis] for axis in outer), *(first[axis] + 1 for axis in inner))


def joined(sizes: Sequence[Any], outer: Axes, inner: Axes) -> tuple[Axes, tuple[Any, ...]]:
    """The order of axes in which each tile follows the axis that it was cut from, and the shape once joined."""
    rank = len(sizes) - len(inner)
    axes: list[int] = []
    shape: list[Any] = []
    for axis in range(rank):
        position = outer.index(axis)
        axes.append(position)
        shape.append(sizes[position])
        if axis in inner:
            axes.append(rank + inner.index(axis))
            shape[-1] = shape[-1] * sizes[axes[-1]]
    return tuple(axes), tuple(shape)


def pack(x: Any, *, outer_dims_perm: Axes, inner_dims_pos: Axes, inner_tiles: Axes) -> Any:
    """The tiles of an array of numpy or torch, as a view where possible.

    Raises:
        InputError: Tiles do not fill an axis.
    """
    for axis, tile in zip(inner_dims_pos, inner_tiles, strict=True):
        if x.shape[axis] % tile:
            raise InputError(misfit(axis, x.shape[axis], tile))
    shape, axes = cut(x.shape, outer_dims_perm, inner_dims_pos, inner_tiles)
    return _permuted(x.reshape(shape), axes)


def unpack(x: Any, *, outer_dims_perm: Axes, inner_dims_pos: Axes, inner_tiles: Axes) -> Any:  # noqa: ARG001
    """The array that was cut into these tiles."""
    axes, shape = joined(x.shape, outer_dims_perm, inner_dims_pos)
    return _permuted(x, axes).reshape(shape)


def _permuted(x: Any, axes: Axes) -> Any:
    return np.transpose(x, axes) if isinstance(x, np.ndarray | np.generic) else x.permute(axes)


def _pack_samples() -> list[Sample]:
    matrix = np.arange(24.0, dtype="float32").reshape(4, 6)
    cube = np.arange(48).reshape(2, 4, 6)
    return [
        sample(matrix, outer_dims_perm=(1, 0), inner_dims_pos=(1, 0), inner_tiles=(3, 2)),
        sample(matrix[0], outer_dims_perm=(0,), inner_dims_pos=(0,), inner_tiles=(2,)),
        sample(cube, outer_dims_perm=(2, 0, 1), inner_dims_pos=(1,), inner_tiles=(4,)),
        sample(matrix[:, :0], outer_dims_perm=(0, 1), inner_dims_pos=(1,), inner_tiles=(3,)),
        sample(matrix, outer_dims_perm=(1, 0), inner_dims_pos=(), inner_tiles=()),
    ]


def _unpack_samples() -> list[Sample]:
    return [sample(pack(*packed.inputs, **packed.params), **packed.params) for packed in _pack_samples()]


PACKING = (
    Op("pack", _pack_type, pack, _pack_samples, memory=Memory.EITHER, range=as_first, view=View.MOVED),
    Op("unpack", _unpack_type, unpack, _unpack_samples, memory=Memory.EITHER, range=as_first, view=View.MOVED),
)
