"""The distinct elements of arrays; how many there are is known only when the program runs."""

from __future__ import annotations

from typing import Any, NamedTuple

from plica.tracing.namespace.operands import Array, as_tracer
from plica.tracing.scope import record_all
from plica.tracing.tracer import Tracer


class UniqueAll(NamedTuple):
    """What `unique_all` finds."""

    values: Any
    indices: Any
    inverse_indices: Any
    counts: Any


class UniqueCounts(NamedTuple):
    """What `unique_counts` finds."""

    values: Any
    counts: Any


class UniqueInverse(NamedTuple):
    """What `unique_inverse` finds."""

    values: Any
    inverse_indices: Any


def _unique(name: str, x: Any, *parts: str) -> tuple[Tracer, ...]:
    return record_all("unique", as_tracer(name, x), parts=parts)[1:]


def unique_values(x: Array, /) -> Tracer:
    """The distinct elements in ascending order; every NaN counts as distinct."""
    (values,) = _unique("unique_values", x, "values")
    return values


def unique_counts(x: Array, /) -> UniqueCounts:
    """The distinct elements in ascending order, and how often each occurs."""
    return UniqueCounts(*_unique("unique_counts", x, "values", "counts"))


def unique_inverse(x: Array, /) -> UniqueInverse:
    """The distinct elements in ascending order, and for each element of `x` the index of its value among them."""
    return UniqueInverse(*_unique("unique_inverse", x, "values", "inverse"))


def unique_all(x: Array, /) -> UniqueAll:
    """The distinct elements in ascending order, their first indices in the flat array, inverse indices, and counts."""
    return UniqueAll(*_unique("unique_all", x, "values", "indices", "inverse", "counts"))
