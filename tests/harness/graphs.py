"""Graphs of letters for tests of the engine: `view("s = x; y = f s; z = g y s", "z")`."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from plica.graph.view import MISSING, GraphView


@dataclass(frozen=True, eq=False)
class Letter:
    """A node: a kind, a name and settings."""

    name: str
    kind: str
    settings: Mapping[str, Any] = field(default_factory=dict)

    def __repr__(self) -> str:
        return self.name


@dataclass(frozen=True)
class Letters:
    """A graph of letters.

    Args:
        nodes: By name, in topological order.
        inputs: By name.
        outputs: Names.
    """

    nodes: dict[str, Letter]
    inputs: dict[str, tuple[str, ...]]
    outputs: tuple[str, ...]

    def view(self, **settings: Any) -> GraphView[Letter]:
        """The graph as the engine sees it."""
        edges = {self.nodes[name]: tuple(self.nodes[one] for one in inputs) for name, inputs in self.inputs.items()}
        return GraphView(
            tuple(self.nodes.values()),
            tuple(self.nodes[name] for name in self.outputs),
            edges.__getitem__,
            kind=lambda node: node.kind,
            fits=str.__eq__,
            config=lambda node: node.settings,
            fact=lambda node, name: node.settings.get(name, MISSING),
            **settings,
        )


def letters(text: str, *outputs: str, **settings: Mapping[str, Any]) -> Letters:
    """`name = kind input input ...` for each node, separated by semicolons; `name` alone is an input of kind `name`."""
    nodes, inputs = {}, {}
    for line in text.split(";"):
        name, _, right = (part.strip() for part in line.partition("="))
        kind, *names = right.split() or [name]
        nodes[name] = Letter(name, kind, settings.get(name, {}))
        inputs[name] = tuple(names)
    return Letters(nodes, inputs, outputs)
