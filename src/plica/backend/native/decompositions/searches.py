"""Searches whose number of results is known only when they run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from plica.backend.native.decompositions.matrices import is_complex


def nonzero(xp: Any, x: Any) -> tuple[Any, ...]:
    """How many elements differ from zero, and their places along each axis, in the order of rows."""
    count, found = _places(xp, xp.reshape(x != 0, (-1,)))
    places: list[Any] = []
    for size in reversed(x.shape):
        whole = xp.maximum(size, 1)  # where the size is 0 there is nothing to divide
        places.insert(0, xp.remainder(found, whole))
        found = xp.floor_divide(found, whole)
    return count, *places


def _places(xp: Any, truths: Any) -> tuple[Any, Any]:
    """How many elements of one axis are true, and where: the k-th where k of them, and one, have been seen."""
    seen = xp.cumulative_sum(xp.astype(truths, "int64"))
    count = xp.sum(truths)
    return count, xp.searchsorted(seen, xp.arange(count), side="right")


def _order(xp: Any, x: Any) -> Any:
    """What sorts numbers; complex ones by their real parts, then by their imaginary ones, those with NaN last."""
    if not is_complex(x):
        return xp.argsort(x)
    order = xp.argsort(xp.imag(x))
    for key in (xp.real(x), xp.isnan(xp.imag(x)), xp.isnan(xp.real(x))):
        order = xp.take(order, xp.argsort(xp.take(key, order, nonnegative=True)), nonnegative=True)
    return order


def unique(xp: Any, x: Any, *, parts: Sequence[str]) -> tuple[Any, ...]:
    """How many elements differ from each other, and these in order; each NaN differs from all.

    Equal elements are neighbours once they are sorted: each that differs from the one before begins a group.
    """
    flat = xp.reshape(x, (-1,))
    order = _order(xp, flat)
    ordered = xp.take(flat, order, nonnegative=True)
    places = xp.arange(flat.shape[0])
    previous = xp.take(ordered, xp.maximum(places - 1, 0), nonnegative=True)
    begins = (places == 0) | (ordered != previous)
    count, starts = _places(xp, begins)
    found: dict[str, Any] = {
        "values": xp.take(ordered, starts, nonnegative=True),
        "indices": xp.take(order, starts, nonnegative=True),
    }
    if "counts" in parts:
        following = xp.searchsorted(starts, starts + 1, side="left")
        last = starts.shape[0] - 1
        after = xp.take(starts, xp.minimum(following, last), nonnegative=True)
        found["counts"] = xp.where(following > last, flat.shape[0], after) - starts
    if "inverse" in parts:
        groups = xp.cumulative_sum(xp.astype(begins, "int64")) - 1
        found["inverse"] = xp.reshape(xp.zeros_like(groups).at[order].set(groups), x.shape)
    return count, *(found[part] for part in parts)
