"""Products and norms of vectors, and matrix products of numbers that are stored as a direction and a size."""

from __future__ import annotations

import math
from typing import Any

from plica.backend.native.decompositions.matrices import is_complex


def cross(xp: Any, a: Any, b: Any, *, axis: int) -> Any:
    """The cross products of vectors of three numbers along an axis, a negative number."""

    def part(x: Any, index: int) -> Any:
        return x[(..., slice(index, index + 1), *[slice(None)] * (-axis - 1))]

    first, second = ([part(x, index) for index in range(3)] for x in (a, b))
    turns = [((index + 1) % 3, (index + 2) % 3) for index in range(3)]
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
    """The largest of sizes, which are not negative, along some axes; 0 if there are none: a 0 is appended to each."""
    for number in axis:
        dims = [1 if other == number else dim for other, dim in enumerate(sizes.shape)]
        sizes = xp.max(xp.concat([sizes, xp.zeros(dims, dtype=sizes.dtype)], axis=number), axis=number, keepdims=True)
    return sizes if keepdims or not axis else xp.squeeze(sizes, axis=axis)


def directed_matmul(xp: Any, direction: Any, size: Any, weight: Any, *logarithms: Any, logs: str | None = None) -> Any:
    """`directed_matmul` with an axis for the terms of each sum; each term is divided by the largest of its sum."""
    minus_infinity = float("-inf")
    if logarithms:
        log_weight = xp.log_softmax(logarithms[0], axis=-1) if logs == "log_softmax" else logarithms[0]
        weight_phase = _as(xp, xp.exp(0 * logarithms[0]), weight)
    else:
        log_weight = xp.log(xp.abs(weight))
        safe = xp.where(weight == 0, xp.zeros_like(log_weight), log_weight)
        weight_phase = weight * _as(xp, xp.exp(-safe), weight)
    phases = direction[:, :, None, :] * weight_phase[:, None]
    sizes = size[:, :, None, :] + log_weight[:, None]
    counted = xp.where((phases != 0) & (sizes > minus_infinity), sizes, minus_infinity)
    largest = _max_along_last(xp, counted, minus_infinity)
    largest_of_row = _largest_of_row(xp, direction, size)
    shift = xp.where(largest > minus_infinity, largest, largest_of_row[:, :, None])
    terms = phases * _as(xp, xp.exp(counted - shift), phases)
    total = xp.sum(xp.where(counted > minus_infinity, terms, xp.zeros_like(terms)), axis=-1)
    length = xp.abs(total)
    log_length = xp.where(length > 0, xp.log(length), xp.zeros_like(length))
    result = xp.where(length > 0, total * _as(xp, xp.exp(-log_length), total), xp.zeros_like(total))
    return result, log_length + xp.where(length > 0, shift[..., 0], largest_of_row)


def _as(xp: Any, x: Any, like: Any) -> Any:
    """Real numbers in the dtype of `like`, if that is complex."""
    return xp.astype(x, like.dtype) if is_complex(like) else x


def _max_along_last(xp: Any, x: Any, least: float) -> Any:
    """The largest entries along the last axis, or `least` if that is larger."""
    floor = xp.full((*x.shape[:-1], 1), least, dtype=x.dtype)
    return xp.max(xp.concat([x, floor], axis=-1), axis=-1, keepdims=True)


def _largest_of_row(xp: Any, direction: Any, size: Any) -> Any:
    """The largest size of a row's numbers that are not 0, or of all if all are 0: (F, B, 1)."""
    minus_infinity = float("-inf")
    counted = _max_along_last(xp, xp.where(direction != 0, size, minus_infinity), minus_infinity)
    return xp.where(counted > minus_infinity, counted, _max_along_last(xp, size, 0.0))
