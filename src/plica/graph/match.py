"""Matching: which nodes of a graph stand where a pattern says, and why some nearly do.

The engine holds for every rule that a node within a match is not fused away while another node reads it or while it is
itself an output. It knows nodes only through a `GraphView`.

    >>> from plica.graph.pattern import Entry
    >>> edges = {"exp": ("log",), "log": ("x",), "x": ()}
    >>> view = GraphView(tuple("x log exp".split()), ("exp",), edges.__getitem__, kind=str, fits=str.__eq__)
    >>> pattern = Pattern(Entry("outer", "exp", ("inner",)), Entry("inner", "log", ("argument",)))
    >>> matches, by_root, near_misses = match_optimization_patterns(view, [pattern])
    >>> matches[0]["argument"], by_root["exp"] is matches[0]
    ('x', True)

Taking the largest of overlapping matches is "maximal munch": R. G. G. Cattell, "Automatic derivation of code generators
from machine descriptions", ACM TOPLAS 2(2), 1980.
"""

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from functools import lru_cache
from itertools import permutations
from typing import Any, Generic, NamedTuple, TypeVar

from plica.graph.order import consumers
from plica.graph.pattern import Entry, Pattern, holds

Node = TypeVar("Node", bound=Hashable)


def is_a(kind: Any, wanted: Any) -> bool:
    """Whether a class is `wanted` or a subclass of it."""
    return issubclass(kind, wanted)


@dataclass(frozen=True, slots=True, eq=False)
class GraphView(Generic[Node]):
    """A graph as the engine sees it.

    Args:
        nodes: In topological order.
        outputs: The nodes that are results.
        inputs: The inputs of a node, in order.
        kind: What patterns compare: by default the class.
        fits: `fits(kind, wanted)`; by default whether one class is the other or a subclass of it.
        setting: `setting(node, name)`: by default the attribute.
        sub_graph: `sub_graph(node, name)`: a small graph that the node carries.
        describe: What messages call a node.
        facts: What conditions of rules may know beside the graph.
    """

    nodes: tuple[Node, ...]
    outputs: tuple[Node, ...]
    inputs: Callable[[Node], Sequence[Node]]
    kind: Callable[[Node], Any] = type
    fits: Callable[[Any, Any], bool] = is_a
    setting: Callable[[Node, str], Any] = getattr
    sub_graph: Callable[[Node, str], "GraphView[Any]"] | None = None
    describe: Callable[[Node], str] = str
    facts: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, eq=False)
class GraphOptMatch(Generic[Node]):
    """A pattern found in a graph.

    Args:
        pattern: What was searched for.
        number: The position of the pattern among those searched for.
        graph: Where.
        nodes: The node of each entry, in the order of the entries.
        inputs: The nodes of each input, by name; one node unless the name is variadic.
        sub_matches: For each entry, the matches within what it carries, by name.
    """

    pattern: Pattern
    number: int
    graph: GraphView[Node]
    nodes: Mapping[str, Node]
    inputs: Mapping[str, tuple[Node, ...]]
    sub_matches: Mapping[str, Mapping[str, "GraphOptMatch[Any]"]] = field(default_factory=dict)

    @property
    def root(self) -> Node:
        """The node of the first entry: what reads the match reads this."""
        return self.nodes[self.pattern.root.name]

    @property
    def fused(self) -> tuple[Node, ...]:
        """The nodes that the replacement stands for, the root first."""
        return tuple(self.nodes[entry.name] for entry in self.pattern.entries if not entry.kept)

    def __getitem__(self, name: str) -> Any:
        """The node of an entry or of an input; the tuple of nodes of a variadic input, without its star."""
        if name in self.nodes:
            return self.nodes[name]
        return self.inputs[name][0] if f"*{name}" not in self.pattern.inputs else self.inputs[name]


