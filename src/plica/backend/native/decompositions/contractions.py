"""Vectors: products, norms, and products of matrices of numbers that are kept as a direction and a size."""

from __future__ import annotations

import math
from typing import Any

from plica.backend.native.decompositions.matrices import is_complex


def cross(xp: Any, a: Any, b: Any, *, axis: int) -> Any:
    """The products of vectors of three numbers along an axis that is counted from the end."""

    def part(x: Any, place: int) -> Any:
        return x[(..., slice(place, place + 1), *[slice(None)] * (-axis - 1))]

    first, second = ([part(x, place) for place in range(3)] for x in (a, b))
    turns = [((place + 1) % 3, (place + 2) % 3) for place in range(3)]
    return xp.concat([first[i] * second[j] - first[j] * second[i] for i, j in turns], axis=axis)


def vector_norm(xp: Any, x: Any, *, axis: tuple[int, ...], keepdims: bool, ord: float) -> Any:  # noqa: A002
    """The norms of order `ord`."""
    sizes = xp.abs(x)
    along: dict[str, Any] = {"axis": axis, "keepdims": keepdims}
    match ord:
        case 0:
            return xp.sum(xp.astype(sizes != 0, sizes.dtype), **along)
        case 2:
            return xp.sqrt(xp.sum(xp.square(sizes), **along))
        case 1:
            return xp.sum(sizes, **along)
        case math.inf:
            return _largest(xp, sizes, **along)
        case _ if ord == -math.inf:
            return xp.min(sizes, **along)
        case _:
            return xp.pow(xp.sum(xp.pow(sizes, ord), **along), 1 / ord)


def _largest(xp: Any, sizes: Any, *, axis: tuple[int, ...], keepdims: bool) -> Any:
    """The largest of sizes, 0 where there is none: a 0 is put beside them along each axis."""
    for one in axis:
        dims = [1 if place == one else dim for place, dim in enumerate(sizes.shape)]
        sizes = xp.max(xp.concat([sizes, xp.zeros(dims, dtype=sizes.dtype)], axis=one), axis=one, keepdims=True)
    return sizes if keepdims or not axis else xp.squeeze(sizes, axis=axis)


def directed_matmul(xp: Any, direction: Any, size: Any, weight: Any, *given: Any, logs: str | None = None) -> Any:
    """Every term on an axis of its own, divided by the largest of its sum."""
    infinite = float("-inf")
    if given:
        log_weight = xp.log_softmax(given[0], axis=-1) if logs == "log_softmax" else given[0]
        turn = _as(xp, xp.exp(0 * given[0]), weight)
    else:
        log_weight = xp.log(xp.abs(weight))
        safe = xp.where(weight == 0, xp.zeros_like(log_weight), log_weight)
        turn = weight * _as(xp, xp.exp(-safe), weight)
    phases = direction[:, :, None, :] * turn[:, None]
    sizes = size[:, :, None, :] + log_weight[:, None]
    counted = xp.where((phases != 0) & (sizes > infinite), sizes, infinite)
    largest = _most(xp, counted, infinite)
    of_row = _of_row(xp, direction, size)
    shift = xp.where(largest > infinite, largest, of_row[:, :, None])
    terms = phases * _as(xp, xp.exp(counted - shift), phases)
    total = xp.sum(xp.where(counted > infinite, terms, xp.zeros_like(terms)), axis=-1)
    length = xp.abs(total)
    found = xp.where(length > 0, xp.log(length), xp.zeros_like(length))
    result = xp.where(length > 0, total * _as(xp, xp.exp(-found), total), xp.zeros_like(total))
    return result, found + xp.where(length > 0, shift[..., 0], of_row)


def _as(xp: Any, x: Any, like: Any) -> Any:
    """Real numbers as entries of `like`."""
    return xp.astype(x, like.dtype) if is_complex(like) else x


def _most(xp: Any, x: Any, least: float) -> Any:
    """The largest entries along the last axis, and `least` where there is none."""
    one = xp.full((*x.shape[:-1], 1), least, dtype=x.dtype)
    return xp.max(xp.concat([x, one], axis=-1), axis=-1, keepdims=True)


def _of_row(xp: Any, direction: Any, size: Any) -> Any:
    """The largest size of a row's numbers that are not 0, or of all if they are: (F, B, 1)."""
    infinite = float("-inf")
    counted = _most(xp, xp.where(direction != 0, size, infinite), infinite)
    return xp.where(counted > infinite, counted, _most(xp, size, 0.0))
