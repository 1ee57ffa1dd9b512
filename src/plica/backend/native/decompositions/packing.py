"""Packing: splits axes into tiles, or joins them again, and permutes axes."""

from __future__ import annotations

from typing import Any

from plica.ops.packing import Axes, cut, joined


def pack(xp: Any, x: Any, *, outer_dims_perm: Axes, inner_dims_pos: Axes, inner_tiles: Axes) -> Any:
    """The tiles of an array."""
    shape, axes = cut(x.shape, outer_dims_perm, inner_dims_pos, inner_tiles)
    return xp.permute_dims(xp.reshape(x, shape), axes)


def unpack(xp: Any, x: Any, *, outer_dims_perm: Axes, inner_dims_pos: Axes, inner_tiles: Axes) -> Any:  # noqa: ARG001
    """The array of some tiles."""
    axes, shape = joined(x.shape, outer_dims_perm, inner_dims_pos)
    return xp.reshape(xp.permute_dims(x, axes), shape)
