"""Sorting, and searching in what is sorted. NaN comes behind every number (first, in descending order)."""

from __future__ import annotations

from plica.ops.rules import normal_axis
from plica.tracing.namespace.indexing import take
from plica.tracing.namespace.operands import Array, as_tracer, promoted, unary
from plica.tracing.scope import record
from plica.tracing.tracer import Tracer


def sort(x: Array, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Tracer:  # noqa: ARG001
    """The elements in order along `axis`."""
    value = as_tracer("sort", x)
    return unary("sort", value, axis=normal_axis(axis, value.ndim), descending=bool(descending))


def argsort(x: Array, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Tracer:  # noqa: ARG001
    """The indices that sort along `axis`; equal elements keep their order, whether `stable` asks for it or not."""
    value = as_tracer("argsort", x)
    return unary("argsort", value, axis=normal_axis(axis, value.ndim), descending=bool(descending))


def searchsorted(x1: Array, x2: Array, /, *, side: str = "left", sorter: Array = None) -> Tracer:
    """Where elements of `x2` belong in `x1`, sorted or sorted by `sorter`: before their equals, or ('right') behind."""
    ordered = x1 if sorter is None else take(as_tracer("searchsorted", x1), as_tracer("searchsorted", sorter), axis=0)
    return record("searchsorted", *promoted("searchsorted", [ordered, x2]), side=side)
