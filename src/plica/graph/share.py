"""Common subexpressions of any graph: two alike nodes are computed once.

>>> reads = {"a": "xy", "b": "yx", "c": "xy", "d": "ac"}
>>> alike(reads, reads.__getitem__, lambda node: (node,), lambda node: None if node == "d" else "add")
{'c': 'a'}
"""

from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import TypeVar

Node = TypeVar("Node")
Value = TypeVar("Value", bound=Hashable)


def alike(
    nodes: Iterable[Node],
    inputs: Callable[[Node], Sequence[Value]],
    outputs: Callable[[Node], Sequence[Value]],
    key: Callable[[Node], Hashable | None],
) -> dict[Value, Value]:
    """For each value that an earlier node computes too, that node's value.

    Args:
        nodes: In topological order.
        inputs: The values that a node reads, in order.
        outputs: The values that a node makes.
        key: The key that alike nodes share beside their inputs; None for a node that is like no other.
    """
    first: dict[Value, Value] = {}
    known: dict[Hashable, Node] = {}
    for node in nodes:
        own = key(node)
        if own is None:
            continue
        earlier = known.setdefault((own, tuple(first.get(value, value) for value in inputs(node))), node)
        if earlier is not node:
            first.update(zip(outputs(node), outputs(earlier), strict=True))
    return first
