"""Counts, sums and lists the models of smooth formulas, by walks over their nodes in Python.

>>> from plica.templates.logic.nodes import DisjunctionNode, LiteralNode, NegatedLiteralNode
>>> x, not_x, either = LiteralNode(0), NegatedLiteralNode(0), DisjunctionNode()
>>> in_nodes = {x: (), not_x: (), either: (x, not_x)}
>>> total(in_nodes, either, lambda variable, value: 1), list(models(in_nodes, either))
(2, [{0: 1}, {0: 0}])
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from plica.arguments import elements, found
from plica.errors import DTypeError, InputError, ShapeError
from plica.symbolic.scope import Scope
from plica.templates.logic.formula import InNodes
from plica.templates.logic.nodes import (
    BottomNode,
    ConjunctionNode,
    DisjunctionNode,
    LiteralNode,
    LogicalNode,
    NegatedLiteralNode,
    TopNode,
)

LiteralNumbers: TypeAlias = Callable[[int, int], Any]  # (variable, 0 or 1): the number of its literal
Pending: TypeAlias = tuple[LogicalNode, "Pending"] | None  # nodes that must still be made true, as a linked list


def total(in_nodes: InNodes, root: LogicalNode, numbers: LiteralNumbers) -> Any:
    """The sum over all models of the product of the numbers of their literals.

    Args:
        in_nodes: The inputs of each node, each node after its inputs; the formula is smooth, decomposable and
            deterministic.
        root: The output.
        numbers: The number of each literal; anything with + and *.
    """
    values: dict[LogicalNode, Any] = {}
    for node, inputs in in_nodes.items():
        match node:
            case LiteralNode(variable):
                values[node] = numbers(variable, 1)
            case NegatedLiteralNode(variable):
                values[node] = numbers(variable, 0)
            case TopNode():
                values[node] = 1
            case BottomNode():
                values[node] = 0
            case ConjunctionNode():
                first, *others = (values[child] for child in inputs)
                for other in others:
                    first = first * other
                values[node] = first
            case DisjunctionNode():
                first, *others = (values[child] for child in inputs)
                for other in others:
                    first = first + other
                values[node] = first
    return values[root]


def is_satisfiable(in_nodes: InNodes, root: LogicalNode, assignment: Mapping[int, int]) -> bool:
    """Whether an assignment of some variables extends to a model.

    Args:
        in_nodes: The inputs of each node, each node after its inputs; the formula is decomposable.
        root: The output.
        assignment: The values of some variables.
    """
    values: dict[LogicalNode, bool] = {}
    for node, inputs in in_nodes.items():
        match node:
            case LiteralNode(variable):
                values[node] = assignment.get(variable, 1) == 1
            case NegatedLiteralNode(variable):
                values[node] = assignment.get(variable, 0) == 0
            case TopNode() | BottomNode():
                values[node] = isinstance(node, TopNode)
            case ConjunctionNode():
                values[node] = all(values[child] for child in inputs)
            case DisjunctionNode():
                values[node] = any(values[child] for child in inputs)
    return values[root]


def models(in_nodes: InNodes, root: LogicalNode) -> Iterator[dict[int, int]]:
    """The models, each once; the time for each is linear in the number of gates that derive it.

    Args:
        in_nodes: The inputs of each node; the formula is smooth, decomposable and deterministic, and constants are
            outputs alone.
        root: The output.
    """
    if isinstance(root, BottomNode):
        return
    values: list[tuple[int, int]] = []
    pending: Pending = (root, None)
    # Of each disjunction on the way: the input that was chosen, what was pending after it, and how many values stood.
    choices: list[tuple[LogicalNode, int, Pending, int]] = []
    while True:
        while pending is not None:
            node, pending = pending
            match node:
                case LiteralNode(variable):
                    values.append((variable, 1))
                case NegatedLiteralNode(variable):
                    values.append((variable, 0))
                case ConjunctionNode():
                    for child in reversed(in_nodes[node]):
                        pending = (child, pending)
                case DisjunctionNode():
                    choices.append((node, 0, pending, len(values)))
                    pending = (in_nodes[node][0], pending)
        yield dict(sorted(values))
        while choices:
            node, chosen, rest, count = choices.pop()
            if chosen + 1 < len(in_nodes[node]):
                break
        else:
            return
        del values[count:]
        choices.append((node, chosen + 1, rest, count))
        pending = (in_nodes[node][chosen + 1], rest)


def literal_numbers(weights: Any, scope: Scope) -> LiteralNumbers:
    """The weights of literals, by variable and value.

    Args:
        weights: For some variables, the weights of the negative and of the positive literal; others have ones. Or an
            array `(..., D, 2)` of the weights of variables 0 to D - 1.
        scope: The variables that may have weights.

    Raises:
        InputError: A variable outside the scope has weights, or the array lacks a variable.
        ShapeError: A variable does not have two weights, or the array has another shape.
        DTypeError: The weights are neither.
    """
    if isinstance(weights, Mapping):
        pairs = {variable: [_exact(one) for one in _pair(variable, pair)] for variable, pair in weights.items()}
        if not Scope(pairs) <= scope:
            raise InputError(
                f"weighted_model_count: the weights name variables outside {scope!s}: {Scope(pairs) - scope!s}; pass "
                "scope, the variables over which models are summed"
            )
        return lambda variable, value: pairs[variable][value] if variable in pairs else 1
    if not hasattr(weights, "shape"):
        raise DTypeError(
            "weighted_model_count: the weights must be a mapping such as {0: (0.4, 0.6)}, or an array; "
            f"{found(weights)}"
        )
    if len(weights.shape) < 2 or weights.shape[-1] != 2 or weights.shape[-2] <= max(scope, default=-1):
        raise ShapeError(
            f"weighted_model_count: expected weights of shape (..., D, 2) with D above {max(scope, default=-1)}, the "
            f"highest variable, found {tuple(weights.shape)}"
        )
    exact = _exact(weights)
    return lambda variable, value: exact[..., variable, value]


def _exact(numbers: Any) -> Any:
    """The numbers, but an array of integers of any library as one of Python's integers, which never overflow."""
    dtype = str(getattr(numbers, "dtype", "")).rpartition(".")[2]
    if not dtype.startswith(("int", "uint", "bool")):
        return numbers
    return np.array(numbers.tolist(), dtype=object).reshape(numbers.shape)


def _pair(variable: int, pair: Any) -> Sequence[Any]:
    numbers = elements("weighted_model_count", f"the weights of variable {variable}", pair)
    if len(numbers) != 2:
        raise ShapeError(
            f"weighted_model_count: expected two weights of variable {variable}, of its negative and its positive "
            f"literal, found {pair!r}"
        )
    return numbers


def assignment_of(owner: str, values: Any, scope: Scope) -> dict[int, int]:
    """An assignment of some variables, as integers.

    Raises:
        DTypeError: It is no mapping.
        InputError: A value is neither 0 nor 1, or a variable is not in the scope.
    """
    if not isinstance(values, Mapping):
        raise DTypeError(f"{owner}: expected values of variables such as {{0: 1, 3: 0}}, {found(values)}")
    unknown = Scope(values) - scope
    if unknown:
        raise InputError(f"{owner}: the formula has no variables {unknown!s}; its variables are {scope!s}")
    for variable, value in values.items():
        if not np.isscalar(value) or value not in (0, 1):
            raise InputError(f"{owner}: variable {variable} must be 0 or 1, {found(value)}")
    return {variable: int(value == 1) for variable, value in values.items()}