@dataclass(frozen=True, slots=True, eq=False)
class NearMiss(Generic[Node]):
    """A place where every kind fitted and the pattern does not hold.

    Args:
        number: The position of the pattern.
        root: The node at which it was searched for.
        why: The reason, in words that are the same for all places.
        detail: The same with the nodes named.
    """

    number: int
    root: Node
    why: str
    detail: str


class OptMatchStrategy(Enum):
    """Which of the matches that overlap is applied."""

    LARGEST_MATCH = auto()
    """The one of most nodes; of equal ones the earliest pattern; then the first in topological order."""
    FIRST_RULE = auto()
    """The one of the earliest pattern, however small; then the first in topological order."""


class Matches(NamedTuple, Generic[Node]):
    """What `match_optimization_patterns` found: no node is in two matches."""

    matches: tuple[GraphOptMatch[Node], ...]
    by_root: dict[Node, GraphOptMatch[Node]]
    near_misses: tuple[NearMiss[Node], ...]


Condition = Callable[[GraphOptMatch[Any]], str | None]


def match_optimization_patterns(
    graph: GraphView[Node],
    patterns: Sequence[Pattern],
    strategy: OptMatchStrategy = OptMatchStrategy.LARGEST_MATCH,
    conditions: Sequence[Condition | None] = (),
    explain: bool = True,
) -> Matches[Node]:
    """The matches to apply, in topological order of their roots.

    Args:
        graph: Where to search.
        patterns: What to search for.
        strategy: Which of the matches that overlap is kept.
        conditions: For each pattern, a function that gives the reason why a match is declined, or None.
        explain: Whether to say what nearly matched.
    """
    found, near_misses = _all_matches(graph, patterns, conditions, explain)
    position = {node: place for place, node in enumerate(graph.nodes)}
    kept = sorted(_without_overlap(found, strategy, position), key=lambda match: position[match.root])
    return Matches(tuple(kept), {match.root: match for match in kept}, tuple(near_misses))


def _all_matches(
    graph: GraphView[Node], patterns: Sequence[Pattern], conditions: Sequence[Condition | None], explain: bool
) -> tuple[list[GraphOptMatch[Node]], list[NearMiss[Node]]]:
    """Every match and every near miss."""
    applicable: dict[Any, list[int]] = {}
    readers: dict[Node, tuple[Node, ...]] | None = None
    found: list[GraphOptMatch[Node]] = []
    near_misses: list[NearMiss[Node]] = []
    for node in graph.nodes:
        kind = graph.kind(node)
        if kind not in applicable:
            applicable[kind] = [
                number for number, pattern in enumerate(patterns) if kind_fits(graph.fits, kind, pattern.root)
            ]
        for number in applicable[kind]:
            if readers is None:
                readers = consumers(graph.nodes, graph.inputs)
            result = match_pattern(graph, patterns[number], node, readers, number)
            if isinstance(result, GraphOptMatch) and number < len(conditions):
                result = _conditioned(result, conditions[number], explain)
            if isinstance(result, GraphOptMatch):
                found.append(result)
            elif result is not None and explain:
                near_misses.append(result)
    return found, near_misses


def _conditioned(
    match: GraphOptMatch[Node], condition: Condition | None, explain: bool
) -> "GraphOptMatch[Node] | NearMiss[Node] | None":
    reason = condition(match) if condition is not None else None
    if reason is None:
        return match
    if not explain:  # no text for nobody
        return None
    why = reason.partition(": ")[0]
    return NearMiss(match.number, match.root, why, f"{match.graph.describe(match.root)}: {reason}")


