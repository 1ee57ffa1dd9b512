"""A graph of array operations as rules see it, with functions for conditions and replacements.

Patterns name operations of `plica.ops`, and `CONSTANT`. A view hides whether the graph is made of equations of a
Program or of nodes of a parameter, so that one rule serves both.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plica.graph.optimize import Rule
from plica.graph.pattern import Entry, Pattern
from plica.graph.view import GraphOptMatch, GraphView, Replacement
from plica.ir.ranges import Range, excludes_negative, excludes_negative_zero
from plica.ir.types import ArrayType

Match = GraphOptMatch[Any]
New = Replacement[Any]

CONSTANT = "constant"
"""The kind, in patterns, of a number or an array that is written in the graph; its setting `value` is the number."""


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class OperationView(GraphView[Any]):
    """A graph of array operations.

    Args:
        make: `make(root, operation, inputs, settings)`: a new node, in place of `root`, that computes an operation.
        type: Shape and dtype of a node. The graph of a parameter has one dtype for real numbers, however wide.
        range: In which range the entries of a node lie (`plica.ir.ranges`); None where they may be complex.
    """

    make: Callable[[Any, str, Sequence[Any], Mapping[str, Any]], Any]
    type: Callable[[Any], ArrayType]
    range: Callable[[Any], Range | None]


def view_of(match: Match) -> OperationView:
    """Where a match was found."""
    assert isinstance(match.graph, OperationView), "rules on operations are applied to graphs of operations"
    return match.graph


def of_graph_with(rules: Sequence[Rule], operations: Mapping[str, Any]) -> tuple[Rule, ...]:
    """The rules that can match in a graph that has no operations but these, and constants."""

    def known(entry: Entry) -> bool:
        kinds = entry.kind if isinstance(entry.kind, tuple) else (entry.kind,)
        return any(kind in operations or kind == CONSTANT for kind in kinds)

    return tuple(rule for rule in rules if all(map(known, rule.pattern.entries)))


# Patterns


def chain(outer: str | tuple[str, ...], inner: str | tuple[str, ...]) -> Pattern:
    """`outer(inner(x))`; others may read the inner node."""
    return Pattern(Entry("outer", outer, ("inner",)), Entry("inner", inner, ("x",), preserved=True))


def with_constant(op: str, value: Callable[[Any], bool], *, commutative: bool) -> Pattern:
    """`x op constant`, where the constant's value meets a condition."""
    return Pattern(
        Entry("op", op, ("x", "constant"), commutative=commutative),
        Entry("constant", CONSTANT, (), config={"value": value}, preserved=True),
    )


def every(number: float) -> Callable[[Any], bool]:
    """The predicate that a constant is a number, or an array of nothing else."""
    return lambda value: bool(value == number if isinstance(value, int | float | complex) else np.all(value == number))


# Replacements


def is_x(match: Match) -> New:
    """The input that the pattern calls `x`."""
    return Replacement.by(match["x"])


def made(match: Match, operation: str, *names: str, **settings: Any) -> New:
    """One operation on inputs of the match in place of its root."""
    inputs = [match[name] for name in names]
    return Replacement.chain(inputs, view_of(match).make(match.root, operation, inputs, settings))


# Conditions


def same_type(match: Match) -> str | None:
    """For rules that put x in place of the root: its shape was not broadcast, its dtype not promoted."""
    view = view_of(match)
    return None if view.type(match["x"]) == view.type(match.root) else "the result has another type than x"


def not_complex(match: Match) -> str | None:
    """For rules that fail for infinite complex numbers."""
    return "x may be complex" if view_of(match).type(match["x"]).dtype.kind == "complex" else same_type(match)


def real(match: Match) -> str | None:
    """For rules that hold for real numbers."""
    return same_type(match) if view_of(match).type(match["x"]).dtype.kind == "float" else "x is not real"


def real_not_negative(match: Match) -> str | None:
    """For rules that hold for real numbers from 0.0 on: -0.0 is none of them."""
    reason = real(match)
    if reason is not None:
        return reason
    interval = view_of(match).range(match["x"])
    if not excludes_negative(interval):
        return f"x may be negative: it lies in {interval}"
    return None if excludes_negative_zero(interval) else "x may be -0.0"


def no_negative_zero(match: Match) -> str | None:
    """For the sum with a zero: -0.0 + 0.0 is 0.0, so x must not be -0.0, or the zero is -0.0 itself."""
    view = view_of(match)
    if view.type(match["x"]).dtype.kind == "int" or _signs(view.config(match["constant"])["value"]).all():
        return same_type(match)
    return same_type(match) if excludes_negative_zero(view.range(match["x"])) else "x may be -0.0"


def is_positive_zero(value: Any) -> bool:
    """Whether a constant is 0.0 everywhere, and nowhere -0.0."""
    return every(0)(value) and not _signs(value).any()


def _signs(value: Any) -> NDArray[np.bool_]:
    """Where the numbers of a constant, and both parts of complex ones, have a negative sign."""
    array = np.asarray(value)
    return np.asarray(np.signbit(np.stack([array.real, array.imag]) if np.iscomplexobj(array) else array))
