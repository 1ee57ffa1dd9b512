"""Searches whose number of results depends on the entries."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from plica.backend.native.decompositions.matrices import is_complex


def nonzero(xp: Any, x: Any) -> tuple[Any, ...]:
    """How many elements differ from zero, and their indices along each axis, in row-major order."""
    count, remainder = _true_positions(xp, xp.reshape(x != 0, (-1,)))
    indices: list[Any] = []
    for size in reversed(x.shape):
        divisor = xp.maximum(size, 1)  # an axis of size 0 has no elements to divide
        indices.insert(0, xp.remainder(remainder, divisor))
        remainder = xp.floor_divide(remainder, divisor)
    return count, *indices


def _true_positions(xp: Any, truths: Any) -> tuple[Any, Any]:
    """How many elements of one axis are true, and their positions.

    Element k (from 0) of them is at the first position up to which more than k elements are true.
    """
    seen = xp.cumulative_sum(xp.astype(truths, "int64"))
    count = xp.sum(truths)
    return count, xp.searchsorted(seen, xp.arange(count), side="right")


def _order(xp: Any, x: Any) -> Any:
    """The indices that sort numbers: complex ones by their real parts, then by their imaginary ones, NaN last."""
    if not is_complex(x):
        return xp.argsort(x)
    order = xp.argsort(xp.imag(x))
    for key in (xp.real(x), xp.isnan(xp.imag(x)), xp.isnan(xp.real(x))):
        order = xp.take(order, xp.argsort(xp.take(key, order, nonnegative=True)), nonnegative=True)
    return order


def unique(xp: Any, x: Any, *, parts: Sequence[str]) -> tuple[Any, ...]:
    """How many distinct elements there are, and these in order; each NaN is distinct from all.

    Equal elements are neighbours once they are sorted: an element that differs from the one before begins a group.
    """
    flat = xp.reshape(x, (-1,))
    order = _order(xp, flat)
    ordered = xp.take(flat, order, nonnegative=True)
    positions = xp.arange(flat.shape[0])
    previous = xp.take(ordered, xp.maximum(positions - 1, 0), nonnegative=True)
    is_start = (positions == 0) | (ordered != previous)
    count, starts = _true_positions(xp, is_start)
    results: dict[str, Any] = {
        "values": xp.take(ordered, starts, nonnegative=True),
        "indices": xp.take(order, starts, nonnegative=True),
    }
    if "counts" in parts:
        following = xp.searchsorted(starts, starts + 1, side="left")
        last = starts.shape[0] - 1
        after = xp.take(starts, xp.minimum(following, last), nonnegative=True)
        results["counts"] = xp.where(following > last, flat.shape[0], after) - starts
    if "inverse" in parts:
        groups = xp.cumulative_sum(xp.astype(is_start, "int64")) - 1
        results["inverse"] = xp.reshape(xp.zeros_like(groups).at[order].set(groups), x.shape)
    return count, *(results[part] for part in parts)
