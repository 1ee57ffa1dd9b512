"""Loops of decompositions, which tracing records."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from plica.tracing.control import trace_for, trace_while


def repeat(count: Any, body: Callable[..., Any], *init: Any) -> Any:
    """The values after `values = body(i, *values)` for i in `range(count)`."""
    return trace_for((0, count, 1), body, init, shared=True)


def countdown(count: Any, body: Callable[..., Any], *init: Any) -> Any:
    """`repeat` with i from `count - 1` down to 0."""
    return trace_for((count - 1, -1, -1), body, init, shared=True)


def while_(condition: Callable[..., Any], body: Callable[..., Any], *init: Any) -> Any:
    """The values after `values = body(*values)` as long as `condition(*values)` holds."""
    return trace_while(condition, body, init, shared=True)