def _without_overlap(
    found: Sequence[GraphOptMatch[Node]], strategy: OptMatchStrategy, position: Mapping[Node, int]
) -> Iterator[GraphOptMatch[Node]]:
    """Matches by priority; one that fuses what another looks at, or looks at what another fuses, is left for later."""

    def priority(match: GraphOptMatch[Node]) -> tuple[int, int, int]:
        size = len(match.nodes) if strategy is OptMatchStrategy.LARGEST_MATCH else 0
        return (-size, match.number, position[match.root])

    fused: dict[Node, None] = {}
    touched: dict[Node, None] = {}
    for match in sorted(found, key=priority):
        if any(node in fused for node in match.nodes.values()) or any(node in touched for node in match.fused):
            continue
        fused.update(dict.fromkeys(match.fused))
        touched.update(dict.fromkeys(match.nodes.values()))
        yield match


def match_pattern(
    graph: GraphView[Node],
    pattern: Pattern,
    root: Node,
    readers: Mapping[Node, Sequence[Node]],
    number: int = 0,
) -> "GraphOptMatch[Node] | NearMiss[Node] | None":
    """The first way in which `pattern` holds with its root at `root`; why not, where all kinds fit; else None."""
    if not kind_fits(graph.fits, graph.kind(root), pattern.root) or not _inputs_may_fit(graph, pattern, root):
        return None
    missed: NearMiss[Node] | None = None
    start = _Binding({pattern.root.name: root}, {})
    for binding in _bindings(graph, pattern, (pattern.root,), start):
        match = GraphOptMatch(pattern, number, graph, binding.nodes, binding.inputs, {})
        problem = _problem(match, readers)
        if problem is None:
            subs = _sub_matches(match)
            if isinstance(subs, dict):
                return GraphOptMatch(pattern, number, graph, binding.nodes, binding.inputs, subs)
            problem = subs
        # A node alone that does not fit is no near miss: every node of its kind would be one.
        if missed is None and problem is not None and len(match.fused) > 1:
            missed = NearMiss(number, root, *problem)
    return missed


def _inputs_may_fit(graph: GraphView[Any], pattern: Pattern, root: Any) -> bool:
    """Whether every entry that the root reads finds some input of its kind: most places are left at this."""
    names = [name for name in pattern.root.inputs if name in pattern.by_name]
    if not names:
        return True
    kinds = [graph.kind(node) for node in graph.inputs(root)]
    return all(any(kind_fits(graph.fits, kind, pattern.by_name[name]) for kind in kinds) for name in names)


Problem = tuple[str, str]


def _problem(match: GraphOptMatch[Any], readers: Mapping[Any, Sequence[Any]]) -> Problem | None:
    """Why a match of fitting kinds does not hold: its place, its settings, or who else reads what it would remove."""
    graph, pattern = match.graph, match.pattern
    if pattern.is_output and not any(match.root is one for one in graph.outputs):
        return "the root is no output", f"{graph.describe(match.root)} is no output"
    for entry in pattern.entries:
        for name, condition in entry.config.items():
            value = graph.setting(match.nodes[entry.name], name)
            if not holds(condition, value):
                wanted = "" if callable(condition) else f", not {condition}"
                shown = str(value) if len(str(value)) < 60 else type(value).__name__
                why = f"{name} of {entry.name} does not fit"
                return why, f"{graph.describe(match.nodes[entry.name])}: {name} is {shown}{wanted}"
    inside = dict.fromkeys(match.fused)
    for node in match.fused[1:]:
        if any(node is one for one in graph.outputs):
            return "an interior node is an output", f"{graph.describe(node)} is itself an output"
        if any(node is one for taken in match.inputs.values() for one in taken):
            return "an interior node is read twice", f"{graph.describe(node)} is also an input of the match"
        for reader in readers[node]:
            if reader not in inside:
                names = f"{graph.describe(node)} is also read by {graph.describe(reader)}"
                return "an interior node has another consumer", names
    return None


