"""The results of the namespace's functions that are no arrays."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple


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


@dataclass(frozen=True, slots=True)
class Updates:
    """`x.at`; in brackets it takes every key that reading takes.

    Args:
        x: The array.
        apply: `apply(x, key, values, mode)`, the function `update` of a namespace.
    """

    x: Any
    apply: Callable[[Any, Any, Any, str], Any]

    def __getitem__(self, key: Any) -> UpdatesAt:
        return UpdatesAt(self.x, self.apply, key)


@dataclass(frozen=True, slots=True)
class UpdatesAt:
    """`x.at[key]`. Values broadcast to the shape of `x[key]` and are cast to the dtype of `x` within its kind."""

    x: Any
    apply: Callable[[Any, Any, Any, str], Any]
    key: Any

    def set(self, values: Any) -> Any:
        """`x` with `values` at `key`; which of several values one element gets that `key` names twice is left open."""
        return self.apply(self.x, self.key, values, "set")

    def add(self, values: Any) -> Any:
        """`x` with `values` added at `key`, as often as `key` names an element."""
        return self.apply(self.x, self.key, values, "add")

    def multiply(self, values: Any) -> Any:
        """`x` multiplied by `values` at `key`, as often as `key` names an element."""
        return self.apply(self.x, self.key, values, "multiply")

    def min(self, values: Any) -> Any:
        """`x` with the smaller of its elements and `values` at `key`."""
        return self.apply(self.x, self.key, values, "min")

    def max(self, values: Any) -> Any:
        """`x` with the larger of its elements and `values` at `key`."""
        return self.apply(self.x, self.key, values, "max")
