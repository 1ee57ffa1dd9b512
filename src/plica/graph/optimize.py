"""Rewriting: rules, and one pass of them over a graph.

A rule is a pattern and a function from a match to the small graph that replaces it. The pass matches, replaces,
and joins the replacements to the rest at entry and exit points; the graph that it was given stays as it is.

    >>> from plica.graph.pattern import Entry
    >>> edges = {"exp": ("log",), "log": ("x",), "x": (), "sum": ("exp", "x")}
    >>> view = GraphView(tuple("x log exp sum".split()), ("sum",), edges.__getitem__, kind=str, fits=str.__eq__)
    >>> rule = Rule(
    ...     "exp-log",
    ...     "exp(log(x)) -> x",
    ...     Pattern(Entry("outer", "exp", ("inner",)), Entry("inner", "log", ("x",))),
    ...     lambda match: Replacement.by(match["x"]),
    ...     laws=ORDINARY,
    ... )
    >>> result = optimize_graph(view, [rule])
    >>> result.nodes, result.inputs["sum"]
    (('x', 'sum'), ('x', 'x'))
    >>> optimize_graph(GraphView(("x",), ("x",), edges.__getitem__, kind=str, fits=str.__eq__), [rule]) is None
    True
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic

from plica.errors import GraphError
from plica.graph.bind import exposed, inputs_may_fit, pattern_matcher
from plica.graph.match import Condition, MatchFunction, Neighbours, Search, add_place, match_optimization_patterns
from plica.graph.order import lazy_consumers, topological_order
from plica.graph.pattern import Pattern
from plica.graph.strategy import OptMatchStrategy, Strategy
from plica.graph.view import GraphOptMatch, GraphView, NearMiss, Node, Replacement, kind_fits

__all__ = ["ORDINARY", "Applied", "OptimizedGraph", "Replacement", "Rule", "optimize_graph"]

ORDINARY: frozenset[Any] = frozenset()
"""The laws of rules on ordinary arithmetic, and of equations that hold in every algebra: none."""


@dataclass(frozen=True, slots=True, eq=False)
class Rule:
    """One rewrite rule, an entry of a table.

    Args:
        name: Its name in reports.
        equation: The equation to read: `exp(log(x)) -> x`.
        pattern: The pattern that it replaces.
        replacement: The small graph for a match.
        condition: Why a match is declined, or None; the part before `: ` should not depend on the match.
        source: Where the equation is from, or why it holds.
        laws: The laws of the graph's algebra that make the equation true; none where it holds in every algebra, or
            where the graph is one of ordinary arithmetic. There is no default: who writes a rule has to think of them.

    Raises:
        GraphError: The rule states no laws.
    """

    name: str
    equation: str
    pattern: Pattern
    replacement: Callable[[GraphOptMatch[Any]], Replacement[Any]]
    condition: Condition | None = None
    source: str = ""
    laws: frozenset[Any] | None = None

    def __repr__(self) -> str:
        return f"Rule({self.name!r})"

    def __post_init__(self) -> None:
        if self.laws is None:
            raise GraphError(
                f"the rule {self.name!r} does not state the laws that it needs; pass "
                "laws=frozenset({Law.DISTRIBUTIVE, ...}), or laws=ORDINARY where the equation holds in every algebra"
            )


@dataclass(frozen=True, slots=True, eq=False)
class Applied(Generic[Node]):
    """One rule applied at one place."""

    rule: Rule
    match: GraphOptMatch[Node]
    replacement: Replacement[Node]


@dataclass(frozen=True, slots=True, eq=False)
class OptimizedGraph(Generic[Node]):
    """The graph after one pass.

    Args:
        nodes: In topological order.
        inputs: The inputs of every node.
        outputs: In the order of the outputs before.
        applied: The applied rules, in topological order.
        entry_points: For each match, its first node in topological order of the graph before.
        exit_points: For each match, the node that stands for its root.
    """

    nodes: tuple[Node, ...]
    inputs: dict[Node, tuple[Node, ...]]
    outputs: tuple[Node, ...]
    applied: tuple[Applied[Node], ...]
    entry_points: dict[GraphOptMatch[Node], Node]
    exit_points: dict[GraphOptMatch[Node], Node]


def optimize_graph(
    graph: GraphView[Node],
    rules: Sequence[Rule],
    strategy: Strategy = OptMatchStrategy.LARGEST_MATCH,
    on_near_miss: Callable[[Rule, NearMiss[Node]], None] | None = None,
    match_function: MatchFunction | None = None,
) -> OptimizedGraph[Node] | None:
    """One pass: every match that `strategy` chooses is replaced, all at once. None where nothing is to be applied.

    Args:
        graph: The graph to rewrite; it stays as it is.
        rules: The rules, the preferred first.
        strategy: Which of the matches that overlap is applied.
        on_near_miss: Called where a rule nearly matched.
        match_function: Whether a pattern holds at a node; `pattern_matcher(graph)` by default.

    Raises:
        GraphError: A rule's replacement reads a node that its match does not offer.
    """
    replacements: dict[GraphOptMatch[Node], Replacement[Node]] = {}

    def replacement(match: GraphOptMatch[Node]) -> Replacement[Node]:
        if match not in replacements:
            replacements[match] = _replacement(rules[match.number], match)
        return replacements[match]

    def tell(miss: NearMiss[Node]) -> None:
        assert on_near_miss is not None, "it is called only where there is a listener"
        on_near_miss(rules[miss.number], miss)

    rules_at = _rules_by_root(graph, rules, by_inputs=match_function is None)
    if not rules_at:
        return None
    search = Search(
        graph,
        [rule.condition for rule in rules],
        rules_at.__getitem__,
        None if on_near_miss is None else tell,
        replacement,
        [rule.name for rule in rules],
    )
    matches, by_root = match_optimization_patterns(
        rules_at,
        graph.outputs,
        [rule.pattern for rule in rules],
        graph.inputs,
        lazy_consumers(graph.nodes, graph.inputs),
        pattern_matcher(graph) if match_function is None else _safe(match_function, graph),
        strategy,
        search,
    )
    if not matches:
        return None
    applied = {match: Applied(rules[match.number], match, replacement(match)) for match in matches}
    return _Assembly(graph, by_root, applied).run()


def _safe(match_function: MatchFunction, graph: GraphView[Node]) -> MatchFunction:
    """A custom matching function whose matches that would fuse away a node with other readers are near misses."""

    def safe(node: Any, pattern: Pattern, inputs: Neighbours, readers: Neighbours) -> Any:
        result = match_function(node, pattern, inputs, readers)
        problem = None
        # the search itself refuses a match that lacks a node
        if isinstance(result, GraphOptMatch) and result.nodes.keys() >= pattern.by_name.keys():
            problem = exposed(result, graph, readers)
        return result if problem is None else NearMiss(node, problem.why, problem.detail)

    return safe


def _rules_by_root(graph: GraphView[Node], rules: Sequence[Rule], *, by_inputs: bool) -> dict[Node, Sequence[int]]:
    """For each node where rules may have their roots, which rules: looked up by kind, since most nodes have none.

    Args:
        graph: The graph.
        rules: The rules.
        by_inputs: Whether the kinds of the inputs count beside the node's own.
    """
    roots: dict[Any, list[int]] = {}
    known: dict[Any, list[int]] = {}
    rules_at: dict[Node, Sequence[int]] = {}
    for node in graph.nodes:
        kind = graph.kind(node)
        numbers = roots.get(kind)
        if numbers is None:
            numbers = [number for number, rule in enumerate(rules) if kind_fits(graph.fits, kind, rule.pattern.root)]
            roots[kind] = numbers
        if numbers and by_inputs:
            kinds = (kind, *map(graph.kind, graph.inputs(node)))
            if kinds not in known:
                of_inputs = dict.fromkeys(kinds[1:])
                known[kinds] = [
                    number
                    for number in numbers
                    if inputs_may_fit(graph.fits, rules[number].pattern, len(kinds) - 1, of_inputs)
                ]
            numbers = known[kinds]
        if numbers:
            rules_at[node] = numbers
    return rules_at


def _replacement(rule: Rule, match: GraphOptMatch[Node]) -> Replacement[Node]:
    """The checked replacement of a match by its rule."""
    try:
        replacement = rule.replacement(match)
    except Exception as error:
        add_place(error, f"in rule {rule.name} at {match.graph.describe(match.root)}")
        raise
    if not isinstance(replacement, Replacement):
        raise GraphError(
            f"rule {rule.name} at {match.graph.describe(match.root)}: it gave {replacement!r}; return "
            "Replacement.chain(inputs, node, ...) for new nodes, or Replacement.by(node) for one that is there"
        )
    known: dict[Node, None] = {node: None for nodes in match.inputs.values() for node in nodes}
    known.update((match.nodes[entry.name], None) for entry in match.pattern.entries if entry.preserved)
    for node, inputs in replacement.nodes:
        for child in inputs:
            if child not in known:
                raise GraphError(_foreign(rule, match, child))
        known[node] = None
    if replacement.output not in known:
        raise GraphError(_foreign(rule, match, replacement.output))
    return replacement


def _foreign(rule: Rule, match: GraphOptMatch[Node], node: Node) -> str:
    offered = ", ".join(name.removeprefix("*") for name in match.pattern.inputs) or "nothing"
    return (
        f"rule {rule.name} at {match.graph.describe(match.root)}: its replacement reads {match.graph.describe(node)}, "
        f"which it neither made before nor was given; the inputs of the match are {offered}"
    )


def made_before(applied: Applied[Node], node: Node) -> str:
    """The error text for a replacement that reuses a node of another match."""
    rule, graph = applied.rule, applied.match.graph
    return (
        f"rule {rule.name} at {graph.describe(applied.match.root)}: its replacement has {graph.describe(node)}, an "
        "object that is already used elsewhere; construct new nodes within the function, for each match"
    )


class _Assembly(Generic[Node]):
    """The new graph under construction."""

    def __init__(
        self,
        graph: GraphView[Node],
        by_root: dict[Node, GraphOptMatch[Node]],
        applied: dict[GraphOptMatch[Node], Applied[Node]],
    ) -> None:
        self.graph, self.by_root, self.applied = graph, by_root, applied
        self.owner = {node: match for match in applied for node in match.fused}
        self.taken = dict.fromkeys(graph.nodes)
        self.inputs: dict[Node, tuple[Node, ...]] = {}
        self.entry_points: dict[GraphOptMatch[Node], Node] = {}
        self.exit_points: dict[GraphOptMatch[Node], Node] = {}

    def run(self) -> OptimizedGraph[Node]:
        """Walk the old graph in topological order; a match is built where its root stood."""
        for node in self.graph.nodes:
            match = self.owner.get(node)
            if match is None:
                self.inputs[node] = tuple(map(self.current, self.graph.inputs(node)))
                continue
            self.entry_points.setdefault(match, node)
            if node is match.root:
                self.build(match)
        outputs = tuple(map(self.current, self.graph.outputs))
        nodes = self.live(outputs)
        inputs = {node: self.inputs[node] for node in nodes}
        done = tuple(self.applied.values())
        return OptimizedGraph(nodes, inputs, outputs, done, self.entry_points, self.exit_points)

    def current(self, node: Node) -> Node:
        """The node of the new graph that stands for a node of the old one."""
        match = self.by_root.get(node)
        return node if match is None else self.exit_points[match]

    def build(self, match: GraphOptMatch[Node]) -> None:
        """Put the replacement of a match in its place."""
        replacement = self.applied[match].replacement
        new = dict.fromkeys(replacement.new)
        for node in new:
            if node in self.taken and self.owner.get(node) is not match and not self.graph.is_value(node):
                raise GraphError(made_before(self.applied[match], node))
        self.taken.update(new)
        for node, inputs in replacement.nodes:
            self.inputs[node] = tuple(child if child in new else self.current(child) for child in inputs)
        self.exit_points[match] = replacement.output if replacement.output in new else self.current(replacement.output)

    def live(self, outputs: tuple[Node, ...]) -> tuple[Node, ...]:
        """The nodes that outputs need, and those that were unread before: only nodes that this pass made unread go."""
        read: dict[Node, None] = {child: None for node in self.graph.nodes for child in self.graph.inputs(node)}
        unread = [self.current(node) for node in self.graph.nodes if node not in read]
        needed = dict.fromkeys(topological_order([*outputs, *unread], self.inputs.__getitem__))
        return tuple(node for node in self.inputs if node in needed)
