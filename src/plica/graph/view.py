"""The data of the engine of patterns and rules: a graph as it sees it, a match, a near miss and a replacement.

>>> edges = {"exp": ("log",), "log": ("x",), "x": ()}
>>> view = GraphView(tuple("x log exp".split()), ("exp",), edges.__getitem__, kind=str, fits=str.__eq__)
>>> view.inputs("exp")
('log',)
"""

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from operator import attrgetter
from typing import Any, Generic, TypeVar, final

from plica.errors import GraphError
from plica.graph.pattern import Entry, Pattern

Node = TypeVar("Node", bound=Hashable)


@final
class _Missing:
    def __repr__(self) -> str:
        return "missing"


MISSING = _Missing()
"""The value of a name that a node does not have."""


def attribute_or_missing(node: object, name: str) -> Any:
    """The attribute of a node."""
    return getattr(node, name, MISSING)


def is_a(kind: Any, wanted: Any) -> bool:
    """Whether a class is `wanted` or a subclass of it.

    A class that is declared final is itself alone: a class derived from it means something else.
    """
    return kind is wanted or (issubclass(kind, wanted) and not _is_final(wanted))


def derives_from_final(kind: type) -> bool:
    """Whether a class is derived from one that is declared final."""
    return any(map(_is_final, kind.__mro__[1:]))


def _is_final(kind: type) -> bool:
    return "__final__" in vars(kind)


@dataclass(frozen=True, slots=True, eq=False)
class GraphView(Generic[Node]):
    """A graph as the engine sees it.

    Args:
        nodes: In topological order.
        outputs: The nodes that are results.
        inputs: The inputs of a node, in order.
        kind: Gives the kind that patterns compare: by default the class.
        fits: `fits(kind, wanted)`; by default `is_a`.
        config: The settings of a node, which config patterns read; by default its `config`.
        fact: `fact(node, name)`: another fact of a node, and `MISSING` where it has none of that name; by default the
            attribute.
        sub_graph: `sub_graph(node, name)`: a small graph that the node carries, None where it carries none of the name.
        describe: The name of a node in messages.
        context: Further data for rules, such as the algebra; the caller's choice.
        is_value: Whether a node is a value, such as a number, which may stand in several matches.
    """

    nodes: tuple[Node, ...]
    outputs: tuple[Node, ...]
    inputs: Callable[[Node], Sequence[Node]]
    kind: Callable[[Node], Any] = type
    fits: Callable[[Any, Any], bool] = is_a
    config: Callable[[Node], Mapping[str, Any]] = attrgetter("config")
    fact: Callable[[Node, str], Any] = attribute_or_missing
    sub_graph: Callable[[Node, str], "GraphView[Any] | None"] | None = None
    describe: Callable[[Node], str] = str
    context: Any = None
    is_value: Callable[[Node], bool] = lambda _: False


def _nowhere() -> GraphView[Any]:
    """The graph of a match before the search has said where it is."""
    return GraphView((), (), lambda _: ())


@dataclass(frozen=True, slots=True, eq=False)
class GraphOptMatch(Generic[Node]):
    """A pattern found in a graph.

    A custom matching function gives the first three; the search fills in the graph and the number.

    Args:
        pattern: The pattern.
        nodes: The node of each entry, in the order of the entries.
        inputs: The nodes of each input, by name; one node unless the name is variadic.
        sub_matches: For each entry, all matches within what it carries, by name, in topological order of their roots;
            they may overlap, for nothing takes their place.
        graph: The graph.
        number: The position of the pattern among those searched for.
    """

    pattern: Pattern
    nodes: Mapping[str, Node]
    inputs: Mapping[str, tuple[Node, ...]] = field(default_factory=dict)
    sub_matches: Mapping[str, Mapping[str, tuple["GraphOptMatch[Any]", ...]]] = field(default_factory=dict)
    graph: GraphView[Node] = field(default_factory=_nowhere)
    number: int = 0

    @property
    def root(self) -> Node:
        """The node of the first entry: readers of the match read this node."""
        return self.nodes[self.pattern.root.name]

    @property
    def fused(self) -> tuple[Node, ...]:
        """The nodes that the replacement stands for, the root first."""
        return tuple(self.nodes[entry.name] for entry in self.pattern.entries if not entry.preserved)

    @property
    def context(self) -> Any:
        """The rule's context: of circuits and Programs a `RuleContext` (device, dtype, algebra)."""
        return self.graph.context

    def __getitem__(self, name: str) -> Any:
        """The node of an entry or of an input; the tuple of nodes of a variadic input, without its star.

        Raises:
            GraphError: The pattern has no such name.
        """
        if name in self.nodes:
            return self.nodes[name]
        if name not in self.inputs:
            inputs = ", ".join(input_name.removeprefix("*") for input_name in self.pattern.inputs) or "nothing"
            raise GraphError(
                f"a match of pattern {self.pattern.root.name} was asked for {name!r}; its entries are "
                f"{', '.join(self.pattern.by_name)}, its inputs {inputs} (asked for without a star)"
            )
        return self.inputs[name][0] if f"*{name}" not in self.pattern.inputs else self.inputs[name]


@dataclass(frozen=True, slots=True, eq=False)
class NearMiss(Generic[Node]):
    """A node where every kind fitted and the pattern does not hold.

    Args:
        root: The node at which the search was.
        why: The reason, in words that are the same wherever it occurs.
        detail: The same with the nodes named.
        number: The position of the pattern, which the search fills in.
    """

    root: Node
    why: str
    detail: str
    number: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class Replacement(Generic[Node]):
    """A small graph that stands for a match.

    Args:
        nodes: New nodes in topological order, each with its inputs: new nodes before it, or nodes that the match names
            as its inputs or keeps.
        output: The node that readers of the match read now: a new node, or one of those.
    """

    nodes: tuple[tuple[Node, tuple[Node, ...]], ...]
    output: Node

    @property
    def new(self) -> tuple[Node, ...]:
        """The nodes without their inputs."""
        return tuple(node for node, _ in self.nodes)

    @staticmethod
    def chain(inputs: Sequence[Node], *nodes: Node) -> "Replacement[Node]":
        """New nodes one after another, the first with `inputs`."""
        before = (tuple(inputs), *((node,) for node in nodes[:-1]))
        return Replacement(tuple(zip(nodes, before, strict=True)), nodes[-1])

    @staticmethod
    def by(node: Node) -> "Replacement[Node]":
        """Nothing new: a node that is there already stands for the match."""
        return Replacement((), node)


def kind_fits(fits: Callable[[Any, Any], bool], kind: Any, entry: Entry) -> bool:
    """Whether a node of a kind may stand where an entry is."""
    return entry.kind is None or _fits(fits, kind, entry.kind)


@lru_cache(maxsize=1024)
def _fits(fits: Callable[[Any, Any], bool], kind: Any, wanted: Any) -> bool:
    """Whether a kind is one of those wanted; called for every node, and so cached."""
    return any(fits(kind, single) for single in wanted) if isinstance(wanted, tuple) else fits(kind, wanted)
