"""Views of a small array that broadcasts with a large one, when the large one is viewed.

    view(x * scale) -> view(x) * followed(scale)

Each rule takes the sizes of the large array, those of the small one (each is 1, or the same), and the parameters of the
view. It gives the operation on the small array, or None where there is none: where the view cuts through a block of
entries that share a number, or joins two blocks.

>>> follow("permute_dims", (4, 6), (4, 1), {"axes": (1, 0)})
('permute_dims', {'axes': (1, 0)})
>>> follow("reshape", (4, 6), (4, 1), {"shape": (2, 2, 6)})
('reshape', {'shape': (2, 2, 1)})
>>> follow("reshape", (4, 6), (4, 1), {"shape": (24,)}) is None
True
"""

from collections.abc import Callable, Mapping
from typing import Any

from plica.ir.sizes import Dim

Shape = tuple[Dim, ...]
Params = Mapping[str, Any]
Followed = tuple[str, Params] | None


def follow(view: str, large: Shape, small: Shape, params: Params) -> Followed:
    """The operation on the small array and its parameters; None where there is none."""
    if view in READS:
        return READS[view](large, small, params)
    row = _ROWS.get(view)
    followed = None if row is None else row(large, small, params)
    return None if followed is None else (view, followed)


def _same(_: Shape, __: Shape, params: Params) -> Params:
    return params


def _slice(large: Shape, small: Shape, params: Params) -> Params:
    axis = params["axis"]
    return {**params, "start": 0, "stop": 1, "step": 1} if small[axis] == 1 != large[axis] else params


def _pack(large: Shape, small: Shape, params: Params) -> Params:
    tiles = zip(params["inner_dims_pos"], params["inner_tiles"], strict=True)
    return {**params, "inner_tiles": tuple(tile if small[axis] == large[axis] else 1 for axis, tile in tiles)}


def _unpack(large: Shape, small: Shape, params: Params) -> Params | None:
    rank = len(large) - len(params["inner_tiles"])
    tiles = []
    for index, axis in enumerate(params["inner_dims_pos"]):
        outer = params["outer_dims_perm"].index(axis)
        if not _is_one_block(large, small, [outer, rank + index]):
            return None
        tiles.append(small[rank + index])
    return {**params, "inner_tiles": tuple(tiles)}


def _reshape(large: Shape, small: Shape, params: Params) -> Params | None:
    new = params["shape"]
    shape: list[Dim] = [1] * len(new)
    at, to = 0, 0
    while at < len(large) or to < len(new):
        if at < len(large) and large[at] == 1:
            at += 1
            continue
        if to < len(new) and new[to] == 1:
            to += 1
            continue
        group = _group(large, new, at, to)
        if group is None or not _is_one_block(large, small, range(at, group[0])):
            return None
        if small[at] != 1:
            shape[to : group[1]] = new[to : group[1]]
        at, to = group
    return {"shape": tuple(shape)}


def _gather(large: Shape, small: Shape, params: Params) -> Followed:
    axes = params["axes"]
    if not _is_one_block(large, small, axes):
        return None
    is_whole = all(small[axis] == large[axis] for axis in axes)
    return ("gather", params) if is_whole else ("squeeze", {"axis": tuple(axes)})


def _take(large: Shape, small: Shape, params: Params) -> Followed:
    is_whole = small[params["axis"]] == large[params["axis"]]
    return ("take", params) if is_whole else ("reshape", {"shape": small})  # changes nothing


def _group(large: Shape, new: Shape, at: int, to: int) -> tuple[int, int] | None:
    """The ends of the shortest runs of axes with as many entries in both shapes; symbolic sizes equal themselves."""
    if at == len(large) or to == len(new):
        return None
    before, after = large[at], new[to]
    at, to = at + 1, to + 1
    while before != after:
        if not isinstance(before, int) or not isinstance(after, int):
            return None
        if before < after and at < len(large):
            before, at = before * large[at], at + 1
        elif after < before and to < len(new):
            after, to = after * new[to], to + 1
        else:
            return None
    return at, to


def _is_one_block(large: Shape, small: Shape, axes: Any) -> bool:
    """Whether the small array has all entries along these axes, or one for all of them."""
    return len({small[axis] == 1 for axis in axes if large[axis] != 1}) < 2


READS: Mapping[str, Callable[[Shape, Shape, Params], Followed]] = {"gather": _gather, "take": _take}
"""Views with a further operand, the indices that they read."""

_ROWS: Mapping[str, Callable[[Shape, Shape, Params], Params | None]] = {
    "permute_dims": _same,
    "expand_dims": _same,
    "squeeze": _same,
    "flip": _same,
    "roll": _same,
    "copy": _same,
    "stop_gradient": _same,
    "slice": _slice,
    "pack": _pack,
    "unpack": _unpack,
    "reshape": _reshape,
}