def _sub_matches(match: GraphOptMatch[Any]) -> "dict[str, dict[str, GraphOptMatch[Any]]] | Problem":
    """The matches within what the nodes carry; a problem where one is missing."""
    found: dict[str, dict[str, GraphOptMatch[Any]]] = {}
    for entry in match.pattern.entries:
        for name, pattern in entry.sub_patterns.items():
            node, look = match.nodes[entry.name], match.graph.sub_graph
            assert look is not None, "a graph whose nodes carry graphs says how to see them"
            inner = match_optimization_patterns(look(node, name), [pattern]).matches
            if not inner:
                return (
                    f"the {name} of {entry.name} is of another form",
                    f"{match.graph.describe(node)}: its {name} differs",
                )
            found.setdefault(entry.name, {})[name] = inner[0]
    return found


class _Binding(NamedTuple):
    """Which nodes the names of a pattern stand for so far."""

    nodes: dict[str, Any]
    inputs: dict[str, tuple[Any, ...]]


def _bindings(
    graph: GraphView[Any], pattern: Pattern, todo: tuple[Entry, ...], binding: _Binding
) -> Iterator[_Binding]:
    """Every way to bind the inputs of the entries in `todo`; it nests as deep as the pattern has entries."""
    if not todo:
        yield binding
        return
    entry, *rest = todo
    found = tuple(graph.inputs(binding.nodes[entry.name]))
    orders = _orders(found) if entry.commutative else (found,)
    for order in orders:
        for extended in _read(graph, pattern, entry.inputs, order, binding):
            fresh = tuple(pattern.by_name[name] for name in extended.nodes if name not in binding.nodes)
            yield from _bindings(graph, pattern, (*rest, *fresh), extended)


def _orders(nodes: tuple[Any, ...]) -> Iterator[tuple[Any, ...]]:
    """The nodes in every order, as they are first; a long row of inputs stands in its own order alone."""
    return permutations(nodes) if len(nodes) <= 4 else iter((nodes,))


def _read(
    graph: GraphView[Any], pattern: Pattern, names: Sequence[str], nodes: tuple[Any, ...], binding: _Binding
) -> Iterator[_Binding]:
    """Every way in which `names` stand for `nodes`; a variadic name takes as few as it can first."""
    if not names:
        if not nodes:
            yield binding
        return
    name, *rest = names
    needed = sum(not one.startswith("*") for one in rest)
    if not name.startswith("*"):
        extended = _bound(graph, pattern, name, nodes[0], binding) if nodes else None
        if extended is not None:
            yield from _read(graph, pattern, rest, nodes[1:], extended)
        return
    most = len(nodes) - needed
    least = most if all(not one.startswith("*") for one in rest) else 0
    for count in range(max(least, 0), most + 1):
        taken, bare = nodes[:count], name[1:]
        if binding.inputs.get(bare, taken) == taken:
            yield from _read(
                graph, pattern, rest, nodes[count:], binding._replace(inputs={**binding.inputs, bare: taken})
            )


def _bound(graph: GraphView[Any], pattern: Pattern, name: str, node: Any, binding: _Binding) -> _Binding | None:
    """The binding with one more name; None where the name stands for another node, or the node for another entry."""
    entry = pattern.by_name.get(name)
    if entry is None:
        known = binding.inputs.get(name, (node,))
        return binding._replace(inputs={**binding.inputs, name: (node,)}) if known[0] is node else None
    if name in binding.nodes:
        return binding if binding.nodes[name] is node else None
    if not kind_fits(graph.fits, graph.kind(node), entry):
        return None
    if not entry.kept and any(node is other for other in binding.nodes.values()):
        return None
    return binding._replace(nodes={**binding.nodes, name: node})


def kind_fits(fits: Callable[[Any, Any], bool], kind: Any, entry: Entry) -> bool:
    """Whether a node of a kind may stand where an entry is."""
    return entry.kind is None or _fits(fits, kind, entry.kind)


@lru_cache(maxsize=1024)
def _fits(fits: Callable[[Any, Any], bool], kind: Any, wanted: Any) -> bool:
    """Whether a kind is one of those wanted; asked again for every node, so remembered."""
    return any(fits(kind, one) for one in wanted) if isinstance(wanted, tuple) else fits(kind, wanted)
